# BenchCases.pm - what ./dev bench measures, and the targets it checks
#
# A case is a hash:
#   name, text    its name and what it loads
#   rows          number of rows at --scale 1; least is the smallest number
#   source        statement that makes the table src; cases that follow each other
#                 with the same source share it
#   settings      list of settings during a run
#   variants      what is compared with the first of them; by default heap, batchheap
#                 and, if pages is set, batchheap with its page writer.  A hash: name,
#                 am, and what differs from the case
#   pages         see there
#   setup         code that is called once, with the bench
#   before        statements before each run, outside of the measurement
#   steps         what is measured: pairs of a label and statements, or code that
#                 gets the bench and the variant and returns a command.  Figures are sums
#                 up to that step.
#   cold          the source comes from the disk, not from memory
#   extra         only measured when named
#   picture       is a bar in the picture
# In statements :am is the access method, :rows the number of rows, :dir a
# directory of the server's.  Tables that a run makes go to a schema of their own,
# which is dropped before the next run; it is first in the search path.
package BenchCases;

use strict;
use warnings;

my @cases;

sub add
{
    my ($name, $text, $rows, %case) = @_;
    my @variants = map { { name => $_, am => $_ } } qw(heap batchheap);
    push @variants, { name => 'page writer', am => 'batchheap', settings => ['batchheap.page_writer = on'] } if $case{pages};
    push @cases, { name => $name, text => $text, rows => $rows, least => 1, variants => \@variants, %case };
}

# The step of most cases
sub create_as
{
    my ($query) = @_;
    return [ '', "CREATE TABLE copy USING :am AS $query;" ];
}

# Two cases: the rows come in the slot of a scan, or in a virtual slot.  The
# executor projects, into a virtual slot, unless the select list is all columns of
# the table in their order.
sub slots
{
    my ($name, $text, $rows, $list, %case) = @_;
    add("$name.scan", "$text, SELECT *", $rows, %case, steps => [ create_as('SELECT * FROM src') ]);
    add("$name.list", "$text, column list", $rows, %case, steps => [ create_as("SELECT $list FROM src") ]);
}

# The same, with the source in memory and on disk
sub slots_warm_and_cold
{
    my ($name, $text, $rows, $list, %case) = @_;
    slots($name, $text, $rows, $list, %case);
    slots("$name.cold", "$text, source on disk", $rows, $list, %case, cold => 1, picture => 0);
}

sub series
{
    my ($columns) = @_;
    return "CREATE TABLE src AS SELECT $columns FROM generate_series(1, :rows) AS i;";
}

# N columns c1, c2, ... of the same expression
sub same
{
    my ($n, $expression) = @_;
    return join ', ', map { "$expression AS c$_" } 1 .. $n;
}

sub columns { join ', ', map { "c$_" } @_ }

my $four = series(same(4, 'i'));

#
# The mail threads' own cases, with fewer rows: --scale 5 gives the threads' numbers, or
# more.  Their column lists leave out the last column.
#

slots_warm_and_cold('t1-int', 'first thread: 1 integer', 2_000_000,
    'c1 + 0 AS c1', source => series('i AS c1'));
slots_warm_and_cold('t1-name', 'first thread: 26 names, 1.7 kB', 100_000, columns(1 .. 25),
    source => series(same(26, "'a'::name")));
my $long = "CREATE TABLE src AS SELECT %s FROM generate_series(1, :rows), (SELECT repeat('123456789', 10000) AS t) AS t;";
slots_warm_and_cold('t1-text', 'first thread: 26 compressed TOASTed texts', 1_000, columns(1 .. 25),
    source => sprintf($long, same(26, 't')));
slots_warm_and_cold('t11', 'first thread: 4 integers', 2_000_000, columns(1 .. 3), source => $four);
slots_warm_and_cold('t12', 'first thread: 31 names, 2.0 kB', 100_000, columns(1 .. 30),
    source => series(same(31, "'a'::name")));
