-- random-batchheap.sql - checks of batchheap tables, after random.sql

CREATE EXTENSION pg_visibility;
CREATE EXTENSION amcheck;

-- complaints about what is in schema s and in the session's temporary one; the
-- tables of s are heap's afterwards
CREATE FUNCTION h.complaints() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    c record;
    k record;
    n bigint;
    m bigint;
    rels regclass[];
BEGIN
    SELECT array_agg(oid ORDER BY oid) INTO rels FROM pg_class
    WHERE relkind IN ('r', 'm')
    AND (relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 's') OR relnamespace = pg_my_temp_schema() OR oid = 'h.scratch'::regclass);

    FOR c IN SELECT oid, oid::regclass AS rel, reltoastrelid, relispopulated
        FROM pg_class WHERE oid = ANY (rels) ORDER BY oid
    LOOP
        SELECT count(*) INTO n FROM pg_check_visible(c.oid);
        IF n > 0 THEN
            RETURN NEXT format('%s: %s rows on all-visible pages are not', c.rel, n);
        END IF;
        SELECT count(*) INTO n FROM pg_check_frozen(c.oid);
        IF n > 0 THEN
            RETURN NEXT format('%s: %s rows on all-frozen pages are not', c.rel, n);
        END IF;
        IF c.reltoastrelid <> 0 THEN
            SELECT count(*) INTO n FROM pg_check_visible(c.reltoastrelid);
            SELECT count(*) INTO m FROM pg_check_frozen(c.reltoastrelid);
            IF n > 0 OR m > 0 THEN
                RETURN NEXT format('%s: %s and %s TOAST rows on all-visible pages are not', c.rel, n, m);
            END IF;
        END IF;

        FOR k IN SELECT x.indexrelid::regclass AS index, t.amname,
                quote_ident(a.attname) AS col, x.indpred IS NOT NULL AS partial
            FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_am t ON t.oid = i.relam
            LEFT JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = x.indkey[0]
            WHERE x.indrelid = c.oid AND x.indisvalid AND x.indisready
        LOOP
            IF k.amname = 'btree' THEN
                BEGIN
                    PERFORM bt_index_check(k.index, true);
                EXCEPTION WHEN OTHERS THEN
                    RETURN NEXT format('%s: %s', k.index, SQLERRM);
                END;
            END IF;
            CONTINUE WHEN k.partial OR k.col IS NULL OR k.amname <> 'btree' OR NOT c.relispopulated;
            PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexonlyscan', 'on', true);
            EXECUTE format('SELECT count(*) FROM (SELECT %1$s FROM %2$s ORDER BY %1$s) x', k.col, c.rel) INTO n;
            PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true),
                set_config('enable_bitmapscan', 'off', true), set_config('enable_indexonlyscan', 'off', true);
            EXECUTE format('SELECT count(%1$s) + count(*) FILTER (WHERE %1$s IS NULL) FROM %2$s', k.col, c.rel) INTO m;
            PERFORM set_config('enable_indexscan', 'on', true), set_config('enable_bitmapscan', 'on', true);
            IF n <> m THEN
                RETURN NEXT format('%s: index gives %s rows, table %s', k.index, n, m);
            END IF;
        END LOOP;
    END LOOP;

    SELECT count(*) INTO n FROM pg_stat_progress_batchheap WHERE pid = pg_backend_pid();
    IF n > 0 THEN
        RETURN NEXT 'progress of a load that has ended';
    END IF;

    FOR c IN SELECT name FROM pg_backend_memory_contexts WHERE name LIKE 'batchheap%' LOOP
        RETURN NEXT format('memory context left: %s', c.name);
    END LOOP;

    FOR c IN SELECT r AS rel FROM unnest(rels) AS r JOIN pg_class ON oid = r AND relispopulated
        WHERE relam = (SELECT oid FROM pg_am WHERE amname = 'batchheap')
    LOOP
        PERFORM batchheap_to_heap(c.rel);
    END LOOP;
    FOR c IN SELECT r AS rel FROM unnest(rels) AS r JOIN pg_class ON oid = r AND relispopulated LOOP
        FOR k IN SELECT blkno, offnum, attnum, msg FROM verify_heapam(c.rel, check_toast := true) LIMIT 3 LOOP
            RETURN NEXT format('%s: (%s,%s) column %s: %s', c.rel, k.blkno, k.offnum, k.attnum, k.msg);
        END LOOP;
    END LOOP;
END $$;

-- h.scratch is batchheap's again, and no table is left but its
CREATE FUNCTION h.reset() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT relam FROM pg_class WHERE oid = 'h.scratch'::regclass) = 2 THEN
        PERFORM batchheap_from_heap('h.scratch');
    END IF;
    TRUNCATE h.scratch;
END $$;
