-- What the session itself can see of its loads in pg_stat_progress_batchheap.
-- (What others see is in the isolation spec "load_progress".)
\set ECHO none
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/include/setup.psql
\set ECHO all

SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'pg_stat_progress_batchheap'::regclass AND attnum > 0 ORDER BY attnum;
-- (the statement that loads the library would not know how many rows to expect)
SELECT batchheap_counters_reset() \g /dev/null
SELECT count(*) FROM pg_stat_progress_batchheap WHERE pid = pg_backend_pid();

-- The view as it is now, not as it was when the transaction first looked.  A
-- matview's query may not find it by an unqualified name.
CREATE FUNCTION seen() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    r text;
BEGIN
    PERFORM pg_stat_clear_snapshot();
    SELECT format('%s of %s: %s rows of %s, %s bytes, %s batches, %s', command, (SELECT relname FROM pg_class WHERE oid = relid), rows_processed, rows_expected,
                  CASE WHEN bytes_processed > rows_processed * 20 THEN 'many' ELSE 'few' END, batches_written, CASE WHEN frozen THEN 'frozen' ELSE 'plain' END)
           || CASE WHEN started BETWEEN now() AND clock_timestamp() AND datname = current_database() THEN '' ELSE ', WRONG' END
        INTO r FROM public.pg_stat_progress_batchheap WHERE pid = pg_backend_pid();
    RETURN coalesce(r, 'nothing');
END $$;
CREATE TABLE source AS SELECT i FROM generate_series(1, 3500) i;
ANALYZE source;

-- Nothing before the first batch is full, and nothing in the end
SET batchheap.max_batch_rows = 1000;
CREATE TABLE b USING batchheap AS SELECT i, CASE WHEN i IN (500, 1000, 1001, 2500, 3500) THEN seen() END AS seen FROM source;
SELECT i, seen FROM b WHERE seen IS NOT NULL ORDER BY i;
SELECT seen();
ALTER TABLE b ALTER seen TYPE text USING CASE WHEN i IN (500, 1001, 3500) THEN seen() END;
SELECT i, seen FROM b WHERE seen IS NOT NULL ORDER BY i;
CREATE MATERIALIZED VIEW m USING batchheap AS SELECT i, CASE WHEN i IN (500, 1001, 3500) THEN public.seen() END AS seen FROM source WITH NO DATA;
REFRESH MATERIALIZED VIEW m;
SELECT i, seen FROM m WHERE seen IS NOT NULL ORDER BY i;
DROP MATERIALIZED VIEW m;
SET batchheap.freeze_on_load = off;
CREATE TABLE b2 USING batchheap AS SELECT i, CASE WHEN i = 3000 THEN seen() END AS seen FROM source;
SELECT i, seen FROM b2 WHERE seen IS NOT NULL ORDER BY i;
DROP TABLE b2;
RESET batchheap.freeze_on_load;
-- An INSERT is not batched if it calls a volatile function, so this one says
-- that it is stable
CREATE FUNCTION seen_by_insert() RETURNS text LANGUAGE plpgsql STABLE AS 'BEGIN RETURN seen(); END';
CREATE TABLE b2 (i int, seen text) USING batchheap;
INSERT INTO b2 SELECT i, CASE WHEN i = 3000 THEN seen_by_insert() END FROM source;
SELECT i, seen FROM b2 WHERE seen IS NOT NULL ORDER BY i;
DROP TABLE b2;
DROP FUNCTION seen_by_insert;

-- It ends with an error, too
CREATE TABLE b2 USING batchheap AS SELECT 1 / (3000 - i) FROM source;
SELECT seen();
BEGIN;
SAVEPOINT s;
CREATE TABLE b2 USING batchheap AS SELECT 1 / (3000 - i) FROM source;
ROLLBACK TO s;
SELECT seen();
COMMIT;

-- Other commands in the middle have the slot, and it is had back: a subtransaction
-- that is undone ends it, ANALYZE takes it over, COPY and an inner load too
CREATE FUNCTION fails() RETURNS text LANGUAGE plpgsql AS
    'BEGIN PERFORM 1 / 0; RETURN ''''; EXCEPTION WHEN division_by_zero THEN RETURN seen(); END';
CREATE TABLE b2 USING batchheap AS SELECT i, CASE i WHEN 1500 THEN fails() WHEN 1600 THEN seen() WHEN 2100 THEN seen() END AS seen FROM source;
SELECT i, seen FROM b2 WHERE seen IS NOT NULL ORDER BY i;
DROP TABLE b2;
CREATE FUNCTION others(n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    r text;
BEGIN
    IF n = 1500 THEN ANALYZE source; END IF;
    IF n = 1600 THEN CREATE TEMP TABLE t (i int) ON COMMIT DROP; COPY t FROM PROGRAM 'seq 1 10'; END IF;
    IF n = 1700 THEN
        CREATE TABLE b3 USING batchheap AS SELECT i, CASE WHEN i IN (500, 3100) THEN seen() END AS seen FROM source;
        SELECT string_agg(seen, '; ' ORDER BY i) INTO r FROM b3;
        DROP TABLE b3;
        RETURN r;
    END IF;
    RETURN seen();
END $$;
CREATE TABLE b2 USING batchheap AS SELECT i, CASE WHEN i IN (1500, 1600, 1700, 2100) THEN others(i) END AS seen FROM source;
SELECT i, seen FROM b2 WHERE seen IS NOT NULL ORDER BY i;
DROP TABLE b2;
-- ... and one that has it is not disturbed: a COPY whose trigger loads
CREATE TABLE b2 (i int, seen text) USING batchheap;
CREATE FUNCTION loads() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.i = 5 THEN
        CREATE TABLE b3 USING batchheap AS SELECT i FROM source;
        DROP TABLE b3;
        PERFORM pg_stat_clear_snapshot();
        SELECT format('%s of %s: %s', command, relid::regclass, tuples_processed) INTO NEW.seen FROM pg_stat_progress_copy WHERE pid = pg_backend_pid();
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER loads BEFORE INSERT ON b2 FOR EACH ROW EXECUTE FUNCTION loads();
COPY b2 (i) FROM PROGRAM 'seq 1 10';
SELECT * FROM b2 WHERE seen IS NOT NULL;
SELECT seen();
-- ... nothing is told without track_activities
SET track_activities = off;
CREATE TABLE b3 USING batchheap AS SELECT i, CASE WHEN i = 3000 THEN seen() END AS seen FROM source;
RESET track_activities;
SELECT i, seen FROM b3 WHERE seen IS NOT NULL ORDER BY i;

DROP TABLE b, b2, b3, source;
DROP FUNCTION seen, fails, others, loads;
