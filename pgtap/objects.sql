-- What the extension creates: the access method, its handler, functions and
-- views, each with a comment, and how the functions are marked.
BEGIN;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS batchheap;

SELECT plan(17);

SELECT has_extension('batchheap');

-- the access method
SELECT is(amtype, 't', 'access method batchheap is one for tables')
FROM pg_am WHERE amname = 'batchheap';
SELECT is(amhandler::oid, to_regprocedure('batchheap_handler(internal)')::oid, 'access method has our handler')
FROM pg_am WHERE amname = 'batchheap';
SELECT is(prorettype::regtype, 'table_am_handler'::regtype, 'handler returns table_am_handler')
FROM pg_proc WHERE oid = to_regprocedure('batchheap_handler(internal)');
SELECT is(
    (SELECT count(*) FROM pg_am a JOIN pg_depend d ON d.classid = 'pg_am'::regclass AND d.objid = a.oid
     WHERE amname = 'batchheap' AND d.deptype = 'e'), 1::bigint, 'access method belongs to the extension');

-- members of the extension; the types of a view's rows are from 17 on
CREATE TEMP TABLE members AS
SELECT d.classid, d.objid, pg_describe_object(d.classid, d.objid, 0) AS name
FROM pg_depend d JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
WHERE e.extname = 'batchheap' AND d.deptype = 'e' AND d.classid <> 'pg_type'::regclass;

SELECT set_eq(
    'SELECT name FROM members',
    ARRAY['access method batchheap', 'function batchheap_handler(internal)',
        'function batchheap_counters()', 'function batchheap_counters_reset()',
        'function batchheap_to_heap(regclass)', 'function batchheap_from_heap(regclass)',
        'function batchheap_schema_to_heap(regnamespace)', 'function batchheap_schema_from_heap(regnamespace)',
        'view pg_stat_progress_batchheap'],
    'objects of the extension');
SELECT is_empty(
    $$SELECT name FROM members WHERE coalesce(obj_description(objid, classid::regclass::name), '') = ''$$,
    'each of them has a comment');
SELECT isnt(obj_description(oid, 'pg_extension'), NULL, 'so has the extension')
FROM pg_extension WHERE extname = 'batchheap';

-- functions: C, in one library, and strict; marks
SELECT is_empty(
    $$SELECT proname FROM pg_proc p JOIN members ON objid = p.oid AND classid = 'pg_proc'::regclass
      JOIN pg_language l ON l.oid = prolang
      WHERE lanname <> 'c' OR probin <> '$libdir/batchheap' OR NOT proisstrict OR prosecdef$$,
    'functions are in C, in one library, strict and run as their caller');
SELECT set_eq(
    $$SELECT format('%s %s %s %s', proname, provolatile, proparallel, CASE WHEN proretset THEN 'set' ELSE 'one' END)
      FROM pg_proc p JOIN members ON objid = p.oid AND classid = 'pg_proc'::regclass$$,
    ARRAY['batchheap_handler v u one', 'batchheap_counters v r set', 'batchheap_counters_reset v r one',
        'batchheap_to_heap v u one', 'batchheap_from_heap v u one',
        'batchheap_schema_to_heap v u set', 'batchheap_schema_from_heap v u set'],
    'functions are marked volatile, and parallel restricted or unsafe');
SELECT function_returns('batchheap_counters', 'setof record');
SELECT function_returns('batchheap_schema_to_heap', ARRAY['regnamespace'], 'setof regclass');

-- everybody may look; switching asks for the table's owner itself
SELECT ok(has_function_privilege('pg_monitor', 'batchheap_counters()', 'EXECUTE'), 'anybody may see counters');
SELECT ok(has_table_privilege('pg_monitor', 'pg_stat_progress_batchheap', 'SELECT'), 'anybody may see progress');

-- nothing in the way of a new schema
SELECT ok(extrelocatable, 'extension is relocatable') FROM pg_extension WHERE extname = 'batchheap';
CREATE SCHEMA elsewhere;
SELECT lives_ok('ALTER EXTENSION batchheap SET SCHEMA elsewhere', 'extension can be moved');
CREATE TABLE moved USING batchheap AS SELECT 1 AS i;
SELECT is((SELECT value FROM elsewhere.batchheap_counters() WHERE counter = 'loads') > 0, true, 'and works there');

SELECT * FROM finish();
ROLLBACK;
