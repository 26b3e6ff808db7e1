# pgbouncer in transaction mode
#
# Clients share a few server sessions, and each of their transactions may get
# another one.  What a session remembers (counters, settings, a load that failed)
# must not matter to the next client: rows are those of heap, and a load that is
# cancelled or loses its client leaves nothing behind.

use strict;
use warnings FATAL => 'all';

use File::Spec;
use FindBin;
use lib $FindBin::RealBin;
use BatchheapTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Debian has it where only root looks for programs
my ($program) = grep { -x } map { "$_/pgbouncer" } split(/:/, $ENV{PATH}), '/usr/local/sbin', '/usr/sbin';
plan skip_all => 'pgbouncer is not installed' unless defined $program;
plan skip_all => 'pgbouncer refuses to run as root' if $> == 0;
plan skip_all => 'there are no Unix sockets' unless $use_unix_sockets;

my $pool_size = 2;
my $clients = 6;
my $transactions = rounds(15, 1000);
my $failures = rounds(10, 300);
my $rows = 3000;

my $node = new_node('server');
my $user = q1($node, 'SELECT current_user');

#
# pgbouncer, on a Unix socket; it ends with the test, however that ends.  Clients
# of database "shared" have several server sessions, those of "one" have one.
#

my $dir = PostgreSQL::Test::Utils::tempdir_short();
my ($host, $port) = ($node->host, $node->port);

my $log = "$PostgreSQL::Test::Utils::log_path/015_pgbouncer_pool.log";
append_to_file("$dir/users", qq{"$user" ""\n});
append_to_file("$dir/pgbouncer.ini", qq{
[databases]
shared = host=$host port=$port dbname=postgres pool_size=$pool_size
one = host=$host port=$port dbname=postgres pool_size=1

[pgbouncer]
unix_socket_dir = $dir
listen_port = $port
auth_type = trust
auth_file = $dir/users
pool_mode = transaction
logfile = $log
});
my $pgbouncer = IPC::Run::start([ $program, '-q', "$dir/pgbouncer.ini" ],
	'<', \undef, '>', File::Spec->devnull, '2>', File::Spec->devnull);

# a signal alone would not come to END
$SIG{$_} = sub { die "ended by a signal\n" } foreach qw(HUP INT TERM);

END
{
	my $status = $?;
	$pgbouncer->kill_kill(grace => 10) if defined $pgbouncer;
	$? = $status;
}

sub through
{
	my ($db) = @_;
	return "host=$dir port=$port dbname=$db user=$user";
}

# start_client(DB, SQL): psql, which sends one statement after the other; through
# files, so that it goes on while we do something else
my $number = 0;
sub start_client
{
	my ($db, $sql) = @_;
	my $file = "$dir/client" . ++$number;
	append_to_file("$file.sql", $sql);
	return { file => $file,
		run => IPC::Run::start([ $node->installed_command('psql'), '-XAtq', '-d', through($db) ],
			'<', "$file.sql", '>', "$file.out", '2>', "$file.err") };
}

# finish_client(CLIENT): output and error messages
sub finish_client
{
	my ($client) = @_;
	$client->{run}->finish;
	return map { slurp_file("$client->{file}.$_") =~ s/\n\z//r } qw(out err);
}

# client(DB, SQL): one or the other
sub client
{
	my ($out, $err) = finish_client(start_client(@_));
	return $err eq '' ? $out : $err;
}

my $tries = 10 * $PostgreSQL::Test::Utils::timeout_default;
while (client('one', 'SELECT 1') ne '1')
{
	die "could not start pgbouncer: see $log" if $tries-- == 0;
	select(undef, undef, undef, 0.1);
}

q1($node, BLOCKING_FUNCTION . qq{
CREATE TABLE h AS SELECT i, CASE WHEN i % 500 = 0 THEN repeat(md5(i::text), 300) ELSE 'text ' || i END AS t FROM generate_series(1, $rows) i;
CREATE TABLE heap_loaded (client int, i int, t text);
CREATE TABLE loaded (LIKE heap_loaded) USING batchheap;
CREATE TABLE reloaded (LIKE h) USING batchheap;
CREATE TABLE failing (LIKE h) USING batchheap;
CREATE TABLE altered AS TABLE h;
CREATE MATERIALIZED VIEW view USING batchheap AS TABLE h WITH NO DATA;
CREATE TABLE sessions (pid int);
-- error unless there are that many
CREATE FUNCTION has(tab regclass, n bigint) RETURNS void LANGUAGE plpgsql AS \$\$
DECLARE r bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM %s', tab) INTO r;
	IF r <> n THEN RAISE '% has % rows, and should have %', tab, r, n; END IF;
END \$\$;
-- and unless it is of that access method
CREATE FUNCTION am_is(tab regclass, am name) RETURNS void LANGUAGE plpgsql AS \$\$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = tab AND amname = am) THEN
		RAISE '% is not of access method %', tab, am;
	END IF;
END \$\$;
});

