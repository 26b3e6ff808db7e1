# Crashes
#
# A server that dies right after a load's commit, in the middle of a load, or
# at a random moment has every row of the committed loads after its restart and
# none of the others.  Heap tables filled in the same transactions tell which
# ones those are.
#
# BATCHHEAP_LONG=1: 50 random moments instead of 5, and all combinations of
# settings.  BATCHHEAP_SEED repeats a run's random loads.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use BatchheapTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $rows = 6000;
my $file = PostgreSQL::Test::Utils::tempdir() . '/rows';
append_to_file($file, join('', map { "$_\ttext $_\n" } 1 .. $rows));

# restart_after_crash is off, so that a killed backend takes the server along.
sub crash
{
	my ($node, $how, $pid) = @_;
	if ($how eq 'backend')
	{
		kill 'KILL', $pid;
		foreach (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
		{
			last unless -e $node->data_dir . '/postmaster.pid';
			usleep(100_000);
		}
		$node->{_pid} = undef;
	}
	elsif ($how eq 'postmaster')
	{
		$node->kill9;
	}
	else
	{
		$node->stop('immediate');
	}
	return;
}

# Start again.  The children of a killed postmaster notice by themselves; until
# the last one has gone there is no starting.  Sessions must have been closed
# before, as the server would inherit their pipes.
sub start_again
{
	my ($node) = @_;
	foreach (1 .. 100 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if $node->start(fail_ok => 1);
		$node->{_pid} = undef;
		usleep(10_000);
	}
	die 'could not start the server again';
}

sub make_tables
{
	my ($node) = @_;

	# h is large enough for some of its copies to be synced at commit and not
	# logged, at wal_level = minimal
	q1($node, BLOCKING_FUNCTION . qq{
CREATE TABLE h AS
	SELECT i, 'text ' || i AS t FROM generate_series(1, $rows) i;
CREATE TABLE wide AS
	SELECT i, repeat(md5(i::text), 3 + i % 200) AS t FROM generate_series(1, $rows / 2) i;
CREATE MATERIALIZED VIEW mv USING batchheap AS SELECT stop_at(i, 0) AS i, t FROM h WITH NO DATA;
CREATE TABLE altered AS TABLE h;
CREATE TABLE altered_wide AS TABLE wide;
ALTER TABLE altered_wide ADD PRIMARY KEY (i);
CREATE TABLE emptied (i int, t text) USING batchheap;
CREATE TABLE old (i int, t text) USING batchheap;
CREATE TABLE untouched USING batchheap AS TABLE h;
CREATE INDEX untouched_i ON untouched (i);
CHECKPOINT;
});
	return;
}

#
# Right after commit, and in the middle of a load
#

my @settings = (
	[ 'minimal', 'on', {}, 'wal_skip_threshold = 64kB' ],
	[ 'replica', 'on', { allows_streaming => 1 }, '' ],
	[ 'logical', 'off', { allows_streaming => 'logical' }, '' ],
	[ 'minimal', 'off', {}, 'wal_skip_threshold = 64kB' ],
	[ 'replica', 'off', { allows_streaming => 1 }, '' ],
	[ 'logical', 'on', { allows_streaming => 'logical' }, '' ]);

foreach (@settings[ 0 .. rounds(2, 5) ])
{
	my ($wal_level, $writer, $init, $conf) = @$_;
	my $level = "$wal_level, page writer $writer";
	my $node = new_node("${wal_level}_$writer", init => { %$init, extra => ['--data-checksums'] }, conf => $conf);

	my @modes = page_writer_modes($node);
	$writer = 'none' if @modes == 1;
	my $set = set_writer($writer);
	make_tables($node);
	is(q1($node, 'SHOW wal_level'), $wal_level, "wal_level is $wal_level");

	my $session = $node->background_psql('postgres', on_error_stop => 0);
	$session->query_safe(qq{
$set
CREATE TABLE b USING batchheap AS TABLE h;
INSERT INTO old TABLE h;
CREATE UNLOGGED TABLE unlogged USING batchheap AS TABLE h;
BEGIN;
CREATE TABLE inserted (i int, t text) USING batchheap;
INSERT INTO inserted TABLE h;
COMMIT;
CREATE TABLE b_wide USING batchheap AS TABLE wide;
REFRESH MATERIALIZED VIEW mv;
ALTER TABLE altered SET ACCESS METHOD batchheap;
ALTER TABLE altered_wide SET ACCESS METHOD batchheap;
BEGIN;
TRUNCATE emptied;
COPY emptied FROM '$file';
SAVEPOINT s;
CREATE TABLE rolled_back USING batchheap AS TABLE h;
ROLLBACK TO s;
CREATE TABLE b_sub USING batchheap AS TABLE h;
COMMIT;
});
	crash($node, 'immediate');
	$session->{run}->finish;
	start_again($node);

	foreach (qw(b mv altered emptied b_sub untouched inserted old))
	{
		sound_copy($node, 'h', $_, "$level: $_ after the crash");
		all_frozen($node, $_, "$level: $_ is still frozen") if $_ ne 'old';
	}
	is(q1($node, 'SELECT count(*) FROM unlogged'), 0, "$level: unlogged table is empty");
	q1($node, 'INSERT INTO unlogged TABLE h');
	sound_copy($node, 'h', 'unlogged', "$level: unlogged table can be filled again");
	foreach (qw(b_wide altered_wide))
	{
		sound_copy($node, 'wide', $_, "$level: $_ after the crash");
		all_frozen($node, $_, "$level: $_ is still frozen");
	}
	index_is_sound($node, 'altered_wide_pkey', "$level: rebuilt index");
	index_is_sound($node, 'untouched_i', "$level: index");
	is(q1($node, q{SELECT to_regclass('rolled_back') IS NULL}), 't', "$level: no table of a rollback");

	# the loads stop where rows are in the ring, and others have been written
	my $at = $rows - 500;
	my @loads = (
		[ 'CREATE TABLE AS', 'immediate',
			"CREATE TABLE half USING batchheap AS SELECT stop_at(i, $at) AS i, t FROM h" ],
		[ 'REFRESH', 'backend', 'REFRESH MATERIALIZED VIEW mv_stops' ],
		[ 'INSERT', 'immediate', "INSERT INTO old SELECT stop_at(i, $at) AS i, t FROM h" ],
		[ 'ALTER TABLE', $wal_level eq 'replica' ? 'postmaster' : 'immediate',
			"ALTER TABLE altered ALTER COLUMN i TYPE bigint USING stop_at(i, $at)" ]);
	q1($node, "CREATE MATERIALIZED VIEW mv_stops USING batchheap AS "
		  . "SELECT stop_at(i, CASE WHEN i < 0 THEN 0 ELSE $at END) AS i, t FROM h");

	foreach (@loads)
	{
		my ($name, $how, $load) = @$_;
		my $holder = $node->background_psql('postgres', on_error_stop => 0);
		my $loader = $node->background_psql('postgres', on_error_stop => 0);

		$holder->query_safe('SELECT pg_advisory_lock(4711)');
		my $pid = backend_pid($loader);
		$loader->query_safe($set) if $set ne '';
		$loader->query_until(qr/started/, "\\echo started\n$load;\n");
		wait_for_lock($node);
		crash($node, $how, $pid);
		$holder->{run}->finish;
		$loader->{run}->finish;
		start_again($node);

		is(q1($node, q{SELECT to_regclass('half') IS NULL}), 't',
			"$level: $name: no table of the unfinished load");
		sound_copy($node, 'h', $_, "$level: $name: $_ is as before") foreach (qw(mv mv_stops altered b old));
		q1($node, "$set CREATE TABLE again USING batchheap AS TABLE h");
		sound_copy($node, 'h', 'again', "$level: $name: loading works again");
		q1($node, 'DROP TABLE again');
	}

	# A checkpoint in the middle of a load that is committed afterwards: what
	# had been logged before it is not replayed.
	{
		my $holder = $node->background_psql('postgres', on_error_stop => 0);
		my $loader = $node->background_psql('postgres', on_error_stop => 0);

		$holder->query_safe('SELECT pg_advisory_lock(4711)');
		$loader->query_safe($set) if $set ne '';
		$loader->query_until(qr/started/, "\\echo started\n"
			  . "CREATE TABLE checkpointed USING batchheap AS SELECT stop_at(i, $at) AS i, t FROM h;\n\\echo done\n");
		wait_for_lock($node);
		q1($node, 'CHECKPOINT');
		$holder->query_safe('SELECT pg_advisory_unlock(4711)');
		$loader->query_until(qr/done/, '');
		crash($node, 'immediate');
		$holder->{run}->finish;
		$loader->{run}->finish;
		start_again($node);
		sound_copy($node, 'h', 'checkpointed', "$level: load with a checkpoint in the middle");
		all_frozen($node, 'checkpointed', "$level: load with a checkpoint in the middle is frozen");
	}
	$node->stop;
	command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], "$level: checksums are right");
}

