# Physical standby
#
# A standby replays loads and has the same rows and the same visibility map,
# with every replayed page compared with the primary's (wal_consistency_checking).
# It needs the library only to read: one that lacks it goes on replaying.

use strict;
use warnings FATAL => 'all';

use File::Copy;
use FindBin;
use lib $FindBin::RealBin;
use BatchheapTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $rows = 4000;
my $dir = PostgreSQL::Test::Utils::tempdir();
append_to_file("$dir/rows", join('', map { "$_\ttext $_\n" } 1 .. $rows));

my $primary = new_node('primary', init => { allows_streaming => 1 },
	conf => 'wal_consistency_checking = all');
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;
watch_log($standby);

# what an open transaction has written is not sent before something flushes it
sub catch_up
{
	q1($primary, 'SELECT pg_switch_wal()');
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('flush'));
	return;
}

#
# All kinds of loads
#

q1($primary, qq{
CREATE TABLE h AS
	SELECT i, CASE WHEN i % 500 = 0 THEN repeat(md5(i::text), 300) ELSE 'text ' || i END AS t
	FROM generate_series(1, $rows) i;
CREATE TABLE copy_h (i int, t text);
COPY copy_h FROM '$dir/rows';
CREATE MATERIALIZED VIEW mv USING batchheap AS TABLE h WITH NO DATA;
CREATE UNIQUE INDEX mv_i ON mv (i);
CREATE TABLE altered AS TABLE h;
ALTER TABLE altered ADD PRIMARY KEY (i);
CREATE TABLE emptied (i int, t text) USING batchheap;
});
my $paged = set_writer((page_writer_modes($primary))[-1]);
my $not_paged = set_writer((page_writer_modes($primary))[0]);
q1($primary, qq{
CREATE TABLE b USING batchheap AS TABLE h;
ALTER TABLE b ALTER COLUMN t SET STORAGE EXTERNAL;
$paged
CREATE TABLE paged USING batchheap AS TABLE h;
CREATE MATERIALIZED VIEW paged_mv USING batchheap AS TABLE h;
REFRESH MATERIALIZED VIEW paged_mv;
CREATE TABLE paged_altered AS TABLE h;
CREATE INDEX ON paged_altered (i);
ALTER TABLE paged_altered SET ACCESS METHOD batchheap;
BEGIN; CREATE TABLE paged_inserted (i int, t text) USING batchheap; INSERT INTO paged_inserted TABLE h; COMMIT;
$not_paged
BEGIN; CREATE TABLE inserted (i int, t text) USING batchheap; INSERT INTO inserted TABLE h; COMMIT;
CREATE TABLE inserted_old (i int, t text) USING batchheap;
INSERT INTO inserted_old TABLE h;
REFRESH MATERIALIZED VIEW mv;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
ALTER TABLE altered SET ACCESS METHOD batchheap;
BEGIN; TRUNCATE emptied; COPY emptied FROM '$dir/rows'; COMMIT;
CREATE TABLE plain (i int, t text) USING batchheap;
COPY plain FROM '$dir/rows';
INSERT INTO plain SELECT * FROM copy_h;
CREATE TABLE plain_h AS TABLE copy_h;
INSERT INTO plain_h SELECT * FROM copy_h;
SET batchheap.freeze_on_load = off;
CREATE TABLE not_frozen USING batchheap AS TABLE h;
SET batchheap.freeze_on_load = on;
SET batchheap.max_batch_rows = 7;
CREATE TABLE small_batches USING batchheap AS TABLE h;
BEGIN; SAVEPOINT s; CREATE TABLE gone USING batchheap AS TABLE h; ROLLBACK TO s;
CREATE TABLE in_sub USING batchheap AS TABLE h; COMMIT;
CREATE TABLE changed USING batchheap AS TABLE h;
DELETE FROM changed WHERE i % 7 = 0;
UPDATE changed SET t = 'changed' WHERE i % 5 = 0;
CREATE TABLE changed_h AS TABLE h;
DELETE FROM changed_h WHERE i % 7 = 0;
UPDATE changed_h SET t = 'changed' WHERE i % 5 = 0;
CREATE TABLE there (i int, t text) USING batchheap;
INSERT INTO there TABLE h;
SELECT batchheap_to_heap('there');
CREATE TABLE and_back AS TABLE h;
SELECT batchheap_from_heap('and_back');
});
catch_up();

my %oracle = (
	b => 'h', mv => 'h', altered => 'h', emptied => 'copy_h', plain => 'plain_h', not_frozen => 'h',
	small_batches => 'h', in_sub => 'h', changed => 'changed_h', there => 'h', and_back => 'h',
	paged => 'h', paged_mv => 'h', paged_altered => 'h', paged_inserted => 'h', inserted => 'h', inserted_old => 'h');
# pages that have been added ahead of need, and are empty, need not be there
my $map = q{
SELECT count(*) || ' ' || md5(string_agg(format('%s %s %s', all_visible, all_frozen, pd_all_visible), ',' ORDER BY blkno))
FROM pg_visibility('TABLE') WHERE blkno <= (SELECT max((ctid::text::point)[0]) FROM TABLE)};

foreach my $table (sort keys %oracle)
{
	same_rows($standby, $oracle{$table}, $table, "standby: rows of $table");
	map_is_sound($standby, $table, "standby: visibility map of $table is sound");
	my $sql = $map =~ s/TABLE/$table/gr;
	is(q1($standby, $sql), q1($primary, $sql), "standby: visibility map of $table as on the primary");
}
all_frozen($standby, $_, "standby: $_ is frozen")
  foreach qw(b altered emptied small_batches in_sub paged paged_mv paged_altered paged_inserted inserted);
