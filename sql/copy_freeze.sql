-- What COPY writes frozen without having been asked to.  The conditions are
-- those of COPY FREEZE, and one more: the file must vanish if the rows do, and
-- nobody in this session may come upon them who should not.
\set ECHO none
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/include/setup.psql
\set ECHO all

-- A table that was there before
CREATE TABLE b (i int) USING batchheap WITH (autovacuum_enabled = off);
COPY b FROM PROGRAM 'seq 1 1500';
SELECT pg_temp.counted(), pg_temp.vm('b'), pg_temp.frozen_rows('b');

-- Truncated in the same transaction, created in the same transaction
BEGIN;
TRUNCATE b;
COPY b FROM PROGRAM 'seq 1 1500';
COMMIT;
SELECT pg_temp.counted(), pg_temp.vm('b'), pg_temp.frozen_rows('b');
DROP TABLE b;
BEGIN;
CREATE TABLE b (i int) USING batchheap WITH (autovacuum_enabled = off);
COPY b FROM PROGRAM 'seq 1 1500';
COPY b FROM PROGRAM 'seq 1501 3000';
SELECT count(*) FROM b;
COMMIT;
SELECT pg_temp.counted(), pg_temp.vm('b'), pg_temp.frozen_rows('b'), count(*) FROM b;

-- Undone, it is all undone
BEGIN;
TRUNCATE b;
COPY b FROM PROGRAM 'seq 1 500';
ROLLBACK;
SELECT pg_temp.counted(), pg_temp.vm('b'), count(*) FROM b;

-- In a subtransaction of its own: the file goes when that is rolled back
BEGIN;
SAVEPOINT s;
TRUNCATE b;
COPY b FROM PROGRAM 'seq 1 500';
SELECT pg_temp.counted(), count(*) FROM b;
ROLLBACK TO s;
SELECT pg_temp.vm('b'), count(*) FROM b;
SAVEPOINT s;
TRUNCATE b;
COPY b FROM PROGRAM 'seq 1 700';
RELEASE s;
COMMIT;
SELECT pg_temp.counted(), pg_temp.vm('b'), count(*) FROM b;

-- In a deeper one than the table is from, its file would stay: frozen rows
-- would outlive the rollback
BEGIN;
TRUNCATE b;
SAVEPOINT s;
COPY b FROM PROGRAM 'seq 1 500';
SELECT count(*) FROM b;
ROLLBACK TO s;
SELECT pg_temp.counted(), count(*) FROM b;
COMMIT;
SELECT pg_temp.vm('b') !~ 'WRONG' AS vm_is_right, count(*) FROM b;
DROP TABLE b;
BEGIN;
CREATE TABLE b (i int) USING batchheap WITH (autovacuum_enabled = off);
SAVEPOINT s;
COPY b FROM PROGRAM 'seq 1 500';
RELEASE s;
SAVEPOINT s;
COPY b FROM PROGRAM 'seq 1 500';
ROLLBACK TO s;
COMMIT;
SELECT pg_temp.counted(), pg_temp.vm('b'), count(*) FROM b;

-- Rows that others wrote before are not on the same page as all-visible
BEGIN;
TRUNCATE b;
SET LOCAL batchheap.batch_insert = off;
INSERT INTO b SELECT generate_series(1, 10);
COPY b FROM PROGRAM 'seq 11 3000';
COMMIT;
SELECT pg_temp.counted(), pg_temp.vm('b'), pg_temp.frozen_rows('b'), count(*) FROM b;

-- An open cursor that is older could come upon the rows
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM generate_series(1, 3);
FETCH 1 FROM c;
TRUNCATE b;
COPY b FROM PROGRAM 'seq 1 1500';
FETCH 1 FROM c;
COMMIT;
SELECT pg_temp.counted(), count(*) FROM b;
-- ... by many batches, too (finding out about cursors must leave nothing behind)
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM generate_series(1, 3);
TRUNCATE b;
COPY b FROM PROGRAM 'seq 1 150000';
COMMIT;
SELECT pg_temp.counted(), count(*) FROM b;
-- ... not any more when it has been closed
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM generate_series(1, 3);
FETCH 1 FROM c;
CLOSE c;
TRUNCATE b;
COPY b FROM PROGRAM 'seq 1 1500';
COMMIT;
SELECT pg_temp.counted(), count(*) FROM b;

-- A serializable transaction leaves its rows plain, for others to see conflicts by
BEGIN ISOLATION LEVEL SERIALIZABLE;
TRUNCATE b;
COPY b FROM PROGRAM 'seq 1 1500';
COMMIT;
SELECT pg_temp.counted(), count(*) FROM b;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM b;
TRUNCATE b;
COPY b FROM PROGRAM 'seq 1 1400';
SELECT count(*) FROM b;
COMMIT;
SELECT pg_temp.counted() \g /dev/null
SELECT pg_temp.vm('b') !~ 'WRONG' AS vm_is_right, count(*) FROM b;

