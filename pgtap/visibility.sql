-- What each bulk command leaves behind in the visibility map: all pages
-- all-visible and all-frozen where it has made the table's file, and nothing
-- that is wrong anywhere.
BEGIN;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS batchheap;
CREATE EXTENSION IF NOT EXISTS pg_visibility;

SELECT no_plan();

CREATE TABLE source AS
SELECT i, CASE WHEN i % 500 = 0 THEN (SELECT string_agg(md5(j::text), '') FROM generate_series(i, i + 200) j)
    ELSE 'text ' || i END AS t
FROM generate_series(1, 3000) i;

CREATE FUNCTION pg_temp.frozen(tab regclass) RETURNS boolean LANGUAGE sql AS $$
    SELECT count(*) > 0 AND bool_and(all_visible AND all_frozen AND pd_all_visible) FROM pg_visibility(tab)
$$;
CREATE FUNCTION pg_temp.visible(tab regclass) RETURNS boolean LANGUAGE sql AS $$
    SELECT bool_or(all_visible OR all_frozen OR pd_all_visible) FROM pg_visibility(tab)
$$;
CREATE FUNCTION pg_temp.toast(tab regclass) RETURNS regclass LANGUAGE sql AS $$
    SELECT reltoastrelid::regclass FROM pg_class WHERE oid = tab
