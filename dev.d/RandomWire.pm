# RandomWire - a session with a server, spoken to directly
#
# psql would do, but what it prints does not tell everything apart, and starting it
# takes longer than most statements.  Only what ./dev random needs is here: a Unix
# socket, no password, the simple query protocol, COPY in both directions.
#
#   my $session = RandomWire->connect(dir => ..., port => ..., user => ..., database => ...);
#   $session->send('SELECT 1');             # so that two servers can work at a time
#   my $answer = $session->receive;
# An answer is { status => I, T or E, parts => [...] }, or { lost => REASON }.  A part is
# [ row => [values] ], [ tag => TEXT ], [ error => {fields} ], [ notice => {fields} ]
package RandomWire;

use strict;
use warnings;

use IO::Select;
use Socket qw(AF_UNIX SOCK_STREAM pack_sockaddr_un);

use constant TIMEOUT => 120;

sub connect    ## no critic
{
    my ($class, %arg) = @_;
    socket(my $socket, AF_UNIX, SOCK_STREAM, 0) or die "socket: $!\n";
    CORE::connect($socket, pack_sockaddr_un("$arg{dir}/.s.PGSQL.$arg{port}")) or return;
    binmode $socket;
    my $self = bless {
        socket => $socket,
        select => IO::Select->new($socket),
        input  => '',
        status => 'I',
        copy   => []
    }, $class;
    my $start = pack('N', 196608)
      . join('', map { "$_\0" } user => $arg{user}, database => $arg{database}, client_encoding => 'UTF8') . "\0";
    $self->write_all(pack('N', 4 + length $start) . $start);
    my $answer = $self->receive;
    return if $answer->{lost} || grep { $_->[0] eq 'error' } @{ $answer->{parts} };
    return $self;
}

sub pid    { return $_[0]{pid} }
sub status { return $_[0]{status} }

sub write_all
{
    my ($self, $bytes) = @_;
    local $SIG{PIPE} = 'IGNORE';
    while (length $bytes)
    {
        my $n = syswrite $self->{socket}, $bytes;
        return if !defined $n;    # the answer will tell
        substr $bytes, 0, $n, '';
    }
    return;
}

sub message { return $_[0] . pack('N', 4 + length $_[1]) . $_[1] }

# send(SQL, COPY...): COPY is what the statement's COPY FROM STDIN read, one after another
sub send    ## no critic
{
    my ($self, $sql, @copy) = @_;
    $self->{copy} = \@copy;
    utf8::encode($sql) if utf8::is_utf8($sql);
    $self->write_all(message('Q', "$sql\0"));
    return;
}

# the same by the extended protocol, at most so many rows (0: all)
sub send_extended
{
    my ($self, $sql, $rows) = @_;
    $self->{copy} = [];
    $self->write_all(message('P', "\0$sql\0" . pack('n', 0))
          . message('B', "\0\0" . pack('nnn', 0, 0, 0))
          . message('D', "P\0")
          . message('E', "\0" . pack('N', $rows))
          . message('S', ''));
    return;
}

sub close    ## no critic
{
    my ($self) = @_;
    $self->write_all(message('X', ''));
    CORE::close $self->{socket};
    return;
}

# The next message's type and body; nothing if there is none
sub next_message
{
    my ($self) = @_;
    for (;;)
    {
        if (length $self->{input} >= 5)
        {
            my ($type, $length) = unpack 'a N', $self->{input};
            if (length $self->{input} > $length)
            {
                my $body = substr $self->{input}, 5, $length - 4;
                substr $self->{input}, 0, $length + 1, '';
                return ($type, $body);
            }
        }
        if (!$self->{select}->can_read(TIMEOUT))
        {
            $self->{why} = 'no answer within ' . TIMEOUT . ' seconds';
            return;
        }
        my $n = sysread $self->{socket}, $self->{input}, 1 << 16, length $self->{input};
        if (!$n)
        {
            $self->{why} = 'the server closed the connection';
            return;
        }
    }
}

sub fields
{
    my ($body) = @_;
    return { map { $_ eq '' ? () : (substr($_, 0, 1) => substr $_, 1) } split /\0/, $body };
}

sub values_of
{
    my ($body) = @_;
    my ($n, $at, @row) = (unpack('n', $body), 2);
    for (1 .. $n)
    {
        my $length = unpack 'N', substr $body, $at, 4;
        $at += 4;
        if ($length == 0xffffffff)
        {
            push @row, undef;
            next;
        }
        push @row, substr $body, $at, $length;
        $at += $length;
    }
    return \@row;
}

sub receive
{
    my ($self) = @_;
    my @parts;
    while (my ($type, $body) = $self->next_message)
    {
        if    ($type eq 'D') { push @parts, [ row    => values_of($body) ] }
        elsif ($type eq 'C') { push @parts, [ tag    => substr $body, 0, -1 ] }
        elsif ($type eq 'E') { push @parts, [ error  => fields($body) ] }
        elsif ($type eq 'N') { push @parts, [ notice => fields($body) ] }
        elsif ($type eq 's') { push @parts, [ tag    => 'suspended' ] }
        elsif ($type eq 'I') { push @parts, [ tag    => '' ] }
        elsif ($type eq 'd') { push @parts, [ row    => [$body] ] }
        elsif ($type eq 'K') { $self->{pid} = unpack 'N', $body }
        elsif ($type eq 'G')
        {
            my $data = shift @{ $self->{copy} };
            $self->write_all(defined $data
                ? message('d', $data) . message('c', '')
                : message('f', "no data\0"));
        }
        elsif ($type eq 'Z')
        {
            $self->{status} = $body;
            return { status => $body, parts => \@parts };
        }
    }
    return { lost => $self->{why}, parts => \@parts };
}

# What one statement answers
sub ask
{
    my ($self, $sql) = @_;
    $self->send($sql);
    return $self->receive;
}

# The rows that one statement returns, which must not fail
sub rows
{
    my ($self, $sql) = @_;
    my $answer = $self->ask($sql);
    my ($error) = grep { $_->[0] eq 'error' } @{ $answer->{parts} };
    die "random: $error->[1]{M}: " . substr($sql, 0, 200) . "\n" if $error;
    die "random: $sql: $answer->{lost}\n" if $answer->{lost};
    return map { $_->[1] } grep { $_->[0] eq 'row' } @{ $answer->{parts} };
}

1;
