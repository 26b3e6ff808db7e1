# Everything at once
#
# Several clients load, refresh, read, vacuum, grant, build indexes and switch
# access methods of the same tables.  Amounts come in pairs that add up to zero,
# so whoever reads a table must find that they do; a client that does not, or
# that gets an error, ends with it, and so does pgbench.
#
# The number of transactions is given, not the time: 40 for each of 6 clients;
# BATCHHEAP_LONG=1: 1000.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use BatchheapTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $transactions = rounds(40, 1000);
my $dir = PostgreSQL::Test::Utils::tempdir();
my $node = new_node('mix', init => { allows_streaming => 1 }, conf => qq{
log_statement = none
autovacuum = on
autovacuum_naptime = 1s
deadlock_timeout = 100ms
max_connections = 30
});

q1($node, qq{
-- pairs(first, n): n pairs of amounts
CREATE FUNCTION pairs(n int) RETURNS TABLE (pair int, amount int, note text) LANGUAGE sql STABLE AS
\$\$ SELECT i, s * (1 + i % 1000), repeat('x', i % 50) FROM generate_series(1, n) i, (VALUES (1), (-1)) v(s) \$\$;
-- balanced(table): error unless the amounts add up to zero; else the number of rows
CREATE FUNCTION balanced(tab regclass) RETURNS bigint LANGUAGE plpgsql VOLATILE AS
\$\$
DECLARE n bigint; s bigint;
BEGIN
	EXECUTE format('SELECT count(*), coalesce(sum(amount), 0) FROM %s', tab) INTO n, s;
	IF s <> 0 OR n % 2 <> 0 THEN
		RAISE '% has % rows, which add up to %', tab, n, s;
	END IF;
	RETURN n;
END
\$\$;
CREATE TABLE ledger USING batchheap AS SELECT * FROM pairs(500);
CREATE MATERIALIZED VIEW summary USING batchheap AS SELECT pair, sum(amount) AS total, count(*) AS n FROM ledger GROUP BY pair;
CREATE MATERIALIZED VIEW listing USING batchheap AS SELECT * FROM ledger;
CREATE UNIQUE INDEX ON summary (pair);
CREATE TABLE reloaded USING batchheap AS SELECT * FROM pairs(500);
COPY (SELECT * FROM pairs(1500)) TO '$dir/pairs';
CREATE ROLE reader;
});
my $writer = set_writer((page_writer_modes($node))[-1]) =~ s/SET/SET LOCAL/r;

# GRANT, ALTER TABLE and the like update the same row of pg_class, and the server
# raises an error when they do so at the same time.  This lock prevents that.
my $one_at_a_time = 'SELECT pg_advisory_xact_lock(1);';

