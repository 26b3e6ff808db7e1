# Bench.pm - run statements and commands for ./dev bench and measure them
#
# A bench keeps a session open for each access method, a psql with a backend.  What
# a backend has used is read from /proc while it waits for the next statement.
#
#   new(data => DIR, files => DIR)  of the server whose data directory that is;
#                                   files is for whatever the cases need
#   rows, file(NAME)                of the case that is being measured
#   sql(STATEMENTS, AM)             in the session of AM, heap when left out
#   command(WORD...)                run a program; dies when it fails
#   write_file(NAME, TEXT)          a file for it
#   load_source(CASE), run(CASE, VARIANT), end_case
package Bench;

use strict;
use warnings;

use IO::Handle;
use IO::Select;
use IPC::Open2 qw(open2);
use List::Util qw(max);
use POSIX ();
use Time::HiRes qw(clock_gettime sleep CLOCK_MONOTONIC);

my $TICK = 1 / POSIX::sysconf(POSIX::_SC_CLK_TCK());
my $END = '-- end of answer --';

sub new
{
    my ($class, %self) = @_;
    my $self = bless { %self, sessions => {}, source => '' }, $class;
    $self->find_postmaster;
    $self->{block_size} = $self->sql('SHOW block_size;');
    return $self;
}

sub rows { return $_[0]{rows} }
sub file { return "$_[0]{files}/$_[1]" }

sub slurp
{
    my ($file) = @_;
    open my $handle, '<', $file or return;
    local $/;
    return scalar readline $handle;
}

sub find_postmaster
{
    my ($self) = @_;
    ($self->{postmaster}) = slurp("$self->{data}/postmaster.pid") =~ /^(\d+)$/m
        or die "bench: the server is not there\n";
    return;
}

#
# Statements and commands
#

# Statements go in, lines come out.  WAITING is called now and then until the answer
# comes.
sub ask
{
    my ($session, $sql, $waiting) = @_;
    print { $session->{in} } "$sql\n\\echo $END\n" or die "bench: lost a session\n";
    if ($waiting)
    {
        my $select = IO::Select->new($session->{out});
        $waiting->() until $select->can_read(0.02);
    }
    my @lines;
    while (defined(my $line = readline $session->{out}))
    {
        chomp $line;
        return wantarray ? @lines : $lines[0] if $line eq $END;
        push @lines, $line;
    }
    die "bench: a statement failed\n";    # and psql has said why
}

sub session
{
    my ($self, $am) = @_;
    if (!$self->{sessions}{$am})
    {
        my %session;
        $session{psql} = open2($session{out}, $session{in}, qw(psql -X -q -At -v ON_ERROR_STOP=1));
        $session{in}->autoflush;
        $session{pid} = ask(\%session, 'SELECT pg_backend_pid();');
        $self->{sessions}{$am} = \%session;
    }
    return $self->{sessions}{$am};
}

sub close_sessions
{
    my ($self) = @_;
    for my $session (values %{ $self->{sessions} })
    {
        close $session->{in};
        close $session->{out};
        waitpid $session->{psql}, 0;
    }
    $self->{sessions} = {};
    return;
}

sub fill_in
{
    my ($self, $sql, $am) = @_;
    $sql =~ s/:am\b/$am/g;
    $sql =~ s/:rows\b/$self->{rows}/g;
    $sql =~ s/:dir\b/$self->{files}/g;
    return $sql;
}

sub sql
{
    my ($self, $sql, $am) = @_;
    $am //= 'heap';
    return ask($self->session($am), $self->fill_in($sql, $am));
}

sub command
{
    my ($self, @command) = @_;
    my $log = $self->file('command.log');
    my $pid = fork // die "bench: cannot fork: $!\n";
    if ($pid == 0)
    {
        open STDIN, '<', '/dev/null';
        open STDOUT, '>', $log;
        open STDERR, '>&', \*STDOUT;
        { exec @command };
        POSIX::_exit(127);
    }
    waitpid $pid, 0;
    return if $? == 0;
    print STDERR slurp($log);
    die "bench: $command[0] failed\n";
}

sub write_file
{
    my ($self, $name, $text) = @_;
    open my $handle, '>', $self->file($name) or die "bench: $name: $!\n";
    print {$handle} $text;
    close $handle or die "bench: $name: $!\n";
    return;
}

#
# What a process has used
#

