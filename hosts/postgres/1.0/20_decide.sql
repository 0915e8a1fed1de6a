-- SPDX-License-Identifier: Apache-2.0
--
-- The decision: src/core/decide.c, line by line, in PL/pgSQL. Pure: a record, a request, the time and
-- the next fence go in; what to say and what the record becomes come out. A test compares it with the
-- proved one case by case. Arguments were checked before.

-- What time makes of a stored state. Views ask it in the search path of whoever looks, so each
-- operator names its schema.
CREATE FUNCTION once.state_at(rec once.operation, now_ms bigint) RETURNS smallint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN $1.state IS NULL THEN 0
        WHEN $1.state OPERATOR(pg_catalog.=) 1 AND $2 OPERATOR(pg_catalog.>=) $1.lease_end_ms THEN 4
        WHEN ($1.state OPERATOR(pg_catalog.=) 2 OR $1.state OPERATOR(pg_catalog.=) 3)
             AND $2 OPERATOR(pg_catalog.>=) $1.expires_ms THEN 0
        ELSE $1.state
    END::smallint
$$;

-- A new attempt under a new fence. A first one starts from nothing; a later one keeps the birth, the
-- recovery point, and the longest retention anyone was promised.
CREATE FUNCTION once.decide_execute(rec once.operation, req once.request, now_ms bigint,
                                    next_fence bigint, first boolean) RETURNS once.decision
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    d once.decision;
    n once.operation := $1;
    expires bigint := greatest($3, $2.birth_ms) + $2.ttl_ms;
BEGIN
    n.state := 1;
    n.fence := $4;
    n.lease_end_ms := $3 + $2.lease_ms;
    n.fingerprint := $2.fingerprint;
    n.owner := $2.owner;
    n.code := 0;
    n.result := '';
    IF $5 THEN
        n.id := $4;
        n.attempt := 1;
        n.created_ms := $3;
        n.retention_ms := $2.ttl_ms;
        n.expires_ms := expires;
        n.point := '';
        n.data := '';
    ELSE
        n.attempt := least($1.attempt + 1, 1000000000);
        n.retention_ms := greatest($1.retention_ms, $2.ttl_ms);
        n.expires_ms := greatest($1.expires_ms, expires);
    END IF;
    d.word := 0;
    d.changed := true;
    d.retry_ms := 0;
    d.next := n;
    RETURN d;
END $$;

CREATE FUNCTION once.decide_begin(rec once.operation, req once.request, now_ms bigint,
                                  next_fence bigint) RETURNS once.decision
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    d once.decision;
    n once.operation := $1;
    state smallint := once.state_at($1, $3);
BEGIN
    d.changed := false;
    d.retry_ms := 0;
    d.next := n;
    IF state = 0 THEN
        IF $2.birth_ms <> -1 AND $3 - $2.birth_ms >= $2.ttl_ms THEN
            d.word := 5; -- TOO_OLD: it may have run and expired
            RETURN d;
        END IF;
        RETURN once.decide_execute($1, $2, $3, $4, true);
    END IF;
    -- Before everything else: an old answer to a new question is silent corruption (INV-5).
    IF $1.fingerprint <> $2.fingerprint THEN
        d.word := 3; -- MISMATCH
    ELSIF state = 2 THEN
        d.word := 1; -- REPLAY
    ELSIF state = 3 THEN
        RETURN once.decide_execute($1, $2, $3, $4, false);
    ELSIF state = 1 AND octet_length($2.owner) > 0 AND $1.owner = $2.owner THEN
        d.word := 0; -- EXECUTE: the owner lost the reply
    ELSIF state = 1 THEN
        d.word := 2; -- BUSY
        d.retry_ms := least($1.lease_end_ms - $3, 1000);
    ELSIF $2.retry THEN
        RETURN once.decide_execute($1, $2, $3, $4, false);
    ELSE
        d.word := 4; -- DOUBT, written down before it is told
        d.changed := $1.state <> 4;
        n.state := 4;
        d.next := n;
    END IF;
    RETURN d;
END $$;

