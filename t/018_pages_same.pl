# What the page writer leaves in the WAL and in the files
#
# The same rows are loaded by heap_multi_insert(), from the ring, and by the
# page writer.  The WAL has the same records of the table in the same order,
# and the files have the same bytes, but for what is said here:
#
# - A batch of the ring may end in the middle of a page, which then has several
#   records.  With a ring that holds the whole load there is no such page.
# - The flag that tells logical decoding of the end of an insertion is set on
#   the last page that is written in one go: the load's, or one of each 16.
# - The visibility map is logged once for each of its pages, at the end, and
#   not once for each page of the table.
# - In the files: LSNs, checksums, the xid of the load, the free space between
#   line pointers and rows, and which OIDs TOAST pointers have.
#
# BATCHHEAP_LONG=1: a table of more than 1 GB, whose visibility map has several
# pages, too.

use strict;
use warnings FATAL => 'all';

use Digest::MD5 qw(md5_hex);
use FindBin;
use lib $FindBin::RealBin;
use BatchheapTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('same', init => { allows_streaming => 1, extra => ['--data-checksums'] });

if (!grep { $_ eq 'on' } page_writer_modes($node))
{
	plan skip_all => 'there is no page writer';
}

my $blcksz = q1($node, 'SHOW block_size');
my $run = 16;

# XLH_INSERT_LAST_IN_MULTI, XLH_INSERT_ALL_FROZEN_SET
my ($last_in_multi, $all_frozen_set) = (0x02, 0x20);

# [ name, columns, options of the table, rows, what to expect ]; at most 10,000
# rows, of at most 16 MB, so that a ring can hold them
my @shapes = (
	[ 'narrow', 'i int, j bigint, k smallint', '', 'SELECT i, i * 7::bigint, (i % 77)::int2 FROM generate_series(1, 9000) i' ],
	[ 'wide', 'i int, t text', '', 'SELECT i, repeat(md5(i::text), 8 + i % 53) FROM generate_series(1, 3000) i' ],
	[ 'toasted', 'i int, t text, u text', '', q{
		SELECT i, CASE WHEN i % 5 = 0 THEN (SELECT string_agg(md5((i * 1000 + k)::text), '') FROM generate_series(1, 70 + i % 90) k)
			ELSE 'short ' || i END, repeat('compressed', 300 * (i % 3))
		FROM generate_series(1, 1500) i} ],
	[ 'nulls', 'a int, b text, c numeric, d "char", e name', '', q{
		SELECT nullif(i % 3, 0), CASE WHEN i % 4 > 0 THEN 'b' || i END, nullif(i % 5, 1) / 7.0, CASE WHEN i % 6 = 0 THEN 'x' END,
			CASE WHEN i % 10 = 0 THEN 'name' END
		FROM generate_series(1, 7000) i} ],
	[ 'half full', 'i int, t text', 'WITH (fillfactor = 50)', q{SELECT i, repeat('t', i % 200) FROM generate_series(1, 5000) i} ],
	[ 'one page', 'i int', '', 'SELECT generate_series(1, 200)' ],
	[ 'a run', 'i int', '', "SELECT generate_series(1, 226 * $run)" ],
	[ 'no columns', '', '', 'SELECT FROM generate_series(1, 3000)' ],
	# a row that fits only on a page where nothing is to be kept free
	[ 'nearly empty', 'i int, t text', 'WITH (fillfactor = 10)', q{SELECT i, repeat('t', (1 - i % 2) * 730) FROM generate_series(1, 600) i} ]);

# the ways to load, and the settings for them
my @ways = (
	[ 'whole', q{SET batchheap.page_writer = off; SET batchheap.max_batch_rows = 10000; SET batchheap.max_batch_size = '16MB';} ],
	[ 'ring', 'SET batchheap.page_writer = off;' ],
	[ 'pages', 'SET batchheap.page_writer = on;' ]);

