# random.pl - random statements on heap and on batchheap; ./dev random starts it
#
#   --dir DIR --port N --user NAME   the server
#   --files DIR       a directory that the server can read and write
#   --seed N, --sequences N, --minutes N, --jobs N, --pages on|off|both, --insert on|off|both
#   --set 'NAME = VALUE'   in all sequences
#   --decode          also compare what logical decoding makes of it (test_decoding)
#   --keep            also keep a cursor on a table that is being filled
#   --only I          only sequence I, and print all of it
#   --crashes X       part of the sequences after which the server is killed (0.03)
#   --save DIR        put scripts of differences there
#   --max-failures N  stop then
#   --shrink-time N   seconds to spend on a difference
use strict;
use warnings;

use Cwd ();
use Fcntl qw(:flock);
use FindBin ();
use Getopt::Long qw(GetOptions);
use IO::Handle;
use POSIX ();
use Storable ();
use Time::HiRes qw(sleep time);

use lib $FindBin::Bin;
use RandomStatements;
use RandomWire;

my %opt = (seed => 1, sequences => 150, jobs => 2, pages => 'both', insert => 'both', freeze => 'both', crashes => 0.03, user => 'postgres', 'max-failures' => 3, 'shrink-time' => 240);
GetOptions(\%opt, 'dir=s', 'port=i', 'user=s', 'files=s', 'seed=i', 'sequences=i', 'minutes=f', 'jobs=i', 'pages=s', 'insert=s', 'freeze=s',
    'only=i', 'save=s', 'crashes=f', 'set=s@', 'keep', 'decode', 'max-failures=i', 'shrink-time=i', 'verbose')
  or exit 2;

STDOUT->autoflush;
STDERR->autoflush;

my $worker = 0;                # which of the parallel ones this is
my %session;                   # heap, batchheap, and the second ones
my $version;
my $started = time;
my %tally;                     # of kinds of statements, of counters
my $lock;
my $crashes = 0;               # of the server that are known to this worker

my @SIDES = qw(heap batchheap);

#
# The server
#

sub open_session
{
    my ($name) = @_;
    my ($side) = $name =~ /^(\w+?)2?$/;
    return RandomWire->connect(dir => $opt{dir}, port => $opt{port}, user => $opt{user}, database => $side . '_' . $worker);
}

sub open_sessions
{
    for my $name (map { $_, $_ . '2' } @SIDES)
    {
        $session{$name}->close if $session{$name};
        delete $session{$name};
        # it may be recovering
        for (1 .. 600)
        {
            last if $session{$name} = open_session($name);
            sleep 0.1;
        }
        die "random: cannot connect to the server\n" if !$session{$name};
    }
    return;
}

# run the statements of a file
sub source
{
    my ($session, $file) = @_;
    open my $in, '<', "$FindBin::Bin/$file" or die "random: $file: $!\n";
    local $/;
    $session->rows(scalar <$in>);
    close $in or die "random: $file: $!\n";
    return;
}

