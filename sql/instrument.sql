--
-- What a batched INSERT costs is counted, up to its last batch, which is written when
-- the executor has run: EXPLAIN and whoever watches the query must see it
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS batchheap;
RESET client_min_messages;

CREATE TABLE b (i int, s text) USING batchheap;

-- 500 rows are less than a batch
CREATE FUNCTION pg_temp.wal_bytes(statement text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    plan json;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, WAL, TIMING OFF, FORMAT JSON) ' || statement INTO plan;
    RETURN plan->0->'Plan'->>'WAL Bytes';
END $$;
SELECT pg_temp.wal_bytes('INSERT INTO b SELECT i, repeat(''s'', 100) FROM generate_series(1, 500) i') > 500 * 100 AS counted;
SELECT count(*) FROM b;

DROP TABLE b;
