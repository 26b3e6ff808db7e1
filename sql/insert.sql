-- INSERT ... SELECT: batched from the 21st row on, where no one can tell the
-- difference.  Who could is told by the counters; that there is none, by heap.
\set ECHO none
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/include/setup.psql
\set ECHO all

CREATE TABLE source AS SELECT i, i % 7 AS m, 's' || i AS s FROM generate_series(1, 300) i;
CREATE INDEX source_i ON source (i);
ANALYZE source;
SELECT format('CREATE TABLE %s (i int, s text) USING %s WITH (autovacuum_enabled = off)', t, am) FROM twins \gexec

-- Run a statement on both tables (%s), compare them, and tell what the rows were
-- counted as.  The tables are empty again afterwards.
CREATE PROCEDURE pg_temp.both(statement text) LANGUAGE plpgsql AS $$
DECLARE
    twin record;
    outcome text;
    outcomes text[];
    counts text;
BEGIN
    PERFORM batchheap_counters_reset();
    FOR twin IN SELECT * FROM twins LOOP
        outcomes := outcomes || pg_temp.outcome(format(statement, twin.t));
    END LOOP;
    counts := pg_temp.counted();
    IF outcomes[1] <> 'done' OR outcomes[2] <> 'done' THEN RAISE NOTICE '%', outcomes; END IF;
    RAISE NOTICE '%; %', pg_temp.twin('h', 'b'), counts || CASE WHEN pg_temp.vm('b') ~ 'WRONG' THEN pg_temp.vm('b') ELSE '' END;
    TRUNCATE h, b;
    COMMIT;
END $$;

--
-- Batched
--
CALL pg_temp.both('INSERT INTO %s SELECT i, s FROM source');
CALL pg_temp.both('INSERT INTO %s SELECT i, repeat(s, i %% 90) FROM source ORDER BY s');
CALL pg_temp.both('INSERT INTO %s SELECT g FROM generate_series(1, 20) g');
CALL pg_temp.both('INSERT INTO %s SELECT g FROM generate_series(1, 21) g');
CALL pg_temp.both('INSERT INTO %s (s) SELECT a.s FROM source a JOIN source b ON a.i = b.m WHERE a.i > 3');
CALL pg_temp.both('INSERT INTO %s SELECT count(*), s FROM source GROUP BY s HAVING count(*) > 0');
CALL pg_temp.both('INSERT INTO %s SELECT i, lag(s) OVER (ORDER BY i) FROM source');
CALL pg_temp.both('INSERT INTO %s SELECT i, s FROM source WHERE i < 500 UNION ALL SELECT m, ''m'' FROM source');
CALL pg_temp.both('INSERT INTO %s WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 500) SELECT i, s FROM r JOIN source USING (i)');
CALL pg_temp.both('INSERT INTO %s SELECT i, (SELECT max(s) FROM source b WHERE b.m = a.m) FROM source a');
CALL pg_temp.both('INSERT INTO %s SELECT i FROM source TABLESAMPLE BERNOULLI (100) LIMIT 200 OFFSET 10');
CALL pg_temp.both('INSERT INTO %s SELECT i FROM source FOR UPDATE');
-- ... VALUES, if there are many
SELECT 'INSERT INTO %s VALUES ' || string_agg(format('(%s, ''v'')', i), ', ') AS many FROM generate_series(1, 1000) i \gset
SELECT 'INSERT INTO %s VALUES ' || string_agg(format('(%s, ''v'')', i), ', ') AS not_so_many FROM generate_series(1, 999) i \gset
\set ECHO none
CALL pg_temp.both(:'many');
CALL pg_temp.both(:'not_so_many');
\set ECHO all
-- ... values stored elsewhere, and large ones
INSERT INTO source SELECT -i, 0, repeat('incompressible' || i, 1000) FROM generate_series(1, 30) i;
CALL pg_temp.both('INSERT INTO %s SELECT i, s FROM source');
CALL pg_temp.both('INSERT INTO %s SELECT i, s || ''!'' FROM source');
DELETE FROM source WHERE i < 0;

-- The settings; a load keeps those it began with
SET batchheap.batch_insert = off;
CALL pg_temp.both('INSERT INTO %s SELECT i, s FROM source');
RESET batchheap.batch_insert;
SET batchheap.enable = off;
CALL pg_temp.both('INSERT INTO %s SELECT i, s FROM source');
RESET batchheap.enable;
SET batchheap.max_batch_rows = 100;
CALL pg_temp.both('INSERT INTO %s SELECT i, s FROM source');

-- Reading the table that is written to: no row of its own is seen
CALL pg_temp.both('INSERT INTO %1$s SELECT i, s FROM source; INSERT INTO %1$s SELECT i, s FROM %1$s; INSERT INTO %1$s SELECT -i, s FROM %1$s WHERE i < 150');
CALL pg_temp.both('INSERT INTO %1$s SELECT i, s FROM source WHERE i < 100; INSERT INTO %1$s SELECT i, s FROM source a WHERE NOT EXISTS (SELECT FROM %1$s b WHERE b.i = a.i %% 150)');
CALL pg_temp.both('INSERT INTO %1$s SELECT i, (SELECT count(*)::text FROM %1$s) FROM source');
CALL pg_temp.both('INSERT INTO %1$s SELECT a.i, (SELECT count(*)::text FROM %1$s b WHERE b.i < a.i) FROM source a WHERE a.i < 250');

