# Dump and restore
#
# A database of batchheap tables, next to a heap table of the same rows each,
# comes back from every kind of dump, and what the restore loads is frozen
# where it is loaded in the transaction that made the table's file: with
# pg_restore --single-transaction, psql --single-transaction and pg_restore -j,
# which truncates first.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use BatchheapTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $rows = 3000;
my $dir = PostgreSQL::Test::Utils::tempdir();
my $node = new_node('dump', conf => 'log_statement = none');

#
# What is dumped
#

q1($node, 'CREATE DATABASE source');
$node->safe_psql('source', qq{
CREATE EXTENSION batchheap;
CREATE EXTENSION pg_visibility;
CREATE EXTENSION amcheck;
CREATE SCHEMA h;
CREATE SCHEMA b;
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN even AS int CHECK (value % 2 = 0);

SET default_table_access_method = batchheap;
SET search_path = b;
CREATE TABLE plain AS SELECT i, 'text ' || i AS t FROM generate_series(1, $rows) i;
CREATE TABLE indexed (i int PRIMARY KEY, t text, d date NOT NULL DEFAULT '2026-01-01', CHECK (i > 0));
INSERT INTO indexed SELECT i, repeat(md5(i::text), i % 20), '2000-01-01'::date + i FROM generate_series(1, $rows) i;
CREATE INDEX ON indexed (t) WHERE t <> '';
CREATE INDEX ON indexed USING gin (to_tsvector('simple', t));
CREATE STATISTICS stats ON i, d FROM indexed;
COMMENT ON TABLE indexed IS 'a comment';
COMMENT ON COLUMN indexed.d IS 'another';
CREATE TABLE referring (i int REFERENCES indexed, n int) ;
INSERT INTO referring SELECT i, i FROM generate_series(1, 100) i;
CREATE TABLE toasted AS
	SELECT i, (SELECT string_agg(md5(j::text || i), '') FROM generate_series(1, 400) j) AS t FROM generate_series(1, 100) i;
CREATE TABLE odd (i int GENERATED ALWAYS AS IDENTITY, gone text, twice int GENERATED ALWAYS AS (n * 2) STORED,
	n int, p public.pair, e public.even, a int[]) WITH (fillfactor = 70);
ALTER TABLE odd DROP COLUMN gone;
INSERT INTO odd (n, p, e, a)
	SELECT i, ROW(i, NULL)::public.pair, CASE WHEN i % 3 = 0 THEN 2 * i END, ARRAY[i, NULL, i] FROM generate_series(1, 1000) i;
ALTER TABLE odd ENABLE ROW LEVEL SECURITY;
CREATE POLICY only_own ON odd USING (n > 0);
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN RETURN NEW; END \$\$;
CREATE TRIGGER touched BEFORE INSERT ON odd FOR EACH ROW EXECUTE FUNCTION touch();
CREATE TABLE no_columns ();
INSERT INTO no_columns SELECT FROM generate_series(1, 1500);
CREATE TABLE empty (i int, t text);
CREATE UNLOGGED TABLE unlogged AS SELECT i FROM generate_series(1, 1500) i;
CREATE TABLE parted (i int, t text) PARTITION BY RANGE (i);
CREATE TABLE part1 PARTITION OF parted FOR VALUES FROM (1) TO (1000);
CREATE TABLE part2 PARTITION OF parted FOR VALUES FROM (1000) TO (2000) USING heap;
CREATE TABLE part3 PARTITION OF parted DEFAULT;
CREATE INDEX ON parted (i);
INSERT INTO parted SELECT i, 'text ' || i FROM generate_series(1, $rows) i;
CREATE TABLE parent (i int);
CREATE TABLE child (t text) INHERITS (parent);
INSERT INTO parent SELECT i FROM generate_series(1, 500) i;
INSERT INTO child SELECT i, 'child' FROM generate_series(501, 1000) i;
CREATE MATERIALIZED VIEW view1 AS SELECT i, t FROM indexed WHERE i % 2 = 0;
CREATE UNIQUE INDEX view1_i ON view1 (i);
CREATE MATERIALIZED VIEW view2 AS SELECT count(*) AS n FROM view1;
CREATE MATERIALIZED VIEW not_populated AS SELECT 1 AS i WITH NO DATA;
CREATE TABLE given_back AS TABLE plain;
SELECT public.batchheap_to_heap('given_back');
SET default_table_access_method = heap;
CREATE TABLE taken AS TABLE plain;
SELECT public.batchheap_from_heap('taken');
});

my @tables = split /\n/, $node->safe_psql('source', q{
SELECT relname FROM pg_class WHERE relnamespace = 'b'::regnamespace AND relkind IN ('r', 'm')
	AND relname NOT IN ('not_populated', 'no_columns') ORDER BY 1});
