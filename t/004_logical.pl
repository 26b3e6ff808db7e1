# Logical decoding and replication
#
# Rows of loads are decoded, and arrive at a subscriber, exactly once: rows of
# a table made by CREATE TABLE AS, rows of COPY, and rows that were written
# early for a reader in a subtransaction that aborted.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use BatchheapTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $rows = 3500;
my $dir = PostgreSQL::Test::Utils::tempdir();
append_to_file("$dir/rows", join('', map { "$_\ttext $_\n" } 1 .. $rows));

my $publisher = new_node('publisher', init => { allows_streaming => 'logical' });

# h: some values are toasted
my $setup = qq{
CREATE TABLE h AS
	SELECT i, CASE WHEN i % 700 = 0
		THEN (SELECT string_agg(md5(i::text || j), '') FROM generate_series(1, 300) j) ELSE 'text ' || i END AS t
	FROM generate_series(1, $rows) i;
};
q1($publisher, $setup);

#
# Decoding
#

SKIP:
{
	my ($ret, $out, $err) = $publisher->psql('postgres',
		q{SELECT pg_create_logical_replication_slot('slot', 'test_decoding')});
	skip 'test_decoding is not installed', 1 if $ret != 0 && $err =~ /could not access file/;
	is($ret, 0, 'slot made') or die $err;

	q1($publisher, q{
-- reads the table that is being loaded, and fails afterwards at these rows
CREATE FUNCTION read_and_fail(i int, tab text) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
DECLARE n bigint;
BEGIN
	IF i IN (10, 1500, 1501, 3400) THEN
		BEGIN
			EXECUTE format('SELECT count(*) FROM %I', tab) INTO n;
			IF n <> i - 1 THEN
				RAISE 'reads % rows at row %', n, i USING ERRCODE = 'BH001';
			END IF;
			RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN NULL;
		END;
	END IF;
	RETURN i;
END $$;
-- the same, but the subtransaction commits
CREATE FUNCTION read_and_go_on(i int, tab text) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
DECLARE n bigint;
BEGIN
	IF i IN (10, 1500, 1501, 3400) THEN
		BEGIN
			EXECUTE format('SELECT count(*) FROM %I', tab) INTO n;
			IF n <> i - 1 THEN
				RAISE 'reads % rows at row %', n, i USING ERRCODE = 'BH001';
			END IF;
		EXCEPTION WHEN division_by_zero THEN NULL;
		END;
	END IF;
	RETURN i;
END $$;
-- a subtransaction in a subtransaction: only the outer one aborts
CREATE FUNCTION read_nested(i int, tab text) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF i IN (10, 1500, 1501, 3400) THEN
		BEGIN
			PERFORM read_and_go_on(i, tab);
			RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN NULL;
		END;
	END IF;
	RETURN i;
END $$;
});

	my @loads = (
		[ 'CREATE TABLE AS', 'd', 'CREATE TABLE d USING batchheap AS TABLE h' ],
		[ 'CREATE TABLE AS, not frozen', 'd',
			'SET batchheap.freeze_on_load = off; CREATE TABLE d USING batchheap AS TABLE h' ],
		[ 'CREATE TABLE AS in a subtransaction', 'd',
			'BEGIN; SAVEPOINT s; CREATE TABLE d USING batchheap AS TABLE h; RELEASE s; COMMIT' ],
		[ 'read in an aborted subtransaction', 'd',
			q{CREATE TABLE d USING batchheap AS SELECT read_and_fail(i, 'd') AS i, t FROM h} ],
		[ 'read in a committed subtransaction', 'd',
			q{CREATE TABLE d USING batchheap AS SELECT read_and_go_on(i, 'd') AS i, t FROM h} ],
		[ 'read in nested subtransactions', 'd',
			q{CREATE TABLE d USING batchheap AS SELECT read_nested(i, 'd') AS i, t FROM h} ],
		[ 'COPY in the transaction of CREATE TABLE', 'd',
			"BEGIN; CREATE TABLE d (i int, t text) USING batchheap; COPY d FROM '$dir/h'; COMMIT" ],
		[ 'COPY', 'd', "CREATE TABLE d (i int, t text) USING batchheap; COPY d FROM '$dir/h'" ],
		[ 'INSERT ... SELECT', 'd',
			'CREATE TABLE d (i int, t text) USING batchheap; INSERT INTO d TABLE h' ],
		[ 'INSERT ... SELECT in the transaction of CREATE TABLE', 'd',
			'BEGIN; CREATE TABLE d (i int, t text) USING batchheap; INSERT INTO d TABLE h; COMMIT' ],
		[ 'INSERT ... SELECT in subtransactions', 'd',
			'BEGIN; CREATE TABLE d (i int, t text) USING batchheap; SAVEPOINT s; INSERT INTO d TABLE h; '
			  . 'ROLLBACK TO s; INSERT INTO d TABLE h; COMMIT' ]);

	q1($publisher, qq{COPY h TO '$dir/h'});

	# what is decoded of a load of a heap table
	sub decoded
	{
		my ($table) = @_;
		return q1($publisher, qq{
SELECT count(*), count(DISTINCT data), md5(string_agg(data, ',' ORDER BY data))
FROM pg_logical_slot_get_changes('slot', NULL, NULL, 'skip-empty-xacts', '1', 'include-xids', '0')
WHERE data LIKE 'table public.$table: INSERT:%'});
	}
	q1($publisher, 'CREATE TABLE d AS TABLE h');
	my $expected = decoded('d');
	like($expected, qr/^$rows\|$rows\|/, 'heap: decoded as many as there are');
	q1($publisher, 'DROP TABLE d');

	foreach my $writer (page_writer_modes($publisher))
	{
		foreach (@loads)
		{
			my ($name, $table, $load) = @$_;
			$name .= ", page writer $writer" if $writer ne 'none';
			q1($publisher, set_writer($writer) . $load);
			is(decoded($table), $expected, "$name: each row is decoded once");
			sound_copy($publisher, 'h', $table, "$name: rows of the table");
			q1($publisher, "DROP TABLE $table");
		}
	}

	# transient tables are not for decoding, as with heap
	q1($publisher, q{
CREATE MATERIALIZED VIEW mv USING batchheap AS TABLE h WITH NO DATA;
REFRESH MATERIALIZED VIEW mv;
CREATE TABLE altered AS TABLE h;
});
	decoded('altered');
	q1($publisher, 'ALTER TABLE altered SET ACCESS METHOD batchheap');
	is( q1( $publisher, q{
SELECT count(*) FROM pg_logical_slot_get_changes('slot', NULL, NULL) WHERE data LIKE '%INSERT:%'}),
		'0',
		'REFRESH and ALTER TABLE: nothing is decoded');
	q1($publisher, q{SELECT pg_drop_replication_slot('slot'); DROP TABLE altered; DROP MATERIALIZED VIEW mv});
}

