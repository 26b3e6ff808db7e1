# pg_upgrade
#
# A cluster with batchheap tables comes through pg_upgrade, with copied and with
# linked files: rows, visibility maps, indexes and access methods are what they
# were, and loads work as before.
#
# OLD_PG_CONFIG names the pg_config of an older server that has batchheap installed,
# as must the new one.  Without it the upgrade is to the same version, which is
# less than what the name promises, but dumps and restores the same way.

use strict;
use warnings FATAL => 'all';

use File::Basename qw(dirname);
use FindBin;
use lib $FindBin::RealBin;
use BatchheapTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $old_pg_config = $ENV{OLD_PG_CONFIG} // 'pg_config';
chomp(my $old_bindir = qx{"$old_pg_config" --bindir});
die "OLD_PG_CONFIG=$old_pg_config cannot be run" if $? != 0;
note('OLD_PG_CONFIG does not name an older PostgreSQL: upgrading to the same') unless $ENV{OLD_PG_CONFIG};

my $rows = 3000;
# the default differs from 18 on, and both must have the same
my @initdb = ('--data-checksums', '--encoding=UTF8', '--locale=C');

#
# The old cluster
#

my $old = PostgreSQL::Test::Cluster->new('old', install_path => dirname($old_bindir));
{
	# which may name the new server's files
	local %ENV = %ENV;
	delete $ENV{TEMP_CONFIG} if $ENV{OLD_PG_CONFIG};
	$old->init(extra => \@initdb);
}
$old->append_conf('postgresql.conf', "autovacuum = off\nlog_statement = none");
watch_log($old);
$old->start;
plan skip_all => 'batchheap is not in $libdir, the only place where pg_upgrade looks'
  if !$ENV{OLD_PG_CONFIG} && $old->psql('postgres', q{LOAD '$libdir/batchheap'}) != 0;
q1($old, q{
CREATE EXTENSION batchheap;
CREATE EXTENSION pg_visibility;
CREATE EXTENSION amcheck;
});
q1($old, qq{
CREATE SCHEMA h;
CREATE SCHEMA b;
SET search_path = b, public;
SET default_table_access_method = batchheap;
CREATE TABLE loaded AS SELECT i, 'text ' || i AS t FROM generate_series(1, $rows) i;
CREATE INDEX loaded_i ON loaded (i);
CREATE TABLE changed AS TABLE loaded;
CREATE INDEX changed_t ON changed (t);
DELETE FROM changed WHERE i % 7 = 0 AND i > $rows / 2;
UPDATE changed SET t = t || ' new' WHERE i % 11 = 0 AND i > $rows / 2;
CREATE TABLE toasted AS
	SELECT i, (SELECT string_agg(md5(j::text || i), '') FROM generate_series(1, 400) j) AS t FROM generate_series(1, 100) i;
CREATE UNLOGGED TABLE unlogged AS TABLE loaded;
CREATE TABLE parted (i int, t text) PARTITION BY RANGE (i);
CREATE TABLE part1 PARTITION OF parted FOR VALUES FROM (1) TO (2000);
CREATE TABLE part2 PARTITION OF parted FOR VALUES FROM (2000) TO (10000) USING heap;
CREATE INDEX ON parted (i);
INSERT INTO parted TABLE loaded;
VACUUM (FREEZE) part1;
CREATE MATERIALIZED VIEW view1 AS SELECT i, t FROM loaded WHERE i % 2 = 0;
CREATE UNIQUE INDEX view1_i ON view1 (i);
CREATE MATERIALIZED VIEW view2 AS SELECT i FROM view1;
CREATE TABLE empty (i int);
CREATE TABLE given_back AS TABLE loaded;
SELECT batchheap_to_heap('given_back');
CREATE TABLE taken USING heap AS TABLE loaded;
SELECT batchheap_from_heap('taken');
});

my @relations = split /\n/, q1($old, q{
SELECT relname FROM pg_class WHERE relnamespace = 'b'::regnamespace AND relkind IN ('r', 'm') ORDER BY 1});
q1($old, join('', map { "CREATE TABLE h.$_ USING heap AS TABLE b.$_;\n" } @relations));

