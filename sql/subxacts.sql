-- Loads in subtransactions: a load belongs to the subtransaction that it began
-- in, is dropped with it and with no other, and leaves no memory behind.
\set ECHO none
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/include/setup.psql
\set ECHO all

CREATE FUNCTION pg_temp.leftovers() RETURNS bigint LANGUAGE sql AS
    $$ SELECT count(*) FROM pg_backend_memory_contexts WHERE name LIKE 'batchheap%' $$;

-- A load that fails in an EXCEPTION block, then a good one of the same name,
-- many times in one transaction
SET batchheap.max_batch_rows = 100;
DO $$
DECLARE
    wrong int := 0;
BEGIN
    FOR n IN 1..1000 LOOP
        BEGIN
            CREATE TABLE b USING batchheap AS SELECT i, 1 / (150 - i) AS d FROM generate_series(1, 200) i;
        EXCEPTION WHEN division_by_zero THEN
            NULL;
        END;
        IF n % 4 = 0 THEN
            CREATE TABLE b USING batchheap AS SELECT i FROM generate_series(1, 120) i;
            IF (SELECT count(*) <> 120 OR count(DISTINCT i) <> 120 FROM b) THEN wrong := wrong + 1; END IF;
            DROP TABLE b;
        END IF;
    END LOOP;
    RAISE NOTICE '% wrong, % left over', wrong, pg_temp.leftovers();
END $$;
SELECT pg_temp.counted(), pg_temp.leftovers();

-- Memory: as much after many loads as after a few, within one transaction, of
-- loads that end well and of those that fail
CREATE FUNCTION pg_temp.memory() RETURNS bigint LANGUAGE sql AS
    $$ SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name IN ('TopTransactionContext', 'TopMemoryContext') OR name LIKE 'batchheap%' $$;
SET batchheap.max_batch_size = '1MB';
CREATE TABLE source AS SELECT i FROM generate_series(1, 300) i;
CREATE MATERIALIZED VIEW b USING batchheap AS SELECT i, 1 / (i - 500) AS d FROM source;
DO $$
DECLARE
    before bigint;
BEGIN
    FOR n IN 1..60 LOOP
        IF n = 10 THEN before := pg_temp.memory(); END IF;
        REFRESH MATERIALIZED VIEW b;
        BEGIN
            INSERT INTO source VALUES (500);
            REFRESH MATERIALIZED VIEW b;
        EXCEPTION WHEN division_by_zero THEN
            NULL;
        END;
    END LOOP;
    RAISE NOTICE 'grown by a ring: %', pg_temp.memory() - before > 1000000;
END $$;
SELECT pg_temp.counted(), pg_temp.leftovers(), count(*) FROM b;
DROP MATERIALIZED VIEW b;
DROP TABLE source;
RESET batchheap.max_batch_size;

-- While a load is going on there is one, within its size; after it none
CREATE FUNCTION memory_of_load() RETURNS text LANGUAGE sql AS
    $$ SELECT count(*) || ' contexts, ' || CASE WHEN sum(total_bytes) < 100000 + 64 * 1024 THEN 'within' ELSE 'MORE THAN' END || ' the limit'
        FROM pg_backend_memory_contexts WHERE name LIKE 'batchheap%' $$;
BEGIN;
CREATE TABLE b USING batchheap AS
    SELECT i, CASE WHEN i % 10000 = 9999 THEN memory_of_load() END AS memory, repeat('x', 200) AS s FROM generate_series(1, 30000) i;
SELECT memory, count(*) FROM b WHERE memory IS NOT NULL GROUP BY memory;
SELECT pg_temp.leftovers();
COMMIT;
DROP TABLE b;
DROP FUNCTION memory_of_load;

-- An EXCEPTION block inside a load, which has nothing to do with it, may fail
CREATE FUNCTION fails() RETURNS int LANGUAGE plpgsql AS
    'BEGIN PERFORM 1 / 0; RETURN 1; EXCEPTION WHEN division_by_zero THEN RETURN 0; END';