slots_warm_and_cold('t13', 'first thread: 33 names, 2.1 kB', 100_000, columns(1 .. 32),
    source => series(same(33, "'a'::name")));
slots_warm_and_cold('t14', 'first thread: 26 compressed TOASTed texts, more rows', 2_500, columns(1 .. 25),
    source => sprintf($long, same(26, 't')));

add('thread3', 'third thread: 4 integers from generate_series, CREATE TABLE AS and VACUUM', 4_000_000,
    picture => 1, pages => 1,
    steps => [
        [ 'ctas', 'CREATE TABLE copy (a, b, c, d) USING :am AS SELECT i, i, i, i FROM generate_series(1, :rows) AS i;' ],
        [ 'ctas+vacuum', 'VACUUM copy;' ],
    ]);

add('refresh', 'third thread: REFRESH of a view of 1 integer', 10_000_000,
    picture => 1, pages => 1,
    source => series('i AS c1'),
    before => 'CREATE MATERIALIZED VIEW copy USING :am AS SELECT c1 FROM src WITH NO DATA;',
    steps => [ [ '', 'REFRESH MATERIALIZED VIEW copy;' ] ]);

# Sizes of tuples, header included
for my $size (
    [ 32, 3_000_000, 'i AS a, i AS b' ],
    [ 59, 2_000_000, "i AS a, i AS b, repeat('x', 26) AS c" ],
    [ 241, 600_000, same(13, 'i') . ", repeat('x', 124) AS t1, repeat('y', 39) AS t2" ],
    [ 1064, 150_000, 'i AS a, i AS b, ' . same(8, "repeat('x', 126)") . ", repeat('y', 15) AS c9" ])
{
    my ($bytes, $rows, $columns) = @$size;
    add("parallel.$bytes", "fourth thread: tuples of $bytes bytes from a parallel plan", $rows,
        source => series($columns),
        settings => [
            'max_parallel_workers_per_gather = 2', 'min_parallel_table_scan_size = 0',
            'parallel_setup_cost = 0', 'parallel_tuple_cost = 0'
        ],
        steps => [ create_as('SELECT * FROM src') ]);
}

#
# Shapes of rows
#

for my $shape ([ 1, 3_000_000 ], [ 4, 2_000_000 ], [ 8, 1_500_000 ], [ 32, 500_000 ], [ 100, 300_000 ])
{
    my ($n, $rows) = @$shape;
    my $text = $n == 1 ? '1 integer' : "$n integers";
    my $source = series(same($n, 'i'));
    slots("int$n", $text, $rows,
        $n == 1 ? 'c1 + 0 AS c1' : columns(reverse 1 .. $n),
        source => $source, picture => 1, pages => 1);
    next if $n == 1;
    add("select.int$n", "INSERT ... SELECT of $text into a table that was there", $rows,
        source => $source, picture => 1,
        before => 'CREATE TABLE copy (LIKE src) USING :am;',
        steps => [ [ '', 'INSERT INTO copy SELECT * FROM src;' ] ]);
    next if $n != 4;
    add("select.new", "INSERT ... SELECT of $text into a table that was just emptied", $rows,
        source => $source, picture => 1, pages => 1,
        before => 'CREATE TABLE copy (LIKE src) USING :am;',
        steps => [ [ '', 'BEGIN; TRUNCATE copy; INSERT INTO copy SELECT * FROM src; COMMIT;' ] ]);
    add("select.indexed", "INSERT ... SELECT of $text into a table with an index, which is not batched", $rows / 4,
        source => $source, picture => 1,
        before => 'CREATE TABLE copy (LIKE src) USING :am; CREATE INDEX ON copy (c1);',
        steps => [ [ '', 'INSERT INTO copy SELECT * FROM src;' ] ]);
}
slots('text32', '32 text columns', 400_000, columns(reverse 1 .. 32),
    source => series(same(32, 'i::text')), picture => 1, pages => 1);
