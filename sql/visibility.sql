-- What the visibility map says of a loaded table: all of it is visible and
-- frozen before any VACUUM, and it is never wrong.
\set ECHO none
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/include/setup.psql
\set ECHO all

-- heap, the default, and each setting turned off
CREATE TABLE source AS SELECT i, repeat('s', i % 40) AS s, NULL::int AS n FROM generate_series(1, 4321) i;
CREATE TABLE h USING heap WITH (autovacuum_enabled = off) AS TABLE source;
CREATE TABLE b USING batchheap WITH (autovacuum_enabled = off) AS TABLE source;
SELECT pg_temp.counted(), pg_temp.vm('h') AS vm_h, pg_temp.frozen_rows('h') AS frozen_h,
       pg_temp.vm('b') AS vm_b, pg_temp.frozen_rows('b') AS frozen_b;
DROP TABLE b;

-- Not frozen: batches all the same
SET batchheap.freeze_on_load = off;
CREATE TABLE b USING batchheap WITH (autovacuum_enabled = off) AS TABLE source;
SELECT pg_temp.counted(), pg_temp.vm('b') AS vm_b, pg_temp.frozen_rows('b') AS frozen_b, pg_temp.twin('h', 'b'), pg_temp.same_bytes('h', 'b');
DROP TABLE b;
RESET batchheap.freeze_on_load;

-- Off: as heap in every respect
SET batchheap.enable = off;
CREATE TABLE b USING batchheap WITH (autovacuum_enabled = off) AS TABLE source;
SELECT pg_temp.counted(), pg_temp.vm('b') AS vm_b, pg_temp.frozen_rows('b') AS frozen_b, pg_temp.twin('h', 'b'), pg_temp.same_bytes('h', 'b');
-- ... so are COPY and the rewriting of a table
BEGIN;
CREATE TABLE b2 (i int) USING batchheap WITH (autovacuum_enabled = off);
COPY b2 FROM PROGRAM 'seq 1 1500';
COMMIT;
ALTER TABLE b ALTER i TYPE bigint;
SELECT pg_temp.counted(), pg_temp.vm('b') AS vm_b, pg_temp.vm('b2') AS vm_b2, pg_temp.frozen_rows('b2') AS frozen_b2;
DROP TABLE b, b2;
RESET batchheap.enable;

-- A few rows are left plain, as the map would cost more than it saves: fewer bytes
-- than batchheap.freeze_min_size, the first of their table, and all of their load
RESET batchheap.freeze_min_size;
SHOW batchheap.freeze_min_size;
CREATE PROCEDURE pg_temp.small(query text) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM batchheap_counters_reset();
    EXECUTE 'CREATE TABLE b USING batchheap WITH (autovacuum_enabled = off) AS ' || query;
    RAISE NOTICE '%; %, % pages, map: %', regexp_replace(pg_temp.counted(), ' (batches|pages_written)=\d+', '', 'g'), pg_temp.frozen_rows('b'), pg_relation_size('b') / current_setting('block_size')::int, pg_relation_size('b', 'vm') > 0;
    DROP TABLE b;
