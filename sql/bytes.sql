-- What is stored, byte by byte.  A row is laid out in memory that others have
-- used before: alignment and the null bitmap leave gaps, and what was there
-- must not get into the table.  heap, which zeroes each row, is the oracle.
\set ECHO none
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/include/setup.psql
\set ECHO all

-- Small batches, so that the memory is used again many times
SET batchheap.max_batch_rows = 5;

-- Values of each length and alignment, and a text that fills memory with
-- non-zero bytes
CREATE TABLE kinds (n serial, type text, value text);
INSERT INTO kinds (type, value) VALUES
    ('boolean', 'true'),
    ('"char"', '''z'''),
    ('smallint', '-1'),
    ('integer', '-i'),
    ('bigint', '-i'),
    ('real', '-1.5'),
    ('double precision', '-1.5'),
    ('text', '''s'''),
    ('text', 'repeat(''t'', i % 130)'),
    ('text', 'repeat(''u'', 200)'),
    ('numeric', 'i * 1.1'),
    ('name', '''n'' || i'),
    ('uuid', '''ffffffff-ffff-ffff-ffff-ffffffffffff'''),
    ('timetz', '''12:34:56.789-11:30'''),
    ('interval', 'make_interval(months => -i, secs => i)'),
    ('macaddr', '''ff:ff:ff:ff:ff:ff'''),
    ('macaddr8', '''ff:ff:ff:ff:ff:ff:ff:ff'''),
    ('point', 'point(i, -i)'),
    ('tid', '''(4294967295,65535)'''),
    ('inet', '''255.255.255.255'''),
    ('varbit', 'B''1111111'''),
    ('int[]', 'ARRAY[i, NULL, -i]'),
    ('bytea', '''\xffffff''::bytea');
SELECT count(*) AS kinds FROM kinds \gset

-- Tables of 1 to 10 of these in ever other orders, in three ways: no NULL, some
-- NULL at each place, hardly anything but NULL
DO $$
DECLARE
    kinds constant int := (SELECT count(*) FROM kinds);
    list text;
    result text;
BEGIN
    FOR t IN 0..110 LOOP
        SELECT string_agg(format(CASE t % 3 WHEN 0 THEN '%1$s' WHEN 1 THEN 'CASE WHEN (i * 7 + %3$s) %% 11 > 2 THEN %1$s END'
                                            ELSE 'CASE WHEN i %% 11 = %3$s THEN %1$s END' END,
                                 format('(%s)::%s', k.value, k.type), k.type, c) || ' AS c' || c, ', ' ORDER BY c)
            INTO list
            FROM generate_series(0, t % 10) c, kinds k
            WHERE k.n = (t * (t % 5 + 1) + c * (t % 4 * 2 + 1)) % kinds + 1;
        EXECUTE format('CREATE TABLE h USING heap AS SELECT %s FROM generate_series(1, 60) i', list);
        EXECUTE format('CREATE TABLE b USING batchheap AS SELECT %s FROM generate_series(1, 60) i', list);
        result := pg_temp.same_bytes('h', 'b');
        IF result <> 'same bytes, 60 rows' THEN
            RAISE WARNING '%: %', result, list;
        END IF;
        SET LOCAL batchheap.page_writer = on;
        EXECUTE format('CREATE TABLE p USING batchheap AS SELECT %s FROM generate_series(1, 60) i', list);
        SET LOCAL batchheap.page_writer = off;
        result := pg_temp.same_bytes('h', 'p');
        IF result <> 'same bytes, 60 rows' THEN
            RAISE WARNING 'page writer: %: %', result, list;
        END IF;
        DROP TABLE h, b, p;
    END LOOP;
END $$;
SELECT counter, value FROM batchheap_counters() WHERE counter IN ('loads', 'rows_batched', 'rows_frozen');

-- The same from minimal tuples and from tuples on pages
CREATE PROCEDURE pg_temp.load(query text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'CREATE TABLE h USING heap AS ' || query;
    EXECUTE 'CREATE TABLE b USING batchheap AS ' || query;
    RAISE NOTICE '%, %', pg_temp.twin('h', 'b'), pg_temp.same_bytes('h', 'b');
    SET LOCAL batchheap.page_writer = on;
    EXECUTE 'CREATE TABLE p USING batchheap AS ' || query;
    RAISE NOTICE 'page writer: %', pg_temp.same_bytes('h', 'p');
    DROP TABLE h, b, p;
END $$;
CREATE TABLE source AS SELECT i, true AS a, i::bigint AS b, CASE WHEN i % 3 > 0 THEN 's'::text END AS c,
    i::smallint AS d, repeat('x', i % 200) AS e, '12:00'::timetz AS f, CASE WHEN i % 2 > 0 THEN 1.5::real END AS g
    FROM generate_series(1, 500) i;
CALL pg_temp.load('SELECT * FROM source');
CALL pg_temp.load('SELECT * FROM source ORDER BY e DESC, i');
CALL pg_temp.load('SELECT c, a, b, g, d, f FROM source');
CALL pg_temp.load('SELECT a, g FROM source ORDER BY i DESC');

-- Rewriting a table forms its rows anew, dropped columns as NULL
SELECT format('CREATE TABLE %1$s USING %2$s AS TABLE source; ALTER TABLE %1$s DROP b, DROP e;
    ALTER TABLE %1$s ALTER d TYPE bigint, ADD z "char" NOT NULL DEFAULT ''z''', t, am) FROM twins \gexec
