# Crashes and losses of power while the page writer loads
#
# The page writer goes past shared buffers, so it has to do by itself what they
# do for heap: a checkpoint must not begin between a page's record and its
# write, and must sync the file.  The kernel keeps what a killed server has
# written, which hides mistakes there.  So the servers here run on a "disk"
# that forgets what was not synced (t/disk): after the crash, each file of the
# users' tables is set back to what it was at its last sync.
#
# BATCHHEAP_LONG=1: 100 crashes at each wal_level instead of 5, and more pages at
# which a write is held.  BATCHHEAP_SEED repeats a run's random choices.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use BatchheapTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'needs /proc and LD_PRELOAD' if $^O ne 'linux';

my $library = built_library('disk', 'bhdisk');
my $seed = $ENV{BATCHHEAP_SEED} // int(rand(1_000_000));
srand($seed);
note("BATCHHEAP_SEED=$seed");

my %disk;		# directory of the disk's, by name of the node

#
# The server and its disk
#

sub start_on_disk
{
	my ($node) = @_;
	local $ENV{LD_PRELOAD} = $library;
	local $ENV{BHDISK_DIR} = $disk{ $node->name };

	# A killed server has left these; as long as nobody collects the dead
	# process, it passes for one that is running.
	unlink $node->data_dir . '/postmaster.pid', $node->host . '/.s.PGSQL.' . $node->port . '.lock';

	# its memory may outlive it for a moment
	foreach (1 .. 20)
	{
		my $seen = -e $node->logfile ? -s $node->logfile : 0;
		return if $node->start(fail_ok => 1);
		die 'the server does not start'
		  if substr(slurp_file($node->logfile), $seen) !~ /pre-existing shared memory block|lock file/;
		$node->{_pid} = undef;
		usleep(500_000);
	}
	die 'the server does not start';
}

sub disk_node
{
	my ($name, $init, $conf) = @_;
	my $node = new_node($name,
		init => { %$init, extra => ['--data-checksums'] },
		conf => "fsync = on\nlog_checkpoints = on\nrestart_after_crash = on\ncheckpoint_timeout = 1h\n" . $conf,
		start => 0);

	$disk{$name} = PostgreSQL::Test::Utils::tempdir();
	mkdir "$disk{$name}/durable" or die $!;
	start_on_disk($node);
	q1($node, q{
CREATE EXTENSION batchheap;
CREATE EXTENSION pg_visibility;
CREATE EXTENSION amcheck;
});
	return $node;
}

# Wait until the server accepts connections.  (poll_query_until() may write to
# a psql that has ended.)
sub wait_for_start
{
	my ($node) = @_;
	my $output = '';

	foreach (1 .. 100 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return
		  if IPC::Run::run([ 'psql', '-XAtqc', 'SELECT 1', '-d', $node->connstr('postgres') ], '>&', \$output);
		usleep(10_000);
	}
	die "the server does not start again: $output";
}

