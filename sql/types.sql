-- All types: a table with a column of each, through every kind of slot, forms
-- the same rows on batchheap as on heap.
\set ECHO none
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/include/setup.psql
\set ECHO all

CREATE TYPE mood AS ENUM ('fair', 'foul');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN code AS text CHECK (length(value) < 50);
CREATE DOMAIN pair_domain AS pair CHECK ((value).a > -1000000);
CREATE TYPE textrange AS RANGE (subtype = text, collation = "C");

-- As text, so that each is put in by its type's own input function
CREATE TABLE samples (type text, value text);
INSERT INTO samples VALUES
    ('boolean', 'i % 2 = 0'), ('"char"', 'chr(65 + i % 26)'), ('name', '''name '' || i'), ('smallint', 'i - 500'),
    ('integer', 'i * -1000'), ('bigint', 'i * 10000000000'), ('real', 'i / 3.0'), ('double precision', 'CASE WHEN i % 9 = 0 THEN ''NaN'' ELSE (i / 7.0)::text END'),
    ('numeric', 'CASE i % 5 WHEN 0 THEN ''NaN'' WHEN 1 THEN ''-Infinity'' ELSE (i ^ (i % 20))::text END'), ('numeric(20,5)', 'i / 11.0'), ('money', 'i'),
    ('text', 'repeat(''t'', i % 300)'), ('varchar(20)', 'repeat(''v'', i % 20)'), ('char(10)', 'i'), ('bytea', '''\x00'' || repeat(''ff'', i % 9)'),
    ('date', 'date ''2000-02-29'' + i'), ('time', 'time ''0:00'' + make_interval(mins => i)'), ('timetz', '''12:00:00-'' || (i % 12)'),
    ('timestamp', 'CASE WHEN i % 10 = 0 THEN ''infinity'' ELSE (timestamp ''1999-12-31'' + make_interval(hours => i))::text END'),
    ('timestamptz', 'timestamptz ''1999-12-31 0:00+0'' - make_interval(hours => i)'), ('interval', 'make_interval(i, 1, i)'),
    ('uuid', 'md5(i::text)'), ('inet', '''10.0.'' || i % 255 || ''.1/'' || i % 33'), ('cidr', 'CASE WHEN i % 2 = 0 THEN ''::1/128'' ELSE ''10.0.0.0/8'' END'),
    ('macaddr', '''08:00:2b:01:02:'' || lpad(to_hex(i % 256), 2, ''0'')'), ('macaddr8', '''08:00:2b:01:02:03:04:'' || lpad(to_hex(i % 256), 2, ''0'')'),
    ('bit(5)', 'i::bit(5)'), ('varbit', 'repeat(''10'', i % 40)'), ('point', 'point(i, -i)'), ('line', '''{1,2,'' || i || ''}'''), ('lseg', 'lseg(point(0, i), point(i, 0))'),
    ('box', 'box(point(0, 0), point(i, i))'), ('path', '''((0,0),(1,1),('' || i || '',2))'''), ('polygon', '''((0,0),(1,1),('' || i || '',2))'''), ('circle', 'circle(point(i, i), i)'),
    ('json', 'json_build_object(''i'', i)'), ('jsonb', 'jsonb_build_object(''i'', i, ''a'', ARRAY[i, i])'), ('jsonpath', '''$.a['' || i || '']'''),
    ('tsvector', '''word'' || i || '':1 other:2'''), ('tsquery', '''word'' || i || '' & other'''), ('int4range', 'int4range(i, i + 5)'), ('int8range', 'CASE WHEN i % 3 = 0 THEN ''empty'' ELSE int8range(i, NULL)::text END'),
    ('numrange', 'numrange(i, i + 0.5, ''[]'')'), ('daterange', 'daterange(date ''2020-01-01'', date ''2020-01-02'' + i)'), ('int4multirange', 'int4multirange(int4range(1, 3), int4range(i + 5, i + 9))'),
    ('textrange', 'textrange(''a'', ''b'' || i)'), ('oid', 'i'), ('xid', 'i'), ('xid8', 'i'), ('cid', 'i'), ('tid', '''('' || i || '',1)'''), ('pg_lsn', '''0/'' || to_hex(i)'),
    ('pg_snapshot', '''10:'' || 20 + i || '':12'''), ('regtype', '''integer'''), ('regclass', '''pg_class'''), ('regproc', '''now'''), ('regnamespace', '''pg_catalog'''),
    ('refcursor', '''cursor '' || i'), ('oidvector', '''1 2 '' || i'), ('int2vector', '''3 4 '' || i % 100'), ('int[]', 'ARRAY[i, NULL, -i]'), ('text[]', 'ARRAY[[repeat(''a'', i % 30)], [NULL]]'),
    ('boolean[]', 'array_fill(true, ARRAY[i % 9])'), ('numeric[]', 'ARRAY[i / 7.0]'), ('mood', 'CASE WHEN i % 2 = 0 THEN ''fair'' ELSE ''foul'' END'), ('mood[]', '''{fair,foul}'''),
    ('pair', '''('' || i || '',"x y")'''), ('pair[]', '''{"(1,a)","('' || i || '',)"}'''), ('pair_domain', '''(1,'' || i || '')'''), ('code', '''code '' || i'), ('code[]', 'ARRAY[''c'' || i]');
SELECT count(*) AS types FROM samples;

CREATE PROCEDURE pg_temp.load(query text, ordered boolean DEFAULT true) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'CREATE TABLE h USING heap AS ' || query;
    EXECUTE 'CREATE TABLE b USING batchheap AS ' || query;
    RAISE NOTICE '%, %', pg_temp.twin('h', 'b'), CASE WHEN ordered THEN pg_temp.same_bytes('h', 'b') ELSE 'in any order' END;
    SET LOCAL batchheap.page_writer = on;
    EXECUTE 'CREATE TABLE p USING batchheap AS ' || query;
    RAISE NOTICE 'page writer: %', CASE WHEN ordered THEN pg_temp.same_bytes('h', 'p') ELSE pg_temp.twin('h', 'p') END;
    DROP TABLE h, b, p;
    PERFORM batchheap_counters_reset();
END $$;

-- No row of this is large enough for anything to be moved out of line, or the
-- bytes could not be compared
SELECT string_agg(format('(%s)::text::%s AS c%s', value, type, n), ', ' ORDER BY n) AS all_types,
       string_agg(format('CASE WHEN (i * 5 + %3$s) %% 7 > 2 THEN (%1$s)::text::%2$s END AS c%3$s', value, type, n), ', ' ORDER BY n) AS some_types,
       string_agg(format('CASE WHEN i %% 80 = %3$s THEN (%1$s)::text::%2$s END AS c%3$s', value, type, n), ', ' ORDER BY n DESC) AS few_types
    FROM (SELECT *, row_number() OVER () AS n FROM samples) s \gset
SELECT format('CREATE TABLE source AS SELECT i, %s FROM generate_series(1, 400) i', :'some_types') AS make_source \gset
\set ECHO none
:make_source;
\set ECHO all
SELECT avg(pg_column_size(source)) BETWEEN 500 AND 1900 AS size_is_right FROM source;

-- Projected
CALL pg_temp.load(format('SELECT %s FROM generate_series(1, 200) i', :'all_types'));
CALL pg_temp.load(format('SELECT %s FROM generate_series(1, 200) i', :'some_types'));
CALL pg_temp.load(format('SELECT %s FROM generate_series(1, 200) i', :'few_types'));
-- Scanned, sorted
CALL pg_temp.load('SELECT * FROM source');
CALL pg_temp.load('SELECT * FROM source ORDER BY i % 7, i DESC');
-- From workers
CALL pg_temp.cheap_gathers();
SELECT pg_temp.plan_has('Gather', 'SELECT * FROM source');
CALL pg_temp.load('SELECT * FROM source', ordered => false);
CALL pg_temp.load('SELECT * FROM source ORDER BY i');
SET max_parallel_workers_per_gather = 0;

-- Through each of the other commands
CREATE TABLE h USING heap AS TABLE source;
CREATE TABLE b USING heap AS TABLE source;
SELECT pg_temp.counted() \g /dev/null
ALTER TABLE b SET ACCESS METHOD batchheap;
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.same_bytes('h', 'b');
CREATE MATERIALIZED VIEW mh USING heap AS TABLE source;
CREATE MATERIALIZED VIEW mb USING batchheap AS TABLE source;
REFRESH MATERIALIZED VIEW mh;
REFRESH MATERIALIZED VIEW mb;
SELECT pg_temp.twin('mh', 'mb'), pg_temp.same_bytes('mh', 'mb');
DROP TABLE h, b;
DROP MATERIALIZED VIEW mh, mb;

DROP TABLE source, samples;
DROP TYPE mood, pair, textrange CASCADE;
DROP DOMAIN code;
