-- CREATE TABLE AS and SELECT INTO in all their forms: each is batched, and
-- gives the rows that heap gives.
--
-- The caller frees its bulk insert state before table_finish_bulk_insert(), so
-- that the last batch of every statement here is written without it.
\set ECHO none
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/include/setup.psql
\set ECHO all

-- The plain form; 2500 rows are two full batches and a part of one
SELECT format('CREATE TABLE %s USING %s AS SELECT i, ''row '' || i AS s FROM generate_series(1, 2500) i', t, am)
    FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.vm('b'), pg_temp.frozen_rows('b');
DROP TABLE h, b;

-- SELECT INTO
SET default_table_access_method = heap;
SELECT i, 'row ' || i AS s INTO h FROM generate_series(1, 2500) i;
SET default_table_access_method = batchheap;
SELECT i, 'row ' || i AS s INTO b FROM generate_series(1, 2500) i;
RESET default_table_access_method;
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.vm('b');

-- IF NOT EXISTS, when it does and when it does not
CREATE TABLE IF NOT EXISTS b USING batchheap AS SELECT -1 AS i, 'no' AS s;
SELECT pg_temp.counted(), pg_temp.twin('h', 'b');
CREATE TABLE IF NOT EXISTS b2 USING batchheap AS TABLE h;
SELECT pg_temp.counted(), pg_temp.twin('h', 'b2');
DROP TABLE b, b2;

-- No row: no load, no page
CREATE TABLE b USING batchheap AS TABLE h WITH NO DATA;
CREATE TABLE b2 USING batchheap AS SELECT * FROM h WHERE false;
SELECT pg_temp.counted(), (SELECT count(*) FROM b) AS b, (SELECT count(*) FROM b2) AS b2,
       pg_relation_size('b') AS size_b, pg_relation_size('b2') AS size_b2;
DROP TABLE h, b, b2;

-- From a prepared statement
PREPARE numbers(int, int) AS SELECT i, i % $2 AS m FROM generate_series(1, $1) i;
SELECT format('CREATE TABLE %s USING %s AS EXECUTE numbers(1234, 7)', t, am) FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.vm('b');
DROP TABLE h, b;
SELECT format('CREATE TABLE IF NOT EXISTS %s (a, b) USING %s AS EXECUTE numbers(1234, 7) WITH NO DATA', t, am) FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b');
DROP TABLE h, b;
DEALLOCATE numbers;

-- Under EXPLAIN ANALYZE
EXPLAIN ANALYZE CREATE TABLE b USING batchheap AS SELECT i FROM generate_series(1, 2500) i \g /dev/null
CREATE TABLE h AS SELECT i FROM generate_series(1, 2500) i;
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.vm('b');
DROP TABLE h, b;
SET default_table_access_method = batchheap;
EXPLAIN ANALYZE SELECT i INTO b FROM generate_series(1, 2500) i \g /dev/null
RESET default_table_access_method;
SELECT pg_temp.counted(), count(*) FROM b;
DROP TABLE b;