-- Calls by number: 1 complete, 2 fail, 3 checkpoint, 4 renew, 5 resolve, 6 forget; 0 is begin.
CREATE FUNCTION once.decide(call smallint, rec once.operation, req once.request, now_ms bigint,
                            next_fence bigint) RETURNS once.decision
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    d once.decision;
    n once.operation := $2;
    state smallint := once.state_at($2, $4);
    word smallint; -- may the holder of this fence still say how its attempt went?
    ended smallint := 0;
    answer bytea := '';
    answer_code integer := 0;
BEGIN
    IF $1 = 0 THEN
        RETURN once.decide_begin($2, $3, $4, $5);
    END IF;
    d.changed := false;
    d.retry_ms := 0;
    d.next := n;
    word := CASE WHEN state = 0 THEN 8
                 WHEN $3.fence <> n.fence OR state IN (2, 3) THEN 7
                 ELSE 6 END;
    IF state = 0 THEN
        NULL; -- NOTFOUND, whoever asks
    ELSIF $1 = 1 THEN -- complete
        IF word = 6 THEN
            ended := 2;
            answer := $3.result;
            answer_code := $3.code;
        ELSIF $3.fence = n.fence AND n.state = 2 THEN
            -- Sent again after a lost reply. Another answer is not hidden behind an OK.
            word := CASE WHEN n.code = $3.code AND n.result = $3.result THEN 6 ELSE 3 END;
        END IF;
    ELSIF $1 = 2 THEN -- fail
        IF word = 6 THEN
            ended := 3;
            answer := $3.result;
        ELSIF $3.fence = n.fence AND n.state = 3 THEN
            word := 6;
        END IF;
    ELSIF $1 = 3 AND word = 6 THEN -- checkpoint
        IF $3.follows AND n.point = $3.point AND n.data = $3.data THEN
            NULL; -- a copy of the last one
        ELSIF $3.follows AND n.point <> $3.after THEN
            word := 7; -- it came too late
        ELSE
            n.point := $3.point;
            n.data := $3.data;
            d.changed := true;
        END IF;
    ELSIF $1 = 4 AND word = 6 THEN -- renew; 0 gives the lease up, and a lease that is over is over
        IF $3.lease_ms = 0 OR state = 4 THEN
            word := CASE WHEN $3.lease_ms = 0 THEN 6 ELSE 4 END;
            d.changed := n.state <> 4;
            n.state := 4;
        ELSE
            n.lease_end_ms := greatest(n.lease_end_ms, $4 + $3.lease_ms);
            d.changed := true;
        END IF;
    ELSIF $1 = 5 THEN -- resolve
        IF state = 1 THEN
            word := 2;
        ELSIF state <> 4 THEN -- OK when it says what the record says
            word := CASE WHEN $3.done AND n.state = 2 AND n.code = $3.code
                              AND n.result = $3.result THEN 6
                         WHEN NOT $3.done AND n.state = 3 THEN 6
                         ELSE 3 END;
        ELSIF $3.fence <> 0 AND $3.fence <> n.fence THEN
            word := 7;
        ELSE
            word := 6;
            ended := CASE WHEN $3.done THEN 2 ELSE 3 END;
            answer := CASE WHEN $3.done THEN $3.result ELSE '' END;
            answer_code := CASE WHEN $3.done THEN $3.code ELSE 0 END;
            n.fence := $5;
        END IF;
    ELSIF $1 = 6 THEN -- forget
        IF $3.fence <> 0 AND $3.fence <> n.fence THEN
            word := 7;
        ELSIF $3.fence = 0 AND state = 1 THEN
            word := 2;
        ELSIF state = 4 THEN -- a doubt is never forgotten
            word := 4;
            d.changed := n.state <> 4;
            n.state := 4;
        ELSE
            word := 6;
            d.changed := true;
            n := ROW(n.ns, n.key, 0, 0, 0, 0, 0, 0, 0, 0, 0, decode(repeat('00', 32), 'hex'),
                     '', '', '', '', NULL)::once.operation;
        END IF;
    END IF;
    IF ended <> 0 THEN -- the retention counts from here (K4)
        n.state := ended;
        n.code := answer_code;
        n.result := answer;
        n.expires_ms := greatest(n.expires_ms, $4 + n.retention_ms);
        d.changed := true;
    END IF;
    IF word = 2 THEN
        d.retry_ms := least(n.lease_end_ms - $4, 1000);
    END IF;
    d.word := word;
    d.next := n;
    RETURN d;
END $$;