SELECT pg_temp.same_bytes('h', 'b');
DROP TABLE h, b;

-- Nothing of a load is in the rows of the next one, nor on a page beyond its
-- rows: all bytes of the pages outside of tuple headers
CREATE TABLE b0 USING batchheap AS SELECT repeat('secret', 30) AS s FROM generate_series(1, 500);
CREATE TABLE b USING batchheap AS
    SELECT CASE WHEN i % 2 = 0 THEN true END AS a, i::bigint AS b, CASE WHEN i % 3 = 0 THEN i::bigint END AS c
    FROM generate_series(1, 2000) i;
SET batchheap.page_writer = on;
CREATE TABLE p0 USING batchheap AS SELECT repeat('secret', 30) AS s FROM generate_series(1, 500);
CREATE TABLE p USING batchheap AS TABLE b;
RESET batchheap.page_writer;
SELECT rel, count(*) AS pages, bool_or(position('\x736563'::bytea IN page) > 0) AS leaks
    FROM unnest('{b,p}'::text[]) rel, generate_series(0, pg_relation_size(rel::regclass) / current_setting('block_size')::int - 1) block,
         get_raw_page(rel, 'main', block::int) page
    GROUP BY rel ORDER BY rel;
DROP TABLE b0, b, p0, p, source, kinds;

--
-- Values that are not flat, or are packed, when they come
--
SET batchheap.max_batch_rows = 100;

-- Arrays built up element by element, in whose place the next one is built;
-- composites of arrays, arrays of composites, domains
CREATE TYPE pair AS (a int[], b text);
CREATE DOMAIN doc AS jsonb CHECK (value ? 'i');
CREATE DOMAIN ints AS int[] CHECK (cardinality(value) < 1000);
CREATE FUNCTION build_array(n int) RETURNS int[] LANGUAGE plpgsql AS $$
DECLARE a int[];
BEGIN FOR i IN 1..n % 40 LOOP a[i] := i * n; END LOOP; RETURN a; END $$;
CREATE FUNCTION build_texts(n int) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE a text[];
BEGIN FOR i IN 1..n % 9 LOOP a := a || repeat('e', i * n % 31); END LOOP; RETURN a; END $$;
CREATE FUNCTION build_pair(n int) RETURNS pair LANGUAGE plpgsql AS $$
DECLARE p pair;
BEGIN p.a[3] := n; p.a[2] := -n; p.b := 'pair ' || n; RETURN p; END $$;
CREATE FUNCTION build_pairs(n int) RETURNS pair[] LANGUAGE plpgsql AS $$
DECLARE p pair[];
BEGIN FOR i IN 1..n % 5 LOOP p[i] := build_pair(i); p[i].a[1] := n; END LOOP; RETURN p; END $$;
CREATE FUNCTION build_doc(n int) RETURNS doc LANGUAGE plpgsql AS
    'BEGIN RETURN jsonb_build_object(''i'', n, ''a'', build_array(n)); END';
CREATE FUNCTION build_ints(n int) RETURNS ints LANGUAGE plpgsql AS
    'DECLARE a ints; BEGIN a[n % 3 + 1] := n; RETURN a; END';
CALL pg_temp.load('SELECT i, build_array(i) AS a FROM generate_series(1, 450) i');
CALL pg_temp.load('SELECT build_texts(i) AS a, build_array(i) AS b, i FROM generate_series(1, 450) i');
CALL pg_temp.load('SELECT i % 2 = 0 AS b, build_pair(i) AS p FROM generate_series(1, 450) i');
CALL pg_temp.load('SELECT build_pairs(i) AS p FROM generate_series(1, 450) i');
CALL pg_temp.load('SELECT build_doc(i) AS d, build_ints(i) AS a FROM generate_series(1, 450) i');
CALL pg_temp.load('SELECT (build_pair(i)).* FROM generate_series(1, 450) i');
SELECT pg_temp.counted() \g /dev/null

-- One whose flat size is more than the ring has left, and more than the ring
SET batchheap.max_batch_size = 8;
CREATE FUNCTION build_large(n int) RETURNS int[] LANGUAGE plpgsql AS $$
DECLARE a int[];
BEGIN FOR i IN 1..n LOOP a[i] := i % 3; END LOOP; RETURN a; END $$;
SELECT format('CREATE TABLE %s USING %s AS SELECT i, build_large(i * 211) AS a FROM generate_series(1, 15) i', t, am) FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.vm('b');
DROP TABLE h, b;
RESET batchheap.max_batch_size;

-- Types of the user's own decide how a value is packed: one that may never be
SET client_min_messages = warning;
CREATE TYPE solid;
CREATE FUNCTION solid_in(cstring) RETURNS solid LANGUAGE internal IMMUTABLE STRICT AS 'textin';
CREATE FUNCTION solid_out(solid) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout';
CREATE TYPE solid (INPUT = solid_in, OUTPUT = solid_out, STORAGE = plain, ALIGNMENT = double);
RESET client_min_messages;
CALL pg_temp.load('SELECT true AS a, repeat(''s'', i % 50)::text::solid AS s, false AS b FROM generate_series(1, 450) i');

DROP FUNCTION build_array, build_texts, build_pair, build_pairs, build_doc, build_ints, build_large;
DROP TYPE pair;
DROP DOMAIN doc, ints;
SET client_min_messages = warning;
DROP TYPE solid CASCADE;
