# RandomStatements - random statements for ./dev random
#
# A generator makes the statements of one sequence, one at a time.  It is told what
# tables there are (learn()) and whether the last statement left a transaction open,
# so that most of its statements make sense.  Randomness is Perl's rand(), seeded by
# the caller.
#
# A statement is { kind => NAME, sql => TEXT, copy => [what COPY FROM STDIN reads],
# session => 2 (or 1), ddl => the tables may be others afterwards }.  Between the marks
# OPEN and CLOSE the text has a part that could be left out.
#
# What differs from heap by design must not come out:
#  - the order of rows is the same only as long as no row is removed; sequences are
#    therefore either "ordered", and nothing in them removes rows or leaves dead ones,
#    or they are not, and nothing in them depends on the order of rows
#  - frozen rows are visible to older snapshots and to STABLE functions: what shows
#    this is in sequences without freezing only
package RandomStatements;

use strict;
use warnings;

use constant { OPEN => "\x01", CLOSE => "\x02" };

sub new
{
    my ($class, %arg) = @_;
    my $self = bless {
        ordered   => 0,        # compare the order of rows
        freeze    => 1,        # batchheap.freeze_on_load stays on
        set_pages => 1,        # batchheap.page_writer may be changed
        set_insert => 1,       # ... batch_insert
        tables    => [],
        number    => 0,
        status    => 'I',
        savepoints => [],
        cursors   => [],
        prepared  => [],
        other     => 'I',      # what the second session is in
        %arg
    }, $class;
    return $self;
}

#
# Chance
#

sub chance { return rand() < $_[0] }
sub int_to { return int rand $_[0] }                                # 0 .. n-1
sub between { return $_[0] + int rand($_[1] - $_[0] + 1) }
sub pick { return $_[ int rand @_ ] }
sub opt { return OPEN . $_[0] . CLOSE }

# weighted([WEIGHT, VALUE]...)
sub weighted
{
    my $sum = 0;
    $sum += $_->[0] for @_;
    my $at = rand $sum;
    for (@_)
    {
        $at -= $_->[0];
        return $_->[1] if $at < 0;
    }
    return $_[-1][1];
}

sub rows_wanted
{
    return weighted([ 3, 0 ], [ 30, between(1, 25) ], [ 35, between(26, 300) ], [ 20, between(300, 1100) ],
        [ 8, between(1100, 3000) ]);
}

sub new_name { my ($self, $letter) = @_; return $letter . ++$self->{number} }

#
# Expressions
#

# what makes a value of a type from the number g
my %VALUE = (
    'integer' => [
        ('%g') x 8, '%g % 7', '(%g * 7919) % 1000', 'CASE WHEN %g % 5 <> 0 THEN %g END', 'nullif(%g % 3, 0)',
        'length(md5(%g::text))', '-%g', 'NULL::int', '(random() * 0)::int + %g', '10 / (%g + 1)'
    ],
    'bigint'           => [ '%g::bigint * 1000003', '%g', 'NULL::bigint' ],
    'smallint'         => [ '(%g % 100)::smallint' ],
    'text'             => [
        'md5(%g::text)', "repeat(chr(65 + %g % 26), %g % 60)", "CASE WHEN %g % 3 <> 0 THEN 'x' || %g END",
        'NULL::text', "''", "repeat('ab', %g % 200)", "lpad(%g::text, 130, 'y')", "'t' || %g % 4"
    ],
    'character varying(20)' => [ "('v' || %g)::varchar(20)" ],
    'character(10)'    => [ "('c' || %g % 50)::char(10)" ],
    'numeric'          => [ '%g::numeric / 7', 'NULL::numeric', "%g" ],
    'double precision' => ['%g::float8 / 3'],
    'boolean'          => [ '%g % 2 = 0', 'nullif(%g % 3 = 0, true)' ],
    'integer[]'        => [ 'ARRAY[%g, %g + 1]', 'h.arr(%g)', 'NULL::int[]', 'array_fill(%g, ARRAY[%g % 40])' ],
    'text[]'           => [ "ARRAY['a', %g::text, NULL]", "string_to_array(repeat(%g || ',', %g % 12), ',')" ],
    'jsonb'            => [ "jsonb_build_object('a', %g, 'b', repeat('j', %g % 30))", "to_jsonb(%g)" ],
    'date'             => [ "'2020-01-01'::date + %g % 1000" ],
    '"char"'           => [ q{(65 + %g % 26)::"char"} ],
    'name'             => ["('n' || %g)::name"],
    'uuid'             => ['md5(%g::text)::uuid'],
    'bytea'            => [ "decode(md5(%g::text), 'hex')", "NULL::bytea" ],
    'bit varying'      => ["(%g % 16)::bit(4)::varbit"],
    'interval'         => ["make_interval(mins => %g)"],
    'point'            => ["point(%g, 1)"],
    'int4range'        => ["int4range(%g, %g + 5)"],
    'inet'             => ["'10.0.0.0'::inet + %g"],
    'h.comp'           => [ "ROW(%g, 'y', ARRAY[%g])::h.comp", 'h.mkcomp(%g)' ],
    'h.comp[]'         => ["ARRAY[h.mkcomp(%g), NULL]"],
    'h.pos'            => [ ('(%g % 100 + 1)::h.pos') x 3, '%g::h.pos' ],
    'h.small'          => [ ('(%g % 100)::h.small') x 3, '%g::h.small' ],
    'h.jd'             => ["to_jsonb(%g)::h.jd"],
    # a check in places where it is hard to find
    'h.seeing'         => [
        "%g::h.seeing", "%g::text::h.seeing", "(('{' || %g || '}')::h.seeings)[1]", "(ARRAY[%g]::h.seeings)[1]",
        "(jsonb_populate_record(NULL::h.hiding, jsonb_build_object('x', %g))).x",
        "(('(' || %g || ',y)')::h.hiding).x", "h.total(%g) OVER (ORDER BY %g)", "%g OPERATOR(h.@@@) ''::text"
    ],
);
my @TYPES = sort grep { $_ ne 'h.seeing' } keys %VALUE;
my @COMMON = qw(integer text numeric integer[] boolean bigint);

# wide values, some longer than a page
my @WIDE = (
    "repeat('w', 3000)", 'h.long(%g, 40)', 'h.long(%g, 90)', 'h.long(%g, 400)', "repeat(md5(%g::text), 300)",
    "h.long(%g, 15 + %g % 50)", "h.long(%g, 55 + %g % 12)", "repeat('p', (%g * 37) % 2100)", "repeat('p', 7800 + (%g * 37) % 400)",
    "repeat('z', 100000)", "CASE WHEN %g % 4 = 0 THEN h.long(%g, 100) ELSE %g::text END",
    "CASE WHEN %g % 9 = 0 THEN h.long(%g, 1500) END", "h.scratched(%g)"
);

# what ends in an error at some row
my @FAILING = (
    '10 / (%g - %n)', 'h.boom(%g, %n)', '(CASE WHEN %g = %n THEN 1000 ELSE %g % 9 END)::h.small',
    "(CASE WHEN %g = %n THEN 'x' ELSE '1' END)::int", 'h.v(h.boom(%g, %n))'
);

sub fill
{
    my ($text, $g) = @_;
    my $n = pick(1, 20, 21, 22, between(1, 60), between(1, 1500));
    $text =~ s/%g/$g/g;
    $text =~ s/%n/$n/g;
    return $text;
}

