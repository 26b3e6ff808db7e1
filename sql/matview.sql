-- Materialized views: CREATE and REFRESH fill them in batches and, other than
-- heap's REFRESH, fill in the visibility map.
\set ECHO none
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/include/setup.psql
\set ECHO all

CREATE TABLE source AS SELECT i, i % 10 AS g, 'row ' || i AS s FROM generate_series(1, 2500) i;

SELECT format('CREATE MATERIALIZED VIEW %s USING %s WITH (autovacuum_enabled = off) AS SELECT * FROM source', t, am) FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.same_bytes('h', 'b'), pg_temp.vm('b');

-- REFRESH: heap freezes rows, and leaves the map empty
INSERT INTO source SELECT i, i % 10, 'late' FROM generate_series(2501, 3333) i;
SELECT pg_temp.counted() \g /dev/null
SELECT format('REFRESH MATERIALIZED VIEW %s', t) FROM twins \gexec
SELECT pg_temp.counted();
SELECT pg_temp.vm('h') AS vm_h, pg_temp.frozen_rows('h') AS frozen_h, pg_temp.vm('b') AS vm_b, pg_temp.frozen_rows('b') AS frozen_b;
SELECT pg_temp.twin('h', 'b'), pg_temp.same_bytes('h', 'b');
SELECT amname, relispopulated FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = 'b'::regclass;

-- The same without freezing: the server asks for frozen rows here, whatever our
-- setting, and gets them
SET batchheap.freeze_on_load = off;
REFRESH MATERIALIZED VIEW b;
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.vm('b');
RESET batchheap.freeze_on_load;
SET batchheap.enable = off;
REFRESH MATERIALIZED VIEW b;
SELECT pg_temp.counted(), pg_temp.vm('b') AS vm_b, pg_temp.frozen_rows('b') AS frozen_b, pg_temp.twin('h', 'b');
RESET batchheap.enable;

-- With indexes: they are built when the new rows are there
CREATE UNIQUE INDEX h_i ON h (i);
CREATE UNIQUE INDEX b_i ON b (i);
CREATE INDEX ON b (g, s);
UPDATE source SET s = 'changed' WHERE i % 3 = 0;
SELECT pg_temp.counted() \g /dev/null
SELECT format('REFRESH MATERIALIZED VIEW %s', t) FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.vm('b');
SELECT bt_index_check('b_i', true), bt_index_check('b_g_s_idx', true);

-- Concurrently: the new rows go to a temporary table, of the view's kind; what
-- is different is merged
UPDATE source SET s = 'again' WHERE i % 100 = 0;
DELETE FROM source WHERE i % 100 = 1;
INSERT INTO source SELECT -i, 0, 'negative' FROM generate_series(1, 50) i;
SELECT pg_temp.counted() \g /dev/null
SELECT format('REFRESH MATERIALIZED VIEW CONCURRENTLY %s', t) FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.vm('b') !~ 'WRONG' AS vm_is_right;
SELECT bt_index_check('b_i', true), bt_index_check('b_g_s_idx', true);
REFRESH MATERIALIZED VIEW b;
SELECT pg_temp.vm('b');

-- WITH NO DATA, and back
SELECT pg_temp.counted() \g /dev/null
REFRESH MATERIALIZED VIEW b WITH NO DATA;
SELECT * FROM b LIMIT 1;
SELECT pg_temp.counted();
REFRESH MATERIALIZED VIEW b;
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.vm('b');
DROP MATERIALIZED VIEW h, b;
SELECT format('CREATE MATERIALIZED VIEW %s USING %s AS SELECT * FROM source WITH NO DATA', t, am) FROM twins \gexec
SELECT format('REFRESH MATERIALIZED VIEW %s', t) FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.vm('b');

-- A failure in the middle leaves the old rows
INSERT INTO source VALUES (0, 0, 'zero');
CREATE MATERIALIZED VIEW b2 USING batchheap AS SELECT i, 5 / i AS d FROM source ORDER BY i DESC;
DELETE FROM source WHERE i = 0;
CREATE MATERIALIZED VIEW b2 USING batchheap AS SELECT i, 5 / i AS d FROM source ORDER BY i DESC;
SELECT count(*), sum(i) FROM b2 \gset before_
INSERT INTO source VALUES (0, 0, 'zero');
REFRESH MATERIALIZED VIEW b2;
SELECT count(*) = :before_count AND sum(i) = :before_sum AS same, pg_temp.vm('b2') FROM b2;
DELETE FROM source WHERE i = 0;
SELECT pg_temp.counted() \g /dev/null
REFRESH MATERIALIZED VIEW b2;
SELECT pg_temp.counted();
DROP MATERIALIZED VIEW h, b, b2;

-- In a transaction that is undone, in part and as a whole
CREATE MATERIALIZED VIEW b USING batchheap AS SELECT * FROM source WHERE i > 0;
SELECT count(*) AS rows FROM b \gset
BEGIN;
INSERT INTO source SELECT i, 0, 'more' FROM generate_series(10001, 11500) i;
SAVEPOINT s;
REFRESH MATERIALIZED VIEW b;
SELECT count(*) - :rows AS more FROM b;
ROLLBACK TO s;
SELECT count(*) - :rows AS more FROM b;
REFRESH MATERIALIZED VIEW b;
ROLLBACK;
SELECT count(*) - :rows AS more, pg_temp.vm('b') FROM b;
DROP MATERIALIZED VIEW b;

-- No columns, no rows
CREATE MATERIALIZED VIEW b USING batchheap AS SELECT FROM source;
REFRESH MATERIALIZED VIEW b;
SELECT count(*) = (SELECT count(*) FROM source) AS all_there FROM b;
DROP MATERIALIZED VIEW b;
CREATE MATERIALIZED VIEW b USING batchheap AS SELECT * FROM source WHERE false;
REFRESH MATERIALIZED VIEW b;
SELECT count(*), pg_relation_size('b') FROM b;
DROP MATERIALIZED VIEW b;

-- From a parallel plan, and from another view
CALL pg_temp.cheap_gathers();
SELECT pg_temp.plan_has('Gather', 'SELECT * FROM source WHERE i % 2 = 0');
CREATE MATERIALIZED VIEW b USING batchheap AS SELECT * FROM source WHERE i % 2 = 0;
SELECT pg_temp.counted() \g /dev/null
SET batchheap.max_batch_size = '16MB';
REFRESH MATERIALIZED VIEW b;
SELECT pg_temp.counted(), count(*) = (SELECT count(*) FROM source WHERE i % 2 = 0) AS all_there FROM b;
CREATE MATERIALIZED VIEW b2 USING batchheap AS SELECT g, count(*), (SELECT max(i) FROM b) AS m FROM b GROUP BY g;
REFRESH MATERIALIZED VIEW b2;
SELECT count(*) FROM b2;
DROP MATERIALIZED VIEW b2, b;

-- Access method and the like follow ALTER
CREATE MATERIALIZED VIEW b USING heap AS SELECT * FROM source;
SELECT pg_temp.counted() \g /dev/null
ALTER MATERIALIZED VIEW b SET ACCESS METHOD batchheap;
SELECT pg_temp.counted(), pg_temp.vm('b');
ALTER MATERIALIZED VIEW b SET ACCESS METHOD heap;
SELECT pg_temp.counted(), count(*) = (SELECT count(*) FROM source) AS all_there FROM b;
DROP MATERIALIZED VIEW b;
DROP TABLE source;