-- From a function that a query calls: the query's snapshot must not see them
CREATE FUNCTION fill() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
BEGIN
    TRUNCATE b;
    COPY b FROM PROGRAM 'seq 1 1500';
    SELECT count(*) INTO n FROM b;
    RETURN n;
END $$;
SELECT fill();
SELECT pg_temp.counted(), pg_temp.vm('b') !~ 'WRONG' AS vm_is_right, count(*) FROM b;
CREATE FUNCTION peek() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM b';
-- a stable function sees what was there when the query began: nothing
TRUNCATE b;
SELECT fill(), peek();
SELECT pg_temp.counted(), count(*) FROM b;
-- From a DO block or a procedure no query is in the way
DO $$
BEGIN
    TRUNCATE b;
    COPY b FROM PROGRAM 'seq 1 1500';
END $$;
SELECT pg_temp.counted(), pg_temp.vm('b'), count(*) FROM b;
-- ... unless it is in a loop over one
DO $$
DECLARE
    r record;
BEGIN
    FOR r IN SELECT generate_series(1, 2) LOOP
        TRUNCATE b;
        COPY b FROM PROGRAM 'seq 1 1500';
    END LOOP;
END $$;
SELECT pg_temp.counted(), pg_temp.vm('b') !~ 'WRONG' AS vm_is_right, count(*) FROM b;
CREATE PROCEDURE fill_and_commit() LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..3 LOOP
        TRUNCATE b;
        COPY b FROM PROGRAM 'seq 1 1500';
        COMMIT;
    END LOOP;
END $$;
CALL fill_and_commit();
SELECT pg_temp.counted(), pg_temp.vm('b') !~ 'WRONG' AS vm_is_right, count(*) FROM b;
-- ... or in an EXCEPTION block within the transaction of the table
DO $$
BEGIN
    TRUNCATE b;
    BEGIN
        COPY b FROM PROGRAM 'seq 1 1500';
        PERFORM 1 / 0;
    EXCEPTION WHEN division_by_zero THEN
        NULL;
    END;
END $$;
SELECT pg_temp.counted(), pg_temp.vm('b') !~ 'WRONG' AS vm_is_right, count(*) FROM b;
-- Triggers are run by queries, too
CREATE TABLE start (i int);
CREATE FUNCTION fill_by_trigger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM fill(); RETURN NULL; END';
CREATE TRIGGER fill AFTER INSERT ON start EXECUTE FUNCTION fill_by_trigger();
INSERT INTO start VALUES (1);
SELECT pg_temp.counted(), count(*) FROM b;

-- Off, if so set
SET batchheap.freeze_on_load = off;
BEGIN;
TRUNCATE b;
COPY b FROM PROGRAM 'seq 1 1500';
COMMIT;
SELECT pg_temp.counted(), pg_temp.vm('b'), pg_temp.frozen_rows('b') FROM b LIMIT 1;
-- ... unless asked for
BEGIN;
TRUNCATE b;
COPY b FROM PROGRAM 'seq 1 1500' WITH (FREEZE);
COMMIT;
SELECT pg_temp.counted(), pg_temp.vm('b'), pg_temp.frozen_rows('b') FROM b LIMIT 1;
RESET batchheap.freeze_on_load;

-- Who asks gets the server's own answer
COPY b FROM PROGRAM 'seq 1 10' WITH (FREEZE);
BEGIN;
TRUNCATE b;
SAVEPOINT s;
COPY b FROM PROGRAM 'seq 1 10' WITH (FREEZE);
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
TRUNCATE b;
COPY b FROM PROGRAM 'seq 1 10' WITH (FREEZE);
COMMIT;
SELECT pg_temp.counted(), pg_temp.vm('b'), count(*) FROM b;

-- A table that was switched or rewritten in the same transaction is new, too
BEGIN;
ALTER TABLE b SET ACCESS METHOD heap;
ALTER TABLE b SET ACCESS METHOD batchheap;
COPY b FROM PROGRAM 'seq 1 10';
COMMIT;
SELECT pg_temp.counted(), pg_temp.vm('b'), count(*) FROM b;

-- With indexes, which have no say in it; with large values
BEGIN;
CREATE TABLE b2 (i int PRIMARY KEY, s text DEFAULT repeat('long', 1000)) USING batchheap WITH (autovacuum_enabled = off);
ALTER TABLE b2 ALTER s SET STORAGE EXTERNAL;
COPY b2 (i) FROM PROGRAM 'seq 1 300';
COMMIT;
SELECT pg_temp.counted(), pg_temp.vm('b2'), count(*), sum(length(s)), bt_index_check('b2_pkey', true) FROM b2;
DROP TABLE b, b2, start;
DROP FUNCTION fill, fill_by_trigger, peek;
DROP PROCEDURE fill_and_commit;
