-- random.sql - what the statements of ./dev random call
--
-- The same objects are on both sides.  The functions execute a text that is given
-- to them, in the middle of whatever statement calls them, and tell what came of it.

CREATE SCHEMA h;
GRANT USAGE ON SCHEMA h TO PUBLIC;

CREATE TYPE h.comp AS (x int, y text, z int[]);
CREATE DOMAIN h.pos AS int CHECK (VALUE > 0);
CREATE DOMAIN h.small AS int CHECK (VALUE < 700);
CREATE DOMAIN h.jd AS jsonb CHECK (VALUE IS NOT NULL);
CREATE SEQUENCE h.sq;

-- volatile, but the same every time
CREATE FUNCTION h.v(i int) RETURNS int LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS $$
BEGIN
    RETURN i;
END $$;

CREATE FUNCTION h.st(i int) RETURNS int LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN i;
END $$;

-- an error at row n
CREATE FUNCTION h.boom(i int, n int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF i = n THEN
        RAISE EXCEPTION 'boom at %', n;
    END IF;
    RETURN i;
END $$;

-- an array as plpgsql builds it: an expanded object
CREATE FUNCTION h.arr(i int) RETURNS int[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    a int[] := '{}';
BEGIN
    FOR j IN 1 .. i % 9 LOOP
        a[j] := i * j;
    END LOOP;
    RETURN a;
END $$;

CREATE FUNCTION h.mkcomp(i int) RETURNS h.comp LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    c h.comp;
BEGIN
    c.x := i;
    c.y := repeat('c', i % 20);
    c.z[1] := i;
    c.z[2] := i % 3;
    RETURN c;
END $$;

-- a long text that does not compress
CREATE FUNCTION h.long(i int, n int) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT string_agg(md5(i::text || ' ' || j::text), '') FROM generate_series(1, n) AS j
$$;

CREATE FUNCTION h.series(n int) RETURNS TABLE (a int, b text) LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    FOR j IN 1 .. n LOOP
        a := j;
        b := repeat('s', j % 30);
        RETURN NEXT;
    END LOOP;
END $$;

-- every so many rows: the single value that a query returns
CREATE FUNCTION h.q(i int, every int, query text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    r bigint;
BEGIN
    IF i % every <> 0 THEN
        RETURN NULL;
    END IF;
    EXECUTE query INTO r;
    RETURN r;
END $$;

CREATE FUNCTION h.qst(i int, every int, query text) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    r bigint;
BEGIN
    IF i % every <> 0 THEN
        RETURN NULL;
    END IF;
    EXECUTE query INTO r;
    RETURN r;
END $$;

-- every so many rows: execute a command
CREATE FUNCTION h.x(i int, every int, command text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    r bigint;
BEGIN
    IF i % every <> 0 THEN
        RETURN NULL;
    END IF;
    EXECUTE command;
    GET DIAGNOSTICS r = ROW_COUNT;
    RETURN r;
END $$;

-- the same in nested subtransactions, of which the one at level "fails" fails
CREATE FUNCTION h.nest(query text, is_query bool, depth int, fails int) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    r bigint := 0;
BEGIN
    BEGIN
        IF depth > 1 THEN
            r := h.nest(query, is_query, depth - 1, fails);
        ELSIF is_query THEN
            EXECUTE query INTO r;
        ELSE
            EXECUTE query;
            GET DIAGNOSTICS r = ROW_COUNT;
        END IF;
        IF fails = depth THEN
            RAISE EXCEPTION 'failing at depth %', depth;
        END IF;
    EXCEPTION WHEN OTHERS THEN
        IF SQLERRM LIKE 'failing at%' THEN
            r := -1000 - r;
        ELSE
            r := -500;
            RAISE NOTICE '%', SQLERRM;
        END IF;
    END;
    RETURN r;
END $$;

CREATE FUNCTION h.qs(i int, every int, query text, depth int, fails int) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF i % every <> 0 THEN
        RETURN NULL;
    END IF;
    RETURN h.nest(query, true, depth, fails);
END $$;

CREATE FUNCTION h.xs(i int, every int, query text, depth int, fails int) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF i % every <> 0 THEN
        RETURN NULL;
    END IF;
    RETURN h.nest(query, false, depth, fails);
END $$;

-- read with a cursor; with sub in a subtransaction that fails when the cursor is open
CREATE FUNCTION h.cur(i int, every int, query text, n int, sub bool) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    c refcursor;
    r record;
    s bigint := 0;
BEGIN
    IF i % every <> 0 THEN
        RETURN NULL;
    END IF;
    BEGIN
        OPEN c FOR EXECUTE query;
        FOR j IN 1 .. n LOOP
            FETCH c INTO r;
            EXIT WHEN NOT FOUND;
            s := s + 1;
        END LOOP;
        IF sub THEN
            RAISE EXCEPTION 'failing with a cursor';
        END IF;
        CLOSE c;
    EXCEPTION WHEN raise_exception THEN
        s := -s;
    END;
    RETURN s;
END $$;

-- a cursor that stays open from row to row: how many rows it has had
CREATE FUNCTION h.kept(i int, query text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    c refcursor := 'kept';
    r record;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_cursors WHERE name = 'kept') THEN
        OPEN c FOR EXECUTE query;
    END IF;
    FETCH c INTO r;
    RETURN CASE WHEN FOUND THEN 1 ELSE 0 END;
END $$;

-- a scratch table whose TOAST values are gone at the next call
CREATE TABLE h.scratch (t text);
ALTER TABLE h.scratch ALTER t SET STORAGE EXTERNAL;

CREATE FUNCTION h.scratched(i int) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    r text;
BEGIN
    TRUNCATE h.scratch;
    INSERT INTO h.scratch VALUES (repeat(chr(97 + i % 26), 2500));
    SELECT t INTO r FROM h.scratch;
    RETURN r;
END $$;

-- a domain and a check that look at the table that rnd.tab names
CREATE FUNCTION h.look(i int) RETURNS bool LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    r bigint;
BEGIN
    IF i % 50 = 0 AND current_setting('rnd.tab', true) <> '' THEN
        IF i % 100 = 0 THEN
            EXECUTE 'SELECT count(*) FROM ' || current_setting('rnd.tab') INTO r;
        ELSE
            BEGIN
                EXECUTE 'SELECT count(*) FROM ' || current_setting('rnd.tab') INTO r;
                IF current_setting('rnd.fail', true) = 'on' THEN
                    RAISE EXCEPTION 'looked';
                END IF;
            EXCEPTION WHEN raise_exception THEN
                NULL;
            END;
        END IF;
        RAISE NOTICE 'row % sees %', i, r;
    END IF;
    RETURN true;
END $$;
CREATE DOMAIN h.seeing AS int CHECK (h.look(VALUE));
CREATE DOMAIN h.seeings AS h.seeing[];
CREATE TYPE h.hiding AS (x h.seeing, y text);

-- an aggregate whose parts are volatile
CREATE FUNCTION h.addup(s bigint, i int) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM h.look(i);
    RETURN s + i;
END $$;
CREATE AGGREGATE h.total(int) (SFUNC = h.addup, STYPE = bigint, INITCOND = 0);

-- an operator and a cast that look
CREATE FUNCTION h.plus(a int, b text) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM h.look(a);
    RETURN a + length(b);
END $$;
CREATE OPERATOR h.@@@ (LEFTARG = int, RIGHTARG = text, FUNCTION = h.plus);

-- triggers
CREATE FUNCTION h.before_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.a % 7 = 0 THEN
        RETURN NULL;
    END IF;
    NEW.a := NEW.a + 1;
    RETURN NEW;
END $$;

CREATE FUNCTION h.after_row() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r bigint;
BEGIN
    IF NEW.a % 10 = 0 THEN
        EXECUTE format('SELECT count(*) FROM %s WHERE a = $1', TG_RELID::regclass) INTO r USING NEW.a;
        RAISE NOTICE '% % % found %', TG_WHEN, TG_OP, NEW.a, r;
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION h.statement() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM %s', TG_RELID::regclass) INTO r;
    RAISE NOTICE '% % rows %', TG_WHEN, TG_OP, r;
    RETURN NULL;
END $$;

CREATE FUNCTION h.transition() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r bigint;
    n bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM %s', TG_RELID::regclass) INTO r;
    SELECT count(*) INTO n FROM new_rows;
    RAISE NOTICE '% % rows % new %', TG_WHEN, TG_OP, r, n;
    RETURN NULL;
END $$;

CREATE FUNCTION h.statement_load() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF pg_trigger_depth() = 1 THEN
        EXECUTE format('INSERT INTO %s (a) SELECT -g FROM generate_series(1, 25) AS g', TG_RELID::regclass);
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION h.row_load() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF pg_trigger_depth() = 1 AND NEW.a % 50 = 0 THEN
        EXECUTE format('INSERT INTO %s (a) SELECT -g FROM generate_series(1, 23) AS g', TG_RELID::regclass);
    END IF;
    RETURN NEW;
END $$;

-- who is subject to policies
DO $$ BEGIN
    CREATE ROLE rnd_user;
EXCEPTION WHEN duplicate_object THEN
    NULL;
END $$;

GRANT ALL ON SEQUENCE h.sq TO PUBLIC;

-- what is in a schema, and in this session's temporary one
CREATE FUNCTION h.contents() RETURNS TABLE (name text, n bigint, bag numeric, digest text)
LANGUAGE plpgsql AS $$
DECLARE
    c record;
BEGIN
    FOR c IN SELECT oid::regclass AS rel, relname FROM pg_class
        WHERE relkind IN ('r', 'm') AND relispopulated
        AND (relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 's') OR relnamespace = pg_my_temp_schema() OR oid = 'h.scratch'::regclass)
        ORDER BY relname
    LOOP
        name := c.relname;
        EXECUTE format('SELECT count(*), sum(h), md5(string_agg(h::text, '',''))
            FROM (SELECT hashtextextended(t::text, 0) AS h FROM %s AS t) AS x', c.rel) INTO n, bag, digest;
        RETURN NEXT;
    END LOOP;
END $$;

-- what there is to work with
CREATE FUNCTION h.probe() RETURNS TABLE (name name, kind "char", persistence "char", is_partition bool, is_populated bool,
    size bigint, columns text, is_unique bool) LANGUAGE sql VOLATILE AS $$
    SELECT c.relname, c.relkind, c.relpersistence, c.relispartition, c.relispopulated,
        CASE WHEN c.relkind IN ('r', 'm') THEN pg_total_relation_size(c.oid) ELSE 0 END,
        (SELECT string_agg(concat_ws('|', quote_ident(attname), format_type(atttypid, atttypmod), concat(attgenerated, attidentity)),
            E'\n' ORDER BY attnum)
         FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped),
        EXISTS (SELECT 1 FROM pg_index WHERE indrelid = c.oid AND indisunique)
    FROM pg_class c
    WHERE relnamespace IN ((SELECT oid FROM pg_namespace WHERE nspname = 's'), pg_my_temp_schema())
    AND relkind IN ('r', 'm', 'p', 'v')
    ORDER BY relname
$$;

-- indexes and statistics must say the same on both sides: names, not sizes
CREATE FUNCTION h.catalog() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(' ', relname, relkind, relpersistence, relnatts, relhasindex, relhastriggers, relispopulated)
    FROM pg_class WHERE relnamespace IN ((SELECT oid FROM pg_namespace WHERE nspname = 's'), pg_my_temp_schema()) ORDER BY 1
$$;