# the fields of /proc/PID/stat that follow the command's name; the first is number 3
sub stat_fields { return split ' ', (slurp("/proc/$_[0]/stat") // '') =~ s/^.*\) //sr }

# CPU seconds of a process that waits: to the nanosecond, or else in clock ticks
sub cpu_seconds
{
    my ($pid) = @_;
    my ($ns) = split ' ', slurp("/proc/$pid/schedstat") // 0;
    return $ns / 1e9 if $ns;
    my @f = stat_fields($pid);
    return ($f[11] + $f[12]) * $TICK;
}

# CPU seconds of the children that have ended
sub ended_cpu_seconds
{
    my ($pid) = @_;
    my @f = stat_fields($pid);
    return ($f[13] + $f[14]) * $TICK;
}

sub memory
{
    my ($pid) = @_;
    return { (slurp("/proc/$pid/status") // '') =~ /^(\w+):\s+(\d+) kB$/mg };
}

# The kernel keeps the peak of all of a process's memory.  Less its shared memory,
# which never shrinks, that is the peak of its own.
sub reset_peak
{
    my ($pid) = @_;
    open my $handle, '>', "/proc/$pid/clear_refs" or return 0;
    print {$handle} "5\n";
    return close $handle;
}

sub peak
{
    my ($pid) = @_;
    my $m = memory($pid);
    return $m->{VmHWM} - $m->{RssFile} - $m->{RssShmem};
}

#
# Measuring
#

# the seconds, CPU seconds and peak memory of statements
sub measure_sql
{
    my ($self, $sql, $am) = @_;
    my $session = $self->session($am);
    my $pid = $session->{pid};
    $sql = $self->fill_in($sql, $am);

    # where the peak cannot be reset, a look now and then must do
    my $seen = 0;
    my $look = reset_peak($pid) ? undef : sub { $seen = max($seen, memory($pid)->{RssAnon} // 0) };

    my ($cpu, $time) = (cpu_seconds($pid), clock_gettime(CLOCK_MONOTONIC));
    ask($session, $sql, $look);
    my %figure = (seconds => clock_gettime(CLOCK_MONOTONIC) - $time, cpu => cpu_seconds($pid) - $cpu);
    $figure{memory} = $look ? $seen : peak($pid);
    return %figure;
}

# the seconds of a program and the CPU seconds of its backend, which has ended then
# and been counted by its parent
sub measure_command
{
    my ($self, @command) = @_;
    my ($cpu, $time) = (ended_cpu_seconds($self->{postmaster}), clock_gettime(CLOCK_MONOTONIC));
    $self->command(@command);
    my $seconds = clock_gettime(CLOCK_MONOTONIC) - $time;
    sleep 0.3;
    return (seconds => $seconds, cpu => ended_cpu_seconds($self->{postmaster}) - $cpu);
}

sub measure
{
    my ($self, $variant, $step) = @_;
    my $am = $variant->{am};
    my @what = ref $step ? $step->($self, $variant) : \$step;
    my $lsn = $self->sql('SELECT pg_current_wal_insert_lsn();', $am);
    my %figure = ref $what[0] ? $self->measure_sql(${ $what[0] }, $am) : $self->measure_command(@what);
    $figure{wal} = $self->sql("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '$lsn');", $am);
    return \%figure;
}

#
# Runs
#

# The source table of a case, unless it is there already
sub load_source
{
    my ($self, $case) = @_;
    my $sql = $self->fill_in($case->{source} // '', 'heap');
    return if $sql eq $self->{source};
    $self->sql('SET client_min_messages = warning; DROP TABLE IF EXISTS src;');
    $self->sql("$sql VACUUM (FREEZE, ANALYZE) src;") if $sql ne '';
    $self->{source} = $sql;
    return;
}

# Neither the server nor the system shall have the source in memory
sub forget_source
{
    my ($self) = @_;
    $self->close_sessions;
    $self->command('pg_ctl', '-D', $self->{data}, '-l', $self->file('server.log'), qw(-w -t 120 -s -m fast restart));
    $self->find_postmaster;
    $self->command('sync');
    $self->command('find', "$self->{data}/base", qw(-type f -size +1M -exec),
        qw(dd if={} iflag=nocache count=0 status=none ;));
    return;
}

# One run: what it used up to each step, with the step's label.  The small table is
# there for a new session, whose first statement loads the library.
sub run
{
    my ($self, $case, $variant) = @_;
    my $am = $variant->{am};
    $self->forget_source if $case->{cold};
    my @settings = map { "SET $_;" } @{ $case->{settings} }, @{ $variant->{settings} };
    $self->sql("
        RESET ALL;
        SET client_min_messages = warning;
        DROP SCHEMA IF EXISTS target CASCADE;
        CREATE SCHEMA target;
        SET search_path = target, public;
        CREATE TABLE small USING :am AS SELECT 1;
        DROP TABLE small;
        @settings", $am);
    $self->sql($case->{before}, $am) if $case->{before};
    $self->sql('VACUUM pg_class, pg_attribute, pg_type, pg_depend; CHECKPOINT;', $am);

    my %total = (seconds => 0, cpu => 0, wal => 0);
    my @figures;
    for my $step (@{ $variant->{steps} // $case->{steps} })
    {
        my ($label, $what) = @$step;
        my $figure = $self->measure($variant, $what);
        $total{$_} += $figure->{$_} for qw(seconds cpu wal);
        $total{memory} = max($total{memory} // 0, $figure->{memory}) if $figure->{memory};
        push @figures, { label => $label, %total };
    }

    my $pages = $self->sql("
        SELECT coalesce(sum(pg_relation_size(oid) + coalesce(pg_relation_size(nullif(reltoastrelid, 0)), 0)), 0)
            / $self->{block_size}
        FROM pg_class WHERE relnamespace = 'target'::regnamespace AND relkind IN ('r', 'm');", $am);
    $_->{pages} = $pages for @figures;
    $self->{last}{ $variant->{name} } = $figures[-1];
    return @figures;
}

sub end_case
{
    my ($self) = @_;
    $self->sql('SET client_min_messages = warning; DROP SCHEMA IF EXISTS target CASCADE;');
    $self->close_sessions;
    return;
}

1;
