-- SPDX-License-Identifier: Apache-2.0
--
-- Rights of what came with this version, and its number.

REVOKE ALL ON ALL TABLES IN SCHEMA once FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA once FROM PUBLIC;

-- A role that was given SELECT on a table by hand sees the rows of its own namespaces. The owner,
-- and so the functions, see all.
ALTER TABLE once.operation ENABLE ROW LEVEL SECURITY;
ALTER TABLE once.message ENABLE ROW LEVEL SECURITY;
ALTER TABLE once.resource ENABLE ROW LEVEL SECURITY;
ALTER TABLE once.machine ENABLE ROW LEVEL SECURITY;
ALTER TABLE once.entity ENABLE ROW LEVEL SECURITY;
ALTER TABLE once.outbox ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON once.operation FOR SELECT USING (once.mine(ns));
CREATE POLICY own ON once.message FOR SELECT USING (once.mine(consumer_group));
CREATE POLICY own ON once.resource FOR SELECT USING (once.mine(name));
CREATE POLICY own ON once.machine FOR SELECT USING (once.mine(name));
CREATE POLICY own ON once.entity FOR SELECT USING (once.mine(machine));
CREATE POLICY own ON once.outbox FOR SELECT USING (once.mine(topic));

DO $$
DECLARE
    app text[] := ARRAY['apply', 'apply_call', 'apply_answer', 'seen', 'grant', 'guard', 'machine',
        'move', 'state', 'emit', 'take', 'ack', 'release', 'merge_max', 'merge_min', 'merge_or',
        'merge_union', 'merge_vv', 'merge_gcounter', 'merge_lww', 'merge_counts', 'check_counts',
        'check_lww', 'refuse', 'gcounter_add', 'gcounter_value', 'vv_tick', 'vv_order', 'lww',
        'mine'];
    operator text[] := ARRAY['sweep', 'machine_change', 'text_of', 'state_at', 'time_of'];
    server text[] := ARRAY['sweep', 'mine'];
    f record;
BEGIN
    FOR f IN
        SELECT r.rolname, p.oid::regprocedure::text AS signature
        FROM pg_proc p, pg_roles r
        WHERE p.pronamespace = 'once'::regnamespace AND
              (r.rolname IN ('once_app', 'once_operator') AND p.proname = ANY (app)
               OR r.rolname = 'once_operator' AND p.proname = ANY (operator)
               OR r.rolname = 'once_server' AND p.proname = ANY (server))
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', f.signature, f.rolname);
    END LOOP;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'once_operator') THEN
        GRANT SELECT ON once.doubts, once.stats, once.waiting TO once_operator;
    END IF;
    -- An extension's tables are dumped only when it says so.
    IF EXISTS (SELECT FROM pg_extension WHERE extname = 'once') THEN
        PERFORM pg_extension_config_dump('once.scope', '');
        PERFORM pg_extension_config_dump('once.message', '');
        PERFORM pg_extension_config_dump('once.resource', '');
        PERFORM pg_extension_config_dump('once.machine', '');
        PERFORM pg_extension_config_dump('once.entity', '');
        PERFORM pg_extension_config_dump('once.outbox', '');
    END IF;
END $$;

CREATE OR REPLACE FUNCTION once.version() RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT '1.1'
$$;
