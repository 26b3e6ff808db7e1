# Base backup and point-in-time recovery
#
# A backup that is taken in the middle of a load, and a recovery that ends in
# the middle of one or between two, have what was committed and no more.
#
# BATCHHEAP_LONG=1: more backups, and more points to recover to.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use BatchheapTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $rows = 12_000;
my $dir = PostgreSQL::Test::Utils::tempdir();
my $primary = new_node('primary', init => { allows_streaming => 1, has_archiving => 1 });
my @writers = page_writer_modes($primary);

q1($primary, BLOCKING_FUNCTION . qq{
CREATE TABLE h AS SELECT i, 'text ' || i AS t FROM generate_series(1, $rows) i;
CREATE TABLE version AS SELECT 1 AS v;
CREATE MATERIALIZED VIEW mv USING batchheap AS SELECT h.i, h.t || v AS t FROM h, version;
COPY h TO '$dir/rows';
});

#
# A backup in the middle of a load, at several places of it: rows are in the
# ring, pages may have been logged or written, and a checkpoint goes by.
# Afterwards the load goes on and is committed.  Each backup is brought up to
# the end of the WAL.
#

my @backups;
foreach my $writer (@writers)
{
	# somewhere in the middle; and close to the beginning
	foreach my $at ($writer eq 'on' ? (1700, 6003) : 1700, long_run() ? 150 : ())
	{
		my $name = "during_${at}_$writer";
		my $holder = $primary->background_psql('postgres', on_error_stop => 0);
		my $loader = $primary->background_psql('postgres', on_error_stop => 0);

		$holder->query_safe('SELECT pg_advisory_lock(4711)');
		$loader->query_safe(set_writer($writer));
		$loader->query_until(qr/started/, "\\echo started\n"
			  . "CREATE TABLE $name USING batchheap AS SELECT stop_at(i, $at) AS i, t FROM h;\n");
		wait_for_lock($primary);
		$primary->backup($name);
		$holder->quit;
		$loader->quit;
		sound_copy($primary, 'h', $name, "$name: the load itself");
		push @backups, $name;
	}
}

# and where the rows go through INSERT ... SELECT, COPY and REFRESH: whole
# transactions that go on while the backup is taken
q1($primary, 'CREATE TABLE noted (n int)');
my $stop = "$dir/stop";
append_to_file("$dir/load", join('', map { qq{
SELECT NOT EXISTS (SELECT FROM pg_ls_dir('$dir') f WHERE f = 'stop') AS go_on \\gset
\\if :go_on
BEGIN;
INSERT INTO noted VALUES ($_);
UPDATE version SET v = $_;
REFRESH MATERIALIZED VIEW mv;
CREATE TABLE copied_$_ (i int, t text) USING batchheap;
COPY copied_$_ FROM '$dir/rows';
CREATE TABLE inserted_$_ (i int, t text) USING batchheap;
INSERT INTO inserted_$_ TABLE h;
ALTER TABLE inserted_$_ ALTER i TYPE bigint;
COMMIT;
\\endif
} } 1 .. 500));
my ($out, $err) = ('', '');
my $psql = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $primary->connstr('postgres'), '-f', "$dir/load" ],
	'>', \$out, '2>', \$err);
$primary->poll_query_until('postgres', 'SELECT count(*) >= 2 FROM noted') or die 'no load';
$primary->backup('running');
append_to_file($stop, '');
$psql->finish;
is($err, '', 'loads while a backup is taken: no error');
push @backups, 'running';

#
# A series of loads with restore points between them, and in the middle of one
#

$primary->backup('before');
my @points;
sub restore_point
{
	my ($name) = @_;
	push @points, $name;
	return q1($primary, "SELECT pg_create_restore_point('$name') IS NOT NULL");
}

