-- SPDX-License-Identifier: Apache-2.0
--
-- The outbox (S3): emit writes a message in the transaction of the effect that it tells of; a
-- worker takes it under a lease, performs it outside under the message's id as the key, and
-- acknowledges it. A worker that vanishes leaves its messages to the next when the lease is over:
-- outside, too, a message may come twice, and its id says that it is the same.
--
-- Messages of one group of a topic are taken in the order of their commits, one at a time; those
-- without a group in any order, about the oldest first.

CREATE TABLE once.outbox (
    id             bigint PRIMARY KEY,
    topic          text COLLATE "C" NOT NULL,
    grp            text COLLATE "C",           -- NULL: no order
    lane           bigint NOT NULL,            -- of a group: where it stands on the ring of groups
    payload        jsonb NOT NULL,
    emitted_ms     bigint NOT NULL,
    attempt        integer NOT NULL DEFAULT 0, -- how often it was taken
    token          bigint NOT NULL DEFAULT 0,  -- of who took it last
    taken_until_ms bigint NOT NULL DEFAULT 0,
    acked_ms       bigint
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE INDEX outbox_free ON once.outbox (topic, id) WHERE grp IS NULL AND acked_ms IS NULL;
CREATE INDEX outbox_grouped ON once.outbox (topic, lane, grp, id)
    WHERE grp IS NOT NULL AND acked_ms IS NULL;
CREATE INDEX outbox_acked ON once.outbox (acked_ms) WHERE acked_ms IS NOT NULL;

-- The message's id. Transactions that emit to one group go one after the other, so that the order
-- of ids in a group is the order of commits: a worker never meets a smaller id after a larger one.
CREATE FUNCTION once.emit(topic text, payload jsonb, "group" text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    number bigint;
    now bigint;
BEGIN
    PERFORM once.check_scope('a topic', $1);
    IF $2 IS NULL THEN
        PERFORM once.refuse('ERR_INVALID', 'there is no payload');
    ELSIF octet_length(convert_to($2::text, 'UTF8')) > 262144 THEN
        PERFORM once.refuse('ERR_FULL', 'a payload has at most 262144 bytes');
    END IF;
    IF $3 IS NOT NULL THEN
        PERFORM once.check_word('a group', $3);
        PERFORM pg_advisory_xact_lock(once.hash64('once.outbox ' || octet_length($1) || $1 || $3));
    END IF;
    number := nextval('once.fence_seq');
    now := once.now_ms();
    INSERT INTO once.outbox (id, topic, grp, lane, payload, emitted_ms)
    VALUES (number, $1, $3, CASE WHEN $3 IS NULL THEN 0 ELSE once.hash64($3) END, $2,
            now);
    RETURN number;
END $$;

-- The first waiting message of groups, from a random place of the ring of groups on, so that none
-- is always last. Costs what it looks at: groups, not messages that wait behind their first.
CREATE FUNCTION once.take_grouped(topic text, batch integer, until_ms bigint, mark bigint,
                                  now_ms bigint) RETURNS SETOF once.outbox
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    start bigint := ((random() - 0.5) * 18446744073709549568)::bigint;
    at_lane bigint := start;
    at_grp text COLLATE "C" := '';
    round integer := 1;
    got integer := 0;
    looked integer := 0;
    head record;
    m once.outbox;
BEGIN
    WHILE got < $2 AND looked < $2 + 1000 LOOP
        SELECT o.id, o.lane, o.grp, o.taken_until_ms INTO head FROM once.outbox o
        WHERE o.topic = $1 COLLATE "C" AND o.grp IS NOT NULL AND o.acked_ms IS NULL
              AND (o.lane, o.grp) > (at_lane, at_grp)
        ORDER BY o.lane, o.grp, o.id LIMIT 1;
        IF NOT FOUND OR (round = 2 AND head.lane >= start) THEN
            EXIT WHEN round = 2;
            round := 2;
            at_lane := -9223372036854775808;
            at_grp := '';
            CONTINUE;
        END IF;
        at_lane := head.lane;
        at_grp := head.grp;
        looked := looked + 1;
        CONTINUE WHEN head.taken_until_ms > $5;
        SELECT * INTO m FROM once.outbox o
        WHERE o.id = head.id AND o.acked_ms IS NULL AND o.taken_until_ms <= $5
        FOR UPDATE SKIP LOCKED;
        IF FOUND THEN
            UPDATE once.outbox o SET attempt = o.attempt + 1, token = $4, taken_until_ms = $3
            WHERE o.id = head.id RETURNING * INTO m;
            got := got + 1;
            RETURN NEXT m;
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION once.take_free(topic text, batch integer, until_ms bigint, mark bigint,
                               now_ms bigint) RETURNS SETOF once.outbox
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY UPDATE once.outbox o SET attempt = o.attempt + 1, token = $4, taken_until_ms = $3
    WHERE o.id = ANY (ARRAY(
        SELECT f.id FROM once.outbox f
        WHERE f.topic = $1 COLLATE "C" AND f.grp IS NULL AND f.acked_ms IS NULL
              AND f.taken_until_ms <= $5
        ORDER BY f.id LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING o.*;
END $$;

-- Takes up to batch messages of a topic for lease_ms. Skips what others hold; waits for nobody.
CREATE FUNCTION once.take(topic text, batch integer DEFAULT 10, lease_ms bigint DEFAULT 30000)
RETURNS TABLE (id bigint, "group" text, payload jsonb, token bigint, attempt integer,
               emitted_ms bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    now bigint := once.now_ms();
    mark bigint;
    got bigint := 0;
    more bigint;
    grouped boolean := random() < 0.5; -- who comes first changes: neither starves
BEGIN
    PERFORM once.check_scope('a topic', $1);
    IF ($2 BETWEEN 1 AND 1000) IS NOT TRUE THEN
        PERFORM once.refuse('ERR_INVALID', 'a batch is between 1 and 1000 messages');
    ELSIF ($3 BETWEEN 1 AND 604800000) IS NOT TRUE THEN
        PERFORM once.refuse('ERR_INVALID', 'the lease is not between 1 ms and 7 days');
    END IF;
    mark := nextval('once.fence_seq');
    FOR turn IN 1..2 LOOP
        IF grouped THEN
            RETURN QUERY SELECT t.id, t.grp, t.payload, t.token, t.attempt, t.emitted_ms
                FROM once.take_grouped($1, $2 - got::integer, now + $3, mark, now) t;
        ELSE
            RETURN QUERY SELECT t.id, t.grp, t.payload, t.token, t.attempt, t.emitted_ms
                FROM once.take_free($1, $2 - got::integer, now + $3, mark, now) t;
        END IF;
        GET DIAGNOSTICS more = ROW_COUNT;
        got := got + more;
        EXIT WHEN got >= $2;
        grouped := NOT grouped;
    END LOOP;
END $$;

-- Holds the message for its taker, or says why not. NULL: it is acknowledged already, by this
-- token.
CREATE FUNCTION once.taken(id bigint, token bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    m once.outbox;
    about text := format('message %s, token %s', $1, $2);
BEGIN
    SELECT * INTO m FROM once.outbox o WHERE o.id = $1 FOR UPDATE;
    IF NOT FOUND OR NOT once.may(m.topic) THEN
        PERFORM once.raise_word(8, 'NOTFOUND', 'there is no such message', about);
    ELSIF $2 IS NULL OR m.token <> $2 THEN
        PERFORM once.raise_word(7, 'STALE', 'another worker has taken the message, or it was given '
            'back', about);
    END IF;
    RETURN CASE WHEN m.acked_ms IS NULL THEN true END;
END $$;

-- The message was performed. true: acknowledged now. false: it was already.
CREATE FUNCTION once.ack(id bigint, token bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    now bigint := once.now_ms();
BEGIN
    IF once.taken($1, $2) THEN
        UPDATE once.outbox o SET acked_ms = now WHERE o.id = $1;
        RETURN true;
    END IF;
    RETURN false;
END $$;

-- It was not performed: anyone may take it again, after delay_ms.
CREATE FUNCTION once.release(id bigint, token bigint, delay_ms bigint DEFAULT 0) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    now bigint := once.now_ms();
BEGIN
    IF ($3 BETWEEN 0 AND 604800000) IS NOT TRUE THEN
        PERFORM once.refuse('ERR_INVALID', 'the delay is not between 0 ms and 7 days');
    END IF;
    IF once.taken($1, $2) THEN
        UPDATE once.outbox o SET token = 0, taken_until_ms = now + $3 WHERE o.id = $1;
        RETURN true;
    END IF;
    RETURN false;
END $$;
