--
-- INSERT ... SELECT and COPY into a column of a domain: its constraints are looked at
-- before rows are batched or frozen, and let go of in time
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS batchheap;
RESET client_min_messages;

CREATE DOMAIN even AS int CHECK (value % 2 = 0);
CREATE TABLE h (i int, e even, n int GENERATED ALWAYS AS (i * 2) STORED);
CREATE TABLE b (LIKE h INCLUDING ALL) USING batchheap;
SELECT batchheap_counters_reset() \g /dev/null
DO $$
BEGIN
    FOR n IN 1 .. 50 LOOP
        INSERT INTO h SELECT i, CASE WHEN i % 3 = 0 THEN 2 * i END FROM generate_series(1, 100) i;
        INSERT INTO b SELECT i, CASE WHEN i % 3 = 0 THEN 2 * i END FROM generate_series(1, 100) i;
    END LOOP;
END $$;
SELECT count(*), (SELECT count(*) FROM (TABLE h EXCEPT ALL TABLE b) d) AS missing FROM b;
SELECT counter, value FROM batchheap_counters() WHERE counter IN ('loads', 'rows_batched');

-- A row that is not right
INSERT INTO b SELECT i, i FROM generate_series(1, 100) i;

-- A constraint that calls a volatile function
CREATE FUNCTION look(i int) RETURNS boolean LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN i > 0; END';
ALTER DOMAIN even ADD CONSTRAINT looked CHECK (look(value));
SELECT batchheap_counters_reset() \g /dev/null
INSERT INTO b SELECT i, 2 * i FROM generate_series(1, 100) i;
SELECT counter, value FROM batchheap_counters() WHERE value > 0 ORDER BY counter;

DROP TABLE h, b;
DROP DOMAIN even;
DROP FUNCTION look;

-- A constraint that reads the table with the statement's snapshot finds no row of the
-- statement: not when COPY makes the value of text, nor a cast, nor a function does
CREATE TABLE source AS
SELECT i, format('(%s,x)', i) AS s, json_build_object('i', i, 't', 'x') AS j FROM generate_series(1, 1500) i;
CREATE FUNCTION is_first(i int) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    r record;
    found boolean := false;
BEGIN
    IF to_regclass('b') IS NOT NULL THEN
        FOR r IN EXECUTE 'SELECT FROM b LIMIT 1' LOOP
            found := true;
        END LOOP;
    END IF;
    RETURN NOT found;
END $$;
CREATE DOMAIN first AS int CHECK (is_first(value));
CREATE TYPE pair AS (i first, t text);
SET batchheap.max_batch_rows = 100;
SET batchheap.freeze_min_size = 0;

SELECT batchheap_counters_reset() \g /dev/null
BEGIN;
CREATE TABLE b (i first) USING batchheap;
COPY b FROM PROGRAM 'seq 1 1500';
DROP TABLE b;
CREATE TABLE b (i first[]) USING batchheap;
COPY b FROM PROGRAM 'seq -f "{%g}" 1 1500';
DROP TABLE b;
CREATE TABLE b (p pair) USING batchheap;
COPY b FROM PROGRAM 'seq -f "(%g,x)" 1 1500';
DROP TABLE b;
CREATE TABLE b (p pair) USING batchheap;
INSERT INTO b SELECT s::pair FROM source;
DROP TABLE b;
CREATE TABLE b (p pair) USING batchheap;
INSERT INTO b SELECT json_populate_record(NULL::pair, j) FROM source;
DROP TABLE b;
CREATE TABLE b (i int) USING batchheap;
INSERT INTO b SELECT r.i FROM source, json_to_record(j) AS r (i first);
DROP TABLE b;
COMMIT;
SELECT counter, value FROM batchheap_counters() WHERE counter ~ 'rows' AND value > 0 ORDER BY counter;

-- Types of other kinds do not prevent it
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE DOMAIN positive AS int CHECK (value > 0);
SELECT batchheap_counters_reset() \g /dev/null
BEGIN;
CREATE TABLE b (m mood, i positive) USING batchheap;
COPY b FROM PROGRAM 'seq -f "good %g" 1 1500' (DELIMITER ' ');
INSERT INTO b SELECT 'bad', source.i::text::positive FROM source;
COMMIT;
SELECT counter, value FROM batchheap_counters() WHERE counter ~ 'rows' AND value > 0 ORDER BY counter;

DROP TABLE b, source;
DROP TYPE pair, mood;
DROP DOMAIN first, positive;
DROP FUNCTION is_first;
