-- Functions in a load's query that write: to the half-loaded table, and to
-- others, which they may load as well.  The load's rows stay in order, and none
-- is lost or doubled when an EXCEPTION block undoes a part.
\set ECHO none
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/include/setup.psql
\set ECHO all
SET batchheap.max_batch_rows = 100;

-- No load outlives its command
CREATE FUNCTION pg_temp.leftovers() RETURNS bigint LANGUAGE sql AS
    $$ SELECT count(*) FROM pg_backend_memory_contexts WHERE name LIKE 'batchheap%' $$;

-- Makes a function of statements on the table (%s), which are done at once, or
-- in an EXCEPTION block that ends well or is undone; and loads with it, by
-- batches (b) and by pages built in private memory (p).
CREATE PROCEDURE pg_temp.writes(statements text) LANGUAGE plpgsql AS $proc$
DECLARE
    manner text;
    twin record;
    in_order boolean;
    p_in_order boolean;
    counts text;
BEGIN
    FOREACH manner IN ARRAY '{plain,commits,aborts}'::text[] LOOP
        PERFORM batchheap_counters_reset();
        FOR twin IN SELECT * FROM twins UNION ALL SELECT 'p', 'batchheap' LOOP
            EXECUTE format('CREATE OR REPLACE FUNCTION meddle_%1$s(n int) RETURNS int LANGUAGE plpgsql AS $f$
                DECLARE
                    r int := 0;
                BEGIN
                    BEGIN
                        %2$s;
                        GET DIAGNOSTICS r = ROW_COUNT;
                        %3$s
                    END;
                    RETURN r;
                END $f$', twin.t, format(statements, twin.t),
                CASE manner WHEN 'plain' THEN '' WHEN 'commits' THEN 'EXCEPTION WHEN division_by_zero THEN NULL;'
                            ELSE 'PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN NULL;' END);
            IF twin.t = 'p' THEN counts := pg_temp.counted(); END IF;
            PERFORM set_config('batchheap.enable', 'on', true), set_config('batchheap.max_batch_rows', '100', true),
                set_config('batchheap.page_writer', (twin.t = 'p')::text, true);
            EXECUTE format('CREATE TABLE %1$s USING %2$s WITH (autovacuum_enabled = off) AS SELECT i,
                CASE WHEN i IN (1, 2, 77, 100, 101, 180, 333) THEN meddle_%1$s(i) END AS r, ''row'' AS s FROM generate_series(1, 500) i', twin.t, twin.am);
        END LOOP;
        EXECUTE 'SELECT array_agg(i ORDER BY ctid) = array_agg(i ORDER BY i) FROM b WHERE s = ''row''' INTO in_order;
        EXECUTE 'SELECT array_agg(i ORDER BY ctid) = array_agg(i ORDER BY i) FROM p WHERE s = ''row''' INTO p_in_order;
        RAISE NOTICE '%', format('%s: %s, %s%s, %s left; page writer: %s, %s%s', manner,
            pg_temp.twin('h', 'b'), CASE WHEN in_order THEN 'in order' ELSE 'OUT OF order' END, CASE WHEN pg_temp.vm('b') ~ 'WRONG' THEN ', ' || pg_temp.vm('b') END,
            pg_temp.leftovers(),
            pg_temp.twin('h', 'p'), CASE WHEN p_in_order THEN 'in order' ELSE 'OUT OF order' END, CASE WHEN pg_temp.vm('p') ~ 'WRONG' THEN ', ' || pg_temp.vm('p') END);
        DROP TABLE h, b, p;
        DROP FUNCTION meddle_h, meddle_b, meddle_p;
    END LOOP;
    RAISE NOTICE '%', counts;
    PERFORM batchheap_counters_reset();
END $proc$;

-- To the table itself
CALL pg_temp.writes('INSERT INTO %s VALUES (-n, 0, ''inserted'')');
CALL pg_temp.writes('INSERT INTO %s SELECT -g, 0, ''inserted'' FROM generate_series(1, 110) g');
CALL pg_temp.writes('INSERT INTO %1$s SELECT -i, 0, ''copied'' FROM %1$s');
CALL pg_temp.writes('COPY %s (i) FROM PROGRAM ''seq 1001 1120''');
CALL pg_temp.writes('UPDATE %s SET s = s || '' updated'' WHERE i %% 3 = 0');
CALL pg_temp.writes('DELETE FROM %s WHERE i %% 10 < 5');
CALL pg_temp.writes('DELETE FROM %s');
CALL pg_temp.writes('MERGE INTO %s t USING generate_series(50, 150) g ON t.i = g WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (-g, 0, ''merged'')');
CALL pg_temp.writes('PERFORM count(*) FROM (SELECT i FROM %s FOR UPDATE) x');
CALL pg_temp.writes('WITH d AS (DELETE FROM %1$s WHERE i %% 2 = 0 RETURNING i) INSERT INTO %1$s SELECT -i, 0, ''moved'' FROM d');
CALL pg_temp.writes('UPDATE %1$s SET s = ''x''; BEGIN DELETE FROM %1$s; PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN NULL; END; DELETE FROM %1$s WHERE i %% 7 = 0');
-- What is written singly comes after the rows that were there before
CREATE FUNCTION put(t text, n int) RETURNS int LANGUAGE plpgsql AS
    'BEGIN EXECUTE format(''INSERT INTO %s VALUES (%s)'', t, -n); RETURN n; END';
SELECT format('CREATE TABLE %1$s USING %2$s AS SELECT i, CASE WHEN i IN (1, 40, 101, 155) THEN put(''%1$s'', i) END AS n FROM generate_series(1, 190) i', t, am)
    FROM twins \gexec
SELECT h.i, h.after AS after_on_heap, b.after FROM (SELECT i, lag(i) OVER (ORDER BY ctid) AS after FROM h) h
    JOIN (SELECT i, lag(i) OVER (ORDER BY ctid) AS after FROM b) b USING (i) WHERE i < 0 ORDER BY i DESC;
DROP TABLE h, b;
CREATE OR REPLACE FUNCTION put(t text, n int) RETURNS int LANGUAGE plpgsql AS
    'BEGIN EXECUTE format(''COPY %s (i) FROM PROGRAM ''''seq %s -1 %s'''''', t, -n, -n); RETURN n; END';
SELECT format('CREATE TABLE %1$s USING %2$s AS SELECT i, CASE WHEN i IN (1, 40, 101, 155) THEN put(''%1$s'', i) END AS n FROM generate_series(1, 190) i', t, am)
    FROM twins \gexec
SELECT h.i, h.after AS after_on_heap, b.after FROM (SELECT i, lag(i) OVER (ORDER BY ctid) AS after FROM h) h
    JOIN (SELECT i, lag(i) OVER (ORDER BY ctid) AS after FROM b) b USING (i) WHERE i < 0 ORDER BY i DESC;
DROP TABLE h, b;
DROP FUNCTION put;
SELECT pg_temp.counted() \g /dev/null
-- A trigger on it comes too late for the load's own rows, and is in time for others
CREATE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.s := ''marked''; RETURN NEW; END';
CALL pg_temp.writes('IF n > 50 THEN CREATE OR REPLACE TRIGGER mark BEFORE INSERT ON %1$s FOR EACH ROW EXECUTE FUNCTION mark(); END IF; INSERT INTO %1$s VALUES (-n)');
DROP FUNCTION mark;

-- To other tables, by loads of their own, which come between this one's rows;
-- with loads within them
CALL pg_temp.writes('EXECUTE ''CREATE TABLE inner_'' || n || '' USING batchheap AS SELECT g FROM generate_series(1, 250) g''; EXECUTE ''DROP TABLE inner_'' || n');
CREATE FUNCTION deeper(n int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    r int;
BEGIN
    IF n > 0 THEN
        EXECUTE format('CREATE TABLE level_%1$s USING batchheap AS SELECT g, CASE WHEN g %% 60 = 0 THEN deeper(%1$s - 1) END AS d FROM generate_series(1, 130) g', n);
        EXECUTE format('SELECT count(*) + sum(d) FROM level_%s', n) INTO r;
        EXECUTE format('DROP TABLE level_%s', n);
    END IF;
    RETURN coalesce(r, 1);
END $$;
SELECT deeper(4), pg_temp.leftovers();
SELECT pg_temp.counted();
CALL pg_temp.writes('PERFORM deeper(2)');
DROP FUNCTION deeper;
-- ... that fail half-way, and are trapped
CALL pg_temp.writes('BEGIN CREATE TABLE broken USING batchheap AS SELECT 1 / (g - 150) FROM generate_series(1, 250) g; EXCEPTION WHEN division_by_zero THEN NULL; END');
-- ... that look at this one
CALL pg_temp.writes('CREATE TABLE copied_%1$s USING batchheap AS TABLE %1$s; DROP TABLE copied_%1$s');
-- ... of all kinds
CREATE MATERIALIZED VIEW mv USING batchheap AS SELECT g FROM generate_series(1, 250) g;
CREATE TABLE other USING batchheap AS SELECT g FROM generate_series(1, 250) g;
CALL pg_temp.writes('REFRESH MATERIALIZED VIEW mv; ALTER TABLE other ADD c int DEFAULT random(); ALTER TABLE other DROP c; TRUNCATE other;
    COPY other FROM PROGRAM ''seq 1 250''; CREATE INDEX ON other (g); DROP INDEX other_g_idx');
SELECT (SELECT count(*) FROM mv) AS mv, (SELECT count(*) FROM other) AS other;
DROP MATERIALIZED VIEW mv;
DROP TABLE other;

-- Settings changed and reset in the middle
CALL pg_temp.writes('IF n > 50 THEN PERFORM set_config(''batchheap.enable'', ''off'', true), set_config(''batchheap.max_batch_rows'', ''7'', true); END IF; INSERT INTO %s VALUES (-n)');
SELECT current_setting('batchheap.enable'), current_setting('batchheap.max_batch_rows');

-- The same function called at two places of a query, and from a CTE that is
-- executed after the last row
CREATE TABLE log (n bigint);
CREATE FUNCTION write_b(n int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log SELECT count(*) FROM b;
    INSERT INTO b VALUES (-n);
    RETURN n;
END $$;
CREATE TABLE b USING batchheap AS
    WITH late AS (INSERT INTO log SELECT -write_b(i) FROM generate_series(1, 5) i RETURNING n)
    SELECT i FROM generate_series(1, 250) i;
SELECT pg_temp.counted(), count(*), count(*) FILTER (WHERE i < 0), (SELECT array_agg(n) FROM log) AS log FROM b;
DROP TABLE b, log;
DROP FUNCTION write_b;
SELECT pg_temp.leftovers();
