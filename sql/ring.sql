-- The ring of rows that wait to be written: batches of every size, rows that
-- fill it exactly or do not fit at all, and pages filled as heap fills them.
\set ECHO none
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/include/setup.psql
\set ECHO all

-- From PostgreSQL 16 on, where a row goes on little filled pages depends on how
-- far the table has been extended ahead of need, and that on how many rows come
-- at a time; so places are not compared then.
CREATE PROCEDURE pg_temp.load(query text, storage text DEFAULT '') LANGUAGE plpgsql AS $$
DECLARE
    places constant boolean := storage = '' OR current_setting('server_version_num')::int < 160000;
BEGIN
    PERFORM batchheap_counters_reset();
    EXECUTE format('CREATE TABLE h USING heap %s AS ', storage) || query;
    EXECUTE format('CREATE TABLE b USING batchheap %s AS ', storage) || query;
    RAISE NOTICE '%', pg_temp.counted();
    RAISE NOTICE '%, %', pg_temp.same_bytes('h', 'b', places), pg_temp.vm('b');
    SET LOCAL batchheap.page_writer = on;
    EXECUTE format('CREATE TABLE p USING batchheap %s AS ', storage) || query;
    RAISE NOTICE 'page writer: %, %', pg_temp.same_bytes('h', 'p', places), pg_temp.vm('p');
    DROP TABLE h, b, p;
    PERFORM batchheap_counters_reset();
END $$;

-- Batches of one row, of two, of three; of exactly as many as there are rows,
-- one less and one more
SET batchheap.max_batch_rows = 1;
CALL pg_temp.load('SELECT i, i::text AS s FROM generate_series(1, 700) i');
SET batchheap.max_batch_rows = 2;
CALL pg_temp.load('SELECT i, i::text AS s FROM generate_series(1, 700) i');
SET batchheap.max_batch_rows = 3;
CALL pg_temp.load('SELECT i, i::text AS s FROM generate_series(1, 700) i');
SET batchheap.max_batch_rows = 500;
CALL pg_temp.load('SELECT i, i::text AS s FROM generate_series(1, 499) i');
CALL pg_temp.load('SELECT i, i::text AS s FROM generate_series(1, 500) i');
CALL pg_temp.load('SELECT i, i::text AS s FROM generate_series(1, 501) i');
CALL pg_temp.load('SELECT i, i::text AS s FROM generate_series(1, 1000) i');
CALL pg_temp.load('SELECT 1 AS i');
SET batchheap.max_batch_rows = 10000;
SET batchheap.max_batch_size = '16MB';
CALL pg_temp.load('SELECT i, i::text AS s FROM generate_series(1, 10001) i');
RESET batchheap.max_batch_rows;
RESET batchheap.max_batch_size;

-- Full by size: 8 kB take 128 rows of 64 bytes exactly
SET batchheap.max_batch_size = '8kB';
CALL pg_temp.load('SELECT i::bigint AS a, i::bigint AS b, i::bigint AS c, i::bigint AS d, i::bigint AS e FROM generate_series(1, 1280) i');
-- ... 127 rows of 64 bytes, and one that is larger by one alignment
CALL pg_temp.load('SELECT repeat(''x'', CASE WHEN i % 128 = 0 THEN 40 ELSE 39 END) AS s FROM generate_series(1, 640) i');

-- Rows of all sizes around what is left of the ring, up to as large as it
CALL pg_temp.load('SELECT i, repeat(''y'', i * 31 % 1990) AS s FROM generate_series(1, 600) i');

