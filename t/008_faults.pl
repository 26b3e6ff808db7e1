# Errors in the middle of a load
#
# Cancelled at random moments, with the disk full, over a limit, with a value
# that is not allowed: whatever stops a load, the session goes on, no row is
# lost or doubled, nothing stays in memory and the server has nothing to warn of.
#
# BATCHHEAP_LONG=1: 1000 cancellations instead of 100.  BATCHHEAP_SEED repeats
# a run's random moments, as far as that is possible.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use BatchheapTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

my $seed = $ENV{BATCHHEAP_SEED} // int(rand(1_000_000));
srand($seed);
note("BATCHHEAP_SEED=$seed");

my $rows = 6000;
my $dir = PostgreSQL::Test::Utils::tempdir();
my $node = new_node('faults', init => { allows_streaming => 1, extra => ['--wal-segsize=1'] },
	conf => "log_statement = none\nshared_buffers = 16MB");

q1($node, qq{
CREATE TABLE h AS SELECT i, repeat(md5(i::text), 1 + i % 4) AS t FROM generate_series(1, $rows) i;
CREATE TABLE version (v int);
INSERT INTO version VALUES (1);
CREATE TABLE altered USING batchheap AS TABLE h;
CREATE TABLE emptied USING batchheap AS TABLE h;
CREATE MATERIALIZED VIEW mv USING batchheap AS SELECT * FROM h;
COPY h TO '$dir/h';

-- retry(load, tab): does the load in a subtransaction; when that is cancelled,
-- does it again undisturbed.  The table must be complete then.
CREATE FUNCTION retry(load text) RETURNS text LANGUAGE plpgsql VOLATILE AS \$\$
DECLARE how text := 'at once';
BEGIN
	BEGIN
		EXECUTE load;
	EXCEPTION WHEN query_canceled OR division_by_zero THEN
		PERFORM set_config('statement_timeout', '0', true);
		how := 'again';
		EXECUTE load;
	END;
	RETURN how;
END \$\$;

-- a look at the half-built table in a subtransaction, which may be cancelled
CREATE FUNCTION look(i int, tab text) RETURNS int LANGUAGE plpgsql VOLATILE AS \$\$
DECLARE n bigint;
BEGIN
	IF i % 300 = 0 THEN
		BEGIN
			EXECUTE format('SELECT count(*) FROM %I', tab) INTO n;
			IF n <> i - 1 THEN
				RAISE 'reads % rows at row %', n, i USING ERRCODE = 'BH001';
			END IF;
			IF i % 600 = 0 THEN
				RAISE division_by_zero;
			END IF;
		EXCEPTION
			WHEN division_by_zero THEN NULL;
			WHEN query_canceled THEN PERFORM set_config('statement_timeout', '0', true);
		END;
	END IF;
	RETURN i;
END \$\$;
});

my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->set_query_timer_restart();
my $pid = backend_pid($session);

# what the session sees itself, of a table: rows that differ from heap's
sub compare
{
	my ($table) = @_;
	return value($session, BatchheapTest::difference_sql('h', $table));
}

