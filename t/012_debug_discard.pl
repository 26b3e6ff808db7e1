# Loads and index builds with all caches thrown away all the time
#
# With debug_discard_caches = 1 a server that has been built for it rebuilds the
# table's cache entry, and the address of its access method's routine with it,
# at every opportunity.  Whatever is kept from before must not be used.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use BatchheapTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('discard');
my ($ret, $out, $err) = $node->psql('postgres', 'SET debug_discard_caches = 1');
if ($ret != 0)
{
	$node->stop;
	plan skip_all => 'the server is not built with DISCARD_CACHES_ENABLED, which --enable-cassert brings';
}

my $rows = 1300;
my $dir = PostgreSQL::Test::Utils::tempdir();
q1($node, qq{
CREATE TABLE h AS SELECT i, 'text ' || i AS t, CASE WHEN i % 400 = 0 THEN
	(SELECT string_agg(md5(j::text), '') FROM generate_series(i, i + 100) j) END AS long
	FROM generate_series(1, $rows) i;
COPY h TO '$dir/h';
CREATE MATERIALIZED VIEW mv USING batchheap AS TABLE h WITH NO DATA;
CREATE TABLE altered AS TABLE h;
CREATE TABLE emptied (LIKE h) USING batchheap;
CREATE TABLE old (LIKE h) USING batchheap;
CREATE DOMAIN positive AS int CHECK (value > 0);
CREATE TABLE checked (i positive, t text, long text, CHECK (i < 10000)) USING batchheap;
CREATE FUNCTION look(i int, tab text) RETURNS int LANGUAGE plpgsql VOLATILE AS \$\$
DECLARE n bigint;
BEGIN
	BEGIN
		EXECUTE format('SELECT count(*) FROM %I', tab) INTO n;
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN NULL;
	END;
	RETURN i;
END \$\$;
});

foreach my $writer (page_writer_modes($node))
{
	my $session = $node->background_psql('postgres', on_error_stop => 0, timeout => 10 * $PostgreSQL::Test::Utils::timeout_default);

	value($session, set_writer($writer) . 'SET debug_discard_caches = 1');
	my $run = sub {
		my ($what, $sql, $counters) = @_;
		value($session, 'SELECT batchheap_counters_reset()');
		my ($o, $e) = try_sql($session, $sql);
		is($e, '', "writer $writer: $what");
		is(value($session, counters(qw(loads rows_batched rows_frozen copy_rows copy_rows_frozen))), $counters,
			"writer $writer: $what: counters");
	};
	my $load = "loads=1 rows_batched=$rows rows_frozen=$rows";

	$run->('CREATE TABLE AS', 'CREATE TABLE b USING batchheap AS TABLE h', $load);
	$run->('REFRESH', 'REFRESH MATERIALIZED VIEW mv', $load);
	$run->('ALTER TABLE', 'ALTER TABLE altered SET ACCESS METHOD batchheap', $load);
	$run->('COPY', "BEGIN; TRUNCATE emptied; COPY emptied FROM '$dir/h'; COMMIT", "copy_rows=$rows copy_rows_frozen=$rows");
	$run->('INSERT', 'INSERT INTO old TABLE h', 'loads=1 rows_batched=' . ($rows - 20));
	$run->('INSERT with a domain', 'INSERT INTO checked TABLE h', 'loads=1 rows_batched=' . ($rows - 20));
	is((try_sql($session, q{CREATE TABLE r USING batchheap AS SELECT CASE WHEN i IN (3, 1200) THEN look(i, 'r') ELSE i END AS i, t, long FROM h}))[1], '',
		"writer $writer: a load that is read");
	$run->('CREATE INDEX', 'CREATE INDEX b_i ON b (i)', '');
	$run->('CREATE INDEX of an expression', 'CREATE INDEX b_long ON b (md5(long))', '');
	$run->('CREATE INDEX CONCURRENTLY', 'CREATE INDEX CONCURRENTLY old_i ON old (i)', '');
	$run->('PRIMARY KEY', 'ALTER TABLE emptied ADD PRIMARY KEY (i)', '');
	$run->('switch', q{SELECT batchheap_to_heap('old'); SELECT batchheap_from_heap('old')}, '');
	$run->('ANALYZE, VACUUM', 'ANALYZE b; VACUUM b', '');
	$session->quit;

	sound_copy($node, 'h', $_, "writer $writer: $_") foreach qw(b mv altered emptied old checked r);
	all_frozen($node, $_, "writer $writer: $_ is frozen") foreach qw(b mv altered emptied);
	index_is_sound($node, $_, "writer $writer: index $_") foreach qw(b_i b_long old_i emptied_pkey);
	q1($node, q{
DROP TABLE b, r;
ALTER TABLE altered SET ACCESS METHOD heap;
ALTER TABLE emptied DROP CONSTRAINT emptied_pkey;
DROP INDEX old_i;
TRUNCATE old, checked;
VACUUM old;
});
}

finish_tests();
