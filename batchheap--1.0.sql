/* batchheap--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION batchheap" to load this file. \quit

--
-- The access method
--

CREATE FUNCTION batchheap_handler(internal)
RETURNS table_am_handler
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;

COMMENT ON FUNCTION batchheap_handler(internal)
IS 'handler of the batchheap table access method';

CREATE ACCESS METHOD batchheap TYPE TABLE HANDLER batchheap_handler;

COMMENT ON ACCESS METHOD batchheap
IS 'heap that loads in batches and leaves tables frozen and all-visible';

--
-- What this session's loads did
--

CREATE FUNCTION batchheap_counters(OUT counter text, OUT value bigint, OUT description text)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION batchheap_counters()
IS 'counters of this session: rows batched, frozen, and inserted singly with the reason';

CREATE FUNCTION batchheap_counters_reset()
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION batchheap_counters_reset()
IS 'set this session''s batchheap counters to zero';

--
-- What the loads of all sessions are doing
--
-- A load keeps its progress in the server's slot for that of COPY, marked with
-- a number of ours (bhprogress.c).
--

CREATE VIEW pg_stat_progress_batchheap AS
SELECT s.pid,
       s.datid,
       d.datname,
       s.relid,
       CASE s.param18
           WHEN 1 THEN 'CREATE TABLE AS'
           WHEN 2 THEN 'REFRESH MATERIALIZED VIEW'
           WHEN 3 THEN 'ALTER TABLE'
           WHEN 4 THEN 'INSERT'
       END AS command,
       s.param3 AS rows_processed,
       nullif(s.param15, 0) AS rows_expected,
       s.param1 AS bytes_processed,
       s.param14 AS pages_written,
       s.param19 AS batches_written,
       s.param17 <> 0 AS frozen,
       timestamptz '2000-01-01 00:00:00+00' + s.param16 * interval '1 microsecond' AS started
FROM pg_catalog.pg_stat_get_progress_info('COPY') AS s
     LEFT JOIN pg_catalog.pg_database AS d ON s.datid = d.oid
WHERE s.param20 = 7089075258760127841;

COMMENT ON VIEW pg_stat_progress_batchheap
IS 'progress of the loads into batchheap tables that are running in any session';

GRANT SELECT ON pg_stat_progress_batchheap TO PUBLIC;

--
-- The way back to heap, and in: catalog changes only, no row is touched
--

CREATE FUNCTION batchheap_to_heap(relation regclass)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION batchheap_to_heap(regclass)
IS 'switch a table or materialized view from batchheap to heap without a rewrite';

CREATE FUNCTION batchheap_from_heap(relation regclass)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION batchheap_from_heap(regclass)
IS 'switch a table or materialized view from heap to batchheap without a rewrite';

CREATE FUNCTION batchheap_schema_to_heap(schema regnamespace)
RETURNS SETOF regclass
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION batchheap_schema_to_heap(regnamespace)
IS 'switch all batchheap tables and materialized views of a schema to heap, and name them';

CREATE FUNCTION batchheap_schema_from_heap(schema regnamespace)
RETURNS SETOF regclass
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION batchheap_schema_from_heap(regnamespace)
IS 'switch all heap tables and materialized views of a schema to batchheap, and name them';