-- Errors, and what is undone
CALL pg_temp.both('INSERT INTO %s SELECT i, 1 / (250 - i) FROM source');
CALL pg_temp.both('INSERT INTO %1$s SELECT i, s FROM source; DO $d$ BEGIN INSERT INTO %1$s SELECT -i, s FROM source; PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN NULL; END $d$; INSERT INTO %1$s SELECT 0, s FROM source WHERE i < 200');
CALL pg_temp.both('DO $d$ BEGIN FOR n IN 1..5 LOOP BEGIN INSERT INTO %1$s SELECT i * n, s FROM source WHERE i < 250; INSERT INTO %1$s SELECT 1 / (n %% 2); EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $d$');

-- Where a statement may come from
CALL pg_temp.both('EXPLAIN ANALYZE INSERT INTO %s SELECT i, s FROM source');
CREATE FUNCTION by_sql(t text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE FUNCTION pg_temp.f() RETURNS bigint LANGUAGE sql AS ''INSERT INTO %1$s SELECT i, s FROM source; SELECT count(*) FROM %1$s''', t);
    EXECUTE format('INSERT INTO %s SELECT pg_temp.f()', t);
    DROP FUNCTION pg_temp.f();
END $$;
CALL pg_temp.both('SELECT by_sql(''%s'')');
DROP FUNCTION by_sql;
PREPARE p(int) AS INSERT INTO b SELECT i, s FROM source WHERE i <= $1;
EXECUTE p(30);
EXECUTE p(200);
EXECUTE p(5);
SELECT pg_temp.counted(), count(*) FROM b;
DEALLOCATE p;
TRUNCATE b;
CREATE FUNCTION fill() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
BEGIN
    INSERT INTO b SELECT i, s FROM source;
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;
SELECT fill();
INSERT INTO b SELECT fill() FROM generate_series(1, 3);
SELECT pg_temp.counted(), count(*) FROM b;
TRUNCATE b;
DROP FUNCTION fill;

--
-- Volatile functions might look at the table, or write to it: wherever they are
--
CREATE FUNCTION vol(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN i; END';
CREATE FUNCTION vol_rows(n int) RETURNS SETOF int LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN QUERY SELECT generate_series(1, n); END';
CREATE FUNCTION vol_bool(a int, b int) RETURNS boolean LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN a = b; END';
CREATE FUNCTION vol_text(i int) RETURNS text LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN i; END';
CREATE OPERATOR === (FUNCTION = vol_bool, LEFTARG = int, RIGHTARG = int);
CREATE FUNCTION int4_sum_vol(a int, b int) RETURNS int LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN coalesce(a, 0) + b; END';
CREATE AGGREGATE vol_sum(int) (SFUNC = int4_sum_vol, STYPE = int);
CREATE TYPE mine AS (i int);
CREATE FUNCTION to_mine(i int) RETURNS mine LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN ROW(i); END';
CREATE CAST (int AS mine) WITH FUNCTION to_mine(int);
CREATE DOMAIN checked AS int CHECK (vol(value) > 0);

-- Tells only what kinds of counter there are, not how many rows
CREATE PROCEDURE pg_temp.kinds(VARIADIC queries text[]) LANGUAGE plpgsql AS $$
DECLARE
    query text;
    twin record;
BEGIN
    FOREACH query IN ARRAY queries LOOP
        PERFORM batchheap_counters_reset();
        FOR twin IN SELECT * FROM twins LOOP
            EXECUTE format('INSERT INTO %s (i) ', twin.t) || query;
        END LOOP;
        RAISE NOTICE '%: %', regexp_replace(pg_temp.twin('h', 'b'), '\d+', 'n'), regexp_replace(pg_temp.counted(), '=\d+', '', 'g');
        DELETE FROM h;
        DELETE FROM b;
    END LOOP;
    TRUNCATE h, b;
END $$;
CALL pg_temp.kinds('SELECT i FROM source',
    'SELECT vol(i) FROM source',
    'SELECT i FROM source WHERE vol(i) > 0',
    'SELECT i FROM source WHERE i === i',
    'SELECT i FROM source WHERE i = ANY (ARRAY[1, vol(2), 3]) OR i > 5',
    'SELECT CASE WHEN i > 10000 THEN vol(i) ELSE i END FROM source',
    'SELECT coalesce(i, vol(i)) FROM source',
    'SELECT (ARRAY[i, vol(i)])[1] FROM source',
    'SELECT length(vol_text(i)) FROM source');
CALL pg_temp.kinds('SELECT (i::mine).i FROM source',
    'SELECT (ARRAY[i]::mine[])[1].i FROM source',
    'SELECT i::checked FROM source',
    'SELECT (ARRAY[i]::checked[])[1] FROM source',
    'SELECT a.i FROM source a JOIN source b ON vol_bool(a.i, b.i) WHERE a.i < 50 AND b.i < 50');
SET enable_hashjoin = off;
CALL pg_temp.kinds('SELECT a.i FROM source a JOIN source b ON vol(a.i) = b.i WHERE a.i < 60 AND b.i < 60');
SET enable_mergejoin = off;
CALL pg_temp.kinds('SELECT a.i FROM source a JOIN source b ON vol(a.i) = b.i WHERE a.i < 60 AND b.i < 60',
    'SELECT a.i FROM source a LEFT JOIN source b ON a.i = b.i AND vol_bool(a.m, 3) WHERE a.i < 60');
RESET enable_hashjoin;
CALL pg_temp.kinds('SELECT a.i FROM source a JOIN source b ON vol(a.i) = b.i WHERE a.i < 60 AND b.i < 60');
RESET enable_mergejoin;
CALL pg_temp.kinds('SELECT i FROM source GROUP BY i HAVING vol(i) > 0',
    'SELECT max(i) FROM source GROUP BY vol(i)',
    'SELECT vol_sum(m) FROM source GROUP BY i',
    'SELECT vol_sum(m) OVER (PARTITION BY i) FROM source',
    'SELECT sum(i) FILTER (WHERE vol(i) > 0) FROM source GROUP BY i',
    'SELECT sum(m) OVER (ORDER BY i ROWS BETWEEN vol(2) PRECEDING AND CURRENT ROW) FROM source',
    'SELECT i FROM source ORDER BY vol(i)',
    'SELECT DISTINCT vol(i) FROM source',
    'SELECT i FROM source LIMIT vol(200)');
CALL pg_temp.kinds('SELECT i FROM source OFFSET vol(100)',
    'SELECT i FROM source TABLESAMPLE BERNOULLI (vol(100))',
    'SELECT vol_rows(500)',
    'SELECT * FROM vol_rows(500)',
    'SELECT g FROM source, LATERAL generate_series(1, vol(2)) g',
    'SELECT i FROM source WHERE i = (SELECT vol(7)) OR m > 1',
    'SELECT (SELECT vol(a.i) + count(*)::int FROM source b WHERE b.i = a.i) FROM source a',
    'SELECT i FROM source WHERE i NOT IN (SELECT vol(i) FROM source WHERE i < 5)',
    'SELECT i FROM source a WHERE EXISTS (SELECT FROM source b WHERE vol(b.i) = a.i OFFSET 0) AND a.i < 40');
CALL pg_temp.kinds('WITH c AS MATERIALIZED (SELECT vol(i) AS i FROM source) SELECT i FROM c UNION ALL SELECT i FROM c',
    'WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT vol(i) + 1 FROM r WHERE i < 100) SELECT i FROM r',
    'SELECT i FROM source UNION SELECT vol(i) FROM source',
    'SELECT i FROM source INTERSECT SELECT vol(i) FROM source');
SET enable_seqscan = off;
SET enable_bitmapscan = off;
CALL pg_temp.kinds('SELECT i FROM source WHERE i > (SELECT vol(3))',
    'SELECT m FROM source WHERE i > 3 AND vol(m) >= 0');
RESET enable_bitmapscan;
SET enable_indexscan = off;
CALL pg_temp.kinds('SELECT m FROM source WHERE i > 3 AND vol(m) >= 0');
RESET enable_indexscan;
RESET enable_seqscan;
CALL pg_temp.kinds('SELECT i FROM source WHERE ctid > ''(0,1)'' AND vol(i) > 0');
-- In a plan of several processes, of those who may call volatile functions
CALL pg_temp.cheap_gathers();
CALL pg_temp.kinds('SELECT i FROM source WHERE i > 0',
    'SELECT i FROM source WHERE vol(i) > 0');
RESET max_parallel_workers_per_gather;

-- In what belongs to the table: defaults, constraints, policies
SELECT format('ALTER TABLE %s ALTER s SET DEFAULT vol_text(1)', t) FROM twins \gexec
CALL pg_temp.kinds('SELECT i FROM source');
SELECT format('ALTER TABLE %s ALTER s DROP DEFAULT, ADD CONSTRAINT c CHECK (vol(i) > 0)', t) FROM twins \gexec
CALL pg_temp.kinds('SELECT i FROM source');
SELECT format('ALTER TABLE %1$s DROP CONSTRAINT c; CREATE POLICY c ON %1$s USING (true) WITH CHECK (vol(i) > 0);
    ALTER TABLE %1$s ENABLE ROW LEVEL SECURITY', t) FROM twins \gexec
CREATE ROLE regress_batchheap_user;
GRANT ALL ON h, b, source, twins TO regress_batchheap_user;
SET ROLE regress_batchheap_user;
SELECT batchheap_counters_reset() \g /dev/null
INSERT INTO b SELECT i FROM source;
SELECT counter FROM batchheap_counters() WHERE value <> 0;
RESET ROLE;
SELECT format('ALTER POLICY c ON %s WITH CHECK (i > 0)', t) FROM twins \gexec
SET ROLE regress_batchheap_user;
SELECT batchheap_counters_reset() \g /dev/null
INSERT INTO b SELECT i FROM source;
SELECT counter FROM batchheap_counters() WHERE value <> 0;
INSERT INTO b SELECT i - 200 FROM source;
SELECT count(*) FROM b;
RESET ROLE;
SELECT format('DROP POLICY c ON %1$s; ALTER TABLE %1$s DISABLE ROW LEVEL SECURITY', t) FROM twins \gexec
REVOKE ALL ON h, b, source, twins FROM regress_batchheap_user;
DROP ROLE regress_batchheap_user;
TRUNCATE b;

-- Those of the server's that are not interested in any table may be called;
-- stable ones do not see the statement's rows
CREATE SEQUENCE numbers;
CREATE FUNCTION stab(i int) RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN RETURN i; END';
CALL pg_temp.kinds('SELECT i FROM source WHERE random() >= 0',
    'SELECT i FROM source WHERE gen_random_uuid() IS NOT NULL AND clock_timestamp() IS NOT NULL AND nextval(''numbers'') > 0',
    'SELECT i FROM source WHERE now() IS NOT NULL',
    'SELECT stab(i) FROM source',
    'SELECT i FROM source WHERE set_config(''batchheap.enable'', ''on'', true) = ''on''');