-- Column names, storage parameters, persistence
SELECT format('CREATE UNLOGGED TABLE %s (n, "a %%s name") USING %s WITH (fillfactor = 30, toast.autovacuum_enabled = off)
    AS SELECT i, repeat(''x'', i %% 50) FROM generate_series(1, 2500) i', t, am) FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.vm('b');
SELECT relname, relpersistence, reloptions, pg_relation_size(oid) = pg_relation_size('h') AS as_large_as_h
    FROM pg_class WHERE relname IN ('h', 'b') ORDER BY 1;
SELECT "a %s name" FROM b WHERE n = 7;
DROP TABLE h, b;

-- A tablespace
SET allow_in_place_tablespaces = true;
CREATE TABLESPACE regress_batchheap LOCATION '';
SELECT format('CREATE TABLE %s USING %s TABLESPACE regress_batchheap AS SELECT i, i::text AS s FROM generate_series(1, 2500) i', t, am)
    FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.vm('b');
-- Moving it copies pages as they are
ALTER TABLE b SET TABLESPACE pg_default;
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.vm('b');
DROP TABLE h, b;
DROP TABLESPACE regress_batchheap;

--
-- Temporary tables
--
SELECT format('CREATE TEMP TABLE %s USING %s AS SELECT i, i::text AS s FROM generate_series(1, 2500) i', t, am)
    FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.vm('b');
DROP TABLE h, b;

CREATE TEMP TABLE b USING batchheap ON COMMIT DROP AS SELECT i FROM generate_series(1, 2500) i;
SELECT pg_temp.counted();
SELECT count(*) FROM b;
BEGIN;
CREATE TEMP TABLE b USING batchheap ON COMMIT DROP AS SELECT i FROM generate_series(1, 2500) i;
SELECT count(*) FROM b;
COMMIT;
SELECT count(*) FROM b;

BEGIN;
CREATE TEMP TABLE b USING batchheap ON COMMIT DELETE ROWS AS SELECT i FROM generate_series(1, 2500) i;
SELECT count(*) FROM b;
COMMIT;
SELECT count(*) FROM b;
INSERT INTO b VALUES (1);
SELECT count(*) FROM b;
DROP TABLE b;
CREATE TEMP TABLE b USING batchheap ON COMMIT PRESERVE ROWS AS SELECT i FROM generate_series(1, 2500) i;
SELECT count(*) FROM b;
SELECT pg_temp.counted();
DROP TABLE b;

--
-- No columns
--
SELECT format('CREATE TABLE %s USING %s AS SELECT FROM generate_series(1, 2500)', t, am) FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.vm('b'), pg_temp.same_bytes('h', 'b');
ALTER TABLE b ADD a int;
SELECT count(*), count(a) FROM b;
UPDATE b SET a = 1;
SELECT count(*), count(a) FROM b;
DROP TABLE h, b;

--
-- Where a statement may come from
--

-- Functions, procedures that commit between loads, DO blocks, EXECUTE
CREATE FUNCTION make(t text, am text, n int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    c bigint;
BEGIN
    EXECUTE format('CREATE TABLE %s USING %s AS SELECT i FROM generate_series(1, %s) i', t, am, n);
    EXECUTE 'SELECT count(*) FROM ' || t INTO c;
    RETURN c;
END $$;
SELECT t, make(t, am, 2500) FROM twins ORDER BY t;
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.vm('b');
DROP TABLE h, b;
CREATE PROCEDURE make_and_commit() LANGUAGE plpgsql AS $$
BEGIN
    FOR n IN 1..4 LOOP
        EXECUTE format('CREATE TABLE b%s USING batchheap AS SELECT i FROM generate_series(1, 1500) i', n);
        IF n % 2 = 0 THEN COMMIT; ELSE ROLLBACK; END IF;
    END LOOP;
END $$;
CALL make_and_commit();
SELECT pg_temp.counted(), pg_temp.vm('b2'), pg_temp.vm('b4'), to_regclass('b1') AS b1, to_regclass('b3') AS b3;
SELECT (SELECT count(*) FROM b2) AS b2, (SELECT count(*) FROM b4) AS b4;
DROP TABLE b2, b4;
DO $$
BEGIN
    CREATE TABLE b USING batchheap AS SELECT i FROM generate_series(1, 1500) i;
    ASSERT (SELECT count(*) FROM b) = 1500;
END $$;
SELECT pg_temp.counted(), pg_temp.vm('b'), count(*) FROM b;
DROP TABLE b;
CREATE FUNCTION make_in_sql() RETURNS void LANGUAGE sql AS
    'CREATE TABLE b USING batchheap AS SELECT i FROM generate_series(1, 1500) i';
SELECT make_in_sql();
SELECT pg_temp.counted(), pg_temp.vm('b'), count(*) FROM b;
DROP TABLE b;
DROP FUNCTION make, make_in_sql;
DROP PROCEDURE make_and_commit;

-- Event triggers, which fire when all rows are there
CREATE TABLE log (command text, n bigint);
CREATE FUNCTION note() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    IF tg_event = 'ddl_command_end' AND tg_tag LIKE 'CREATE TABLE%' THEN
        INSERT INTO log SELECT tg_tag, count(*) FROM b;
    ELSIF tg_event = 'table_rewrite' THEN
        INSERT INTO log SELECT tg_tag || ' of ' || pg_event_trigger_table_rewrite_oid()::regclass, count(*) FROM b;
    END IF;
END $$;
CREATE EVENT TRIGGER regress_batchheap_end ON ddl_command_end EXECUTE FUNCTION note();
CREATE EVENT TRIGGER regress_batchheap_rewrite ON table_rewrite EXECUTE FUNCTION note();
CREATE TABLE b USING batchheap AS SELECT i FROM generate_series(1, 1500) i;
ALTER TABLE b ALTER i TYPE bigint;
DROP EVENT TRIGGER regress_batchheap_end;
DROP EVENT TRIGGER regress_batchheap_rewrite;
SELECT * FROM log;
SELECT pg_temp.counted(), pg_temp.vm('b'), count(*) FROM b;
DROP TABLE b, log;
DROP FUNCTION note;

-- A table that poses as a catalog has rules of its own for logical decoding
CREATE TABLE b USING batchheap WITH (user_catalog_table = on) AS SELECT i FROM generate_series(1, 1500) i;
SELECT pg_temp.counted(), count(*) FROM b;
DROP TABLE b;

-- A query that changes other tables
CREATE TABLE source AS SELECT i FROM generate_series(1, 2500) i;
CREATE TABLE b USING batchheap AS
    WITH moved AS (DELETE FROM source WHERE i % 2 = 0 RETURNING i) SELECT * FROM moved;
SELECT pg_temp.counted(), count(*), sum(i), (SELECT count(*) FROM source) AS left_over FROM b;
DROP TABLE b, source;

--
-- Transactions
--

-- What is done in one with the table it has made
SELECT format('BEGIN; CREATE TABLE %1$s USING %2$s WITH (autovacuum_enabled = off) AS SELECT i, 0 AS n FROM generate_series(1, 2500) i;
    UPDATE %1$s SET n = 1 WHERE i %% 3 = 0; DELETE FROM %1$s WHERE i %% 5 = 0;
    SAVEPOINT s; UPDATE %1$s SET n = n + 10; DELETE FROM %1$s WHERE i %% 2 = 0; INSERT INTO %1$s VALUES (0, 0);
    ROLLBACK TO s; UPDATE %1$s SET n = n + 100 WHERE i <= 20; COMMIT', t, am) FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.vm('b');
DROP TABLE h, b;

-- Savepoints: what is made and undone is gone, what is kept is frozen
BEGIN;
SAVEPOINT one;
CREATE TABLE b USING batchheap AS SELECT i FROM generate_series(1, 1500) i;
ROLLBACK TO one;
CREATE TABLE b USING batchheap AS SELECT i FROM generate_series(1, 1600) i;
SAVEPOINT two;
CREATE TABLE b2 USING batchheap AS SELECT i FROM generate_series(1, 1700) i;
RELEASE two;
SAVEPOINT three;
DROP TABLE b;
CREATE TABLE b USING batchheap AS SELECT 0 AS i;
ROLLBACK TO three;
COMMIT;
SELECT pg_temp.counted(), (SELECT count(*) FROM b) AS b, (SELECT count(*) FROM b2) AS b2,
       pg_temp.vm('b') AS vm_b, pg_temp.vm('b2') AS vm_b2;
DROP TABLE b, b2;

-- An error in the middle of a row leaves nothing: not the table, not the load
CREATE TABLE b USING batchheap AS SELECT i, 1 / (1700 - i) AS d FROM generate_series(1, 2500) i;
CREATE DOMAIN small AS int CHECK (value < 2000);
CREATE TABLE b USING batchheap AS SELECT i::small FROM generate_series(1, 2500) i;
SELECT to_regclass('b');
SELECT pg_temp.counted();
BEGIN;
SAVEPOINT s;
CREATE TABLE b USING batchheap AS SELECT i, 1 / (1700 - i) AS d FROM generate_series(1, 2500) i;
ROLLBACK TO s;
CREATE TABLE b USING batchheap AS SELECT i FROM generate_series(1, 1200) i;
COMMIT;
SELECT pg_temp.counted(), pg_temp.vm('b'), count(*) FROM b;
DROP TABLE b;
DROP DOMAIN small;
