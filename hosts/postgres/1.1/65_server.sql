-- SPDX-License-Identifier: Apache-2.0
--
-- What a server shows of the whole store: pages of a list, and numbers.

-- A page in the order of ids, which never change. At most "look" rows are looked at, so that a
-- filter which hardly anything passes does not read everything at once: when the page is not full
-- and there may be more, a last row without a name says from where to go on. A state is that of
-- now: a lease that is over is a doubt, and what has expired is not there.
CREATE FUNCTION once.list(after bigint, count integer, of_ns text, of_state smallint,
                          look integer DEFAULT 10000)
RETURNS TABLE (id bigint, ns text, key text, state smallint, fence bigint, attempt integer,
               code integer, created_ms bigint, lease_end_ms bigint, expires_ms bigint,
               owner bytea, point bytea)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    now bigint := once.now_ms();
    found integer := 0;
    seen integer := 0;
    o record;
BEGIN
    -- Two statements in one text: each finds its own index.
    FOR o IN EXECUTE
        'SELECT r.id, r.ns, r.key, r.fence, r.attempt, r.code, r.created_ms, r.lease_end_ms,
                r.expires_ms, r.owner, r.point,
                CASE WHEN r.state = 1 AND r.lease_end_ms <= $2 THEN 4
                     WHEN r.state IN (2, 3) AND r.expires_ms <= $2 THEN 0
                     ELSE r.state END::smallint AS at_now
         FROM once.operation r WHERE r.id > $1'
        || CASE WHEN $4 IN (1, 4) THEN ' AND r.state IN (1, 4)' ELSE '' END
        || ' ORDER BY r.id LIMIT $3'
        USING $1, now, $5
    LOOP
        seen := seen + 1;
        id := o.id;
        IF o.at_now <> 0 AND ($4 IS NULL OR o.at_now = $4) AND ($3 IS NULL OR o.ns = $3) THEN
            found := found + 1;
            ns := o.ns;
            key := o.key;
            state := o.at_now;
            fence := o.fence;
            attempt := o.attempt;
            code := o.code;
            created_ms := o.created_ms;
            lease_end_ms := o.lease_end_ms;
            expires_ms := o.expires_ms;
            owner := o.owner;
            point := o.point;
            RETURN NEXT;
            EXIT WHEN found = $2;
        END IF;
    END LOOP;
    IF found < $2 AND seen = $5 THEN
        ns := NULL;
        key := NULL;
        RETURN NEXT;
    END IF;
END $$;

-- Keys are an estimate (what the last ANALYZE saw); open ones are counted up to "most".
CREATE FUNCTION once.numbers(most integer DEFAULT 100000)
RETURNS TABLE (keys bigint, keys_open bigint, objects bigint, disk_size bigint, last_fence bigint,
               now_ms bigint)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT (SELECT greatest(c.reltuples, 0)::bigint FROM pg_class c
            WHERE c.oid = 'once.operation'::regclass),
           (SELECT count(*) FROM (SELECT FROM once.operation o WHERE o.state IN (1, 4) LIMIT $1) o),
           (SELECT greatest(c.reltuples, 0)::bigint FROM pg_class c
            WHERE c.oid = 'once.object'::regclass),
           pg_total_relation_size('once.operation') + pg_total_relation_size('once.object'),
           (SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END FROM once.fence_seq s),
           once.now_ms()
$$;

DO $$
DECLARE
    functions text := 'once.list(bigint, integer, text, smallint, integer), once.numbers(integer)';
BEGIN
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', functions);
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'once_server') THEN
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO once_server', functions);
    END IF;
END $$;