sub make_databases
{
    my $session = RandomWire->connect(dir => $opt{dir}, port => $opt{port}, user => $opt{user}, database => 'postgres')
      or die "random: cannot connect to the server\n";
    ($version) = map { int($_->[0] / 10000) } $session->rows('SHOW server_version_num');
    # what an earlier run has left
    for my $row ($session->rows('SELECT database, gid FROM pg_prepared_xacts'))
    {
        my $old = RandomWire->connect(dir => $opt{dir}, port => $opt{port}, user => $opt{user}, database => $row->[0]);
        $old->rows("ROLLBACK PREPARED '$row->[1]'");
        $old->close;
    }
    $session->rows("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active");
    for my $i (0 .. $opt{jobs} - 1)
    {
        for my $side (@SIDES)
        {
            my $name = "${side}_$i";
            $session->rows("DROP DATABASE IF EXISTS $name WITH (FORCE)");
            if ($i > 0)
            {
                $session->rows("CREATE DATABASE $name TEMPLATE ${side}_0");
            }
            else
            {
                $session->rows("CREATE DATABASE $name");
                my $new = RandomWire->connect(dir => $opt{dir}, port => $opt{port}, user => $opt{user}, database => $name);
                # heap goes by the name of batchheap on its side, so that the same
                # statements do the same: SET ACCESS METHOD rewrites here too
                $new->rows(
                    $side eq 'heap'
                    ? 'CREATE ACCESS METHOD batchheap TYPE TABLE HANDLER heap_tableam_handler'
                    : 'CREATE EXTENSION batchheap');
                $new->rows('SET default_table_access_method = batchheap');
                source($new, 'random.sql');
                source($new, "random-$side.sql");
                $new->rows('CREATE SCHEMA s');
                $new->close;
            }
            $session->rows("ALTER DATABASE $name SET $_")
              for 'default_table_access_method = batchheap', 'search_path = s, public', 'enable_indexonlyscan = off',
              'statement_timeout = 60000', 'lock_timeout = 200', 'jit = off', 'extra_float_digits = 0',
              'min_parallel_table_scan_size = 0', "intervalstyle = 'postgres'";
        }
    }
    $session->close;
    return;
}

sub make_files
{
    my %lines = (
        good => join('', map { "$_\n" } 1001 .. 1030),
        bad  => join('', map { ($_ == 1025 ? 'x' : $_) . "\n" } 1001 .. 1030),
        big  => join('', map { "$_\n" } 2001 .. 3200)
    );
    for my $name (sort keys %lines)
    {
        open my $out, '>', "$opt{files}/$name" or die "random: $opt{files}/$name: $!\n";
        print {$out} $lines{$name};
        close $out or die "random: $opt{files}/$name: $!\n";
    }
    return;
}

#
# Answers
#

sub text_of_row { return join "\t", map { defined $_ ? $_ : '\N' } @{ $_[0] } }

# what names or numbers a message has that are not the same twice
sub normal
{
    my ($text) = @_;
    $text =~ s/\bOID \d+/OID N/g;
    $text =~ s/\b(?:heap|batchheap)(2?_\d)/side$1/g;
    $text =~ s/\bpg_temp_\d+/pg_temp/g;
    $text =~ s/\bpg_toast_\d+/pg_toast_N/g;
    $text =~ s/toast value \d+/toast value N/g;
    $text =~ s/cannot execute (?:ALTER TABLE|batchheap_\w+\(regclass\)) in/cannot execute X in/g;
    $text =~ s{base/[0-9/]+}{base/N}g;
    $text =~ s/cannot (?:switch|ALTER TABLE) /cannot switch /g;
    return $text;
}

# text_of(ANSWER, ORDERED)
sub text_of
{
    my ($answer, $ordered) = @_;
    return "LOST: $answer->{lost}" if $answer->{lost};
    my (@rows, @rest);
    for (@{ $answer->{parts} })
    {
        my ($what, $value) = @$_;
        if ($what eq 'row') { push @rows, text_of_row($value) }
        elsif ($what eq 'tag') { push @rest, "tag: $value" }
        else
        {
            # which of several duplicates a parallel index build comes upon first is chance
            my $chance = $value->{M} =~ /^could not create unique index/;
            my $detail = $ordered && defined $value->{D} && !$chance ? " ($value->{D})" : '';
            push @rest, normal("$value->{S} $value->{C}: $value->{M}$detail");
        }
    }
    # how parallel workers share a plan's rows is chance
    if (grep { /Workers Launched/ } @rows)
    {
        @rows = grep { !/Sort Method|Batches:|Worker \d+:/ } @rows;
        s/actual rows=[\d.]+ loops=\d+/actual/ for @rows;
    }
    if (!$ordered)
    {
        @rows = sort @rows;
        @rest = sort @rest;
    }
    return join '', map { "$_\n" } @rows, @rest, "status $answer->{status}";
}