is(q1($standby, q{SELECT to_regclass('gone') IS NULL}), 't', 'standby: nothing of a rollback');
is(q1($standby, q{
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT count(*) FROM altered WHERE i > 0;
}), $rows, 'standby: index');
is(q1($standby, counters()), '', 'standby: reading loads nothing');
my ($ret, $out, $err) = $standby->psql('postgres', q{SELECT batchheap_to_heap('b')});
like($err, qr/cannot execute .* in a read-only transaction|during recovery/, 'standby: no switching');

#
# A repeatable read snapshot of the standby, older than the load
#

my $reader = $standby->background_psql('postgres', on_error_stop => 0);
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($reader->query_safe('SELECT count(*) FROM h'), $rows, 'standby: snapshot is taken');
q1($primary, q{
CREATE TABLE new_b USING batchheap AS TABLE h;
SET batchheap.freeze_on_load = off;
CREATE TABLE new_plain USING batchheap AS TABLE h;
});
catch_up();
is($reader->query_safe('SELECT count(*) FROM new_b'), $rows,
	'standby: frozen rows are seen by an older snapshot, as the README says');
is($reader->query_safe('SELECT count(*) FROM new_plain'), 0, 'standby: plain rows are not');
$reader->query_safe('COMMIT');
is($reader->query_safe('SELECT count(*) FROM new_plain'), $rows, 'standby: but by a new one');
$reader->quit;

#
# A server that lacks the library
#
# $libdir cannot be taken away from a server, but the handler's function can be
# in a file of our own.  Both servers share the file; the primary's session has
# loaded it before it goes.
#

my $library = loaded_library($primary);
SKIP:
{
	skip 'cannot tell where the library is', 8 unless defined $library;

	copy($library, "$dir/copy.so") or die "could not copy $library: $!";
	chmod 0755, "$dir/copy.so";
	q1($primary, 'CREATE DATABASE other');
	my $session = $primary->background_psql('other', on_error_stop => 0);
	$session->query_safe(qq{
CREATE EXTENSION pg_visibility;
CREATE FUNCTION handler(internal) RETURNS table_am_handler AS '$dir/copy.so', 'batchheap_handler' LANGUAGE C STRICT;
CREATE ACCESS METHOD batchheap TYPE TABLE HANDLER handler;
CREATE TABLE h AS SELECT i, 'text ' || i AS t FROM generate_series(1, $rows) i;
CREATE MATERIALIZED VIEW mv USING batchheap AS TABLE h;
CREATE TABLE before USING batchheap AS TABLE h;
});
	catch_up();
	same_rows($standby, 'h', 'before', 'standby with the library: rows', 'other');

	rename "$dir/copy.so", "$dir/hidden.so" or die $!;
	$standby->restart;
	$session->query_safe(qq{
CREATE TABLE b USING batchheap AS TABLE h;
CREATE INDEX b_i ON b (i);
REFRESH MATERIALIZED VIEW mv;
ALTER TABLE before ALTER COLUMN i TYPE bigint;
CREATE TABLE copied (i int, t text) USING batchheap;
BEGIN; TRUNCATE copied; COPY copied FROM '$dir/rows'; COMMIT;
});
	catch_up();
	pass('standby without the library: replays');
	($ret, $out, $err) = $standby->psql('other', 'SELECT count(*) FROM b');
	isnt($ret, 0, 'standby without the library: cannot read');
	like($err, qr/could not access file ".*copy[.]so"/, 'standby without the library: says what is missing');
	is(q1($standby, 'SELECT count(*) FROM h', 'other'), $rows, 'standby without the library: reads heap');

	rename "$dir/hidden.so", "$dir/copy.so" or die $!;
	same_rows($standby, 'h', $_, "standby with the library again: rows of $_", 'other')
	  foreach qw(b mv before copied);
	map_is_sound($standby, $_, "standby with the library again: visibility map of $_", 'other')
	  foreach qw(b mv before copied);
	$session->quit;
}

#
# Promotion in the middle of a load: what the primary has not committed is gone
#

q1($primary, BLOCKING_FUNCTION);
my $holder = $primary->background_psql('postgres', on_error_stop => 0);
my $loader = $primary->background_psql('postgres', on_error_stop => 0);
$holder->query_safe('SELECT pg_advisory_lock(4711)');
$loader->query_safe($paged) if $paged ne '';
$loader->query_until(qr/started/, "\\echo started\n"
	  . "CREATE TABLE half USING batchheap AS SELECT stop_at(i, 3500) AS i, t FROM h;\n");
wait_for_lock($primary);
catch_up();
$standby->promote;

is(q1($standby, q{SELECT to_regclass('half') IS NULL}), 't', 'promoted: no table of an unfinished load');
q1($standby, q{
CREATE TABLE half USING batchheap AS TABLE h;
REFRESH MATERIALIZED VIEW mv;
CREATE INDEX ON half (i);
INSERT INTO b SELECT * FROM h;
});
sound_copy($standby, 'h', 'half', 'promoted: loads');
all_frozen($standby, 'half', 'promoted: freezes');
sound_copy($standby, 'h', 'mv', 'promoted: refreshes');
sound_copy($standby, 'SELECT * FROM h UNION ALL SELECT * FROM h', 'b', 'promoted: inserts');
sound_copy($standby, $oracle{$_}, $_, "promoted: $_ is as before")
  foreach grep { $_ !~ /^(b|there)$/ } sort keys %oracle;

$holder->quit;
$loader->quit;
sound_copy($primary, 'h', 'half', 'primary: the load ends well');

finish_tests();