#
# Random moments
#
# Each transaction of the script makes one load and notes it in a heap table:
# what was loaded follows from the note.
#

my $seed = $ENV{BATCHHEAP_SEED} // int(rand(1_000_000));
srand($seed);
note("BATCHHEAP_SEED=$seed");

my $rounds = rounds(5, 50);
my $node = new_node('random', init => { allows_streaming => 1 });
q1($node, qq{
CREATE TABLE done (no int, name text, nrows int);
CREATE FUNCTION rows_of(no int, nrows int) RETURNS TABLE (i int, t text) LANGUAGE sql STABLE AS
\$\$ SELECT i, repeat(md5((no * i)::text), 1 + (no + i) % 9) FROM generate_series(1, nrows) i \$\$;
CREATE TABLE source (no int, nrows int);
INSERT INTO source VALUES (0, 0);
CREATE MATERIALIZED VIEW mv USING batchheap AS SELECT r.* FROM source, rows_of(no, nrows) r;
CREATE TABLE copied (i int, t text) USING batchheap;
CREATE TABLE altered (i int, t text);
INSERT INTO done VALUES (0, 'mv', 0), (0, 'copied', 0), (0, 'altered', 0);
});

my $no = 0;
my $in_load = 0;
my @writers = page_writer_modes($node);

