-- COPY FROM.  It batches by itself, and when it does not, it goes row by row
-- with a bulk insert state that it never says it has finished with: were its
-- rows to wait for that, they would be lost.  So none must wait, and all be
-- there at once, for indexes and triggers too.
\set ECHO none
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/include/setup.psql
\set ECHO all

CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE FUNCTION is_volatile(i int) RETURNS boolean LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN i > 0; END';
CREATE TABLE log (op text, n bigint, found bigint);
CREATE FUNCTION count_new() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN INSERT INTO log SELECT tg_op, count(*) FROM new_rows; RETURN NULL; END';

-- Copies n rows into a new table in one transaction, and tells how many are
-- there before and after its end, by the table and by the index if it has one.
-- "also" is done to the table before.
CREATE PROCEDURE pg_temp.copies(columns text, also text DEFAULT '', clause text DEFAULT '') LANGUAGE plpgsql AS $$
DECLARE
    before bigint;
    after bigint;
    result text := '';
    counts text;
    index_name text;
BEGIN
    FOREACH counts IN ARRAY '{10,1000,1001,2500}'::text[] LOOP
        PERFORM batchheap_counters_reset();
        EXECUTE format('CREATE TABLE b (%s) USING batchheap', columns);
        EXECUTE also;
        EXECUTE format('COPY b(i) FROM PROGRAM ''seq 1 %s'' %s', counts, clause);
        SELECT count(*) INTO before FROM b;
        COMMIT;
        SELECT count(*) INTO after FROM b;
        result := result || format(' %s:%s+%s', counts, before, after);
        FOR index_name IN SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'b'::regclass LOOP
            SET LOCAL enable_seqscan = off;
            SET LOCAL enable_bitmapscan = off;
            IF NOT pg_temp.plan_has('Index Only Scan', 'SELECT count(i) FROM b WHERE i > 0') THEN result := result || ' no index scan'; END IF;
            EXECUTE 'SELECT count(i) FROM b WHERE i > 0' INTO before;
            PERFORM bt_index_check(index_name, true);
            result := result || '+' || before;
            COMMIT;
        END LOOP;
        IF (SELECT count(DISTINCT i) <> after OR min(i) <> 1 OR max(i) <> after FROM b) THEN
            result := result || ' WRONG rows';
        END IF;
        result := result || CASE WHEN pg_temp.vm('b') ~ 'WRONG' THEN ' WRONG map' ELSE '' END;
        DROP TABLE b;
        COMMIT;
    END LOOP;
    RAISE NOTICE '%', result;
    RAISE NOTICE 'last: %', pg_temp.counted();
END $$;

-- (the statement that loads the library freezes nothing)
SELECT pg_temp.counted() \g /dev/null
-- In batches
CALL pg_temp.copies('i int');
CALL pg_temp.copies('i int, s text DEFAULT ''default'', n serial');
CALL pg_temp.copies('i int', 'CREATE INDEX ON b (i)');
CALL pg_temp.copies('i int PRIMARY KEY');
CALL pg_temp.copies('i int', '', 'WHERE i % 1 = 0');
CALL pg_temp.copies('i int', 'CREATE TRIGGER keep AFTER INSERT ON b FOR EACH ROW EXECUTE FUNCTION keep()');
CALL pg_temp.copies('i int', 'CREATE TRIGGER counting AFTER INSERT ON b REFERENCING NEW TABLE AS new_rows EXECUTE FUNCTION count_new()');
SELECT * FROM log;
TRUNCATE log;
CALL pg_temp.copies('i int, g int GENERATED ALWAYS AS (i * 2) STORED, CHECK (i > 0)');