slots('null32', '32 integer columns, half of them NULL', 800_000, columns(reverse 1 .. 32),
    source => series(join ', ', map { ($_ % 2 ? 'i' : 'NULL::int') . " AS c$_" } 1 .. 32), picture => 1, pages => 1);
slots('row200', 'rows of 200 bytes with a text', 700_000, 'b, a',
    source => series("i AS a, repeat('x', 200) AS b"), picture => 1, pages => 1);
slots('row2k', 'rows of 2 kB with two texts', 100_000, 'c, b, a',
    source => series("i AS a, repeat('x', 1000) AS b, repeat('y', 900) AS c"), picture => 1, pages => 1);

# 10 kB, which are about 5 kB when compressed
my $big = "(SELECT string_agg(repeat(md5((i * 160 + j)::text), 2), '') FROM generate_series(1, 160) AS j)";
add('toast.copy', 'TOASTed values copied', 15_000,
    picture => 1, pages => 1,
    source => series("i AS a, $big AS b"),
    steps => [ create_as('SELECT * FROM src') ]);
add('toast.new', 'values computed and TOASTed anew', 4_000,
    picture => 1,
    source => series("i AS a, $big AS b"),
    steps => [ create_as("SELECT a, b || '' AS b FROM src") ]);

#
# Commands
#

add('job', 'the whole job: 4 integers, CREATE TABLE AS, VACUUM, CREATE INDEX, index-only scan', 2_000_000,
    picture => 1, pages => 1,
    source => $four,
    settings => [ 'enable_seqscan = off', 'enable_bitmapscan = off' ],
    steps => [
        [ 'ctas', 'CREATE TABLE copy USING :am AS SELECT * FROM src;' ],
        [ 'ctas+vacuum', 'VACUUM copy;' ],
        [ 'ctas+vacuum+index', 'CREATE INDEX ON copy (c1);' ],
        [ 'all', 'SELECT count(*) FROM copy;' ],
    ]);
add('alter', 'ALTER TABLE that rewrites 4 integers, one to bigint', 2_000_000,
    picture => 1,
    source => $four,
    before => 'CREATE TABLE copy USING :am AS SELECT * FROM src;',
    steps => [ [ '', 'ALTER TABLE copy ALTER COLUMN c2 TYPE bigint;' ] ]);

my $copy = 'BEGIN; CREATE TABLE copy (LIKE src) USING :am; COPY copy FROM \':dir/rows\' (FORMAT binary%s); COMMIT;';
my $write_rows = "COPY src TO ':dir/rows' (FORMAT binary);";
add('copy.plain', 'COPY of 4 integers into a new table', 2_000_000,
    picture => 1,
    source => $four,
    setup => sub { $_[0]->sql($write_rows) },
    steps => [ [ '', sprintf $copy, '' ] ]);
add('copy.freeze', 'COPY FREEZE of 4 integers into a new table', 2_000_000,
    source => $four,
    setup => sub { $_[0]->sql($write_rows) },
    steps => [ [ '', sprintf $copy, ', FREEZE' ] ]);
add('restore', 'pg_restore --single-transaction of 4 integers', 2_000_000,
    picture => 1,
    source => $four,
    setup => sub {
        my ($bench) = @_;
        $bench->sql('SET client_min_messages = warning; DROP SCHEMA IF EXISTS target CASCADE; CREATE SCHEMA target;');
        $bench->sql('CREATE TABLE target.copy AS SELECT * FROM src;');
        $bench->command(qw(pg_dump -Fc -Z0 -t target.copy -f), $bench->file('dump'));
    },
    steps => [ [ '', sub {
        my ($bench, $variant) = @_;
        return (
            'env', "PGOPTIONS=-c default_table_access_method=$variant->{am}",
            qw(pg_restore --single-transaction --no-table-access-method -d postgres), $bench->file('dump'));
    } ] ]);

