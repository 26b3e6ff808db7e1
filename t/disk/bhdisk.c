/*-------------------------------------------------------------------------
 *
 * bhdisk.c
 *		A disk that forgets what has not been synced, for a test.
 *
 * Killing a server does not lose what it has written: the kernel has it.  So
 * no test that kills servers can tell whether a file is synced when it must
 * be.  This library, preloaded into a server by LD_PRELOAD, keeps a copy of
 * each file of a user's relation as it was when it was synced last, in
 * directory "durable" of the directory that BHDISK_DIR names.  When the server
 * has been killed, the test puts these in the place of the files, which is what
 * a loss of power could have left.  Nothing is really synced.
 *
 * For other tests:
 *
 * - If there is a file "log", a line is added to it for each page written
 *	 ("W base/5/16384 7", with the block number) and each sync ("S ...").
 *
 * - If there is a file "hold" that has the name of a file and a block number,
 *	 like "base/5/16384 7", the write of that page makes a file "held" and
 *	 waits until "hold" is gone.
 *
 * This has nothing of PostgreSQL's in it, and is for Linux.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

#define PAGE 8192
#define PATH 1024
#define FIRST_USER_FILE 16384

typedef ssize_t (*pwrite_function) (int, const void *, size_t, off_t);
typedef ssize_t (*pwritev_function) (int, const struct iovec *, int, off_t);
typedef int (*unlink_function) (const char *);

/*
 * The part of a path from "base/" on, if it is a file of a user's relation.
 */
static const char *
relation_file(const char *path)
{
	const char *file = NULL;
	const char *name;

	for (const char *p = path; (p = strstr(p, "base/")) != NULL; p++)
	{
		if (p == path || p[-1] == '/')
			file = p;
	}
	if (file == NULL || (name = strrchr(file, '/')) == file + 4)
		return NULL;
	return atol(name + 1) >= FIRST_USER_FILE ? file : NULL;
}

/*
 * The same for an open file, whose path is put into buffer.
 */
static const char *
open_relation_file(int fd, char *buffer)
{
	char		link[64];
	ssize_t		len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, buffer, PATH - 1);
	if (len <= 0)
		return NULL;
	buffer[len] = '\0';
	return relation_file(buffer);
}

static void
in_directory(char *path, const char *name)
{
	const char *dir = getenv("BHDISK_DIR");

	snprintf(path, PATH, "%s/%s", dir ? dir : "/nonexistent", name);
}

static void
durable_path(char *path, const char *file, const char *suffix)
{
	char	   *name;

	in_directory(path, "durable/");
	name = path + strlen(path);
	snprintf(name, PATH - (name - path), "%s%s", file, suffix);
	for (; *name != '\0'; name++)
	{
		if (*name == '/')
			*name = '-';
	}
}

static void
note_event(char what, const char *file, long block)
{
	char		path[PATH];
	char		line[PATH];
	int			fd;

	in_directory(path, "log");
	if ((fd = open(path, O_WRONLY | O_APPEND)) < 0)
		return;
	snprintf(line, sizeof(line), "%c %s %ld\n", what, file, block);
	if (write(fd, line, strlen(line)) < 0)
		abort();
	close(fd);
}

/*
 * Wait, if this page is to be held.
 */
static void
hold(const char *file, long block)
{
	char		path[PATH];
	char		wanted[PATH];
	char		found[PATH];
	ssize_t		len;
	int			fd;

	in_directory(path, "hold");
	if ((fd = open(path, O_RDONLY)) < 0)
		return;
	len = read(fd, found, sizeof(found) - 1);
	close(fd);
	found[len > 0 ? len : 0] = '\0';
	snprintf(wanted, sizeof(wanted), "%s %ld", file, block);
	if (strcmp(wanted, found) != 0)
		return;

	in_directory(wanted, "held");
	if ((fd = open(wanted, O_WRONLY | O_CREAT, 0600)) >= 0)
		close(fd);
	while (access(path, F_OK) == 0)
		usleep(1000);
}

static void
before_write(int fd, size_t size, off_t offset)
{
	int			save_errno = errno;
	char		buffer[PATH];
	const char *file = open_relation_file(fd, buffer);

	if (file != NULL)
	{
		for (long block = offset / PAGE; block * PAGE < (long) (offset + size); block++)
		{
			hold(file, block);
			note_event('W', file, block);
		}
	}
	errno = save_errno;
}

EXPORT ssize_t
pwrite64(int fd, const void *data, size_t size, off_t offset)
{
	static pwrite_function next;

	if (next == NULL)
		next = (pwrite_function) dlsym(RTLD_NEXT, "pwrite64");
	before_write(fd, size, offset);
	return next(fd, data, size, offset);
}

EXPORT ssize_t
pwrite(int fd, const void *data, size_t size, off_t offset)
{
	return pwrite64(fd, data, size, offset);
}

EXPORT ssize_t
pwritev64(int fd, const struct iovec *iov, int iovcnt, off_t offset)
{
	static pwritev_function next;
	size_t		size = 0;

	if (next == NULL)
		next = (pwritev_function) dlsym(RTLD_NEXT, "pwritev64");
	for (int i = 0; i < iovcnt; i++)
		size += iov[i].iov_len;
	before_write(fd, size, offset);
	return next(fd, iov, iovcnt, offset);
}

EXPORT ssize_t
pwritev(int fd, const struct iovec *iov, int iovcnt, off_t offset)
{
	return pwritev64(fd, iov, iovcnt, offset);
}

/*
 * Keep a copy of a file.  Processes may sync the same file at once; one after
 * the other, so that no older copy is left in the place of a newer one.
 */
EXPORT int
fsync(int fd)
{
	static pwrite_function next;
	int			save_errno = errno;
	char		buffer[PATH];
	const char *file = open_relation_file(fd, buffer);

	if (file != NULL)
	{
		char		path[PATH];
		char		temporary[PATH];
		char		data[16 * PAGE];
		int			lock;
		int			to;
		off_t		offset = 0;
		ssize_t		len;

		if (next == NULL)
			next = (pwrite_function) dlsym(RTLD_NEXT, "pwrite64");
		in_directory(path, "lock");
		lock = open(path, O_RDWR | O_CREAT, 0600);
		if (lock < 0 || flock(lock, LOCK_EX) != 0)
			abort();
		durable_path(temporary, file, ".new");
		to = open(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		if (to < 0)
			abort();
		while ((len = pread(fd, data, sizeof(data), offset)) > 0)
		{
			if (next(to, data, len, offset) != len)
				abort();
			offset += len;
		}
		if (len < 0)
			abort();
		close(to);
		durable_path(path, file, "");
		if (rename(temporary, path) != 0)
			abort();
		close(lock);
		note_event('S', file, 0);
	}
	errno = save_errno;
	return 0;
}

EXPORT int
fdatasync(int fd)
{
	return fsync(fd);
}

/*
 * The file's name may be used again.
 */
EXPORT int
unlink(const char *path)
{
	static unlink_function next;
	const char *file = relation_file(path);

	if (next == NULL)
		next = (unlink_function) dlsym(RTLD_NEXT, "unlink");
	if (file != NULL)
	{
		char		durable[PATH];

		durable_path(durable, file, "");
		(void) next(durable);
	}
	return next(path);
}