-- Row by row, for each reason that COPY has, with an index and without
CALL pg_temp.copies('i int', 'CREATE TRIGGER keep BEFORE INSERT ON b FOR EACH ROW EXECUTE FUNCTION keep()');
CALL pg_temp.copies('i int PRIMARY KEY', 'CREATE TRIGGER keep BEFORE INSERT ON b FOR EACH ROW EXECUTE FUNCTION keep()');
CALL pg_temp.copies('i int', '', 'WHERE is_volatile(i)');
CALL pg_temp.copies('i int PRIMARY KEY', '', 'WHERE is_volatile(i)');
CALL pg_temp.copies('i int, d float8 DEFAULT random()');
CALL pg_temp.copies('i int PRIMARY KEY, d float8 DEFAULT random()');
CALL pg_temp.copies('i int, u uuid DEFAULT gen_random_uuid()', 'CREATE TRIGGER keep AFTER INSERT ON b FOR EACH ROW EXECUTE FUNCTION keep()');

-- At top level, not from a procedure: the table made in the same transaction,
-- COPY FREEZE, temporary tables, unlogged tables
BEGIN;
CREATE TABLE b (i int, d float8 DEFAULT random()) USING batchheap;
CREATE INDEX ON b (i);
COPY b (i) FROM PROGRAM 'seq 1 1001';
SELECT count(*) FROM b;
COMMIT;
SELECT pg_temp.counted(), count(*), bt_index_check('b_i_idx', true) FROM b;
DROP TABLE b;
BEGIN;
CREATE TABLE b (i int, d float8 DEFAULT random()) USING batchheap;
COPY b (i) FROM PROGRAM 'seq 1 1001' WITH (FREEZE);
SELECT count(*) FROM b;
COMMIT;
SELECT pg_temp.counted(), count(*), pg_temp.frozen_rows('b') FROM b;
TRUNCATE b;
COPY b (i) FROM PROGRAM 'seq 1 1001';
SELECT pg_temp.counted(), count(*) FROM b;
DROP TABLE b;
BEGIN;
CREATE TEMP TABLE b (i int, d float8 DEFAULT random()) USING batchheap ON COMMIT DROP;
COPY b (i) FROM PROGRAM 'seq 1 1001';
SELECT count(*) FROM b;
COMMIT;
CREATE UNLOGGED TABLE b (i int, d float8 DEFAULT random()) USING batchheap;
COPY b (i) FROM PROGRAM 'seq 1 1001';
COPY b (i) FROM PROGRAM 'seq 1 1001';
SELECT count(*) FROM b;
DROP TABLE b;
SELECT pg_temp.counted() \g /dev/null

--
-- Through partitioned parents: leaves of both kinds, batched or not
--
CREATE PROCEDURE pg_temp.copies_through(also text DEFAULT '', clause text DEFAULT '') LANGUAGE plpgsql AS $$
DECLARE
    before text;
    after text;
BEGIN
    PERFORM batchheap_counters_reset();
    CREATE TABLE parts (i int, s text) PARTITION BY HASH (i);
    CREATE TABLE part0 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 0) USING batchheap WITH (autovacuum_enabled = off);
    CREATE TABLE part1 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 1) USING heap;
    CREATE TABLE part2 (s text, x int, i int) USING batchheap WITH (autovacuum_enabled = off);
    ALTER TABLE part2 DROP x;
    ALTER TABLE parts ATTACH PARTITION part2 FOR VALUES WITH (MODULUS 3, REMAINDER 2);
    EXECUTE also;
    EXECUTE 'COPY parts(i) FROM PROGRAM ''seq 1 5000'' ' || clause;
    SELECT count(*) || ' ' || sum(i) INTO before FROM parts;
    COMMIT;
    SELECT count(*) || ' ' || sum(i) INTO after FROM parts;
    RAISE NOTICE '%, %', before, after;
    RAISE NOTICE '%', regexp_replace(pg_temp.counted(), '\d+', 'n', 'g');
    RAISE NOTICE 'part0: %; part2: %', pg_temp.vm('part0'), pg_temp.vm('part2');
    IF EXISTS (SELECT FROM pg_indexes WHERE tablename = 'part0') THEN
        SET LOCAL enable_seqscan = off;
        RAISE NOTICE 'by index %', (SELECT count(*) FROM parts WHERE i > 0);
        PERFORM bt_index_check('part0_i_idx', true), bt_index_check('part2_i_idx', true);
    END IF;
    DROP TABLE parts;
