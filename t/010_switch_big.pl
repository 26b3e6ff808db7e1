# Switching a large table
#
# batchheap_to_heap() and batchheap_from_heap() change the catalog and nothing
# else: the file is the same one, byte for byte, and next to nothing is logged.
# ALTER TABLE ... SET ACCESS METHOD makes a new file.  After the switch the
# tools that look only at heap tables find nothing wrong.
#
# The table has 50 MB; BATCHHEAP_LONG=1: 1 GB.  How long the ways take is shown
# (with prove --verbose, or in the test's log) and not tested.

use strict;
use warnings FATAL => 'all';

use Digest::MD5;
use FindBin;
use lib $FindBin::RealBin;
use BatchheapTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $rows = rounds(200_000, 4_700_000);
my $node = new_node('switch', init => { allows_streaming => 1 }, conf => "max_wal_size = 4GB\ncheckpoint_timeout = 1h");

q1($node, qq{
CREATE TABLE b USING batchheap AS
	SELECT i, repeat(md5(i::text), 6) AS t, CASE WHEN i % 1000 = 0 THEN
		(SELECT string_agg(md5(j::text), '') FROM generate_series(i, i + 150) j) END AS long
	FROM generate_series(1, $rows) i;
CREATE INDEX b_i ON b (i);
COMMENT ON TABLE b IS 'large';
});
note('size: ' . q1($node, q{SELECT pg_size_pretty(pg_table_size('b'))}));
cmp_ok(q1($node, q{SELECT pg_relation_size('b')}), '>', rounds(40, 900) * 1024 * 1024, 'the table is large');

my $data = $node->data_dir;
my $sums = 'SELECT count(*), sum(hashtext(b::text)) FROM b';
my $expected = q1($node, $sums);

# the files of the table, its index and its TOAST table
sub files
{
	return q1($node, q{
SELECT string_agg(pg_relation_filepath(oid), ' ' ORDER BY oid)
FROM pg_class WHERE oid IN ('b'::regclass, 'b_i'::regclass, (SELECT reltoastrelid FROM pg_class WHERE oid = 'b'::regclass))});
}

# what is in all segments and forks of them
sub contents
{
	my $md5 = Digest::MD5->new;
	foreach my $file (map { sort glob "$data/$_ $data/${_}_vm $data/$_.*" } split / /, files())
	{
		next unless -e $file;
		open my $fh, '<:raw', $file or die "could not read $file: $!";
		$md5->addfile($fh);
		close $fh;
	}
	return $md5->hexdigest;
}

sub am
{
	return q1($node, q{SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = 'b'::regclass});
}

# timed(SQL): seconds, and bytes of WAL
sub timed
{
	my ($sql) = @_;
	my $before = q1($node, 'SELECT pg_current_wal_insert_lsn()');
	my $start = time();
	q1($node, $sql);
	my $time = time() - $start;
	return ($time, q1($node, "SELECT pg_current_wal_insert_lsn() - '$before'::pg_lsn"));
}

q1($node, 'CHECKPOINT');
my $files = files();
my $contents = contents();

foreach (
	[ 'batchheap_to_heap', q{SELECT batchheap_to_heap('b')}, 'heap' ],
	[ 'batchheap_from_heap', q{SELECT batchheap_from_heap('b')}, 'batchheap' ],
	[ 'batchheap_schema_to_heap', q{SELECT batchheap_schema_to_heap('public')}, 'heap' ],
	[ 'batchheap_schema_from_heap', q{SELECT batchheap_schema_from_heap('public')}, 'batchheap' ])
{
	my ($name, $sql, $am) = @$_;
	my ($time, $wal) = timed($sql);

	note(sprintf '%s: %.3f s, %d bytes of WAL', $name, $time, $wal);
	is(am(), $am, "$name: access method");
	is(files(), $files, "$name: same files");
	cmp_ok($wal, '<', 100_000, "$name: next to nothing is logged ($wal bytes)");
	q1($node, 'CHECKPOINT');
	is(contents(), $contents, "$name: the files are what they were");
	is(q1($node, $sums), $expected, "$name: rows");
	map_is_sound($node, 'b', "$name: visibility map");
	is( q1($node, q{SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT t IS NOT NULL FROM b WHERE i = 4711}),
		't', "$name: index");
	if ($am eq 'heap')
	{
		is(q1($node, q{SELECT count(*) FROM verify_heapam('b', check_toast => true)}), '0', "$name: verify_heapam finds nothing");
		$node->command_ok([ 'pg_amcheck', '--heapallindexed', '--table', 'b', 'postgres' ],
			"$name: pg_amcheck finds nothing");
	}
	q1($node, 'CHECKPOINT');
}
is(q1($node, q{SELECT obj_description('b'::regclass)}), 'large', 'comment is there');

# as before after a rollback, and after a crash
q1($node, q{BEGIN; SELECT batchheap_to_heap('b'); ROLLBACK});
is(am(), 'batchheap', 'rollback: access method');
q1($node, q{SELECT batchheap_to_heap('b')});
$node->stop('immediate');
$node->start;
is(am(), 'heap', 'crash: access method');
is(q1($node, $sums), $expected, 'crash: rows');
q1($node, q{SELECT batchheap_from_heap('b')});

# the other way
my ($time, $wal) = timed('ALTER TABLE b SET ACCESS METHOD heap');
note(sprintf 'ALTER TABLE ... SET ACCESS METHOD: %.3f s, %d bytes of WAL', $time, $wal);
is(am(), 'heap', 'ALTER TABLE: access method');
isnt(files(), $files, 'ALTER TABLE: other files');
cmp_ok($wal, '>', 10_000_000, 'ALTER TABLE: all is logged');
is(q1($node, $sums), $expected, 'ALTER TABLE: rows');

# without the extension, on which the table must depend only while it uses it
q1($node, q{SELECT batchheap_from_heap('b')});
my ($ret, $out, $err) = $node->psql('postgres', 'DROP EXTENSION batchheap');
like($err, qr/cannot drop extension batchheap because other objects depend on it/, 'the table depends on the extension');
like($err, qr/table b depends on access method batchheap/, 'by its access method');
q1($node, q{SELECT batchheap_to_heap('b')});
q1($node, 'DROP EXTENSION batchheap');
is(q1($node, $sums), $expected, 'without the extension: rows');
q1($node, q{UPDATE b SET t = 'new' WHERE i < 100; VACUUM b});
is(q1($node, q{SELECT count(*) FROM verify_heapam('b')}), '0', 'without the extension: verify_heapam finds nothing');

finish_tests();
