# The first bulk statement of a session
#
# A session that has not used batchheap before loads the library in the middle
# of its first statement, after hooks have been passed.  That statement must be
# batched and frozen like any other, whichever way the library is loaded and
# whichever other extension has hooks as well.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use BatchheapTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $rows = 2500;
my $node = new_node('first');
my $bindir = $node->config_data('--bindir');

# A new session, each statement sent by itself; output of all of them
sub session
{
	my ($options, @statements) = @_;
	local $ENV{PGOPTIONS} = $options;
	my ($out, $err) = ('', '');
	IPC::Run::run([ "$bindir/psql", '-XAtq', '-v', 'ON_ERROR_STOP=1',
			'-d', $node->connstr('postgres'), map { ('-c', $_) } @statements ],
		'>', \$out, '2>', \$err)
	  or die "psql failed: $err";
	chomp $out;
	return $out;
}

my $file = PostgreSQL::Test::Utils::tempdir() . '/rows';
append_to_file($file, join('', map { "$_\ttext $_\n" } 1 .. $rows));

q1($node, qq{
CREATE TABLE h AS SELECT i, 'text ' || i AS t FROM generate_series(1, $rows) i;
CREATE TABLE was_heap AS TABLE h;
CREATE MATERIALIZED VIEW mv USING batchheap AS TABLE h WITH NO DATA;
CREATE TABLE old (i int, t text) USING batchheap;
CREATE TABLE emptied (i int, t text) USING batchheap;
INSERT INTO emptied VALUES (1, 'gone after TRUNCATE');
});

my $load = "loads=1 rows_batched=$rows rows_frozen=$rows";
my $copy = "copy_rows=$rows copy_rows_frozen=$rows";
my $counted = counters(qw(loads rows_batched rows_frozen copy_rows copy_rows_frozen
	single_rows_copy single_rows_disabled single_rows_dml single_rows_indexed single_rows_not_new
	rows_whole forced_flushes));

# name, table, expected counters, statements before the counters are shown.  An
# INSERT whose statement loads the library may go either way.
my @cases = (
	[ 'CREATE TABLE AS', 'b', $load, 'CREATE TABLE b USING batchheap AS TABLE h' ],
	[ 'CREATE TABLE AS EXECUTE', 'b', $load,
		'PREPARE q AS TABLE h', 'CREATE TABLE b USING batchheap AS EXECUTE q' ],
	[ 'SELECT INTO', 'b', $load,
		'SET default_table_access_method = batchheap', 'SELECT * INTO b FROM h' ],
	[ 'CREATE MATERIALIZED VIEW', 'b', $load,
		'CREATE MATERIALIZED VIEW b USING batchheap AS TABLE h' ],
	[ 'REFRESH', 'mv', $load, 'REFRESH MATERIALIZED VIEW mv' ],
	[ 'SET ACCESS METHOD', 'was_heap', $load,
		'ALTER TABLE was_heap SET ACCESS METHOD batchheap' ],
	[ 'COPY in the transaction of CREATE TABLE', 'b', $copy,
		'BEGIN', 'CREATE TABLE b (i int, t text) USING batchheap',
		"COPY b FROM '$file'", 'COMMIT' ],
	[ 'COPY in the transaction of TRUNCATE', 'emptied', $copy,
		'BEGIN', 'TRUNCATE emptied', "COPY emptied FROM '$file'", 'COMMIT' ],
	[ 'INSERT', 'old', undef, 'INSERT INTO old TABLE h' ],
	[ 'COPY', 'old', "copy_rows=$rows", "COPY old FROM '$file'" ],
	[ 'a function that makes a table', 'b', $load,
		"DO 'BEGIN CREATE TABLE b USING batchheap AS TABLE h; END'" ]);

