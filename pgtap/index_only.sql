-- Index-only scans right after a load, without VACUUM: they need not look at
-- the table, and give the right rows.
BEGIN;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS batchheap;

SELECT no_plan();

SET LOCAL enable_seqscan = off;
SET LOCAL enable_bitmapscan = off;
SET LOCAL max_parallel_workers_per_gather = 0;

-- node(query, key): what EXPLAIN ANALYZE says of the plan's scan
CREATE FUNCTION pg_temp.scan(query text, key text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    plan json;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, FORMAT JSON) ' || query INTO plan;
    plan := plan->0->'Plan';
    WHILE plan->'Plans' IS NOT NULL LOOP
        plan := plan->'Plans'->0;
    END LOOP;
    RETURN plan->>key;
END $$;
CREATE FUNCTION pg_temp.check_scan(tab text, n bigint, fetches text, what text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    query text := format('SELECT count(i) FROM %s WHERE i > 0', tab);
    found bigint;
BEGIN
    RETURN NEXT is(pg_temp.scan(query, 'Node Type'), 'Index Only Scan', what || ': is an index-only scan');
    RETURN NEXT is(pg_temp.scan(query, 'Heap Fetches'), fetches, what || ': heap fetches');
    EXECUTE query INTO found;
    RETURN NEXT is(found, n, what || ': rows');
END $$;

CREATE TABLE source AS SELECT i, 'text ' || i AS t FROM generate_series(1, 2000) i;

CREATE TABLE h AS TABLE source;
CREATE INDEX ON h (i);
SELECT pg_temp.check_scan('h', 2000, '2000', 'heap, to compare');

CREATE TABLE b USING batchheap AS TABLE source;
CREATE INDEX ON b (i);
SELECT pg_temp.check_scan('b', 2000, '0', 'CREATE TABLE AS');

CREATE MATERIALIZED VIEW mv USING batchheap AS TABLE source;
CREATE INDEX ON mv (i);
SELECT pg_temp.check_scan('mv', 2000, '0', 'CREATE MATERIALIZED VIEW');
REFRESH MATERIALIZED VIEW mv;
SELECT pg_temp.check_scan('mv', 2000, '0', 'REFRESH MATERIALIZED VIEW');

CREATE TABLE altered AS TABLE source;
CREATE INDEX ON altered (i);
ALTER TABLE altered SET ACCESS METHOD batchheap;
SELECT pg_temp.check_scan('altered', 2000, '0', 'SET ACCESS METHOD');

CREATE TABLE inserted (i int, t text) USING batchheap;
INSERT INTO inserted TABLE source;
CREATE INDEX ON inserted (i);
SELECT pg_temp.check_scan('inserted', 2000, '0', 'INSERT into a new table');

SET LOCAL batchheap.freeze_on_load = off;
CREATE TABLE plain USING batchheap AS TABLE source;
CREATE INDEX ON plain (i);
SELECT pg_temp.check_scan('plain', 2000, '2000', 'freeze_on_load = off');
SET LOCAL batchheap.freeze_on_load = on;

-- one changed row: its page is looked at, and no other
CREATE TABLE pages AS SELECT (ctid::text::point)[0] AS page FROM b;
UPDATE b SET t = 'changed' WHERE i = 1000;
SELECT cmp_ok(pg_temp.scan('SELECT count(i) FROM b WHERE i > 0', 'Heap Fetches')::int, '<',
    2 * (SELECT max(n)::int FROM (SELECT count(*) AS n FROM pages GROUP BY page) s) + 2,
    'UPDATE: only changed pages are looked at');
SELECT is((SELECT count(i) FROM b WHERE i > 0), 2000::bigint, 'UPDATE: rows');
DELETE FROM b WHERE i <= 10;
SELECT is((SELECT count(i) FROM b WHERE i > 0), 1990::bigint, 'DELETE: rows');

-- the planner knows that it need not look at the table once there are statistics
ANALYZE mv;
SELECT is((SELECT relallvisible FROM pg_class WHERE relname = 'mv'),
    (SELECT relpages FROM pg_class WHERE relname = 'mv'), 'ANALYZE finds all pages visible');

SELECT * FROM finish();
ROLLBACK;