# what must stay: access method, rows, and the visibility map page by page
my $state = join("\nUNION ALL ", map { qq{
SELECT '$_', (SELECT amname FROM pg_am JOIN pg_class c ON c.relam = pg_am.oid WHERE c.oid = 'b.$_'::regclass),
	count(*), sum(hashtext(r::text)),
	(SELECT string_agg(blkno || ' ' || all_visible || ' ' || all_frozen, ', ' ORDER BY blkno) FROM pg_visibility_map('b.$_'))
FROM b.$_ r} } @relations);
my $before = q1($old, $state);
my $version = q1($old, q{SELECT extversion FROM pg_extension WHERE extname = 'batchheap'});
all_frozen($old, "b.$_", "$_ is frozen before") foreach qw(loaded unlogged view1 view2);
like($before, qr/^changed\|.* false /m, 'not all pages of all tables are');
$old->stop;

#
# The new ones
#

foreach my $mode ('copy', 'link')
{
	my $new = PostgreSQL::Test::Cluster->new("new_$mode");
	$new->init(extra => \@initdb);
	$new->append_conf('postgresql.conf', "autovacuum = off\nlog_statement = none");
	watch_log($new);
	my $from_to = $old->pg_version . ' to ' . $new->pg_version . ", $mode";

	chdir $PostgreSQL::Test::Utils::tmp_check or die "chdir: $!";
	my ($out, $err);
	my $upgraded = IPC::Run::run([ 'pg_upgrade', $mode eq 'link' ? '--link' : (),
			'-b', $old_bindir, '-B', $new->config_data('--bindir'),
			'-d', $old->data_dir, '-D', $new->data_dir,
			'-p', $old->port, '-P', $new->port, '-s', $new->host ],
		'>', \$out, '2>', \$err);
	ok($upgraded, "pg_upgrade from $from_to");
	if (!$upgraded)
	{
		# the reason is in a file
		diag($out, $err, map { grep { /\b(error|fatal):/i } split /^/, slurp_file($_) }
			  glob($new->data_dir . '/pg_upgrade_output.d/*/{,log/}*.{log,txt}'));
		last;
	}
	$new->start;

	is(q1($new, $state), $before, 'access methods, rows and visibility maps are the same');
	is(q1($new, q{SELECT extversion FROM pg_extension WHERE extname = 'batchheap'}), $version, "so is batchheap's version");
	q1($new, 'ALTER EXTENSION batchheap UPDATE');
	sound_copy($new, "h.$_", "b.$_") foreach grep { $_ ne 'given_back' } @relations;
	index_is_sound($new, "b.$_") foreach qw(loaded_i changed_t view1_i part1_i_idx);
	like(q1($new, q{
SET enable_seqscan = off;
ANALYZE b.loaded;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT i FROM b.loaded WHERE i < 1000}),
		qr/Index Only Scan.*Heap Fetches: 0/s, 'an index-only scan looks at no row');

	# loads into what is new and into what came along
	is( q1($new, qq{
SET search_path = b, public;
SET default_table_access_method = batchheap;
CREATE TABLE loaded2 AS TABLE loaded;
REFRESH MATERIALIZED VIEW view1;
ALTER TABLE taken ADD COLUMN r float DEFAULT random();
BEGIN;
TRUNCATE empty;
INSERT INTO empty SELECT i FROM loaded;
COMMIT;
} . counters(qw(loads rows_batched rows_frozen))),
		q1($new, "SELECT format('loads=4 rows_batched=%s rows_frozen=%s', n, n) FROM (SELECT 3 * $rows + $rows / 2 AS n) n"),
		'loads are batched and frozen');
	all_frozen($new, "b.$_", "$_ is frozen after a load") foreach qw(loaded2 view1 taken);
	sound_copy($new, 'h.loaded', 'b.loaded2');
	sound_copy($new, 'h.view1', 'b.view1');
	same_rows($new, 'SELECT i FROM h.loaded', 'b.empty', 'all rows of INSERT are there');
	is(q1($new, q{SELECT batchheap_to_heap('b.loaded'), batchheap_from_heap('b.given_back'); SELECT count(*) FROM b.given_back}),
		"|\n$rows", 'tables can be switched');
	$new->stop;
}

finish_tests();