END $$;
CALL pg_temp.copies_through();
CALL pg_temp.copies_through('CREATE INDEX ON parts (i)');
CALL pg_temp.copies_through('CREATE TRIGGER keep BEFORE INSERT ON part2 FOR EACH ROW EXECUTE FUNCTION keep()');
CALL pg_temp.copies_through('CREATE INDEX ON parts (i); CREATE TRIGGER keep BEFORE INSERT ON parts FOR EACH ROW EXECUTE FUNCTION keep()');
CALL pg_temp.copies_through('CREATE TRIGGER counting AFTER INSERT ON parts REFERENCING NEW TABLE AS new_rows EXECUTE FUNCTION count_new()');
SELECT * FROM log;
CALL pg_temp.copies_through('ALTER TABLE part0 ALTER s SET DEFAULT random()::text', 'WHERE is_volatile(i)');
TRUNCATE log;

--
-- Failures leave nothing
--
CREATE TABLE b (i int, CHECK (i <> 1700)) USING batchheap;
COPY b FROM PROGRAM 'seq 1 2500';
SELECT count(*), pg_temp.vm('b') !~ 'WRONG' AS vm_is_right FROM b;
BEGIN;
TRUNCATE b;
SAVEPOINT s;
COPY b FROM PROGRAM 'seq 1 2500';
ROLLBACK TO s;
SELECT count(*) FROM b;
COPY b FROM PROGRAM 'seq 1 1699';
COMMIT;
SELECT count(*), pg_temp.vm('b') !~ 'WRONG' AS vm_is_right FROM b;
-- ... of a trigger, row by row
CREATE TRIGGER keep BEFORE INSERT ON b FOR EACH ROW EXECUTE FUNCTION keep();
COPY b FROM PROGRAM 'seq 1 2500';
SELECT count(*) FROM b;
DROP TABLE b;

--
-- Into a table that is there already, and out of it again
--
SELECT format('CREATE TABLE %s USING %s AS SELECT i FROM generate_series(1, 700) i', t, am) FROM twins \gexec
CREATE INDEX ON b (i);
SELECT pg_temp.counted() \g /dev/null
SELECT format('COPY %s FROM PROGRAM ''seq 701 3000''', t) FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.vm('b') !~ 'WRONG' AS vm_is_right, bt_index_check('b_i_idx', true);
SELECT i FROM b WHERE i = 2999;
COPY (SELECT * FROM b WHERE i BETWEEN 1999 AND 2001 ORDER BY i) TO STDOUT;
COPY b FROM STDIN;
4000
4001
\.
SELECT count(*) FROM b WHERE i > 3000;
DELETE FROM b WHERE i < 2999;
COPY b TO STDOUT;
DROP TABLE h, b;

-- AFTER triggers that look for their row in the table; one that is deferred
CREATE FUNCTION find_me() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log SELECT tg_name, NEW.i, count(*) FROM b WHERE i = NEW.i;
    RETURN NULL;
END $$;
BEGIN;
CREATE TABLE b (i int PRIMARY KEY) USING batchheap;
CREATE TRIGGER now AFTER INSERT ON b FOR EACH ROW EXECUTE FUNCTION find_me();
CREATE CONSTRAINT TRIGGER later AFTER INSERT ON b DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION find_me();
COPY b FROM PROGRAM 'seq 1 1500';
SELECT op, count(*), sum(found) FROM log GROUP BY op;
COMMIT;
SELECT op, count(*), sum(found) FROM log GROUP BY op ORDER BY op;
DROP TABLE b, log;
DROP FUNCTION keep, is_volatile, count_new, find_me;