# Many tables of few rows; a run makes them all
for my $rows (1, 10, 100, 1000)
{
    add("small.$rows", "CREATE TABLE AS of $rows rows, many times", 1000,
        least => 200, unit => 'tables',
        picture => 1, pages => 1,
        source => 'CREATE TABLE src AS SELECT i AS a, i AS b, i AS c, i AS d FROM generate_series(1, 1000) AS i;',
        settings => ['synchronous_commit = off'],
        steps => [ [ '', sub {
            my ($bench) = @_;
            return \join "\n",
                map { "CREATE TABLE copy_$_ USING :am AS SELECT * FROM src LIMIT $rows;" } 1 .. $bench->rows;
        } ] ]);
}

add('select.few', 'INSERT ... SELECT of 10 rows, many times', 4000,
    least => 1000, unit => 'statements',
    picture => 1,
    source => 'CREATE TABLE src AS SELECT i AS a, i AS b, i AS c, i AS d FROM generate_series(1, 1000) AS i;',
    settings => ['synchronous_commit = off'],
    before => 'CREATE TABLE copy (LIKE src) USING :am;',
    steps => [ [ '', sub {
        my ($bench) = @_;
        return \join "\n", ('INSERT INTO copy SELECT * FROM src LIMIT 10;') x $bench->rows;
    } ] ]);

add('insert', 'INSERT of single rows by pgbench', 100_000,
    least => 10_000,
    picture => 1,
    before => 'CREATE TABLE copy (a int, b int, c int, d int) USING :am;',
    setup => sub {
        my ($bench) = @_;
        $bench->write_file('insert', "INSERT INTO target.copy VALUES (1, 2, 3, 4);\n");
    },
    steps => [ [ '', sub {
        my ($bench) = @_;
        return (
            'env', 'PGOPTIONS=-c synchronous_commit=off',
            qw(pgbench -n -M prepared -c 1 -t), $bench->rows, '-f', $bench->file('insert'), 'postgres');
    } ] ]);

#
# Settings and references
#

for my $slot ([ 'scan', 'SELECT *', '*' ], [ 'list', 'column list', 'c4, c3, c2, c1' ])
{
    my ($name, $text, $list) = @$slot;
    add("freeze.$name", "4 integers, $text: batchheap.freeze_on_load off and on", 2_000_000,
        source => $four,
        variants => [
            map { { name => $_, am => 'batchheap', settings => ["batchheap.freeze_on_load = $_"] } } qw(off on)
        ],
        steps => [ create_as("SELECT $list FROM src") ]);
}

add('reference', '4 integers: CREATE TABLE AS, COPY FREEZE on heap, reading and writing only', 2_000_000,
    source => $four,
    setup => sub { $_[0]->sql($write_rows) },
    variants => [
        { name => 'heap', am => 'heap' },
        { name => 'batchheap', am => 'batchheap' },
        { name => 'COPY FREEZE on heap', am => 'heap', steps => [ [ '', sprintf $copy, ', FREEZE' ] ] },
        {
            # read the source, and write as many bytes as batchheap's pages and WAL have
            name => 'floor', am => 'heap',
            steps => [
                [ 'scan', 'SELECT count(*) FROM src;' ],
                [ '', sub {
                    my ($bench) = @_;
                    my $last = $bench->{last}{batchheap};
                    my $blocks = int($last->{pages} * $bench->{block_size} / 8192 + $last->{wal} / 8192);
                    return ('dd', 'if=/dev/zero', 'of=' . $bench->file('zeros'), 'bs=8192',
                        "count=$blocks", 'conv=fsync', 'status=none');
                } ],
            ],
        },
    ],
    steps => [ create_as('SELECT * FROM src') ]);