# These hold whatever has happened.
sub as_before
{
	my ($what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @tables = qw(altered emptied mv);

	is(value($session, contexts_left() . q{
		UNION ALL SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation IN
			(SELECT c.oid FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE amname = 'batchheap')}),
		"0\n0", "$what: no memory and no lock is left");
	is(value($session, join('', map { BatchheapTest::difference_sql('h', $_) } @tables)),
		"0\n0\n0", "$what: @tables are as before");
	is(value($session, join('', map { BatchheapTest::wrong_map_sql($_) } @tables)),
		"0\n0\n0", "$what: their visibility maps are sound");

	# files of what was dropped or undone go with the next checkpoint
	is(q1($node, q{
CHECKPOINT;
SELECT string_agg(file, ' ') FROM pg_database d, pg_ls_dir('base/' || d.oid) file
WHERE datname = current_database() AND substring(file FROM '^\d+')::bigint >= 16384
	AND NOT EXISTS (SELECT FROM pg_class c WHERE pg_relation_filenode(c.oid) = substring(file FROM '^\d+')::bigint);
}), '', "$what: no file is left");
	return;
}

#
# Cancelled at random moments
#

my @writers = page_writer_modes($node);
my $cancelled = qr/canceling statement due to (user request|statement timeout)/;
my @statements = (
	[ 'CREATE TABLE AS', 'CREATE TABLE b USING batchheap AS TABLE h' ],
	[ 'REFRESH', 'REFRESH MATERIALIZED VIEW mv' ],
	[ 'ALTER TABLE', 'ALTER TABLE altered ALTER COLUMN i TYPE bigint; ALTER TABLE altered ALTER COLUMN i TYPE int' ],
	[ 'COPY', "BEGIN; TRUNCATE emptied; COPY emptied FROM '$dir/h'; COMMIT" ],
	[ 'INSERT', 'BEGIN; TRUNCATE emptied; INSERT INTO emptied TABLE h; COMMIT' ],
	[ 'CREATE TABLE AS in a subtransaction', q{SELECT retry('CREATE TABLE b USING batchheap AS TABLE h') IS NULL} ],
	[ 'CREATE TABLE AS that is read', q{CREATE TABLE b USING batchheap AS SELECT look(i, 'b') AS i, t FROM h} ],
	[ 'read in a subtransaction', q{SELECT retry('CREATE TABLE b USING batchheap AS SELECT look(i, ''b'') AS i, t FROM h') IS NULL} ]);

# how long they take undisturbed, to cancel at any moment of it
my %duration;
foreach (@statements)
{
	my ($name, $sql) = @$_;
	foreach (1 .. 2)
	{
		my $start = time();
		my ($out, $err) = try_sql($session, $sql);
		my $time = time() - $start;
		$duration{$name} = $time if !defined $duration{$name} || $time < $duration{$name};
		is($err, '', "$name: undisturbed");
		if ($sql =~ /TABLE b /)
		{
			is(compare('b'), 0, "$name: undisturbed: rows");
			value($session, 'DROP TABLE b');
		}
	}
}

my ($stopped, $paged, $wrong) = (0, 0, '');
foreach my $round (1 .. rounds(100, 1000))
{
	my ($name, $sql) = @{ $statements[ int(rand(@statements)) ] };
	my $writer = $writers[ int(rand(@writers)) ];
	my $same = "$name, $writer";
	my $moment = rand(1.1 * ($duration{$same} // $duration{$name}));
	my $start = time();
	my ($out, $err);

	value($session, set_writer($writer));
	$name .= ", page writer $writer" if $writer eq 'on';

	if ($round % 2)
	{
		my $ms = 1 + int(1000 * $moment);
		($out, $err) = try_sql($session, "SET statement_timeout = $ms; $sql; SET statement_timeout = 0;");
		# the machine may have been slower, or busier, when this was measured
		$duration{$same} = time() - $start if $err eq '';
	}
	else
	{
		# as pg_cancel_backend() does it; a signal that comes too late must
		# not hit what is done next
		$session->{stdin} .= "$sql;\n\\echo done\n";
		$session->{run}->pump_nb();
		usleep(1_000_000 * $moment);
		kill 'INT', $pid;
		$out = $session->query_until(qr/done\n/, '');
		$err = $session->{stderr};
		$session->{stderr} = '';
		try_sql($session, 'SELECT pg_sleep(0)');
	}
	$stopped++ if $err =~ $cancelled;
	$paged++ if $err =~ $cancelled && $name =~ /page writer/ && $name !~ /^COPY/;
	$wrong .= "round $round: $name: $err\n" if $err =~ /ERROR/ && $err !~ $cancelled && $err !~ /current transaction is aborted/;
	try_sql($session, 'ROLLBACK') if value($session, 'SELECT 1') =~ /transaction is aborted/;
	try_sql($session, 'SET statement_timeout = 0');

	# either the table is there with all its rows, or it is not there
	if (value($session, q{SELECT to_regclass('b') IS NOT NULL}) eq 't')
	{
		my $difference = compare('b');
		$wrong .= "round $round: $name: $difference rows differ\n" if $difference ne '0';
		$wrong .= "round $round: $name: visibility map\n" if value($session, BatchheapTest::wrong_map_sql('b')) ne '0';
		value($session, 'DROP TABLE b');
	}
	my $left = value($session, contexts_left());
	$wrong .= "round $round: $name: $left memory contexts left\n" if $left ne '0';
	value($session, 'ALTER TABLE altered ALTER COLUMN i TYPE int') if $name =~ /^ALTER TABLE/;
	if ($name =~ /^(REFRESH|ALTER TABLE|COPY|INSERT)\b/)
	{
		foreach (qw(altered emptied mv))
		{
			my $difference = compare($_);
			$wrong .= "round $round: $name: $difference rows of $_ differ\n" if $difference ne '0';
		}
	}
}
is($wrong, '', 'cancelled at random: nothing lost, doubled or left');
value($session, set_writer($writers[0]));
cmp_ok($stopped, '>', rounds(10, 100), "cancelled at random: $stopped statements were stopped");
note("$paged of them with the page writer");
as_before('cancelled at random');

#
# A full disk: the backend may not write files beyond a size
#

SKIP:
{
	my $probe = '';
	skip 'needs prlimit to limit the size of files', 1
	  unless eval { IPC::Run::run([ 'prlimit', '--pid', $pid, '--fsize' ], '>', \$probe, '2>&1') };

	my $set_limit = sub {
		IPC::Run::run([ 'prlimit', '--pid', $pid, "--fsize=$_[0]:unlimited" ], '>&', \$probe)
		  or die "could not set a limit: $probe";
	};
	my $too_large = qr/ERROR:  could not (extend|write).*(\n.*)*(File too large|Check free disk space|wrote only)/;

	# the WAL's files are smaller, see above; the log is not the backend's to write
	my $bytes = 6 * 1024 * 1024;
	my $large = 'SELECT i, t || t || t || t AS t FROM h, generate_series(1, 10)';
	q1($node, qq{
CREATE TABLE large_h AS $large;
CREATE MATERIALIZED VIEW large_mv USING batchheap AS SELECT h.*, v FROM h, version, generate_series(1, v);
COPY large_h TO '$dir/large';
});
	my @loads = (
		[ 'CREATE TABLE AS', "CREATE TABLE b USING batchheap AS $large" ],
		[ 'CREATE TABLE AS, not frozen',
			"SET batchheap.freeze_on_load = off; CREATE TABLE b USING batchheap AS $large; RESET batchheap.freeze_on_load" ],
		[ 'REFRESH', 'BEGIN; UPDATE version SET v = 20; REFRESH MATERIALIZED VIEW large_mv; COMMIT' ],
		[ 'ALTER TABLE', 'ALTER TABLE altered ALTER t TYPE text USING rpad(t, 1900, i::text)' ],
		[ 'COPY', "BEGIN; TRUNCATE emptied; COPY emptied FROM '$dir/large'; COMMIT" ],
		[ 'INSERT', "BEGIN; TRUNCATE emptied; INSERT INTO emptied $large; COMMIT" ],
		[ 'TOAST', 'CREATE TABLE b USING batchheap AS SELECT i, string_agg(md5(j::text || i), \'\') AS t '
			  . 'FROM generate_series(1, 2000) i, generate_series(1, 150) j GROUP BY i' ]);

	# everything that is needed from the catalogs is written before
	push @loads, map { [ "$_->[0], page writer", set_writer('on') . "$_->[1]; RESET batchheap.page_writer" ] } @loads
	  if grep { $_ eq 'on' } @writers;
	foreach (@loads)
	{
		my ($name, $load) = @$_;

		$set_limit->($bytes);
		my ($out, $err) = try_sql($session, $load);
		$set_limit->('unlimited');
		like($err, $too_large, "disk full: $name: the load fails");
		try_sql($session, 'ROLLBACK') if $load =~ /BEGIN/;
		value($session, set_writer($writers[0]));
		is(value($session, q{SELECT to_regclass('b') IS NULL}), 't', "disk full: $name: no table");
		as_before("disk full: $name");
		is(value($session, 'SELECT count(*) FROM large_mv'), $rows, "disk full: $name: large view is as before");
	}

	# in a subtransaction that goes on with something smaller
	$set_limit->($bytes);
	my ($out, $err) = try_sql($session, qq{
BEGIN;
CREATE TABLE before USING batchheap AS TABLE h;
SAVEPOINT s;
CREATE TABLE b USING batchheap AS $large;
ROLLBACK TO s;
CREATE TABLE b USING batchheap AS TABLE h;
COMMIT;
});
	$set_limit->('unlimited');
	like($err, $too_large, 'disk full: subtransaction: the load fails');
	sound_copy($node, 'h', $_, "disk full: subtransaction: $_ has all rows") foreach qw(before b);
	all_frozen($node, 'b', 'disk full: subtransaction: b is frozen');
	value($session, 'DROP TABLE before, b');

	# A reader in a subtransaction has a batch written, which fails half-way;
	# the reader catches that, and the load goes on.  The rows that could not
	# be written are not forgotten, and those that were are not doubled.
	q1($node, qq{
CREATE FUNCTION set_limit(bytes text) RETURNS void LANGUAGE plpgsql AS \$\$
BEGIN
	EXECUTE format('COPY (SELECT 1) TO PROGRAM %L',
		'cat >/dev/null; prlimit --pid ' || pg_backend_pid() || ' --fsize=' || bytes || ':unlimited');
END \$\$;
CREATE FUNCTION look_when_full(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS \$\$
DECLARE n bigint;
BEGIN
	IF i = 2901 THEN
		PERFORM set_limit('5000000');
		BEGIN
			SELECT count(*) INTO n FROM b;
			PERFORM set_config('test.caught', 'nothing, saw ' || n, false);
		EXCEPTION WHEN OTHERS THEN
			PERFORM set_config('test.caught', SQLERRM, false);
		END;
		PERFORM set_limit('unlimited');
	END IF;
	RETURN i;
END \$\$;
});
	# 4 rows to a page: 2000 rows take 4 MB, and the ring holds 900 when it is
	# read.  The page writer cannot go on after such an error, and says so.
	foreach my $writer (@writers)
	{
		my $what = 'disk full while a reader looks' . ($writer eq 'on' ? ', page writer' : '');

		value($session, set_writer($writer) . 'SET batchheap.max_batch_size = 16384');
		($out, $err) = try_sql($session, q{CREATE TABLE b USING batchheap AS
			SELECT look_when_full(i) AS i, repeat(chr(32 + i % 90), 1900) AS t FROM generate_series(1, 3600) i});
		$set_limit->('unlimited');
		if ($writer eq 'on' && $err ne '')
		{
			like($err, qr/ERROR:  cannot continue to load table "b" after an error/, "$what: the load fails");
			is(value($session, q{SELECT to_regclass('b') IS NULL}), 't', "$what: no table");
		}
		else
		{
			is($err, '', "$what: the load succeeds");
			like(value($session, q{SELECT current_setting('test.caught')}), qr/could not extend|wrote only/,
				"$what: the reader fails");
			same_rows($node, 'SELECT i, repeat(chr(32 + i % 90), 1900) FROM generate_series(1, 3600) i', 'b',
				"$what: every row is there once");
			map_is_sound($node, 'b', "$what: visibility map");
			heap_is_sound($node, 'b', "$what: heap");
		}
		value($session, 'DROP TABLE IF EXISTS b; RESET batchheap.max_batch_size;' . set_writer($writers[0]));
	}
}

#
# Limits and values
#

q1($node, q{
CREATE DOMAIN small AS int CHECK (value <= 5500);
CREATE FUNCTION complain(i int) RETURNS int LANGUAGE plpgsql AS
$$ BEGIN IF i = 5500 THEN RAISE 'complaint' USING ERRCODE = 'BH002'; END IF; RETURN i; END $$;
});
my @faults = (
	[ 'domain', 'SELECT i::small AS i, t FROM h', qr/violates check constraint "small_check"/ ],
	[ 'exception of a function', 'SELECT complain(i) AS i, t FROM h', qr/complaint/ ],
	[ 'division by zero', 'SELECT 1 / (i - 5500) AS i, t FROM h', qr/division by zero/ ],
	[ 'memory', q{SELECT i, CASE i WHEN 5500 THEN repeat('x', 1200000000) ELSE t END AS t FROM h},
		qr/invalid memory alloc request size|requested length too large/ ],
	[ 'temp_file_limit', q{SELECT i, t FROM h UNION ALL SELECT i, 'kept by the scan' FROM generate_series(1, 300000) i},
		qr{temporary file size exceeds "?temp_file_limit} ],
	[ 'row too big', 'SELECT i, ' . join(', ', map { "CASE WHEN i = 5500 THEN 'x'::name END AS n$_" } 1 .. 140)
		  . ' FROM h', qr/row is too big/ ],
	[ 'invalid input', q{SELECT i, CASE i WHEN 5500 THEN '1' || t ELSE '7' END::int AS t FROM h},
		qr/invalid input syntax for type integer/ ]);
value($session, q{SET temp_file_limit = '1MB'; SET work_mem = '64kB'});
foreach (@faults)
{
	my ($name, $select, $error) = @$_;

	my ($out, $err) = try_sql($session, "CREATE TABLE b USING batchheap AS $select");
	like($err, $error, "$name: CREATE TABLE AS fails");
	is(value($session, q{SELECT to_regclass('b') IS NULL}), 't', "$name: no table");
	is(value($session, contexts_left()), 0, "$name: no memory is left");

	($out, $err) = try_sql($session, "BEGIN; CREATE TABLE other USING batchheap AS TABLE h; SAVEPOINT s; "
		  . "CREATE TABLE b USING batchheap AS $select; ROLLBACK TO s; "
		  . "CREATE TABLE b USING batchheap AS TABLE h; COMMIT");
	like($err, $error, "$name: fails in a subtransaction");
	sound_copy($node, 'h', $_, "$name: $_ has all rows") foreach qw(other b);
	value($session, 'DROP TABLE other, b');
}
value($session, 'RESET temp_file_limit; RESET work_mem');
foreach (
	[ 'COPY', "BEGIN; TRUNCATE emptied; COPY emptied (t, i) FROM '$dir/h'; COMMIT", qr/invalid input syntax/ ],
	[ 'ALTER TABLE', 'ALTER TABLE altered ALTER i TYPE smallint USING i * 6', qr/smallint out of range/ ],
	[ 'ALTER TABLE with a check', 'ALTER TABLE altered ALTER i TYPE bigint, ADD CHECK (i < 5990)',
		qr/check constraint .* is violated by some row/ ],
	[ 'ALTER TABLE with an index', 'ALTER TABLE altered ALTER i TYPE bigint USING i / 2, ADD UNIQUE (i)',
		qr/could not create unique index/ ],
	[ 'REFRESH', 'BEGIN; UPDATE h SET t = NULL; ALTER TABLE h ADD CHECK (t IS NULL); REFRESH MATERIALIZED VIEW mv; SELECT 1 / 0; COMMIT',
		qr/division by zero/ ])
{
	my ($name, $load, $error) = @$_;
	my ($out, $err) = try_sql($session, $load);
	like($err, $error, "$name: fails");
	try_sql($session, 'ROLLBACK') if $load =~ /BEGIN/;
	as_before("$name");
}

# the same session still loads as it should
value($session, 'SELECT batchheap_counters_reset(); CREATE TABLE b USING batchheap AS TABLE h');
is(value($session, counters(qw(loads rows_batched rows_frozen))), "loads=1 rows_batched=$rows rows_frozen=$rows", 'the session loads in batches as ever');
sound_copy($node, 'h', 'b', 'the session loads all rows');
is(backend_pid($session), $pid, 'it is still the same session');
$session->quit;

finish_tests();