my %scripts = (
	'insert@6' => q{
\set n random(1, 400)
INSERT INTO ledger SELECT * FROM pairs(:n);
},
	'delete@3' => q{
\set p random(0, 9)
DELETE FROM ledger WHERE pair % 10 = :p;
},
	'update@2' => q{
\set p random(0, 19)
UPDATE ledger SET amount = -amount WHERE pair % 20 = :p;
},
	'read@6' => q{
SELECT balanced('ledger'), balanced('reloaded'), balanced('listing');
SELECT 1 / (count(*) = 0)::int FROM summary WHERE total <> 0;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT balanced('ledger');
SELECT balanced('ledger');
COMMIT;
},
	'ctas@6' => qq{
\\set n random(1, 3000)
BEGIN;
$writer
CREATE TABLE mine_:client_id USING batchheap AS SELECT * FROM pairs(:n);
SELECT 1 / (balanced('mine_:client_id') = 2 * :n)::int;
SAVEPOINT s;
CREATE TABLE copy_:client_id USING batchheap AS TABLE ledger;
SELECT balanced('copy_:client_id');
ROLLBACK TO s;
CREATE TABLE copy_:client_id USING batchheap AS TABLE ledger;
CREATE INDEX ON copy_:client_id (pair);
COMMIT;
SELECT balanced('mine_:client_id'), balanced('copy_:client_id');
DROP TABLE mine_:client_id, copy_:client_id;
},
	'refresh@2' => q{
REFRESH MATERIALIZED VIEW listing;
REFRESH MATERIALIZED VIEW summary;
},
	'refresh_concurrently@2' => q{
REFRESH MATERIALIZED VIEW CONCURRENTLY summary;
},
	'reload@3' => qq{
BEGIN;
$one_at_a_time
TRUNCATE reloaded;
COPY reloaded FROM '$dir/pairs';
SELECT 1 / (balanced('reloaded') = 3000)::int;
COMMIT;
},
	'reload_by_insert@2' => qq{
BEGIN;
$writer
$one_at_a_time
TRUNCATE reloaded;
INSERT INTO reloaded SELECT * FROM pairs(1000);
SELECT 1 / (balanced('reloaded') = 2000)::int;
COMMIT;
},
	'vacuum@2' => q{
VACUUM ledger;
VACUUM (FREEZE) reloaded;
},
	'analyze@1' => q{
ANALYZE ledger;
},
	'grant@3' => qq{
BEGIN;
$one_at_a_time
GRANT SELECT ON ledger, reloaded TO reader;
COMMIT;
BEGIN;
$one_at_a_time
REVOKE SELECT ON ledger, reloaded FROM reader;
COMMIT;
},
	'index@3' => q{
BEGIN;
CREATE INDEX ledger_:client_id ON ledger (md5(pair::text), note);
CREATE INDEX reloaded_:client_id ON reloaded (pair);
COMMIT;
BEGIN;
DROP INDEX ledger_:client_id, reloaded_:client_id;
COMMIT;
},
	'switch@2' => qq{
BEGIN;
$one_at_a_time
SELECT batchheap_to_heap('ledger');
SELECT balanced('ledger');
SELECT batchheap_from_heap('ledger');
COMMIT;
},
	'alter@1' => qq{
BEGIN;
$one_at_a_time
ALTER TABLE ledger SET ACCESS METHOD heap;
ALTER TABLE ledger SET ACCESS METHOD batchheap;
ALTER TABLE reloaded ALTER note TYPE varchar(100);
ALTER TABLE reloaded ALTER note TYPE text USING note || '';
COMMIT;
},
	'temp@1' => q{
BEGIN;
CREATE TEMP TABLE t USING batchheap ON COMMIT DROP AS TABLE ledger;
SELECT balanced('t');
COMMIT;
});

# deadlocks between them are the server's business: such transactions are tried again
my %files = map { ("mix_$_" => $scripts{$_}) } keys %scripts;
$node->pgbench(
	"-n -c 6 -j 2 -t $transactions --max-tries=50 --random-seed=" . ($ENV{BATCHHEAP_SEED} // int(rand(1_000_000))),
	0,
	[ qr/number of transactions actually processed: @{[ 6 * $transactions ]}\/@{[ 6 * $transactions ]}\b/,
		qr/number of failed transactions: 0 / ],
	# NOTICEs of switching are all right
	[ qr/^(?!.*(ERROR|FATAL|aborted))/s ],
	'clients find every table in balance',
	\%files);

foreach my $table (qw(ledger reloaded listing))
{
	q1($node, "SELECT balanced('$table')");
	map_is_sound($node, $table);
	heap_is_sound($node, $table);
}
is(q1($node, q{SELECT count(*) FROM pg_class WHERE relname ~ '^(mine|copy|ledger|reloaded)_\d'}), 0, 'all that clients made is gone');

# nothing was lost: what a refreshed view has is what the table has
q1($node, 'REFRESH MATERIALIZED VIEW listing');
same_rows($node, 'ledger', 'listing', 'refreshed view has the rows of the table');
$node->stop('immediate');
$node->start;
map_is_sound($node, $_, "after a crash: visibility map of $_") foreach qw(ledger reloaded listing summary);
same_rows($node, 'ledger', 'listing', 'after a crash: refreshed view has the rows of the table');

finish_tests();
