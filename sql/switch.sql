-- Switching between heap and batchheap in the catalog: no row is touched, so
-- that everything but the access method must be as before, and whatever is not
-- heap on disk, or is in use, must be refused.
\set ECHO none
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/include/setup.psql
\set ECHO all
SET client_min_messages = warning;
CREATE EXTENSION pgstattuple;
CREATE EXTENSION pgrowlocks;
RESET client_min_messages;
CREATE ROLE regress_batchheap_owner;
CREATE ROLE regress_batchheap_other;
CREATE SCHEMA place;
GRANT ALL ON SCHEMA place TO PUBLIC;
SET search_path = place, public;

-- What a table has, except for its access method
CREATE FUNCTION pg_temp.state(rel text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT format('%s %s %s %s %s %s %s', relfilenode, reltoastrelid, relacl, relpages, reltuples, relallvisible, relfrozenxid) FROM pg_class WHERE oid = rel::regclass
    UNION ALL SELECT format('%s %s', relfilenode, relam) FROM pg_class WHERE oid = (SELECT reltoastrelid FROM pg_class WHERE oid = rel::regclass)
    UNION ALL SELECT format('%s %s %s', i.indexrelid, relfilenode, indisvalid) FROM pg_index i JOIN pg_class c ON c.oid = indexrelid WHERE indrelid = rel::regclass
    UNION ALL SELECT format('%s %s %s', staattnum, stadistinct, stanumbers1) FROM pg_statistic WHERE starelid = rel::regclass
    UNION ALL SELECT pg_describe_object(classid, objid, objsubid) || ' ' || pg_describe_object(refclassid, refobjid, refobjsubid) || ' ' || deptype::text
        FROM pg_depend WHERE (classid, objid) = ('pg_class'::regclass, rel::regclass) AND refclassid <> 'pg_am'::regclass OR
                             (refclassid, refobjid) = ('pg_class'::regclass, rel::regclass)
    UNION ALL SELECT pg_temp.vm(rel)
    UNION ALL SELECT pg_relation_size(rel)::text
$$;
CREATE FUNCTION pg_temp.am(rel text) RETURNS text LANGUAGE sql AS $$
    SELECT amname || ', ' || (SELECT count(*) FROM pg_depend WHERE (classid, objid) = ('pg_class'::regclass, c.oid) AND refclassid = 'pg_am'::regclass) || ' dependencies'
        FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = rel::regclass
$$;

--
-- There and back
--
CREATE TABLE plain (i int PRIMARY KEY, m int CHECK (m >= 0), s text, big text) USING heap WITH (autovacuum_enabled = off);
INSERT INTO plain SELECT i, i % 10, 's' || i, CASE WHEN i % 50 = 0 THEN (SELECT string_agg(md5(n::text), '') FROM generate_series(i, i + 200) n) END
    FROM generate_series(1, 2000) i;
CREATE INDEX ON plain (m) WHERE m > 3;
GRANT SELECT ON plain TO regress_batchheap_other;
CREATE VIEW plain_view AS SELECT i FROM plain;
VACUUM ANALYZE plain;
CREATE TABLE rows_before AS TABLE plain;
CREATE TABLE state_before AS SELECT * FROM pg_temp.state('plain') AS line;
SELECT count(*) > 15 AS much_known FROM state_before;
PREPARE differences AS (TABLE state_before EXCEPT ALL SELECT * FROM pg_temp.state('plain')) UNION ALL
    (SELECT * FROM pg_temp.state('plain') EXCEPT ALL TABLE state_before);
EXECUTE differences;
PREPARE find(int) AS SELECT s FROM plain WHERE i = $1;
PREPARE add(int) AS INSERT INTO plain VALUES ($1, 0, 'added');
EXECUTE find(7);
SELECT pg_temp.am('plain'), pg_temp.counted();
SELECT batchheap_from_heap('plain');
SELECT pg_temp.am('plain'), pg_temp.twin('plain', 'rows_before');
EXECUTE differences;
SELECT bt_index_check('plain_pkey', true), bt_index_check('plain_m_idx', true);
-- Plans that are cached go on
EXECUTE find(8);
EXECUTE add(0);
SELECT pg_temp.counted();
DELETE FROM plain WHERE i = 0;
SELECT has_table_privilege('regress_batchheap_other', 'plain', 'select');
-- It is batchheap in earnest
BEGIN;
ALTER TABLE plain ADD x int DEFAULT random();
SELECT pg_temp.counted() ~ 'rows_batched=2000 rows_frozen=2000' AS batched;
TRUNCATE plain;
COPY plain (i) FROM PROGRAM 'seq 1 1000';
SELECT pg_temp.counted();
ROLLBACK;
SELECT batchheap_to_heap('plain');
SELECT pg_temp.am('plain'), pg_temp.twin('plain', 'rows_before');
SELECT count(*) FROM verify_heapam('plain');
EXECUTE find(9);
EXECUTE add(0);
SELECT pg_temp.counted();
DEALLOCATE find;
DEALLOCATE add;

-- Nothing to do is told
SELECT batchheap_to_heap('plain');
SELECT batchheap_from_heap('plain');
SELECT batchheap_from_heap('plain');
SELECT batchheap_to_heap(NULL), batchheap_from_heap(NULL);

-- It is a part of its transaction, and its lock is an exclusive one
BEGIN;
SELECT batchheap_to_heap('plain');
SELECT mode FROM pg_locks WHERE relation = 'plain'::regclass AND pid = pg_backend_pid() AND mode = 'AccessExclusiveLock';
SAVEPOINT s;
SELECT batchheap_from_heap('plain');
SELECT pg_temp.am('plain');
INSERT INTO plain VALUES (-1);
ROLLBACK TO s;
SELECT pg_temp.am('plain');
INSERT INTO plain VALUES (-2);
ROLLBACK;
SELECT pg_temp.am('plain'), count(*) FROM plain WHERE i < 0;
INSERT INTO plain VALUES (-3);
SELECT pg_temp.counted();
DO $$
BEGIN
    PERFORM batchheap_to_heap('plain');
    PERFORM batchheap_from_heap('plain');
    PERFORM batchheap_to_heap('plain');
    PERFORM 1 / 0;
EXCEPTION WHEN division_by_zero THEN
    INSERT INTO plain VALUES (-4);
END $$;
SELECT pg_temp.am('plain'), pg_temp.counted();
DEALLOCATE differences;
DROP VIEW plain_view;
DROP TABLE rows_before, state_before, plain;

--
-- Loaded and switched: what was loaded is heap, also to those who will not look
-- at anything else
--
CREATE TABLE loaded USING batchheap AS SELECT i, 's' || i AS s, repeat('big', i) AS big FROM generate_series(1, 2500) i;
CREATE INDEX ON loaded (i);
SELECT pg_temp.outcome('SELECT * FROM verify_heapam(''loaded'')') AS verify_heapam,
       pg_temp.outcome('SELECT * FROM pgstattuple(''loaded'')') AS pgstattuple,
       pg_temp.outcome('SELECT * FROM pgrowlocks(''loaded'')') AS pgrowlocks,
       pg_temp.outcome('SELECT * FROM heap_page_item_attrs(get_raw_page(''loaded'', 0), ''loaded'')') AS page_item_attrs;
SELECT batchheap_to_heap('loaded');
SELECT (SELECT count(*) FROM verify_heapam('loaded')) AS damaged, tuple_count, dead_tuple_count, (SELECT count(*) FROM pgrowlocks('loaded')) AS locked,
       (SELECT count(*) > 10 FROM heap_page_item_attrs(get_raw_page('loaded', 0), 'loaded')) AS page_item_attrs, pg_temp.vm('loaded')
    FROM pgstattuple('loaded');
SELECT count(*), sum(length(big)) FROM loaded;
DROP TABLE loaded;

-- Materialized views, unlogged and temporary tables, partitions
CREATE MATERIALIZED VIEW m USING heap AS SELECT i FROM generate_series(1, 1500) i;
SELECT batchheap_from_heap('m');
SELECT pg_temp.counted() \g /dev/null
REFRESH MATERIALIZED VIEW m;
SELECT pg_temp.am('m'), pg_temp.counted(), pg_temp.vm('m'), count(*) FROM m;
SELECT batchheap_to_heap('m');
REFRESH MATERIALIZED VIEW m;
SELECT pg_temp.am('m'), pg_temp.counted(), count(*) FROM m;
DROP MATERIALIZED VIEW m;
CREATE UNLOGGED TABLE u USING heap AS SELECT i FROM generate_series(1, 1500) i;
CREATE TEMP TABLE t USING batchheap AS SELECT i FROM generate_series(1, 1500) i;
SELECT batchheap_from_heap('u'), batchheap_to_heap('t');
SELECT pg_temp.am('u'), (SELECT count(*) FROM u) AS u, pg_temp.am('t'), (SELECT count(*) FROM t) AS t;
DROP TABLE u, t;

--
-- What is refused
--
CREATE TABLE parted (i int) PARTITION BY RANGE (i);
CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (10) USING batchheap;
CREATE VIEW v AS SELECT 1 AS i;
CREATE SEQUENCE s;
CREATE TYPE composite AS (i int);
CREATE INDEX part_i ON part (i);
SELECT batchheap_to_heap('parted');
SELECT batchheap_to_heap('v');
SELECT batchheap_from_heap('s');
SELECT batchheap_from_heap('part_i');
SELECT batchheap_from_heap('composite');
SELECT batchheap_to_heap(4294967294::oid);
SELECT batchheap_to_heap('nowhere');
SELECT batchheap_from_heap('pg_class');
SELECT batchheap_from_heap('pg_toast.pg_toast_1255');
SET allow_system_table_mods = on;
SELECT batchheap_from_heap('pg_class');
RESET allow_system_table_mods;
SELECT batchheap_to_heap('part');
SELECT pg_temp.am('part');

-- Other people's tables
CREATE TABLE mine (i int) USING batchheap;
ALTER TABLE mine OWNER TO regress_batchheap_owner;
GRANT ALL ON mine TO regress_batchheap_other;
SET ROLE regress_batchheap_other;
SELECT batchheap_to_heap('place.mine');
SELECT batchheap_from_heap('place.v');
SELECT batchheap_from_heap('pg_class');
SELECT count(*) AS locks FROM pg_locks WHERE relation = 'place.mine'::regclass AND pid = pg_backend_pid();
SET ROLE regress_batchheap_owner;
SELECT batchheap_to_heap('place.mine');
RESET ROLE;
SELECT pg_temp.am('mine');

-- In use by this session: a cursor, a pending trigger, a load of its own
CREATE TABLE used (i int PRIMARY KEY) USING batchheap;
INSERT INTO used VALUES (1), (2);
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM used;
FETCH 1 FROM c;
SELECT batchheap_to_heap('used');
ROLLBACK;
CREATE TABLE user_of_used (i int REFERENCES used DEFERRABLE INITIALLY DEFERRED) USING batchheap;
BEGIN;
INSERT INTO user_of_used VALUES (1);
SELECT batchheap_to_heap('user_of_used');
ROLLBACK;
SELECT batchheap_to_heap('used') FROM used;
CREATE FUNCTION switch(t text) RETURNS int LANGUAGE plpgsql AS 'BEGIN PERFORM batchheap_to_heap(t::regclass); RETURN 1; END';
CREATE TABLE loading USING batchheap AS SELECT i, CASE WHEN i = 100 THEN switch('loading') END FROM generate_series(1, 200) i;
-- ... (another table meanwhile is all right)
SELECT pg_temp.counted() \g /dev/null
CREATE TABLE loading USING batchheap AS SELECT i, CASE WHEN i = 100 THEN switch('used') END FROM generate_series(1, 1200) i;
SELECT pg_temp.counted(), pg_temp.am('used'), pg_temp.am('loading'), count(*) FROM loading;
DROP FUNCTION switch;
DROP TABLE loading, used, user_of_used;

-- Other access methods: by their name, whatever their handler; and ours, if
-- somebody gave it another handler
CREATE ACCESS METHOD heap2 TYPE TABLE HANDLER heap_tableam_handler;
CREATE TABLE other (i int) USING heap2;
-- ... is not heap, although it has heap's handler
SELECT batchheap_to_heap('other');
SELECT batchheap_from_heap('other');
SELECT pg_temp.am('other');
DROP TABLE other;
DROP ACCESS METHOD heap2;
BEGIN;
UPDATE pg_am SET amhandler = 'heap_tableam_handler'::regproc WHERE amname = 'batchheap';
SELECT batchheap_to_heap('mine');
ROLLBACK;

-- A transaction that may only read
BEGIN READ ONLY;
SELECT batchheap_from_heap('mine');
ROLLBACK;
DROP TABLE parted, mine;
DROP VIEW v;
DROP SEQUENCE s;
DROP TYPE composite;

--
-- A whole schema
--
CREATE SCHEMA many;
CREATE TABLE many.one USING batchheap AS SELECT i FROM generate_series(1, 1500) i;
CREATE TABLE many.two (i int, s text) USING heap;
CREATE MATERIALIZED VIEW many.three USING batchheap AS SELECT i FROM generate_series(1, 1500) i;
CREATE TABLE many.four (i int) PARTITION BY RANGE (i);
CREATE TABLE many.four_a PARTITION OF many.four FOR VALUES FROM (0) TO (10) USING batchheap;
CREATE TABLE many.four_b PARTITION OF many.four FOR VALUES FROM (10) TO (20) USING heap;
CREATE VIEW many.five AS SELECT * FROM many.one;
CREATE INDEX ON many.one (i);
SELECT batchheap_schema_to_heap('many');
SELECT batchheap_schema_to_heap('many');
SELECT * FROM batchheap_schema_from_heap('many') t(rel);
SELECT c.oid::regclass, amname FROM pg_class c LEFT JOIN pg_am a ON a.oid = relam WHERE relnamespace = 'many'::regnamespace AND relkind IN ('r', 'm') ORDER BY c.oid;
SELECT pg_temp.vm('many.one'), pg_temp.vm('many.three'), bt_index_check('many.one_i_idx', true);
SELECT count(*) FROM batchheap_schema_from_heap('place');
SELECT batchheap_schema_to_heap(4294967294::oid);
SELECT batchheap_schema_to_heap('nowhere');
SELECT batchheap_schema_to_heap(NULL);
-- All or nothing: one is somebody else's
ALTER TABLE many.four_b OWNER TO regress_batchheap_owner;
GRANT ALL ON SCHEMA many TO regress_batchheap_owner;
SET ROLE regress_batchheap_owner;
SELECT batchheap_schema_to_heap('many');
RESET ROLE;
SELECT pg_temp.am('many.one'), pg_temp.am('many.four_b');
SELECT count(*) FROM (SELECT pg_temp.outcome('SELECT batchheap_schema_from_heap(''pg_catalog'')') AS outcome) o WHERE outcome ~ '^42501: permission denied: "pg_\w+" is a system catalog$';

-- Undone, then done, and then the extension can go: the tables stay
BEGIN;
SELECT count(*) FROM batchheap_schema_to_heap('many');
ROLLBACK;
SELECT pg_temp.am('many.one');
DROP EXTENSION batchheap;
SELECT count(*) FROM batchheap_schema_to_heap('many');
DROP EXTENSION batchheap;
SELECT (SELECT count(*) FROM many.one) AS one, (SELECT sum(i) FROM many.three) AS three;
INSERT INTO many.one VALUES (0);
REFRESH MATERIALIZED VIEW many.three;
TRUNCATE many.two;
VACUUM FULL many.one;
SELECT count(*), bt_index_check('many.one_i_idx', true), (SELECT count(*) FROM verify_heapam('many.one')) AS damaged FROM many.one;
CREATE EXTENSION batchheap SCHEMA public;
SELECT count(*) FROM batchheap_schema_from_heap('many');
SELECT pg_temp.counted() \g /dev/null
REFRESH MATERIALIZED VIEW many.three;
SELECT pg_temp.counted(), pg_temp.vm('many.three');

SET client_min_messages = warning;
DROP SCHEMA many CASCADE;
DROP SCHEMA place CASCADE;
DROP EXTENSION pgstattuple;
DROP EXTENSION pgrowlocks;
DROP ROLE regress_batchheap_owner;
DROP ROLE regress_batchheap_other;