#
# Replication
#

my $subscriber = new_node('subscriber', init => { allows_streaming => 'logical' });
my $connstr = $publisher->connstr . ' dbname=postgres';

q1($publisher, qq{
CREATE TABLE made (i int, t text) USING batchheap;
CREATE TABLE copied (i int, t text) USING batchheap;
CREATE TABLE inserted (i int, t text) USING batchheap;
CREATE TABLE there_before USING batchheap AS TABLE h;
CREATE TABLE keyed (i int PRIMARY KEY, t text) USING batchheap;
CREATE PUBLICATION everything FOR ALL TABLES;
});
q1($subscriber, qq{
CREATE TABLE h (i int, t text);
CREATE TABLE made (i int, t text) USING batchheap;
CREATE TABLE copied (i int, t text) USING batchheap;
CREATE TABLE inserted (i int, t text);
CREATE TABLE there_before (i int, t text) USING batchheap;
CREATE TABLE keyed (i int PRIMARY KEY, t text) USING batchheap;
CREATE SUBSCRIPTION sub CONNECTION '$connstr' PUBLICATION everything;
});
$subscriber->wait_for_subscription_sync($publisher, 'sub');
sound_copy($subscriber, 'h', 'there_before', 'rows that were there before the subscription');

# The subscriber knows tables by name, so the one that is made here anew is the
# one that it has.
my $set = set_writer((page_writer_modes($publisher))[-1]);
q1($publisher, qq{
$set
BEGIN;
DROP TABLE made;
CREATE TABLE made USING batchheap AS TABLE h;
COMMIT;
BEGIN;
TRUNCATE copied;
COPY copied FROM '$dir/rows';
COMMIT;
COPY copied FROM '$dir/rows';
INSERT INTO inserted TABLE h;
INSERT INTO keyed TABLE h;
UPDATE keyed SET t = 'changed' WHERE i % 3 = 0;
DELETE FROM keyed WHERE i % 10 = 0;
});

$publisher->wait_for_catchup('sub');
my $sums = q{SELECT count(*), coalesce(sum(hashtext(i || t)), 0) FROM };
foreach my $table (qw(made copied inserted keyed there_before))
{
	is(q1($subscriber, $sums . $table), q1($publisher, $sums . $table),
		"subscriber: each row of $table has arrived once");
}
map_is_sound($subscriber, $_, "subscriber: visibility map of $_") foreach qw(made copied keyed);
index_is_sound($subscriber, 'keyed_pkey', 'subscriber: index');

$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION sub');
finish_tests();
