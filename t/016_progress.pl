# A load, watched
#
# Another session sees in pg_stat_progress_batchheap how far a load has come: each
# time it looks, more rows; how many to expect; and no row any more in the end.
# (What each column says is in the isolation spec "load_progress".)
#
# The load waits at some of its rows for locks that the watcher holds and gives
# back one after the other, so that nothing depends on how fast either is.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use BatchheapTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $rows = rounds(50_000, 10_000_000);  # of CREATE TABLE AS
my $few = 50_000;                       # of the other commands
my $stops = 5;

my $node = new_node('watched', conf => 'max_wal_size = 4GB');

q1($node, qq{
-- wait for the lock that has the number of this stop
CREATE FUNCTION stop(i int, every int) RETURNS int LANGUAGE plpgsql VOLATILE AS \$\$
BEGIN
	PERFORM pg_advisory_xact_lock_shared(4711, i / every);
	RETURN i;
END \$\$;
-- INSERT is not batched if it calls a volatile function
CREATE FUNCTION stop_stable(i int, every int) RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN RETURN stop(i, every); END';
CREATE TABLE source AS SELECT i, i % 100 AS a, i % 1000 AS b, -i AS c FROM generate_series(1, $rows) i;
CREATE TABLE small AS SELECT * FROM source WHERE i <= $few;
CREATE TABLE altered AS TABLE small;
CREATE TABLE inserted (LIKE small) USING batchheap;
ANALYZE source, small, altered;
});

# the column i, with a stop at every so many rows, and one before the last of them
sub stops
{
	my ($n, $function) = @_;
	my $every = int($n / ($stops + 1));
	return "CASE WHEN i % $every = 0 AND i <= $stops * $every THEN public.$function(i, $every) ELSE i END";
}

q1($node, "CREATE MATERIALIZED VIEW view USING batchheap AS SELECT @{[ stops($few, 'stop') ]} AS i, a FROM public.small WITH NO DATA");

sub create
{
	my ($name) = @_;
	return "CREATE TABLE $name USING batchheap AS SELECT @{[ stops($rows, 'stop') ]} AS i, a, b, c FROM source";
}

my $watcher = $node->background_psql('postgres');

sub lock_stops
{
	$watcher->query_safe("SELECT pg_advisory_lock(4711, stop) FROM generate_series(1, $stops) stop");
	return;
}

sub wait_at
{
	my ($stop, $loads) = @_;
	$node->poll_query_until('postgres',
		"SELECT count(*) = $loads FROM pg_locks WHERE locktype = 'advisory' AND (classid, objid) = (4711, $stop) AND NOT granted")
	  or die "the load does not come to stop $stop";
	return;
}

sub go_on
{
	my ($stop) = @_;
	$watcher->query_safe("SELECT pg_advisory_unlock(4711, $stop)");
	return;
}

# start(SQL): a session that runs it
sub start
{
	my ($sql) = @_;
	my $loader = $node->background_psql('postgres');
	# the statement that loads the library would not know how many rows to expect
	$loader->query_safe('SELECT count(*) FROM batchheap_counters()');
	$loader->query_until(qr/started/, "\\echo started\n$sql;\n");
	return $loader;
}

sub watch
{
	my ($columns) = @_;
	return $watcher->query_safe("SELECT $columns FROM pg_stat_progress_batchheap");
}

#
# One load after the other
#

# how many rows it is to be expected to have; ALTER TABLE has no plan to tell
my $table = sub { "relid = '$_[0]'::regclass" };
my $unknown = 'NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = relid)';
my @loads = (
	[ 'REFRESH MATERIALIZED VIEW', $few, $few, 'REFRESH MATERIALIZED VIEW view', 'view', $table->('view') ],
	[ 'ALTER TABLE', $few, undef, "ALTER TABLE altered SET ACCESS METHOD batchheap, ALTER i TYPE bigint USING @{[ stops($few, 'stop') ]}",
		'altered', $table->('altered') ],
	[ 'INSERT', $few, $few, "INSERT INTO inserted SELECT @{[ stops($few, 'stop_stable') ]}, a, b, c FROM small", 'inserted', $table->('inserted') ]);
unshift @loads, [ 'CREATE TABLE AS', $rows, $rows, set_writer($_) . create("made_$_"), "made_$_", $unknown, "page writer $_" ]
  foreach page_writer_modes($node);

foreach (@loads)
{
	my ($command, $n, $expected, $sql, $name, $relation, $how) = @$_;
	my $what = defined $how ? "$command, $how" : $command;
	my @seen;

	lock_stops();
	my $loader = start($sql);
	foreach my $stop (1 .. $stops)
	{
		wait_at($stop, 1);
		push @seen, watch('rows_processed');
		if ($stop == 3)
		{
			is(watch("command, $relation, started < clock_timestamp()"), "$command|t|t", "$what: the command, and its table");
			my $guess = watch('rows_expected');
			is($guess, '', "$what: how many rows to expect is not known") if !defined $expected;
			cmp_ok(abs($guess - $expected), '<', 0.1 * $expected, "$what: how many rows to expect") if defined $expected;
			cmp_ok(watch('pages_written'), '>', 0, "$what: pages");
			cmp_ok(watch('bytes_processed'), '>', 16 * $seen[-1], "$what: bytes");
		}
		cmp_ok($seen[-1], '<', $stop * int($n / ($stops + 1)), "$what: stop $stop: not more rows than there have been");
		cmp_ok($seen[-1], '>', $seen[-2] // 0, "$what: stop $stop: more rows than before");
		go_on($stop);
	}
	note("$what: " . join ' ', @seen);
	is($loader->query('SELECT 1'), '1', "$what: the load has ended");
	is(watch('count(*)'), '0', "$what: nothing is left to see");
	is(q1($node, "SELECT count(*) FROM $name"), $n, "$what: the rows are there");
	$loader->quit;
}

#
# Two at a time
#

lock_stops();
my @loaders = map { start(create("both_$_")) } 1 .. 2;
wait_at(1, 2);
is(watch('count(*), count(DISTINCT pid), count(DISTINCT relid), min(rows_processed) > 0'), '2|2|2|t', 'two loads: both are seen');
go_on($_) foreach 1 .. $stops;
$_->quit foreach @loaders;
is(watch('count(*)'), '0', 'two loads: nothing is left to see');
same_rows($node, 'source', "both_$_", "two loads: rows of the table") foreach 1 .. 2;

$watcher->quit;
finish_tests();