SELECT pg_temp.counted() \g /dev/null
CREATE TABLE b USING batchheap AS SELECT i, fails() AS f FROM generate_series(1, 350) i;
SELECT pg_temp.counted(), pg_temp.vm('b'), count(*) FROM b;
DROP TABLE b;
DROP FUNCTION fails;

-- Loads at several levels at once, some of which are undone: what is left is
-- the outermost, and those within that were kept
CREATE FUNCTION nest(level int, undo int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    r text := '';
    n bigint;
BEGIN
    IF level = 0 THEN RETURN pg_temp.leftovers() / 2 || ' loads'; END IF;
    BEGIN
        EXECUTE format('CREATE TABLE nest%1$s USING batchheap AS SELECT i, CASE WHEN i = 150 THEN nest(%1$s - 1, %2$s) END AS s FROM generate_series(1, 210) i', level, undo);
        EXECUTE format('SELECT count(*), max(s) FROM nest%s', level) INTO n, r;
        IF level = undo THEN PERFORM 1 / 0; END IF;
    EXCEPTION WHEN division_by_zero THEN
        r := r || ' undone';
    END;
    RETURN r || ' ' || n;
END $$;
SELECT nest(3, 0), to_regclass('nest1') AS one, to_regclass('nest2') AS two, to_regclass('nest3') AS three, pg_temp.leftovers();
SELECT (SELECT count(*) FROM nest1) AS one, (SELECT count(*) FROM nest2) AS two, (SELECT count(*) FROM nest3) AS three;
DROP TABLE nest1, nest2, nest3;
SELECT nest(3, 1), to_regclass('nest1') AS one, to_regclass('nest2') AS two, to_regclass('nest3') AS three, pg_temp.leftovers();
SELECT (SELECT count(*) FROM nest2) AS two, (SELECT count(*) FROM nest3) AS three;
DROP TABLE nest2, nest3;
SELECT nest(3, 2), to_regclass('nest1') AS one, to_regclass('nest2') AS two, to_regclass('nest3') AS three, pg_temp.leftovers();
SELECT (SELECT count(*) FROM nest3) AS three;
DROP TABLE nest3;
SELECT nest(3, 3), to_regclass('nest1') AS one, to_regclass('nest2') AS two, to_regclass('nest3') AS three, pg_temp.leftovers();
DROP FUNCTION nest;

-- Savepoints between loads
SELECT pg_temp.counted() \g /dev/null
BEGIN;
CREATE TABLE kept USING batchheap AS SELECT i FROM generate_series(1, 250) i;
SAVEPOINT a;
CREATE TABLE dropped USING batchheap AS SELECT i FROM generate_series(1, 250) i;
SAVEPOINT b;
CREATE TABLE b USING batchheap AS SELECT 1 / (i - 120) AS d FROM generate_series(1, 250) i;
ROLLBACK TO b;
INSERT INTO kept SELECT * FROM dropped;
ROLLBACK TO a;
SAVEPOINT c;
CREATE TABLE kept_too USING batchheap AS SELECT i FROM generate_series(1, 250) i;
RELEASE a;
COMMIT;
SELECT pg_temp.counted(), pg_temp.vm('kept') AS kept, pg_temp.vm('kept_too') AS kept_too, to_regclass('dropped') AS dropped;
SELECT (SELECT count(*) FROM kept) AS kept, (SELECT count(*) FROM kept_too) AS kept_too;
DROP TABLE kept, kept_too;

-- A chain of transactions, each with a load
BEGIN;
CREATE TABLE b USING batchheap AS SELECT i FROM generate_series(1, 250) i;
COMMIT AND CHAIN;
DROP TABLE b;
CREATE TABLE b USING batchheap AS SELECT i FROM generate_series(1, 260) i;
ROLLBACK AND CHAIN;
SELECT count(*) FROM b;
COMMIT;
DROP TABLE b;
SELECT pg_temp.leftovers();
