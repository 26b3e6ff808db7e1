-- Where the rows of a load come from: each kind of slot is laid out in its own
-- way, and the kind may change from row to row.
\set ECHO none
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/include/setup.psql
\set ECHO all

CREATE TABLE source (i int, s text, n numeric, f float8, c char(7), b boolean);
INSERT INTO source
    SELECT i, CASE WHEN i % 7 > 0 THEN repeat('s', i % 60) END, i / 3.0, CASE WHEN i % 2 = 0 THEN i END, i, i % 3 = 0
    FROM generate_series(1, 3000) i;
VACUUM ANALYZE source;

-- Each query makes the twins; all rows go through batches and end up with the
-- bytes that heap would have stored, also if pages are built in private memory.
-- (Not so where processes compete for who delivers a row first.)
CREATE PROCEDURE pg_temp.load(query text, ordered boolean DEFAULT true) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM batchheap_counters_reset();
    EXECUTE 'CREATE TABLE h USING heap AS ' || query;
    EXECUTE 'CREATE TABLE b USING batchheap AS ' || query;
    RAISE NOTICE '%, %', pg_temp.twin('h', 'b'),
        CASE WHEN ordered THEN pg_temp.same_bytes('h', 'b') ELSE 'in any order' END;
    RAISE NOTICE '%', pg_temp.counted();
    SET LOCAL batchheap.page_writer = on;
    EXECUTE 'CREATE TABLE p USING batchheap AS ' || query;
    RAISE NOTICE 'page writer: %', CASE WHEN ordered THEN pg_temp.same_bytes('h', 'p') ELSE pg_temp.twin('h', 'p') END;
    DROP TABLE h, b, p;
    PERFORM batchheap_counters_reset();
END $$;

-- A scan: the tuple on the page as it is
CALL pg_temp.load('SELECT * FROM source');
-- A projection: values
CALL pg_temp.load('SELECT s, i + 1 AS i, f, NULL::text AS nothing FROM source');
-- Sorted: minimal tuples
CALL pg_temp.load('SELECT * FROM source ORDER BY s NULLS FIRST, i DESC');
CALL pg_temp.load('SELECT i, s FROM source ORDER BY n DESC LIMIT 2222 OFFSET 100');
-- Values, series, aggregates, windows, set operations
CALL pg_temp.load('VALUES (1, ''one''), (2, NULL), (NULL, ''three'')');
CALL pg_temp.load('SELECT generate_series(1, 1500) AS a, generate_series(1, 3000) AS b');
CALL pg_temp.load('SELECT b, count(*), sum(n), array_agg(i ORDER BY i DESC) FILTER (WHERE i < 50) AS a, max(s) FROM source GROUP BY b ORDER BY b');
CALL pg_temp.load('SELECT i, lag(s) OVER w, sum(n) OVER w FROM source WINDOW w AS (ORDER BY i)');
CALL pg_temp.load('SELECT i, s FROM source WHERE i < 2000 UNION ALL SELECT i * 2, ''projected'' FROM source');
CALL pg_temp.load('WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 2100) SELECT * FROM r');
CALL pg_temp.load('SELECT s.*, t.i AS j FROM source s LEFT JOIN source t ON t.i = s.i * 3 ORDER BY s.i');
-- Whole rows, and composites within rows
CALL pg_temp.load('SELECT s, s.i, ROW(s.i, s.s)::text AS r FROM source s');
-- System columns under other names; a sample; a TID scan; a function that returns tuples
CALL pg_temp.load('SELECT ctid AS a, tableoid AS b, xmin AS c, i FROM source');
CALL pg_temp.load('SELECT * FROM source TABLESAMPLE SYSTEM (50) REPEATABLE (1)');
CALL pg_temp.load('SELECT * FROM source WHERE ctid < ''(3,1)''');
CREATE FUNCTION some_rows() RETURNS SETOF source LANGUAGE sql STABLE AS 'SELECT * FROM source WHERE i % 2 = 0';
CREATE FUNCTION more_rows() RETURNS SETOF source LANGUAGE plpgsql AS
    'BEGIN RETURN QUERY SELECT * FROM source WHERE i % 2 = 1; RETURN QUERY SELECT * FROM some_rows(); END';
CALL pg_temp.load('SELECT * FROM some_rows()');
CALL pg_temp.load('SELECT * FROM more_rows()');
CALL pg_temp.load('SELECT (more_rows()).*');
DROP FUNCTION some_rows, more_rows;

-- Materialized, memoized, from a subquery scan, from an index
CREATE INDEX ON source (i);
SET enable_seqscan = off;
CALL pg_temp.load('SELECT * FROM source WHERE i BETWEEN 100 AND 2600');
CALL pg_temp.load('SELECT i FROM source WHERE i BETWEEN 100 AND 2600');
RESET enable_seqscan;
CALL pg_temp.load('SELECT a.i, b.s FROM source a, (SELECT * FROM source WHERE i < 5 OFFSET 0) b WHERE a.i < 500');

