-- SPDX-License-Identifier: Apache-2.0
--
-- What is over is removed by sweep, a bounded batch at a time, and what an operator looks at.
-- Nothing depends on a sweep: an operation that has expired is absent from that moment on.

-- Removes up to batch rows of each kind: operations that ended and whose retention is over,
-- messages that consumers need not know any more, messages of the outbox that were acknowledged a
-- day ago. How many in all; 0 is "nothing was left". Rows that someone holds are skipped. Never an
-- operation that runs or is in doubt (INV-4). What counts is the time that is written down: a
-- replica that takes over with a clock that is behind does not see a removed operation as one that
-- is not due yet.
CREATE FUNCTION once.sweep(batch integer DEFAULT 1000) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off AS $$
DECLARE
    cut bigint;
    gone bigint;
    swept bigint := 0;
BEGIN
    IF ($1 BETWEEN 1 AND 100000) IS NOT TRUE THEN
        PERFORM once.refuse('ERR_INVALID', 'a batch is between 1 and 100000 rows');
    END IF;
    PERFORM once.tick(), once.sweep_lanes($1);
    cut := coalesce(pg_sequence_last_value('once.clock_seq'), 0);
    DELETE FROM once.operation WHERE ctid = ANY (ARRAY(
        SELECT o.ctid FROM once.operation o WHERE o.state IN (2, 3) AND o.expires_ms <= cut
        ORDER BY o.expires_ms LIMIT $1 FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS gone = ROW_COUNT;
    swept := swept + gone;
    DELETE FROM once.message WHERE ctid = ANY (ARRAY(
        SELECT m.ctid FROM once.message m WHERE m.expires_ms <= cut
        ORDER BY m.expires_ms LIMIT $1 FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS gone = ROW_COUNT;
    swept := swept + gone;
    DELETE FROM once.outbox WHERE ctid = ANY (ARRAY(
        SELECT o.ctid FROM once.outbox o WHERE o.acked_ms <= cut - 86400000
        ORDER BY o.acked_ms LIMIT $1 FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN swept + gone;
END $$;

-- ---- Views: what the caller's role may see of them ----------------------------------------------

CREATE FUNCTION once.time_of(ms bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT to_timestamp($1 / 1000.0)
$$;

-- Someone started these and vanished. Find out what happened, then once.resolve.
CREATE VIEW once.doubts WITH (security_barrier) AS
    SELECT o.ns, o.key, o.fence, o.attempt, once.text_of(o.owner) AS owner,
           once.text_of(o.point) AS point, once.time_of(o.created_ms) AS created,
           once.time_of(o.lease_end_ms) AS lease_ended
    FROM once.operation o
    WHERE o.state IN (1, 4) AND (o.state = 4 OR o.lease_end_ms <= (SELECT once.now_ms()))
          AND once.mine(o.ns)
    ORDER BY o.id;

-- Operations of each namespace. Reads the whole table. expired: the next sweeps remove them.
CREATE VIEW once.stats WITH (security_barrier) AS
    SELECT o.ns,
           count(*) FILTER (WHERE o.at = 1) AS started,
           count(*) FILTER (WHERE o.at = 2) AS completed,
           count(*) FILTER (WHERE o.at = 3) AS failed,
           count(*) FILTER (WHERE o.at = 4) AS doubt,
           count(*) FILTER (WHERE o.at = 0) AS expired,
           once.time_of(min(o.created_ms)) AS oldest
    FROM (SELECT r.ns, r.created_ms, once.state_at(r, (SELECT once.now_ms())) AS at
          FROM once.operation r) o
    GROUP BY o.ns
    HAVING once.mine(o.ns);

-- Messages that nobody has acknowledged yet. taken: a worker is at them.
CREATE VIEW once.waiting WITH (security_barrier) AS
    SELECT o.topic, count(*) AS waiting,
           count(*) FILTER (WHERE o.taken_until_ms > n.now_ms) AS taken,
           max(o.attempt) AS attempts, once.time_of(min(o.emitted_ms)) AS oldest
    FROM once.outbox o, (SELECT once.now_ms() AS now_ms) n
    WHERE o.acked_ms IS NULL
    GROUP BY o.topic
    HAVING once.mine(o.topic);