sub value
{
    my ($type, $g) = @_;
    my $base = $type;
    $base = 'h.seeing' if $type eq 'integer' && $g eq 'g' && chance(0.03);
    my $values = $VALUE{$base};
    if (!$values)
    {
        ($base = $type) =~ s/\(.*//;
        $values = $VALUE{$base} or return "NULL::$type";
    }
    return fill(pick(@$values), $g);
}

sub not_null
{
    my ($type, $g) = @_;
    my $text;
    do { $text = value($type, $g) } while $text =~ /null|case/i;
    return $text;
}

sub a_type
{
    my ($self) = @_;
    return pick(qw(integer bigint boolean)) if $self->{ordered} && $self->{freeze} && chance(0.5);
    return chance(0.7) ? pick(@COMMON) : pick(@TYPES);
}

# columns_of(G, ROWS, ...): expressions as a list of [name, type or '', text]
sub columns_of
{
    my ($self, $g, %arg) = @_;
    my @columns = ([ a => 'integer', chance(0.9) ? $g : value('integer', $g) ]);
    for my $name (('b' .. 'k')[ 0 .. weighted([ 3, -1 ], [ 6, 0 ], [ 6, 1 ], [ 5, 3 ], [ 1, 9 ]) ])
    {
        my $type = $self->a_type;
        push @columns, [ $name, $type, value($type, $g) ];
    }
    if ($arg{wide})
    {
        push @columns, [ w => 'text', fill(pick(@WIDE), $g) ];
    }
    push @columns, [ n => 'integer', "nextval('h.sq')::int" ] if $self->{ordered} && chance(0.1);
    push @columns, [ x => 'integer', fill(pick(@FAILING), $g) ] if chance(0.06);
    @columns = map { [ "n$_", 'integer', $_ % 3 ? 'NULL::int' : $g ] } 1 .. 40 if chance(0.01);
    return @columns;
}

sub list_of
{
    my @columns = @_;
    my $first = 1;
    return join '', map {
        my $text = ($first ? '' : ', ') . "$_->[2] AS $_->[0]";
        my $out = $first ? $text : opt($text);
        $first = 0;
        $out
    } @columns;
}

#
# Tables
#

# learn(rows of h.probe())
sub learn
{
    my ($self, @rows) = @_;
    my @tables;
    for (@rows)
    {
        my ($name, $kind, $persistence, $partition, $populated, $size, $columns, $unique) = @$_;
        push @tables,
          {
            name        => $name,
            kind        => $kind,
            temp        => $persistence eq 't',
            partition   => $partition eq 't',
            populated   => $populated eq 't',
            unique      => $unique eq 't',
            size        => $size,
            columns     => [ map { [ split /\|/, $_, -1 ] } split /\n/, $columns // '' ],
            writable    => scalar($kind =~ /[rp]/)
          };
    }
    $self->{tables} = \@tables;
    $self->{stale} = 0;
    return;
}

# add(NAME, COLUMNS): a table that there will probably be
sub add
{
    my ($self, $name, $columns, %more) = @_;
    push @{ $self->{tables} },
      {
        name      => $name,
        kind      => 'r',
        temp      => 0,
        populated => 1,
        size      => 8192,
        columns   => [ map { [ $_->[0], $_->[1], '' ] } @$columns ],
        writable  => 1,
        %more
      };
    return;
}

sub some_table
{
    my ($self, $test) = @_;
    my @found = grep { $test->($_) } @{ $self->{tables} };
    return if !@found;
    # mostly the newer ones
    return chance(0.5) ? $found[-1] : pick(@found);
}

sub readable { my ($self) = @_; return $self->some_table(sub { $_[0]{populated} && $_[0]{size} < 1_500_000 }) }
sub writable { my ($self) = @_; return $self->some_table(sub { $_[0]{writable} && $_[0]{size} < 1_000_000 }) }
sub plain    { my ($self) = @_; return $self->some_table(sub { $_[0]{kind} eq 'r' && $_[0]{size} < 1_500_000 }) }

# an integer column, for expressions
sub number_of
{
    my ($table) = @_;
    my @found = map { $_->[0] } grep { $_->[1] eq 'integer' } @{ $table->{columns} };
    return @found ? (chance(0.8) ? $found[0] : pick(@found)) : undef;
}

sub set_of
{
    my ($table) = @_;
    return map { $_->[0] } grep { $_->[2] eq '' } @{ $table->{columns} };
}

sub condition
{
    my ($g) = @_;
    return defined $g ? fill(pick('%g % 3 = 1', '%g < %n', '%g > %n', '%g IS NOT NULL', '%g % 10 <> 0', '%g BETWEEN 5 AND 400'), $g) : 'true';
}

#
# Queries
#

# query(target => NAME of the table that it fills): a text and its columns
sub query
{
    my ($self, %arg) = @_;
    my $table = $self->readable;
    my $kind = weighted(
        [ 45, 'series' ],
        [ 3,  'values' ],
        [ 2,  'nothing' ],
        [ 3,  'recursive' ],
        [ 3,  'function' ],
        [ 2,  'distinct' ],
        $table
        ? ([ 20, 'all' ], [ 10, 'some' ], [ 5, 'join' ], [ 5, 'groups' ], [ 4, 'union' ], [ 2, 'whole' ], [ 2, 'unnest' ])
        : ()
    );
    return $self->query_of_series(%arg) if $kind eq 'series' || $kind eq 'distinct';
    my $n = rows_wanted();
    if ($kind eq 'values')
    {
        my $count = chance(0.9) ? between(1, 40) : between(990, 1010);
        return ('SELECT * FROM (VALUES ' . join(', ', map { "($_, 'v" . $_ % 9 . "')" } 1 .. $count) . ') AS v(a, b)',
            [ [ a => 'integer' ], [ b => 'text' ] ]);
    }
    return ("SELECT FROM generate_series(1, $n) AS g", []) if $kind eq 'nothing';
    if ($kind eq 'recursive')
    {
        return ("WITH RECURSIVE r(a, b) AS (SELECT 1, 'r' UNION ALL SELECT a + 1, repeat('r', a % 50) FROM r WHERE a < $n) SELECT * FROM r",
            [ [ a => 'integer' ], [ b => 'text' ] ]);
    }
    return ("SELECT * FROM h.series($n)", [ [ a => 'integer' ], [ b => 'text' ] ]) if $kind eq 'function';

    my $name = $table->{name};
    my $g = number_of($table);
    if ($kind eq 'all')
    {
        return ("SELECT * FROM $name" . $self->tail($table, $g), $table->{columns});
    }
    if ($kind eq 'some')
    {
        my @columns = $self->columns_of($g // '1');
        push @columns, $self->spy($arg{target}, $g) if $arg{target} && defined $g && $self->{ordered} && chance(0.3);
        return ('SELECT ' . list_of(@columns) . " FROM $name" . $self->tail($table, $g), \@columns);
    }
    if ($kind eq 'join')
    {
        my $second = $self->readable;
        my $k = number_of($second);
        if (defined $g && defined $k)
        {
            my $on = pick("one.$g = two.$k", "one.$g = two.$k * 2");
            my $type = pick('JOIN', 'LEFT JOIN');
            # rows of a join might be too many
            my $order = $self->{ordered} ? ' ORDER BY 1, 2, 3, 4' : '';
            return ("SELECT one.$g AS a, one.$g % 5 AS b, count(*) AS c, max(two.$k) AS d FROM $name AS one $type $second->{name} AS two ON $on GROUP BY 1, 2$order",
                [ [ a => 'integer' ], [ b => 'integer' ], [ c => 'bigint' ], [ d => 'integer' ] ]);
        }
        return ("SELECT * FROM $name", $table->{columns});
    }
    if ($kind eq 'groups')
    {
        $g //= '1';
        my $order = $self->{ordered} ? ' ORDER BY 1' : '';
        return ("SELECT $g % 50 AS a, count(*) AS b, array_agg($g ORDER BY $g) AS c, h.total($g) AS d FROM $name GROUP BY 1$order",
            [ [ a => 'integer' ], [ b => 'bigint' ], [ c => 'integer[]' ], [ d => 'bigint' ] ]);
    }
    if ($kind eq 'union')
    {
        return ("SELECT * FROM $name UNION ALL SELECT * FROM $name" . ($g ? " WHERE " . condition($g) : ''), $table->{columns});
    }
    if ($kind eq 'whole')
    {
        my @columns = ([ a => 'integer', $g // '1' ], [ r => '', 'q' ], [ t => 'text', 'q::text' ]);
        return ('SELECT ' . list_of(@columns) . " FROM $name AS q" . $self->tail({ %$table, name => 'q' }, $g), \@columns);
    }
    # unnest
    $g //= '1';
    return ("SELECT unnest(array_agg($g ORDER BY $g)) AS a, generate_series(1, 4) AS b FROM $name",
        [ [ a => 'integer' ], [ b => 'integer' ] ]);
}

sub query_of_series
{
    my ($self, %arg) = @_;
    my $n = rows_wanted();
    my $wide = !$arg{narrow} && chance(0.12);
    $n = between(1, 120) if $wide && $n > 120;
    my @columns = $self->columns_of('g', wide => $wide);
    if ($arg{target} && chance(0.35))
    {
        push @columns, $self->spy($arg{target}, 'g');
        push @columns, $self->spy($arg{target}, 'g', 'q') if chance(0.2);
        $n = between(1, 250) if $n > 250;
    }
    my $tail = '';
    $tail .= ' WHERE ' . condition('g') if chance(0.15);
    $tail .= ' ORDER BY ' . pick('g', 'g DESC', 'g % 10, g', 'md5(g::text)') if chance(0.15);
    $tail .= " LIMIT $n" if chance(0.05);
    return ('SELECT ' . list_of(@columns) . " FROM generate_series(1, $n) AS g$tail", \@columns);
}

sub tail
{
    my ($self, $table, $g) = @_;
    my $text = '';
    $text .= ' WHERE ' . condition($g) if chance(0.3);
    if (chance(0.15))
    {
        $text .= " ORDER BY $table->{name}::text" . ' COLLATE "C"' ;
        $text .= ' LIMIT ' . between(1, 500) if chance(0.5);
    }
    elsif ($self->{ordered} && chance(0.2))
    {
        $text .= ' LIMIT ' . between(1, 500);
    }
    return opt($text);
}

#
# Looking at a table while it is being filled
#

# a column that looks at the table or does something to it, every so many rows
sub spy
{
    my ($self, $target, $g, $name) = @_;
    $name //= 'p';
    my $every = pick(1, 1, 2, 3, 7, 20, 50, 100);
    my $kind = weighted(
        [ 10, 'q' ], [ 10, 'qs' ], [ 5, 'x' ], [ 8, 'xs' ], [ 4, 'cur' ],
        $self->{ordered} && $self->{keep} ? [ 1, 'kept' ] : (),
        $self->{freeze} ? () : ([ 8, 'qst' ])
    );
    my $depth = between(1, 3);
    my $fails = $self->{ordered} ? 0 : between(0, $depth);
    my $text;
    if ($kind eq 'kept')
    {
        $text = "h.kept($g, \$q\$SELECT * FROM $target\$q\$)";
    }
    elsif ($kind eq 'cur')
    {
        $text = "h.cur($g, $every, \$q\$SELECT * FROM $target\$q\$, " . pick(0, 1, 5, 1000) . ', ' . ($self->{ordered} ? 'false' : pick('false', 'true')) . ')';
    }
    elsif ($kind =~ /^q/)
    {
        my $query = $self->spying_query($target, $kind eq 'qst');
        $text = "h.$kind($g, $every, \$q\$$query\$q\$" . ($kind eq 'qs' ? ", $depth, $fails" : '') . ')';
    }
    else
    {
        my $command = $self->spying_command($target);
        $every = pick(20, 50, 100, 150) if $command =~ /CREATE|INSERT|COPY|ANALYZE/;
        $text = "h.$kind($g, $every, \$q\$$command\$q\$" . ($kind eq 'xs' ? ", $depth, $fails" : '') . ')';
    }
    return [ $name, 'bigint', $text ];
}

sub spying_query
{
    my ($self, $target, $stable) = @_;
    my @queries = (
        ("SELECT count(*) FROM $target") x 4, "SELECT sum(hashtext(t::text)) FROM $target AS t",
        "SELECT max(a) FROM $target", "SELECT count(*) FROM $target AS x JOIN $target AS y USING (a)",
        "SELECT count(*) FROM $target TABLESAMPLE SYSTEM (100)",
        # rows that were written again are elsewhere
        $self->{ordered}
        ? ("SELECT count(*) FROM $target WHERE ctid = '(0,1)'", "SELECT count(*) FROM $target WHERE ctid < '(1,0)' AND ctid >= '(0,1)'")
        : (),
        "SELECT count(*) FROM (SELECT 1 FROM $target LIMIT 3) AS x"
    );
    if (!$stable)
    {
        push @queries,
          (
            "WITH w AS (INSERT INTO $target (a) VALUES (-1) RETURNING a) SELECT count(*) FROM w",
            "WITH w AS (INSERT INTO $target (a) SELECT -a FROM $target WHERE a > 0 LIMIT 3 RETURNING a) SELECT count(*) FROM w",
            "SELECT count(set_config('batchheap.max_batch_rows', '3', false))",
            "SELECT count(set_config('batchheap.enable', 'off', false))"
          );
        push @queries,
          (
            "WITH w AS (DELETE FROM $target WHERE a % 10 = 3 RETURNING a) SELECT count(*) FROM w",
            "WITH w AS (UPDATE $target SET a = a + 100000 WHERE a % 10 = 4 RETURNING a) SELECT count(*) FROM w"
          ) if !$self->{ordered};
    }
    return pick(@queries);
}

sub spying_command
{
    my ($self, $target) = @_;
    my $other = $self->new_name('n');
    my @commands = (
        "INSERT INTO $target (a) VALUES (-2)",
        "INSERT INTO $target (a) SELECT -g FROM generate_series(1, 25) AS g",
        "CREATE TABLE IF NOT EXISTS $other AS SELECT a FROM $target",
        "CREATE TABLE IF NOT EXISTS $other AS SELECT g AS a FROM generate_series(1, 30) AS g; INSERT INTO $other SELECT a FROM $target",
        "CREATE TABLE IF NOT EXISTS $other (a int); INSERT INTO $other SELECT g FROM generate_series(1, 30) AS g",
        "DROP TABLE IF EXISTS $other; CREATE TABLE $other AS SELECT a, h.q(a, 2, \$r\$SELECT count(*) FROM $target\$r\$) FROM $target",
        "DROP TABLE IF EXISTS $other; CREATE TEMP TABLE $other ON COMMIT DROP AS SELECT a FROM $target",
        "ANALYZE $target", "GRANT SELECT ON $target TO PUBLIC", "COMMENT ON TABLE $target IS 'being filled'",
        "TRUNCATE $target", "DROP TABLE $target", "CREATE INDEX ON $target (a)", "ALTER TABLE $target ADD z int",
        "SELECT batchheap_to_heap('$target')", "LOCK TABLE $target", "CREATE STATISTICS ON a, b FROM $target",
        "COPY $target (a) FROM '$self->{files}/good'", "COPY $target (a) FROM '$self->{files}/bad'",
        "SELECT 1 / 0", "CHECKPOINT", "COPY (SELECT a FROM $target) TO '/dev/null'"
    );
    push @commands, ("DELETE FROM $target WHERE a % 10 = 5", "UPDATE $target SET a = -a WHERE a % 10 = 6") if !$self->{ordered};
    my $matview = $self->some_table(sub { $_[0]{kind} eq 'm' });
    push @commands, "REFRESH MATERIALIZED VIEW $matview->{name}" if $matview;
    my $source = $self->readable;
    push @commands, "CREATE TABLE IF NOT EXISTS $other AS SELECT * FROM $source->{name}" if $source;
    return pick(@commands);
}

#
# Statements.  Each sub returns one, or nothing if there is none at the moment.
#

sub do_create_as
{
    my ($self) = @_;
    my $name = $self->new_name('t');
    my ($query, $columns) = $self->query(target => $name);
    my $form = weighted([ 12, 'CREATE TABLE' ], [ 2, 'CREATE TEMP TABLE' ], [ 2, 'CREATE UNLOGGED TABLE' ], [ 1, 'into' ],
        [ 1, 'explain' ], [ 1, 'heap' ]);
    my $temp = $form =~ /TEMP/;
    my $sql = "CREATE TABLE $name AS $query";
    $sql = "$form $name AS $query" if $form =~ /CREATE/;
    $sql = "CREATE TABLE $name USING " . pick('heap', 'batchheap') . " AS $query" if $form eq 'heap';
    if ($form eq 'into' && $query =~ /^SELECT (?!FROM)/ && $query !~ /UNION/)
    {
        $sql = "SELECT * INTO $name FROM ($query) AS x";
    }
    $sql = "EXPLAIN (ANALYZE, BUFFERS OFF, COSTS OFF, TIMING OFF, SUMMARY OFF) $sql" if $form eq 'explain';
    if ($form =~ /CREATE/ && chance(0.05))
    {
        $sql =~ s/ AS / WITH (fillfactor = 50) AS /;
    }
    elsif ($temp && chance(0.3))
    {
        $sql =~ s/ AS / @{[ pick('ON COMMIT DROP', 'ON COMMIT DELETE ROWS') ]} AS /;
    }
    $sql .= ' WITH NO DATA' if $form =~ /CREATE/ && chance(0.03);
    $self->add($name, $columns, temp => $temp) if $form ne 'explain';
    return { sql => $sql, ddl => 1 };
}

sub do_create
{
    my ($self) = @_;
    my $name = $self->new_name('t');
    my @columns = ([ a => 'integer' ]);
    my @texts = ('a int' . opt(weighted([ 30, '' ], [ 3, ' PRIMARY KEY' ], [ 3, ' UNIQUE' ], [ 2, ' NOT NULL' ], [ 2, ' CHECK (a < 900)' ],
        [ 2, ' CHECK (h.look(a))' ])));
    for my $column (('b' .. 'k')[ 0 .. weighted([ 4, -1 ], [ 8, 0 ], [ 6, 1 ], [ 4, 3 ]) ])
    {
        my $type = chance(0.05) ? 'h.seeing' : $self->a_type;
        my $more = '';
        $more = weighted(
            [ 30, '' ],
            [ 3, ' DEFAULT ' . value($type, '5') ],
            $type eq 'integer' ? ([ 2, ' DEFAULT h.v(5)' ], [ 2, ' GENERATED ALWAYS AS (a + 1) STORED' ], [ 1, ' GENERATED ALWAYS AS IDENTITY' ],
                $self->{ordered} ? [ 2, " DEFAULT nextval('h.sq')" ] : ()) : ()
        );
        push @columns, [ $column, $type, $more =~ /GENERATED/ ? 'g' : '' ];
        push @texts, opt(", $column $type$more");
    }
    if (chance(0.2))
    {
        push @columns, [ w => 'text' ];
        push @texts, opt(', w text' . (chance(0.2) ? ' COMPRESSION pglz' : ''));
    }
    my $temp = chance(0.12);
    my $sql = 'CREATE ' . ($temp ? 'TEMP ' : chance(0.1) ? 'UNLOGGED ' : '') . "TABLE $name (" . join('', @texts) . ')';
    $sql .= ' USING ' . pick('heap', 'batchheap') if chance(0.1);
    $sql .= ' WITH (' . pick('fillfactor = 40', 'toast_tuple_target = 256', 'autovacuum_enabled = off') . ')' if chance(0.1);
    $sql .= ' ON COMMIT ' . pick('DROP', 'DELETE ROWS') if $temp && chance(0.3);
    $self->add($name, \@columns, temp => $temp);
    return { sql => $sql, ddl => 1 };
}

sub do_storage
{
    my ($self) = @_;
    my $table = $self->plain or return;
    my @texts = map { $_->[0] } grep { $_->[1] =~ /text|bytea|numeric|\[\]|json/ } @{ $table->{columns} };
    return if !@texts;
    return { sql => "ALTER TABLE $table->{name} ALTER " . pick(@texts) . ' SET STORAGE ' . pick('EXTERNAL', 'PLAIN', 'MAIN', 'EXTENDED') };
}

# a partitioned table and its leaves
sub do_partitioned
{
    my ($self) = @_;
    my $name = $self->new_name('p');
    my $kind = pick('range', 'list', 'hash');
    my @sql = (
        $kind eq 'list'
        ? "CREATE TABLE $name (a int, b text, c int) PARTITION BY LIST ((a % 4))"
        : "CREATE TABLE $name (a int, b text" . opt(', c int DEFAULT 3') . ") PARTITION BY $kind (a)"
    );
    my @bounds =
        $kind eq 'range' ? ('FOR VALUES FROM (MINVALUE) TO (30)', 'FOR VALUES FROM (30) TO (100)', 'FOR VALUES FROM (100) TO (800)')
      : $kind eq 'list'  ? ('FOR VALUES IN (0)', 'FOR VALUES IN (1, -1)', 'FOR VALUES IN (2, 3, -2, -3)')
      :                    map { "FOR VALUES WITH (MODULUS 3, REMAINDER $_)" } 0 .. 2;
    push @bounds, 'DEFAULT' if $kind ne 'hash' && chance(0.7);
    my $i = 0;
    for my $bound (@bounds)
    {
        my $leaf = $name . '_' . ++$i;
        my $using = chance(0.15) ? ' USING heap' : '';
        if ($kind eq 'range' && chance(0.2))
        {
            # other order of columns
            push @sql, "CREATE TABLE $leaf (c int, x int, b text, a int)$using", "ALTER TABLE $leaf DROP x";
            push @sql, "ALTER TABLE $leaf DROP c" if $sql[0] !~ /c int/;
            push @sql, "ALTER TABLE $name ATTACH PARTITION $leaf $bound";
        }
        elsif ($kind eq 'hash' && chance(0.2))
        {
            push @sql, "CREATE TABLE $leaf PARTITION OF $name $bound PARTITION BY RANGE (a)",
              "CREATE TABLE ${leaf}_1 PARTITION OF $leaf FOR VALUES FROM (MINVALUE) TO (50)$using",
              "CREATE TABLE ${leaf}_2 PARTITION OF $leaf DEFAULT";
        }
        else
        {
            push @sql, "CREATE TABLE $leaf PARTITION OF $name $bound$using";
        }
        push @sql, "CREATE INDEX ON $leaf (a)" if chance(0.12);
        push @sql, "CREATE TRIGGER tr AFTER INSERT ON $leaf FOR EACH ROW EXECUTE FUNCTION h.after_row()" if chance(0.07);
        push @sql, "CREATE TRIGGER tb BEFORE INSERT ON $leaf FOR EACH ROW EXECUTE FUNCTION h.before_row()" if chance(0.04);
        push @sql, "ALTER TABLE $leaf ADD CHECK (a <> " . between(1, 700) . ')' if chance(0.07);
        push @sql, "ALTER TABLE $leaf ADD CHECK (h.look(a))" if chance(0.04);
    }
    $self->add($name, [ [ a => 'integer' ], [ b => 'text' ] ], kind => 'p');
    return { sql => join('; ', @sql), ddl => 1 };
}

# more leaves than are loaded at a time
sub do_many_leaves
{
    my ($self) = @_;
    my $name = $self->new_name('p');
    my $n = between(60, 75);
    $self->add($name, [ [ a => 'integer' ], [ b => 'text' ] ], kind => 'p');
    return {
        sql => "CREATE TABLE $name (a int, b text) PARTITION BY HASH (a); "
          . "DO \$do\$ BEGIN FOR i IN 0 .. $n - 1 LOOP EXECUTE format('CREATE TABLE ${name}_%s PARTITION OF $name FOR VALUES WITH (MODULUS $n, REMAINDER %s)', i, i); END LOOP; END \$do\$; "
          . "INSERT INTO $name SELECT g, 'x' FROM generate_series(1, " . between(100, 3000) . ") AS g ORDER BY " . pick('g', 'g % 70', 'g DESC'),
        ddl => 1
    };
}

sub do_matview
{
    my ($self) = @_;
    my $name = $self->new_name('m');
    my ($query, $columns) = $self->query(target => chance(0.3) ? $name : undef);
    $self->add($name, $columns, kind => 'm', writable => 0);
    my $sql = "CREATE MATERIALIZED VIEW $name AS $query" . (chance(0.1) ? ' WITH NO DATA' : '');
    $sql .= "; CREATE UNIQUE INDEX ON $name (a)" if chance(0.3);
    return { sql => $sql, ddl => 1 };
}

sub do_refresh
{
    my ($self) = @_;
    my $table = $self->some_table(sub { $_[0]{kind} eq 'm' }) or return;
    return {
        sql => 'REFRESH MATERIALIZED VIEW ' . (chance(0.3) ? 'CONCURRENTLY ' : '') . $table->{name} . (chance(0.05) ? ' WITH NO DATA' : ''),
        ddl => 1
    };
}

sub do_view
{
    my ($self) = @_;
    my $table = $self->plain or return;
    my $g = number_of($table) or return;
    my $name = $self->new_name('v');
    my $sql = "CREATE VIEW $name AS SELECT * FROM $table->{name} WHERE $g < 500" . pick('', '', ' WITH CHECK OPTION');
    $sql .= "; CREATE RULE r AS ON INSERT TO $table->{name} DO ALSO SELECT count(*) FROM $table->{name}" if chance(0.1);
    $self->add($name, $table->{columns}, kind => 'v');
    return { sql => $sql, ddl => 1 };
}

sub do_alter
{
    my ($self) = @_;
    my $table = $self->plain or return;
    my $name = $table->{name};
    my $g = number_of($table);
    my @others = grep { $_ ne 'a' } map { $_->[0] } @{ $table->{columns} };
    my $column = @others ? pick(@others) : 'a';
    my $new = 'x' . ++$self->{number};
    my @actions = (
        ("SET ACCESS METHOD heap", "SET ACCESS METHOD batchheap") x 3, 'SET LOGGED', 'SET UNLOGGED',
        "ADD $new int DEFAULT h.v(7)", "ADD $new int", "ADD $new int DEFAULT 9", "ADD $new text DEFAULT repeat('d', h.v(40))",
        "DROP $column", 'SET (fillfactor = 60)', "ADD $new int GENERATED ALWAYS AS (1) STORED",
        "ALTER a TYPE bigint", "ALTER a TYPE text USING a::text", "ALTER a TYPE int USING a::text::int", "ALTER a SET NOT NULL",
        "ALTER $column TYPE text USING $column\::text",
        defined $g
        ? ("ALTER $g TYPE int USING $g + 1", "ADD CHECK ($g < 600)", "ADD UNIQUE ($g)", "ADD $new int GENERATED ALWAYS AS ($g + 1) STORED",
            "ALTER $g TYPE int USING 100 / ($g - " . between(1, 500) . ")", "ALTER $g TYPE int USING h.q($g, 20, \$q\$SELECT count(*) FROM $name\$q\$)",
            "ALTER $g TYPE int USING h.v($g), ADD CHECK ($g < 950)")
        : ()
    );
    # these number rows in their order
    push @actions, "ADD $new int GENERATED ALWAYS AS IDENTITY", "ADD $new serial" if $self->{ordered};
    return { sql => "ALTER TABLE $name " . pick(@actions), ddl => 1 };
}

sub do_switch
{
    my ($self) = @_;
    my $table = $self->some_table(sub { 1 }) or return;
    return { sql => 'SELECT batchheap_' . pick('to_heap', 'from_heap', 'from_heap') . "('$table->{name}')" };
}

sub do_index
{
    my ($self) = @_;
    my $table = $self->some_table(sub { $_[0]{kind} =~ /[rm]/ }) or return;
    my @columns = map { $_->[0] } grep { $_->[1] !~ /^(point|json|h\.comp)/ } @{ $table->{columns} };
    return if !@columns;
    my $column = pick(@columns);
    my $g = number_of($table);
    return {
        sql => 'CREATE '
          . weighted([ 10, "INDEX ON $table->{name} ($column)" ],
            [ 3, "UNIQUE INDEX ON $table->{name} ($column)" ],
            [ 1, "INDEX ON $table->{name} USING brin ($column)" ],
            [ 1, "INDEX ON $table->{name} USING hash ($column)" ],
            defined $g ? ([ 2, "INDEX ON $table->{name} (($g % 10))" ], [ 2, "INDEX ON $table->{name} ($column) WHERE $g > 20" ],
                [ 1, "INDEX ON $table->{name} ((h.boom($g, 77)))" ]) : (),
            $self->{status} eq 'I' && !$self->{nested} ? [ 2, "INDEX CONCURRENTLY ON $table->{name} ($column)" ] : ()),
        ddl => 1
    };
}

sub do_reindex
{
    my ($self) = @_;
    my $table = $self->some_table(sub { $_[0]{kind} =~ /[rm]/ }) or return;
    return { sql => "REINDEX TABLE $table->{name}" };
}

sub do_trigger
{
    my ($self) = @_;
    my $table = $self->plain or return;
    return if !grep { $_->[0] eq 'a' && $_->[1] eq 'integer' } @{ $table->{columns} };
    my $name = $self->new_name('g');
    return {
        sql => "CREATE "
          . weighted(
            [ 3, "TRIGGER $name BEFORE INSERT ON $table->{name} FOR EACH ROW EXECUTE FUNCTION h.before_row()" ],
            [ 4, "TRIGGER $name AFTER INSERT ON $table->{name} FOR EACH ROW EXECUTE FUNCTION h.after_row()" ],
            [ 2, "CONSTRAINT TRIGGER $name AFTER INSERT ON $table->{name} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION h.after_row()" ],
            [ 4, "TRIGGER $name " . pick('BEFORE', 'AFTER') . " INSERT ON $table->{name} FOR EACH STATEMENT EXECUTE FUNCTION h.statement()" ],
            [ 1, "TRIGGER $name " . pick('BEFORE', 'AFTER') . " INSERT ON $table->{name} FOR EACH STATEMENT EXECUTE FUNCTION h.statement_load()" ],
            [ 1, "TRIGGER $name " . pick('BEFORE', 'AFTER') . " INSERT ON $table->{name} FOR EACH ROW EXECUTE FUNCTION h.row_load()" ],
            [ 1, "CONSTRAINT TRIGGER $name AFTER INSERT ON $table->{name} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION h.row_load()" ],
            [ 3, "TRIGGER $name AFTER INSERT ON $table->{name} REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION h.transition()" ])
    };
}

sub do_foreign_key
{
    my ($self) = @_;
    my $table = $self->plain or return;
    my $other = $self->some_table(sub { $_[0]{kind} eq 'r' && $_[0]{unique} }) or return;
    my ($g, $k) = (number_of($table), number_of($other));
    return if !defined $g || !defined $k;
    return { sql => "ALTER TABLE $table->{name} ADD FOREIGN KEY ($g) REFERENCES $other->{name} ($k)" . pick('', ' NOT VALID', ' DEFERRABLE INITIALLY DEFERRED'), ddl => 1 };
}

# A table whose rows have all the same length, as long as there is no null.  With
# other rows it matters for their order whether the free space map is looked at, and
# an INSERT into a new table that is batched does not.
my %FIXED = map { $_ => 1 } qw(integer bigint boolean date "char"), 'double precision';

sub order_is_safe
{
    my ($self, $table) = @_;
    return !$self->{ordered} || !$self->{freeze} || !grep { !$FIXED{ $_->[1] } || $_->[2] ne '' } @{ $table->{columns} };
}

# INSERT ... SELECT of values that suit the table's columns
sub do_insert
{
    my ($self) = @_;
    my $table = $self->some_table(sub { $_[0]{writable} && $_[0]{size} < 1_000_000 && $self->order_is_safe($_[0]) }) or return;
    my $name = $table->{name};
    my $fixed = $self->{ordered} && $self->{freeze};
    my @columns = grep { $_->[2] eq '' } @{ $table->{columns} };
    @columns = grep { $_->[0] eq 'a' || chance(0.7) } @columns if !$fixed && chance(0.3);
    return if !@columns && chance(0.9);
    my $names = join ', ', map { $_->[0] } @columns;

    my ($from, $g);
    my $source = chance(0.35) ? $self->readable : undef;
    $g = number_of($source) if $source;
    if (defined $g)
    {
        $from = "$source->{name}" . $self->tail($source, $g);
    }
    else
    {
        my $n = rows_wanted();
        $n = between(1, 120) if $n > 120 && grep { $_->[0] eq 'w' } @columns;
        $g = 'g';
        $from = "generate_series(1, $n) AS g";
        $from .= opt(' WHERE ' . condition('g')) if chance(0.1);
        $from .= opt(' ORDER BY ' . pick('g DESC', 'g % 10, g', 'md5(g::text)')) if chance(0.1);
    }
    my $spied = 0;
    my @values = map {
        my $text = $fixed ? not_null($_->[1], $g) : value($_->[1], $g);
        if ($_->[0] eq 'w') { $text = fill(pick(@WIDE), $g) }
        elsif ($_->[1] eq 'integer' && $_->[0] eq 'a' && chance(0.8)) { $text = $g }
        elsif ($_->[1] eq 'integer' && !$self->{ordered} && chance(0.05)) { $text = fill(pick(@FAILING), $g) }
        elsif ($_->[1] eq 'integer' && chance(0.03)) { $text = "h.v($g)" }
        elsif ($_->[1] =~ /^(bigint|integer)$/ && !$fixed && chance(0.1) && (!$source || $self->{ordered}))
        {
            $text = $self->spy($name, $g)->[2];
            $text = "$text\::int" if $_->[1] eq 'integer';
            $spied = 1;
        }
        elsif ($_->[1] =~ /^(bigint|integer)$/ && chance(0.06) && (!$source || $self->{ordered}))
        {
            $text = "h.qst($g, 20, \$q\$SELECT count(*) FROM $name\$q\$)::int";
            $spied = 1;
        }
        $text
    } @columns;
    $from =~ s/generate_series\(1, (\d+)\)/'generate_series(1, ' . ($1 > 200 ? 200 : $1) . ')'/e if $spied;
    my $select = 'SELECT ' . join(', ', @values) . " FROM $from";
    if (chance(0.03))
    {
        my $count = chance(0.8) ? between(1, 30) : between(995, 1005);
        $select = 'VALUES ' . join ', ', map { my $i = $_; '(' . join(', ', map { $fixed ? not_null($_->[1], $i) : value($_->[1], $i) } @columns) . ')' } 1 .. $count;
    }
    my $sql = "INSERT INTO $name" . ($names eq '' ? '' : " ($names)") . " $select";
    my $more = weighted([ 40, '' ], [ 2, ' RETURNING *' ], [ 2, ' ON CONFLICT DO NOTHING' ],
        $table->{unique} ? ([ 4, ' ON CONFLICT DO NOTHING' ], [ 2, ' ON CONFLICT (a) DO UPDATE SET a = EXCLUDED.a' ]) : (), [ 1, 'with' ], [ 1, 'cte' ], [ 1, 'explain' ], [ 1, 'count' ]);
    $more = '' if $more =~ /UPDATE/ && $self->{ordered};
    if    ($more eq 'with')    { $sql = "WITH x AS (SELECT count(*) FROM $name) $sql" }
    elsif ($more eq 'cte')     { $sql = "WITH x AS ($sql RETURNING *) SELECT count(*) FROM x" }
    elsif ($more eq 'count')   { $sql = "WITH x AS ($sql RETURNING *) INSERT INTO $name (a) SELECT -3 FROM x" }
    elsif ($more eq 'explain') { $sql = "EXPLAIN (ANALYZE, BUFFERS OFF, COSTS OFF, TIMING OFF, SUMMARY OFF) $sql" }
    else                       { $sql .= $more }
    return { sql => $sql };
}

sub do_insert_all
{
    my ($self) = @_;
    my $table = $self->some_table(sub { $_[0]{writable} && $_[0]{size} < 1_000_000 && $self->order_is_safe($_[0]) }) or return;
    my $source = chance(0.5) ? $table : $self->readable;
    return if !$source;
    return if $self->{ordered} && $self->{freeze};    # there might be nulls
    return { sql => "INSERT INTO $table->{name} SELECT * FROM $source->{name}" . $self->tail($source, number_of($source)) };
}

sub do_update
{
    my ($self) = @_;
    return if $self->{ordered};
    my $table = $self->writable or return;
    my @columns = grep { $_->[2] eq '' } @{ $table->{columns} };
    return if !@columns;
    my $g = number_of($table);
    my $where = ' WHERE ' . condition($g);
    return { sql => "DELETE FROM $table->{name}$where" } if chance(0.35);
    if (chance(0.2) && defined $g)
    {
        my $other = $self->readable;
        my $k = number_of($other);
        return { sql => "MERGE INTO $table->{name} AS one USING (SELECT DISTINCT $k AS k FROM $other->{name}) AS two ON one.$g = two.k "
              . pick('WHEN MATCHED THEN DELETE', "WHEN MATCHED THEN UPDATE SET $g = $g + 1", 'WHEN MATCHED THEN DO NOTHING')
              . " WHEN NOT MATCHED THEN INSERT ($g) VALUES (two.k)" }
          if defined $k;
    }
    my $column = pick(@columns);
    return { sql => "UPDATE $table->{name} SET $column->[0] = " . value($column->[1], $g // '1') . $where };
}

# COPY FROM STDIN
sub copy_value
{
    my ($type, $i) = @_;
    return '\N' if chance(0.03);
    return $i if $type =~ /^(integer|bigint|numeric|double precision)$/;
    return $i % 100 + 1 if $type =~ /^(smallint|h\.pos|h\.small|h\.seeing)$/;
    return pick("c$i", 'some text', "tab\\tand\\\\", 'x' x ($i % 50), '') if $type eq 'text';
    return $i % 2 ? 't' : 'f' if $type eq 'boolean';
    return "{$i,2,3}" if $type =~ /^(integer|text)\[\]$/;
    return "{\"k\": $i}" if $type =~ /^(jsonb|h\.jd)$/;
    return "($i,y,\"{1,2}\")" if $type eq 'h.comp';
    return "v$i" if $type =~ /^(character|name)/;
    return '2021-05-06' if $type eq 'date';
    return '\N';
}

sub copy_data
{
    my ($n, @columns) = @_;
    my $bad = chance(0.08) ? between(1, $n + 1) : 0;
    my $wide = $n < 100 && chance(0.3);
    return join '', map {
        my $i = $_;
        ($i == $bad ? "bad\tbad\tbad\n" : join("\t", map { $wide && $_->[1] eq 'text' ? 'w' x 3000 . $i : copy_value($_->[1], $i) } @columns) . "\n")
    } 1 .. $n;
}

sub do_copy
{
    my ($self) = @_;
    my $table = $self->writable or return;
    return if $self->{nested};
    my @columns = grep { $_->[2] eq '' } @{ $table->{columns} };
    @columns = grep { chance(0.6) } @columns if chance(0.2);
    return if !@columns;
    my $n = rows_wanted();
    my $names = join ', ', map { $_->[0] } @columns;
    my $sql = "COPY $table->{name} ($names) FROM STDIN";
    $sql = "TRUNCATE $table->{name}; $sql" if chance(0.33);
    $sql .= ' (FREEZE)' if chance($sql =~ /TRUNCATE/ ? 0.4 : 0.1);
    my $g = number_of($table);
    $sql .= ' WHERE ' . pick(condition($g), "h.v($g) % 3 <> 1", "h.look($g)") if defined $g && chance(0.12);
    return { sql => $sql, copy => [ copy_data($n, @columns) ] };
}

sub do_copy_file
{
    my ($self) = @_;
    my $table = $self->writable or return;
    my $g = number_of($table) or return;
    return { sql => "COPY $table->{name} ($g) FROM '$self->{files}/" . weighted([ 4, 'good' ], [ 1, 'bad' ], [ 2, 'big' ]) . "'" . (chance(0.3) ? ' (FREEZE)' : '') };
}

sub do_truncate
{
    my ($self) = @_;
    my $table = $self->some_table(sub { $_[0]{kind} =~ /[rp]/ }) or return;
    return { sql => "TRUNCATE $table->{name}" . pick('', '', ' CASCADE') };
}

# truncate and fill at once
sub do_refill
{
    my ($self) = @_;
    my $insert = $self->do_insert or return;
    my ($name) = $insert->{sql} =~ /INSERT INTO (\w+)/;
    return { sql => "TRUNCATE $name; $insert->{sql}" };
}

sub do_drop
{
    my ($self) = @_;
    my $table = $self->some_table(sub { 1 }) or return;
    my $what = { r => 'TABLE', p => 'TABLE', m => 'MATERIALIZED VIEW', v => 'VIEW' }->{ $table->{kind} };
    @{ $self->{tables} } = grep { $_ != $table } @{ $self->{tables} };
    return { sql => "DROP $what $table->{name}" . pick('', ' CASCADE'), ddl => 1 };
}

sub do_vacuum
{
    my ($self) = @_;
    return if $self->{ordered} || $self->{nested} || $self->{status} ne 'I';
    my $table = $self->plain or return;
    return { sql => pick('VACUUM', 'VACUUM', 'VACUUM FREEZE', 'VACUUM FULL', 'VACUUM ANALYZE') . " $table->{name}" };
}

sub do_checkpoint { return { sql => 'CHECKPOINT' } }

sub do_analyze
{
    my ($self) = @_;
    my $table = $self->plain or return;
    return { sql => "ANALYZE $table->{name}" };
}

sub do_cluster
{
    my ($self) = @_;
    my $table = $self->plain or return;
    return if $self->{nested};
    return { sql => "CREATE INDEX cl_$self->{number} ON $table->{name} (a); CLUSTER $table->{name} USING cl_" . $self->{number}++, ddl => 1 };
}

sub do_select
{
    my ($self) = @_;
    my $table = $self->readable or return;
    my $g = number_of($table);
    return { sql => "SELECT count(*), sum($g), count(DISTINCT $g) FROM $table->{name}" } if defined $g && chance(0.3);
    return { sql => "SELECT tableoid::regclass, t.* FROM $table->{name} AS t" . (defined $g ? opt(' WHERE ' . condition($g)) : '') };
}

sub do_setting
{
    my ($self) = @_;
    my @settings = (
        ('max_batch_rows') x 4, 'max_batch_size', 'max_batch_size', 'enable',
        $self->{freeze} ? 'freeze_on_load' : (),
        $self->{set_pages}  ? ('page_writer') x 3 : (),
        $self->{set_insert} ? ('batch_insert') : ()
    );
    my $setting = pick(@settings);
    my $value =
        $setting eq 'max_batch_rows' ? pick(1, 2, 3, 5, 7, 50, 1000)
      : $setting eq 'max_batch_size' ? pick("'8kB'", "'9kB'", "'16kB'", "'64kB'", "'1MB'")
      : $setting =~ /enable|batch_insert/ ? pick('on', 'on', 'on', 'off')
      : pick('on', 'off');
    return { sql => (chance(0.1) && $self->{status} eq 'T' ? 'SET LOCAL' : 'SET') . " batchheap.$setting = $value" };
}

sub do_spied_setting
{
    my ($self) = @_;
    my $table = $self->writable or return;
    return { sql => "SET rnd.tab = '$table->{name}'" . (!$self->{ordered} && chance(0.4) ? '; SET rnd.fail = on' : '') };
}

sub do_parallel
{
    my ($self) = @_;
    # rows come in any order then
    return { sql => "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET max_parallel_workers_per_gather = " . pick(1, 2) }
      if !$self->{ordered} && chance(0.6);
    return { sql => 'SET ' . ($self->{version} >= 16 ? 'debug_parallel_query' : 'force_parallel_mode') . ' = ' . pick('on', 'off', 'off') };
}

# policies, and a role that is subject to them
sub do_policy
{
    my ($self) = @_;
    my $table = $self->plain or return;
    my $g = number_of($table) or return;
    return { sql => "CREATE POLICY po" . ++$self->{number} . " ON $table->{name} FOR ALL USING (true) WITH CHECK (" . pick("$g % 97 <> 5", "h.look($g)", 'true') . ")"
          . "; ALTER TABLE $table->{name} ENABLE ROW LEVEL SECURITY; GRANT ALL ON $table->{name} TO rnd_user; GRANT ALL ON SCHEMA s TO rnd_user" };
}

sub do_role
{
    my ($self) = @_;
    return if $self->{nested};
    $self->{role} = !$self->{role};
    return { sql => $self->{role} ? 'GRANT ALL ON ALL TABLES IN SCHEMA s TO rnd_user; GRANT ALL ON SCHEMA s TO rnd_user; SET ROLE rnd_user' : 'RESET ROLE' };
}

sub do_inherit
{
    my ($self) = @_;
    my $table = $self->plain or return;
    my $name = $self->new_name('t');
    $self->add($name, $table->{columns});
    return { sql => "CREATE TABLE $name () INHERITS ($table->{name})", ddl => 1 };
}

sub do_copy_to
{
    my ($self) = @_;
    return if $self->{nested};
    my $table = $self->plain or return;
    return { sql => "COPY $table->{name} TO STDOUT" };
}

# transactions
sub do_begin
{
    my ($self) = @_;
    return if $self->{nested} || $self->{status} ne 'I';
    $self->{savepoints} = [];
    return {
        sql => 'BEGIN' . weighted([ 8, '' ], [ 1, ' ISOLATION LEVEL REPEATABLE READ' ], [ 1, ' ISOLATION LEVEL SERIALIZABLE' ],
            [ 0.3, ' READ ONLY' ])
    };
}

sub do_savepoint
{
    my ($self) = @_;
    return if $self->{nested} || $self->{status} ne 'T';
    my $name = pick('s1', 's2', 's3');
    push @{ $self->{savepoints} }, $name;
    return { sql => "SAVEPOINT $name" };
}

sub do_release
{
    my ($self) = @_;
    return if $self->{nested} || $self->{status} ne 'T' || !@{ $self->{savepoints} };
    my $i = int_to(scalar @{ $self->{savepoints} });
    my $name = $self->{savepoints}[$i];
    # the innermost of that name is meant
    pop @{ $self->{savepoints} } while $self->{savepoints}[-1] ne $name;
    pop @{ $self->{savepoints} };
    return { sql => "RELEASE $name" };
}

sub do_rollback_to
{
    my ($self) = @_;
    return if $self->{nested} || $self->{status} eq 'I' || !@{ $self->{savepoints} };
    my $name = pick(@{ $self->{savepoints} });
    pop @{ $self->{savepoints} } while $self->{savepoints}[-1] ne $name;
    return { sql => "ROLLBACK TO $name", ddl => 1 };
}

sub do_end
{
    my ($self) = @_;
    return if $self->{nested} || $self->{status} eq 'I';
    $self->{savepoints} = [];
    @{ $self->{cursors} } = grep { $_->{hold} } @{ $self->{cursors} };
    if ($self->{status} eq 'T' && chance(0.08) && !$self->{twophase})
    {
        $self->{twophase} = 1;
        return { sql => q{PREPARE TRANSACTION '@SIDE@'}, ddl => 1 };
    }
    return { sql => pick('COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK', 'COMMIT AND CHAIN'), ddl => 1 } if $self->{status} eq 'T';
    return { sql => pick('ROLLBACK', 'ROLLBACK', 'COMMIT'), ddl => 1 };
}

# cursors
sub do_declare
{
    my ($self) = @_;
    return if $self->{nested};
    my $table = $self->readable or return;
    my $hold = chance(0.25);
    return if !$hold && $self->{status} ne 'T';
    my $name = $self->new_name('c');
    my $order = $self->{ordered} && chance(0.8) ? '' : " ORDER BY t::text" . ' COLLATE "C"';
    my $scroll = $self->{ordered} ? pick('', ' SCROLL') : pick('', ' SCROLL', ' NO SCROLL');
    push @{ $self->{cursors} }, { name => $name, hold => $hold, scroll => $scroll eq ' SCROLL' };
    return { sql => "DECLARE $name$scroll CURSOR" . ($hold ? ' WITH HOLD' : '') . " FOR SELECT t.* FROM $table->{name} AS t$order" };
}

sub do_fetch
{
    my ($self) = @_;
    return if $self->{nested} || !@{ $self->{cursors} };
    my $cursor = pick(@{ $self->{cursors} });
    if (chance(0.15))
    {
        @{ $self->{cursors} } = grep { $_ != $cursor } @{ $self->{cursors} };
        return { sql => "CLOSE $cursor->{name}" };
    }
    my $what = pick('3', '20', 'ALL', 'NEXT');
    $what = 'BACKWARD 5' if $cursor->{scroll} && chance(0.3);
    return { sql => pick('FETCH', 'FETCH', 'MOVE') . " $what FROM $cursor->{name}" };
}

# prepared statements
sub do_prepare
{
    my ($self) = @_;
    return if $self->{nested};
    my $name = $self->new_name('q');
    my ($sql, $query) = ('', 0);
    if (chance(0.6))
    {
        my $insert = $self->do_insert or return;
        $sql = $insert->{sql};
        return if $sql =~ /^EXPLAIN/;
    }
    else
    {
        ($sql) = $self->query;
        $query = 1;
    }
    push @{ $self->{prepared} }, { name => $name, query => $query };
    return { sql => "PREPARE $name AS $sql" };
}

sub do_execute
{
    my ($self) = @_;
    return if $self->{nested} || !@{ $self->{prepared} };
    my $prepared = pick(@{ $self->{prepared} });
    if ($prepared->{query} && chance(0.8))
    {
        my $name = $self->new_name('t');
        return { sql => "CREATE TABLE $name AS EXECUTE $prepared->{name}", ddl => 1 };
    }
    return { sql => "EXECUTE $prepared->{name}" };
}

# statements that stand within another one
my @NESTED = (
    [ 10, 'create_as' ], [ 3, 'create' ], [ 8, 'insert' ], [ 3, 'insert_all' ], [ 3, 'copy_file' ], [ 3, 'truncate' ], [ 2, 'refill' ],
    [ 3, 'alter' ], [ 2, 'matview' ], [ 2, 'refresh' ], [ 2, 'index' ], [ 3, 'update' ], [ 1, 'drop' ], [ 1, 'switch' ], [ 1, 'analyze' ],
    [ 1, 'setting' ], [ 0.5, 'trigger' ]
);

sub nested
{
    my ($self) = @_;
    local $self->{nested} = 1;
    for (1 .. 20)
    {
        my $statement = $self->make(weighted(@NESTED));
        return $statement->{sql} if $statement;
    }
    return 'SELECT 1';
}

sub block
{
    my ($self, $depth, $commits) = @_;
    my @items;
    for (1 .. between(1, 3))
    {
        my $kind = weighted([ 6, 'do' ], $depth < 3 ? [ 3, 'try' ] : (), $depth < 2 ? [ 1, 'for' ] : (), $depth > 0 ? [ 1, 'raise' ] : (), $commits ? [ 2, 'end' ] : ());
        if    ($kind eq 'do')    { push @items, opt('EXECUTE $e$' . $self->nested . '$e$; ') }
        elsif ($kind eq 'for')
        {
            # a loop has a portal open
            my $table = $self->readable or next;
            my $order = $self->{ordered} && chance(0.5) ? '' : ' ORDER BY t::text' . ' COLLATE "C"';
            push @items, "FOR r IN SELECT t.* FROM $table->{name} AS t$order LIMIT 2 LOOP " . $self->block($depth + 1, $commits) . 'END LOOP; ';
        }
        elsif ($kind eq 'raise') { push @items, "RAISE EXCEPTION 'raised'; " }
        elsif ($kind eq 'end')   { push @items, pick('COMMIT', 'COMMIT', 'ROLLBACK') . '; ' }
        else
        {
            push @items, 'BEGIN ' . $self->block($depth + 1, 0) . "EXCEPTION WHEN OTHERS THEN RAISE NOTICE '%', SQLERRM; END; ";
        }
    }
    return join '', @items;
}

sub do_block
{
    my ($self) = @_;
    return if $self->{nested};
    return { sql => 'DO $do$ DECLARE r record; BEGIN ' . $self->block(0, $self->{status} eq 'I' && chance(0.4)) . 'END $do$', ddl => 1 };
}

# a function in SQL, which is one statement after the other in one query
sub do_sql_function
{
    my ($self) = @_;
    return if $self->{nested};
    my $name = $self->new_name('f');
    my $table = $self->readable or return;
    local $self->{nested} = 1;
    my @statements = map { $_->{sql} } grep { $_ && $_->{sql} !~ /^EXPLAIN/ }
      map { $self->make(pick(qw(insert insert insert_all update truncate refill copy_file))) } 1 .. 3;
    return if !@statements;
    my $body = join '; ', @statements, "SELECT count(*) FROM $table->{name}";
    return {
        sql => "CREATE FUNCTION $name() RETURNS bigint LANGUAGE sql VOLATILE AS \$f\$ $body \$f\$; "
          . pick("SELECT $name()", "SELECT $name() FROM generate_series(1, 2)", "CREATE TABLE t$name AS SELECT g AS a, $name() AS b FROM generate_series(1, 2) AS g"),
        ddl => 1
    };
}

# several in one message: one transaction, if there is none
sub do_several
{
    my ($self) = @_;
    return if $self->{nested};
    return { sql => join('; ', map { opt($self->nested) } 1 .. between(2, 4)), ddl => 1 };
}

# the second session reads, and does what needs no lock that the first one holds
sub do_other
{
    my ($self) = @_;
    return if $self->{nested};
    if ($self->{other} eq 'T')
    {
        if (chance(0.3))
        {
            $self->{other} = 'I';
            return { session => 2, sql => 'COMMIT' };
        }
    }
    elsif (!$self->{freeze} && chance(0.1))
    {
        $self->{other} = 'T';
        return { session => 2, sql => 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1' };
    }
    my $table = $self->some_table(sub { !$_[0]{temp} && $_[0]{size} < 1_500_000 }) or return;
    my $name = $table->{name};
    return {
        session => 2,
        sql     => weighted(
            [ 10, "SELECT count(*), sum(hashtext(t::text)) FROM $name AS t" ],
            [ 3,  "SELECT t.* FROM $name AS t" ],
            [ 2,  "GRANT SELECT ON $name TO PUBLIC" ],
            [ 2,  "ANALYZE $name" ],
            [ 1,  "INSERT INTO $name (a) SELECT -g FROM generate_series(1, 30) AS g" ],
            !$self->{ordered} ? ([ 2, "DELETE FROM $name WHERE a % 20 = 0" ], $self->{other} eq 'I' ? [ 2, "VACUUM $name" ] : ()) : ())
    };
}

my @KINDS = (
    @NESTED,
    [ 10, 'create_as' ], [ 6, 'copy' ], [ 2, 'partitioned' ], [ 0.15, 'many_leaves' ], [ 1, 'view' ],
    [ 1, 'foreign_key' ], [ 2, 'trigger' ], [ 2, 'storage' ], [ 3, 'vacuum' ], [ 1, 'cluster' ], [ 1, 'reindex' ],
    [ 6, 'select' ], [ 0.5, 'copy_to' ], [ 0.3, 'checkpoint' ], [ 0.5, 'inherit' ], [ 0.8, 'policy' ],
    [ 0.8, 'role' ], [ 5, 'setting' ], [ 1, 'spied_setting' ], [ 0.6, 'parallel' ], [ 14, 'begin' ],
    [ 9, 'savepoint' ], [ 3, 'release' ], [ 4, 'rollback_to' ], [ 5, 'end' ], [ 3, 'declare' ], [ 5, 'fetch' ],
    [ 2, 'prepare' ], [ 4, 'execute' ], [ 6, 'block' ], [ 4, 'several' ], [ 2, 'sql_function' ], [ 6, 'other' ]
);

sub make
{
    my ($self, $kind) = @_;
    my $method = $self->can("do_$kind") or die "random: no statement $kind\n";
    my $statement = $method->($self);
    $statement->{kind} = $kind if $statement;
    return $statement;
}

sub next_statement
{
    my ($self) = @_;
    if ($self->{twophase} && $self->{status} eq 'I' && chance(0.5))
    {
        $self->{twophase} = 0;
        return { kind => 'end', sql => pick('COMMIT', 'COMMIT', 'ROLLBACK') . q{ PREPARED '@SIDE@'}, ddl => 1 };
    }
    if ($self->{status} eq 'E' && chance(0.9))
    {
        return $self->make('rollback_to') // $self->make('end');
    }
    for (1 .. 50)
    {
        my $statement = $self->make(weighted(@KINDS)) or next;
        if (chance(0.08) && !$statement->{copy} && !$statement->{session} && $statement->{sql} !~ /;|STDOUT/)
        {
            $statement->{extended} = pick(0, 0, 5);
        }
        return $statement;
    }
    return { kind => 'select', sql => 'SELECT 1' };
}

1;