DROP SEQUENCE numbers;

-- One that is not found out, hidden in a function that says it is immutable: it
-- is a reader like others then, and sees what it sees on heap
CREATE FUNCTION count_it(t text, undo boolean) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    n int;
BEGIN
    EXECUTE 'SELECT count(*) FROM ' || t INTO n;
    IF undo THEN PERFORM 1 / 0; END IF;
    RETURN n;
EXCEPTION WHEN division_by_zero THEN
    RETURN n;
END $$;
CREATE TABLE seen_h (n int);
CREATE TABLE seen_b (n int);
CREATE FUNCTION note_it(t text, i int) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    EXECUTE format('INSERT INTO seen_%1$s SELECT count_it(%1$L, %2$L)', t, i % 2 = 0);
    RETURN true;
END $$;
CREATE FUNCTION hide_it(t text, i int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN note_it(t, i); END';
CREATE DOMAIN watching_h AS int CHECK (value % 50 > 0 OR hide_it('h', value));
CREATE DOMAIN watching_b AS int CHECK (value % 50 > 0 OR hide_it('b', value));
CREATE TYPE holder_h AS (i watching_h);
CREATE TYPE holder_b AS (i watching_b);
CALL pg_temp.both('INSERT INTO %1$s SELECT ((''('' || i || '')'')::holder_%1$s).i, s FROM source');
SELECT pg_temp.twin('seen_h', 'seen_b'), max(n) FROM seen_b;
DROP TABLE seen_h, seen_b;
DROP TYPE holder_h, holder_b;
DROP DOMAIN watching_h, watching_b;
DROP FUNCTION count_it, note_it, hide_it;

--
-- Who looks at the rows again
--
CREATE TABLE log (n bigint);
CALL pg_temp.both('INSERT INTO %s SELECT i, s FROM source RETURNING i');
CALL pg_temp.both('INSERT INTO %s SELECT i, s FROM source ON CONFLICT DO NOTHING');
SELECT format('CREATE UNIQUE INDEX ON %s (i)', t) FROM twins \gexec
CALL pg_temp.both('INSERT INTO %s SELECT i / 2, s FROM source ON CONFLICT DO NOTHING');
SELECT format('DROP INDEX %s_i_idx', t) FROM twins \gexec
CALL pg_temp.both('WITH w AS (INSERT INTO log SELECT 1) INSERT INTO %s SELECT i, s FROM source');
CALL pg_temp.both('WITH w AS (INSERT INTO %s SELECT i, s FROM source RETURNING i) INSERT INTO log SELECT count(*) FROM w');
SELECT n, count(*) FROM log GROUP BY n ORDER BY n;
TRUNCATE log;
SELECT format('CREATE VIEW %1$s_view AS SELECT * FROM %1$s WHERE i > 0', t) FROM twins \gexec
CALL pg_temp.both('INSERT INTO %s_view SELECT i - 10, s FROM source');
SELECT format('CREATE OR REPLACE VIEW %1$s_view AS SELECT * FROM %1$s WHERE i > 0 WITH CHECK OPTION', t) FROM twins \gexec
CALL pg_temp.both('INSERT INTO %s_view SELECT i, s FROM source');
CALL pg_temp.both('INSERT INTO %s_view SELECT i - 10, s FROM source');
DROP VIEW h_view, b_view;
-- Triggers for rows; those for the statement see all rows, or none
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
BEGIN
    EXECUTE 'SELECT count(*) FROM ' || tg_relid::regclass INTO n;
    INSERT INTO log VALUES (n);
    RETURN CASE tg_level WHEN 'ROW' THEN NEW END;
END $$;
SELECT format('CREATE TRIGGER note BEFORE INSERT ON %s FOR EACH STATEMENT EXECUTE FUNCTION note()', t) FROM twins \gexec
SELECT format('CREATE TRIGGER note2 AFTER INSERT ON %s FOR EACH STATEMENT EXECUTE FUNCTION note()', t) FROM twins \gexec
CALL pg_temp.both('INSERT INTO %s SELECT i, s FROM source');
SELECT n, count(*) FROM log GROUP BY n ORDER BY n;
TRUNCATE log;
SELECT format('DROP TRIGGER note2 ON %1$s; CREATE TRIGGER note2 AFTER INSERT ON %1$s FOR EACH ROW EXECUTE FUNCTION note()', t) FROM twins \gexec
CALL pg_temp.both('INSERT INTO %s SELECT i, s FROM source WHERE i <= 40');
SELECT n, count(*) FROM log GROUP BY n ORDER BY n;
TRUNCATE log;
SELECT format('DROP TRIGGER note2 ON %1$s; DROP TRIGGER note ON %1$s; CREATE TRIGGER note BEFORE INSERT ON %1$s FOR EACH ROW EXECUTE FUNCTION note()', t) FROM twins \gexec
CALL pg_temp.both('INSERT INTO %s SELECT i, s FROM source WHERE i <= 30');
SELECT count(*), count(DISTINCT n), max(n) FROM log;
TRUNCATE log;
CREATE FUNCTION count_new() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO log SELECT count(*) FROM new_rows; RETURN NULL; END';
SELECT format('DROP TRIGGER note ON %1$s; CREATE TRIGGER note AFTER INSERT ON %1$s REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION count_new()', t) FROM twins \gexec
CALL pg_temp.both('INSERT INTO %s SELECT i, s FROM source');
SELECT n, count(*) FROM log GROUP BY n ORDER BY n;
TRUNCATE log;
-- ... an UPDATE's trigger is none of ours
SELECT format('DROP TRIGGER note ON %1$s; CREATE TRIGGER note AFTER UPDATE ON %1$s FOR EACH ROW EXECUTE FUNCTION note()', t) FROM twins \gexec
CALL pg_temp.both('INSERT INTO %s SELECT i, s FROM source');
SELECT format('DROP TRIGGER note ON %1$s', t) FROM twins \gexec
DROP FUNCTION note, count_new;
-- Indexes, foreign keys
SELECT format('CREATE INDEX %1$s_i ON %1$s (i)', t) FROM twins \gexec
CALL pg_temp.both('INSERT INTO %s SELECT i, s FROM source');
DROP INDEX h_i, b_i;
-- (what is left of an index, only VACUUM clears up)
VACUUM h, b;
CALL pg_temp.both('INSERT INTO %s SELECT i, s FROM source');
CREATE UNIQUE INDEX ON source (i);
SELECT format('ALTER TABLE %1$s ADD CONSTRAINT f FOREIGN KEY (i) REFERENCES source (i)', t) FROM twins \gexec
CALL pg_temp.both('INSERT INTO %s SELECT i, s FROM source');
CALL pg_temp.both('INSERT INTO %s SELECT i + 1, s FROM source');
SELECT format('ALTER TABLE %1$s DROP CONSTRAINT f', t) FROM twins \gexec

-- Partitions: each has its load, those that may
CREATE FUNCTION pg_temp.by_part() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT string_agg(part || ' ' || n, ', ' ORDER BY part) FROM (SELECT tableoid::regclass::text AS part, count(*) AS n FROM parts GROUP BY 1) p);
END $$;
CREATE TABLE parts (i int, s text) PARTITION BY LIST ((i % 4));
CREATE TABLE part0 PARTITION OF parts FOR VALUES IN (0) USING batchheap;
CREATE TABLE part1 PARTITION OF parts FOR VALUES IN (1) USING heap;
CREATE TABLE part2 (s text, x int, i int) USING batchheap;
ALTER TABLE part2 DROP x;
ALTER TABLE parts ATTACH PARTITION part2 FOR VALUES IN (2);
CREATE TABLE part3 PARTITION OF parts FOR VALUES IN (3) USING batchheap;
SELECT pg_temp.counted() \g /dev/null
INSERT INTO parts SELECT i, s FROM source;
SELECT pg_temp.counted(), pg_temp.by_part();
SELECT count(*) AS wrong FROM ((TABLE parts EXCEPT ALL SELECT i, s FROM source) UNION ALL (SELECT i, s FROM source EXCEPT ALL TABLE parts)) d;
INSERT INTO part3 SELECT i, s FROM source WHERE i % 4 = 3;
INSERT INTO part3 SELECT i, s FROM source;
SELECT pg_temp.counted(), pg_temp.by_part();
INSERT INTO parts SELECT * FROM parts;
INSERT INTO parts SELECT i + 1, s FROM parts WHERE i IN (SELECT i FROM part0);
SELECT pg_temp.counted(), pg_temp.by_part();
TRUNCATE parts;
-- ... an index or a trigger, or a volatile constraint, is the matter of one, a
-- RETURNING of all
CREATE INDEX part0_i ON part0 (i);
INSERT INTO parts SELECT i, s FROM source;
SELECT pg_temp.counted(), pg_temp.by_part(), bt_index_check('part0_i', true);
CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER keep BEFORE INSERT ON part3 FOR EACH ROW EXECUTE FUNCTION keep();
INSERT INTO parts SELECT i, s FROM source;
SELECT pg_temp.counted(), pg_temp.by_part();
DROP TRIGGER keep ON part3;
DROP FUNCTION keep;
ALTER TABLE part3 ADD CHECK (vol(i) > 3) NOT VALID;
INSERT INTO parts SELECT i, s FROM source;
SELECT pg_temp.counted() \g /dev/null
INSERT INTO parts SELECT i, s FROM source WHERE i > 3;
SELECT regexp_replace(pg_temp.counted(), '\d+', 'n', 'g'), pg_temp.by_part();
INSERT INTO parts SELECT i, s FROM source WHERE i > 3 RETURNING i \g /dev/null
SELECT pg_temp.counted(), pg_temp.by_part();
-- ... undone
BEGIN;
INSERT INTO parts SELECT i, s FROM source WHERE i > 3;
ROLLBACK;
SELECT pg_temp.by_part();
DROP TABLE parts;
SELECT pg_temp.counted() \g /dev/null
-- ... several levels, all made in the same transaction: frozen
BEGIN;
CREATE TABLE parts (i int, s text) PARTITION BY LIST ((i % 2));
CREATE TABLE even PARTITION OF parts FOR VALUES IN (0) USING batchheap;
CREATE TABLE odd PARTITION OF parts FOR VALUES IN (1) PARTITION BY RANGE (i);
CREATE TABLE odd_low PARTITION OF odd FOR VALUES FROM (MINVALUE) TO (100) USING batchheap;
CREATE TABLE odd_high PARTITION OF odd DEFAULT USING batchheap;
INSERT INTO parts SELECT i, s FROM source;
COMMIT;
SELECT pg_temp.counted(), pg_temp.by_part(), pg_temp.vm('even') AS even, pg_temp.vm('odd_low') AS low, pg_temp.vm('odd_high') AS high;
-- ... but the one that the statement reads
BEGIN;
TRUNCATE parts;
INSERT INTO parts SELECT i, s FROM source WHERE i NOT IN (SELECT i FROM odd_low);
COMMIT;
SELECT pg_temp.counted(), pg_temp.by_part(), pg_temp.vm('even') AS even, pg_temp.vm('odd_low') AS low, pg_temp.vm('odd_high') AS high;
DROP TABLE parts;
-- ... more than are loaded at a time: in turn, and one after the other
CREATE TABLE parts (i int, m int) PARTITION BY RANGE (i);
DO $$
BEGIN
    FOR n IN 0..75 LOOP
        EXECUTE format('CREATE TABLE part%s PARTITION OF parts FOR VALUES FROM (%s) TO (%s) USING batchheap', n, n * 4, n * 4 + 4);
    END LOOP;