# undo what a case has done
sub reset_objects
{
	my ($table) = @_;
	q1($node, 'DROP MATERIALIZED VIEW b') if $table eq 'b'
	  && q1($node, q{SELECT relkind FROM pg_class WHERE relname = 'b'}) eq 'm';
	q1($node, q{
DROP TABLE IF EXISTS b;
REFRESH MATERIALIZED VIEW mv WITH NO DATA;
TRUNCATE old;
ALTER TABLE was_heap SET ACCESS METHOD heap;
});
	return;
}

sub run_cases
{
	my ($how, $options, @which) = @_;

	foreach my $case (@which)
	{
		my ($name, $table, $expected, @statements) = @$case;

		my $counters = session($options, @statements, $counted);
		is($counters, $expected, "$how: $name: counters") if defined $expected;
		same_rows($node, 'h', $table, "$how: $name: rows");
		map_is_sound($node, $table, "$how: $name: visibility map");
		all_frozen($node, $table, "$how: $name: frozen") if defined $expected && $expected =~ /frozen/;
		reset_objects($table);
	}
	return;
}

sub restart_with
{
	my ($libraries) = @_;
	$node->append_conf('postgresql.conf', "shared_preload_libraries = '$libraries'");
	$node->restart;
	return;
}

# Every case with a library that nobody has loaded before
run_cases('nothing preloaded', '', @cases);

# A session's own preloading, and others that have hooks, before and after us
my @few = @cases[ 0, 4, 5, 6 ];
run_cases('session_preload_libraries', '-c session_preload_libraries=batchheap', @few);
restart_with('batchheap');
run_cases('shared_preload_libraries', '', @few);

# Hooks of others still do what they are for
sub others_see_us
{
	my ($how, $options) = @_;

	run_cases($how, $options, @cases[ 0, 4 ]);

	my $offset = -s $node->logfile;
	is( session($options,
			'SELECT pg_stat_statements_reset() IS NULL',
			'CREATE TABLE b USING batchheap AS TABLE h',
			q{SELECT calls, rows FROM pg_stat_statements WHERE query LIKE 'CREATE TABLE b %'}) =~ s/^.*\n//r,
		"1|$rows",
		"$how: pg_stat_statements counts the rows");
	my $log = slurp_file($node->logfile, $offset);
	like($log, qr/Query Text: CREATE TABLE b USING batchheap.*\n(.*\n)*?.*Seq Scan on h .*rows=$rows/,
		"$how: auto_explain shows the plan");
	reset_objects('b');
	return;
}

my $explain = '-c auto_explain.log_min_duration=0 -c auto_explain.log_analyze=on '
  . '-c auto_explain.log_level=warning';
restart_with('pg_stat_statements');
q1($node, 'CREATE EXTENSION pg_stat_statements');
others_see_us('others before', "-c session_preload_libraries=auto_explain $explain");
restart_with('batchheap,pg_stat_statements,auto_explain');
others_see_us('others after', $explain);
restart_with('pg_stat_statements,batchheap,auto_explain');
others_see_us('others around', $explain);
restart_with('');

# A COPY that a query's function runs must not be frozen: the query's own
# snapshot, in which a stable function reads, is older.  Here the query loads
# the library when it has begun already.
q1($node, qq{
CREATE FUNCTION fill() RETURNS int LANGUAGE plpgsql VOLATILE AS
\$\$ BEGIN CREATE TABLE b (i int, t text) USING batchheap; COPY b FROM '$file'; RETURN 1; END \$\$;
CREATE FUNCTION seen() RETURNS bigint LANGUAGE plpgsql STABLE AS
\$\$ DECLARE n bigint; BEGIN EXECUTE 'SELECT count(*) FROM b' INTO n; RETURN n; END \$\$;
});
foreach my $options ('', '-c session_preload_libraries=batchheap')
{
	my $how = $options eq '' ? 'nothing preloaded' : 'preloaded';
	is(session($options, 'SELECT fill(), seen()', $counted), "1|0\ncopy_rows=$rows",
		"$how: COPY in a function: rows not seen by the query's snapshot");
	q1($node, 'DROP TABLE b');
}

finish_tests();
