# Where one machine is not enough
#
# A partitioned table with a partition on this server and two on others, reached
# through postgres_fdw: all of them batchheap, and a twin of them all heap.  What
# postgres_fdw sends is INSERT with VALUES, so the other servers do what they do
# for that; what arrives must be what arrives in the twin, and a table that is
# made from the whole of it is batched and frozen as ever.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use BatchheapTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $rows = rounds(6000, 18_000);        # whole thousands for each of three servers
my $dir = PostgreSQL::Test::Utils::tempdir();

my %node = map { ($_ => new_node($_)) } qw(here east west);
my $here = $node{here};

if (q1($here, q{SELECT count(*) FROM pg_available_extensions WHERE name = 'postgres_fdw'}) eq '0')
{
	plan skip_all => 'postgres_fdw is not installed';
}

#
# Tables: rows of place 0 are here, of 1 east, of 2 west.  Schema "batch" has the
# one and "heap" the other, on each server.
#

my %am = (batch => 'batchheap', heap => 'heap');
my %place = (here => 0, east => 1, west => 2);
my $columns = 'place int NOT NULL, i int NOT NULL, t text';

foreach my $name (qw(east west))
{
	q1( $node{$name}, join '', map { qq{
CREATE SCHEMA $_;
CREATE TABLE $_.part ($columns, CHECK (place = $place{$name})) USING $am{$_};
CREATE TABLE $_.single ($columns) USING $am{$_};
} } keys %am);

	# what the session that postgres_fdw has there counts
	q1( $node{$name}, q{
CREATE VIEW batch.counters AS SELECT * FROM public.batchheap_counters();
CREATE VIEW batch.reset AS SELECT public.batchheap_counters_reset() IS NOT NULL AS done;
});
}

q1($here, 'CREATE EXTENSION postgres_fdw');
foreach my $name (qw(east west))
{
	my ($host, $port) = ($node{$name}->host, $node{$name}->port);
	q1( $here, qq{
CREATE SERVER $name FOREIGN DATA WRAPPER postgres_fdw
	OPTIONS (host '$host', port '$port', dbname 'postgres', async_capable 'true');
CREATE USER MAPPING FOR CURRENT_USER SERVER $name;
CREATE SCHEMA ${name}_batch;
CREATE SCHEMA ${name}_heap;
IMPORT FOREIGN SCHEMA batch FROM SERVER $name INTO ${name}_batch;
IMPORT FOREIGN SCHEMA heap FROM SERVER $name INTO ${name}_heap;
});
	is( q1($here, "SELECT string_agg(foreign_table_name, ' ' ORDER BY foreign_table_name) "
			  . "FROM information_schema.foreign_tables WHERE foreign_table_schema = '${name}_batch'"),
		'counters part reset single',
		"$name: IMPORT FOREIGN SCHEMA makes foreign tables of batchheap tables");
}
foreach my $schema (sort keys %am)
{
	q1( $here, qq{
CREATE SCHEMA $schema;
CREATE TABLE $schema.whole ($columns) PARTITION BY LIST (place);
CREATE TABLE $schema.part PARTITION OF $schema.whole FOR VALUES IN (0) USING $am{$schema};
ALTER TABLE $schema.whole ATTACH PARTITION east_$schema.part FOR VALUES IN (1);
ALTER TABLE $schema.whole ATTACH PARTITION west_$schema.part FOR VALUES IN (2);
});
}
q1($here, qq{
CREATE TABLE source AS
	SELECT i % 3 AS place, i, CASE WHEN i % 500 = 0 THEN (SELECT string_agg(md5(i::text || j), '') FROM generate_series(1, 300) j) ELSE 'text ' || i END AS t
	FROM generate_series(1, $rows) i;
COPY source TO '$dir/source';
});

# batch_size(N): how many rows postgres_fdw sends at a time; undef: one
my $batch_size;
sub batch_size
{
	my ($size) = @_;
	foreach my $name (qw(east west))
	{
		q1($here, "ALTER SERVER $name OPTIONS ("
			  . (defined $size ? (defined $batch_size ? 'SET' : 'ADD') . " batch_size '$size'" : 'DROP batch_size') . ')')
		  if defined $size || defined $batch_size;
	}
	$batch_size = $size;
	return;
}

