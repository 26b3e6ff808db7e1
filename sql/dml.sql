-- What is not a bulk load goes row by row, as on heap, and has to be there at
-- once: for indexes, RETURNING, triggers, foreign keys, ON CONFLICT.  (INSERT
-- where no one looks at the row again is in insert.sql.)
\set ECHO none
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/include/setup.psql
\set ECHO all

-- Run statements on both tables; %s is the table.  Tell how they end, compare
-- rows, and see that all of b's rows can be found by its index.
CREATE PROCEDURE pg_temp.both(VARIADIC statements text[]) LANGUAGE plpgsql AS $$
DECLARE
    statement text;
    h text;
    b text;
BEGIN
    PERFORM batchheap_counters_reset();
    FOREACH statement IN ARRAY statements LOOP
        h := pg_temp.outcome(format(statement, 'h'));
        b := pg_temp.outcome(format(statement, 'b'));
        IF h <> 'done' OR b <> 'done' THEN
            RAISE NOTICE '%', CASE WHEN h = replace(b, '"b', '"h') THEN h ELSE format('heap: %s, batchheap: %s', h, b) END;
        END IF;
    END LOOP;
    RAISE NOTICE '%', pg_temp.counted();
    RAISE NOTICE '%, map is %', pg_temp.twin('h', 'b'), CASE WHEN pg_temp.vm('b') ~ 'WRONG' THEN 'wrong' ELSE 'right' END;
    IF to_regclass('b_pkey') IS NOT NULL THEN
        PERFORM bt_index_check('b_pkey', true);
    END IF;
END $$;

SELECT format('CREATE TABLE %s (i int PRIMARY KEY, n int DEFAULT 0, s text) USING %s', t, am) FROM twins \gexec

-- INSERT of one, of many, of a query
CALL pg_temp.both('INSERT INTO %s VALUES (0)', 'INSERT INTO %s (i, s) VALUES (1, ''one''), (2, ''two'')');
CALL pg_temp.both('INSERT INTO %s SELECT i, i %% 9, repeat(''s'', i %% 300) FROM generate_series(3, 3000) i');
CALL pg_temp.both('INSERT INTO %s SELECT -i, i, repeat(''large'', 2000) FROM generate_series(1, 20) i');
CALL pg_temp.both('INSERT INTO %s VALUES (3001), (3002), (1)');
CALL pg_temp.both('INSERT INTO %s SELECT i FROM generate_series(3001, 4000) i UNION ALL SELECT 17');
-- UPDATE, DELETE, locks
CALL pg_temp.both('UPDATE %s SET s = s || ''!'' WHERE i %% 3 = 0', 'UPDATE %s SET i = -i - 100 WHERE i > 2900', 'UPDATE %1$s a SET n = b.i FROM %1$s b WHERE b.i = a.n AND a.i < 50');
CALL pg_temp.both('DELETE FROM %s WHERE i %% 5 = 0', 'DELETE FROM %1$s a USING %1$s b WHERE a.i = b.i + 1 AND b.n = 7');
CALL pg_temp.both('SELECT count(*) FROM %s', 'SELECT * FROM %s WHERE i < 100 FOR UPDATE', 'SELECT * FROM %s WHERE i < 100 FOR KEY SHARE SKIP LOCKED', 'LOCK TABLE %s');
-- ON CONFLICT, MERGE
CALL pg_temp.both('INSERT INTO %s SELECT i, i FROM generate_series(1, 50) i ON CONFLICT DO NOTHING',
    'INSERT INTO %s AS t SELECT i, i FROM generate_series(1, 70) i ON CONFLICT (i) DO UPDATE SET n = t.n + excluded.n WHERE t.i %% 2 = 0',
    'INSERT INTO %s SELECT 1 FROM generate_series(1, 2) ON CONFLICT (i) DO UPDATE SET n = 1');
