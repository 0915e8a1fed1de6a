-- SPDX-License-Identifier: Apache-2.0
--
-- Mergeable values (A2, S5): each merge is commutative, associative and idempotent, so that states
-- may be merged in any order and any number of times, and need no key. NULL is "nothing yet". Each
-- is a function of two states, for ON CONFLICT DO UPDATE, and an aggregate of one, for rows.
--
--     bigint    merge_max, merge_min          jsonb  merge_vv        {"node": 3, ...}
--     boolean   merge_or                             merge_gcounter  {"node": 3, ...}
--     text[]    merge_union, sorted by bytes         merge_lww       {"time": 7, "node": "a",
--                                                                     "value": ...}
-- A result is in the one form that a value has. A jsonb state is at most 1 MiB; a node's name 1 to
-- 64 bytes; a number 1 to 2^63 - 1.

CREATE FUNCTION once.merge_max(a bigint, b bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT greatest($1, $2) $$;

CREATE FUNCTION once.merge_min(a bigint, b bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT least($1, $2) $$;

CREATE FUNCTION once.merge_or(a boolean, b boolean) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN $1 IS NULL THEN $2 WHEN $2 IS NULL THEN $1 ELSE $1 OR $2 END
$$;

CREATE FUNCTION once.merge_union(a text[], b text[]) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF $1 IS NULL AND $2 IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(SELECT m FROM (SELECT unnest($1) UNION SELECT unnest($2)) AS u (m)
                 WHERE m IS NOT NULL ORDER BY m COLLATE "C");
END $$;

-- ---- Numbers of nodes: version vectors and counters --------------------------------------------

CREATE FUNCTION once.check_counts(state jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    e record;
BEGIN
    IF jsonb_typeof($1) <> 'object' THEN
        PERFORM once.refuse('ERR_INVALID', 'the state is not an object of nodes and numbers');
    ELSIF octet_length(convert_to($1::text, 'UTF8')) > 1048576 THEN
        PERFORM once.refuse('ERR_FULL', 'the state is larger than 1 MiB');
    END IF;
    SELECT key, value INTO e FROM jsonb_each($1)
    WHERE octet_length(convert_to(key, 'UTF8')) NOT BETWEEN 1 AND 64
          OR jsonb_typeof(value) <> 'number' OR value::text !~ '^[0-9]{1,19}$'
          OR value::text::numeric > 9223372036854775807
    LIMIT 1;
    IF FOUND THEN
        PERFORM once.refuse('ERR_INVALID', CASE
            WHEN octet_length(convert_to(e.key, 'UTF8')) NOT BETWEEN 1 AND 64
            THEN 'a node''s name has 1 to 64 bytes'
            ELSE format('the number of the node %s is not a whole one from 0 to '
                        '9223372036854775807', e.key) END);
    END IF;
END $$;

-- The larger number of each node. 0 is the same as none, and is left out.
CREATE FUNCTION once.merge_counts(a jsonb, b jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    merged jsonb;
BEGIN
    IF $1 IS NULL AND $2 IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM once.check_counts($1), once.check_counts($2);
    SELECT coalesce(jsonb_object_agg(u.key, u.n) FILTER (WHERE u.n > 0), '{}') INTO merged
    FROM (SELECT s.key, max(s.value::bigint) AS n
          FROM (SELECT * FROM jsonb_each_text($1) UNION ALL SELECT * FROM jsonb_each_text($2)) s
          GROUP BY s.key) u;
    IF octet_length(convert_to(merged::text, 'UTF8')) > 1048576 THEN
        PERFORM once.refuse('ERR_FULL', 'the state is larger than 1 MiB');
    END IF;
    RETURN merged;
END $$;

CREATE FUNCTION once.merge_vv(a jsonb, b jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT once.merge_counts($1, $2) $$;

CREATE FUNCTION once.merge_gcounter(a jsonb, b jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT once.merge_counts($1, $2) $$;

-- The state in which this node has n more. Not idempotent: run it under a key, or in the
-- transaction of the effect that it counts.
CREATE FUNCTION once.gcounter_add(state jsonb, node text, n bigint DEFAULT 1) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF ($3 >= 0) IS NOT TRUE THEN
        PERFORM once.refuse('ERR_INVALID', 'a counter that only grows cannot be given less than 0');
    ELSIF $2 IS NULL THEN
        PERFORM once.refuse('ERR_INVALID', 'a node''s name has 1 to 64 bytes');
    END IF;
    PERFORM once.check_counts($1);
    RETURN once.merge_counts($1, jsonb_build_object($2, coalesce(($1 ->> $2)::numeric, 0) + $3));
END $$;

CREATE FUNCTION once.gcounter_value(state jsonb) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM once.check_counts($1);
    RETURN (SELECT coalesce(sum(value::numeric), 0) FROM jsonb_each_text($1));
END $$;

-- The vector after one more event of this node.
CREATE FUNCTION once.vv_tick(state jsonb, node text) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT once.gcounter_add($1, $2, 1) $$;

-- before, after, equal or concurrent: how a stands to b.
CREATE FUNCTION once.vv_order(a jsonb, b jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    x jsonb := once.merge_counts($1, '{}');
    y jsonb := once.merge_counts($2, '{}');
    both_of jsonb := once.merge_counts(x, y);
BEGIN
    RETURN CASE WHEN x = y THEN 'equal' WHEN both_of = y THEN 'before'
                WHEN both_of = x THEN 'after' ELSE 'concurrent' END;
END $$;

-- ---- The register that the last writer wins ----------------------------------------------------

CREATE FUNCTION once.check_lww(state jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF $1 IS NULL THEN
        RETURN;
    ELSIF jsonb_typeof($1) <> 'object' OR NOT $1 ?& '{time,node,value}'
          OR (SELECT count(*) FROM jsonb_object_keys($1)) <> 3 THEN
        PERFORM once.refuse('ERR_INVALID',
                            'the state is not {"time": n, "node": name, "value": v}');
    ELSIF jsonb_typeof($1 -> 'time') <> 'number' OR $1 ->> 'time' !~ '^-?[0-9]{1,19}$'
          OR ($1 ->> 'time')::numeric NOT BETWEEN -9223372036854775808 AND 9223372036854775807 THEN
        PERFORM once.refuse('ERR_INVALID', 'the time is not a whole number of 64 bits');
    ELSIF jsonb_typeof($1 -> 'node') <> 'string'
          OR octet_length(convert_to($1 ->> 'node', 'UTF8')) NOT BETWEEN 1 AND 64 THEN
        PERFORM once.refuse('ERR_INVALID', 'a node''s name has 1 to 64 bytes');
    ELSIF octet_length(convert_to($1::text, 'UTF8')) > 1048576 THEN
        PERFORM once.refuse('ERR_FULL', 'the state is larger than 1 MiB');
    END IF;
END $$;

CREATE FUNCTION once.lww(written bigint, node text, value jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    state jsonb := jsonb_build_object('time', $1, 'node', $2, 'value', $3);
BEGIN
    PERFORM once.check_lww(state);
    RETURN state;
END $$;

-- The larger time wins; at equal times the larger node, then the larger value, both by the bytes
-- of UTF-8: every replica takes the same one, whatever its collation.
CREATE FUNCTION once.merge_lww(a jsonb, b jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM once.check_lww($1), once.check_lww($2);
    IF $1 IS NULL OR $2 IS NULL THEN
        RETURN coalesce($1, $2);
    END IF;
    RETURN CASE WHEN (($1 ->> 'time')::numeric, convert_to($1 ->> 'node', 'UTF8'),
                      convert_to(($1 -> 'value')::text, 'UTF8'))
                   < (($2 ->> 'time')::numeric, convert_to($2 ->> 'node', 'UTF8'),
                      convert_to(($2 -> 'value')::text, 'UTF8'))
                THEN $2 ELSE $1 END;
END $$;

-- ---- Aggregates ---------------------------------------------------------------------------------

CREATE AGGREGATE once.merge_max(bigint) (SFUNC = once.merge_max, STYPE = bigint,
    COMBINEFUNC = once.merge_max, PARALLEL = SAFE);
CREATE AGGREGATE once.merge_min(bigint) (SFUNC = once.merge_min, STYPE = bigint,
    COMBINEFUNC = once.merge_min, PARALLEL = SAFE);
CREATE AGGREGATE once.merge_or(boolean) (SFUNC = once.merge_or, STYPE = boolean,
    COMBINEFUNC = once.merge_or, PARALLEL = SAFE);
CREATE AGGREGATE once.merge_union(text[]) (SFUNC = once.merge_union, STYPE = text[],
    COMBINEFUNC = once.merge_union, PARALLEL = SAFE);
CREATE AGGREGATE once.merge_vv(jsonb) (SFUNC = once.merge_vv, STYPE = jsonb,
    COMBINEFUNC = once.merge_vv, PARALLEL = SAFE);
CREATE AGGREGATE once.merge_gcounter(jsonb) (SFUNC = once.merge_gcounter, STYPE = jsonb,
    COMBINEFUNC = once.merge_gcounter, PARALLEL = SAFE);
CREATE AGGREGATE once.merge_lww(jsonb) (SFUNC = once.merge_lww, STYPE = jsonb,
    COMBINEFUNC = once.merge_lww, PARALLEL = SAFE);
