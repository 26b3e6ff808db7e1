# Other people's code that inserts in bulk
#
# Extensions call table_tuple_insert() with a bulk insert state and never
# table_finish_bulk_insert(), because heap does not mind.  Their rows must be
# in the table all the same, or, if they were taken for those of a command that
# finishes, the transaction must not commit without them.  The code here does
# what such extensions do; it is built by this test (t/module).

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use BatchheapTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = built_library('module', 'bhfaulty');
my $node = new_node('faulty');
q1($node, qq{
CREATE FUNCTION bhf_copy_like(regclass, int, int) RETURNS void AS '$library' LANGUAGE C STRICT;
CREATE FUNCTION bhf_receiver_like(regclass, int, int, options int, finish bool) RETURNS void
	AS '$library' LANGUAGE C STRICT;
CREATE FUNCTION bhf_swallow(regclass, last int, big int, next text) RETURNS text
	AS '$library' LANGUAGE C STRICT;
CREATE TABLE old (i int, t text) USING batchheap;
});

# of heapam.h
my $skip_fsm = 2;
my $no_logical = 8;

my $session;

# run($what, SQL, expected error or undef): SQL in the session
sub run_sql
{
	my ($what, $sql, $error) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($out, $err) = try_sql($session, $sql);

	if (defined $error)
	{
		like($err, $error, $what);
	}
	else
	{
		is($err, '', $what);
	}
	return $out;
}

my $create = 'CREATE TABLE b (i int, t text) USING batchheap';
my $expect = sub { "SELECT i, 'text ' || i FROM generate_series(1, $_[0]) i" };
my $unwritten = qr{ERROR:  rows for the table with OID \d+ have not been written};
my $reset = 'SELECT batchheap_counters_reset() IS NULL;';
my $counters = counters();

