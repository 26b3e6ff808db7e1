# package.pl - does META.json keep to PGXN's Meta Spec 1.0.0, and do all files
# that tell a version tell the same?
#
# usage: perl dev.d/package.pl [DIR]
#
# Prints what is wrong, and exits with 1 if anything is.

use strict;
use warnings FATAL => 'all';

use JSON::PP;

my $dir = shift // '.';
my @wrong;

sub wrong
{
	push @wrong, join(': ', @_);
	return;
}

sub slurp
{
	my ($name) = @_;
	open my $file, '<:raw', "$dir/$name" or die "could not read $dir/$name: $!\n";
	local $/;
	return scalar <$file>;
}

#
# Kinds of value; each takes the place and the value
#

my $number = qr/(?:0|[1-9][0-9]*)/;
my $semver = qr/$number\.$number\.$number(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z.-]+)?/;

sub matching
{
	my ($what, $pattern) = @_;
	return sub {
		my ($place, $value) = @_;
		wrong($place, "not $what") unless defined $value && !ref $value && $value =~ /\A$pattern\z/;
	};
}

my $text = matching('a text', qr/.*\S.*/s);
my $term = matching('a term', qr{[^\s[:cntrl:]/\\]{2,}});
my $tag = matching('a tag', qr{[^[:cntrl:]/\\]{1,256}});
my $version = matching('a version of three numbers', $semver);
my $versions = matching('a version or a list of ranges', qr/0|(?:[<>!=]=?|)\s*$semver(?:\s*,\s*(?:[<>!=]=?|)\s*$semver)*/);
my $url = matching('a URL', qr{[a-z][a-z0-9+.-]*://[^\s/?#]+\S*}i);
my $email = matching('an address', qr/\S+@\S+/);
my $license_name = matching('a license that PGXN knows', qr/agpl_3|apache_1_1|apache_2_0|artistic_1|artistic_2|bsd|freebsd|
	gfdl_1_2|gfdl_1_3|gpl_1|gpl_2|gpl_3|lgpl_2_1|lgpl_3_0|mit|mozilla_1_0|mozilla_1_1|openssl|perl_5|postgresql|qpl_1_0|
	ssleay|sun|zlib|open_source|restricted|unrestricted|unknown/x);

sub file
{
	my ($place, $value) = @_;
	$text->($place, $value);
	wrong($place, 'no such file') unless -f "$dir/" . ($value // '');
	return;
}

sub list_of
{
	my ($check) = @_;
	return sub {
		my ($place, $value) = @_;
		return $check->($place, $value) unless ref $value;
		return wrong($place, 'not a list with entries') unless ref $value eq 'ARRAY' && @$value;
		$check->("$place\[$_\]", $value->[$_]) foreach 0 .. $#$value;
	};
}

# a map with these keys, those with ! must be there; others begin with x_
sub map_with
{
	my (%keys) = @_;
	my %check = map { (s/!$//r => $keys{$_}) } keys %keys;
	return sub {
		my ($place, $value) = @_;
		return wrong($place, 'not a map') unless ref $value eq 'HASH';
		foreach my $key (map { /^(.+)!$/ ? $1 : () } sort keys %keys)
		{
			wrong("$place.$key", 'is missing') unless defined $value->{$key};
		}
		foreach my $key (sort keys %$value)
		{
			if ($check{$key}) { $check{$key}->("$place.$key", $value->{$key}) }
			elsif ($key !~ /^x_./i) { wrong("$place.$key", 'unknown') }
		}
	};
}

sub map_of
{
	my ($name, $check) = @_;
	return sub {
		my ($place, $value) = @_;
		return wrong($place, 'not a map with entries') unless ref $value eq 'HASH' && %$value;
		$name->("name of $place.$_", $_), $check->("$place.$_", $value->{$_}) foreach sort keys %$value;
	};
}

sub license
{
	my ($place, $value) = @_;
	return (ref $value eq 'HASH' ? map_of($text, $url) : list_of($license_name))->($place, $value);
}

my $packages = map_of($term, $versions);
my $phase = map_with(map { $_ => $packages } qw(requires recommends suggests conflicts));

my $distribution = map_with(
	'name!' => $term,
	'version!' => $version,
	'abstract!' => $text,
	'maintainer!' => list_of($text),
	'license!' => \&license,
	'provides!' => map_of($term,
		map_with('file!' => \&file, 'version!' => $version, abstract => $text, docfile => \&file)),
	'meta-spec!' => map_with('version!' => matching('1.0.0', qr/1\.0\.0/), url => $url),
	description => $text,
	generated_by => $text,
	tags => list_of($tag),
	no_index => map_with(file => list_of($text), directory => list_of($text)),
	prereqs => map_with(map { $_ => $phase } qw(configure build test runtime develop)),
	release_status => matching('a release status', qr/stable|testing|unstable/),
	resources => map_with(
		homepage => $url,
		bugtracker => map_with(web => $url, mailto => $email),
		repository => map_with(url => $url, web => $url, type => matching('in small letters', qr/[a-z]+/))));

my $meta = eval { JSON::PP->new->utf8->decode(slurp('META.json')) };
if (!defined $meta)
{
	print "META.json: not JSON: $@";
	exit 1;
}
$distribution->('META.json', $meta);

#
# One version
#

my ($default) = slurp('batchheap.control') =~ /^default_version = '([^']+)'$/m;
die "batchheap.control: no default_version\n" unless defined $default;
# PGXN wants three numbers
my $three = join('.', (split(/\./, $default), 0, 0)[ 0 .. 2 ]);

sub same
{
	my ($place, $expected, $value) = @_;
	wrong($place, ($value // 'nothing') . " in place of $expected") unless ($value // '') eq $expected;
	return;
}

if (!@wrong)
{
	same('META.json: version', $three, $meta->{version});
	same('META.json: provides', 'batchheap', join(' ', sort keys %{ $meta->{provides} }));
	same('META.json: version of batchheap', $three, $meta->{provides}->{batchheap}->{version});
	same('META.json: file of batchheap', "batchheap--$default.sql", $meta->{provides}->{batchheap}->{file});
}
same('CHANGELOG.md', $default, slurp('CHANGELOG.md') =~ /^## (\S+)/m);
same('debian/changelog', $default, slurp('debian/changelog') =~ /\Abatchheap \((.+)-[^-]+\)/);

print "$_\n" foreach @wrong;
exit(@wrong ? 1 : 0);