q1($primary, q{
CREATE FUNCTION mark(i int, name text) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF i = 5000 THEN
		PERFORM pg_create_restore_point(name);
	END IF;
	RETURN i;
END $$;
CREATE TABLE one USING batchheap AS TABLE h;
});
restore_point('after_one');
q1($primary, q{
UPDATE version SET v = 1001;
REFRESH MATERIALIZED VIEW mv;
CREATE TABLE two USING batchheap AS SELECT mark(i, 'in_two') AS i, t FROM h;
});
push @points, 'in_two';
restore_point('after_two');
q1($primary, qq{
CREATE TABLE three (i int, t text) USING batchheap;
BEGIN; TRUNCATE three; COPY three FROM '$dir/rows'; COMMIT;
});
restore_point('after_three');
q1($primary, q{
ALTER TABLE three ALTER i TYPE bigint USING mark(i, 'in_four');
DROP TABLE one;
});
push @points, 'in_four';
q1($primary, q{SELECT pg_switch_wal()});

#
# What is in the backups
#

$primary->stop;

sub restored
{
	my ($name, $backup, $target) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init_from_backup($primary, $backup, has_restoring => 1, standby => 0);
	$node->append_conf('postgresql.conf', 'archive_mode = off');
	$node->append_conf('postgresql.conf', "recovery_target_name = '$target'\nrecovery_target_action = promote")
	  if defined $target;
	$node->start;
	watch_log($node);
	$node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'recovery did not end';
	return $node;
}

foreach my $backup (@backups)
{
	my $node = restored("from_$backup", $backup);

	if ($backup ne 'running')
	{
		sound_copy($node, 'h', $backup, "$backup: table of the load");
		all_frozen($node, $backup, "$backup: it is frozen");
	}
	sound_copy($node, 'h', 'two', "$backup: table of later");
	if ($backup eq 'running' || $backup eq $backups[0])
	{
		my @noted = split /\n/, q1($node, 'SELECT n FROM noted ORDER BY 1');
		cmp_ok(scalar(@noted), '>', 1, "$backup: loads are noted");
		is(q1($node, join('', map { "SELECT count(*), sum(hashtext(i || t)) FROM copied_$_; SELECT count(*), sum(hashtext(i || t)) FROM inserted_$_;" } @noted)),
			join("\n", (q1($node, 'SELECT count(*), sum(hashtext(i || t)) FROM h')) x (2 * @noted)),
			"$backup: each has its rows");
		is(q1($node, join('', map { BatchheapTest::wrong_map_sql("copied_$_") . BatchheapTest::wrong_map_sql("inserted_$_") } @noted)),
			join("\n", ('0') x (2 * @noted)), "$backup: their visibility maps are sound");
	}
	sound_copy($node, 'SELECT h.i, h.t || v FROM h, version', 'mv', "$backup: refreshed view");
	$node->stop;
}

#
# Point-in-time recovery
#

my %tables = (
	after_one => 'one',
	in_two => 'one',
	after_two => 'one two',
	after_three => 'one two three',
	in_four => 'one two three');
foreach my $point (long_run() ? @points : ('in_two', 'after_two', 'in_four'))
{
	my $node = restored("at_$point", 'before', $point);

	is(q1($node, q{SELECT string_agg(relname, ' ' ORDER BY oid) FROM pg_class WHERE relname IN ('one', 'two', 'three')}),
		$tables{$point}, "recovery to $point: tables that are there");
	foreach (split / /, $tables{$point})
	{
		sound_copy($node, 'h', $_, "recovery to $point: $_");
		all_frozen($node, $_, "recovery to $point: $_ is frozen");
	}
	is(q1($node, q{SELECT atttypid::regtype FROM pg_attribute WHERE attrelid = 'three'::regclass AND attnum = 1}),
		'integer', "recovery to $point: not altered")
	  if $tables{$point} =~ /three/;
	sound_copy($node, 'SELECT h.i, h.t || v FROM h, version', 'mv', "recovery to $point: view");
	q1($node, 'CREATE TABLE more USING batchheap AS TABLE h; REFRESH MATERIALIZED VIEW mv');
	sound_copy($node, 'h', 'more', "recovery to $point: loads go on");
	$node->stop;
}

finish_tests();
