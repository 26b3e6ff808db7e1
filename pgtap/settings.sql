-- The settings: names, types, units, limits, defaults, who may set them, and
-- that each is described.
BEGIN;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS batchheap;
-- they are there when the library is
SELECT count(*) > 0 FROM batchheap_counters();

SELECT plan(17);

CREATE TEMP TABLE expected (name text, vartype text, unit text, min_val text, max_val text, boot_val text);
INSERT INTO expected VALUES
    ('batchheap.enable', 'bool', NULL, NULL, NULL, 'on'),
    ('batchheap.batch_insert', 'bool', NULL, NULL, NULL, 'on'),
    ('batchheap.freeze_on_load', 'bool', NULL, NULL, NULL, 'on'),
    ('batchheap.freeze_min_size', 'integer', 'kB', '0', '64', '8'),
    ('batchheap.page_writer', 'bool', NULL, NULL, NULL, 'off'),
    ('batchheap.max_batch_rows', 'integer', NULL, '1', '10000', '1000'),
    ('batchheap.max_batch_size', 'integer', 'kB', '8', '16384', '64');

SELECT bag_eq(
    $$SELECT name, vartype, unit, min_val, max_val, boot_val FROM pg_settings WHERE name LIKE 'batchheap.%'$$,
    'TABLE expected',
    'settings, their types, limits and defaults');
SELECT is_empty(
    $$SELECT name FROM pg_settings WHERE name LIKE 'batchheap.%' AND context <> 'user'$$,
    'anybody may set them');
SELECT is_empty(
    $$SELECT name FROM pg_settings WHERE name LIKE 'batchheap.%'
      AND (coalesce(short_desc, '') !~ '^[A-Z].*[.]$' OR extra_desc !~ '^[A-Z].*[.]$')$$,
    'each has a description, which is a sentence');
SELECT is_empty(
    $$SELECT name FROM pg_settings WHERE name LIKE 'batchheap.%' AND category <> 'Customized Options'$$,
    'they are in the category of extensions');

-- limits are kept
SELECT throws_ok('SET batchheap.max_batch_rows = 0', '22023', NULL, 'no batch without a row');
SELECT throws_ok('SET batchheap.max_batch_rows = 10001', '22023', NULL, 'not too many rows');
SELECT throws_ok('SET batchheap.max_batch_size = 7', '22023', NULL, 'no batch smaller than a page');
SELECT throws_ok($$SET batchheap.max_batch_size = '17MB'$$, '22023', NULL, 'not too large a batch');
SELECT lives_ok($$SET LOCAL batchheap.max_batch_size = '16MB'$$, 'units are understood');
SELECT is(current_setting('batchheap.max_batch_size'), '16MB', 'and shown');

-- the prefix is ours
SELECT throws_ok('SET batchheap.no_such_thing = on', '42602', NULL, 'other names are refused');

-- they do what they say
CREATE FUNCTION pg_temp.counted(_setting text, _value text, _counter text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
    PERFORM set_config(_setting, _value, true);
    PERFORM batchheap_counters_reset();
    DROP TABLE IF EXISTS b;
    CREATE TABLE b USING batchheap AS SELECT i FROM generate_series(1, 1000) i;
    SELECT c.value INTO n FROM batchheap_counters() c WHERE counter = _counter;
    PERFORM set_config(_setting, reset_val, true) FROM pg_settings WHERE name = _setting;
    RETURN n;
END $$;
SET LOCAL client_min_messages = warning;
SELECT is(pg_temp.counted('batchheap.enable', 'off', 'rows_batched'), 0::bigint, 'enable = off: nothing is batched');
SELECT is(pg_temp.counted('batchheap.enable', 'off', 'single_rows_disabled'), 1000::bigint, 'enable = off: the reason is counted');
SELECT is(pg_temp.counted('batchheap.enable', 'on', 'rows_batched'), 1000::bigint, 'enable = on: rows are batched');
SELECT is(pg_temp.counted('batchheap.freeze_on_load', 'off', 'rows_frozen'), 0::bigint, 'freeze_on_load = off: nothing is frozen');
SELECT is(pg_temp.counted('batchheap.max_batch_rows', '100', 'batches'), 10::bigint, 'max_batch_rows = 100: batches of 100 rows');
SELECT cmp_ok(pg_temp.counted('batchheap.max_batch_size', '8', 'batches'), '>=', 4::bigint, 'max_batch_size = 8kB: batches of 8 kB');

SELECT * FROM finish();
ROLLBACK;
