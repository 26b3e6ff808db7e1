-- Functions in a load's query that look at the half-loaded table.  The rows
-- before must be there for them as far as heap shows them, and must be there
-- once in the end, whatever becomes of the subtransaction they were looked at
-- in: rows written in its name vanish with it.
\set ECHO none
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/include/setup.psql
\set ECHO all

-- The function: volatile or stable (which reads with the snapshot of the query
-- that calls it); plain, or within an EXCEPTION block that ends well or not, or
-- within two of them of which only the outer one fails; looks by counting, by a
-- cursor, or by a range of TIDs.
CREATE PROCEDURE make_look(volatility text, manner text, way text) LANGUAGE plpgsql AS $make$
BEGIN
    EXECUTE format('CREATE OR REPLACE FUNCTION look(t text) RETURNS int LANGUAGE plpgsql %s AS $f$
        DECLARE
            n int := 0;
            r record;
            c refcursor;
        BEGIN ', volatility) ||
        CASE manner WHEN 'plain' THEN '' WHEN 'inner commits' THEN 'BEGIN BEGIN ' ELSE 'BEGIN ' END ||
        CASE way WHEN 'count' THEN $f$ EXECUTE 'SELECT count(*) FROM ' || t INTO n; $f$
                 WHEN 'cursor' THEN $f$ OPEN c FOR EXECUTE 'SELECT * FROM ' || t;
                    LOOP FETCH c INTO r; EXIT WHEN NOT FOUND; n := n + 1; END LOOP; CLOSE c; $f$
                 WHEN 'tid' THEN $f$ EXECUTE format('SELECT count(*) FROM %s WHERE ctid > ''(0,0)''', t) INTO n; $f$ END ||
        CASE manner WHEN 'plain' THEN ''
                    WHEN 'commits' THEN 'EXCEPTION WHEN division_by_zero THEN n := -1; END; '
                    WHEN 'aborts' THEN 'PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN NULL; END; '
                    WHEN 'inner commits' THEN 'EXCEPTION WHEN division_by_zero THEN n := -1; END;
                        PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN NULL; END; ' END ||
        'RETURN n; END $f$';
END $make$;

-- Each combination, on heap and on batchheap: what each call saw is in the rows.
-- Batches are of 100 rows, looks at some places before, at and after their ends.
CREATE PROCEDURE look_around(volatilities text[], freezing boolean, writing_pages boolean DEFAULT false) LANGUAGE plpgsql AS $$
DECLARE
    volatility text;
    manner text;
    way text;
    twin record;
    result text;
BEGIN
    SET LOCAL batchheap.max_batch_rows = 100;
    PERFORM set_config('batchheap.freeze_on_load', freezing::text, true), set_config('batchheap.page_writer', writing_pages::text, true);
    FOREACH volatility IN ARRAY volatilities LOOP
        FOREACH manner IN ARRAY '{plain,commits,aborts,inner commits}'::text[] LOOP
            FOREACH way IN ARRAY '{count,cursor,tid}'::text[] LOOP
                CALL make_look(volatility, manner, way);
                PERFORM batchheap_counters_reset();
                FOR twin IN SELECT * FROM twins LOOP
                    EXECUTE format('CREATE TABLE %1$s USING %2$s AS SELECT i, CASE WHEN i IN (1, 2, 50, 99, 100, 101, 102, 150, 199, 200, 201, 777)
                        THEN look(''%1$s'') END AS seen FROM generate_series(1, 1000) i', twin.t, twin.am);
                END LOOP;
                result := pg_temp.twin('h', 'b');
                RAISE NOTICE '%', format('%s, %s, %s: %s%s%s%s', volatility, manner, way, result,
                    (SELECT ', saw up to ' || max(seen) FROM b),
                    -- rows written in the name of what was undone were written again
                    (SELECT ', of ' || count(DISTINCT xmin::text) || ' writers' FROM b WHERE manner IN ('aborts', 'inner commits') HAVING count(*) > 0),
                    CASE WHEN pg_temp.vm('b') ~ 'WRONG' THEN pg_temp.vm('b') END);
                IF way = 'count' AND NOT writing_pages THEN RAISE NOTICE '%', pg_temp.counted(); END IF;
                DROP TABLE h, b;
            END LOOP;
        END LOOP;
    END LOOP;
END $$;
CALL look_around('{volatile,stable}', false);
CALL look_around('{volatile}', true);
-- The same when pages are built in private memory, which ends when one looks
CALL look_around('{volatile}', true, true);

-- The documented difference: a frozen row is visible to every snapshot, so that
-- a stable function sees the batches that were written before it looked.  No
-- row is lost or doubled, and with the setting off it is as on heap (above).
CALL make_look('stable', 'plain', 'count');
SET batchheap.max_batch_rows = 100;
SELECT format('CREATE TABLE %1$s USING %2$s AS SELECT i, CASE WHEN i %% 70 = 0 THEN look(''%1$s'') END AS seen FROM generate_series(1, 250) i', t, am)
    FROM twins \gexec
SELECT h.i, h.seen AS heap, b.seen AS batchheap FROM h JOIN b USING (i) WHERE h.seen IS NOT NULL;
SELECT count(*), count(DISTINCT i) FROM b;
DROP TABLE h, b;
-- It is a reader who need not see the waiting rows, and does not have them written
CREATE TABLE b USING batchheap AS SELECT i, look('b') FROM generate_series(1, 250) i;
SELECT pg_temp.counted() ~ 'forced' AS forced FROM batchheap_counters_reset();
DROP TABLE b;
CREATE TABLE b USING batchheap AS SELECT i, look('b') FROM generate_series(1, 250) i;
SELECT pg_temp.counted(), pg_temp.vm('b');
DROP TABLE b;

-- As top-level commands, in an outer subtransaction, and in REFRESH and ALTER
-- (where the table is still the old one to everybody)
CALL make_look('volatile', 'aborts', 'count');
SELECT format('BEGIN; SAVEPOINT s; CREATE TABLE %1$s USING %2$s AS SELECT i, look(''%1$s'') AS seen FROM generate_series(1, 250) i; RELEASE s; COMMIT', t, am)
    FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.vm('b') !~ 'WRONG' AS vm_is_right, count(*), count(DISTINCT i), max(seen) FROM b;
SELECT format('ALTER TABLE %1$s ALTER seen TYPE bigint USING look(''%1$s'')', t) FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.vm('b') !~ 'WRONG' AS vm_is_right, count(*), count(DISTINCT i), max(seen) FROM b;
DROP TABLE h, b;
CREATE OR REPLACE FUNCTION look(t text) RETURNS int LANGUAGE plpgsql AS
    'DECLARE n int; BEGIN EXECUTE ''SELECT count(*) FROM public.'' || t INTO n; RETURN n; EXCEPTION WHEN division_by_zero THEN RETURN -1; END';
SELECT format('CREATE MATERIALIZED VIEW %1$s USING %2$s AS SELECT i, CASE WHEN i > 5 THEN look(''looked_at'') END AS seen FROM generate_series(1, 300) i WITH NO DATA', t, am)
    FROM twins \gexec
CREATE TABLE looked_at (i int);
SELECT pg_temp.counted() \g /dev/null
SELECT format('REFRESH MATERIALIZED VIEW %s', t) FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.vm('b');
DROP MATERIALIZED VIEW h, b;
DROP TABLE looked_at;

--
-- Other ways of looking
--

-- Static SQL: the plan of the second call is there already, so that nothing but
-- the scan itself can have the rows written.  In a parallel plan it is too late
-- then: no transaction ID can be assigned any more.
CREATE PROCEDURE pg_temp.static(manner text) LANGUAGE plpgsql AS $$
DECLARE
    twin record;
BEGIN
    FOR twin IN SELECT * FROM twins LOOP
        EXECUTE format('CREATE FUNCTION look_%1$s() RETURNS int LANGUAGE plpgsql AS $f$
            DECLARE n int;
            BEGIN
                BEGIN
                    n := (SELECT count(*) FROM %1$s);
                    %2$s;
                EXCEPTION WHEN division_by_zero THEN NULL;
                END;
                RETURN n;
            END $f$', twin.t, CASE manner WHEN 'aborts' THEN 'PERFORM 1 / 0' ELSE 'NULL' END);
        EXECUTE format('CREATE TABLE %1$s USING %2$s AS SELECT i, CASE WHEN i %% 30 = 0 THEN look_%1$s() END AS seen FROM generate_series(1, 1000) i', twin.t, twin.am);
    END LOOP;
    RAISE NOTICE '%: %, saw up to %', manner, pg_temp.twin('h', 'b'), (SELECT max(seen) FROM b);
    RAISE NOTICE '%', pg_temp.counted();
    DROP TABLE h, b;
    DROP FUNCTION look_h, look_b;
END $$;
CALL pg_temp.static('commits');
CALL pg_temp.static('aborts');
CALL pg_temp.cheap_gathers();
CREATE TABLE b USING batchheap AS SELECT i, 0 AS seen FROM generate_series(1, 1000) i;
SELECT pg_temp.plan_has('Gather', 'SELECT count(*) FROM b');
DROP TABLE b;
SELECT pg_temp.counted() \g /dev/null
CALL pg_temp.static('commits');
CALL pg_temp.static('aborts');
-- ... dynamic, so that it is planned each time
CALL make_look('volatile', 'aborts', 'count');
SELECT format('CREATE TABLE %1$s USING %2$s AS SELECT i, CASE WHEN i %% 30 = 0 THEN look(''%1$s'') END AS seen FROM generate_series(1, 1000) i', t, am)
    FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), max(seen) FROM b;
DROP TABLE h, b;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET max_parallel_workers_per_gather;

-- By single TIDs
CREATE OR REPLACE FUNCTION look(t text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    n int;
BEGIN
    EXECUTE format('SELECT count(*) FROM %s WHERE ctid IN (''(0,1)'', ''(0,70)'', ''(0,101)'', ''(1,1)'')', t) INTO n;
    RETURN n;
END $$;
SELECT format('CREATE TABLE %1$s USING %2$s AS SELECT i, CASE WHEN i %% 30 = 0 THEN look(''%1$s'') END AS seen FROM generate_series(1, 1000) i', t, am)
    FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), max(seen) FROM b;
DROP TABLE h, b;

-- A cursor that stays open while rows are added sees those that were there when
-- it was opened, also on the page that is added to
CREATE FUNCTION look_again(t text, i int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    c refcursor := 'stays open';
    r record;
    n int := 0;
BEGIN
    IF i = 150 THEN
        OPEN c FOR EXECUTE 'SELECT i FROM ' || t;
        FETCH c INTO r;
        RETURN 1;
    ELSIF i = 350 THEN
        LOOP FETCH c INTO r; EXIT WHEN NOT FOUND; n := n + 1; END LOOP;
        CLOSE c;
        RETURN n;
    END IF;
    RETURN 0;
END $$;
SET batchheap.freeze_on_load = off;
SELECT format('CREATE TABLE %1$s USING %2$s AS SELECT i, look_again(''%1$s'', i) AS seen FROM generate_series(1, 500) i', t, am) FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), max(seen) FROM b;
DROP TABLE h, b;
RESET batchheap.freeze_on_load;
-- (frozen rows that were added to pages it has yet to read are seen as well)
CREATE TABLE b USING batchheap AS SELECT i, look_again('b', i) AS seen FROM generate_series(1, 500) i;
SELECT count(*), count(DISTINCT i), max(seen) BETWEEN 148 AND 349 AS seen FROM b;
DROP TABLE b;
DROP FUNCTION look_again;

-- ANALYZE, COPY TO, a sample, a sort, a join of the table with itself: all of them
-- read it
CREATE FUNCTION various(t text, i int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    n text;
BEGIN
    CASE i % 5
        WHEN 0 THEN EXECUTE 'ANALYZE ' || t; EXECUTE 'SELECT reltuples FROM pg_class WHERE oid = $1::regclass' INTO n USING t;
        WHEN 1 THEN EXECUTE format('COPY %s TO PROGRAM ''cat > /dev/null''', t); GET DIAGNOSTICS n = ROW_COUNT;
        WHEN 2 THEN EXECUTE format('SELECT count(*) FROM %s TABLESAMPLE BERNOULLI (100)', t) INTO n;
        WHEN 3 THEN EXECUTE format('SELECT count(*) FROM (SELECT DISTINCT i FROM %s ORDER BY i DESC LIMIT 1000) x', t) INTO n;
        WHEN 4 THEN EXECUTE format('SELECT count(*) FROM %1$s a JOIN %1$s b USING (i)', t) INTO n;
    END CASE;
    RETURN n;
END $$;
SELECT format('CREATE TABLE %1$s USING %2$s AS SELECT i, CASE WHEN i %% 29 = 0 THEN various(''%1$s'', i) END AS seen FROM generate_series(1, 500) i', t, am)
    FROM twins \gexec
SELECT pg_temp.twin('h', 'b'), count(seen) FROM b;
SELECT pg_temp.counted() ~ 'forced' AS forced;
DROP TABLE h, b;
DROP FUNCTION various;

--
-- A flush that fails when a reader has it made, and whose error is swallowed:
-- the rows wait on, and the load ends with the same error as on heap
--
CALL make_look('volatile', 'commits', 'count');
CREATE OR REPLACE FUNCTION look(t text) RETURNS int LANGUAGE plpgsql AS
    'DECLARE n int; BEGIN EXECUTE ''SELECT count(*) FROM '' || t INTO n; RETURN n; EXCEPTION WHEN others THEN RETURN -1; END';
SELECT string_agg(format('CASE WHEN i = 10 THEN ''x''::name END AS c%s', c), ', ') AS too_wide FROM generate_series(1, 200) c \gset
SELECT pg_temp.outcome(format('CREATE TABLE %1$s USING %2$s AS SELECT i, CASE WHEN i IN (20, 25) THEN look(''%1$s'') END, %3$s FROM generate_series(1, 50) i', t, am, :'too_wide'))
    FROM twins;
SELECT pg_temp.counted(), to_regclass('b');
-- ... without the reader's own transaction: there is no going on
CREATE OR REPLACE FUNCTION look(t text) RETURNS int LANGUAGE plpgsql AS
    'DECLARE n int; BEGIN EXECUTE ''SELECT count(*) FROM '' || t INTO n; RETURN n; END';
SELECT pg_temp.outcome(format('CREATE TABLE %1$s USING %2$s AS SELECT i, CASE WHEN i IN (20, 25) THEN look(''%1$s'') END, %3$s FROM generate_series(1, 50) i', t, am, :'too_wide'))
    FROM twins;
SELECT pg_temp.counted(), to_regclass('b');
CREATE TABLE b USING batchheap AS SELECT i FROM generate_series(1, 250) i;
SELECT pg_temp.counted(), pg_temp.vm('b');
DROP TABLE b;

DROP FUNCTION look;
DROP PROCEDURE make_look, look_around;
