-- SPDX-License-Identifier: Apache-2.0
--
-- Objects, and the transaction in which `once serve --store postgres://...` decides about them.
-- What an apply, a merge or a value comes to is decided by the server's core; here is what it
-- decides on, held by row locks from the first statement to the commit:
--
--     hold            the lane's row; the operations, in the order of their names
--     hold_objects    the objects, in the order of their names
--     moment          time and fences, when everything is held
--     keep, keep_objects    what they are from now on
--
-- Locks are taken in one order everywhere (lane, operations, objects), so nobody waits in a circle.
-- A name that is not there is made first, as a row with state or type 0, which others wait for; it
-- does not outlive the transaction.

-- An object is the store's, not a namespace's. Its body is the edits that make it
-- (docs/format/objects.md); only the core reads it.
CREATE SEQUENCE once.object_seq AS bigint MINVALUE 1 NO CYCLE CACHE 1;
CREATE TABLE once.object (
    name    text COLLATE "C" PRIMARY KEY,
    id      bigint NOT NULL,   -- the order of first use: the order of lists; while it is made, < 0
    type    smallint NOT NULL, -- enum once_object_type of include/once/apply.h
    version bigint NOT NULL,   -- of a mergeable one; grows with each change
    body    bytea NOT NULL
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05,
        autovacuum_analyze_scale_factor = 0.05);
CREATE UNIQUE INDEX object_id ON once.object (id);

-- The last transaction of each lane (one session of a server after the other, under one random
-- number) that got as far as its commit: when a connection is lost meanwhile, the server asks here
-- what became of it, and what it had decided is told, or decided again. Every transaction of a lane
-- writes its row, so that the commit proves that all it has seen is durable (INV-2).
CREATE TABLE once.lane (
    id    bigint PRIMARY KEY,
    last  bigint NOT NULL,
    at_ms bigint NOT NULL
) WITH (fillfactor = 50);