END $$;
INSERT INTO parts SELECT i, m FROM source ORDER BY i % 4, i;
SELECT pg_temp.counted();
INSERT INTO parts SELECT a.i, b.i FROM source a, source b WHERE b.i <= 20 ORDER BY a.i;
SELECT pg_temp.counted();
WITH wanted AS (SELECT i, m FROM source UNION ALL SELECT a.i, b.i FROM source a, source b WHERE b.i <= 20)
SELECT count(*) AS wrong FROM ((TABLE parts EXCEPT ALL TABLE wanted) UNION ALL (TABLE wanted EXCEPT ALL TABLE parts)) d;
TRUNCATE parts;
-- ... where the first one has few rows, as some of them are not batched
INSERT INTO parts SELECT a.i, b.i FROM source a, source b WHERE b.i <= 7 ORDER BY a.i;
SELECT pg_temp.counted(), count(*) AS rows, sum(i) AS i, sum(m) AS m FROM parts;
DROP TABLE parts;

-- Rules: each of the statements is one of its own
SELECT format('CREATE RULE twice AS ON INSERT TO %s DO ALSO INSERT INTO log SELECT i FROM source WHERE source.i = NEW.i', t) FROM twins \gexec
CALL pg_temp.both('INSERT INTO %s SELECT i, s FROM source');
SELECT count(*) FROM log;
SELECT format('DROP RULE twice ON %s', t) FROM twins \gexec
DROP TABLE log;
RESET batchheap.max_batch_rows;