$node->safe_psql('source', join('', map { "CREATE TABLE h.$_ USING heap AS TABLE b.$_;\n" } @tables));
cmp_ok(scalar(@tables), '>', 15, 'tables to dump');

# the definitions, without what differs from dump to dump
sub definitions
{
	my ($db, @options) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'pg_dump', '--schema-only', @options, '-d', $node->connstr($db) ], '>', \$out, '2>', \$err)
	  or die "pg_dump failed: $err";
	$out =~ s/^\\(un)?restrict .*\n//mg;
	return $out;
}
my $definitions = definitions('source');
like($definitions, qr/SET default_table_access_method = batchheap;/, 'dump names the access method');
my $rows_of = q{SELECT count(*), sum(hashtext(r::text)) FROM };
my %expected = map { $_ => $node->safe_psql('source', $rows_of . "b.$_ r") } @tables;
my $access_methods = q{
SELECT string_agg(relname || ':' || amname, ' ' ORDER BY relname)
FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relnamespace = 'b'::regnamespace AND relkind IN ('r', 'm')};
my $expected_methods = $node->safe_psql('source', $access_methods);

# all is back in the database, and @frozen are frozen
sub check_restored
{
	my ($what, $db, $frozen, $methods) = @_;

	is(definitions($db), $definitions, "$what: definitions are the same") unless defined $methods;
	is($node->safe_psql($db, $access_methods), $methods // $expected_methods, "$what: access methods");
	is($node->safe_psql($db, join('', map { "$rows_of b.$_ r;" } @tables)),
		join("\n", @expected{@tables}), "$what: rows are those of the source");
	is($node->safe_psql($db, join('', map { BatchheapTest::difference_sql("h.$_", "b.$_") } @tables)),
		join("\n", map { 0 } @tables), "$what: and those of the heap tables");
	is($node->safe_psql($db, 'SELECT count(*) FROM b.no_columns'), 1500, "$what: rows without columns");
	is($node->safe_psql($db, join('', map { BatchheapTest::wrong_map_sql("b.$_") } @tables)),
		join("\n", map { 0 } @tables), "$what: visibility maps are sound");
	is($node->safe_psql($db, q{
SELECT count(*) FILTER (WHERE indexrelid IS NOT NULL) > 4, string_agg(bt_index_check(indexrelid, true)::text, '')
FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam
WHERE relnamespace = 'b'::regnamespace AND amname = 'btree' AND relkind = 'i'}), 't|', "$what: indexes are sound");

	my @all = (@tables, 'no_columns');
	my @answers = split /\n/, $node->safe_psql($db, join('', map { BatchheapTest::frozen_sql("b.$_") } @all));
	my @is_frozen = sort map { $all[$_] } grep { $answers[$_] eq 't' } 0 .. $#all;
	is("@is_frozen", join(' ', sort @$frozen), "$what: frozen tables");
	return;
}

sub new_database
{
	my ($name) = @_;
	q1($node, "CREATE DATABASE $name TEMPLATE template0");
	return $node->connstr($name);
}

# what COPY fills and is batchheap; no_columns too
my @copied = (grep { !/^(empty|given_back|part2|view\d)$/ } @tables, 'no_columns');
my @views = qw(view1 view2);

#
# Dumps and restores
#

my $source = $node->connstr('source');
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/custom", '-d', $source ], 'pg_dump, custom format');
$node->command_ok([ 'pg_dump', '-Fd', '-j2', '-f', "$dir/directory", '-d', $source ], 'pg_dump, directory format');
$node->command_ok([ 'pg_dump', '-f', "$dir/plain", '-d', $source ], 'pg_dump, plain format');
$node->command_ok([ 'pg_dump', '--inserts', '--rows-per-insert=100', '-f', "$dir/inserts", '-d', $source ], 'pg_dump, as INSERT');

new_database('plain');
$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr('plain'), "$dir/custom" ], 'pg_restore');
check_restored('pg_restore', 'plain', [@views]);

# A trigger makes COPY go row by row, but triggers come after the data.
new_database('parallel');
$node->command_ok([ 'pg_restore', '--exit-on-error', '-j2', '-d', $node->connstr('parallel'), "$dir/directory" ],
	'pg_restore -j2');
check_restored('pg_restore -j2', 'parallel', [ @copied, @views ]);

new_database('single');
$node->command_ok([ 'pg_restore', '--single-transaction', '-d', $node->connstr('single'), "$dir/custom" ],
	'pg_restore --single-transaction');
check_restored('pg_restore --single-transaction', 'single', [ @copied, @views ]);

