-- SPDX-License-Identifier: Apache-2.0
--
-- Many calls in one round trip and one commit, for `once serve --store postgres://...`.
--
-- Arguments were checked by the server. They are sorted by name, so that two servers lock in one
-- order; "again" marks names that stand more than once, which are decided one after the other. Every
-- batch writes something: its commit then waits for all that it has seen to be durable and
-- replicated, and what it tells may be told (INV-2).

-- A begin that waited while its key became too old may have waited for a sweep that removed its
-- record: the batch is to be decided again.
CREATE FUNCTION once.check_aged(call smallint[], birth_ms bigint[], ttl_ms bigint[],
                                decided_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    now bigint := once.clock_ms();
BEGIN
    IF EXISTS (SELECT FROM unnest($1, $2, $3) AS a (call, birth, ttl)
               WHERE a.call = 0 AND a.birth <> -1 AND $4 - a.birth < a.ttl
                     AND now - a.birth >= a.ttl) THEN
        RAISE EXCEPTION 'a key became too old while its call waited'
            USING ERRCODE = 'serialization_failure';
    END IF;
END $$;

CREATE FUNCTION once.calls(call smallint[], ns text[], key text[], again boolean[],
                           fingerprint bytea[], owner bytea[], birth_ms bigint[], ttl_ms bigint[],
                           lease_ms bigint[], retry boolean[], fence bigint[], done boolean[],
                           code integer[], result bytea[], point bytea[], data bytea[],
                           follows boolean[], after bytea[], id uuid[]) RETURNS SETOF once.told
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    count integer := cardinality($1);
    begins integer := cardinality(array_positions($1, 0::smallint));
    now bigint := once.clock_ms();
    fences bigint[];
    made bigint := 0;
    ended bigint := 0;
    wrote boolean;
    q record;
    rec once.operation;
    d once.decision;
    t once.told;
BEGIN
    IF now NOT BETWEEN 0 AND 253402300799999 THEN
        PERFORM once.refuse('ERR_CLOCK', 'the system clock is outside the years 1970 to 9999');
    END IF;
    -- Begins of new keys.
    IF begins > 0 THEN
        fences := ARRAY(SELECT nextval('once.fence_seq') FROM generate_series(1, count));
        INSERT INTO once.operation
        SELECT a.ns, a.key, a.fence, 1, 1, a.fence, now, now + a.lease_ms, a.ttl_ms,
               greatest(now, a.birth_ms) + a.ttl_ms, 0, a.fingerprint, a.owner, '', '', '', a.id
        FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, fences, $19)
             AS a (call, ns, key, again, fingerprint, owner, birth_ms, ttl_ms, lease_ms, fence, id)
        WHERE a.call = 0 AND NOT a.again
              AND (a.birth_ms = -1 OR now - a.birth_ms BETWEEN -86400000 AND a.ttl_ms - 1)
        ON CONFLICT (ns, key) DO NOTHING;
        GET DIAGNOSTICS made = ROW_COUNT;
    END IF;
    -- Completes of what runs.
    IF begins < count THEN
        UPDATE once.operation o
        SET state = 2, code = a.code, result = a.result, call = a.id,
            expires_ms = greatest(o.expires_ms, now + o.retention_ms)
        FROM unnest($1, $2, $3, $4, $11, $13, $14, $19)
             AS a (call, ns, key, again, fence, code, result, id)
        WHERE a.call = 1 AND NOT a.again AND o.ns = a.ns AND o.key = a.key AND o.fence = a.fence
              AND o.state NOT IN (2, 3);
        GET DIAGNOSTICS ended = ROW_COUNT;
    END IF;
    IF made + ended = count THEN -- nothing else was asked
        PERFORM once.check_aged($1, $7, $8, now);
        RETURN QUERY
            SELECT a.i::integer, CASE a.call WHEN 0 THEN 0 ELSE 6 END::smallint, now,
                   CASE a.call WHEN 0 THEN a.fence END, CASE a.call WHEN 0 THEN 1 END, 0::bigint,
                   NULL::integer, NULL::bytea, NULL::bytea, NULL::bytea, NULL::smallint,
                   NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bytea,
                   NULL::bytea
            FROM unnest($1, fences) WITH ORDINALITY AS a (call, fence, i);
        RETURN;
    END IF;

    wrote := made + ended > 0;
    FOR q IN
        SELECT a.*, o.call = a.id AS mine, o.state AS has_state, o.fence AS has_fence
        FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
                    $19, coalesce(fences, array_fill(0::bigint, ARRAY[count])))
             WITH ORDINALITY
             AS a (call, ns, key, again, fingerprint, owner, birth_ms, ttl_ms, lease_ms, retry,
                   fence, done, code, result, point, data, follows, after, id, new_fence, i)
             LEFT JOIN once.operation o ON o.ns = a.ns AND o.key = a.key
        ORDER BY a.i
    LOOP
        t := NULL;
        t.i := q.i;
        t.now_ms := now;
        IF q.mine AND NOT q.again AND q.call = 0 AND q.has_fence = q.new_fence THEN
            t.word := 0; -- made above
            t.fence := q.new_fence;
            t.attempt := 1;
        ELSIF q.mine AND NOT q.again AND q.call = 1 AND q.has_state = 2 THEN
            t.word := 6; -- ended above, or when it was asked before
        ELSIF q.call = 7 THEN
            SELECT * INTO rec FROM once.operation o WHERE o.ns = q.ns AND o.key = q.key;
            t.state := once.state_at(rec, now);
            t.word := CASE WHEN t.state = 0 THEN 8 ELSE 6 END;
            IF t.state <> 0 THEN
                t.fence := rec.fence;
                t.attempt := rec.attempt;
                t.code := rec.code;
                t.point := rec.point;
                t.data := rec.data;
                t.result := rec.result;
                t.created_ms := rec.created_ms;
                t.lease_end_ms := rec.lease_end_ms;
                t.retention_ms := rec.retention_ms;
                t.expires_ms := rec.expires_ms;
                t.owner := rec.owner;
                t.fingerprint := rec.fingerprint;
            END IF;
        ELSIF q.call = 0 AND q.birth_ms > now + 86400000 THEN
            t.word := -14; -- ERR_KEY_FUTURE
        ELSE
            d := once.act(q.call, q.ns, q.key, ROW(q.fingerprint, q.owner, q.birth_ms, q.ttl_ms,
                q.lease_ms, q.retry, q.fence, q.done, q.code, q.result, q.point, q.data, q.follows,
                q.after)::once.request, q.id, now);
            wrote := wrote OR d.changed;
            t.word := d.word;
            t.retry_ms := d.retry_ms;
            IF q.call = 0 AND d.word IN (0, 4) THEN
                t.fence := (d.next).fence;
                t.attempt := (d.next).attempt;
                t.point := (d.next).point;
                t.data := (d.next).data;
            ELSIF d.word = 1 THEN
                t.code := (d.next).code;
                t.result := (d.next).result;
            ELSIF d.word = 4 THEN -- of a renew or a forget, as every host tells it
                t.fence := (d.next).fence;
                t.attempt := (d.next).attempt;
                t.point := (d.next).point;
                t.data := (d.next).data;
            END IF;
        END IF;
        RETURN NEXT t;
    END LOOP;
    PERFORM once.check_aged($1, $7, $8, now);
    IF NOT wrote THEN
        PERFORM pg_logical_emit_message(true, 'once', '');
    END IF;
END $$;