-- A source of batchheap's own
CREATE TABLE source_b USING batchheap AS TABLE source;
CALL pg_temp.load('SELECT * FROM source_b');
DROP TABLE source_b;

-- Columns dropped and added after the fact: tuples on the pages have other
-- columns than the source has
ALTER TABLE source DROP f;
ALTER TABLE source ADD late int, ADD later text DEFAULT 'missing', ADD latest numeric NOT NULL DEFAULT 4.2;
INSERT INTO source SELECT i, 'new', i, i::text, true, i, NULL, i FROM generate_series(3001, 3050) i;
CALL pg_temp.load('SELECT * FROM source');
CALL pg_temp.load('SELECT * FROM source ORDER BY i DESC');
CALL pg_temp.load('TABLE source');
DROP TABLE source;
-- Only added: rows that are shorter than their table
CREATE TABLE source AS SELECT i FROM generate_series(1, 1500) i;
ALTER TABLE source ADD a int, ADD b text;
INSERT INTO source SELECT i, i, i::text FROM generate_series(1, 10) i;
CALL pg_temp.load('SELECT * FROM source');
DROP TABLE source;

-- Partitions with their columns in different orders and of both kinds, and
-- inheritance: the kind of slot changes on the way
CREATE TABLE parts (a int, b text, c numeric) PARTITION BY RANGE (a);
CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM (0) TO (1000) USING heap;
CREATE TABLE part2 (c numeric, b text, x int, a int) USING batchheap;
ALTER TABLE part2 DROP x;
ALTER TABLE parts ATTACH PARTITION part2 FOR VALUES FROM (1000) TO (2000);
CREATE TABLE part3 (b text, c numeric, a int);
ALTER TABLE parts ATTACH PARTITION part3 FOR VALUES FROM (2000) TO (3000);
INSERT INTO parts SELECT i, 'b' || i, i * 1.5 FROM generate_series(0, 2999) i;
SELECT pg_temp.plan_has('Append', 'SELECT * FROM parts');
CALL pg_temp.load('SELECT * FROM parts');
CALL pg_temp.load('SELECT * FROM parts ORDER BY b');
DROP TABLE parts;

--
-- Parallel plans: the leader takes tuples out of the workers' queues, whose
-- memory is overwritten by what comes next
--
CREATE TABLE source (i int, s text, n numeric) WITH (parallel_workers = 2);
INSERT INTO source SELECT i, repeat('s', i % 300), CASE WHEN i % 3 > 0 THEN i / 7.0 END FROM generate_series(1, 4000) i;
CREATE INDEX ON source (i);
ANALYZE source;
CALL pg_temp.cheap_gathers();
-- the number of batches shall not depend on which row comes when
SET batchheap.max_batch_size = '16MB';
SELECT pg_temp.plan_has('Gather', 'SELECT * FROM source') AS gather,
       pg_temp.plan_has('Gather Merge', 'SELECT * FROM source ORDER BY n') AS gather_merge;
CREATE TABLE h USING heap AS SELECT * FROM source;
CREATE TABLE b USING batchheap AS SELECT * FROM source;
CREATE TABLE b2 USING batchheap AS SELECT * FROM source ORDER BY n;
PREPARE from_source(int) AS SELECT * FROM source WHERE i > $1;
CREATE TABLE b3 USING batchheap AS EXECUTE from_source(0);
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.twin('h', 'b2'), pg_temp.twin('h', 'b3');
DROP TABLE h, b, b2, b3;
CALL pg_temp.load('SELECT i, upper(s), n * 2 AS d FROM source', ordered => false);
CALL pg_temp.load('SELECT n, min(s), count(*) FROM source GROUP BY n', ordered => false);
CALL pg_temp.load('SELECT i, s FROM source WHERE i < 2000 UNION ALL SELECT i, s FROM source', ordered => false);
CALL pg_temp.load('SELECT * FROM source ORDER BY i');
-- Often, as what goes wrong there need not go wrong each time
CREATE FUNCTION pg_temp.fingerprint(rel text) RETURNS text LANGUAGE plpgsql SET max_parallel_workers_per_gather = 0 AS $$
DECLARE
    r text;
BEGIN
    EXECUTE format('SELECT sum(hashtextextended(t::text, 0)) FROM %s t', rel) INTO r;
    RETURN r;
END $$;
DO $$
DECLARE
    wanted text := pg_temp.fingerprint('source');
BEGIN
    FOR n IN 1..20 LOOP
        EXECUTE 'CREATE TABLE b USING batchheap AS SELECT * FROM source' || CASE WHEN n % 2 = 0 THEN ' ORDER BY n' ELSE '' END;
        IF pg_temp.fingerprint('b') <> wanted THEN RAISE WARNING 'load % is different', n; END IF;
        DROP TABLE b;
    END LOOP;
END $$;
SELECT pg_temp.counted();
DROP TABLE source;