#
# Clients that share sessions: some load, and others fail in the middle of it
#

# what pgbench does not go on after
my $fail = q{
CREATE TABLE failed USING batchheap AS SELECT 1 / (i - 2500) FROM h;
BEGIN; TRUNCATE failing; INSERT INTO failing SELECT i / (i - 2500), t FROM h; COMMIT;
INSERT INTO failing SELECT i / (i - 2500), t FROM h;
ALTER TABLE altered ALTER i TYPE bigint USING 1 / (i - 2500), SET ACCESS METHOD batchheap;
};
my @failing = map { start_client('shared', $fail x $failures) } 1 .. 2;

my %scripts = (
	'ctas@3' => qq{
BEGIN;
SET LOCAL default_table_access_method = batchheap;
CREATE TABLE mine_:client_id AS TABLE h;
INSERT INTO sessions SELECT pg_backend_pid();
COMMIT;
SELECT am_is('mine_:client_id', 'batchheap'), has('mine_:client_id', $rows);
-- settings that are local to a transaction end with it
CREATE TABLE heap_:client_id AS SELECT * FROM h LIMIT 50;
SELECT am_is('heap_:client_id', 'heap');
DROP TABLE heap_:client_id, mine_:client_id;
},
	'prepare@1' => qq{
BEGIN;
PREPARE p_:client_id AS SELECT * FROM h WHERE i > \$1;
CREATE TABLE prepared_:client_id USING batchheap AS EXECUTE p_:client_id (1000);
DEALLOCATE p_:client_id;
SELECT has('prepared_:client_id', $rows - 1000);
DROP TABLE prepared_:client_id;
COMMIT;
},
	'reload@2' => qq{
BEGIN;
TRUNCATE reloaded;
INSERT INTO reloaded TABLE h;
SELECT has('reloaded', $rows);
COMMIT;
},
	'insert@2' => q{
\set n random(1, 2000)
BEGIN;
INSERT INTO loaded SELECT :client_id, * FROM h WHERE i <= :n;
INSERT INTO heap_loaded SELECT :client_id, * FROM h WHERE i <= :n;
COMMIT;
},
	'refresh@2' => qq{
BEGIN;
SET LOCAL batchheap.max_batch_rows = 77;
REFRESH MATERIALIZED VIEW view;
COMMIT;
},
	'off@1' => qq{
BEGIN;
SET LOCAL batchheap.enable = off;
CREATE TABLE off_:client_id USING batchheap AS TABLE h;
ROLLBACK;
});
foreach my $protocol (qw(simple extended))
{
	$node->pgbench(
		"-n -M $protocol -h $dir -p $port -U $user -c $clients -j 2 -t $transactions --random-seed="
		  . ($ENV{BATCHHEAP_SEED} // int(rand(1_000_000))),
		0,
		[qr/number of transactions actually processed: @{[ $clients * $transactions ]}\/@{[ $clients * $transactions ]}\b/],
		[qr/^(?!.*(ERROR|FATAL|aborted))/s],
		"$protocol protocol: clients find the rows of heap",
		# in the extended protocol, variables are values and no parts of names
		{ map { ("pool_${protocol}_$_" => $scripts{$_}) }
			grep { $protocol eq 'simple' || $scripts{$_} !~ /_:client_id/ } keys %scripts },
		'shared');
}
foreach my $client (@failing)
{
	my @errors = grep { !/NOTICE/ } split /\n/, (finish_client($client))[1];

	is(scalar(grep { /division by zero/ } @errors), 4 * $failures, 'each load that should fail has failed');
	is(join("\n", grep { /ERROR|FATAL|server/ && !/division by zero/ } @errors), '', 'and there is no other error');
}
cmp_ok(q1($node, 'SELECT count(DISTINCT pid) FROM sessions'), '<=', $pool_size, 'clients shared the sessions');
is(q1($node, q{SELECT count(*) FROM pg_class WHERE relname ~ '^(failed|mine_|prepared_|heap_\d|off_)'}), 0, 'no table is left');
is(q1($node, 'SELECT count(*) FROM failing'), 0, 'no row of a failed load is left');
is(q1($node, q{SELECT am_is('altered', 'heap')}), '', 'no ALTER TABLE that failed has done anything');
sound_copy($node, 'heap_loaded', 'loaded');
sound_copy($node, 'h', 'reloaded');
sound_copy($node, 'h', 'view');
all_frozen($node, $_) foreach qw(reloaded view);

#
# What a session remembers, the next client finds: as with all settings, and with
# all that is of a session
#

my $loads = counters('loads', 'rows_frozen');
my $show = 'SHOW batchheap.enable';

is(client('one', 'SELECT pg_backend_pid()'), client('one', 'SELECT pg_backend_pid()'), 'two clients have the same session');
client('one', "SELECT batchheap_counters_reset(); CREATE TABLE counted USING batchheap AS TABLE h;");
is(client('one', $loads), "loads=1 rows_frozen=$rows", 'counters are those of the server session');
is(client('shared', 'SELECT batchheap_counters_reset()'), '', 'the counters of another session');
is(client('one', $loads), "loads=1 rows_frozen=$rows", '... are none of its business');
client('one', 'BEGIN; SET LOCAL batchheap.enable = off; DROP TABLE counted; COMMIT');
is(client('one', $show), 'on', 'SET LOCAL ends with the transaction');
client('one', 'SET batchheap.enable = off');
is(client('one', $show), 'off', 'SET is there for the next client');
client('one', 'RESET batchheap.enable');
is(client('one', $show), 'on', 'until someone resets it');

#
# A load that is cancelled, or loses its client
#


q1($node, q{
-- INSERT is not batched if it calls a volatile function
CREATE FUNCTION stop_stable(i int, at int) RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN RETURN stop_at(i, at); END';
CREATE MATERIALIZED VIEW slow USING batchheap AS SELECT public.stop_at(i, 2500) AS i, t FROM public.h WITH NO DATA;
});
my @loads = (
	[ 'CREATE TABLE AS', '', 'CREATE TABLE stopped USING batchheap AS SELECT stop_at(i, 2500) AS i, t FROM h' ],
	[ 'ALTER TABLE', '', 'ALTER TABLE altered ALTER i TYPE bigint USING stop_at(i, 2500), SET ACCESS METHOD batchheap' ],
	[ 'REFRESH', '', 'REFRESH MATERIALIZED VIEW slow' ],
	[ 'INSERT', '', 'INSERT INTO reloaded SELECT stop_stable(i, 2500), t FROM h' ],
	[ 'TRUNCATE and INSERT', 'TRUNCATE reloaded', 'INSERT INTO reloaded SELECT stop_stable(i, 2500), t FROM h' ]);

sub nothing_left
{
	my ($what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is( q1($node, q{
SELECT to_regclass('stopped') IS NULL;
SELECT am_is('altered', 'heap');
SELECT relispopulated FROM pg_class WHERE relname = 'slow';
SELECT count(*) FROM pg_stat_progress_batchheap;
SELECT count(*) FROM pg_locks WHERE relation >= 16384 OR locktype = 'advisory' AND NOT granted;
}),
		"t\n\nf\n0\n0", "$what: nothing is left");
	sound_copy($node, 'h', 'reloaded', "$what: the table is as before");
	is(client('one', contexts_left()), 0, "$what: nothing is left in the session's memory");
	is(client('one', "CREATE TABLE after USING batchheap AS TABLE h; SELECT has('after', $rows); DROP TABLE after"),
		'', "$what: the next client's load goes well");
	return;
}

foreach my $mode (page_writer_modes($node))
{
	my $set = set_writer($mode) =~ s/SET/SET LOCAL/r;

	foreach (@loads)
	{
		my ($what, $first, $sql) = @$_;
		$what .= ", page writer $mode";
		my $begin = "BEGIN; $set $first;";

		# by a request to pgbouncer; in a transaction of several statements, and alone
		foreach my $in_transaction ($first eq '' ? (0, 1) : 1)
		{
			my $locker = $node->background_psql('postgres');
			$locker->query_safe('SELECT pg_advisory_lock(4711)');
			my $pid = client('one', 'SELECT pg_backend_pid()');
			my $client = start_client('one', $in_transaction ? "$begin $sql; COMMIT;" : "$sql;");
			wait_for_lock($node);
			$client->{run}->signal('INT');
			like((finish_client($client))[1], qr/canceling statement due to user request/,
				"$what: canceled" . ($in_transaction ? ' in a transaction' : ''));
			$locker->quit;
			is(client('one', 'SELECT pg_backend_pid()'), $pid, "$what: the session goes on") if !$in_transaction;
			nothing_left($what);
		}

		# the client is gone, and pgbouncer gives up its session
		my $locker = $node->background_psql('postgres');
		$locker->query_safe('SELECT pg_advisory_lock(4711)');
		my $pid = client('one', 'SELECT pg_backend_pid()');
		my $client = start_client('one', "$begin $sql; COMMIT;");
		wait_for_lock($node);
		$client->{run}->kill_kill(grace => 0);
		$locker->quit;
		$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid")
		  or die 'the session does not end';
		nothing_left("$what: lost its client");
	}
}

finish_tests();
