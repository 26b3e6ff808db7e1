# bench.pl - measure the cases of BenchCases.pm; ./dev bench starts it
#
#   --list                list the cases
#   --check CASE...       are these names of cases?
#   --out DIR ... CASE... measure, and write to DIR: runs.csv (every run), bench.csv and
#                         bench.md (medians), and picture.tsv (for gnuplot)
use strict;
use warnings;

use FindBin ();
use Getopt::Long qw(GetOptions);
use IO::Handle;
use List::Util qw(max min);
use POSIX ();

use lib $FindBin::Bin;
use Bench;
use BenchCases;

my %opt = (scale => 1, runs => 7);
GetOptions(\%opt, 'list', 'check', 'quick', 'scale=f', 'runs=i',
    'out=s',       # results
    'data=s',      # the server's data directory
    'files=s',     # a directory beside it
    'medium=s',    # of these: memory, disk, or nosync
    'about=s',     # file with the head of bench.md
    'start=i'      # when it all began
) or exit 2;

my @MEASURES = qw(seconds cpu wal pages memory);

STDOUT->autoflush;
STDERR->autoflush;

# A name selects the case, and all whose names go on after a dot
sub selected
{
    my @names = @_;
    my @cases = BenchCases::cases();
    return grep { !$_->{extra} && !($opt{quick} && $_->{cold}) } @cases if !@names;
    my %wanted;
    for my $name (@names)
    {
        my @found = grep { index("$_->{name}.", "$name.") == 0 } @cases;
        if (!@found)
        {
            print STDERR "bench: unknown case \"$name\"; ./dev bench --list lists the cases\n";
            exit 2;
        }
        $wanted{ $_->{name} } = 1 for @found;
    }
    return grep { $wanted{ $_->{name} } } @cases;
}

#
# Figures
#

# $result{NAME} is a case, or a step of it: its case, rows, variants' names, and
# figures by variant and measure
my (%result, @order);

sub label { return join '.', grep { $_ ne '' } @_ }

sub note
{
    my ($case, $rows, $variant, $figure) = @_;
    my $name = label($case->{name}, $figure->{label});
    if (!$result{$name})
    {
        push @order, $name;
        $result{$name} = { name => $name, case => $case, rows => $rows };
    }
    my $r = $result{$name};
    for my $measure (@MEASURES)
    {
        push @{ $r->{figures}{$variant}{$measure} }, $figure->{$measure} if defined $figure->{$measure};
    }
    $r->{variants} = [ grep { $r->{figures}{$_} } map { $_->{name} } @{ $case->{variants} } ];
    return;
}

