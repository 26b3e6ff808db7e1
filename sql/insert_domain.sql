--
-- INSERT ... SELECT into a column of a domain: its constraints are looked at before
-- rows are batched, and let go of in time
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
