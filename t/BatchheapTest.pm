# BatchheapTest - what the tests of batchheap have in common
#
# A test file makes its servers with new_node() (or hands those that it made in
# another way to watch_log()), and ends with finish_tests(), which also searches
# the log of every server for things that no test may cause.
#
# Heap is the oracle: same_rows() compares with a heap table of the same rows.

package BatchheapTest;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use File::Basename;
use File::Copy;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  long_run rounds
  new_node watch_log log_is_clean finish_tests
  q1 try_sql value backend_pid
  counters same_rows map_is_sound all_frozen heap_is_sound index_is_sound
  sound_copy contexts_left
  loaded_library built_library page_writer_modes set_writer wait_for_lock
  BLOCKING_FUNCTION
);

# A function for a load to stop in: rows before the one that has the number
# "at" are on their way to the table when the session waits for the lock.
use constant BLOCKING_FUNCTION => q{
CREATE FUNCTION stop_at(i int, at int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF i = at THEN
		PERFORM pg_advisory_lock(4711);
	END IF;
	RETURN i;
END $$;
};

my @watched;

# Environment variable BATCHHEAP_LONG=1 asks for the long form of a test.
sub long_run
{
	return $ENV{BATCHHEAP_LONG} ? 1 : 0;
}

# rounds(SHORT, LONG): how often to do something
sub rounds
{
	my ($short, $long) = @_;
	return long_run() ? $long : $short;
}

# new_node(NAME, init => {...}, conf => STRING, start => 0 or 1): a server with
# the extensions that the checks below need.
sub new_node
{
	my ($name, %params) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(%{ $params{init} // {} });
	$node->append_conf('postgresql.conf', q{
max_prepared_transactions = 10
max_connections = 30
shared_buffers = 16MB
max_wal_size = 512MB
autovacuum = off
log_min_messages = warning
# a few rows are enough to see whether they are frozen
batchheap.freeze_min_size = 0
});
	$node->append_conf('postgresql.conf', $params{conf})
	  if defined $params{conf};
	watch_log($node);
	if ($params{start} // 1)
	{
		$node->start;
		$node->safe_psql('postgres', q{
CREATE EXTENSION batchheap;
CREATE EXTENSION pg_visibility;
CREATE EXTENSION amcheck;
});
	}
	return $node;
}

sub watch_log
{
	push @watched, @_;
	return;
}

# Nothing in the log that tells of a crash, a failed assertion or a leak.
sub log_is_clean
{
	my ($node) = @_;
	my @bad;

	if (-e $node->logfile)
	{
		open my $log, '<', $node->logfile or die "could not read log: $!";
		while (my $line = <$log>)
		{
			push @bad, $line
			  if $line =~ /TRAP:|PANIC/
			  || $line =~ /WARNING:.*(leak|not closed|still referenced)/
			  || $line =~ /terminated by signal (4|6|7|8|11)\b/;
			last if @bad > 20;
		}
		close $log;
	}
	is(join('', @bad), '', 'log of ' . $node->name . ' is clean');
	return;
}

sub finish_tests
{
	log_is_clean($_) foreach @watched;
	done_testing();
	return;
}

# q1(NODE, SQL): the result of SQL in database postgres, in a session of its own
sub q1
{
	my ($node, $sql, $db) = @_;
	return $node->safe_psql($db // 'postgres', $sql);
}

# try_sql(SESSION, SQL): output and error messages of SQL in a background_psql
# session that was made with on_error_stop => 0
sub try_sql
{
	my ($session, $sql) = @_;
	my $out = $session->query($sql);
	my $err = $session->{stderr};

	$session->{stderr} = '';
	return ($out, $err);
}

# value(SESSION, SQL): the output alone
sub value
{
	my ($session, $sql) = @_;
	my ($out, $err) = try_sql($session, $sql);
	return $err eq '' ? $out : $err;
}

sub backend_pid
{
	my ($session) = @_;
	return $session->query_safe('SELECT pg_backend_pid()');
}

# SQL that shows the counters which are not zero on one line, like
# "loads=1 rows_batched=3000"; names of counters as arguments restrict it
sub counters
{
	my $which = join(',', map { "'$_'" } @_);
	my $where = $which eq '' ? '' : "AND counter IN ($which)";
	return "SELECT string_agg(counter || '=' || value, ' ' ORDER BY counter) "
	  . "FROM batchheap_counters() WHERE value <> 0 $where;";
}

# SQL for the checks below; each gives a single line

# how many rows are in one table (or query) and not in the other
sub difference_sql
{
	my ($heap, $batch) = @_;

	foreach ($heap, $batch)
	{
		$_ = "SELECT * FROM $_" unless /^\s*(SELECT|VALUES)/i;
	}
	return "SELECT count(*) FROM ((($heap) EXCEPT ALL ($batch)) UNION ALL "
	  . "(($batch) EXCEPT ALL ($heap))) AS difference;";
}

# how many rows the visibility map or the frozen bits are wrong about
sub wrong_map_sql
{
	my ($table) = @_;
	return "SELECT count(*) FROM (SELECT pg_check_visible('$table') "
	  . "UNION ALL SELECT pg_check_frozen('$table')) AS wrong;";
}

# how many faults verify_heapam() finds; it looks only at heap tables, so the
# table is switched for the while
sub wrong_heap_sql
{
	my ($table) = @_;
	return "BEGIN; DO \$\$ BEGIN PERFORM batchheap_to_heap('$table'); END \$\$; "
	  . "SELECT count(*) FROM verify_heapam('$table', check_toast => true); ROLLBACK;";
}

# The rows of two tables, or queries, are the same and as many.
sub same_rows
{
	my ($node, $heap, $batch, $what, $db) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is(q1($node, difference_sql($heap, $batch), $db), '0', $what);
	return;
}

# The visibility map and the frozen bits say nothing that is not so.
sub map_is_sound
{
	my ($node, $table, $what, $db) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is(q1($node, wrong_map_sql($table), $db), '0', $what // "visibility map of $table is sound");
	return;
}

sub heap_is_sound
{
	my ($node, $table, $what, $db) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is(q1($node, wrong_heap_sql($table), $db), '0', $what // "verify_heapam finds nothing in $table");
	return;
}

# All three in one: no different row, nothing wrong in the map, nor in the heap
sub sound_copy
{
	my ($node, $heap, $batch, $what, $db) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is( q1( $node,
			difference_sql($heap, $batch) . wrong_map_sql($batch) . wrong_heap_sql($batch), $db),
		"0\n0\n0",
		$what // "$batch is a sound copy of $heap");
	return;
}

# whether there are rows, and all pages up to the last one that has any are
# all-visible and all-frozen; from 16 on, COPY leaves empty pages at the end
sub frozen_sql
{
	my ($table) = @_;
	return "SELECT count(*) > 0 AND bool_and(all_visible AND all_frozen AND pd_all_visible) "
	  . "FROM pg_visibility('$table') WHERE blkno <= (SELECT max((ctid::text::point)[0]) FROM $table);";
}

# Every page is all-visible and all-frozen, and there are pages.
sub all_frozen
{
	my ($node, $table, $what, $db) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is(q1($node, frozen_sql($table), $db), 't', $what // "all pages of $table are frozen");
	return;
}

sub index_is_sound
{
	my ($node, $index, $what, $db) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is( q1($node, "SELECT bt_index_check('$index', heapallindexed => true)", $db),
		'',
		$what // "bt_index_check finds nothing in $index");
	return;
}

# SQL that counts what is left of loads in the backend's memory
sub contexts_left
{
	return "SELECT count(*) FROM pg_backend_memory_contexts WHERE name LIKE 'batchheap%'";
}

# The library's file as the server has it, or undef if there is no telling.
sub loaded_library
{
	my ($node) = @_;
	return undef unless $^O eq 'linux';
	my $path = q1($node, q{
SELECT count(*) > 0 FROM batchheap_counters();
SELECT substring(pg_read_file('/proc/self/maps') from '(/[^\n]*/batchheap[.]so)');
});
	$path =~ s/^.*\n//s;
	return -e $path ? $path : undef;
}

# built_library(DIR, NAME): build library NAME of t/DIR in a directory of its
# own, and return its path.  Without a compiler the whole test is skipped.
sub built_library
{
	my ($from, $name) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $built;
	my $output = '';

	copy(dirname(__FILE__) . "/$from/$_", "$dir/$_") or die "could not copy $_: $!"
	  foreach ("$name.c", 'Makefile');
	{
		# not the settings of the make that has started us
		local %ENV = %ENV;
		delete @ENV{qw(MAKEFLAGS MAKELEVEL MFLAGS MAKEOVERRIDES PROVE_TESTS DESTDIR)};
		$built = eval {
			IPC::Run::run([ 'make', '-s', '-C', $dir, 'with_llvm=no', 'PG_CONFIG=' . ($ENV{PG_CONFIG} // 'pg_config') ],
				'>&', \$output);
		};
		$output .= $@ unless defined $built;
	}
	if (!$built || !-e "$dir/$name.so")
	{
		# without a compiler there is no telling; with one it is a failure
		my $cc = `@{[ $ENV{PG_CONFIG} // 'pg_config' ]} --cc 2>&1` =~ s/\s.*//sr;
		plan skip_all => "no C compiler ($cc) to build the test's library with: $output"
		  if $cc eq '' || system("command -v $cc >/dev/null 2>&1 && command -v make >/dev/null 2>&1") != 0;
		die "could not build the test's library: $output";
	}
	return "$dir/$name.so";
}

# Ways to write the rows of a new table: what batchheap.page_writer may be set
# to, or just "none" where there is no page writer (not from 19 on).
sub page_writer_modes
{
	my ($node) = @_;
	my $modes = q1($node, q{
SELECT count(*) > 0 FROM batchheap_counters();
SELECT 'off on' FROM pg_settings
WHERE name = 'batchheap.page_writer' AND current_setting('server_version_num')::int < 190000});
	return $modes =~ /off on/ ? ('off', 'on') : ('none');
}

# SQL that sets one of them
sub set_writer
{
	my ($mode) = @_;
	return $mode eq 'none' ? '' : "SET batchheap.page_writer = $mode;";
}

# Wait until a session waits for the lock of stop_at().
sub wait_for_lock
{
	my ($node, $db) = @_;
	$node->poll_query_until($db // 'postgres',
		"SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted")
	  or die 'the load did not reach its row';
	return;
}

1;