sub median
{
    my @v = sort { $a <=> $b } @_;
    return @v % 2 ? $v[ $#v / 2 ] : ($v[ @v / 2 - 1 ] + $v[ @v / 2 ]) / 2;
}

# median, least and most; nothing if that was not measured
sub spread
{
    my ($r, $variant, $measure) = @_;
    my $v = $r->{figures}{$variant}{$measure} or return;
    return (median(@$v), min(@$v), max(@$v));
}

# Of WAL, how much of the first's there is; otherwise, how many times as fast
sub ratio
{
    my ($r, $variant, $measure) = @_;
    my ($a) = spread($r, $r->{variants}[0], $measure);
    my ($b) = spread($r, $variant, $measure);
    ($a, $b) = ($b, $a) if $measure eq 'wal';
    return $a && $b ? $a / $b : undef;
}

# heap and batchheap, and perhaps the page writer
sub is_pair { return "@{ $_[0]{variants} }" =~ /^heap batchheap( page writer)?$/ }

#
# Measuring
#

sub measure_all
{
    my @cases = @_;
    my $bench = Bench->new(data => $opt{data}, files => $opt{files});
    my $runs = create('runs.csv');
    print {$runs} join(',', qw(case variant run), @MEASURES), "\n";
    my $number = 0;
    for my $case (@cases)
    {
        printf STDERR '[%4d s] %d/%d %s ', time - $opt{start}, ++$number, scalar @cases, $case->{name};
        if ($case->{cold} && $opt{medium} eq 'memory')
        {
            print STDERR "left out: all data are in memory\n";
            next;
        }
        measure_case($bench, $case, $runs);
        my $r = (grep { $_->{case} == $case && @{ $_->{variants} } > 1 } @result{@order})[-1];
        printf STDERR " time %s, CPU %s\n", map { ratio_text(ratio($r, $r->{variants}[1], $_)) } qw(seconds cpu);
    }
    close $runs or die "bench: runs.csv: $!\n";
    return;
}

# Run 0 warms up and does not count.  Who goes first changes from run to run.
sub measure_case
{
    my ($bench, $case, $runs) = @_;
    $bench->{rows} = max($case->{least}, POSIX::ceil($case->{rows} * $opt{scale}));
    $bench->load_source($case);
    $case->{setup}->($bench) if $case->{setup};
    $bench->close_sessions;
    my @variants = @{ $case->{variants} };
    for my $run (0 .. $opt{runs})
    {
        for my $variant ($run % 2 ? reverse @variants : @variants)
        {
            my @figures = $bench->run($case, $variant);
            next if $run == 0;
            for my $figure (@figures)
            {
                note($case, $bench->rows, $variant->{name}, $figure);
                print {$runs} join(',', label($case->{name}, $figure->{label}), csv_text($variant->{name}), $run,
                    map { number($_, $figure->{$_}) } @MEASURES), "\n";
            }
        }
        print STDERR '.';
    }
    $bench->end_case;
    return;
}

#
# Output
#

sub create
{
    my ($name) = @_;
    open my $handle, '>', "$opt{out}/$name" or die "bench: $opt{out}/$name: $!\n";
    $handle->autoflush;
    return $handle;
}

sub csv_text { return $_[0] =~ s/,//gr }

sub number
{
    my ($measure, $value) = @_;
    return '' if !defined $value;
    return sprintf $measure =~ /^(seconds|cpu)$/ ? '%.4f' : '%.0f', $value;
}

sub ratio_text { return defined $_[0] ? sprintf('%.2f', $_[0]) : '-' }

sub write_csv
{
    my $csv = create('bench.csv');
    print {$csv} join(',', qw(case rows variant runs),
        map { my $m = $_; map { "${m}_$_" } qw(median min max) } @MEASURES), "\n";
    for my $r (@result{@order})
    {
        for my $variant (@{ $r->{variants} })
        {
            my @values;
            for my $measure (@MEASURES)
            {
                my @spread = spread($r, $variant, $measure);
                push @values, map { number($measure, $_) } @spread[ 0 .. 2 ];
            }
            print {$csv} join(',', $r->{name}, $r->{rows}, csv_text($variant), $opt{runs}, @values), "\n";
        }
    }
    close $csv or die "bench: bench.csv: $!\n";
    return;
}

# CPU ratios of the cases in the picture; the page writer's is 0 where there is none
sub write_picture
{
    my $tsv = create('picture.tsv');
    for my $r (grep { $_->{case}{picture} && is_pair($_) } @result{@order})
    {
        my $ratio = ratio($r, 'batchheap', 'cpu');
        my $pages = ratio($r, 'page writer', 'cpu');
        printf {$tsv} "%s\t%.3f\t%.3f\n", $r->{name}, $ratio, $pages // 0 if defined $ratio;
    }
    close $tsv or die "bench: picture.tsv: $!\n";
    return;
}

sub row { return '| ' . join(' | ', @_) . " |\n" }

# head of a table, whose first column is text
sub head { return row(@_) . '|---|' . '--:|' x (@_ - 1) . "\n" }

sub seconds
{
    my @spread = spread(@_) or return '-';
    return sprintf '%.3f (%.3f-%.3f)', @spread;
}

# seconds of both, and their ratio
sub seconds_and_ratio
{
    my ($r, $measure) = @_;
    return (seconds($r, 'heap', $measure),
        seconds($r, 'batchheap', $measure), ratio_text(ratio($r, 'batchheap', $measure)));
}

# the median in megabytes, or as it is
sub amount
{
    my ($r, $variant, $measure) = @_;
    my ($value) = spread($r, $variant, $measure);
    return '-' if !defined $value;
    return sprintf '%.1f', $value / 1e6 if $measure eq 'wal';
    return sprintf '%.1f', $value / 1024 if $measure eq 'memory';
    return sprintf '%.0f', $value;
}

# What is to be said of a target: a row for each of its cases that were measured, or
# for the worst one if it is about all
sub target_rows
{
    my ($text, $names, $measure, $bound, $limit, $where, $variant) = @_;
    my @judged;
    for my $r (@$names ? grep { defined } @result{@$names} : grep { is_pair($_) } @result{@order})
    {
        my $value = ratio($r, $variant // $r->{variants}[1], $measure);
        push @judged, [ $r->{name}, $value ] if defined $value;
    }
    if (!@$names && @judged)
    {
        # of a target for all: those that miss it, or else the nearest to it
        @judged = sort { $b->[1] <=> $a->[1] } @judged;
        my @missed = grep { $_->[1] > $limit } @judged;
        @judged = @missed ? @missed : ([ "all; the highest is $judged[0][0]", $judged[0][1] ]);
    }
    my @rows;
    for my $j (@judged)
    {
        my ($name, $value) = @$j;
        my $met = ($bound eq 'least' ? $value >= $limit : $value <= $limit) ? 'met' : '**not met**';
        $met = $where eq 'memory' ? 'is for data in memory' : 'is for a disk with fsync'
            if $where ne 'anywhere' && $where ne $opt{medium};
        push @rows, row($text, $name, sprintf("at $bound %.2f", $limit), sprintf('%.3f', $value), $met);
    }
    return @rows;
}

sub targets_section
{
    my @rows = map { target_rows(@$_) } BenchCases::targets() or return '';
    return "## Targets\n\nTime and CPU: heap/batchheap, of freezing off/on.  WAL: batchheap/heap.\n\n"
        . head('target', 'case', 'wanted', 'measured', '') . join('', @rows) . "\n";
}

sub time_section
{
    my @results = @_ or return '';
    my $text = "## Time\n\nSeconds: median (min-max).  CPU is that of the backend.  The ratio is heap/batchheap; above 1,\n"
        . "batchheap is faster.  The last columns are its ratios with `batchheap.page_writer = on`.\n\n"
        . head('case', 'rows', 'heap', 'batchheap', 'ratio', 'heap, CPU', 'batchheap, CPU', 'ratio',
            'page writer', '..., CPU');
    for my $r (@results)
    {
        my $unit = $r->{case}{unit} ? " $r->{case}{unit}" : '';
        $text .= row($r->{name}, "$r->{rows}$unit", seconds_and_ratio($r, 'seconds'), seconds_and_ratio($r, 'cpu'),
            map { ratio_text(ratio($r, 'page writer', $_)) } qw(seconds cpu));
    }
    return "$text\n";
}

sub space_section
{
    my @results = @_ or return '';
    my $text = "## Space\n\n"
        . "Medians.  WAL and the peak of the backend's own memory are in MB; pages are the table's and its TOAST\n"
        . "table's.  The ratio is batchheap/heap.\n\n"
        . head('case', 'heap, WAL', 'batchheap, WAL', 'ratio', 'heap, pages', 'batchheap, pages', 'heap, memory',
            'batchheap, memory');
    for my $r (@results)
    {
        my @amounts = map { my $m = $_; map { amount($r, $_, $m) } qw(heap batchheap) } qw(wal pages memory);
        my $ratio = ratio($r, 'batchheap', 'wal');
        $text .= row($r->{name}, @amounts[ 0, 1 ], defined $ratio ? sprintf('%.3f', $ratio) : '-', @amounts[ 2 .. 5 ]);
    }
    return "$text\n";
}

sub others_section
{
    my @results = @_ or return '';
    my $text = "## Settings and references\n\n"
        . "The ratio is first/this; above 1, this is faster than the first of the case.\n\n"
        . head('case', 'rows', 'what', 'seconds', 'ratio', 'CPU', 'ratio', 'WAL, MB', 'memory, MB');
    for my $r (@results)
    {
        for my $variant (@{ $r->{variants} })
        {
            $text .= row($r->{name}, $r->{rows}, $variant,
                (map { (seconds($r, $variant, $_), ratio_text(ratio($r, $variant, $_))) } qw(seconds cpu)),
                amount($r, $variant, 'wal'), amount($r, $variant, 'memory'));
        }
    }
    return "$text\n";
}

sub write_markdown
{
    my @cases = @_;
    my @results = @result{@order};
    my $text = join '', Bench::slurp($opt{about}), "\n",
        targets_section(),
        time_section(grep { is_pair($_) } @results),
        space_section(grep { is_pair($_) } @results),
        others_section(grep { !is_pair($_) } @results),
        "## Cases\n\n", map { "- `$_->{name}`: $_->{text}\n" } @cases;
    my $md = create('bench.md');
    print {$md} $text;
    close $md or die "bench: bench.md: $!\n";
    print $text;
    return;
}

#
# All of it
#

my @cases = selected(@ARGV);
if ($opt{list})
{
    printf "%-16s  %s%s\n", $_->{name}, $_->{text}, $_->{extra} ? ' (only when named)' : '' for BenchCases::cases();
}
elsif (!$opt{check})
{
    # what there is when a case fails is of use too
    my $done = eval { measure_all(@cases); 1 };
    print STDERR "\n$@" if !$done;
    write_csv();
    write_picture();
    write_markdown(@cases);
    exit 1 if !$done;
}
