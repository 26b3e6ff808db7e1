# Updates of the extension
#
# Whoever installed an older version and says ALTER EXTENSION batchheap UPDATE
# has what a new installation has: the same objects, definitions, comments and
# privileges.  For that each version X has a script batchheap--X.sql, which stays
# when Y comes, and each step a script batchheap--X--Y.sql.
#
# As long as there is a single version, a made-up later one shows that the
# comparison finds what an update script forgot.  The server is told where that
# lies by extension_control_path, or Debian's extension_destdir.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use BatchheapTest;
use File::Copy qw(copy);
use File::Path qw(make_path);
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = "$FindBin::RealBin/..";
my $node = new_node('upgrade');
q1($node, 'CREATE DATABASE upgrade');

# What belongs to the extension, a line for each object
my $contents = q{
SELECT format('extension %s %s %s', extversion, extrelocatable, extconfig) FROM pg_extension WHERE extname = 'batchheap';
SELECT format('%s: %s; %s; %s', pg_describe_object(d.classid, d.objid, 0),
	CASE d.classid
		WHEN 'pg_proc'::regclass THEN
			(SELECT format('%s %s', pg_get_functiondef(p.oid), proacl) FROM pg_proc p WHERE p.oid = d.objid)
		WHEN 'pg_class'::regclass THEN
			(SELECT format('%s %s %s %s', relkind, reloptions, relacl,
				CASE WHEN relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid) END)
			 FROM pg_class c WHERE c.oid = d.objid)
			|| (SELECT string_agg(format('%s %s %s %s', attname, format_type(atttypid, atttypmod), attacl,
					col_description(attrelid, attnum)), ', ' ORDER BY attnum)
				FROM pg_attribute WHERE attrelid = d.objid AND attnum > 0)
		WHEN 'pg_am'::regclass THEN
			(SELECT format('%s %s', amtype, amhandler) FROM pg_am WHERE pg_am.oid = d.objid)
		WHEN 'pg_type'::regclass THEN    -- of a view's rows, and its array type
			(SELECT CASE WHEN typtype = 'c' OR typelem <> 0
				THEN format('%s %s %s', typrelid::regclass, typelem::regtype, typacl) ELSE 'nothing known' END
			 FROM pg_type t WHERE t.oid = d.objid)
		ELSE 'nothing known'
	END,
	obj_description(d.objid, d.classid::regclass::text),
	(SELECT initprivs FROM pg_init_privs i WHERE (i.classoid, i.objoid, i.objsubid) = (d.classid, d.objid, 0)))
FROM pg_depend d
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
	AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'batchheap')
ORDER BY pg_describe_object(d.classid, d.objid, 0) COLLATE "C";
};

