-- The extension itself: its objects, its settings, who may use it, and how it
-- is dropped.
\set ECHO none
\getenv abs_srcdir PG_ABS_SRCDIR
\i :abs_srcdir/sql/include/setup.psql
\set ECHO all

--
-- What belongs to the extension
--
SELECT pg_describe_object(classid, objid, objsubid) AS object
    FROM pg_depend
    WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e' AND classid <> 'pg_type'::regclass AND
          refobjid = (SELECT oid FROM pg_extension WHERE extname = 'batchheap')
    ORDER BY pg_describe_object(classid, objid, objsubid) COLLATE "C";
SELECT amname, amtype, amhandler, obj_description(oid, 'pg_am') FROM pg_am WHERE amname = 'batchheap';
SELECT proname, provolatile, proparallel, proisstrict, prosecdef,
       obj_description(oid, 'pg_proc') IS NOT NULL AS described
    FROM pg_proc WHERE proname LIKE 'batchheap%' ORDER BY proname COLLATE "C";

-- The session's counters: all there, all described, and set to zero when asked
SELECT batchheap_counters_reset();
SELECT counter, value FROM batchheap_counters();
SELECT count(*) FROM batchheap_counters() WHERE description = '';
CREATE TABLE b USING batchheap AS SELECT 1 AS i;
INSERT INTO b VALUES (2);
SELECT counter, value FROM batchheap_counters() WHERE value <> 0;
SELECT batchheap_counters_reset();
SELECT counter, value FROM batchheap_counters() WHERE value <> 0;

-- They tell what was done, even if it was undone
BEGIN;
CREATE TABLE gone USING batchheap AS SELECT 1 AS i;
ROLLBACK;
SELECT pg_temp.counted();

--
-- Settings
--
SELECT name, vartype, context, unit, min_val, max_val, boot_val
    FROM pg_settings WHERE name LIKE 'batchheap.%' ORDER BY name COLLATE "C";

-- Out of range: the server says so, and the old value stays.  (How a limit is
-- written differs between versions, the code does not.)
SET batchheap.max_batch_rows = 17;
SET batchheap.max_batch_size = '32kB';
\set VERBOSITY sqlstate
SET batchheap.max_batch_rows = 0;
SET batchheap.max_batch_rows = 10001;
SET batchheap.max_batch_rows = 'many';
SET batchheap.max_batch_rows = '1kB';
SET batchheap.max_batch_size = '7kB';
SET batchheap.max_batch_size = '16385kB';
SET batchheap.max_batch_size = -1;
SET batchheap.enable = 'maybe';
SET batchheap.freeze_on_load = 2;
\set VERBOSITY default
SHOW batchheap.max_batch_rows;
SHOW batchheap.max_batch_size;
SHOW batchheap.enable;
SHOW batchheap.freeze_on_load;

-- The limits are in range, and sizes have units
SET batchheap.max_batch_rows = 1;
SET batchheap.max_batch_rows = 10000;
SHOW batchheap.max_batch_rows;
SET batchheap.max_batch_size = 8;
SHOW batchheap.max_batch_size;
SET batchheap.max_batch_size = '16MB';
SHOW batchheap.max_batch_size;
RESET batchheap.max_batch_rows;
RESET batchheap.max_batch_size;

-- As any setting, they follow the transaction
BEGIN;
SET LOCAL batchheap.enable = off;
CREATE TABLE plain USING batchheap AS SELECT 1 AS i;
COMMIT;
CREATE TABLE batched USING batchheap AS SELECT 1 AS i;
SELECT pg_temp.counted();
DROP TABLE plain, batched;

-- A misspelt setting is an error, not a silent placeholder
SET batchheap.enabled = off;
SET batchheap.nonsense = 1;

--
-- Nobody needs a privilege for it, in whatever schema it is
--
CREATE ROLE regress_batchheap_user;
CREATE SCHEMA bh_place;
CREATE SCHEMA bh_user AUTHORIZATION regress_batchheap_user;
GRANT USAGE ON SCHEMA bh_place TO regress_batchheap_user;
ALTER EXTENSION batchheap SET SCHEMA bh_place;
SET SESSION AUTHORIZATION regress_batchheap_user;
SET batchheap.max_batch_rows = 10;
CREATE TABLE bh_user.t USING batchheap AS SELECT i FROM generate_series(1, 25) i;
SELECT counter, value FROM bh_place.batchheap_counters() WHERE value <> 0;
SELECT bh_place.batchheap_to_heap('bh_user.t');
SELECT bh_place.batchheap_from_heap('bh_user.t');
SELECT bh_place.batchheap_counters_reset();
RESET batchheap.max_batch_rows;
RESET SESSION AUTHORIZATION;
ALTER EXTENSION batchheap SET SCHEMA public;
DROP SCHEMA bh_user CASCADE;
DROP SCHEMA bh_place;
DROP ROLE regress_batchheap_user;

--
-- It is not dropped from under a table, and says which ones are in the way
--
CREATE MATERIALIZED VIEW m USING batchheap AS SELECT 1 AS i;
DROP EXTENSION batchheap;
DROP MATERIALIZED VIEW m;
DROP ACCESS METHOD batchheap;
DROP FUNCTION batchheap_handler(internal);
DROP TABLE b;
DROP EXTENSION batchheap;
CREATE TABLE b (i int) USING batchheap;
CREATE EXTENSION batchheap;
CREATE TABLE b USING batchheap AS SELECT i FROM generate_series(1, 10) i;
SELECT pg_temp.counted();
DROP TABLE b;

-- What the control file says
SELECT extversion, extrelocatable FROM pg_extension WHERE extname = 'batchheap';