END $$;
-- ... 200 bytes each, with their headers
CALL pg_temp.small('SELECT repeat(''x'', 172) AS s FROM generate_series(1, 1)');
CALL pg_temp.small('SELECT repeat(''x'', 172) AS s FROM generate_series(1, 40)');
CALL pg_temp.small('SELECT repeat(''x'', 172) AS s FROM generate_series(1, 41)');
SET batchheap.max_batch_rows = 10;
CALL pg_temp.small('SELECT repeat(''x'', 172) AS s FROM generate_series(1, 9)');
CALL pg_temp.small('SELECT repeat(''x'', 172) AS s FROM generate_series(1, 11)');
RESET batchheap.max_batch_rows;
SET batchheap.freeze_min_size = '20kB';
CALL pg_temp.small('SELECT repeat(''x'', 172) AS s FROM generate_series(1, 100)');
CALL pg_temp.small('SELECT repeat(''x'', 172) AS s FROM generate_series(1, 103)');
RESET batchheap.freeze_min_size;
-- ... the page writer has not written anything either
SET batchheap.page_writer = on;
CALL pg_temp.small('SELECT repeat(''x'', 172) AS s FROM generate_series(1, 40)');
CALL pg_temp.small('SELECT repeat(''x'', 172) AS s FROM generate_series(1, 41)');
RESET batchheap.page_writer;
-- ... values that are toasted count in full
CALL pg_temp.small('SELECT string_agg(md5(i::text), '''') AS s FROM generate_series(1, 250) i');
CALL pg_temp.small('SELECT string_agg(md5(i::text), '''') AS s FROM generate_series(1, 270) i');
-- ... unless the page writer has toasted them: they are not to be toasted twice
SET batchheap.page_writer = on;
CREATE TABLE b USING batchheap WITH (autovacuum_enabled = off) AS SELECT string_agg(md5(i::text), '') AS s FROM generate_series(1, 250) i;
SELECT (pg_temp.vm('b'), pg_temp.toast_vm('b')) = ('all frozen', 'all frozen') OR current_setting('server_version_num')::int >= 190000 AS frozen;
SELECT pg_temp.counted() \g /dev/null
SELECT reltoastrelid::regclass AS toast FROM pg_class WHERE oid = 'b'::regclass \gset
SELECT count(DISTINCT chunk_id) AS values FROM :toast;
DROP TABLE b;
RESET batchheap.page_writer;
-- ... and REFRESH, as heap freezes the rows there: snapshots that are older than
-- the new file would find it empty
CREATE MATERIALIZED VIEW mh USING heap AS SELECT i FROM source LIMIT 10;
CREATE MATERIALIZED VIEW mb USING batchheap AS SELECT i FROM source LIMIT 10;
REFRESH MATERIALIZED VIEW mh;
REFRESH MATERIALIZED VIEW mb;
SELECT pg_temp.frozen_rows('mh'), pg_temp.frozen_rows('mb'), pg_temp.vm('mb');
DROP MATERIALIZED VIEW mh, mb;
SELECT pg_temp.counted() \g /dev/null
-- ... INSERT and COPY into a new file; more rows for the same table
CREATE TABLE b (i int, s text) USING batchheap WITH (autovacuum_enabled = off);
BEGIN; TRUNCATE b; INSERT INTO b SELECT i, s FROM source LIMIT 100; COMMIT;
SELECT pg_temp.counted(), pg_temp.frozen_rows('b'), pg_temp.vm('b');
BEGIN; TRUNCATE b; INSERT INTO b SELECT i, s FROM source LIMIT 100; INSERT INTO b SELECT i, s FROM source LIMIT 300; COMMIT;
SELECT pg_temp.counted(), pg_temp.frozen_rows('b'), pg_temp.vm('b');
BEGIN; TRUNCATE b; COPY b (i) FROM PROGRAM 'seq 1 100'; COMMIT;
SELECT pg_temp.counted(), pg_temp.frozen_rows('b'), pg_temp.vm('b');
BEGIN; TRUNCATE b; COPY b (i) FROM PROGRAM 'seq 1 100'; COPY b (i) FROM PROGRAM 'seq 1 100'; COMMIT;
SELECT pg_temp.counted(), pg_temp.frozen_rows('b'), pg_temp.vm('b');
BEGIN; TRUNCATE b; COPY b (i) FROM PROGRAM 'seq 1 1000'; COMMIT;
SELECT pg_temp.counted(), pg_temp.frozen_rows('b'), pg_temp.vm('b');
-- ... which asks for it
BEGIN; TRUNCATE b; COPY b (i) FROM PROGRAM 'seq 1 100' (FREEZE); COMMIT;
SELECT pg_temp.counted(), pg_temp.frozen_rows('b'), pg_temp.vm('b');
DROP TABLE b;
SET batchheap.freeze_min_size = 0;

