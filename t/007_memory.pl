# Memory of the backend
#
# A load needs what its ring holds, however many rows it has: the backend's
# memory stays within 16 MB of what the same load needs with heap, does not
# grow after the first batches, and is given back after the statement, whether
# it succeeded or not.
#
# BATCHHEAP_LONG=1: also 20 million narrow rows and 100,000 rows of 7 kB, and
# 1000 instead of 200 loads in one transaction.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use BatchheapTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'needs /proc/PID/status' unless -r '/proc/self/status';

# nothing is logged of a load at wal_level = minimal, which saves time
my $node = new_node('memory', conf => q{
log_statement = none
max_locks_per_transaction = 200
wal_skip_threshold = 0
});
my $MB = 1024 * 1024;
my $limit = 16 * $MB;

# look() tells the client what the process has in memory that nobody shares,
# and what is allocated in memory contexts
q1($node, q{
CREATE FUNCTION look() RETURNS bool LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	RAISE NOTICE 'sample: % %',
		1024 * substring(pg_read_file('/proc/self/status') FROM 'RssAnon:\s*(\d+) kB')::bigint,
		(SELECT sum(total_bytes) FROM pg_backend_memory_contexts);
	RETURN true;
END $$;
});

my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->set_query_timer_restart();

# samples(SQL): the samples that were taken while SQL ran, as [process, contexts],
# after the error message
sub samples
{
	my ($sql) = @_;
	my ($out, $err) = try_sql($session, $sql);
	my @samples;

	push @samples, [ $1, $2 ] while $err =~ /NOTICE:  sample: (\d+) (\d+)/g;
	return ($err =~ /ERROR|FATAL|WARNING/ ? $err : '', @samples);
}

sub max_of
{
	my ($which, @samples) = @_;
	my $max = 0;
	foreach (@samples)
	{
		$max = $_->[$which] if $_->[$which] > $max;
	}
	return $max;
}