# How a table gets its rows
my %loads = (
	create => sub {
		my ($table, $columns, $options, $select) = @_;
		my $names = join(', ', map { (split ' ', $_)[0] } split(/, /, $columns));
		return "CREATE TABLE $table" . ($names eq '' ? '' : " ($names)") . " USING batchheap $options AS $select;";
	},
	truncate => sub {
		my ($table, $columns, $options, $select) = @_;
		return "BEGIN; TRUNCATE $table; INSERT INTO $table $select; COMMIT;";
	});

# What is in the WAL about a relation from one LSN to another: a hash for each record
sub records
{
	my ($from, $to, $relation) = @_;
	my ($out, $err) = ('', '');
	my @records;

	IPC::Run::run([ 'pg_waldump', '-p', $node->data_dir . '/pg_wal', '-s', $from, '-e', $to, '-R', $relation ],
		'>', \$out, '2>', \$err) or die "pg_waldump: $err";
	foreach my $line (split /\n/, $out)
	{
		my ($rmgr, $rec, $tot, $desc) =
		  $line =~ m{^rmgr: (\S+)\s+len \(rec/tot\):\s*(\d+)/\s*(\d+),.*? desc: (.*)$}
		  or die "cannot read: $line";
		my ($blkref) = $desc =~ m{(blkref #0: rel .*)$} or die "no block: $line";
		my ($fork, $block) = $blkref =~ m{rel [\d/]+ (?:fork (\w+) )?blk (\d+)} or die "no block: $line";
		my ($type) = $desc =~ /^([A-Z_]+(?:\+INIT)?)/;
		my $record = { type => "$rmgr $type", fork => $fork // 'main', block => $block, rec => $rec, tot => $tot };

		if ($type =~ /^MULTI_INSERT/)
		{
			# 15: "226 tuples flags 0x20"; later: "ntuples: 226, flags: 0x20"
			my ($n, $flags) = $desc =~ /(\d+) tuples flags (0x[0-9a-fA-F]+)/;
			($n, $flags) = $desc =~ /ntuples: (\d+), flags: (0x[0-9a-fA-F]+)/ unless defined $n;
			die "cannot read: $line" unless defined $flags;
			$record->{tuples} = $n;
			$record->{flags} = hex($flags);
		}
		push @records, $record;
	}
	return @records;
}

sub is_insert { return $_[0]->{type} =~ /^Heap2 MULTI_INSERT/ }

# all of a record but the flag for logical decoding
sub in_words
{
	my ($record) = @_;
	return sprintf('%s block %d: %d tuples, flags 0x%02x, length %d/%d',
		$record->{type}, $record->{block}, $record->{tuples}, $record->{flags} & ~$last_in_multi,
		$record->{rec}, $record->{tot});
}

# records of the same page made into one
sub joined
{
	my @pages;
	foreach (@_)
	{
		if (@pages && $pages[-1]->{block} == $_->{block})
		{
			$pages[-1]->{tuples} += $_->{tuples};
			$pages[-1]->{flags} |= $_->{flags};
			next;
		}
		push @pages, {%$_};
	}
	return map { sprintf('%s block %d: %d tuples, flags 0x%02x', $_->{type}, $_->{block}, $_->{tuples}, $_->{flags} & ~$last_in_multi) } @pages;
}

#
# The WAL
#

my @compared;
my ($all_records, $all_joined) = (0, 0);

foreach my $load (sort keys %loads)
{
	foreach my $shape (@shapes)
	{
		my ($name, $columns, $options, $select) = @$shape;
		my (%records, %files);

		$name = "$load, $name";
		foreach (@ways)
		{
			my ($way, $set) = @$_;
			my $table = "${way}_$name" =~ s/\W+/_/gr;

			q1($node, "CREATE TABLE $table ($columns) USING batchheap $options") if $load eq 'truncate';
			my $from = q1($node, 'SELECT pg_current_wal_insert_lsn()');
			q1($node, $set . $loads{$load}->($table, $columns, $options, $select));
			my ($relation, $to);
			($relation, $to, $files{$way}, $files{"$way toast"}) = split /\|/, q1($node, qq{
SELECT format('%s/%s/%s', dattablespace, oid, pg_relation_filenode('$table')),
	pg_current_wal_insert_lsn(),
	pg_relation_filepath('$table'),
	coalesce((SELECT pg_relation_filepath(nullif(reltoastrelid, 0)) FROM pg_class WHERE oid = '$table'::regclass), '')
FROM pg_database WHERE datname = current_database()}), -1;
			# have the WAL in the file up to there
			q1($node, q{SELECT pg_logical_emit_message(true, '', '') IS NOT NULL});
			$records{$way} = [ records($from, $to, $relation) ];
		}

		# from 16 on, a row that begins a batch may get a new page instead of a
		# nearly empty one
		my @same = $name =~ /nearly empty/ && $node->pg_version >= 16 ? ('whole') : ('whole', 'ring');
		push @compared, [ $name, \%files, @same ];

		my %inserts = map { $_ => [ grep { is_insert($_) && $_->{fork} eq 'main' } @{ $records{$_} } ] } keys %records;
		my @pages = @{ $inserts{pages} };
		my $npages = @pages;

		# the page writer's own
		is(join(' ', map { $_->{block} } @pages), join(' ', 0 .. $npages - 1), "$name: one record for each page, in order");
		is(scalar(grep { $_->{type} ne 'Heap2 MULTI_INSERT+INIT' || !($_->{flags} & $all_frozen_set) } @pages),
			0, "$name: each fills an empty page with frozen rows");
		is(join(' ', map { $_->{block} } grep { $_->{flags} & $last_in_multi } @pages),
			join(' ', grep { $_ % $run == $run - 1 || $_ == $npages - 1 } 0 .. $npages - 1),
			"$name: end of insertion on the last page of each $run, and of the load")
		  unless $name =~ /toasted/;
		ok($pages[-1]->{flags} & $last_in_multi, "$name: end of insertion on the last page");

		# the same as the ring's
		if ($name !~ /nearly empty/)
		{
			is_deeply([ map { in_words($_) } @pages ], [ map { in_words($_) } @{ $inserts{whole} } ],
				"$name: the same records as from a ring that holds all rows");
			$all_records += $npages;
		}
		is_deeply([ joined(@pages) ], [ joined(@{ $inserts{$_} }) ], "$name: the same pages as from the ring ($_)")
		  foreach @same;
		$all_joined += @{ $inserts{ring} };

		# the visibility map
		my @map = grep { $_->{fork} eq 'vm' } @{ $records{pages} };
		is(join(', ', map { "$_->{type} block $_->{block}" } @map), 'XLOG FPI block 0', "$name: the map is logged once");
		is($records{pages}->[-1]->{fork}, 'vm', "$name: ... at the end");
		is(scalar(grep { $_->{type} eq 'Heap2 VISIBLE' } @{ $records{$_} }), $npages,
			"$name: from the ring ($_), once for each page")
		  foreach @same;

		# and nothing else
		is(join(' ', grep { $_ !~ /^(Heap2 (MULTI_INSERT|VISIBLE)|Storage CREATE)/ }
				  map { $_->{type} } @{ $records{whole} }, @{ $records{ring} }), '', "$name: no other records, ring");
		is(scalar(@{ $records{pages} }), $npages + 1, "$name: no other records, page writer");
	}
}
# unlogged, as it is for the files
if (long_run())
{
	my %files;

	foreach ([ 'ring', 'off' ], [ 'pages', 'on' ])
	{
		my ($way, $mode) = @$_;
		q1($node, set_writer($mode) . qq{
CREATE UNLOGGED TABLE ${way}_large USING batchheap WITH (fillfactor = 10) AS
	SELECT i, repeat('t', 900) FROM generate_series(1, 131072 + 20) i});
		$files{$way} = q1($node, "SELECT pg_relation_filepath('${way}_large')");
	}
	is(q1($node, 'SELECT pg_relation_size(\'pages_large\') / current_setting(\'block_size\')::int'), 131072 + 20,
		'large: one row on each page');
	map_is_sound($node, 'pages_large');
	push @compared, [ 'large', \%files, 'ring' ];
}
note("$all_records records compared one by one, $all_joined of the ring joined by page");

#
# The files
#

q1($node, 'CHECKPOINT');
$node->stop;
command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'checksums are right');

# What is on the pages of a file of a table, with what may differ blotted out: a
# digest for each page, as files may be large.  Returns the xids of the rows, too.
sub pages_of
{
	my ($file) = @_;
	my (@pages, %xids, $page);

	open my $in, '<:raw', $node->data_dir . "/$file" or die "could not open $file: $!";
	while (my $length = read($in, $page, $blcksz))
	{
		die "$file has part of a page" if $length != $blcksz;
		if ($page =~ /^\0*$/)
		{
			push @pages, 'empty';
			next;
		}

		# LSN and checksum
		substr($page, 0, 10) = '-' x 10;
		if ($file !~ /_vm$/)
		{
			my ($lower, $upper) = unpack('x12 S S', $page);

			substr($page, $lower, $upper - $lower) = '-' x ($upper - $lower);
			for (my $item = 24; $item < $lower; $item += 4)
			{
				my $pointer = unpack('L', substr($page, $item, 4));
				my ($offset, $length) = ($pointer & 0x7fff, $pointer >> 17);
				my $tuple = substr($page, $offset, $length);

				$xids{ unpack('L', $tuple) } = 1;
				substr($tuple, 0, 4) = '----';

				# OIDs of the value and of its table, in a TOAST pointer
				$tuple =~ s/(\x01\x12.{8}).{8}/$1--------/gs;
				substr($page, $offset, $length) = $tuple;
			}
		}
		push @pages, md5_hex($page);
	}
	close $in;

	# from 16 on, the ring may add a few pages too many
	pop @pages while @pages && $pages[-1] eq 'empty';
	return ([@pages], [ keys %xids ]);
}

# the same for a file and the segments that follow it, a segment at a time
sub segments_of
{
	my ($file) = @_;
	my @segments = ($file);
	push @segments, "$file." . @segments while -e $node->data_dir . "/$file." . @segments;
	return @segments;
}

sub difference
{
	my ($one, $other) = @_;

	return scalar(@$one) . ' and ' . scalar(@$other) . ' pages' if @$one != @$other;
	my @different = grep { $one->[$_] ne $other->[$_] } 0 .. $#$one;
	return "block $different[0], and " . $#different . ' more' if @different;
	return '';
}

my ($all_pages, $all_map_pages) = (0, 0);
foreach (@compared)
{
	my ($name, $files, @same) = @$_;
	my @segments = segments_of($files->{pages});
	my ($map) = pages_of("$files->{pages}_vm");
	my %xids;

	foreach my $way (@same)
	{
		my @others = segments_of($files->{$way});
		my ($other_map) = pages_of("$files->{$way}_vm");

		is(scalar(@others), scalar(@segments), "$name: as many files as from the ring ($way)");
		foreach my $i (0 .. $#segments)
		{
			my ($pages, $xids) = pages_of($segments[$i]);
			my ($others) = pages_of($others[$i]);

			is(difference($pages, $others), '', "$name: file $i of the main fork as from the ring ($way)");
			is(-s $node->data_dir . "/$others[$i]", -s $node->data_dir . "/$segments[$i]", "$name: as many pages as from the ring ($way)")
			  if $node->pg_version < 16;
			$xids{$_} = 1 foreach @$xids;
			$all_pages += @$pages;
		}
		is(difference($map, $other_map), '', "$name: visibility map as from the ring ($way)");
		$all_map_pages += @$map;
	}
	is(scalar(keys %xids), 1, "$name: rows are of one transaction");
	if ($name =~ /toasted/)
	{
		my ($toast) = pages_of($files->{'pages toast'});
		cmp_ok(scalar(@$toast), '>', 1, "$name: there are values in the TOAST table");
	}
	ok(!-e $node->data_dir . "/$files->{pages}_fsm", "$name: no free space map");
}
note("$all_pages pages of tables and $all_map_pages of visibility maps compared");
$node->start;

finish_tests();
