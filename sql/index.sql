-- Indexes on a batchheap table.  heapam's code that builds one refuses a table
-- whose routine is not heapam's own, so the table passes for heap meanwhile:
-- also when its cache entry is made anew in the middle, and not any longer when
-- the build has failed.
\set ECHO none
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/include/setup.psql
\set ECHO all

SELECT format('CREATE TABLE %s USING %s AS
    SELECT i, i %% 100 AS m, ''s'' || i AS s, point(i, i) AS p, ARRAY[i, i + 1] AS a, int4range(i * 2, i * 2 + 2) AS r
    FROM generate_series(1, 2500) i', t, am) FROM twins \gexec
SELECT pg_temp.counted() \g /dev/null

-- Is the table on batchheap, and are loads batched?
CREATE FUNCTION pg_temp.in_order() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    found text;
BEGIN
    PERFORM batchheap_counters_reset();
    CREATE TABLE b_probe USING batchheap AS SELECT i FROM generate_series(1, 10) i;
    DROP TABLE b_probe;
    SELECT amname INTO found FROM pg_class c JOIN pg_am am ON am.oid = c.relam WHERE c.oid = 'b'::regclass;
    RETURN found || ': ' || pg_temp.counted();
END $$;

-- The same count with each index and without
CREATE FUNCTION pg_temp.by_index(condition text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    h bigint;
    b bigint;
    plan json;
BEGIN
    EXECUTE 'SELECT count(*) FROM h WHERE ' || condition INTO h;
    SET LOCAL enable_seqscan = off;
    EXECUTE 'SELECT count(*) FROM b WHERE ' || condition INTO b;
    EXECUTE 'EXPLAIN (FORMAT JSON) SELECT count(*) FROM b WHERE ' || condition INTO plan;
    SET LOCAL enable_seqscan = on;
    RETURN format('%s rows, %s, %s', b, CASE WHEN h = b THEN 'same' ELSE 'DIFFERENT' END,
        CASE WHEN plan::text ~ 'Index Name' THEN 'by index' ELSE 'NO INDEX' END);
END $$;

--
-- Every kind
--
CREATE UNIQUE INDEX b_btree ON b (i) INCLUDE (m);
SELECT pg_temp.by_index('i BETWEEN 500 AND 1999'), bt_index_check('b_btree', true), bt_index_parent_check('b_btree', true, true);
DROP INDEX b_btree;
CREATE INDEX b_hash ON b USING hash (s);
SELECT pg_temp.by_index('s = ''s777''');
CREATE INDEX b_gist ON b USING gist (p);
SELECT pg_temp.by_index('p <@ box(point(10, 10), point(200, 200))');
CREATE INDEX b_gin ON b USING gin (a);
SELECT pg_temp.by_index('a @> ARRAY[1000]');
CREATE INDEX b_spgist ON b USING spgist (s text_ops);
DROP INDEX b_hash;
SELECT pg_temp.by_index('s = ''s2000''');
CREATE INDEX b_brin ON b USING brin (m) WITH (pages_per_range = 2);
SELECT pg_temp.by_index('m = 42');
DROP INDEX b_brin;
CREATE INDEX b_partial ON b (m) WHERE i > 2000;
SELECT pg_temp.by_index('m < 50 AND i > 2000'), bt_index_check('b_partial', true);
DROP INDEX b_partial;
CREATE INDEX b_expression ON b ((m * 2), lower(s));
SELECT pg_temp.by_index('m * 2 = 84'), bt_index_check('b_expression', true);
CREATE INDEX b_many ON b (m, s DESC NULLS LAST, r);
SELECT bt_index_check('b_many', true);
DROP INDEX b_gist, b_gin, b_spgist, b_expression, b_many;

-- Constraints; one that is broken is found
ALTER TABLE b ADD PRIMARY KEY (i);
ALTER TABLE b ADD UNIQUE (s);
ALTER TABLE b ADD EXCLUDE USING gist (r WITH &&);
SELECT pg_temp.by_index('i = 7'), pg_temp.by_index('s = ''s7'''), pg_temp.by_index('r && int4range(10, 20)');
INSERT INTO b VALUES (1);
INSERT INTO b (i, s) VALUES (0, 's9');
INSERT INTO b (i, r) VALUES (0, '[100,101)');
\set VERBOSITY terse
ALTER TABLE b ADD UNIQUE (m);
ALTER TABLE b ADD EXCLUDE USING hash (m WITH =);
\set VERBOSITY default
SELECT pg_temp.in_order();
ALTER TABLE b DROP CONSTRAINT b_s_key, DROP CONSTRAINT b_r_excl;

-- Concurrently, which validates in a second pass
CREATE INDEX CONCURRENTLY b_concurrently ON b (m, i);
SELECT bt_index_check('b_concurrently', true), pg_temp.by_index('m = 3 AND i > 100');
REINDEX INDEX CONCURRENTLY b_concurrently;
REINDEX TABLE CONCURRENTLY b;
REINDEX TABLE b;
SELECT bt_index_check('b_concurrently', true), bt_index_check('b_pkey', true);
\set VERBOSITY terse
CREATE UNIQUE INDEX CONCURRENTLY b_broken ON b (m);
\set VERBOSITY default
SELECT indisvalid, indisready FROM pg_index WHERE indexrelid = 'b_broken'::regclass;
DELETE FROM b WHERE i > 100;
REINDEX INDEX CONCURRENTLY b_broken;
SELECT indisvalid, bt_index_check('b_broken', true) FROM pg_index WHERE indexrelid = 'b_broken'::regclass;
DROP INDEX CONCURRENTLY b_broken;
INSERT INTO b SELECT * FROM h WHERE i > 100;
SELECT pg_temp.twin('h', 'b'), bt_index_check('b_concurrently', true), pg_temp.in_order();
DROP INDEX b_concurrently;

-- BRIN summarizes ranges of a table in use
CREATE INDEX b_brin ON b USING brin (i) WITH (pages_per_range = 1);
INSERT INTO b SELECT i, 0, 'more' FROM generate_series(2501, 5000) i;
SELECT brin_summarize_new_values('b_brin') > 0 AS summarized, brin_desummarize_range('b_brin', 0), brin_summarize_range('b_brin', 0);
INSERT INTO h SELECT i, 0, 'more' FROM generate_series(2501, 5000) i;
ALTER TABLE b DROP CONSTRAINT b_pkey;
SELECT pg_temp.by_index('i BETWEEN 2400 AND 2600');
DROP INDEX b_brin;

-- In parallel: workers find the table passing for heap, too
SET min_parallel_table_scan_size = 0;
SET max_parallel_maintenance_workers = 2;
ALTER TABLE b SET (parallel_workers = 2);
CREATE INDEX b_parallel ON b (i, s);
SELECT bt_index_check('b_parallel', true), pg_temp.by_index('i BETWEEN 2400 AND 2600');
REINDEX INDEX b_parallel;
SELECT bt_index_check('b_parallel', true), pg_temp.in_order();
RESET min_parallel_table_scan_size;
RESET max_parallel_maintenance_workers;
ALTER TABLE b RESET (parallel_workers);
DROP INDEX b_parallel;

-- On a partitioned table, of which a part is on batchheap
CREATE TABLE parts (i int, s text) PARTITION BY RANGE (i);
CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM (0) TO (1000) USING batchheap;
CREATE TABLE part2 PARTITION OF parts FOR VALUES FROM (1000) TO (2000) USING heap;
INSERT INTO parts SELECT i, 's' || i FROM generate_series(0, 1999) i;
CREATE INDEX ON parts (s);
ALTER TABLE parts ADD PRIMARY KEY (i);
CREATE TABLE part3 PARTITION OF parts FOR VALUES FROM (2000) TO (3000) USING batchheap;
SELECT bt_index_check('part1_pkey', true), bt_index_check('part1_s_idx', true), bt_index_check('part3_pkey', true);
DROP TABLE parts;

--
-- An expression that fails half-way; then a good one, in the same session
--
CREATE INDEX b_zero ON b ((1 / (i - 1234)));
SELECT pg_temp.in_order();
BEGIN;
SAVEPOINT s;
CREATE INDEX b_zero ON b ((1 / (i - 1234)));
ROLLBACK TO s;
CREATE INDEX b_good ON b ((1 / (i + 1)));
SELECT pg_temp.by_index('1 / (i + 1) = 0');
COMMIT;
SELECT pg_temp.in_order();
DROP INDEX b_good;
CREATE INDEX CONCURRENTLY b_zero ON b ((1 / (i - 1234)));
SELECT indisvalid FROM pg_index WHERE indexrelid = 'b_zero'::regclass;
SELECT pg_temp.in_order();
DROP INDEX b_zero;
-- What is loaded into the very table afterwards goes through batchheap
BEGIN;
CREATE TABLE b2 (i int) USING batchheap;
INSERT INTO b2 VALUES (0);
SAVEPOINT s;
CREATE INDEX ON b2 ((1 / i));
ROLLBACK TO s;
SELECT batchheap_counters_reset() \g /dev/null
INSERT INTO b2 VALUES (1);
COPY b2 FROM PROGRAM 'seq 1 100';
SELECT pg_temp.counted();
ROLLBACK;

-- Not all that reads a table like this makes the cache entry anew when it fails:
-- amcheck, and BRIN when it summarizes what is new, do not
CREATE FUNCTION fragile(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
    'BEGIN IF current_setting(''test.broken'', true) = ''yes'' AND i % 1000 = 0 THEN RAISE division_by_zero; END IF; RETURN i; END';
CREATE INDEX b_fragile ON b (fragile(i));
CREATE INDEX b_brin ON b USING brin (fragile(i)) WITH (pages_per_range = 1);
INSERT INTO b SELECT i, 0, 'new' FROM generate_series(6000, 8000) i WHERE i % 1000 > 0;
SET test.broken = 'yes';
SELECT batchheap_counters_reset() \g /dev/null
SELECT bt_index_check('b_fragile', true);
INSERT INTO b (i) VALUES (8001);
SELECT pg_temp.counted();
RESET test.broken;
INSERT INTO b (i) VALUES (9000);
SET test.broken = 'yes';
SELECT pg_temp.counted() \g /dev/null
SELECT brin_summarize_new_values('b_brin');
INSERT INTO b (i) VALUES (9001);
SELECT pg_temp.counted();
RESET test.broken;
SELECT bt_index_check('b_fragile', true), brin_summarize_new_values('b_brin') >= 0 AS summarized;
DROP INDEX b_fragile, b_brin;
DROP FUNCTION fragile;

--
-- The table's cache entry is made anew in the middle of the build: an index
-- expression grants a privilege on the table.  (It has to look as if it could
-- not, in order to be allowed in an index.)
--
CREATE ROLE regress_batchheap_reader;
CREATE FUNCTION meddle(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF i % 700 = 0 THEN GRANT SELECT ON public.b TO regress_batchheap_reader; END IF;
    RETURN i;
END $$;
CREATE FUNCTION innocent(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
    'DECLARE r int; BEGIN SELECT public.meddle(i) INTO r; RETURN r; END';
CREATE INDEX b_meddled ON b (innocent(i));
SELECT bt_index_check('b_meddled', true), pg_temp.by_index('innocent(i) = 700'), has_table_privilege('regress_batchheap_reader', 'b', 'select');
REINDEX INDEX b_meddled;
SELECT pg_temp.in_order();
DROP INDEX b_meddled;
CREATE INDEX CONCURRENTLY b_meddled ON b (innocent(i));
SELECT bt_index_check('b_meddled', true), indisvalid FROM pg_index WHERE indexrelid = 'b_meddled'::regclass;
SELECT pg_temp.in_order();
DROP INDEX b_meddled;
-- ... and so are all entries at once, as a publication of all tables has it
CREATE OR REPLACE FUNCTION meddle(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF i % 700 = 0 THEN
        CREATE PUBLICATION regress_batchheap FOR ALL TABLES;
        DROP PUBLICATION regress_batchheap;
    END IF;
    RETURN i;
END $$;
SET client_min_messages = error;
CREATE INDEX b_meddled ON b (innocent(i));
SELECT bt_index_check('b_meddled', true), pg_temp.in_order();
RESET client_min_messages;
DROP INDEX b_meddled;

-- An index expression that builds an index itself: on another table, and fails
-- or not; both tables are on batchheap again afterwards
CREATE OR REPLACE FUNCTION meddle(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF i = 500 THEN CREATE INDEX b2_inner ON public.b2 ((i * 2)); END IF;
    IF i = 600 THEN
        BEGIN
            CREATE INDEX b2_broken ON public.b2 ((1 / (i - 77)));
        EXCEPTION WHEN division_by_zero THEN NULL;
        END;
    END IF;
    IF i = 700 THEN
        CREATE TABLE public.b3 USING batchheap AS SELECT n FROM generate_series(1, 1500) n;
        CREATE INDEX b3_n ON public.b3 (n);
    END IF;
    RETURN i;
END $$;
CREATE TABLE b2 USING batchheap AS SELECT i FROM generate_series(1, 1500) i;
SELECT batchheap_counters_reset() \g /dev/null
CREATE INDEX b_outer ON b (innocent(i));
SELECT pg_temp.counted(), bt_index_check('b_outer', false), bt_index_check('public.b2_inner', true), bt_index_check('public.b3_n', true);
SELECT c.relname, amname FROM pg_class c JOIN pg_am am ON am.oid = c.relam WHERE c.oid IN ('b'::regclass, 'b2'::regclass, 'b3'::regclass) ORDER BY 1;
INSERT INTO b2 VALUES (-1);
INSERT INTO b3 VALUES (-1);
INSERT INTO b (i) VALUES (-1);
SELECT pg_temp.counted();
DROP INDEX b_outer;
DROP TABLE b3;
DROP INDEX b2_inner;
-- ... that has an index of the same table checked, for which the table passes for
-- heap twice
CREATE INDEX b_other ON b (m);
CREATE OR REPLACE FUNCTION meddle(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS
    'BEGIN IF i = 500 THEN PERFORM public.bt_index_check(''public.b_other'', true); END IF; RETURN i; END';
CREATE INDEX b_outer ON b (innocent(i));
SELECT pg_temp.in_order();
SELECT bt_index_check('b_outer', false), bt_index_check('b_other', true);
DROP INDEX b_outer, b_other;
-- ... on the same table: it is refused, as on heap
CREATE OR REPLACE FUNCTION meddle(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS
    'BEGIN IF i = 500 THEN CREATE INDEX ON public.b (m); END IF; RETURN i; END';
CREATE INDEX b_outer ON b (innocent(i));
SELECT pg_temp.in_order();

DROP TABLE h, b, b2;
DROP FUNCTION innocent, meddle;
DROP ROLE regress_batchheap_reader;
