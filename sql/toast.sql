-- Large values: compressed, stored out of line, stored plain, and coming from
-- another table's TOAST, from where they must be fetched at once.
\set ECHO none
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/include/setup.psql
\set ECHO all

SET default_toast_compression = pglz;

-- Text that does not compress
CREATE TABLE noise (s text);
ALTER TABLE noise ALTER s SET STORAGE EXTERNAL;
INSERT INTO noise SELECT string_agg(md5(n::text), '') FROM generate_series(1, 2000) n;
CREATE FUNCTION noise(n int, len int) RETURNS text LANGUAGE sql STABLE AS
    'SELECT substr(s, abs(n) * 17 % 15000, len) FROM noise';

-- What is stored where: sizes, compression, chunks
CREATE FUNCTION pg_temp.same_storage(h text, b text, col text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    diff bigint;
    h_chunks text;
    b_chunks text;
BEGIN
    EXECUTE format('WITH h AS (SELECT ctid, pg_column_size(%3$s), pg_column_compression(%3$s) FROM %1$s),
                         b AS (SELECT ctid, pg_column_size(%3$s), pg_column_compression(%3$s) FROM %2$s)
                    SELECT count(*) FROM ((TABLE h EXCEPT ALL TABLE b) UNION ALL (TABLE b EXCEPT ALL TABLE h)) d', h, b, col) INTO diff;
    EXECUTE format('SELECT count(*) || '' chunks in '' || count(DISTINCT chunk_id) || '' values'' FROM %s',
        (SELECT reltoastrelid::regclass FROM pg_class WHERE oid = h::regclass)) INTO h_chunks;
    EXECUTE format('SELECT count(*) || '' chunks in '' || count(DISTINCT chunk_id) || '' values'' FROM %s',
        (SELECT reltoastrelid::regclass FROM pg_class WHERE oid = b::regclass)) INTO b_chunks;
    RETURN CASE WHEN diff = 0 AND h_chunks = b_chunks THEN 'stored the same, ' || b_chunks
                ELSE format('%s rows stored DIFFERENTLY, %s, %s', diff, h_chunks, b_chunks) END;
END $$;

-- Around the threshold at which values are compressed or moved out
SELECT format('CREATE TABLE %s USING %s AS
    SELECT i, CASE WHEN i %% 2 = 0 THEN repeat(chr(97 + i %% 26), 1950 + i) ELSE noise(i, 1950 + i) END AS v
    FROM generate_series(1, 150) i', t, am) FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.same_storage('h', 'b', 'v'), pg_temp.vm('b');
DROP TABLE h, b;

-- Values of up to several pages, in batches with small ones and NULLs
SELECT format('CREATE TABLE %s USING %s AS
    SELECT i, CASE i %% 4 WHEN 0 THEN noise(i, i * 80) WHEN 1 THEN repeat(noise(i, 10), i * 40) WHEN 2 THEN ''small'' END AS v,
           noise(-i, 10) AS w
    FROM generate_series(1, 250) i', t, am) FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.same_storage('h', 'b', 'v'), pg_temp.vm('b');

-- The TOAST table is plain heap's, whatever its table is: no dependency of it on
-- an access method is recorded, so it must not need one
SELECT c.relname, a.amname, x.amname AS toast_amname
    FROM pg_class c JOIN pg_am a ON a.oid = c.relam
         JOIN pg_class tc ON tc.oid = c.reltoastrelid JOIN pg_am x ON x.oid = tc.relam
    WHERE c.relname IN ('h', 'b') ORDER BY 1;
-- ... after a rewrite too
ALTER TABLE b ALTER i TYPE bigint;
VACUUM FULL b;
SELECT x.amname FROM pg_class c JOIN pg_class tc ON tc.oid = c.reltoastrelid JOIN pg_am x ON x.oid = tc.relam WHERE c.relname = 'b';
SELECT pg_temp.twin('h', 'b');
DROP TABLE b;
SELECT pg_temp.counted() \g /dev/null

-- Values that come out of line: they are written at once, each row alone, and
-- none is stored as a pointer to the other table
CREATE TABLE b USING batchheap AS SELECT * FROM h;
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.same_storage('h', 'b', 'v'), pg_temp.vm('b');
SELECT array_agg(i ORDER BY ctid) = array_agg(i ORDER BY i) AS in_order FROM b;
-- ... in rows formed from values, and sorted
CREATE TABLE b2 USING batchheap AS SELECT i, v, w || '' AS w FROM h;
CREATE TABLE b3 USING batchheap AS SELECT * FROM h ORDER BY i DESC;
SELECT pg_temp.counted(), pg_temp.twin('h', 'b2'), pg_temp.twin('h', 'b3'), pg_temp.vm('b2'), pg_temp.vm('b3');
-- ... gone from where they came
TRUNCATE h;
SELECT pg_temp.twin('b', 'b2'), pg_temp.twin('b', 'b3');
DROP TABLE h, b, b2, b3;

-- Storage as the source's columns have it does not come along, a value that is
-- compressed or plain in the source does
CREATE TABLE source (i int, ext text, main text, plain text, pglz text COMPRESSION pglz);
ALTER TABLE source ALTER ext SET STORAGE EXTERNAL, ALTER main SET STORAGE MAIN, ALTER plain SET STORAGE PLAIN;
INSERT INTO source SELECT i, noise(i, i * 17 % 4000), repeat(noise(i, 20), i % 400), noise(i, i % 1500), repeat(noise(i, 20), i % 300)
    FROM generate_series(1, 250) i;
SELECT format('CREATE TABLE %s USING %s AS TABLE source', t, am) FROM twins \gexec
SELECT pg_temp.twin('h', 'b'), pg_temp.same_storage('h', 'b', 'ext'), pg_temp.same_storage('h', 'b', 'main'),
       pg_temp.same_storage('h', 'b', 'plain'), pg_temp.same_storage('h', 'b', 'pglz');
DROP TABLE h, b;

-- A tuple that gets shorter although a value comes from elsewhere: its other
-- values were not packed in the source
DO $$ BEGIN
    EXECUTE (SELECT format('CREATE TABLE loose (%s, large text, v text) WITH (toast_tuple_target = 128)', string_agg('c' || n || ' text', ', '))
                 || string_agg(format('; ALTER TABLE loose ALTER c%s SET STORAGE plain', n), '') FROM generate_series(1, 20) n);
    ALTER TABLE loose ALTER large SET STORAGE EXTERNAL, ALTER v SET STORAGE EXTERNAL;
    INSERT INTO loose (large) SELECT noise(n, 2000) FROM generate_series(1, 100) n;
    EXECUTE (SELECT format('UPDATE loose SET v = noise(7, 40), %s', string_agg(format('c%s = lower(''A'')', n), ', ')) FROM generate_series(1, 20) n);
    UPDATE loose SET large = '';
END $$;
SELECT pg_temp.same_storage('loose', 'loose', 'v');
SELECT format('CREATE TABLE %s USING %s AS TABLE loose', t, am) FROM twins \gexec
SET batchheap.page_writer = on;
CREATE TABLE p USING batchheap AS TABLE loose;
RESET batchheap.page_writer;
SELECT pg_temp.same_bytes('h', 'b'), pg_temp.same_bytes('h', 'p'), pg_temp.twin('h', 'p');
DROP TABLE h, b, p, loose;
SELECT pg_temp.counted() \g /dev/null

-- A table that moves values out sooner: those that come from elsewhere do not
-- stay in rows that are small enough for other tables
CREATE TABLE wide (i int, v text, filler text);
ALTER TABLE wide ALTER v SET STORAGE EXTERNAL, ALTER filler SET STORAGE PLAIN;
INSERT INTO wide SELECT i, noise(i, 100 + i * 8), repeat('x', 1950) FROM generate_series(1, 200) i;
SELECT format('CREATE TABLE %s USING %s WITH (toast_tuple_target = 256) AS SELECT i, v FROM wide', t, am) FROM twins \gexec
SET batchheap.page_writer = on;
CREATE TABLE p USING batchheap WITH (toast_tuple_target = 256) AS SELECT i, v FROM wide;
RESET batchheap.page_writer;
SELECT pg_temp.twin('h', 'b'), pg_temp.same_storage('h', 'b', 'v'), pg_temp.twin('h', 'p'), pg_temp.same_storage('h', 'p', 'v');
DROP TABLE h, b, p, wide;
SELECT pg_temp.counted() \g /dev/null

-- Columns of the target that are never compressed, or not packed at all: a
-- table that is rewritten keeps how its columns are stored
SET batchheap.batch_insert = off;
SELECT format('CREATE TABLE %1$s (i int, ext text, main text, plain text, pglz text) USING %2$s;
    ALTER TABLE %1$s ALTER ext SET STORAGE EXTERNAL, ALTER main SET STORAGE MAIN, ALTER plain SET STORAGE PLAIN;
    INSERT INTO %1$s SELECT * FROM source', t, am) FROM twins \gexec
RESET batchheap.batch_insert;
SELECT pg_temp.counted() \g /dev/null
SELECT format('ALTER TABLE %s ALTER i TYPE bigint', t) FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), pg_temp.same_storage('h', 'b', 'ext'), pg_temp.same_storage('h', 'b', 'main'),
       pg_temp.same_storage('h', 'b', 'plain'), pg_temp.same_storage('h', 'b', 'pglz');
DROP TABLE h, b, source;

--
-- Pages of TOAST tables are visible and frozen, too, if their table's rows are.
-- The server's toaster freezes the rows, and leaves the map to VACUUM.
--
CREATE TABLE source WITH (autovacuum_enabled = off, toast.autovacuum_enabled = off) AS SELECT i, noise(i, 3000) AS v FROM generate_series(1, 120) i;
CREATE TABLE h USING heap WITH (autovacuum_enabled = off, toast.autovacuum_enabled = off) AS SELECT i, v || '' AS v FROM source;
CREATE TABLE b USING batchheap AS SELECT i, v || '' AS v FROM source;
CREATE TABLE b2 USING batchheap AS TABLE source;
SELECT pg_temp.toast_vm('h') AS h, pg_temp.toast_vm('b') AS b, pg_temp.toast_vm('b2') AS b2, pg_temp.twin('h', 'b'), pg_temp.twin('h', 'b2');
-- After other commands that load; a load that is much smaller than a page
ALTER TABLE b ALTER i TYPE bigint;
CREATE MATERIALIZED VIEW m USING batchheap AS TABLE source;
REFRESH MATERIALIZED VIEW m;
CREATE TABLE b3 USING batchheap AS SELECT v || '' AS v FROM source LIMIT 1;
SELECT pg_temp.toast_vm('b') AS alter, pg_temp.toast_vm('m') AS refresh, pg_temp.toast_vm('b3') AS small;
DROP MATERIALIZED VIEW m;
DROP TABLE b2, b3;
-- COPY, alone and in several parts
BEGIN;
CREATE TABLE b2 (i int, v text DEFAULT repeat('incompressible', 300)) USING batchheap;
ALTER TABLE b2 ALTER v SET STORAGE EXTERNAL;
COPY b2 (i) FROM PROGRAM 'seq 1 3';
COPY b2 (i) FROM PROGRAM 'seq 4 100';
COMMIT;
SELECT pg_temp.vm('b2'), pg_temp.toast_vm('b2'), count(*) FROM b2;
DROP TABLE b2;
-- What follows may use those pages, and says so
DELETE FROM b WHERE i % 10 = 0;
INSERT INTO b SELECT -i, v || '!' FROM source WHERE i < 10;
SELECT pg_temp.toast_vm('b') ~ 'WRONG' AS wrong, count(*), sum(length(v)) FROM b;
DROP TABLE b;
-- Not so without freezing, or of rows that a reader had written in a
-- subtransaction of its own; undone in part, nothing that is wrong is left
SET batchheap.freeze_on_load = off;
CREATE TABLE b USING batchheap WITH (toast.autovacuum_enabled = off) AS SELECT i, v || '' AS v FROM source;
SELECT pg_temp.toast_vm('b'), pg_temp.twin('h', 'b');
DROP TABLE b;
RESET batchheap.freeze_on_load;
CREATE FUNCTION look(undo boolean) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
BEGIN
    EXECUTE 'SELECT count(*) FROM b' INTO n;
    IF undo THEN PERFORM 1 / 0; END IF;
    RETURN n;
EXCEPTION WHEN division_by_zero THEN
    RETURN -1;
END $$;
CREATE TABLE b USING batchheap AS SELECT i, v || '' AS v, CASE WHEN i % 17 = 0 THEN look(i % 2 = 0) END AS seen FROM source;
SELECT pg_temp.toast_vm('b') ~ 'WRONG' AS wrong, pg_temp.vm('b') ~ 'WRONG' AS wrong, count(*), sum(length(v)), array_agg(seen) FILTER (WHERE seen > 0) FROM b;
SELECT pg_temp.counted() \g /dev/null
DROP TABLE b;
-- ... nor are values twice in the TOAST table that the page writer had put there
SET batchheap.page_writer = on;
CREATE TABLE b USING batchheap AS SELECT i, v || '' AS v, CASE WHEN i IN (19, 20, 31, 40) THEN look(i % 2 = 0) END AS seen FROM source;
SELECT count(*), sum(length(v)), array_agg(seen) FILTER (WHERE seen IS NOT NULL) AS seen FROM b;
SELECT reltoastrelid::regclass AS toast FROM pg_class WHERE oid = 'b'::regclass \gset
SELECT count(DISTINCT chunk_id) AS values, pg_temp.toast_vm('b') ~ 'WRONG' AS wrong FROM :toast;
DROP TABLE b;
CREATE TABLE b USING batchheap AS SELECT i, v || '' AS v, CASE WHEN i = 20 THEN look(true) END AS seen FROM source;
SELECT reltoastrelid::regclass AS toast FROM pg_class WHERE oid = 'b'::regclass \gset
SELECT count(DISTINCT chunk_id) AS values, (SELECT sum(length(v)) FROM b) FROM :toast;
RESET batchheap.page_writer;
SELECT pg_temp.counted() \g /dev/null
DROP TABLE h, b, source;
DROP FUNCTION look;

-- A source value that is gone by the time its batch is written: each call of
-- this function empties and refills the table that the last value came from
CREATE TABLE scratch (v text);
ALTER TABLE scratch ALTER v SET STORAGE EXTERNAL;
CREATE FUNCTION passing(n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    r text;
BEGIN
    TRUNCATE scratch;
    INSERT INTO scratch VALUES (noise(n, 3000));
    SELECT v INTO r FROM scratch;
    RETURN r;
END $$;
SELECT format('CREATE TABLE %s USING %s AS SELECT i, passing(i) AS v FROM generate_series(1, 30) i', t, am) FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b');
DROP TABLE h, b;
-- The same in the company of rows that wait
SELECT format('CREATE TABLE %s USING %s AS SELECT i, CASE WHEN i %% 3 = 0 THEN passing(i) ELSE ''waits'' END AS v FROM generate_series(1, 30) i', t, am)
    FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b'), array_agg(i ORDER BY ctid) = array_agg(i ORDER BY i) AS in_order FROM b;
DROP TABLE h, b;
-- ... and within a composite
CREATE TYPE holder AS (v text, n int);
SELECT format('CREATE TABLE %s USING %s AS SELECT ROW(passing(i), i)::holder AS c FROM generate_series(1, 30) i', t, am) FROM twins \gexec
SELECT pg_temp.counted(), pg_temp.twin('h', 'b');
DROP TABLE h, b, scratch;
DROP TYPE holder;
DROP FUNCTION passing, noise;
DROP TABLE noise;