sub error_of { my ($error) = grep { $_->[0] eq 'error' } @{ $_[0]{parts} }; return $error ? $error->[1] : undef }

# ask both sides at once
sub ask_both
{
    my ($number, $sql, %arg) = @_;
    my @names = map { $number == 2 ? $_ . '2' : $_ } @SIDES;
    for my $name (@names)
    {
        # names that all databases share
        (my $text = $sql) =~ s/\@SIDE\@/${name}_$worker/g;
        if (defined $arg{extended}) { $session{$name}->send_extended($text, $arg{extended}) }
        else                        { $session{$name}->send($text, @{ $arg{copy} // [] }) }
    }
    return map { $session{$_}->receive } @names;
}

sub both_or_die
{
    my ($sql) = @_;
    my @answers = ask_both(1, $sql);
    for (@answers)
    {
        die "LOST $_->{lost}\n" if $_->{lost};
        my $error = error_of($_);
        die "random: $sql: $error->{M}\n" if $error;
    }
    return @answers;
}

sub rows_in { return map { $_->[1] } grep { $_->[0] eq 'row' } @{ $_[0]{parts} } }

#
# A sequence
#

sub plain_text
{
    my ($text) = @_;
    $text =~ tr/\x01\x02//d;
    return $text;
}

# difference(WHAT, WHERE, HEAP, BATCHHEAP)
sub difference
{
    my ($what, $where, @texts) = @_;
    return { what => $what, where => $where, texts => \@texts };
}

# roll back transactions that are still prepared
sub forget_prepared
{
    for my $side (@SIDES)
    {
        $session{$side}->rows('RESET ROLE');
        for my $row ($session{$side}->rows('SELECT gid FROM pg_prepared_xacts WHERE database = current_database()'))
        {
            $session{$side}->rows("ROLLBACK PREPARED '$row->[0]'");
        }
    }
    return;
}

sub prepare_sessions
{
    my ($mode) = @_;
    for my $number (1, 2)
    {
        my @names = map { $number == 2 ? $_ . '2' : $_ } @SIDES;
        for my $name (@names)
        {
            $session{$name}->rows('ROLLBACK') if $session{$name}->status ne 'I';
        }
        if ($number == 2)
        {
            $session{$_}->rows('SET lock_timeout = 20') for @names;
        }
    }
    both_or_die('DISCARD ALL');
    if ($opt{decode})
    {
        $session{$_}->rows("SELECT pg_replication_slot_advance('${_}_$worker', pg_current_wal_lsn())") for @SIDES;
    }
    # somebody who was killed may still have locks
    both_or_die('SET lock_timeout = 60000; SET client_min_messages = error; DROP SCHEMA s CASCADE; '
          . "RESET client_min_messages; CREATE SCHEMA s; SELECT h.reset(); SELECT setval('h.sq', 1); RESET lock_timeout");
    # not in one message: that would be a transaction
    for (@{ $mode->{settings} })
    {
        both_or_die($_);
    }
    return;
}

# run_sequence(MODE, NEXT): NEXT gives the next statement, or nothing; returns what
# differs, if anything does
sub run_sequence
{
    my ($mode, $next) = @_;
    my $result = eval { really_run($mode, $next) };
    if (my $error = $@)
    {
        die $error if $error !~ /^LOST|closed the connection/;
        return difference('lost', 'between statements', '', $error);
    }
    return $result;
}

sub really_run
{
    my ($mode, $next) = @_;
    prepare_sessions($mode);
    my $last = 'nothing';
    my $status = 'I';
    my $twophase = 0;
    while (my $statement = $next->($status))
    {
        my $number = $statement->{session} // 1;
        $last = plain_text($statement->{sql});
        my @answers = ask_both($number, $last, copy => $statement->{copy}, extended => $statement->{extended});
        $twophase = 1 if $last =~ /^PREPARE TRANSACTION/;
        return difference('lost', $last, map { text_of($_, 1) } @answers) if grep { $_->{lost} } @answers;
        # the stand-in's UPDATE of pg_class minds the transaction's snapshot
        my $stopped = error_of($answers[0]);
        return if $stopped && $stopped->{C} eq '40001' && $last =~ /batchheap_(?:schema_)?(?:to|from)_heap/;
        my @texts = map { text_of($_, $mode->{ordered}) } @answers;
        return difference('answer', $last, @texts) if $texts[0] ne $texts[1] && !$statement->{probe};
        $statement->{answer} = $answers[0];
        if ($statement->{probe})
        {
            my $error = error_of($answers[0]);
            # a transaction that is prepared may have locked a table
            die "random: $last: $error->{M}\n" if $error && $error->{C} !~ /^(25P02|25006|55P03)/;
            $statement->{probe}->(rows_in($answers[0])) if !$error;
        }
        $status = $answers[0]{status} if $number == 1;
    }
    for my $number (1, 2)
    {
        my $name = 'heap' . ($number == 2 ? '2' : '');
        my $state = $session{$name}->status;
        next if $state eq 'I';
        my $sql = $state eq 'T' ? 'COMMIT' : 'ROLLBACK';
        my @answers = ask_both($number, $sql);
        return difference('lost', $sql, map { text_of($_, 1) } @answers) if grep { $_->{lost} } @answers;
        my @texts = map { text_of($_, $mode->{ordered}) } @answers;
        return difference('answer', $sql, @texts) if $texts[0] ne $texts[1];
    }
    forget_prepared() if $twophase;
    my $found = final_checks($mode);
    return $found if $found || !$mode->{crash};

    # once more after recovery, which compares pages with those that there were
    crash();
    $found = final_checks($mode);
    $found->{where} = 'after a crash' if $found;
    return $found;
}

# How often the server has been killed
sub crash_count { return -s "$opt{files}/crashes" || 0 }

# Kill the server process of a session of ours: the server starts again, with recovery
sub crash
{
    open my $out, '>>', "$opt{files}/crashes" or die "random: $opt{files}/crashes: $!\n";
    print {$out} '.';
    close $out or die "random: $opt{files}/crashes: $!\n";
    $crashes = crash_count();
    kill 'KILL', $session{batchheap}->pid;
    sleep 0.1 while !$session{heap2}->ask('SELECT 1')->{lost};
    open_sessions();
    return;
}

# what logical decoding said, each transaction's changes sorted by table
sub by_table
{
    my ($ordered, @lines) = @_;
    my (@sorted, @changes);
    for my $line (@lines)
    {
        if ($line =~ /^table ([^:]*):/) { push @changes, [ $1, $ordered ? scalar @changes : $line, $line ] }
        else
        {
            push @sorted, map { $_->[2] } sort { $a->[0] cmp $b->[0] || ($ordered ? $a->[1] <=> $b->[1] : $a->[1] cmp $b->[1]) } @changes;
            @changes = ();
            push @sorted, $line;
        }
    }
    return (@sorted, map { $_->[2] } @changes);
}

sub final_checks
{
    my ($mode) = @_;
    both_or_die('RESET ROLE; CLOSE ALL; RESET ALL');
    my @answers = both_or_die('SELECT * FROM h.contents()');
    my @texts = map { join '', map { text_of_row([ @$_[ 0 .. ($mode->{ordered} ? 3 : 2) ] ]) . "\n" } rows_in($_) } @answers;
    return difference('contents', 'at the end', @texts) if $texts[0] ne $texts[1];
    @answers = both_or_die('SELECT h.catalog()');
    @texts = map { join '', map { text_of_row($_) . "\n" } rows_in($_) } @answers;
    return difference('catalog', 'at the end', @texts) if $texts[0] ne $texts[1];
    if ($opt{decode})
    {
        @answers = map { my $side = $_;
            [ map { $_->[0] } $session{$side}->rows("SELECT data FROM pg_logical_slot_get_changes('${side}_$worker', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1')") ]
        } @SIDES;
        # in a batch, rows come when it is written: each table has an order of its own
        @answers = map { [ by_table($mode->{ordered}, @$_) ] } @answers;
        $tally{counter}{'decoded'} += @{ $answers[1] };
        @texts = map { join '', map { "$_\n" } @$_ } @answers;
        return difference('decoding', 'at the end', @texts) if $texts[0] ne $texts[1];
    }
    my @counters = $session{batchheap}->rows('SELECT counter, value FROM batchheap_counters() WHERE value > 0');
    $tally{counter}{ $_->[0] } += $_->[1] for @counters;
    $session{batchheap}->rows('SELECT batchheap_counters_reset()') if @counters;
    my @complaints;
    for (1 .. 600)
    {
        @complaints = $session{batchheap}->rows('SELECT h.complaints()');
        # pg_visibility before PostgreSQL 17 may err if transactions of other
        # databases hold back what counts as visible to all
        last if !grep { $_->[0] =~ /pages are not/ } @complaints;
        sleep 0.1;
    }
    return difference('check', 'at the end', '', join '', map { "$_->[0]\n" } @complaints) if @complaints;
    return;
}

# What a sequence is like, and its statements, follow from its number
sub mode_of
{
    my ($index) = @_;
    srand($opt{seed} * 1_000_003 + $index);
    rand() for 1 .. 5;    # the first ones of neighbouring seeds are alike
    my $freeze = $opt{freeze} eq 'both' ? rand() < 0.75 : $opt{freeze} eq 'on';
    my $pages = $opt{pages} eq 'both' ? rand() < 0.5 : $opt{pages} eq 'on';
    my $insert = $opt{insert} eq 'both' ? rand() < 0.8 : $opt{insert} eq 'on';
    my @settings;
    push @settings, map { "SET $_" } @{ $opt{set} // [] };
    push @settings, 'SET batchheap.freeze_on_load = off' if !$freeze;
    push @settings, 'SET batchheap.page_writer = on' if $pages;
    push @settings, 'SET batchheap.batch_insert = off' if !$insert;
    push @settings, 'SET batchheap.max_batch_rows = ' . (1, 2, 3, 5, 7, 20)[ rand 6 ] if rand() < 0.5;
    push @settings, "SET batchheap.max_batch_size = '8kB'" if rand() < 0.2;
    push @settings, 'SET batchheap.freeze_min_size = 0' if rand() < 0.8;
    my $crash = rand() < $opt{crashes};
    push @settings, "SET wal_consistency_checking = 'all'", 'CHECKPOINT' if $crash;
    # From 19 on, reading rows that were inserted singly notes their pages' free space,
    # where later rows go then; pages that were filled in batches are not visited.
    my $ordered = rand() < 0.5 && $version < 19;
    return {
        ordered  => $ordered ? 1 : 0,
        freeze   => $freeze,
        crash    => $crash,
        settings => \@settings
    };
}

sub generated
{
    my ($index, $list) = @_;
    my $mode = mode_of($index);
    my $generator = RandomStatements->new(
        ordered    => $mode->{ordered},
        freeze     => $mode->{freeze},
        set_pages  => $opt{pages} eq 'both',
        set_insert => $opt{insert} eq 'both',
        keep       => $opt{keep},
        files      => $opt{files},
        version    => $version
    );
    my $left = 4 + int rand 22;
    my $stale = 0;
    my $last;
    return (
        $mode,
        sub {
            my ($status) = @_;
            if ($last)
            {
                $tally{kind}{ $last->{kind} }[ error_of($last->{answer}) ? 1 : 0 ]++;
                if (my $error = error_of($last->{answer})) { $tally{error}{"$last->{kind} $error->{C} " . normal($error->{M})}++ if $opt{verbose} }
                undef $last;
            }
            $generator->{status} = $status;
            if ($stale && $status ne 'E')
            {
                $stale = 0;
                my $probe = { sql => 'SELECT * FROM h.probe()', probe => sub { $generator->learn(@_) } };
                push @$list, $probe;
                return $probe;
            }
            return if --$left < 0;
            my $statement = $generator->next_statement;
            $stale = 1 if $statement->{ddl};
            push @$list, $statement;
            $last = $statement;
            return $statement;
        });
}

#
# A difference
#

sub replay
{
    my ($mode, @list) = @_;
    open_sessions();
    my @left = @list;
    return run_sequence($mode, sub { return shift @left });
}

# leave out what is not needed for the difference
sub shrink
{
    my ($mode, $list, $difference) = @_;
    my @list = map { { %$_, probe => $_->{probe} ? sub { } : undef } } @$list;
    my $tries = 0;
    my $end = time + $opt{'shrink-time'};
    my $still = sub {
        return 0 if time > $end;
        $tries++;
        my $found = replay($mode, @_);
        return $found && $found->{what} eq $difference->{what} ? $found : 0;
    };
    my $found = $still->(@list) or return (\@list, $difference, 0);
    $difference = $found;

    # whole statements, large chunks first
    for (my $size = int(@list / 2); $size >= 1;)
    {
        my $at = 0;
        my $less = 0;
        while ($at < @list)
        {
            my @try = @list;
            splice @try, $at, $size;
            if ($found = $still->(@try))
            {
                @list = @try;
                $difference = $found;
                $less = 1;
            }
            else { $at += $size }
        }
        $size = $less && $size == 1 ? 1 : int($size / 2);
    }
    # settings
    for my $i (reverse 0 .. $#{ $mode->{settings} })
    {
        my %try = (%$mode, settings => [ @{ $mode->{settings} } ]);
        splice @{ $try{settings} }, $i, 1;
        my $old = $mode;
        $mode = \%try;
        if ($found = $still->(@list)) { $difference = $found }
        else                          { $mode       = $old }
    }
    # parts of statements, and numbers of rows
    for my $i (0 .. $#list)
    {
        my $try = sub {
            my ($sql) = @_;
            my @try = @list;
            $try[$i] = { %{ $list[$i] }, sql => $sql };
            $found = $still->(@try) or return 0;
            @list = @try;
            $difference = $found;
            return 1;
        };
        if (defined $list[$i]{extended})
        {
            my @try = @list;
            $try[$i] = { %{ $list[$i] } };
            delete $try[$i]{extended};
            @list = @try if $still->(@try);
        }
        my $part = 0;
        for (1 .. 60)
        {
            my $n = 0;
            my $sql = $list[$i]{sql};
            $sql =~ s/\x01[^\x01\x02]*\x02/$n++ == $part ? '' : $&/ge;
            last if $n <= $part;
            $part++ if !$try->($sql);
        }
        for (1 .. 12)
        {
            my $sql = $list[$i]{sql};
            $sql =~ s/generate_series\(1, (\d+)\)/'generate_series(1, ' . int($1 \/ 2) . ')'/e or last;
            last if $1 < 2 || !$try->($sql);
        }
    }
    # a look at the catalog that was not left out above has to do with it
    $_->{needed} = 1 for @list;
    return (\@list, $difference, 1, $mode);
}

sub script_of
{
    my ($mode, $list) = @_;
    my $text = '';
    for (map({ { sql => $_ } } @{ $mode->{settings} }), @$list)
    {
        next if $_->{probe} && !$_->{needed};
        my $sql = plain_text($_->{sql});
        $text .= '-- in the second session: ' if $_->{session};
        $text .= '-- by the extended protocol: ' if defined $_->{extended};
        if (!@{ $_->{copy} // [] }) { $text .= "$sql;\n"; next }
        $text .= "$sql;\n$_->{copy}[0]\\.\n";
    }
    return $text;
}

sub cut
{
    my ($text) = @_;
    return length $text > 3000 ? substr($text, 0, 3000) . "...\n" : $text;
}

# where two texts part
sub side_by_side
{
    my ($a, $b) = @_;
    my @a = split /\n/, $a // '';
    my @b = split /\n/, $b // '';
    my ($from, $shown) = (0, '');
    $from++ while $from < @a && $from < @b && $a[$from] eq $b[$from];
    my ($enda, $endb) = ($#a, $#b);
    while ($enda > $from && $endb > $from && $a[$enda] eq $b[$endb]) { $enda--; $endb-- }
    my $limit = $from + 14;
    $shown .= "  from line " . ($from + 1) . " on\n" if $from;
    $shown .= "  heap:      " . substr($a[$_], 0, 400) . "\n" for $from .. ($enda < $limit ? $enda : $limit);
    $shown .= "  batchheap: " . substr($b[$_], 0, 400) . "\n" for $from .. ($endb < $limit ? $endb : $limit);
    return $shown;
}

sub report
{
    my ($index, $mode, $list, $difference) = @_;
    my ($short, $again, $repeats, $shortmode) = shrink($mode, $list, $difference);
    $mode = $shortmode // $mode;
    my $text = "---- sequence $index of seed $opt{seed}: $again->{what} differs at: " . substr($again->{where}, 0, 2000) . "\n";
    $text .= "-- (did not happen again when the sequence was repeated)\n" if !$repeats;
    $text .= side_by_side(@{ $again->{texts} });
    $text .= "---- " . ($mode->{ordered} ? 'rows in order' : 'rows in any order') . "; after dev.d/random.sql\n" . script_of($mode, $short) . "----\n";
    print cut($text);
    if ($opt{save})
    {
        my $file = "$opt{save}/random-$opt{seed}-$index.sql";
        open my $out, '>', $file or die "random: $file: $!\n";
        print {$out} $text, "\n---- all of it\n", script_of($mode, $list);
        close $out or die "random: $file: $!\n";
    }
    return;
}

#
# The workers
#

sub work
{
    my ($out) = @_;
    open $lock, '>', "$opt{files}/lock" or die "random: $opt{files}/lock: $!\n";
    srand 1;
    open_sessions();
    if ($opt{decode})
    {
        $session{$_}->rows("SELECT pg_create_logical_replication_slot('${_}_$worker', 'test_decoding')") for @SIDES;
    }
    my ($done, $failed) = (0, 0);
    my @indexes = defined $opt{only} ? ($opt{only}) : map { $_ * $opt{jobs} + $worker } 0 .. int(($opt{sequences} - 1) / $opt{jobs});
    for my $index (@indexes)
    {
        last if $index >= $opt{sequences} && !defined $opt{only};
        last if $opt{minutes} && time - $started > $opt{minutes} * 60;
        last if $failed >= $opt{'max-failures'};
        open_sessions() if $done && $done % 30 == 0;
        if ($done && $done % 300 == 0)
        {
            ask_both(1, "VACUUM $_") for qw(pg_class pg_attribute pg_type pg_depend pg_index pg_statistic pg_proc pg_constraint pg_trigger pg_attrdef);
        }
        flock $lock, mode_of($index)->{crash} ? LOCK_EX : LOCK_SH;
        if ($crashes != crash_count())
        {
            $crashes = crash_count();
            open_sessions();
        }
        my @list;
        my ($mode, $next) = generated($index, \@list);
        my $difference = run_sequence($mode, $next);
        if ($difference && $difference->{what} eq 'lost')
        {
            # whose fault was it?
            flock $lock, LOCK_UN;
            flock $lock, LOCK_EX;
            my @again = map { { %$_, probe => $_->{probe} ? sub { } : undef } } @list;
            my $found = replay($mode, @again);
            if (!$found)
            {
                # another one's, most likely; all of it, then
                @list = ();
                ($mode, $next) = generated($index, \@list);
                $found = run_sequence($mode, $next);
                print "random: sequence $index lost its server, but not again\n";
            }
            $difference = $found;
        }
        print script_of($mode, \@list) if defined $opt{only} && $opt{verbose};
        $done++;
        if ($difference)
        {
            $failed++;
            flock $lock, LOCK_EX if $mode->{crash};
            report($index, $mode, \@list, $difference);
            open_sessions();
        }
        flock $lock, LOCK_UN;
        if ($worker == 0 && $done % 100 == 0)
        {
            printf STDERR "[%4d s] about %d sequences\n", time - $started, $done * $opt{jobs};
        }
    }
    Storable::store({ done => $done, failed => $failed, tally => \%tally }, $out);
    return;
}

sub summary
{
    my (@results) = @_;
    my ($done, $failed) = (0, 0);
    my %sum;
    for my $r (@results)
    {
        $done += $r->{done};
        $failed += $r->{failed};
        for my $kind (keys %{ $r->{tally}{kind} })
        {
            $sum{kind}{$kind}[$_] += $r->{tally}{kind}{$kind}[$_] // 0 for 0, 1;
        }
        for my $what (qw(counter error))
        {
            $sum{$what}{$_} += $r->{tally}{$what}{$_} for keys %{ $r->{tally}{$what} };
        }
    }
    my ($good, $bad) = (0, 0);
    for (values %{ $sum{kind} }) { $good += $_->[0]; $bad += $_->[1] }
    printf "%d sequences of seed %d in %.0f s: %d statements, of which %d ended in an error on both sides\n", $done, $opt{seed},
      time - $started, $good + $bad, $bad;
    print 'statements (good/errors): ', join(', ', map { "$_ $sum{kind}{$_}[0]/$sum{kind}{$_}[1]" } sort keys %{ $sum{kind} }), "\n";
    print 'counters: ', join(', ', map { "$_ $sum{counter}{$_}" } sort keys %{ $sum{counter} }), "\n";
    if ($opt{verbose})
    {
        printf "%6d %s\n", $sum{error}{$_}, substr $_, 0, 150 for grep { defined } (sort { $sum{error}{$b} <=> $sum{error}{$a} } keys %{ $sum{error} })[ 0 .. 60 ];
    }
    printf "%d passed, %d failed, 0 skipped\n", $done - $failed, $failed;
    return $failed || !$done;
}

# autovacuum would make a difference to what is where in a table
sub set_autovacuum
{
    my ($sql) = @_;
    my $session = RandomWire->connect(dir => $opt{dir}, port => $opt{port}, user => $opt{user}, database => 'postgres')
      or die "random: cannot connect to the server\n";
    my ($state) = map { $_->[0] } $session->rows('SHOW autovacuum');
    if ($sql =~ /RESET/ || $state eq 'on')
    {
        $session->rows($sql);
        $session->rows('SELECT pg_reload_conf()');
    }
    $session->close;
    return $state eq 'on';
}

make_files();
my $autovacuum = set_autovacuum('ALTER SYSTEM SET autovacuum = off');
unlink glob("$opt{files}/result.*"), "$opt{files}/crashes";
$opt{jobs} = 1 if defined $opt{only};
make_databases();

my @children;
for my $i (0 .. $opt{jobs} - 1)
{
    my $pid = fork // die "random: fork: $!\n";
    if (!$pid)
    {
        $worker = $i;
        eval { work("$opt{files}/result.$i"); 1 } or do
        {
            print STDERR "random: worker $i: $@";
            POSIX::_exit(1);
        };
        POSIX::_exit(0);
    }
    push @children, $pid;
}
my $bad = 0;
for (@children)
{
    waitpid $_, 0;
    $bad = 1 if $?;
}
my @results = map { -f "$opt{files}/result.$_" ? Storable::retrieve("$opt{files}/result.$_") : () } 0 .. $opt{jobs} - 1;
set_autovacuum('ALTER SYSTEM RESET autovacuum') if $autovacuum;
$bad = 1 if summary(@results);
exit $bad;
