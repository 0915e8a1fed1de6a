-- SPDX-License-Identifier: Apache-2.0
--
-- One call: find the record and hold it, decide, write. What every function does that is not the
-- common case. now_ms NULL is the time when the record was held: a caller may have waited for it.

-- Says what a call that was decided before was told, from the record that it left (its id is there):
-- for a server whose connection broke while it committed.
CREATE FUNCTION once.decided(call smallint, rec once.operation, req once.request)
RETURNS once.decision
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    d once.decision;
BEGIN
    d.changed := false;
    d.retry_ms := 0;
    d.next := $2;
    d.word := CASE WHEN $1 = 0 THEN CASE WHEN $2.state = 4 THEN 4 ELSE 0 END
                   WHEN $1 = 4 AND $2.state = 4 AND $3.lease_ms > 0 THEN 4
                   WHEN $1 = 6 THEN 4 -- a forget that left a record has met a doubt
                   ELSE 6 END;
    RETURN d;
END $$;

CREATE FUNCTION once.act(call smallint, ns text, key text, req once.request, id uuid,
                         now_ms bigint) RETURNS once.decision
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    rec once.operation;
    d once.decision;
    next_fence bigint;
    now bigint;
    there boolean;
BEGIN
    IF $1 = 0 THEN -- what is done is only told: those who replay do not wait for each other
        now := coalesce($6, once.clock_ms());
        SELECT * INTO rec FROM once.operation o
        WHERE o.ns = $2 COLLATE "C" AND o.key = $3 COLLATE "C" AND once.state_at(o, now) = 2
        FOR SHARE;
        IF FOUND THEN
            RETURN once.decide($1, rec, $4, now, NULL);
        END IF;
    END IF;
    LOOP
        SELECT * INTO rec FROM once.operation o
        WHERE o.ns = $2 COLLATE "C" AND o.key = $3 COLLATE "C" FOR UPDATE;
        there := FOUND;
        now := coalesce($6, once.clock_ms());
        IF NOT there THEN
            rec := ROW($2, $3, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                       E'\\x0000000000000000000000000000000000000000000000000000000000000000',
                       '', '', '', '', NULL)::once.operation;
        ELSIF rec.call = $5 THEN
            RETURN once.decided($1, rec, $4);
        END IF;
        IF $1 IN (0, 5) THEN
            next_fence := nextval('once.fence_seq');
            IF next_fence <= rec.fence THEN
                RAISE EXCEPTION 'once.fence_seq gives %, but a record has the larger fence %',
                    next_fence, rec.fence
                    USING ERRCODE = 'XX001', HINT = 'The sequence was set back or restored alone. '
                        'Set it to more than any fence that was ever given (setval).';
            END IF;
        END IF;
        d := once.decide($1, rec, $4, now, next_fence);
        IF NOT d.changed THEN
            RETURN d;
        END IF;
        IF NOT there THEN
            rec := d.next;
            rec.call := $5;
            INSERT INTO once.operation SELECT rec.* ON CONFLICT (ns, key) DO NOTHING;
            IF FOUND THEN
                EXIT WHEN $6 IS NOT NULL OR once.timely(now, $4.birth_ms, $4.ttl_ms);
                DELETE FROM once.operation o
                WHERE o.ns = $2 COLLATE "C" AND o.key = $3 COLLATE "C";
            END IF; -- it waited, or somebody was faster: decide on what is there now
        ELSIF (d.next).state = 0 THEN
            DELETE FROM once.operation o
            WHERE o.ns = $2 COLLATE "C" AND o.key = $3 COLLATE "C";
            EXIT;
        ELSE
            UPDATE once.operation o SET id = (d.next).id, state = (d.next).state,
                attempt = (d.next).attempt, fence = (d.next).fence,
                created_ms = (d.next).created_ms, lease_end_ms = (d.next).lease_end_ms,
                retention_ms = (d.next).retention_ms, expires_ms = (d.next).expires_ms,
                code = (d.next).code, fingerprint = (d.next).fingerprint, owner = (d.next).owner,
                point = (d.next).point, data = (d.next).data, result = (d.next).result, call = $5
            WHERE o.ns = $2 COLLATE "C" AND o.key = $3 COLLATE "C";
            EXIT;
        END IF;
    END LOOP;
    RETURN d;
END $$;

-- The same for the calls of an owner and of an operator: OK, DOUBT (which was written down), or an
-- error that takes the caller's transaction, and with it the effect, back.
CREATE FUNCTION once.demand(call smallint, ns text, key text, req once.request) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    d once.decision;
BEGIN
    IF $4.fence IS NULL THEN
        PERFORM once.refuse('ERR_INVALID', 'there is no fence: give the one that begin told');
    END IF;
    d := once.act($1, $2, $3, $4, NULL, NULL);
    IF d.word = 6 THEN
        RETURN 'OK';
    ELSIF d.word = 4 THEN
        RETURN 'DOUBT';
    END IF;
    RAISE EXCEPTION USING
        ERRCODE = 'ON' || lpad(d.word::text, 3, '0'),
        MESSAGE = CASE d.word
            WHEN 2 THEN 'BUSY someone holds a live lease; come back in ' || d.retry_ms || ' ms'
            WHEN 3 THEN 'MISMATCH the operation has ended with another answer'
            WHEN 7 THEN 'STALE the fence is not the current one, or the attempt has ended'
            ELSE 'NOTFOUND there is no such operation' END,
        DETAIL = format('namespace %s, key %s, fence %s', $2, $3, $4.fence);
END $$;
