# Prepared transactions
#
# A prepared transaction with loads survives a restart, clean or not, and is
# committed or rolled back as a whole.  The session that prepared it goes on
# loading.
#
# BATCHHEAP_LONG=1: all combinations of wal_level and batchheap.page_writer.

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

foreach (
	[ 'minimal', 'on' ], [ 'logical', 'off' ],
	long_run() ? ([ 'minimal', 'off' ], [ 'logical', 'on' ]) : ())
{
	my ($level, $writer) = @$_;
	my $node = new_node("${level}_$writer", init => $level eq 'logical' ? { allows_streaming => 'logical' } : {},
		conf => 'wal_skip_threshold = 64kB');
	my @modes = page_writer_modes($node);
	my $set = set_writer(@modes == 1 ? 'none' : $writer);

	q1($node, qq{
CREATE TABLE h AS SELECT i, 'text ' || i AS t FROM generate_series(1, $rows) i;
CREATE TABLE h2 AS SELECT i, 'new ' || i AS t FROM generate_series(1, $rows) i;
});

	# one set of objects for each end
	foreach my $end ('committed', 'aborted', 'crash_committed', 'crash_aborted')
	{
		q1($node, qq{
CREATE SCHEMA $end;
SET search_path = $end, public;
CREATE MATERIALIZED VIEW mv USING batchheap AS TABLE h;
CREATE TABLE version AS SELECT 1 AS v;
CREATE MATERIALIZED VIEW changing USING batchheap AS
	SELECT i, CASE v WHEN 1 THEN 'text ' ELSE 'new ' END || i AS t FROM version, generate_series(1, $rows) i;
CREATE TABLE altered AS TABLE h;
CREATE INDEX ON altered (i);
CREATE TABLE emptied USING batchheap AS TABLE h2;
CREATE TABLE old (i int, t text) USING batchheap;
});
	}

	# All of them prepared in one session
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	foreach my $end ('committed', 'aborted', 'crash_committed', 'crash_aborted')
	{
		$session->query_safe(qq{
$set
SET search_path = $end, public;
BEGIN;
CREATE TABLE b USING batchheap AS TABLE h;
SAVEPOINT s;
CREATE TABLE b2 USING batchheap AS TABLE h;
ROLLBACK TO s;
CREATE TABLE b2 USING batchheap AS TABLE h2;
INSERT INTO old TABLE h;
UPDATE version SET v = 2;
REFRESH MATERIALIZED VIEW changing;
ALTER TABLE altered SET ACCESS METHOD batchheap;
TRUNCATE emptied;
COPY emptied FROM '$dir/rows';
PREPARE TRANSACTION '$end';
});
		is($session->query_safe(contexts_left()), 0, "$level: nothing is left in memory of a prepared load");
		$session->query_safe("CREATE TABLE public.after_$end USING batchheap AS TABLE h");
	}
	$session->query_safe('CREATE UNLOGGED TABLE public.unlogged USING batchheap AS TABLE h');
	$session->quit;
	sound_copy($node, 'h', "after_$_", "$level: session goes on loading after PREPARE, $_")
	  foreach qw(committed aborted);
	is(q1($node, q{SELECT to_regclass('committed.b') IS NULL}), 't', "$level: prepared is not committed");

	my $check = sub {
		my ($end, $committed) = @_;
		if ($committed)
		{
			q1($node, "COMMIT PREPARED '$end'");
			sound_copy($node, 'h', "$end.b", "$level: $end: b");
			all_frozen($node, "$end.b", "$level: $end: b is frozen");
			sound_copy($node, 'h2', "$end.b2", "$level: $end: b2");
			sound_copy($node, 'h2', "$end.changing", "$level: $end: refreshed view");
			all_frozen($node, "$end.changing", "$level: $end: refreshed view is frozen");
			is(q1($node, "SELECT amname FROM pg_class JOIN pg_am a ON a.oid = relam "
					  . "WHERE pg_class.oid = '$end.altered'::regclass"),
				'batchheap', "$level: $end: access method is changed");
			sound_copy($node, 'h', "$end.altered", "$level: $end: rewritten table");
			index_is_sound($node, "$end.altered_i_idx", "$level: $end: rebuilt index");
			sound_copy($node, 'h', "$end.emptied", "$level: $end: filled by COPY");
			sound_copy($node, 'h', "$end.old", "$level: $end: filled by INSERT");
			all_frozen($node, "$end.emptied", "$level: $end: filled by COPY and frozen");
		}
		else
		{
			q1($node, "ROLLBACK PREPARED '$end'");
			is(q1($node, "SELECT to_regclass('$end.b') IS NULL AND to_regclass('$end.b2') IS NULL"),
				't', "$level: $end: no tables");
			sound_copy($node, 'h', "$end.changing", "$level: $end: view as before");
			is(q1($node, "SELECT amname FROM pg_class JOIN pg_am a ON a.oid = relam "
					  . "WHERE pg_class.oid = '$end.altered'::regclass"),
				'heap', "$level: $end: access method as before");
			same_rows($node, 'h', "$end.altered", "$level: $end: table as before");
			sound_copy($node, 'h2', "$end.emptied", "$level: $end: not emptied");
			is(q1($node, "SELECT count(*) FROM $end.old"), 0, "$level: $end: not filled by INSERT");
		}
	};

	$node->restart;
	sound_copy($node, 'h', 'public.unlogged', "$level: unlogged table after a clean restart");
	$check->('committed', 1);
	$check->('aborted', 0);
	$node->stop('immediate');
	$node->start;
	$check->('crash_committed', 1);
	$check->('crash_aborted', 0);
	sound_copy($node, 'h', 'committed.b', "$level: b after the crash");
	sound_copy($node, 'h', 'after_crash_aborted', "$level: table of an ordinary transaction");
	$node->stop;
}

finish_tests();
