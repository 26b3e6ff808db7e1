-- random-heap.sql - stand-ins for the extension's functions, after random.sql

-- what the extension's functions do, but for the tricks
CREATE FUNCTION h.switch(relation regclass, a text, b text) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER AS $$
DECLARE
    old oid := (SELECT oid FROM pg_am WHERE amname = a);
    new oid := (SELECT oid FROM pg_am WHERE amname = b);
    c pg_class;
BEGIN
    SELECT * INTO c FROM pg_class WHERE oid = relation;
    IF c.relkind = 'p' THEN
        RAISE EXCEPTION '"%" is a partitioned table', c.relname
        USING ERRCODE = '42809', DETAIL = 'A partitioned table stores no rows.';
    ELSIF c.relkind NOT IN ('r', 'm') THEN
        RAISE EXCEPTION '"%" is not a table or materialized view', c.relname USING ERRCODE = '42809';
    ELSIF c.relam = new THEN
        IF c.relkind = 'r' THEN
            EXECUTE format('LOCK TABLE ONLY %s', relation);
        ELSE
            -- LOCK does not take a materialized view
            BEGIN
                EXECUTE format('ALTER TABLE %s RESET (user_catalog_table)', relation);
            EXCEPTION WHEN object_in_use THEN
                NULL;
            END;
        END IF;
        RAISE NOTICE 'table "%" already uses access method "%", skipping', c.relname, b;
        RETURN;
    END IF;
    -- locks the table, and complains if it is in use
    EXECUTE format('ALTER TABLE %s RESET (user_catalog_table)', relation);
    UPDATE pg_class SET relam = new WHERE oid IN (relation, c.reltoastrelid);
    DELETE FROM pg_depend
    WHERE classid = 'pg_class'::regclass AND objid = relation AND refclassid = 'pg_am'::regclass;
    IF b <> 'heap' THEN
        INSERT INTO pg_depend VALUES ('pg_class'::regclass, relation, 0, 'pg_am'::regclass, new, 0, 'n');
    END IF;
END $$;

CREATE FUNCTION h.owned(relation regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    c pg_class;
BEGIN
    IF current_setting('transaction_read_only') = 'on' THEN
        RAISE EXCEPTION 'cannot execute batchheap_to_heap(regclass) in a read-only transaction' USING ERRCODE = '25006';
    END IF;
    SELECT * INTO c FROM pg_class WHERE oid = relation;
    IF NOT pg_has_role(c.relowner, 'USAGE') THEN
        RAISE EXCEPTION 'must be owner of % %',
            CASE c.relkind WHEN 'm' THEN 'materialized view' WHEN 'v' THEN 'view' ELSE 'table' END, c.relname
        USING ERRCODE = '42501';
    END IF;
END $$;

CREATE FUNCTION batchheap_to_heap(relation regclass) RETURNS void LANGUAGE plpgsql STRICT AS $$
BEGIN
    PERFORM h.owned(relation);
    PERFORM h.switch(relation, 'batchheap', 'heap');
END $$;

CREATE FUNCTION batchheap_from_heap(relation regclass) RETURNS void LANGUAGE plpgsql STRICT AS $$
BEGIN
    PERFORM h.owned(relation);
    PERFORM h.switch(relation, 'heap', 'batchheap');
END $$;

CREATE FUNCTION h.reset() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    TRUNCATE h.scratch;
END $$;
