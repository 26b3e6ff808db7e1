# soak.pl - two long tests that ./dev soak starts: many sessions at a time, and sqlsmith
#
#   --dir DIR --port N --user NAME   the server
#   --files DIR       a directory for temporary files
#   --minutes N       how long
#   --seed N
#   mix               sessions that load, change, switch, index and read the same
#                     tables, and one that does nothing but check what must always hold
#   smith             sqlsmith's queries, each one stored by CREATE TABLE AS on heap and
#                     on batchheap
#
# Prints figures, and last "N passed, N failed, N skipped".
use strict;
use warnings;

use FindBin ();
use Getopt::Long qw(GetOptions);
use IO::Handle;
use POSIX ();
use Storable ();
use Time::HiRes qw(sleep time);

use lib $FindBin::Bin;
use RandomWire;

my %opt = (user => 'postgres', minutes => 10, seed => 1, clients => 8);
GetOptions(\%opt, 'dir=s', 'port=i', 'user=s', 'files=s', 'minutes=f', 'seed=i', 'clients=i') or exit 2;
my $part = shift @ARGV // '';

STDOUT->autoflush;
STDERR->autoflush;

my $end = time + $opt{minutes} * 60;
my %tally;

sub open_session
{
    my ($database, $user) = @_;
    for (1 .. 600)
    {
        my $session = RandomWire->connect(dir => $opt{dir}, port => $opt{port}, user => $user // $opt{user}, database => $database);
        return $session if $session;
        sleep 0.1;
    }
    die "soak: cannot connect to the server\n";
}

sub error_of { my ($error) = grep { $_->[0] eq 'error' } @{ $_[0]{parts} }; return $error ? $error->[1] : undef }
sub between { return $_[0] + int rand($_[1] - $_[0] + 1) }
sub pick { return $_[ int rand @_ ] }

#
# Many sessions
#
# There are tables w1, w2 ... that always hold ROWS rows with the ids 1 to ROWS, all
# of one version, and whose values have the sum TOTAL: so does each load's source, and
# each change keeps it.  hist gets batches of 100 rows.  m is a view of src.
#

use constant { TABLES => 4, ROWS => 2000, TOTAL => 2_001_000, BATCH => 100 };

my $SETUP = sprintf q{
SET client_min_messages = warning;
CREATE EXTENSION batchheap;
CREATE EXTENSION pg_visibility;
CREATE EXTENSION amcheck;
SET default_table_access_method = batchheap;
CREATE TABLE src AS SELECT g AS id, g AS v, repeat('t', g %% 100) AS t FROM generate_series(1, %d) AS g;
CREATE SEQUENCE ver;
CREATE FUNCTION drop_indexes(w regclass, but regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    i regclass;
BEGIN
    FOR i IN SELECT indexrelid FROM pg_index WHERE indrelid = w AND indexrelid <> but LOOP
        EXECUTE 'DROP INDEX ' || i;
    END LOOP;
END $$;
CREATE TABLE hist (batch bigint, n int, t text);
CREATE TABLE parts (batch bigint, n int, t text) PARTITION BY HASH (n);
CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 0);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 2) USING heap;
CREATE MATERIALIZED VIEW m AS SELECT id, v, t, 0::bigint AS ver FROM src;
CREATE UNIQUE INDEX ON m (id);
DO $$ BEGIN FOR i IN 1 .. %d LOOP
    EXECUTE format('CREATE TABLE w%%s AS SELECT id, v, t, 0::bigint AS ver FROM src', i);
    EXECUTE format('CREATE INDEX w%%s_id ON w%%s (id)', i, i);
END LOOP; END $$;
}, ROWS, TABLES;