sub at_most
{
	my ($got, $limit, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	cmp_ok($got, '<=', $limit, sprintf('%s (%.1f MB, limit %.1f MB)', $what, $got / $MB, $limit / $MB));
	return;
}

# everything that is cached by the first use is there
samples("SELECT look(); CREATE TABLE warm USING batchheap AS SELECT i FROM generate_series(1, 5000) i "
	  . "WHERE i % 1000 <> 0 OR look(); DROP TABLE warm");

#
# Many rows
#

# a value of 7 kB that cannot be compressed: its own number, and what all have
q1($node, q{
CREATE TABLE base AS SELECT string_agg(md5(j::text), '') AS base FROM generate_series(1, 220) j;
});
my $wide = 'i, i || base AS t';
my @loads = (
	[ '5 million rows of 200 bytes', 5_000_000, q{i, repeat('x', 200) AS t} ],
	long_run()
	? ([ '20 million narrow rows', 20_000_000, 'i' ], [ '100,000 rows of 7 kB', 100_000, $wide ])
	: ([ '10,000 rows of 7 kB', 10_000, $wide ]),
	[ '300,000 rows of arrays and the like', 300_000,
		'i, ARRAY[i, i + 1, i + 2] AS a, ROW(i, i::text)::text AS r, i::numeric / 7 AS n' ]);

foreach (@loads)
{
	my ($name, $rows, $columns) = @$_;
	my (%rss, %contexts, %after);

	foreach my $am ('heap', 'batchheap')
	{
		# heap needs the same for fewer rows, or less
		my $nrows = $am eq 'heap' && $rows > 1_000_000 ? $rows / rounds(10, 1) : $rows;
		my $select = sprintf 'SELECT %s FROM base, generate_series(1, %d) i WHERE i %% %d <> 0 OR look()',
		  $columns, $nrows, $nrows / 20;

		value($session, 'SELECT batchheap_counters_reset()');
		my ($err, @samples) = samples("CREATE TABLE big USING $am AS $select");
		is($err, '', "$name, $am: loaded");
		is(scalar(@samples), 20, "$name, $am: samples were taken");
		$rss{$am} = max_of(0, @samples);
		$contexts{$am} = max_of(1, @samples);

		if ($am eq 'batchheap')
		{
			is(value($session, counters('loads')), 'loads=1', "$name: the load was batched");
			at_most($samples[19][1] - $samples[1][1], $MB / 4, "$name: contexts do not grow");
			at_most($samples[19][0] - $samples[1][0], 4 * $MB, "$name: the process does not grow");
		}
		$after{$am} = value($session, 'SELECT sum(total_bytes) FROM pg_backend_memory_contexts');
		is(value($session, 'SELECT count(*) FROM big'), $nrows, "$name, $am: all rows are there")
		  if $nrows < 1_000_000 || long_run();
		value($session, 'DROP TABLE big');
	}
	at_most($rss{batchheap} - $rss{heap}, $limit, "$name: memory of the process beyond heap's");
	at_most($contexts{batchheap} - $contexts{heap}, $limit, "$name: memory contexts beyond heap's");
	at_most($after{batchheap} - $after{heap}, $MB / 4, "$name: memory after the statement beyond heap's");
	is(value($session, contexts_left()), 0, "$name: no context of a load is left");
}

# the page writer, where there is one
foreach my $writer (grep { $_ eq 'on' } page_writer_modes($node))
{
	foreach ([ 'narrow rows', 2_000_000, 'i' ], [ 'rows of 7 kB', 10_000, $wide ])
	{
		my ($name, $nrows, $columns) = @$_;
		value($session, set_writer($writer));
		my ($err, @samples) = samples(sprintf 'CREATE TABLE big USING batchheap AS '
			  . 'SELECT %s FROM base, generate_series(1, %d) i WHERE i %% %d <> 0 OR look()', $columns, $nrows, $nrows / 20);
		is($err, '', "page writer, $name: loaded");
		at_most($samples[19][1] - $samples[1][1], $MB / 4, "page writer, $name: contexts do not grow");
		at_most($samples[19][0] - $samples[1][0], 4 * $MB, "page writer, $name: the process does not grow");
		is(value($session, 'DROP TABLE big; RESET batchheap.page_writer; ' . contexts_left()), 0,
			"page writer, $name: no context of a load is left");
	}
}

# INSERT ... SELECT into a table that has been there before
{
	value($session, 'CREATE TABLE old (i int, t text) USING batchheap');
	my ($err, @samples) = samples(
		'INSERT INTO old SELECT i, repeat(\'x\', 200) FROM generate_series(1, 300000) i WHERE i % 15000 <> 0 OR look()');
	is($err, '', 'INSERT ... SELECT: inserted');
	at_most($samples[19][1] - $samples[1][1], $MB / 4, 'INSERT ... SELECT: contexts do not grow');
	is(value($session, 'DROP TABLE old; ' . contexts_left()), 0, 'INSERT ... SELECT: no context is left');
}

# the settings' maximum is what it costs, and is given back
{
	value($session, 'SET batchheap.max_batch_rows = 10000; SET batchheap.max_batch_size = 16384');
	my ($err, @samples) = samples(
		'CREATE TABLE big USING batchheap AS SELECT i, repeat(\'x\', 200) AS t FROM generate_series(1, 300000) i '
		  . 'WHERE i % 15000 <> 0 OR look()');
	is($err, '', 'largest settings: loaded');
	at_most($samples[19][1] - $samples[1][1], $MB / 4, 'largest settings: contexts do not grow');
	value($session, 'DROP TABLE big; RESET batchheap.max_batch_rows; RESET batchheap.max_batch_size');
	is(value($session, contexts_left()), 0, 'largest settings: no context of a load is left');
}

#
# Errors
#

my %errors = (
	'at a row' => [
		'1 / (i - 59000) AS t', qr/division by zero/ ],
	# a name is always stored as it is, and 140 of them do not fit a page
	'while a batch is written' => [
		join(', ', map { "CASE i WHEN 59000 THEN 'x'::name END AS n$_" } 1 .. 140), qr/row is too big/ ]);

foreach my $kind (sort keys %errors)
{
	my ($columns, $error) = @{ $errors{$kind} };
	my $select = "SELECT i, $columns FROM generate_series(1, 60000) i WHERE i % 3000 <> 0 OR look()";
	my $before = value($session, 'SELECT sum(total_bytes) FROM pg_backend_memory_contexts');
	my ($err, @samples) = samples("CREATE TABLE bad USING batchheap AS $select");
	like($err, $error, "error $kind: it is one");
	at_most($samples[-1][1] - $samples[1][1], $MB / 4, "error $kind: contexts do not grow before");
	is(value($session, contexts_left()), 0, "error $kind: no context of a load is left");
	at_most(value($session, 'SELECT sum(total_bytes) FROM pg_backend_memory_contexts') - $before,
		$MB / 4, "error $kind: contexts are back");
}

#
# Many loads in one transaction, every other one failing in a subtransaction
#

my $loads = rounds(200, 1000);
my %growth;
my $dir = PostgreSQL::Test::Utils::tempdir();
q1($node, qq{
CREATE TABLE h AS SELECT i FROM generate_series(1, 1600) i;
COPY h TO '$dir/rows';
});
foreach my $am ('heap', 'batchheap')
{
	my ($err, @samples) = samples(qq{
DO \$\$
DECLARE n int;
BEGIN
	-- the portal of the query is open all the time
	FOR n IN SELECT generate_series(1, $loads) LOOP
		BEGIN
			CREATE TABLE t USING $am AS SELECT 1 / (1500 - i) AS i FROM h;
		EXCEPTION WHEN division_by_zero THEN NULL;
		END;
		CREATE TABLE t USING $am AS TABLE h;
		ALTER TABLE t ALTER i TYPE bigint;
		TRUNCATE t;
		COPY t FROM '$dir/rows';
		IF (SELECT count(*) FROM t) <> 1600 THEN
			RAISE 'rows are missing';
		END IF;
		DROP TABLE t;
		IF n % ($loads / 10) = 0 THEN
			PERFORM look();
		END IF;
	END LOOP;
END \$\$});
	is($err, '', "$loads loads in a transaction, $am: succeeded");
	$growth{$am} = $samples[-1][1] - $samples[1][1];
}
at_most($growth{batchheap} - $growth{heap}, $MB / 4, "$loads loads in a transaction: growth beyond heap's");
is(value($session, contexts_left()), 0, 'many loads: no context of a load is left');

#
# A load that is read early, again and again, in subtransactions
#

q1($node, q{
CREATE FUNCTION read_early(i int, tab text, fail bool) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
DECLARE n bigint;
BEGIN
	BEGIN
		EXECUTE format('SELECT count(*) FROM (SELECT FROM %I LIMIT 1) s', tab) INTO n;
		IF fail THEN
			RAISE division_by_zero;
		END IF;
	EXCEPTION WHEN division_by_zero THEN NULL;
	END;
	RETURN i;
END $$;
});
%growth = ();
foreach my $am ('heap', 'batchheap')
{
	my ($err, @samples) = samples(qq{
CREATE TABLE t_$am USING $am AS
	SELECT read_early(i, 't_$am', i % 2 = 0) AS i FROM generate_series(1, 4000) i WHERE i % 200 <> 0 OR look()});
	is($err, '', "read early, $am: loaded");
	$growth{$am} = $samples[-1][1] - $samples[1][1];
}
at_most($growth{batchheap} - $growth{heap}, $MB / 4, "read early: growth beyond heap's");
same_rows($node, 't_heap', 't_batchheap', 'read early: rows');
is(value($session, contexts_left()), 0, 'read early: no context of a load is left');

$session->quit;
finish_tests();