--
-- Frozen, if the file is as new as the rows and nobody could notice
--
CREATE PROCEDURE pg_temp.told() LANGUAGE plpgsql AS $$
BEGIN
    RAISE NOTICE '%; %; % rows', pg_temp.counted(), pg_temp.vm('b'), (SELECT count(*) FROM b);
END $$;
BEGIN; TRUNCATE b; INSERT INTO b SELECT i, s FROM source; COMMIT;
CALL pg_temp.told();
DROP TABLE b;
BEGIN; CREATE TABLE b (i int, s text) USING batchheap WITH (autovacuum_enabled = off); INSERT INTO b SELECT i, s FROM source; INSERT INTO b SELECT -i, s FROM source; COMMIT;
CALL pg_temp.told();
-- ... also few of them; not if they are given one by one
BEGIN; TRUNCATE b; INSERT INTO b SELECT i, s FROM source WHERE i < 5; COMMIT;
CALL pg_temp.told();
BEGIN; TRUNCATE b; INSERT INTO b VALUES (1); COMMIT;
CALL pg_temp.told();
-- In another subtransaction than the table's: batched, not frozen
BEGIN; TRUNCATE b; SAVEPOINT s; INSERT INTO b SELECT i, s FROM source; RELEASE s; COMMIT;
CALL pg_temp.told();
BEGIN; TRUNCATE b; SAVEPOINT s; INSERT INTO b SELECT i, s FROM source; ROLLBACK TO s; COMMIT;
CALL pg_temp.told();
BEGIN; SAVEPOINT s; TRUNCATE b; INSERT INTO b SELECT i, s FROM source; COMMIT;
CALL pg_temp.told();
-- Serializable, switched off
BEGIN ISOLATION LEVEL SERIALIZABLE; TRUNCATE b; INSERT INTO b SELECT i, s FROM source; COMMIT;
CALL pg_temp.told();
BEGIN; SET LOCAL batchheap.freeze_on_load = off; TRUNCATE b; INSERT INTO b SELECT i, s FROM source; COMMIT;
CALL pg_temp.told();
-- An older cursor; again and again
BEGIN; DECLARE c CURSOR FOR SELECT 1; TRUNCATE b; INSERT INTO b SELECT i, s FROM source; FETCH c; COMMIT;
CALL pg_temp.told();
BEGIN;
DECLARE c CURSOR FOR SELECT 1;
TRUNCATE b;
DO $$ BEGIN FOR n IN 1..150 LOOP INSERT INTO b SELECT i FROM source WHERE i < 30; END LOOP; END $$;
COMMIT;
CALL pg_temp.told();
-- The statement itself reads the table, or may by a stable function
BEGIN; TRUNCATE b; INSERT INTO b SELECT i, s FROM source WHERE i NOT IN (SELECT i FROM b); COMMIT;
CALL pg_temp.told();
BEGIN; TRUNCATE b; INSERT INTO b SELECT stab(i), s FROM source; COMMIT;
CALL pg_temp.told();
CREATE FUNCTION peek() RETURNS int LANGUAGE sql STABLE AS 'SELECT count(*)::int FROM b';
BEGIN; TRUNCATE b; INSERT INTO b SELECT peek(), s FROM source; COMMIT;
CALL pg_temp.told();
SELECT max(i) AS peeked FROM b;
DROP FUNCTION peek;
-- ... or does so by a trigger, or a partition's trigger or constraint: as the
-- same on heap they find it empty
CREATE FUNCTION peek(t text) RETURNS bigint LANGUAGE plpgsql STABLE AS
    'DECLARE n bigint; BEGIN EXECUTE ''SELECT count(*) FROM '' || t INTO n; RETURN n; END';
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql STABLE AS
    'BEGIN RAISE NOTICE ''% rows of %'', peek(tg_argv[0]), tg_argv[0]; RETURN new; END';
