-- SPDX-License-Identifier: Apache-2.0
--
-- Who may do what: nothing for PUBLIC, no table for anyone. Three roles, made where the installer may
-- make roles; grant them to those who log in.

REVOKE ALL ON SCHEMA once FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA once FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA once FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA once FROM PUBLIC;

DO $$
DECLARE
    app text := 'once.begin(text, text, bytea, text, bigint, bigint, text, boolean),
        once.complete(text, text, bigint, integer, bytea), once.fail(text, text, bigint, text),
        once.checkpoint(text, text, bigint, text, bytea, text),
        once.renew(text, text, bigint, bigint), once.get(text, text), once.fingerprint(jsonb),
        once.version(), once.now_ms()';
    operator text := 'once.resolve(text, text, boolean, integer, bytea, bigint),
        once.forget(text, text, bigint)';
    server text := 'once.calls(smallint[], text[], text[], boolean[], bytea[], bytea[], bigint[],
        bigint[], bigint[], boolean[], bigint[], boolean[], integer[], bytea[], bytea[], bytea[],
        boolean[], bytea[], uuid[]), once.tick(), once.now_ms(), once.version()';
    r text;
BEGIN
    FOREACH r IN ARRAY ARRAY['once_app', 'once_operator', 'once_server'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = r) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', r);
            EXCEPTION
                WHEN insufficient_privilege THEN
                    RAISE NOTICE 'once: the role % is not there and may not be made by %; who may '
                        'use Once must be granted its functions one by one', r, current_user;
                    CONTINUE;
                WHEN duplicate_object OR unique_violation THEN
                    NULL; -- another database's installation was faster
            END;
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA once TO %I', r);
        IF r IN ('once_app', 'once_operator') THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', app, r);
        END IF;
        IF r = 'once_operator' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', operator, r);
        ELSIF r = 'once_server' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', server, r);
        END IF;
    END LOOP;
END $$;

-- An extension's tables are dumped only when it says so.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_extension WHERE extname = 'once') THEN
        PERFORM pg_extension_config_dump('once.operation', '');
        PERFORM pg_extension_config_dump('once.clock_seq', '');
        PERFORM pg_extension_config_dump('once.ahead_seq', '');
        PERFORM pg_extension_config_dump('once.scope_seq', '');
        PERFORM pg_extension_config_dump('once.fence_seq', '');
    END IF;
END $$;