CREATE FUNCTION once.hold(lane bigint, number bigint, ns text[], key text[])
RETURNS TABLE (id bigint, state smallint, attempt integer, fence bigint, created_ms bigint,
               lease_end_ms bigint, retention_ms bigint, expires_ms bigint, code integer,
               fingerprint bytea, owner bytea, point bytea, data bytea, result bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO once.lane AS l VALUES ($1, $2, once.clock_ms())
    ON CONFLICT (id) DO UPDATE SET last = excluded.last, at_ms = excluded.at_ms;
    FOR i IN 1 .. cardinality($3) LOOP
        LOOP
            RETURN QUERY
                INSERT INTO once.operation AS o
                VALUES ($3[i], $4[i], nextval('once.fence_seq'), 0, 0, 0, 0, 0, 0, 0, 0,
                        decode(repeat('00', 32), 'hex'), '', '', '', '', NULL)
                ON CONFLICT (ns, key) DO NOTHING
                RETURNING o.id, o.state, o.attempt, o.fence, o.created_ms, o.lease_end_ms,
                          o.retention_ms, o.expires_ms, o.code, o.fingerprint, o.owner, o.point,
                          o.data, o.result;
            EXIT WHEN FOUND;
            RETURN QUERY
                SELECT o.id, o.state, o.attempt, o.fence, o.created_ms, o.lease_end_ms,
                       o.retention_ms, o.expires_ms, o.code, o.fingerprint, o.owner, o.point,
                       o.data, o.result
                FROM once.operation o WHERE o.ns = $3[i] AND o.key = $4[i] FOR UPDATE;
            EXIT WHEN FOUND; -- else it was forgotten meanwhile
        END LOOP;
    END LOOP;
END $$;

-- The bodies of all together take at most this many bytes; a body is NULL when it was not given.
CREATE FUNCTION once.hold_objects(name text[], size_max bigint)
RETURNS TABLE (id bigint, version bigint, body bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    left_size bigint := $2;
BEGIN
    FOR i IN 1 .. cardinality($1) LOOP
        LOOP
            SELECT o.id, o.version, o.body INTO id, version, body
            FROM once.object o WHERE o.name = $1[i] FOR UPDATE;
            EXIT WHEN FOUND;
            INSERT INTO once.object VALUES ($1[i], -nextval('once.object_seq'), 0, 0, '')
            ON CONFLICT (name) DO NOTHING;
        END LOOP;
        left_size := left_size - octet_length(body);
        IF left_size < 0 THEN
            body := NULL;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- A fence that is drawn here is larger than that of every row that is held.
CREATE FUNCTION once.moment(count integer) RETURNS TABLE (now_ms bigint, fence bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    now bigint := once.clock_ms();
BEGIN
    IF ($1 BETWEEN 1 AND 1000) IS NOT TRUE THEN
        PERFORM once.refuse('ERR_INVALID', 'a moment has 1 to 1000 fences');
    END IF;
    RETURN QUERY SELECT now, nextval('once.fence_seq') FROM generate_series(1, $1);
END $$;

-- State 0 goes.
CREATE FUNCTION once.keep(ns text[], key text[], id bigint[], state smallint[], attempt integer[],
                          fence bigint[], created_ms bigint[], lease_end_ms bigint[],
                          retention_ms bigint[], expires_ms bigint[], code integer[],
                          fingerprint bytea[], owner bytea[], point bytea[], data bytea[],
                          result bytea[], call uuid[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    DELETE FROM once.operation o
    USING unnest($1, $2, $4) AS n (ns, key, state)
    WHERE o.ns = n.ns AND o.key = n.key AND n.state = 0;
    UPDATE once.operation o
    SET id = n.id, state = n.state, attempt = n.attempt, fence = n.fence,
        created_ms = n.created_ms, lease_end_ms = n.lease_end_ms, retention_ms = n.retention_ms,
        expires_ms = n.expires_ms, code = n.code, fingerprint = n.fingerprint, owner = n.owner,
        point = n.point, data = n.data, result = n.result, call = n.call
    FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
         AS n (ns, key, id, state, attempt, fence, created_ms, lease_end_ms, retention_ms,
               expires_ms, code, fingerprint, owner, point, data, result, call)
    WHERE o.ns = n.ns AND o.key = n.key AND n.state <> 0;
END $$;

-- Type 0 goes: nobody used it.
CREATE FUNCTION once.keep_objects(name text[], id bigint[], type smallint[], version bigint[],
                                  body bytea[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    DELETE FROM once.object o
    USING unnest($1, $3) AS n (name, type)
    WHERE o.name = n.name AND n.type = 0;
    UPDATE once.object o SET id = n.id, type = n.type, version = n.version, body = n.body
    FROM unnest($1, $2, $3, $4, $5) AS n (name, id, type, version, body)
    WHERE o.name = n.name AND n.type <> 0;
END $$;

-- Was this the last transaction of the lane? Waits for one that is under way, and writes: see
-- above.
CREATE FUNCTION once.settled(lane bigint, number bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    found_last bigint;
BEGIN
    UPDATE once.lane SET at_ms = once.clock_ms() WHERE id = $1 RETURNING last INTO found_last;
    RETURN found_last IS NOT DISTINCT FROM $2;
END $$;

-- Rows of lanes that are gone. A server that cannot reach its database for a day has given up on
-- every call long before.
CREATE FUNCTION once.sweep_lanes(count integer DEFAULT 1000) RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH gone AS (
        DELETE FROM once.lane WHERE id IN (
            SELECT id FROM once.lane WHERE at_ms < once.clock_ms() - 86400000
            ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)
        RETURNING 1)
    SELECT count(*)::integer FROM gone
$$;

-- ---- Looking ------------------------------------------------------------------------------------

CREATE FUNCTION once.object_get(name text)
RETURNS TABLE (type smallint, version bigint, body bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT o.type, o.version, o.body FROM once.object o WHERE o.name = $1
$$;

CREATE FUNCTION once.object_list(after bigint, count integer)
RETURNS TABLE (id bigint, name text, type smallint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT o.id, o.name, o.type FROM once.object o WHERE o.id > $1 ORDER BY o.id LIMIT $2
$$;

-- ---- Rights -------------------------------------------------------------------------------------

REVOKE ALL ON once.object, once.lane FROM PUBLIC;
REVOKE ALL ON SEQUENCE once.object_seq FROM PUBLIC;

DO $$
DECLARE
    functions text := 'once.hold(bigint, bigint, text[], text[]),
        once.hold_objects(text[], bigint), once.moment(integer),
        once.keep(text[], text[], bigint[], smallint[], integer[], bigint[], bigint[], bigint[],
            bigint[], bigint[], integer[], bytea[], bytea[], bytea[], bytea[], bytea[], uuid[]),
        once.keep_objects(text[], bigint[], smallint[], bigint[], bytea[]),
        once.settled(bigint, bigint),
        once.sweep_lanes(integer), once.object_get(text), once.object_list(bigint, integer)';
BEGIN
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', functions);
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'once_server') THEN
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO once_server', functions);
    END IF;
    IF EXISTS (SELECT FROM pg_extension WHERE extname = 'once') THEN
        PERFORM pg_extension_config_dump('once.object', '');
        PERFORM pg_extension_config_dump('once.object_seq', '');
    END IF;
END $$;