$$;
CREATE FUNCTION pg_temp.frozen_ok(tab regclass, what text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    RETURN NEXT ok(pg_temp.frozen(tab), what || ': all pages are frozen');
    RETURN NEXT is_empty(format('SELECT * FROM pg_check_frozen(%L)', tab), what || ': frozen bits are right');
    RETURN NEXT is_empty(format('SELECT * FROM pg_check_visible(%L)', tab), what || ': visible bits are right');
    RETURN NEXT ok(pg_temp.frozen(pg_temp.toast(tab)), what || ': all TOAST pages are frozen');
    RETURN NEXT set_eq(format('TABLE %s', tab), 'TABLE source', what || ': rows');
    RETURN NEXT is((SELECT count(*) FROM pg_visibility(tab)), pg_relation_size(tab) / current_setting('block_size')::int,
        what || ': all pages were looked at');
END $$;
CREATE FUNCTION pg_temp.plain_ok(tab regclass, what text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    RETURN NEXT ok(NOT pg_temp.visible(tab), what || ': no page is marked');
    RETURN NEXT is_empty(format('SELECT * FROM pg_check_frozen(%L)', tab), what || ': frozen bits are right');
    RETURN NEXT is_empty(format('SELECT * FROM pg_check_visible(%L)', tab), what || ': visible bits are right');
END $$;

-- tables that a command makes
CREATE TABLE b1 USING batchheap AS TABLE source;
SELECT pg_temp.frozen_ok('b1', 'CREATE TABLE AS');

SET LOCAL default_table_access_method = batchheap;
SELECT * INTO b2 FROM source;
SELECT pg_temp.frozen_ok('b2', 'SELECT INTO');
RESET default_table_access_method;

PREPARE q AS TABLE source;
CREATE TABLE b3 USING batchheap AS EXECUTE q;
SELECT pg_temp.frozen_ok('b3', 'CREATE TABLE AS EXECUTE');

CREATE MATERIALIZED VIEW mv USING batchheap AS TABLE source;
SELECT pg_temp.frozen_ok('mv', 'CREATE MATERIALIZED VIEW');
REFRESH MATERIALIZED VIEW mv;
SELECT pg_temp.frozen_ok('mv', 'REFRESH MATERIALIZED VIEW');

CREATE TABLE b4 AS TABLE source;
ALTER TABLE b4 SET ACCESS METHOD batchheap;
SELECT pg_temp.frozen_ok('b4', 'SET ACCESS METHOD');
ALTER TABLE b4 ALTER i TYPE bigint;
ALTER TABLE b4 ALTER i TYPE int;
SELECT pg_temp.frozen_ok('b4', 'ALTER TYPE');

CREATE UNLOGGED TABLE b5 USING batchheap AS TABLE source;
SELECT pg_temp.frozen_ok('b5', 'CREATE UNLOGGED TABLE AS');
ALTER TABLE b5 SET LOGGED;
SELECT pg_temp.frozen_ok('b5', 'SET LOGGED');

CREATE TEMP TABLE b6 USING batchheap AS TABLE source;
SELECT pg_temp.frozen_ok('b6', 'CREATE TEMP TABLE AS');

-- INSERT ... SELECT into a table that has just been made or emptied
CREATE TABLE b7 (i int, t text) USING batchheap;
INSERT INTO b7 TABLE source;
SELECT pg_temp.frozen_ok('b7', 'INSERT into a new table');
TRUNCATE b7;
INSERT INTO b7 TABLE source;
SELECT pg_temp.frozen_ok('b7', 'INSERT after TRUNCATE');

-- only part of the pages is in the subtransaction's own file
SAVEPOINT s;
CREATE TABLE b8 USING batchheap AS TABLE source;
RELEASE s;
SELECT pg_temp.frozen_ok('b8', 'CREATE TABLE AS in a subtransaction');

-- a file of the outer transaction outlives the subtransaction's rollback
CREATE TABLE b9 (i int, t text) USING batchheap;
SAVEPOINT s;
INSERT INTO b9 TABLE source;
SELECT pg_temp.plain_ok('b9', 'INSERT in a subtransaction');
ROLLBACK TO s;
SELECT is_empty('TABLE b9', 'INSERT in a subtransaction: rolled back');

-- switched off
SET LOCAL batchheap.freeze_on_load = off;
CREATE TABLE b10 USING batchheap AS TABLE source;
SELECT pg_temp.plain_ok('b10', 'freeze_on_load = off');
SET LOCAL batchheap.freeze_on_load = on;
SET LOCAL batchheap.enable = off;
CREATE TABLE b11 USING batchheap AS TABLE source;
SELECT pg_temp.plain_ok('b11', 'enable = off');
SET LOCAL batchheap.enable = on;

-- with few rows to a batch, and with rows that fill theirs
SET LOCAL batchheap.max_batch_rows = 3;
CREATE TABLE b12 USING batchheap AS TABLE source;
SELECT pg_temp.frozen_ok('b12', 'batches of 3 rows');
RESET batchheap.max_batch_rows;
SET LOCAL batchheap.max_batch_size = '8kB';
CREATE TABLE b13 USING batchheap AS TABLE source;
SELECT pg_temp.frozen_ok('b13', 'batches of 8 kB');
RESET batchheap.max_batch_size;

-- the same by the page writer
SET LOCAL batchheap.page_writer = on;
CREATE TABLE p1 USING batchheap AS TABLE source;
SELECT pg_temp.frozen_ok('p1', 'page writer: CREATE TABLE AS');
REFRESH MATERIALIZED VIEW mv;
SELECT pg_temp.frozen_ok('mv', 'page writer: REFRESH MATERIALIZED VIEW');
CREATE TABLE p2 AS TABLE source;
ALTER TABLE p2 SET ACCESS METHOD batchheap;
SELECT pg_temp.frozen_ok('p2', 'page writer: SET ACCESS METHOD');
CREATE TABLE p3 (i int, t text) USING batchheap;
INSERT INTO p3 TABLE source;
SELECT pg_temp.frozen_ok('p3', 'page writer: INSERT into a new table');
CREATE UNLOGGED TABLE p4 USING batchheap AS TABLE source;
SELECT pg_temp.frozen_ok('p4', 'page writer: CREATE UNLOGGED TABLE AS');
CREATE TEMP TABLE p5 USING batchheap AS TABLE source;
SELECT pg_temp.frozen_ok('p5', 'page writer: CREATE TEMP TABLE AS');
RESET batchheap.page_writer;

-- the pages that are changed afterwards, and no others, lose their marks
CREATE TABLE b14 USING batchheap AS TABLE source;
UPDATE b14 SET t = 'changed' WHERE i = 1;
SELECT is((SELECT count(*) FROM pg_visibility('b14') WHERE NOT all_visible AND blkno = 0), 1::bigint, 'UPDATE: page of the row is not all-visible');
SELECT cmp_ok((SELECT count(*) FROM pg_visibility('b14') WHERE NOT all_visible), '<=', 2::bigint, 'UPDATE: and that of its new version');
DELETE FROM b14 WHERE i = 1500;
SELECT is_empty($$SELECT * FROM pg_check_visible('b14')$$, 'DELETE: visible bits are right');
SELECT is_empty($$SELECT * FROM pg_check_frozen('b14')$$, 'DELETE: frozen bits are right');

-- switched without a rewrite: what is marked stays so
CREATE TABLE b15 USING batchheap AS TABLE source;
SELECT batchheap_to_heap('b15');
SELECT pg_temp.frozen_ok('b15', 'batchheap_to_heap');
SELECT batchheap_from_heap('b15');
SELECT pg_temp.frozen_ok('b15', 'batchheap_from_heap');

SELECT * FROM finish();
ROLLBACK;