for my $shape ([ 'int4', '4 integers', 2_000_000, $four ],
    [ 'row200', 'rows of 200 bytes', 700_000, series("i AS a, repeat('x', 200) AS b") ])
{
    my ($name, $text, $rows, $source) = @$shape;
    my @variants = ({ name => 'heap', am => 'heap' });
    for my $batch (100, 300, 1000, 3000, 10000)
    {
        for my $size (16, 64, 256, 1024)
        {
            push @variants, {
                name => "$batch rows, $size kB", am => 'batchheap',
                settings => [ "batchheap.max_batch_rows = $batch", "batchheap.max_batch_size = '${size}kB'" ]
            };
        }
    }
    add("sweep.$name", "$text: bounds of the ring", $rows,
        extra => 1,
        source => $source,
        variants => \@variants,
        steps => [ create_as('SELECT * FROM src') ]);
}

#
# Targets: text, the cases, what, at least or at most, where, and the variant if it is
# not the second.  What is the ratio first/other of cpu or seconds, or the ratio
# other/first of wal.  Where is memory (data on tmpfs), disk (with fsync) or anywhere.
#

sub both { map { ("$_.scan", "$_.list") } @_ }

my @targets = (
    [ 'CPU, 1 integer', [ both('int1') ], 'cpu', 'least', 1.65, 'memory' ],
    [ 'CPU, 4 integers', [ both('int4') ], 'cpu', 'least', 1.55, 'memory' ],
    [ 'CPU, 8 integers', [ both('int8') ], 'cpu', 'least', 1.50, 'memory' ],
    [ 'CPU, 32 integers', [ both('int32') ], 'cpu', 'least', 1.25, 'memory' ],
    [ 'CPU, 100 integers', [ both('int100') ], 'cpu', 'least', 1.12, 'memory' ],
    [ 'CPU, 2 kB and TOASTed rows', [ both(qw(row2k t12 t13 t14)), qw(toast.copy toast.new) ],
        'cpu', 'least', 1.00, 'memory' ],
    [ 'CPU, few rows', [ qw(small.1 small.10 small.100 small.1000 insert) ], 'cpu', 'least', 0.98, 'memory' ],
    [ 'CPU, INSERT ... SELECT', [ 'select.int4' ], 'cpu', 'least', 1.40, 'memory' ],
    [ 'CPU, INSERT ... SELECT, not batched', [ qw(select.indexed select.few) ], 'cpu', 'least', 0.98, 'memory' ],
    [ 'CPU, page writer', [ both(qw(int1 int4 int8)) ], 'cpu', 'least', 2.20, 'memory', 'page writer' ],
    [ 'CPU, page writer', [ both('int32') ], 'cpu', 'least', 1.90, 'memory', 'page writer' ],
    [ 'CPU, page writer', [ both(qw(int100 row2k)) ], 'cpu', 'least', 1.60, 'memory', 'page writer' ],
    [ 'CPU, freezing', [ both('freeze') ], 'cpu', 'least', 1 / 1.02, 'memory' ],
    [ 'WAL, 4 integers', [ both('int4') ], 'wal', 'most', 0.35, 'anywhere' ],
    # within 1 %, as catalogs are written too
    [ 'WAL, any case', [], 'wal', 'most', 1.01, 'anywhere' ],
    [ 'time, 4 integers, CREATE TABLE AS', [ qw(thread3.ctas job.ctas) ], 'seconds', 'least', 1.60, 'disk' ],
    [ 'time, and VACUUM', [ qw(thread3.ctas+vacuum job.ctas+vacuum) ], 'seconds', 'least', 1.90, 'disk' ],
    [ 'time, page writer', [ qw(thread3.ctas job.ctas) ], 'seconds', 'least', 2.00, 'disk', 'page writer' ],
    [ 'time, the whole job', [ 'job.all' ], 'seconds', 'least', 1.35, 'disk' ],
    [ 'time, REFRESH', [ 'refresh' ], 'seconds', 'least', 1.50, 'disk' ],
);

sub cases { return @cases }
sub targets { return @targets }

1;
