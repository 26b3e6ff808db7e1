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