# what a session does: [weight, name, statements]
sub actions
{
    my $w = 'w' . between(1, TABLES);
    my $ver = "(SELECT last_value FROM ver)";
    my $select = "SELECT id, v, t, $ver AS ver FROM src";
    my $end = pick('COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK');
    my ($x, $y) = (between(1, ROWS), between(1, ROWS));
    my $append = "SELECT lastval(), g, repeat('h', g) FROM generate_series(1, " . BATCH . ') AS g';
    my $setting = 'SET batchheap.'
      . pick(
        'page_writer = on',
        'page_writer = off',
        'max_batch_rows = 7',
        'max_batch_rows = 1000',
        'freeze_on_load = on',
        'freeze_on_load = off'
      );
    $y = $x % ROWS + 1 if $x == $y;
    return (
        [ 4, 'refill', "BEGIN", "TRUNCATE $w", "SELECT nextval('ver')", "INSERT INTO $w $select", $end ],
        [
            3, 'refill in a savepoint', "BEGIN", "SELECT nextval('ver')", "SAVEPOINT a", "TRUNCATE $w", "INSERT INTO $w $select",
            pick('ROLLBACK TO a', 'RELEASE a'), $end
        ],
        [
            4, 'recreate', 'BEGIN', "LOCK TABLE $w", "SELECT nextval('ver')", "DROP TABLE $w",
            "CREATE TABLE $w USING batchheap AS $select", "CREATE INDEX ${w}_id ON $w (id)", "GRANT SELECT ON $w TO PUBLIC", $end
        ],
        [ 3, 'alter', 'BEGIN', "ALTER TABLE $w ALTER v TYPE int USING v + 0, ALTER ver TYPE bigint USING ver + 0", $end ],
        [ 2, 'unlogged', 'BEGIN', "ALTER TABLE $w SET " . pick('LOGGED', 'UNLOGGED'), $end ],
        [ 1, 'access method', "ALTER TABLE $w SET ACCESS METHOD " . pick('heap', 'batchheap') ],
        [ 3, 'switch', "SELECT batchheap_" . pick('to', 'from') . "_heap('$w')" ],
        [ 2, 'refresh', 'REFRESH MATERIALIZED VIEW m' ],
        [ 1, 'refresh concurrently', 'REFRESH MATERIALIZED VIEW CONCURRENTLY m' ],
        [ 4, 'vacuum', pick('VACUUM', 'VACUUM FREEZE', 'VACUUM FULL', 'VACUUM ANALYZE') . " $w" ],
        [ 2, 'index', "CREATE INDEX CONCURRENTLY ON $w (v)" ],
        [ 2, 'reindex', pick("REINDEX TABLE $w", "REINDEX INDEX CONCURRENTLY ${w}_id", "CLUSTER $w USING ${w}_id") ],
        [ 1, 'drop indexes', "SELECT drop_indexes('$w', '${w}_id')" ],
        [ 5, 'grant', "GRANT SELECT ON $w TO PUBLIC" ],
        [ 8, 'update', "UPDATE $w SET v = v + CASE id WHEN $x THEN 5 ELSE -5 END WHERE id IN ($x, $y)" ],
        [ 3, 'update and roll back', 'BEGIN', "UPDATE $w SET v = v + 1 WHERE id < $x", "DELETE FROM $w WHERE id > $y", 'ROLLBACK' ],
        [ 8, 'append', 'BEGIN', "SELECT nextval('ver')", "INSERT INTO hist $append", $end ],
        [
            4, 'append in a savepoint', 'BEGIN', "SELECT nextval('ver')", 'SAVEPOINT a', "INSERT INTO hist $append",
            pick('ROLLBACK TO a', 'RELEASE a'), $end
        ],
        [ 4, 'append to partitions', 'BEGIN', "SELECT nextval('ver')", "INSERT INTO parts $append", $end ],
        [ 1, 'trim', 'DELETE FROM ' . pick('hist', 'parts') . ' WHERE batch < (SELECT last_value - 2000 FROM ver)' ],
        [ 1, 'temporary', "CREATE TEMP TABLE tmp ON COMMIT DROP AS $select" ],
        [ 2, 'prepared statement', 'BEGIN', "SELECT nextval('ver')", "TRUNCATE $w", "EXECUTE fill_$w", $end ],
        [ 2, 'setting', $setting ],
        # reads: a second look must be as the first
        [ 8, 'read twice', 'BEGIN ISOLATION LEVEL REPEATABLE READ', "READ $w", 'SELECT pg_sleep(' . rand(0.3) . ')', "READ $w", 'COMMIT' ],
        # the snapshot is older than what is read: all, or nothing
        [ 4, 'read late', 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT 1', 'SELECT pg_sleep(' . rand(0.5) . ')', "LATE $w", 'COMMIT' ],
        [ 3, 'read by index', 'BEGIN', 'SET LOCAL enable_seqscan = off', "BYINDEX $w", 'COMMIT' ]
    );
}

# what may go wrong between sessions, on heap too
my %ALLOWED = map { $_ => 1 } qw(40P01 40001 55P03 42P01 25P02 57014 42P07 55006 42704 0A000 26000);
my $MESSAGES = join '|', 'could not open relation', 'tuple concurrently', 'cache lookup failed', 'could not find', 'not found',
  'is not a table', 'does not have an index', 'syntax error at or near "\d+"';

my $READ = "SELECT count(*), count(DISTINCT id), sum(v), count(DISTINCT ver) FROM %s";
my $WHOLE = join ' ', ROWS, ROWS, TOTAL, 1;

sub complain
{
    my ($text) = @_;
    $tally{failed}++;
    print "soak: $text\n" if $tally{failed} <= 20;
    return;
}

# one statement of an action; returns false if the action is over
sub perform
{
    my ($session, $what, $sql, $seen) = @_;
    my ($kind, $w) = $sql =~ /^(READ|LATE|BYINDEX) (\w+)$/;
    my $query = $sql;
    $query = sprintf $READ, $kind eq 'BYINDEX' ? "(SELECT * FROM $w WHERE id > 0 ORDER BY id) AS x" : $w if $kind;
    my $answer = $session->ask($query);
    die "lost: $answer->{lost}\n" if $answer->{lost};
    if (my $error = error_of($answer))
    {
        $tally{errors}{ $error->{C} }++;
        complain("$what: $sql: $error->{C} $error->{M}") if !$ALLOWED{ $error->{C} } && $error->{M} !~ /$MESSAGES/;
        return 0;
    }
    for my $notice (grep { $_->[0] eq 'notice' && $_->[1]{S} eq 'WARNING' } @{ $answer->{parts} })
    {
        complain("$what: $sql: $notice->[1]{M}") if $notice->[1]{M} !~ /no transaction|already a transaction|skipping/;
    }
    return 1 if !$kind;

    my ($row) = map { join ' ', map { $_ // 0 } @{ $_->[1] } } grep { $_->[0] eq 'row' } @{ $answer->{parts} };
    my $empty = '0 0 0 0';
    if ($row ne $WHOLE && !($kind ne 'BYINDEX' && $row eq $empty))
    {
        complain("$what: $w has (rows, ids, sum, versions) $row and not $WHOLE");
    }
    complain("$what: first $seen->{$w}, then $row") if $kind eq 'READ' && defined $seen->{$w} && $seen->{$w} ne $row;
    $seen->{$w} = $row;
    $tally{looks}++;
    return 1;
}

sub client
{
    my ($number) = @_;
    srand $opt{seed} * 1000 + $number;
    my $session;
    while (time < $end)
    {
        if (!$session || rand() < 0.005)
        {
            $session->close if $session;
            $session = open_session('mix');
            $session->rows('SET lock_timeout = 1500; SET statement_timeout = 20000; SET default_table_access_method = batchheap; SET client_min_messages = warning');
            for my $w (map { "w$_" } 1 .. TABLES)
            {
                # others may have the table locked, or be about to replace it
                1 while time < $end
                  && error_of($session->ask("PREPARE fill_$w AS INSERT INTO $w SELECT id, v, t, (SELECT last_value FROM ver) FROM src"));
            }
        }
        my @actions = actions();
        my $sum = 0;
        $sum += $_->[0] for @actions;
        my $at = rand $sum;
        my ($action) = grep { ($at -= $_->[0]) < 0 } @actions;
        my ($weight, $what, @statements) = @$action;
        my %seen;
        my $good = 1;
        eval {
            for my $sql (@statements)
            {
                $good = perform($session, $what, $sql, \%seen) or last;
            }
            perform($session, $what, 'ROLLBACK', \%seen) if $session->status ne 'I';
            1;
        } or do
        {
            complain("$what: $@");
            undef $session;
        };
        $tally{done}{$what}[ $good ? 0 : 1 ]++;
    }
    return;
}

# the independent reader
sub reader
{
    my $session = open_session('mix');
    $session->rows('SET lock_timeout = 5000; SET statement_timeout = 60000');
    my %false;
    while (time < $end)
    {
        for my $w (map { "w$_" } 1 .. TABLES)
        {
            # a statement of its own reads a table that is never half filled
            perform($session, 'reader', "READ $w", {});
            perform($session, 'reader', "BYINDEX $w", {});
        }
        for my $hist ('hist', 'parts')
        {
            my $answer = $session->ask("SELECT batch, count(*), count(DISTINCT n) FROM $hist GROUP BY batch HAVING count(*) <> " . BATCH . " OR count(DISTINCT n) <> " . BATCH . " LIMIT 3");
            complain("reader: $hist: batch $_->[1][0] has $_->[1][1] rows, $_->[1][2] different") for grep { $_->[0] eq 'row' } @{ $answer->{parts} };
            $tally{looks}++;
        }
        # rows of all-visible pages; pg_visibility may err for a moment before
        # PostgreSQL 17, so they must be there for long
        my $answer = $session->ask(q{SELECT c.oid::regclass, (SELECT count(*) FROM pg_check_visible(c.oid)), (SELECT count(*) FROM pg_check_frozen(c.oid))
            FROM pg_class c WHERE relkind IN ('r', 'm') AND relnamespace = 'public'::regnamespace});
        my %now;
        for my $row (map { $_->[1] } grep { $_->[0] eq 'row' } @{ $answer->{parts} })
        {
            next if !$row->[1] && !$row->[2];
            $now{ $row->[0] } = 1;
            complain("reader: $row->[0]: $row->[1] rows on all-visible pages are not visible, $row->[2] not frozen") if ++$false{ $row->[0] } == 20;
        }
        delete $false{$_} for grep { !$now{$_} } keys %false;
        $tally{looks}++;
        sleep 0.2;
    }
    return;
}

# when all is quiet
sub last_checks
{
    my $session = open_session('mix');
    for my $row ($session->rows(q{SELECT c.oid::regclass FROM pg_class c WHERE relkind IN ('r', 'm') AND relnamespace = 'public'::regnamespace}))
    {
        my $w = $row->[0];
        my ($bad) = map { $_->[0] } $session->rows("SELECT (SELECT count(*) FROM pg_check_visible('$w')) + (SELECT count(*) FROM pg_check_frozen('$w'))");
        complain("at the end: $w: $bad rows on all-visible pages are not") if $bad;
        for my $index ($session->rows("SELECT indexrelid::regclass FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE indrelid = '$w'::regclass AND indisvalid AND relam = 403"))
        {
            my $error = error_of($session->ask("SELECT bt_index_check('$index->[0]', true)"));
            complain("at the end: $index->[0]: $error->{M}") if $error;
        }
        $session->ask("SELECT batchheap_to_heap('$w')");
        complain("at the end: $w: $_->[0]") for $session->rows("SELECT msg FROM verify_heapam('$w') LIMIT 3");
        $tally{looks} += 3;
    }
    return;
}

sub mix
{
    my $admin = open_session('postgres');
    $admin->rows('DROP DATABASE IF EXISTS mix WITH (FORCE)');
    $admin->rows('CREATE DATABASE mix');
    my $session = open_session('mix');
    $session->rows($SETUP);
    $session->close;
    my @children;
    for my $i (0 .. $opt{clients})
    {
        my $pid = fork // die "soak: fork: $!\n";
        if (!$pid)
        {
            if (!eval { $i ? client($i) : reader(); 1 })
            {
                complain($i ? "client: $@" : "reader: $@");
            }
            Storable::store(\%tally, "$opt{files}/mix.$i");
            POSIX::_exit(0);
        }
        push @children, $pid;
    }
    waitpid $_, 0 for @children;
    last_checks();
    my %sum = %tally;
    for my $i (0 .. $opt{clients})
    {
        my $r = Storable::retrieve("$opt{files}/mix.$i");
        $sum{$_} = ($sum{$_} // 0) + ($r->{$_} // 0) for qw(looks failed);
        $sum{errors}{$_} += $r->{errors}{$_} for keys %{ $r->{errors} };
        for my $what (keys %{ $r->{done} })
        {
            $sum{done}{$what}[$_] += $r->{done}{$what}[$_] // 0 for 0, 1;
        }
    }
    printf "mix: %d clients and a reader, %.0f minutes: %s\n", $opt{clients}, $opt{minutes},
      join(', ', map { "$_ $sum{done}{$_}[0]" . ($sum{done}{$_}[1] ? " (+$sum{done}{$_}[1] given up)" : '') } sort keys %{ $sum{done} });
    print 'mix: errors that sessions may cause each other: ', join(', ', map { "$_ $sum{errors}{$_}" } sort keys %{ $sum{errors} }), "\n";
    printf "%d passed, %d failed, 0 skipped\n", $sum{looks} // 0, $sum{failed} // 0;
    return $sum{failed} || !$sum{looks};
}

#
# sqlsmith
#

# the tables that it works with
my $SMITH = q{
SET client_min_messages = warning;
CREATE EXTENSION batchheap;
CREATE SCHEMA hidden;
ALTER VIEW pg_stat_progress_batchheap SET SCHEMA hidden;
DO $$ BEGIN CREATE ROLE smith LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
GRANT ALL ON SCHEMA public TO smith;
ALTER ROLE smith SET statement_timeout = 3000;
ALTER ROLE smith SET lock_timeout = 500;
ALTER ROLE smith SET default_table_access_method = batchheap;
ALTER ROLE smith SET client_min_messages = error;
SET ROLE smith;
SET default_table_access_method = batchheap;
CREATE TABLE numbers AS SELECT g AS i, g::bigint * 1000 AS b, g::smallint AS s, g::numeric / 3 AS n, g::float8 / 7 AS f, g % 2 = 0 AS o
    FROM generate_series(1, 60) AS g;
CREATE TABLE texts AS SELECT g AS i, md5(g::text) AS t, ('v' || g)::varchar(20) AS v, g::text::bytea AS y, repeat('long', g * 100) AS l
    FROM generate_series(1, 40) AS g;
ALTER TABLE texts ADD PRIMARY KEY (i);
CREATE TABLE times AS SELECT g AS i, '2020-01-01'::date + g AS d, '2020-01-01'::timestamp + g * interval '1 hour' AS ts, make_interval(mins => g) AS iv
    FROM generate_series(1, 40) AS g;
CREATE TABLE arrays AS SELECT ARRAY[g, g + 1] AS a, ARRAY[g::text] AS t, jsonb_build_object('k', g) AS j, int4range(g, g + 3) AS r, point(g, g) AS p
    FROM generate_series(1, 30) AS g;
CREATE TABLE parted (i int, t text) PARTITION BY RANGE (i);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (MINVALUE) TO (20);
CREATE TABLE parted_2 PARTITION OF parted DEFAULT;
INSERT INTO parted SELECT g, 'p' || g FROM generate_series(1, 50) AS g;
CREATE MATERIALIZED VIEW mv AS SELECT i % 5 AS k, count(*) AS c, sum(n) AS n FROM numbers GROUP BY 1;
CREATE VIEW vw AS SELECT n.i, t.t, n.o FROM numbers n JOIN texts t USING (i);
CREATE TABLE empty (i int PRIMARY KEY, t text DEFAULT 'e', CHECK (i > 0));
CREATE INDEX ON numbers (b);
};

# What of a table does not depend on the order of its rows
my $BAG = "SELECT count(*), coalesce(sum(hashtextextended(x::text, 0)), 0) FROM %s AS x";

sub smith
{
    my $admin = open_session('postgres');
    $admin->rows('DROP DATABASE IF EXISTS smith WITH (FORCE)');
    $admin->rows('CREATE DATABASE smith');
    my $setup = open_session('smith');
    $setup->rows($SMITH);
    my $session = open_session('smith', 'smith');
    my ($queries, $stored, $compared, $others, $failed) = (0) x 5;
    my $seed = $opt{seed};

    while (time < $end)
    {
        # it takes a while to read the catalog, so let it make many
        $seed++;
        open my $in, '-|', 'sqlsmith', "--target=host=$opt{dir} port=$opt{port} user=smith dbname=smith", '--exclude-catalog', '--dry-run',
          '--max-queries=5000', "--seed=$seed"
          or die "soak: sqlsmith: $!\n";
        local $/ = ";\n";
        my $got = 0;
        while (my $sql = <$in>)
        {
            last if time >= $end;
            $sql =~ s/;\s*\z//;
            $sql =~ s/\A\s+//;
            $sql =~ s/(tablesample \w+ \([0-9.]+\))/$1 repeatable (7)/g;
            # not its own locks, not what ends sessions, and not what tells of the statement
            next if $sql =~ /pg_terminate_backend|pg_cancel_backend|pg_sleep|pg_advisory|currval|setval|lo_|current_query|pg_current_wal/;
            $got++;
            $queries++;
            my @bags;
            my $lost;
            my $is_select = $sql =~ /^(?:select|with)\b/i && $sql !~ /\bfor (?:update|share|no key update|key share)\b/i;
            for my $am ($is_select ? ('heap', 'batchheap', 'heap') : ('batchheap'))
            {
                last if @bags == 2 && (!defined $bags[0] || !defined $bags[1] || $bags[0] eq $bags[1]);
                $session->ask('BEGIN');
                my $answer = $session->ask($is_select ? "CREATE TABLE made USING $am AS $sql" : $sql);
                if ($answer->{lost}) { $lost = 1; last }
                if (error_of($answer)) { push @bags, 'error ' . error_of($answer)->{C} }
                elsif ($is_select)
                {
                    $stored++ if $am eq 'batchheap';
                    my $bag = $session->ask(sprintf $BAG, 'made');
                    if ($bag->{lost}) { $lost = 1; last }
                    push @bags, join ' ', map { @{ $_->[1] } } grep { $_->[0] eq 'row' } @{ $bag->{parts} };
                }
                else { $others++ }
                $session->ask('ROLLBACK');
            }
            if ($lost)
            {
                $failed++;
                print "soak: the session was lost by:\n$sql;\n";
                $session = open_session('smith', 'smith');
                next;
            }
            next if !$is_select || @bags < 2;
            $compared++;
            # twice the same on heap, and not on batchheap; a query that takes too long may do so now and then
            if (@bags == 3 && $bags[0] ne $bags[1] && $bags[0] eq $bags[2] && "@bags" !~ /57014|55P03/)
            {
                $failed++;
                print "soak: heap gives $bags[0], batchheap $bags[1]:\n$sql;\n";
            }
        }
        close $in;
        last if !$got && $queries == 0;
    }
    print "smith: $queries queries of sqlsmith; $stored stored by CREATE TABLE AS without an error, $compared compared with heap, $others others\n";
    printf "%d passed, %d failed, 0 skipped\n", $compared, $failed;
    return $failed || !$compared;
}

my $bad = $part eq 'mix' ? mix() : $part eq 'smith' ? smith() : die "soak: mix or smith?\n";
exit($bad ? 1 : 0);