sub transaction
{
	my $n = ++$no;
	my $nrows = int(rand(15_000));
	my $kind = int(rand(6));
	my $rows_of = "SELECT * FROM rows_of($n, $nrows)";
	my $program = "seq $nrows | sed 's/\$/\\tcopied $n/'";

	my $set = set_writer($writers[ int(rand(@writers)) ]) . "\n";

	return $set . "BEGIN; CREATE TABLE t$n USING batchheap AS $rows_of; "
	  . "INSERT INTO done VALUES ($n, 't$n', $nrows); COMMIT;\n"
	  if $kind == 0;
	return $set . "BEGIN; UPDATE source SET no = $n, nrows = $nrows; REFRESH MATERIALIZED VIEW mv; "
	  . "UPDATE done SET no = $n, nrows = $nrows WHERE name = 'mv'; COMMIT;\n"
	  if $kind == 1;
	return "BEGIN; TRUNCATE copied; COPY copied FROM PROGRAM \$\$$program\$\$; "
	  . "UPDATE done SET no = $n, nrows = $nrows WHERE name = 'copied'; COMMIT;\n"
	  if $kind == 2;
	return $set . "BEGIN; DROP TABLE altered; CREATE TABLE altered AS $rows_of; "
	  . "ALTER TABLE altered SET ACCESS METHOD batchheap; "
	  . "UPDATE done SET no = $n, nrows = $nrows WHERE name = 'altered'; COMMIT;\n"
	  if $kind == 3;
	return $set . "BEGIN; CREATE TABLE t$n (i int, t text) USING batchheap; INSERT INTO t$n $rows_of; "
	  . "INSERT INTO done VALUES ($n, 't$n', $nrows); COMMIT;\n"
	  if $kind == 4;
	return $set . "BEGIN; SAVEPOINT s; CREATE TABLE t$n USING batchheap AS $rows_of; ROLLBACK TO s; "
	  . "CREATE TABLE t$n USING batchheap AS $rows_of; RELEASE s; "
	  . "INSERT INTO done VALUES ($n, 't$n', $nrows); COMMIT;\n";
}

