-- The page writer: pages of a new table are built in private memory and written
-- past shared buffers.  Who reads them gets what batches would have left, and
-- it is used where it may be, and only there.
--
-- (That rows have the bytes that heap gives them is in bytes.sql, ring.sql,
-- sources.sql and types.sql; that readers in the middle of a load see its rows,
-- in reentrancy.sql.)
\set ECHO none
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/include/setup.psql
\set ECHO all
SET batchheap.page_writer = on;

-- The session's counters, of pages only if there is another number of them than
-- is wanted.  On PostgreSQL 19 the page writer is not used.
CREATE FUNCTION pg_temp.written(wanted bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    others text;
    pages bigint;
BEGIN
    SELECT string_agg(counter || '=' || value, ' ') FILTER (WHERE value > 0 AND counter NOT IN ('batches', 'rows_whole', 'pages_written')),
           max(value) FILTER (WHERE counter = 'pages_written') INTO others, pages
        FROM batchheap_counters();
    PERFORM batchheap_counters_reset();
    RETURN coalesce(others, 'nothing') || CASE WHEN pages = wanted OR pages = 0 AND current_setting('server_version_num')::int >= 190000
                                               THEN ', pages as wanted' ELSE ', ' || pages || ' pages' END;
END $$;

CREATE TABLE source AS SELECT i, 's' || i AS s, NULL::int AS n FROM generate_series(1, 12345) i;

-- Each command that makes a table; many pages, and many runs of them
SELECT format('CREATE TABLE %s USING %s AS TABLE source', t, am) FROM twins \gexec
SELECT pg_temp.written(67), pg_temp.same_bytes('h', 'b'), pg_temp.vm('b'), pg_temp.frozen_rows('b');
ALTER TABLE h ALTER i TYPE bigint;
ALTER TABLE b ALTER i TYPE bigint;
SELECT pg_temp.written(67), pg_temp.same_bytes('h', 'b'), pg_temp.vm('b');
CREATE MATERIALIZED VIEW m USING batchheap AS TABLE h;
SELECT pg_temp.counted() \g /dev/null
REFRESH MATERIALIZED VIEW m;
SELECT pg_temp.written(67), pg_temp.same_bytes('h', 'm'), pg_temp.vm('m');
DROP MATERIALIZED VIEW m;
ALTER TABLE b SET UNLOGGED;
SELECT pg_temp.written(67), pg_temp.same_bytes('h', 'b'), pg_temp.vm('b');
ALTER TABLE b SET LOGGED;
SELECT pg_temp.written(67), pg_temp.same_bytes('h', 'b'), pg_temp.vm('b');
BEGIN;
TRUNCATE b;
INSERT INTO b SELECT * FROM h;
SELECT pg_temp.written(67), count(*) FROM b;
-- ... what comes later goes where there is a page already
INSERT INTO b SELECT * FROM h WHERE i <= 100;
SELECT pg_temp.written(0), count(*) FROM b;
COPY b (i) FROM PROGRAM 'seq 1 100';
COMMIT;
SELECT pg_temp.written(0), count(*), pg_temp.vm('b') FROM b;
DROP TABLE b;

-- One row; one page, filled to the last; no row
CREATE TABLE b USING batchheap AS SELECT 1 AS i;
SELECT pg_temp.written(1), count(*), pg_relation_size('b') = current_setting('block_size')::int AS one_page, pg_temp.vm('b') FROM b;
DROP TABLE b;
CREATE TABLE b USING batchheap AS SELECT i FROM generate_series(1, 226) i;
SELECT pg_temp.written(1), count(*), pg_relation_size('b') / current_setting('block_size')::int AS pages, pg_temp.vm('b') FROM b;
DROP TABLE b;
CREATE TABLE b USING batchheap AS SELECT i FROM generate_series(1, 227) i;
SELECT pg_temp.written(2), count(*), pg_relation_size('b') / current_setting('block_size')::int AS pages, pg_temp.vm('b') FROM b;
DROP TABLE b;
-- As many pages as are written at once, one less, one more
CREATE TABLE b15 USING batchheap AS SELECT i FROM generate_series(1, 226 * 15) i;
CREATE TABLE b16 USING batchheap AS SELECT i FROM generate_series(1, 226 * 16) i;
CREATE TABLE b17 USING batchheap AS SELECT i FROM generate_series(1, 226 * 16 + 1) i;
SELECT pg_temp.written(48), (SELECT count(*) FROM b15) AS b15, (SELECT count(*) FROM b16) AS b16, (SELECT count(*) FROM b17) AS b17,
       pg_temp.vm('b15') AS vm_15, pg_temp.vm('b16') AS vm_16, pg_temp.vm('b17') AS vm_17;
DROP TABLE b15, b16, b17;
CREATE TABLE b USING batchheap AS TABLE source WITH NO DATA;
INSERT INTO b SELECT * FROM source;
SELECT pg_temp.written(0), count(*) FROM b;
DROP TABLE b;

-- Rows of no columns, as many as a page has line pointers
CREATE TABLE b USING batchheap AS SELECT FROM generate_series(1, 3000);
SELECT pg_temp.written(11), count(*), pg_temp.vm('b') FROM b;
DROP TABLE b;

-- Large values; in the company of rows that wait on the page
CREATE TABLE large AS SELECT i, CASE WHEN i % 3 = 0 THEN (SELECT string_agg(md5((i * 1000 + k)::text), '') FROM generate_series(1, 100 + i) k)
    ELSE repeat('x', i) END AS v FROM generate_series(1, 300) i;
CREATE TABLE b USING batchheap AS TABLE large;
CREATE TABLE b2 USING batchheap AS SELECT i, v || '' AS v FROM large;
SELECT pg_temp.written(12), pg_temp.twin('large', 'b'), pg_temp.twin('large', 'b2'), pg_temp.vm('b'), pg_temp.toast_vm('b') AS toast_vm, pg_temp.vm('b2'),
       pg_temp.toast_vm('b2') AS toast_vm2;
ALTER TABLE b ADD c float8 DEFAULT random();
SELECT pg_temp.written(6), count(*), sum(length(v)), pg_temp.vm('b'), pg_temp.toast_vm('b') AS toast_vm FROM b;
DROP TABLE b, b2;
-- ... in a table so small that it is left plain otherwise: they are stored once
SET batchheap.freeze_min_size = '8kB';
CREATE TABLE h2 AS SELECT i, v || '' AS v FROM large WHERE i IN (5, 252, 255);
CREATE TABLE b USING batchheap AS SELECT i, v || '' AS v FROM large WHERE i IN (5, 252, 255);
SELECT pg_temp.twin('h2', 'b'), pg_temp.vm('b'), pg_temp.toast_vm('b') AS toast_vm,
       (SELECT count(DISTINCT pg_relation_size(reltoastrelid)) = 1 AND min(pg_relation_size(reltoastrelid)) > 0
           FROM pg_class WHERE oid IN ('h2'::regclass, 'b'::regclass)) AS same_toast_size;
SET batchheap.freeze_min_size = 0;
SELECT pg_temp.counted() \g /dev/null
DROP TABLE b, h2, large;

-- Not where rows are not to be frozen; not for temporary tables, whose pages
-- are the session's; not for COPY
BEGIN ISOLATION LEVEL SERIALIZABLE;
CREATE TABLE b USING batchheap AS TABLE source;
COMMIT;
SELECT pg_temp.written(0), pg_temp.twin('h', 'b');
DROP TABLE b;
SET batchheap.freeze_on_load = off;
CREATE TABLE b USING batchheap AS TABLE source;
SELECT pg_temp.written(0), pg_temp.twin('h', 'b');
DROP TABLE b;
RESET batchheap.freeze_on_load;
CREATE TEMP TABLE b USING batchheap AS TABLE source;
SELECT pg_temp.written(0), pg_temp.twin('h', 'b'), pg_temp.vm('b');
DROP TABLE b;
BEGIN;
CREATE TABLE b (i int) USING batchheap;
COPY b FROM PROGRAM 'seq 1 1500';
COMMIT;
SELECT pg_temp.written(0), count(*) FROM b;
DROP TABLE b;

-- Undone: no row, no page, and the next load of that name is not misled
BEGIN;
CREATE TABLE b USING batchheap AS TABLE source;
SAVEPOINT s;
TRUNCATE b;
INSERT INTO b SELECT * FROM source WHERE i <= 500;
SELECT count(*) FROM b;
ROLLBACK TO s;
SELECT count(*) FROM b;
ROLLBACK;
CREATE TABLE b USING batchheap AS SELECT i, 1 / (i - 9000) AS d FROM source;
CREATE TABLE b USING batchheap AS TABLE source;
SELECT pg_temp.counted() ~ 'rows_frozen' AS frozen, pg_temp.twin('h', 'b'), pg_temp.vm('b');
DO $$
BEGIN
    FOR k IN 1..30 LOOP
        BEGIN
            CREATE TABLE b2 USING batchheap AS SELECT i, 1 / (i - 4000 - k) AS d FROM source;
        EXCEPTION WHEN division_by_zero THEN
            CREATE TABLE b2 USING batchheap AS SELECT i FROM source WHERE i < k * 100;
        END;
        ASSERT (SELECT count(*) FROM b2) = k * 100 - 1;
        DROP TABLE b2;
    END LOOP;
END $$;

-- It is used like any other then: indexes, changes, index-only scans, VACUUM
CREATE INDEX b_i ON b (i);
SELECT bt_index_check('b_i', true);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT pg_temp.plan_has('Index Only Scan', 'SELECT count(i) FROM b') AS index_only,
       pg_temp.explained('Heap Fetches', 'SELECT count(i) FROM b') AS heap_fetches;
RESET enable_seqscan;
RESET enable_bitmapscan;
UPDATE b SET s = s || '!' WHERE i % 100 = 0;
DELETE FROM b WHERE i % 101 = 0;
INSERT INTO b SELECT i + 20000, 'more' FROM source WHERE i <= 500;
UPDATE h SET s = s || '!' WHERE i % 100 = 0;
DELETE FROM h WHERE i % 101 = 0;
INSERT INTO h SELECT i + 20000, 'more' FROM source WHERE i <= 500;
SELECT pg_temp.twin('h', 'b'), pg_temp.vm('b') ~ 'WRONG' AS wrong, bt_index_check('b_i', true);
VACUUM b;
SELECT pg_temp.twin('h', 'b'), pg_temp.vm('b') ~ 'WRONG' AS wrong, bt_index_check('b_i', true);
SELECT batchheap_to_heap('b');
SELECT count(*) FROM verify_heapam('b');

-- Looked at by the server's own functions, page by page, in the middle: what is
-- there is right, what is not there yet is missing
CREATE FUNCTION look(n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    r text;
BEGIN
    SELECT bool_and(page_header.pagesize = current_setting('block_size')::int AND (SELECT count(*) FROM heap_page_items(page)) > 0) INTO r
        FROM generate_series(0, pg_relation_size('b2') / current_setting('block_size')::int - 1) block,
             get_raw_page('b2', 'main', block::int) page, page_header(page);
    RETURN r;
END $$;
SELECT pg_temp.counted() \g /dev/null
CREATE TABLE b2 USING batchheap AS SELECT i, s, CASE WHEN i % 4000 = 0 THEN look(i) END AS looked FROM source;
SELECT pg_temp.counted() ~ 'rows_frozen=12345' AS frozen, count(*), count(DISTINCT i), bool_and(looked::boolean) AS right, pg_temp.vm('b2') FROM b2;
DROP FUNCTION look;
DROP TABLE h, b, b2, source;