CALL pg_temp.both('MERGE INTO %s t USING generate_series(1, 4000, 7) g ON t.i = g WHEN MATCHED AND g < 500 THEN DELETE
    WHEN MATCHED THEN UPDATE SET s = ''merged'' WHEN NOT MATCHED THEN INSERT VALUES (g, 0, ''new'')');
-- CTEs that change
CALL pg_temp.both('WITH d AS (DELETE FROM %1$s WHERE i BETWEEN 200 AND 300 RETURNING *) INSERT INTO %1$s SELECT i + 10000, n, s FROM d',
    'WITH i AS (INSERT INTO %1$s SELECT g, g FROM generate_series(20000, 20100) g RETURNING i) UPDATE %1$s SET n = 5 WHERE i IN (SELECT i - 10000 FROM i)');
-- Transactions within
CALL pg_temp.both('DO $d$ BEGIN INSERT INTO %1$s SELECT g FROM generate_series(30000, 31000) g; PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN DELETE FROM %1$s WHERE i < 0; END $d$');
CALL pg_temp.both('TRUNCATE %s', 'INSERT INTO %s SELECT i FROM generate_series(1, 1000) i');

-- RETURNING: the row has its place, its table and its transaction
SELECT batchheap_counters_reset() \g /dev/null
CREATE TEMP TABLE returned AS SELECT NULL::tid AS c, NULL::oid AS o, NULL::xid AS x, NULL::int AS i WHERE false;
WITH r AS (INSERT INTO b SELECT i, 0, 'returned' FROM generate_series(1001, 4000) i RETURNING ctid, tableoid, xmin, i)
    INSERT INTO returned SELECT * FROM r;
SELECT count(*), count(DISTINCT c), bool_and(o = 'b'::regclass) AS table_is_right, count(b.i) FILTER (WHERE b.i = r.i AND b.xmin = r.x) AS found
    FROM returned r LEFT JOIN b ON b.ctid = r.c;
INSERT INTO b VALUES (4001) RETURNING tableoid::regclass, i, ctid IS NOT NULL AS placed;
SELECT pg_temp.counted();
DROP TABLE returned;

-- Undone
BEGIN;
INSERT INTO b SELECT i FROM generate_series(5000, 6000) i;
SAVEPOINT s;
DELETE FROM b;
SELECT count(*) FROM b;
ROLLBACK TO s;
SELECT count(*) FROM b;
TRUNCATE b;
INSERT INTO b VALUES (1);
SELECT count(*) FROM b;
ROLLBACK;
SELECT count(*), pg_temp.vm('b') !~ 'WRONG' AS vm_is_right FROM b;

-- INSERT ... SELECT into a table that was there, undone: nothing survives
CREATE TABLE empty (i int) USING batchheap;
BEGIN;
INSERT INTO empty SELECT i % 10 FROM generate_series(1, 5000) i;
ROLLBACK;
SELECT count(*), pg_temp.frozen_rows('empty') FROM empty;
CREATE UNIQUE INDEX ON empty (i);
VACUUM empty;
SELECT count(*), pg_temp.vm('empty') !~ 'WRONG' AS vm_is_right FROM empty;
DROP TABLE empty;
DROP TABLE h, b;

--
-- Triggers, AFTER ROW ones looking for their row in the table
--
CREATE TABLE log (op text, n bigint);
CREATE FUNCTION find_me() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log SELECT tg_name || ' ' || tg_op, count(*) FROM b WHERE i = NEW.i;
    RETURN NULL;
END $$;
CREATE FUNCTION change_me() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.s := lower(tg_op);
    RETURN CASE WHEN NEW.i % 1000 <> 0 THEN NEW END;
END $$;
CREATE FUNCTION count_us() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN INSERT INTO log SELECT tg_name || '' '' || tg_op, count(*) FROM changed; RETURN NULL; END';
CREATE TABLE b (i int PRIMARY KEY, s text) USING batchheap;
CREATE TRIGGER before BEFORE INSERT OR UPDATE ON b FOR EACH ROW EXECUTE FUNCTION change_me();
CREATE TRIGGER after AFTER INSERT OR UPDATE ON b FOR EACH ROW EXECUTE FUNCTION find_me();
CREATE CONSTRAINT TRIGGER deferred AFTER INSERT ON b DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION find_me();
CREATE TRIGGER statement AFTER INSERT ON b REFERENCING NEW TABLE AS changed EXECUTE FUNCTION count_us();
BEGIN;
INSERT INTO b SELECT i FROM generate_series(1, 5000) i;
SELECT op, count(*), sum(n) FROM log GROUP BY op ORDER BY op COLLATE "C";
COMMIT;
SELECT op, count(*), sum(n) FROM log GROUP BY op ORDER BY op COLLATE "C";
TRUNCATE log;
UPDATE b SET i = -i WHERE i <= 500;
SELECT op, count(*), sum(n) FROM log GROUP BY op ORDER BY op COLLATE "C";
SELECT s, count(*) FROM b GROUP BY s ORDER BY s;
DROP TABLE b, log;
DROP FUNCTION find_me, change_me, count_us;

--
-- Foreign keys, from and to
--
CREATE TABLE parent (i int PRIMARY KEY) USING batchheap;
CREATE TABLE child (i int REFERENCES parent ON DELETE CASCADE ON UPDATE SET NULL) USING batchheap;
INSERT INTO parent SELECT generate_series(1, 1000);
INSERT INTO child SELECT i % 1000 + 1 FROM generate_series(1, 3000) i;
INSERT INTO child VALUES (1001);
DELETE FROM parent WHERE i <= 100;
UPDATE parent SET i = i + 10000 WHERE i > 900;
SELECT count(*), count(i) FROM child;
BEGIN;
ALTER TABLE child ALTER CONSTRAINT child_i_fkey DEFERRABLE INITIALLY DEFERRED;
INSERT INTO child VALUES (5000);
INSERT INTO parent VALUES (5000);
COMMIT;
-- A key that is checked for a table just loaded
CREATE TABLE loaded USING batchheap AS SELECT i FROM parent;
ALTER TABLE loaded ADD FOREIGN KEY (i) REFERENCES parent;
INSERT INTO loaded VALUES (-1);
CREATE TABLE orphans USING batchheap AS SELECT generate_series(1, 200) AS i;
\set VERBOSITY terse
ALTER TABLE orphans ADD FOREIGN KEY (i) REFERENCES parent;
\set VERBOSITY default
DROP TABLE child, loaded, orphans, parent;

--
-- Partitions of both kinds: rows are routed, and move
--
CREATE TABLE parts (i int, s text) PARTITION BY LIST ((i % 3));
CREATE TABLE part0 PARTITION OF parts FOR VALUES IN (0) USING batchheap;
CREATE TABLE part1 PARTITION OF parts FOR VALUES IN (1) USING heap;
CREATE TABLE part2 (s text, x int, i int) USING batchheap;
ALTER TABLE part2 DROP x;
ALTER TABLE parts ATTACH PARTITION part2 FOR VALUES IN (2);
INSERT INTO parts SELECT i, 's' || i FROM generate_series(1, 3000) i;
UPDATE parts SET i = i + 1 WHERE i <= 1500;
DELETE FROM parts WHERE i = 2999;
SELECT tableoid::regclass AS part, count(*), sum(i) FROM parts GROUP BY 1 ORDER BY 1;
INSERT INTO parts SELECT * FROM parts RETURNING tableoid::regclass \g /dev/null
SELECT tableoid::regclass AS part, count(*), sum(i) FROM parts GROUP BY 1 ORDER BY 1;
SELECT pg_temp.counted() \g /dev/null
-- A new partition that is loaded first
CREATE TABLE part_new USING batchheap AS SELECT i * 3 AS i, 'new' AS s FROM generate_series(1, 1500) i;
ALTER TABLE parts DETACH PARTITION part0;
ALTER TABLE parts ATTACH PARTITION part_new FOR VALUES IN (0);
SELECT pg_temp.counted(), pg_temp.vm('part_new'), count(*) FROM parts WHERE i % 3 = 0;
DROP TABLE parts, part0;

-- Views with a check, rules
CREATE TABLE b (i int, owner text DEFAULT 'me') USING batchheap;
CREATE VIEW v AS SELECT * FROM b WHERE i > 0 WITH CHECK OPTION;
INSERT INTO v SELECT generate_series(1, 10);
INSERT INTO v VALUES (-1);
UPDATE v SET i = -i WHERE i = 3;
CREATE TABLE large (i int) USING batchheap;
CREATE RULE copies AS ON INSERT TO b WHERE NEW.i > 100 DO ALSO INSERT INTO large VALUES (-NEW.i);
INSERT INTO b SELECT generate_series(99, 103);
SELECT count(*), sum(i), (SELECT array_agg(large.i) FROM large) AS large FROM b;
DROP VIEW v;
DROP TABLE b, large;