# every table that is there is in the list, and its rows are as noted there
my $verify = q{
SELECT string_agg(name || ': ' || problem, ', ') FROM (
	SELECT name, 'not there' AS problem FROM done WHERE to_regclass(name) IS NULL
	UNION ALL
	SELECT relname, 'not committed' FROM pg_class c JOIN pg_am a ON a.oid = relam
	WHERE amname = 'batchheap' AND NOT EXISTS (SELECT FROM done WHERE name = relname)
	UNION ALL
	SELECT name, found || ' instead of ' || expected
	FROM done,
		LATERAL (SELECT count(*) || '/' || coalesce(sum(hashtext(i || t)), 0) AS expected
			FROM (SELECT * FROM rows_of(no, nrows) WHERE name <> 'copied'
				UNION ALL
				SELECT i, 'copied ' || no FROM generate_series(1, nrows) i WHERE name = 'copied') e) e,
		LATERAL (SELECT rows_found(name) AS found) f
	WHERE found <> expected
	UNION ALL
	SELECT relname, 'visibility map'
	FROM pg_class c
	WHERE CASE WHEN relam = (SELECT oid FROM pg_am WHERE amname = 'batchheap')
		THEN EXISTS (SELECT FROM pg_check_visible(c.oid)) OR EXISTS (SELECT FROM pg_check_frozen(c.oid)) END
) problems
};
q1($node, q{
CREATE FUNCTION rows_found(name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text;
BEGIN
	IF to_regclass(name) IS NOT NULL THEN
		EXECUTE format('SELECT count(*) || ''/'' || coalesce(sum(hashtext(i || t)), 0) FROM %I', name) INTO found;
	END IF;
	RETURN found;
END $$;
});

foreach my $round (1 .. $rounds)
{
	my $script = PostgreSQL::Test::Utils::tempdir() . "/script$round";
	append_to_file($script, join('', map { transaction() } 1 .. 400));
	my $before = q1($node, 'SELECT max(no) FROM done');
	my ($out, $err) = ('', '');
	my $psql = IPC::Run::start(
		[ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-f', $script,
			'-d', $node->connstr('postgres') . ' application_name=loads' ],
		'>', \$out, '2>', \$err);

	# something was committed, then some time passes
	$node->poll_query_until('postgres', "SELECT max(no) > $before FROM done") or die 'no progress';
	usleep(int(rand(150_000)));
	my $state = q1($node, q{
SELECT pid || '|' || coalesce(substring(query FROM 'CREATE TABLE t|REFRESH|COPY|ALTER|INSERT INTO t|COMMIT'), '')
FROM pg_stat_activity WHERE application_name = 'loads'});
	my ($pid, $doing) = split /\|/, $state, -1;
	$in_load++ if $doing =~ /CREATE|REFRESH|COPY|ALTER|INSERT/;
	# killing the postmaster takes seconds where nobody collects dead processes
	my $how = ('immediate', 'backend', 'postmaster')[ int(rand(rounds(2, 3))) ];
	note("round $round: $how, in $doing");
	crash($node, $how, $pid);
	$psql->finish;
	unlike($err, qr/ERROR:/, "round $round: script ran without an error");
	start_again($node);

	is(q1($node, $verify), '', "round $round ($how): committed rows and no others");
	$no = q1($node, 'SELECT max(no) FROM done') + 1000;
}
note("crashed in a load in $in_load of $rounds rounds");
q1($node, q{
SELECT format('DROP TABLE %I', name) FROM done WHERE name LIKE 't%' \gexec
DELETE FROM done WHERE name LIKE 't%';
});
is(q1($node, $verify), '', 'tables can be dropped, the others are as they were');

finish_tests();