-- Rows as large as the ring go through it; larger ones make a batch alone, and
-- are not out of turn
SET batchheap.max_batch_rows = 3;
CREATE TABLE wide (i int, v text, w text);
ALTER TABLE wide ALTER v SET STORAGE EXTERNAL, ALTER w SET STORAGE EXTERNAL;
CALL pg_temp.load('SELECT i, repeat(''z'', CASE WHEN i % 4 = 0 THEN 1 ELSE 50 END) AS s FROM generate_series(1, 400) i');
INSERT INTO wide SELECT i, repeat(chr(97 + i % 26), 8192 - 24 - 8 - 20 + i), NULL FROM generate_series(1, 40) i;
SELECT format('CREATE TABLE %s USING %s AS SELECT i, v || '''' AS v, w FROM wide', t, am) FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), (SELECT array_agg(i ORDER BY ctid) = array_agg(i ORDER BY i) FROM b) AS in_order;
DROP TABLE h, b, wide;
RESET batchheap.max_batch_rows;
RESET batchheap.max_batch_size;

-- Pages of little fill: as many rows on each as heap puts there
CALL pg_temp.load('SELECT i, i::text AS s FROM generate_series(1, 2500) i', 'WITH (fillfactor = 10)');
CALL pg_temp.load('SELECT i, repeat(''f'', i * 7 % 400) AS s FROM generate_series(1, 2500) i', 'WITH (fillfactor = 10)');
CALL pg_temp.load('SELECT i, repeat(''f'', i * 7 % 400) AS s FROM generate_series(1, 2500) i', 'WITH (fillfactor = 55)');
-- ... and of rows larger than the fill factor leaves
CALL pg_temp.load('SELECT i, repeat(''f'', 1500) AS s FROM generate_series(1, 50) i', 'WITH (fillfactor = 10)');

-- Number of columns: the bitmap of nulls grows, the header with it
CREATE PROCEDURE pg_temp.columns(n int, expression text, rows int DEFAULT 1100) LANGUAGE plpgsql AS $$
DECLARE
    list text := (SELECT string_agg(format(expression, c) || ' AS c' || c, ', ' ORDER BY c) FROM generate_series(1, n) c);
BEGIN
    CALL pg_temp.load(format('SELECT %s FROM generate_series(1, %s) i', list, rows));
END $$;
CALL pg_temp.columns(1, 'i');
CALL pg_temp.columns(8, 'i + %s');
CALL pg_temp.columns(8, 'nullif(i %% 8, %s - 1)');
CALL pg_temp.columns(9, 'nullif(i %% 9, %s - 1)');
CALL pg_temp.columns(32, 'i * %s');
CALL pg_temp.columns(32, 'CASE WHEN (i + %s) %% 2 = 0 THEN i END');
CALL pg_temp.columns(32, '(i * %s)::text');
CALL pg_temp.columns(100, 'i * %s');
CALL pg_temp.columns(1600, 'i', 30);
CALL pg_temp.columns(1600, 'CASE WHEN i %% %s = 0 THEN 1::smallint END', 60);
CALL pg_temp.columns(1600, 'NULL::int', 60);

-- All rows NULL, and rows NULL in turn
CALL pg_temp.load('SELECT NULL::int AS a, NULL::text AS b FROM generate_series(1, 1500)');
CALL pg_temp.load('SELECT CASE WHEN i & 1 > 0 THEN i END AS a, CASE WHEN i & 2 > 0 THEN i::text END AS b,
    CASE WHEN i & 4 > 0 THEN i::bigint END AS c, CASE WHEN i & 8 > 0 THEN ''name''::name END AS d FROM generate_series(1, 1500) i');

-- A row that no page can hold fails as it does on heap, wherever it is in its
-- batch, and leaves nothing
CREATE PROCEDURE pg_temp.too_large(at int) LANGUAGE plpgsql AS $$
DECLARE
    query text := (SELECT 'SELECT ' || string_agg(format('CASE WHEN i = %s THEN ''x''::name END AS c%s', at, c), ', ')
        FROM generate_series(1, 200) c) || ' FROM generate_series(1, 1500) i';
    twin record;
BEGIN
    FOR twin IN SELECT * FROM twins ORDER BY t DESC LOOP
        RAISE NOTICE '%', pg_temp.outcome(format('CREATE TABLE %s USING %s AS %s', twin.t, twin.am, query));
    END LOOP;
    SET LOCAL batchheap.page_writer = on;
    RAISE NOTICE '%', pg_temp.outcome(format('CREATE TABLE p USING batchheap AS %s', query));
END $$;
CALL pg_temp.too_large(1);
CALL pg_temp.too_large(1000);
CALL pg_temp.too_large(1001);
CALL pg_temp.too_large(1500);
SELECT to_regclass('h'), to_regclass('b'), to_regclass('p');