# Every server has the rows that are its own, and all as many as the twin.
sub same_everywhere
{
	my ($what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	same_rows($here, 'heap.whole', 'batch.whole', "$what: the rows are those of heap");
	foreach my $name (sort keys %node)
	{
		sound_copy($node{$name}, 'heap.part', 'batch.part', "$what: rows of the server \"$name\"");
	}
	return;
}

sub counts
{
	return join ' ', map { "$_=" . q1($node{$_}, 'SELECT count(*) FROM batch.part') } sort keys %node;
}

my $third = $rows / 3;
my $each = "east=$third here=$third west=$third";

# what the session of postgres_fdw on the server "east" counts during SQL
sub counted_on_east
{
	my ($sql) = @_;
	my @lines = split /\n/, q1($here, qq{
SELECT done FROM east_batch.reset;
$sql;
SELECT string_agg(counter || '=' || value, ' ' ORDER BY counter) FROM east_batch.counters WHERE value <> 0;
});
	return $lines[-1];
}

#
# Load the whole
#

# A thousand rows at a time are a bulk load for the other server, fewer are not.
# How many COPY sends depends on how many partitions its rows are for, and it is
# one before PostgreSQL 16.
my $few = qr/^single_rows_few=$third$/;
my $loads = $third / 1000;
my $any = qr/single_rows_few=\d+$/;
my $bulk = qr/^batches=\d+ loads=$loads rows_batched=\d+ single_rows_few=@{[ 20 * $loads ]}$/;

foreach my $size (undef, 100, 1000)
{
	batch_size($size);

	foreach my $load (
		[ 'INSERT ... SELECT', 'INSERT INTO %s.whole TABLE source', ($size // 1) == 1000 ? $bulk : $few ],
		[ 'INSERT ... SELECT by place', 'INSERT INTO %s.whole SELECT * FROM source ORDER BY place, i', ($size // 1) == 1000 ? $bulk : $few ],
		[ 'COPY', "COPY %s.whole FROM '$dir/source'", ($size // 1) == 1000 ? $any : $few ])
	{
		my ($what, $sql, $counted) = @$load;
		$what .= ', batch_size ' . ($size // 'not set');

		q1($here, 'TRUNCATE batch.whole, heap.whole');
		q1($here, sprintf $sql, 'heap');
		like(counted_on_east(sprintf $sql, 'batch'), $counted, "$what: what the other server counts");
		is(counts(), $each, "$what: each server has its own");
		same_everywhere($what);
	}
}

# postgres_fdw's transactions are REPEATABLE READ, and have a snapshot that could
# tell, so that even a table they have truncated is not frozen
my $sql = 'BEGIN; TRUNCATE %1$s.whole; INSERT INTO %1$s.whole TABLE source; COMMIT';
q1($here, sprintf $sql, 'heap');
unlike(counted_on_east(sprintf $sql, 'batch'), qr/rows_frozen/, 'TRUNCATE and INSERT: the other server does not freeze');
same_everywhere('TRUNCATE and INSERT');
all_frozen($here, 'batch.part', 'TRUNCATE and INSERT: the partition that is here is frozen');

# how many rows are a bulk load is for the other server to say
batch_size(100);
q1($here, q{ALTER SERVER east OPTIONS (ADD options '-c batchheap.max_batch_rows=100')});
q1($here, 'TRUNCATE batch.whole, heap.whole; INSERT INTO heap.whole TABLE source');
like(counted_on_east('INSERT INTO batch.whole TABLE source'), qr/rows_batched=@{[ $third * 0.8 ]}\b/, 'batchheap.max_batch_rows of the other server');
q1($here, q{ALTER SERVER east OPTIONS (DROP options)});
batch_size(1000);
same_everywhere('batchheap.max_batch_rows of the other server');

# one of them alone
foreach my $schema (sort keys %am)
{
	q1($here, "INSERT INTO east_$schema.single TABLE source; "
		  . "WITH w AS (INSERT INTO east_$schema.single SELECT 7, i, t FROM source WHERE i < 50 RETURNING i) SELECT count(*) FROM w");
}
sound_copy($node{east}, 'heap.single', 'batch.single', 'foreign table that is no partition');

#
# Loads that fail, here and there
#

q1($node{west}, "ALTER TABLE $_.part ADD CONSTRAINT small CHECK (i < 10 * $rows)") foreach sort keys %am;
my $before = counts();
foreach (
	[ 'an error here', "INSERT INTO batch.whole SELECT place, i / (i - $rows + 1), t FROM source", qr/division by zero/ ],
	[ 'an error there', "INSERT INTO batch.whole SELECT place, CASE WHEN i = $rows - 1 THEN 10 * $rows ELSE i END, t FROM (SELECT 2, i, t FROM source) s (place, i, t)",
		qr/violates check constraint "small"/ ],
	[ 'COPY, an error there', "COPY batch.whole FROM PROGRAM 'seq -f \"2\t%.0f\tnew\" @{[ 10 * $rows - 3000 ]} @{[ 10 * $rows ]}'", qr/violates check constraint "small"/ ])
{
	my ($what, $sql, $error) = @$_;
	my ($ret, $out, $err) = $here->psql('postgres', $sql);
	like($err, $error, "$what: the load fails");
	is(counts(), $before, "$what: nothing is left");
}
foreach my $schema (sort keys %am)
{
	q1($here, qq{
BEGIN;
SAVEPOINT s;
INSERT INTO $schema.whole SELECT place, -i, t FROM source;
ROLLBACK TO s;
INSERT INTO $schema.whole SELECT place, -i, 'second' FROM source WHERE i > 100;
COMMIT;
});
}
same_everywhere('rolled back to a savepoint');

#
# Rows that go from one server to another
#

foreach my $schema (sort keys %am)
{
	q1($here, qq{
-- by an UPDATE, from here; PostgreSQL does not move rows out of foreign tables
UPDATE $schema.whole SET place = 1 + i % 2, t = t || ' moved' WHERE place = 0 AND i BETWEEN 1 AND 3000;
-- so that they need this
WITH moved AS (DELETE FROM $schema.whole WHERE place = 1 AND i BETWEEN 1 AND 1000 RETURNING i, t)
	INSERT INTO $schema.whole SELECT i % 3, i, t || ' moved on' FROM moved;
UPDATE $schema.whole SET t = 'new' WHERE i % 7 = 0;
DELETE FROM $schema.whole WHERE i % 11 = 0;
});
}
isnt(counts(), $before, 'rows moved');
same_everywhere('rows moved');

#
# Reading them all
#

q1($here, 'ANALYZE batch.whole, heap.whole');
$sql = 'SELECT place, count(*), sum(i), min(t), max(length(t)) FROM %s.whole GROUP BY place ORDER BY place';
my $set = 'SET enable_partitionwise_aggregate = on;';
like( q1($here, "$set EXPLAIN (COSTS off) " . sprintf $sql, 'batch'),
	qr/Relations: Aggregate on \(part whole_1\).*Relations: Aggregate on \(part whole_2\)/s,
	'each server aggregates its own');
is(q1($here, $set . sprintf $sql, 'batch'), q1($here, $set . sprintf $sql, 'heap'), 'aggregates are those of heap');
$sql = 'SELECT count(*), sum(a.i::bigint * length(b.t)) FROM %1$s.whole a JOIN %1$s.whole b USING (place, i) WHERE mod(a.i, 3) < 2';
is(q1($here, sprintf $sql, 'batch'), q1($here, sprintf $sql, 'heap'), 'a join is that of heap');

#
# A table from all of them
#

like(q1($here, 'EXPLAIN (COSTS off) CREATE TABLE gathered USING batchheap AS TABLE batch.whole'),
	qr/Async Foreign Scan/, 'CREATE TABLE AS reads the servers at the same time');
my $all = q1($here, 'SELECT count(*) FROM batch.whole');
foreach my $writer (page_writer_modes($here))
{
	my $counters = counters(qw(loads rows_batched rows_frozen));
	is( q1($here, set_writer($writer) . "CREATE TABLE gathered USING batchheap AS TABLE batch.whole; $counters"),
		"loads=1 rows_batched=$all rows_frozen=$all",
		"page writer $writer: CREATE TABLE AS is batched and frozen");
	sound_copy($here, 'heap.whole', 'gathered', "page writer $writer: CREATE TABLE AS has the rows of heap");
	all_frozen($here, 'gathered', "page writer $writer: CREATE TABLE AS: all pages are frozen");
	is( q1($here, set_writer($writer) . qq{
CREATE MATERIALIZED VIEW summary USING batchheap AS SELECT place, i, count(*) FROM batch.whole GROUP BY place, i WITH NO DATA;
REFRESH MATERIALIZED VIEW summary; } . counters(qw(loads))),
		'loads=1', "page writer $writer: REFRESH is batched");
	same_rows($here, 'SELECT place, i, count(*) FROM heap.whole GROUP BY place, i', 'summary', "page writer $writer: REFRESH has the rows of heap");
	q1($here, 'DROP TABLE gathered; DROP MATERIALIZED VIEW summary');
}
q1($here, "CREATE TABLE gathered (LIKE batch.whole) USING batchheap");
is( q1($here, 'INSERT INTO gathered TABLE batch.whole; ' . counters(qw(loads single_rows_few))),
	'loads=1 single_rows_few=20', 'INSERT ... SELECT is batched');
sound_copy($here, 'heap.whole', 'gathered', 'INSERT ... SELECT has the rows of heap');

#
# The way that freezes everywhere: load on the server itself, then attach
#

my $values = 'SELECT 4 AS place, i, md5(i::text) AS t FROM generate_series(1, 3000) i';
is(q1($node{east}, "CREATE TABLE batch.added USING batchheap AS $values; " . counters(qw(loads rows_frozen))),
	'loads=1 rows_frozen=3000', 'loaded on the server itself: batched and frozen');
q1($node{east}, 'ALTER TABLE batch.added ALTER place SET NOT NULL, ALTER i SET NOT NULL');
q1($here, q{
IMPORT FOREIGN SCHEMA batch LIMIT TO (added) FROM SERVER east INTO east_batch;
ALTER TABLE batch.whole ATTACH PARTITION east_batch.added FOR VALUES IN (4);
});
all_frozen($node{east}, 'batch.added', 'loaded on the server itself: all pages are frozen');
same_rows($here, $values, 'SELECT * FROM batch.whole WHERE place = 4', 'loaded on the server itself and attached: rows');

# that the other server switches its table to heap, or back, is nothing to us
q1($node{east}, q{SELECT batchheap_to_heap('batch.added'); SELECT batchheap_from_heap('heap.part')});
same_rows($here, $values, 'SELECT * FROM batch.whole WHERE place = 4', 'switched on the other server: rows');

finish_tests();