CREATE TRIGGER t AFTER INSERT ON b EXECUTE FUNCTION note('b');
BEGIN; TRUNCATE b; INSERT INTO b SELECT i, s FROM source; COMMIT;
DROP TRIGGER t ON b;
CALL pg_temp.told();
CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE NOTICE ''there are rows''; RETURN new; END';
CREATE TRIGGER t AFTER INSERT ON b WHEN (peek('b') > 0) EXECUTE FUNCTION shout();
BEGIN; TRUNCATE b; INSERT INTO b SELECT i FROM generate_series(1, 1500) i; COMMIT;
DROP TRIGGER t ON b;
CALL pg_temp.told();
CREATE TRIGGER t AFTER INSERT ON b EXECUTE FUNCTION shout();
BEGIN; TRUNCATE b; INSERT INTO b SELECT i FROM generate_series(1, 1500) i; COMMIT;
DROP TRIGGER t ON b;
CALL pg_temp.told();
CREATE TABLE parts (n int, i int) PARTITION BY LIST (n);
CREATE TABLE p0 PARTITION OF parts FOR VALUES IN (0) USING batchheap;
CREATE TABLE p1 PARTITION OF parts FOR VALUES IN (1) USING batchheap;
BEGIN; TRUNCATE parts; INSERT INTO parts SELECT (i > 1200)::int, i FROM generate_series(1, 1500) i; SELECT pg_temp.frozen_rows('p0') > 0 AS frozen; COMMIT;
CREATE TRIGGER t BEFORE INSERT ON p1 FOR EACH ROW WHEN (new.i = 1201) EXECUTE FUNCTION note('p0');
BEGIN; TRUNCATE parts; INSERT INTO parts SELECT (i > 1200)::int, i FROM generate_series(1, 1500) i; SELECT pg_temp.frozen_rows('p0') > 0 AS frozen; COMMIT;
DROP TRIGGER t ON p1;
ALTER TABLE p1 ADD CHECK (i % 100 > 0 OR peek('p0') = 0) NOT VALID;
BEGIN; TRUNCATE parts; INSERT INTO parts SELECT (i > 1200)::int, i FROM generate_series(1, 1500) i; SELECT pg_temp.frozen_rows('p0') > 0 AS frozen; COMMIT;
SELECT count(*) FROM parts;
DROP TABLE parts;
-- ... with COPY, too
CREATE TRIGGER t AFTER INSERT ON b EXECUTE FUNCTION note('b');
BEGIN; TRUNCATE b; COPY b (i) FROM PROGRAM 'seq 1 1500'; COMMIT;
DROP TRIGGER t ON b;
ALTER TABLE b ADD CONSTRAINT c CHECK (i % 500 > 0 OR peek('b') = 0) NOT VALID;
BEGIN; TRUNCATE b; COPY b (i) FROM PROGRAM 'seq 1 1500'; COMMIT;
SELECT pg_temp.vm('b'), count(*) FROM b;
ALTER TABLE b DROP CONSTRAINT c;
BEGIN; TRUNCATE b; COPY b (i) FROM PROGRAM 'seq 1 1500'; COMMIT;
SELECT pg_temp.vm('b'), count(*) FROM b;
-- ... its WHERE, or a default
SET max_parallel_workers_per_gather = 0;
BEGIN; TRUNCATE b; COPY b (i) FROM PROGRAM 'seq 1 2100' WHERE i % 1000 > 0 OR peek('b') = 0; COMMIT;
SELECT pg_temp.vm('b'), count(*) FROM b;
ALTER TABLE b ALTER s SET DEFAULT peek('b');
BEGIN; TRUNCATE b; COPY b (i) FROM PROGRAM 'seq 1 2100'; COMMIT;
SELECT pg_temp.vm('b'), count(*), max(s) FROM b;
ALTER TABLE b ALTER s DROP DEFAULT;
RESET max_parallel_workers_per_gather;
-- ... a trigger of the partitioned table that it names
CREATE TABLE parts (n int, i int) PARTITION BY LIST (n);
CREATE TABLE p0 PARTITION OF parts FOR VALUES IN (0) USING batchheap;
BEGIN; TRUNCATE parts; COPY parts FROM PROGRAM 'seq -f "0,%g" 1 1500' (FORMAT csv); COMMIT;
SELECT pg_temp.vm('p0'), count(*) FROM parts;
CREATE TRIGGER t AFTER INSERT ON parts EXECUTE FUNCTION note('p0');
BEGIN; TRUNCATE parts; COPY parts FROM PROGRAM 'seq -f "0,%g" 1 1500' (FORMAT csv); COMMIT;
SELECT pg_temp.vm('p0'), count(*) FROM parts;
DROP TABLE parts;
DROP FUNCTION peek, note, shout;
SELECT pg_temp.counted() \g /dev/null
-- Called by a query
CREATE FUNCTION fill() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN TRUNCATE b; INSERT INTO b SELECT i, s FROM source; RETURN 1; END';
SELECT fill();
CALL pg_temp.told();
-- ... by none
DO $$ BEGIN TRUNCATE b; INSERT INTO b SELECT i, s FROM source; END $$;
CALL pg_temp.told();
-- On pages of their own, after what was there before
BEGIN; TRUNCATE b; INSERT INTO b VALUES (0); INSERT INTO b SELECT i, s FROM source; COMMIT;
CALL pg_temp.told();
-- With an index there is no batch
BEGIN; TRUNCATE b; CREATE INDEX b_i ON b (i); INSERT INTO b SELECT i, s FROM source; COMMIT;
CALL pg_temp.told();
DROP FUNCTION fill, stab;

-- Rows for a partition that cannot be loaded do not end the loads of others, of
-- which there are as many as there may be at a time
CREATE TABLE parts (n int, i int) PARTITION BY LIST (n);
DO $$ BEGIN
    FOR n IN 0..64 LOOP
        EXECUTE format('CREATE TABLE p%1$s PARTITION OF parts FOR VALUES IN (%1$s) USING batchheap', n);
    END LOOP;
END $$;
CREATE INDEX ON p0 (i);
SELECT pg_temp.counted() \g /dev/null
INSERT INTO parts SELECT CASE WHEN i % 2 = 0 THEN i / 2 % 64 + 1 ELSE 0 END, i FROM generate_series(1, 12800) i;
SELECT counter, value FROM batchheap_counters() WHERE counter IN ('loads', 'batches');
SELECT pg_temp.counted() \g /dev/null
DROP TABLE parts;

DROP TABLE h, b, source;
DROP DOMAIN checked;
DROP CAST (int AS mine);
DROP AGGREGATE vol_sum(int);
DROP OPERATOR === (int, int);
DROP FUNCTION vol, vol_rows, vol_bool, vol_text, int4_sum_vol, to_mine;
DROP TYPE mine;