# contents_after(SQL, SETTINGS): what the extension consists of after SQL
sub contents_after
{
	my ($sql, $settings) = @_;
	my ($status, $out, $err) = $node->psql('upgrade', ($settings // '') . "BEGIN; $sql; $contents ROLLBACK;");
	return $status == 0 ? $out : $err;
}

sub slurp
{
	return PostgreSQL::Test::Utils::slurp_file("$top/$_[0]");
}

#
# One version, whoever tells it
#

my ($version) = slurp('batchheap.control') =~ /^default_version = '([^']+)'$/m;
my $fresh = contents_after('CREATE EXTENSION batchheap');
like($fresh, qr/^extension \Q$version\E t /, "CREATE EXTENSION installs $version, of batchheap.control");
unlike($fresh, qr/nothing known/, 'all kinds of object can be compared');
is((slurp('CHANGELOG.md') =~ /^## (\S+)/m)[0], $version, 'CHANGELOG.md begins with it');

# PGXN wants three numbers
my $three = join('.', (split(/\./, $version), 0, 0)[ 0 .. 2 ]);
my $meta = decode_json(slurp('META.json'));
is_deeply([ $meta->{version}, $meta->{provides}->{batchheap}->{version} ], [ $three, $three ], "META.json has $three");

#
# From every version that can be installed to the newest
#

my @versions = map { m{/batchheap--((?:(?!--).)+)\.sql$} ? $1 : () } glob("$top/batchheap--*.sql");
ok((grep { $_ eq $version } @versions), "batchheap--$version.sql is there");
foreach my $old (@versions)
{
	is(contents_after("CREATE EXTENSION batchheap VERSION '$old'; ALTER EXTENSION batchheap UPDATE"),
		$fresh, "installed as $old and updated, it is like a new $version");
	is( contents_after(
			"CREATE EXTENSION batchheap VERSION '$old'; DROP EXTENSION batchheap; CREATE EXTENSION batchheap"),
		$fresh, "so it is when $old is dropped and $version created");
}

#
# A made-up version, with update scripts that are complete and that are not
#

my @setting = split /\|/, q1($node, q{
SELECT name, setting FROM pg_settings WHERE name IN ('extension_control_path', 'extension_destdir') ORDER BY name LIMIT 1});

SKIP:
{
	skip 'this server finds extensions only where they are installed', 6 unless @setting;

	my $made_up = '999';
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $scripts = "$dir/extension";
	my $settings = "SET $setting[0] = '$dir:" . ($setting[1] // '') . "';\n";
	if ($setting[0] eq 'extension_destdir')
	{
		# there, the library is looked for below the same directory
		my $library = loaded_library($node) or die 'where is the library?';
		my $libdir = $dir . $node->config_data('--pkglibdir');
		make_path($libdir);
		copy($library, $libdir) or die "could not copy $library: $!";
		chmod 0755, "$libdir/batchheap.so";
		$scripts = $dir . $node->config_data('--sharedir') . '/extension';
		$settings = "SET extension_destdir = '$dir';\n";
	}
	make_path($scripts);

	my @new = (
		"CREATE FUNCTION batchheap_new(i int) RETURNS int LANGUAGE sql AS 'SELECT 1';",
		"COMMENT ON FUNCTION batchheap_new(int) IS 'a comment';",
		'REVOKE ALL ON FUNCTION batchheap_new(int) FROM PUBLIC;',
		'COMMENT ON COLUMN pg_stat_progress_batchheap.pid IS \'another\';');
	PostgreSQL::Test::Utils::append_to_file("$scripts/batchheap.control",
		slurp('batchheap.control') =~ s/^default_version = .*/default_version = '$made_up'/mr);
	copy("$top/batchheap--$_.sql", $scripts) or die "could not copy: $!" foreach @versions;
	PostgreSQL::Test::Utils::append_to_file("$scripts/batchheap--$made_up.sql",
		join("\n", slurp("batchheap--$version.sql"), @new));

	my $new = contents_after('CREATE EXTENSION batchheap', $settings);
	like($new, qr/^extension $made_up .*batchheap_new/s, 'a later version is found');

	my $update = sub {
		my $file = "$scripts/batchheap--$version--$made_up.sql";
		unlink $file;
		PostgreSQL::Test::Utils::append_to_file($file, join("\n", @_));
		return contents_after("CREATE EXTENSION batchheap VERSION '$version'; ALTER EXTENSION batchheap UPDATE", $settings);
	};
	is($update->(@new), $new, 'a complete update script is');
	foreach my $left_out (1 .. $#new)
	{
		my $found = $update->(@new[ grep { $_ != $left_out } 0 .. $#new ]);
		ok($found =~ /^extension $made_up / && $found ne $new, "one without \"$new[$left_out]\" is found out");
	}
	my @changed = ($new[0] =~ s/SELECT 1/SELECT 2/r, @new[ 1 .. $#new ]);
	my $found = $update->(@changed);
	ok($found =~ /^extension $made_up .*SELECT 2/s && $found ne $new, 'one with another definition is found out');
}

finish_tests();