foreach my $writer (page_writer_modes($node))
{
	note("page writer: $writer");
	$session = $node->background_psql('postgres', on_error_stop => 0);
	$session->set_query_timer_restart();
	value($session, set_writer($writer));

	#
	# Like COPY row by row: not batched, all rows there
	#

	foreach my $rows (10, 1000, 3500)
	{
		run_sql("like COPY: $rows rows", "$reset BEGIN; $create; SELECT bhf_copy_like('b', 1, $rows); COMMIT;");
		same_rows($node, $expect->($rows), 'b', "like COPY: $rows rows are there");
		is(value($session, counters(qw(loads single_rows_not_new))), "single_rows_not_new=$rows",
			"like COPY: $rows rows are not taken for a load");
		run_sql('next', 'DROP TABLE b');
	}
	run_sql('like COPY: subtransactions', qq{
	BEGIN; $create;
	SAVEPOINT s; SELECT bhf_copy_like('b', 1, 700); RELEASE s;
	SAVEPOINT s; SELECT bhf_copy_like('b', 5000, 5700); ROLLBACK TO s;
	SELECT bhf_copy_like('b', 701, 1500);
	COMMIT;
	});
	same_rows($node, $expect->(1500), 'b', 'like COPY: subtransactions: rows are there');
	run_sql('next', 'DROP TABLE b');
	run_sql('like COPY: table of before', q{SELECT bhf_copy_like('old', 1, 1500)});
	same_rows($node, $expect->(1500), 'old', 'like COPY: table of before: rows are there');

	#
	# Like a receiver of the executor's rows
	#

	run_sql('like a receiver that finishes',
		"$reset BEGIN; $create; SELECT bhf_receiver_like('b', 1, 2500, $skip_fsm, true); COMMIT;");
	is(value($session, counters(qw(loads rows_batched single_rows_not_new))), 'loads=1 rows_batched=2500',
		'like a receiver that finishes: batched');
	same_rows($node, $expect->(2500), 'b', 'like a receiver that finishes: rows are there');
	run_sql('next', 'DROP TABLE b');

	foreach my $rows (10, 2500)
	{
		my $insert = "SELECT bhf_receiver_like('b', 1, $rows, $skip_fsm, false)";
		my $gone = q{SELECT to_regclass('b') IS NULL};

		run_sql("no finish, $rows rows: COMMIT fails", "BEGIN; $create; $insert; COMMIT;", $unwritten);
		is(value($session, $gone), 't', "no finish, $rows rows: nothing is committed");
		is(value($session, contexts_left()), 0, "no finish, $rows rows: nothing is left in memory");

		run_sql("no finish, $rows rows: PREPARE fails",
			"BEGIN; $create; $insert; PREPARE TRANSACTION 'p';", $unwritten);
		is(value($session, 'SELECT count(*) FROM pg_prepared_xacts'), 0, "no finish, $rows rows: nothing is prepared");

		run_sql("no finish, $rows rows: RELEASE fails",
			"BEGIN; CREATE TABLE other (i int); SAVEPOINT outside; SAVEPOINT s; $create; $insert; RELEASE s;", $unwritten);
		run_sql("no finish, $rows rows: ROLLBACK TO mends it", 'ROLLBACK TO outside; COMMIT');
		is(value($session, $gone), 't', "no finish, $rows rows: table of the subtransaction is gone");
		run_sql("no finish, $rows rows: the rest is committed", 'DROP TABLE other');

		run_sql("no finish, $rows rows: a block with EXCEPTION fails", qq{
	DO \$\$ BEGIN
		BEGIN $create; PERFORM bhf_receiver_like('b', 1, $rows, $skip_fsm, false);
		EXCEPTION WHEN division_by_zero THEN NULL; END;
	END \$\$;
	}, $unwritten);
		is(value($session, $gone), 't', "no finish, $rows rows: nothing of the block is committed");

		run_sql("no finish, $rows rows: ROLLBACK is all right", "BEGIN; $create; $insert; ROLLBACK;");
		is(value($session, contexts_left()), 0, "no finish, $rows rows: ROLLBACK leaves nothing in memory");

		# whoever looks at the table has the rows written
		is(run_sql("no finish, $rows rows: read before COMMIT",
				"BEGIN; $create; SELECT bhf_receiver_like('b', 1, $rows, $skip_fsm, false) IS NULL; "
				  . 'SELECT count(*) FROM b; COMMIT;'),
			"f\n$rows", "no finish, $rows rows: the reader sees them");
		same_rows($node, $expect->($rows), 'b', "no finish, $rows rows: read before COMMIT: rows are there");
		run_sql('next', 'DROP TABLE b');

		run_sql("no finish, $rows rows: the hint of the error helps",
			"SET batchheap.enable = off; BEGIN; $create; $insert; COMMIT; RESET batchheap.enable;");
		same_rows($node, $expect->($rows), 'b', "no finish, $rows rows: rows are there with the hint");
		run_sql('next', 'DROP TABLE b');

		# a table of another transaction, or subtransaction, may not be batched at all
		run_sql('next', 'TRUNCATE old');
		run_sql("no finish, $rows rows: table of before",
			"SELECT bhf_receiver_like('old', 1, $rows, $skip_fsm, false)");
		same_rows($node, $expect->($rows), 'old', "no finish, $rows rows: table of before: rows are there");
		run_sql("no finish, $rows rows: table of the outer transaction",
			"BEGIN; $create; SAVEPOINT s; $insert; RELEASE s; COMMIT;");
		same_rows($node, $expect->($rows), 'b', "no finish, $rows rows: table of the outer transaction: rows are there");
		run_sql('next', 'DROP TABLE b');
		run_sql("no finish, $rows rows: table with an index",
			"BEGIN; $create; CREATE INDEX ON b (i); $insert; COMMIT;");
		is(q1($node, 'SELECT count(*) FROM b'), $rows, "no finish, $rows rows: table with an index: rows are there");
		run_sql('next', 'DROP TABLE b');
	}

	# When no row is waiting, as after a full batch, there is nothing to complain
	# of.  The page writer has always something to do at the end.
	if ($writer ne 'on')
	{
		run_sql('a full batch: COMMIT',
			"BEGIN; $create; SELECT bhf_receiver_like('b', 1, 1000, $skip_fsm, false); COMMIT;");
		same_rows($node, $expect->(1000), 'b', 'a full batch: rows are there');
		is(value($session, contexts_left()), 0, 'a full batch: nothing is left in memory');
		run_sql('next', 'CREATE TABLE another USING batchheap AS TABLE b; DROP TABLE b');
		run_sql('a full batch: PREPARE',
			"BEGIN; $create; SELECT bhf_receiver_like('b', 1, 1000, $skip_fsm, false); PREPARE TRANSACTION 'p';");
		is(value($session, contexts_left()), 0, 'a full batch: nothing is left in memory after PREPARE');
		run_sql('next', "DROP TABLE another; CREATE TABLE another USING batchheap AS SELECT 1 AS i");
		run_sql('a full batch: COMMIT PREPARED', "COMMIT PREPARED 'p'");
		same_rows($node, $expect->(1000), 'b', 'a full batch: rows are there after COMMIT PREPARED');
		run_sql('a full batch: RELEASE', "DROP TABLE another, b; BEGIN; SAVEPOINT s; $create; "
			  . "SELECT bhf_receiver_like('b', 1, 1000, $skip_fsm, false); RELEASE s; "
			  . 'CREATE TABLE another USING batchheap AS TABLE b; COMMIT;');
		same_rows($node, $expect->(1000), 'another', 'a full batch: rows are there after RELEASE');
		run_sql('next', 'DROP TABLE another, b');
	}

	# other options than those of a load
	foreach my $options (0, $skip_fsm | $no_logical, $no_logical)
	{
		run_sql("options $options",
			"$reset BEGIN; $create; SELECT bhf_receiver_like('b', 1, 1500, $options, false); COMMIT;");
		is(value($session, counters(qw(loads single_rows_not_new))), 'single_rows_not_new=1500',
			"options $options: not taken for a load");
		same_rows($node, $expect->(1500), 'b', "options $options: rows are there");
		run_sql('next', 'DROP TABLE b');
	}

	# an error while a batch is written is swallowed, without a subtransaction
	my $plain = "$create; ALTER TABLE b ALTER t SET STORAGE PLAIN";
	my $too_big = "row is too big: size 9\\d\\d\\d, maximum size \\d+";
	foreach my $freeze ('on', 'off')
	{
		my $begin = "SET batchheap.freeze_on_load = $freeze; BEGIN; $plain;";
		my $end = 'ROLLBACK; RESET batchheap.freeze_on_load;';

		run_sql("swallowed error, freeze $freeze: no other row is taken",
			"$begin SELECT bhf_swallow('b', 1500, 500, 'insert'); $end",
			qr/ERROR:  cannot continue to load table "b" after an error/);
		run_sql("swallowed error, freeze $freeze: no finish",
			"$begin SELECT bhf_swallow('b', 1500, 500, 'finish'); $end",
			qr/ERROR:  cannot continue to load table "b" after an error/);
		like(run_sql("swallowed error, freeze $freeze: no COMMIT",
				"$begin SELECT bhf_swallow('b', 1500, 500, 'nothing'); COMMIT; $end", $unwritten),
			qr/^$too_big$/, "swallowed error, freeze $freeze: the error is what it should be");
		is(value($session, contexts_left()), 0, "swallowed error, freeze $freeze: nothing is left in memory");
	}
	# with heap the same code commits what there was
	is(run_sql('swallowed error, no error',
			"BEGIN; $create; SELECT bhf_swallow('b', 1500, 500, 'finish') IS NULL; COMMIT;"),
		't', 'without an error the same goes well');
	is(q1($node, 'SELECT count(*), count(DISTINCT i) FROM b'), '1500|1500', 'without an error: rows are there');

	# the session is none the worse for it
	run_sql('a load after all of this', "$reset CREATE TABLE after USING batchheap AS TABLE b");
	is(value($session, counters(qw(loads rows_batched))), 'loads=1 rows_batched=1500', 'a load after all of this: batched');
	sound_copy($node, 'b', 'after');

	$session->quit;
	q1($node, 'DROP TABLE b, after; TRUNCATE old');
}

finish_tests();