sub server_processes
{
	my ($node) = @_;
	my $data = $node->data_dir;
	return map { m{(\d+)} } grep { (readlink($_) // '') eq $data } glob('/proc/[0-9]*/cwd');
}

# The postmaster's children notice by themselves that it has been killed.
sub wait_for_end
{
	my ($node) = @_;

	foreach (1 .. 100 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if !server_processes($node);
		usleep(10_000);
	}
	die 'the server does not end';
}

# All processes end at once, without a chance to clean up.
sub cut_power
{
	my ($node) = @_;
	my $postmaster = $node->{_pid};

	kill 'STOP', $postmaster;
	kill 'KILL', grep { $_ != $postmaster } server_processes($node);
	$node->kill9;
	wait_for_end($node);
	return;
}

# What is not synced is lost.
sub lose_power
{
	my ($node) = @_;
	my $changed = 0;

	foreach my $file (glob($node->data_dir . '/base/*/*'))
	{
		my ($db, $name) = $file =~ m{/base/(\d+)/((\d+)[^/]*)$} or next;
		next if $3 < 16384 || !-f $file;
		my $durable = $disk{ $node->name } . "/durable/base-$db-$name";
		my $now = slurp_file($file);
		my $then = -e $durable ? slurp_file($durable) : '';

		next if $now eq $then;
		$changed++;
		open my $out, '>:raw', $file or die "could not write $file: $!";
		print $out $then;
		close $out or die "could not write $file: $!";
	}
	return $changed;
}

sub crash
{
	my ($node) = @_;
	cut_power($node);
	my $changed = lose_power($node);
	start_on_disk($node);
	return $changed;
}

# What has happened on the disk since start_noting(): [ what, file, block ]
sub start_noting
{
	my ($node) = @_;
	my $log = $disk{ $node->name } . '/log';
	unlink $log;
	append_to_file($log, '');
	return;
}

sub noted
{
	my ($node) = @_;
	my $log = $disk{ $node->name } . '/log';
	my @events = map { [ split / / ] } split /\n/, slurp_file($log);
	unlink $log;
	return @events;
}

# Is the last write of a file followed by a sync?
sub is_synced
{
	my ($file, @events) = @_;
	my $last = (grep { $_->[1] eq $file } @events)[-1];
	return defined $last && $last->[0] eq 'S';
}

#
# What is written when
#

my %nodes = (
	replica => disk_node('replica', { allows_streaming => 1 }, ''),
	minimal => disk_node('minimal', {}, ''));

my @writers = page_writer_modes($nodes{replica});
if (!grep { $_ eq 'on' } @writers)
{
	$_->stop foreach values %nodes;
	plan skip_all => 'there is no page writer';
}
my $paged = set_writer('on');

foreach my $node (values %nodes)
{
	q1($node, q{
CREATE TABLE h AS SELECT i, 'text ' || i || repeat('.', i % 90) AS t FROM generate_series(1, 9000) i;
CREATE TABLE done (n int, name text);
CREATE FUNCTION rows_of(n int, nrows int, longs int) RETURNS TABLE (i int, t text) LANGUAGE sql STABLE AS $$
	SELECT i, CASE WHEN i % longs = 0 THEN (SELECT string_agg(md5((n * i + k)::text), '') FROM generate_series(1, 100) k)
		ELSE repeat(md5((n * i)::text), 1 + (n + i) % 9) END
	FROM generate_series(1, nrows) i $$;
CREATE TABLE emptied (i int, t text) USING batchheap;
CHECKPOINT;
});
}

foreach (
	[ 'logged', 'replica', 'CREATE TABLE b USING batchheap AS TABLE h', 'checkpoint' ],
	[ 'created in the transaction', 'replica',
		'BEGIN; CREATE TABLE b (i int, t text) USING batchheap; INSERT INTO b TABLE h; COMMIT', 'checkpoint' ],
	[ 'unlogged', 'replica', 'CREATE UNLOGGED TABLE b USING batchheap AS TABLE h', 'checkpoint' ],
	[ 'too large to be logged', 'minimal', q{SET wal_skip_threshold = '64kB'; CREATE TABLE b USING batchheap AS TABLE h}, 'commit' ])
{
	my ($name, $level, $load, $synced_by) = @$_;
	my $node = $nodes{$level};

	start_noting($node);
	q1($node, "$paged $load");
	my @at_commit = noted($node);
	my $file = q1($node, q{SELECT pg_relation_filepath('b')});
	my $npages = q1($node, q{SELECT pg_relation_size('b') / current_setting('block_size')::int});

	cmp_ok($npages, '>', 64, "$name: many pages");
	is(join(' ', map { $_->[2] } grep { $_->[0] eq 'W' && $_->[1] eq $file } @at_commit),
		join(' ', 0 .. $npages - 1), "$name: each page is written once, in order");
	is(join(' ', map { $_->[2] } grep { $_->[0] eq 'W' && $_->[1] eq "${file}_vm" } @at_commit),
		'0', "$name: so is the visibility map");
	is(is_synced($file, @at_commit) ? 1 : 0, $synced_by eq 'commit' ? 1 : 0, "$name: whether the load syncs the table's file by itself");

	start_noting($node);
	q1($node, 'CHECKPOINT');
	my @events = (@at_commit, noted($node));
	ok(is_synced($file, @events), "$name: the table's file is synced by $synced_by");
	ok(is_synced("${file}_vm", @events), "$name: the visibility map's file, too");
	q1($node, 'DROP TABLE b');
}

# In the middle of a load, and at its end
{
	my $node = $nodes{replica};
	my $holder = $node->background_psql('postgres', on_error_stop => 0);
	my $loader = $node->background_psql('postgres', on_error_stop => 0);

	q1($node, BLOCKING_FUNCTION);
	$holder->query_safe('SELECT pg_advisory_lock(4711)');
	start_noting($node);
	$loader->query_until(qr/started/,
		"\\echo started\n$paged CREATE TABLE b USING batchheap AS SELECT stop_at(i, 8000) AS i, t FROM h;\n\\echo done\n");
	wait_for_lock($node);
	q1($node, 'CHECKPOINT');
	my @first = noted($node);
	start_noting($node);
	$holder->query_safe('SELECT pg_advisory_unlock(4711)');
	$loader->query_until(qr/done/, '');
	q1($node, 'CHECKPOINT');
	my @second = noted($node);
	my $file = q1($node, q{SELECT pg_relation_filepath('b')});

	foreach ([ 'in the middle of a load', \@first ], [ 'after its end', \@second ])
	{
		my ($when, $events) = @$_;
		cmp_ok(scalar(grep { $_->[0] eq 'W' && $_->[1] eq $file } @$events), '>', 5, "$when: pages have been written");
		ok(is_synced($file, @$events), "$when: a checkpoint syncs them");
	}
	$_->quit foreach ($holder, $loader);
	crash($node);
	sound_copy($node, 'h', 'b', 'a checkpoint in the middle of a load: all rows are there');
	all_frozen($node, 'b', 'a checkpoint in the middle of a load: they are frozen');
	q1($node, 'DROP TABLE b');
}

# At wal_level = minimal, the pages of a small table are logged at commit, and
# the file may be lost.
{
	my $node = $nodes{minimal};

	q1($node, "SET wal_skip_threshold = '1GB'; $paged CREATE TABLE b USING batchheap AS TABLE h");
	cmp_ok(crash($node), '>', 0, 'small enough to be logged: files are lost');
	sound_copy($node, 'h', 'b', 'small enough to be logged: all rows are there');
	all_frozen($node, 'b', 'small enough to be logged: they are frozen');
	q1($node, 'DROP TABLE b');
}

#
# A page that has been logged and is not written: no checkpoint gets by
#
# If one did, its redo pointer would be after the page's record, and the page
# would not be in the file that it syncs.  That the checkpoint is not over within
# a second proves nothing by itself; that the rows are there after a loss of
# power does.
#

foreach my $held (qw(0 vm), long_run() ? qw(1 7 15 16 17 60) : ())
{
	my $node = $nodes{replica};
	my $loader = $node->background_psql('postgres', on_error_stop => 0);
	my $disk = $disk{ $node->name };

	$loader->query_safe("$paged BEGIN; CREATE TABLE b (i int, t text) USING batchheap");
	my $file = $loader->query_safe(q{SELECT pg_relation_filepath('b')});
	my $page = $held eq 'vm' ? "${file}_vm 0" : "$file $held";
	append_to_file("$disk/hold.new", $page);
	rename "$disk/hold.new", "$disk/hold" or die $!;
	$loader->query_until(qr/started/, "\\echo started\nINSERT INTO b TABLE h;\nCOMMIT;\n\\echo done\n");
	foreach (1 .. 100 * $PostgreSQL::Test::Utils::timeout_default)
	{
		last if -e "$disk/held";
		usleep(10_000);
	}
	ok(unlink("$disk/held"), "page $held: its write is held");

	my $started = () = slurp_file($node->logfile) =~ /checkpoint starting/g;
	my ($out, $err) = ('', '');
	my $checkpoint = IPC::Run::start([ 'psql', '-XAtq', '-c', 'CHECKPOINT', '-d', $node->connstr('postgres') ],
		'>', \$out, '2>', \$err);
	foreach (1 .. 100 * $PostgreSQL::Test::Utils::timeout_default)
	{
		last if (() = slurp_file($node->logfile) =~ /checkpoint starting/g) > $started;
		usleep(10_000);
	}
	my $over = 0;
	foreach (1 .. 100)
	{
		$checkpoint->pump_nb;
		$over = 1 if !$checkpoint->pumpable;
		last if $over;
		usleep(10_000);
	}
	ok(!$over, "page $held: a checkpoint waits for it");
	unlink "$disk/hold" or die $!;
	$checkpoint->finish;
	$loader->query_until(qr/done/, '');
	$loader->quit;
	crash($node);
	sound_copy($node, 'h', 'b', "page $held: all rows are there");
	all_frozen($node, 'b', "page $held: they are frozen");
	q1($node, 'DROP TABLE b');
}

#
# At random
#
# Transactions load tables, each with its heap twin, while another session makes
# one checkpoint after the other.
#

my $n = 0;

sub transaction
{
	my ($unlogged) = @_;
	$n++;
	my ($nrows, $longs) = (1 + int(rand(9000)), rand() < 0.2 ? 100 : 100_000);
	my $kind = int(rand($unlogged ? 8 : 7));
	my $threshold = (qw(0 64kB 1GB))[ int(rand(3)) ];
	my $load = (
		"CREATE TABLE b$n USING batchheap AS TABLE h$n",
		"CREATE TABLE b$n (i int, t text) USING batchheap; INSERT INTO b$n TABLE h$n",
		"CREATE MATERIALIZED VIEW b$n USING batchheap AS TABLE h$n; REFRESH MATERIALIZED VIEW b$n",
		"CREATE TABLE b$n AS TABLE h$n; ALTER TABLE b$n SET ACCESS METHOD batchheap",
		"SAVEPOINT s; CREATE TABLE b$n USING batchheap AS TABLE h$n; ROLLBACK TO s; "
		  . "CREATE TABLE b$n USING batchheap AS TABLE h$n; RELEASE s",
		"CREATE TABLE b$n USING batchheap AS TABLE h$n",
		"TRUNCATE emptied; INSERT INTO emptied TABLE h$n",
		"CREATE UNLOGGED TABLE b$n USING batchheap AS TABLE h$n")[$kind];
	my $name = ("b$n", "b$n", "b$n", "b$n", "b$n", "b$n", 'emptied', "unlogged b$n")[$kind];
	my $index = $kind != 6 && rand() < 0.5 ? "CREATE INDEX b${n}_i ON b$n (i);" : '';
	my $end = $kind == 5 ? "PREPARE TRANSACTION 'p$n';\nCOMMIT PREPARED 'p$n';" : 'COMMIT;';

	return qq{$paged
SET wal_skip_threshold = '$threshold';
BEGIN;
CREATE TABLE h$n AS SELECT * FROM rows_of($n, $nrows, $longs);
$load;
$index
INSERT INTO done VALUES ($n, '$name');
$end
\\echo committed $n
};
}

# whether everything is as it is noted, table by table; and then all is dropped
sub all_as_noted
{
	my ($node, @committed) = @_;
	my @noted = split /\n/, q1($node, 'SELECT n, name FROM done ORDER BY n');
	my %noted = map { /^(\d+)/ => 1 } @noted;
	my @missing = grep { !$noted{$_} } @committed;
	my $emptied = (grep { /emptied/ } @noted)[-1];
	my ($sql, $expected) = ('', '');

	foreach (@noted)
	{
		my ($no, $unlogged, $name) = /^(\d+)\|(unlogged )?(\w+)$/ or die "cannot read $_";

		# what was in there before has been replaced
		next if $name eq 'emptied' && $_ ne $emptied;

		# after the crash an unlogged table is empty, and can be filled again
		if ($unlogged)
		{
			$sql .= "SELECT count(*) FROM $name; TRUNCATE $name; INSERT INTO $name TABLE h$no;\n";
			$expected .= "0\n";
		}
		$sql .= BatchheapTest::difference_sql("h$no", $name)
		  . BatchheapTest::wrong_map_sql($name)
		  . BatchheapTest::wrong_heap_sql($name);
		$expected .= "0\n0\n0\n";
		if (!$unlogged)
		{
			$sql .= BatchheapTest::frozen_sql($name);
			$expected .= "t\n";
		}
		$sql .= "\nSELECT count(bt_index_check(oid, true)) <= 1 FROM pg_class WHERE relname = '${name}_i';\n";
		$expected .= "t\n";
	}

	# no tables but these
	$sql .= q{SELECT count(*) FROM pg_class WHERE relname ~ '^b\d+$' AND NOT EXISTS
		(SELECT FROM done WHERE name IN (relname, 'unlogged ' || relname));};
	$expected .= '0';
	my $result = $node->safe_psql('postgres', "$paged SET batchheap.freeze_on_load = on;\n$sql", timeout => $PostgreSQL::Test::Utils::timeout_default);
	my $problem = $result eq $expected ? '' : "found:\n$result\nof:\n" . join("\n", @noted);
	$problem .= "committed and not there: @missing" if @missing;
	q1($node, q{
SELECT format('DROP %s %I', CASE relkind WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'TABLE' END, relname)
	FROM pg_class WHERE relname ~ '^[hb]\d+$' AND relkind IN ('r', 'm') ORDER BY relkind \gexec
TRUNCATE emptied;
DELETE FROM done;
});
	return (scalar(@noted), $problem);
}

foreach my $level (sort keys %nodes)
{
	my $node = $nodes{$level};
	my $rounds = rounds(5, 100);
	my ($tables, $lost, $problems) = (0, 0, '');
	my %how;
	my @kinds = ('power, right after a commit', 'power, at any time', 'postmaster', 'child', 'power, at any time');
	my $checkpoints = PostgreSQL::Test::Utils::tempdir() . '/checkpoints';

	append_to_file($checkpoints, "CHECKPOINT;\n" x 100_000);
	foreach my $round (1 .. $rounds)
	{
		my $kind = $kinds[ $round % @kinds ];
		my $script = PostgreSQL::Test::Utils::tempdir() . '/script';

		# A backend that outlives the postmaster aborts its transaction.  If
		# that has made an unlogged table, of heap or not, PostgreSQL 15 may
		# fail to start again: "could not create file: File exists".
		append_to_file($script, join('', map { transaction($kind ne 'postmaster') } 1 .. 60));
		my ($out, $err, $checkpoint_out) = ('', '', '');
		my $loads = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-f', $script,
				'-d', $node->connstr('postgres') . ' application_name=loads' ],
			'>', \$out, '2>', \$err);
		my $others = IPC::Run::start([ 'psql', '-XAtq', '-f', $checkpoints, '-d', $node->connstr('postgres') ],
			'>&', \$checkpoint_out);

		# some transactions go by
		my $wanted = 1 + int(rand(4));
		$loads->pump while (() = $out =~ /committed/g) < $wanted && $loads->pumpable;
		my @pids = split /\n/, q1($node, 'SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()');
		if ($kind =~ /commit/)
		{
			# right after the next one
			$loads->pump while (() = $out =~ /committed/g) <= $wanted && $loads->pumpable;
		}
		else
		{
			usleep(int(rand(200_000)));
		}
		if ($kind eq 'child')
		{
			# the postmaster goes on, and has all the others start again
			kill 'KILL', $pids[ int(rand(@pids)) ];
		}
		elsif ($kind eq 'postmaster')
		{
			$node->kill9;
			wait_for_end($node);
		}
		else
		{
			cut_power($node);
		}
		$loads->finish;
		$others->finish;
		if ($kind eq 'child')
		{
			wait_for_start($node);
		}
		else
		{
			$lost += lose_power($node) if $kind =~ /power/;
			start_on_disk($node);
		}
		$how{$kind}++;
		$problems .= "round $round ($kind): $err\n" if $err =~ /ERROR:/;

		# a prepared transaction may go either way
		q1($node, q{SELECT format('COMMIT PREPARED %L', gid) FROM pg_prepared_xacts \gexec});
		my ($found, $problem) = all_as_noted($node, $out =~ /committed (\d+)/g);
		$tables += $found;
		$problems .= "round $round ($kind): $problem\n" if $problem ne '';
	}
	is($problems, '', "$level: $rounds crashes: committed tables are complete, others gone");
	note("$level: $tables tables, $lost files set back; " . join(', ', map { "$_: $how{$_}" } sort keys %how));
	$node->stop;
	command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], "$level: checksums are right");
}

finish_tests();