new_database('script');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-1', '-o', '/dev/null', '-d', $node->connstr('script'), '-f', "$dir/plain" ],
	'psql --single-transaction');
check_restored('psql --single-transaction', 'script', [ @copied, @views ]);

new_database('inserts');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-1', '-o', '/dev/null', '-d', $node->connstr('inserts'), '-f', "$dir/inserts" ],
	'psql --single-transaction, as INSERT');
check_restored('psql --single-transaction, as INSERT', 'inserts', [@views]);

# with loading in batches, or freezing, switched off
q1($node, 'CREATE DATABASE off TEMPLATE template0; ALTER DATABASE off SET batchheap.freeze_on_load = off');
$node->command_ok([ 'pg_restore', '--exit-on-error', '-j2', '-d', $node->connstr('off'), "$dir/custom" ],
	'pg_restore -j2, freeze_on_load off');
# REFRESH freezes by itself
check_restored('freeze_on_load off', 'off', [@views]);

#
# Without the access method, by the client's will
#

new_database('heap_only');
$node->command_ok([ 'pg_restore', '--exit-on-error', '--no-table-access-method', '-j2', '-d', $node->connstr('heap_only'), "$dir/custom" ],
	'pg_restore --no-table-access-method');
check_restored('--no-table-access-method', 'heap_only', [], $expected_methods =~ s/:batchheap/:heap/gr);
$node->safe_psql('heap_only', 'DROP EXTENSION batchheap');
is($node->safe_psql('heap_only', 'SELECT count(*) FROM b.plain'), $rows, '--no-table-access-method: the extension is not needed');

#
# Without the extension: an error that says so, with and without going on
#

new_database('nothing');
my $list = '';
IPC::Run::run([ 'pg_restore', '-l', "$dir/custom" ], '>', \$list) or die;
append_to_file("$dir/list", join("\n", grep { !/EXTENSION.* batchheap/ } split /\n/, $list));
my @restore = ('pg_restore', '-L', "$dir/list", '-d', $node->connstr('nothing'));
$node->command_fails_like([ @restore, '--single-transaction', "$dir/custom" ],
	qr/access method "batchheap" does not exist/i, 'without the extension, in a transaction: error');
is($node->safe_psql('nothing', q{SELECT count(*) FROM pg_class WHERE relname = 'plain'}), 0,
	'without the extension, in a transaction: nothing is there');
$node->command_checks_all([ @restore, "$dir/custom" ], 1, [], [qr/access method "batchheap" does not exist/i],
	'without the extension, going on: error');
is($node->safe_psql('nothing', join('', map { "$rows_of b.$_ r;" } grep { !/^view/ } @tables)),
	join("\n", @expected{ grep { !/^view/ } @tables }), 'without the extension, going on: rows are there, as heap');
is($node->safe_psql('nothing', q{SELECT string_agg(DISTINCT amname, ' ') FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relkind IN ('r', 'm')}),
	'heap', 'without the extension, going on: as heap');

#
# Moved to batchheap and back
#

q1($node, 'CREATE DATABASE moved TEMPLATE source');
my $in_heap = definitions('source') =~ s/^SET default_table_access_method = batchheap;$/SET default_table_access_method = heap;/mgr;
# lines that set the access method anew where it has been set already
my $without = sub { $_[0] =~ s/^SET default_table_access_method = \w+;\n\n//mgr };
$node->safe_psql('moved', q{SELECT batchheap_schema_to_heap('b')});
is($without->(definitions('moved')), $without->($in_heap), 'given back: definitions are equal but for the access method');
unlike(definitions('moved'), qr/default_table_access_method = batchheap/, 'given back: no table is batchheap');
$node->safe_psql('moved', q{SELECT batchheap_schema_from_heap('b'); SELECT batchheap_schema_to_heap('b')});
is($without->(definitions('moved')), $without->($in_heap), 'there and back: definitions');
$node->safe_psql('moved', q{
DO $$ DECLARE r record; BEGIN
FOR r IN SELECT oid::regclass AS name, relkind FROM pg_class WHERE relnamespace = 'b'::regnamespace AND relkind IN ('r', 'm') LOOP
	EXECUTE format('ALTER %s %s SET ACCESS METHOD batchheap', CASE r.relkind WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'TABLE' END, r.name);
	EXECUTE format('ALTER %s %s SET ACCESS METHOD heap', CASE r.relkind WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'TABLE' END, r.name);
END LOOP; END $$});
is($without->(definitions('moved')), $without->($in_heap), 'there and back by ALTER TABLE: definitions');
is($node->safe_psql('moved', join('', map { "$rows_of b.$_ r;" } @tables)), join("\n", @expected{@tables}),
	'there and back by ALTER TABLE: rows');

finish_tests();