-- Turned off in the middle of a load, by the load's own query: a load goes on
-- as it began
SELECT format('CREATE TABLE %s USING %s WITH (autovacuum_enabled = off) AS
    SELECT i, CASE WHEN i = 1500 THEN set_config(''batchheap.enable'', ''off'', false)
                   WHEN i = 1600 THEN set_config(''batchheap.freeze_on_load'', ''off'', false)
                   WHEN i = 1700 THEN set_config(''batchheap.max_batch_rows'', ''1'', false) END AS s
    FROM generate_series(1, 2500) i', t || '2', am) FROM twins \gexec
RESET batchheap.enable;
RESET batchheap.freeze_on_load;
RESET batchheap.max_batch_rows;
SELECT pg_temp.counted(), pg_temp.vm('b2'), pg_temp.twin('h2', 'b2');
DROP TABLE h2, b2;

-- A serializable transaction does not freeze: to others there would be no
-- telling who wrote the rows, and a conflict would go unseen
BEGIN ISOLATION LEVEL SERIALIZABLE;
CREATE TABLE b USING batchheap WITH (autovacuum_enabled = off) AS TABLE source;
CREATE TABLE b2 (i int) USING batchheap WITH (autovacuum_enabled = off);
COPY b2 FROM PROGRAM 'seq 1 1500';
COMMIT;
SELECT pg_temp.counted(), pg_temp.vm('b') AS vm_b, pg_temp.vm('b2') AS vm_b2, pg_temp.twin('h', 'b');
DROP TABLE b, b2;
BEGIN ISOLATION LEVEL REPEATABLE READ;
CREATE TABLE b USING batchheap WITH (autovacuum_enabled = off) AS TABLE source;
COMMIT;
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.vm('b') AS vm_b;
DROP TABLE b;

-- Rows know who wrote them
BEGIN;
CREATE TABLE b USING batchheap AS TABLE source;
SELECT count(DISTINCT xmin::text) AS writers, bool_and(xmin = pg_current_xact_id()::xid) AS ours FROM b;
COMMIT;
DROP TABLE b, h;

-- VACUUM finds nothing to do, ANALYZE the same as on heap
SELECT format('CREATE TABLE %s USING %s WITH (autovacuum_enabled = off) AS TABLE source', t, am) FROM twins \gexec
VACUUM ANALYZE h;
ANALYZE b;
SELECT (SELECT (reltuples, relpages) FROM pg_class WHERE oid = 'h'::regclass) = (reltuples, relpages) AS same_size,
       relallvisible = relpages AS all_visible FROM pg_class WHERE oid = 'b'::regclass;
SELECT count(*) AS different_statistics FROM (
    (SELECT attname, null_frac, avg_width, n_distinct FROM pg_stats WHERE tablename = 'h' EXCEPT
     SELECT attname, null_frac, avg_width, n_distinct FROM pg_stats WHERE tablename = 'b')) d;
VACUUM (FREEZE) b;
SELECT pg_temp.vm('b');
VACUUM FULL b;
SELECT pg_temp.twin('h', 'b');
CREATE INDEX b_i ON b (s, i);
CLUSTER b USING b_i;
SELECT pg_temp.twin('h', 'b'), amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = 'b'::regclass;
DROP TABLE h, b;

--
-- Index-only scans find all they need in the index, without a VACUUM
--
CREATE TABLE b USING batchheap WITH (autovacuum_enabled = off, fillfactor = 50) AS SELECT i, 0 AS n FROM generate_series(1, 4000) i;
CREATE INDEX ON b (i);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT pg_temp.plan_has('Index Only Scan', 'SELECT count(i) FROM b') AS index_only,
       pg_temp.explained('Heap Fetches', 'SELECT count(i) FROM b') AS heap_fetches;
-- One update changes that page's bits, and no other's
SELECT count(*) AS rows FROM b WHERE (ctid::text::point)[0] = (SELECT (ctid::text::point)[0] FROM b WHERE i = 2000) \gset
UPDATE b SET n = 1 WHERE i = 2000 RETURNING (ctid::text::point)[0]::int AS page \gset
SELECT count(*) AS pages, bool_and(blkno = :page) AS the_right_one FROM pg_visibility_map('b') WHERE NOT all_visible OR NOT all_frozen;
-- (from PostgreSQL 19 on, the first look at it may make it visible again)
SELECT pg_temp.explained('Heap Fetches', 'SELECT count(i) FROM b') BETWEEN 1 AND :rows AS fetches_of_one_page;
SELECT pg_temp.vm('b');
-- ... as do DELETE, and SELECT FOR UPDATE to the frozen bit
DELETE FROM b WHERE i = 10 RETURNING (ctid::text::point)[0]::int AS page \gset
SELECT all_visible, all_frozen FROM pg_visibility_map('b', :page);
SELECT (ctid::text::point)[0]::int AS page FROM b WHERE i = 3900 FOR UPDATE \gset
SELECT all_frozen FROM pg_visibility_map('b', :page);
SELECT pg_temp.vm('b'), count(i), sum(i) FROM b;
RESET enable_seqscan;
RESET enable_bitmapscan;
DROP TABLE b;

-- An insertion after the load goes to the last page, and says so in the map
CREATE TABLE b USING batchheap WITH (autovacuum_enabled = off) AS SELECT i FROM generate_series(1, 4000) i;
INSERT INTO b VALUES (4001);
SELECT count(*) FROM pg_visibility_map('b') WHERE NOT all_visible;
SELECT pg_temp.vm('b'), count(*) FROM b;
DROP TABLE b;

-- A rolled back change leaves rows visible
CREATE TABLE b USING batchheap WITH (autovacuum_enabled = off) AS SELECT i FROM generate_series(1, 1000) i;
BEGIN;
DELETE FROM b;
ROLLBACK;
BEGIN;
UPDATE b SET i = i + 1;
ROLLBACK;
SELECT pg_temp.vm('b'), count(*), sum(i) FROM b;
DROP TABLE b, source;
