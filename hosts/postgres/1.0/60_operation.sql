-- SPDX-License-Identifier: Apache-2.0
--
-- The calls, in the caller's transaction. A begin that is not committed yet is seen by nobody: a
-- concurrent duplicate waits for its transaction to end, and then replays, or executes if it was
-- rolled back. Commit a begin without its complete, and the lease keeps others away until then.

-- What once.begin does with a key that is not new, and with arguments that are not plain.
CREATE FUNCTION once.begin_known(ns text, key text, fingerprint bytea, owner text, ttl_ms bigint,
                                 lease_ms bigint, on_doubt text) RETURNS once.verdict
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    v once.verdict;
    d once.decision;
    birth bigint := once.birth_ms($2);
BEGIN
    IF ($1 COLLATE "C" ~ '^[!-~]+$' AND octet_length($1) <= 64 AND $2 COLLATE "C" ~ '^[ -~]+$'
        AND octet_length($2) <= 255 AND once.may($1)) IS NOT TRUE THEN
        PERFORM once.refuse_name($1, $2);
    END IF;
    PERFORM once.check_begin($4, $5, $6, $7, birth, once.clock_ms());
    d := once.act(0::smallint, $1, $2, ROW(once.fingerprint_of($3),
        convert_to(coalesce($4, ''), 'UTF8'), birth, $5, $6, upper($7) = 'RETRY', 0, false, 0,
        ''::bytea, ''::bytea, ''::bytea, false, ''::bytea)::once.request, NULL, NULL);
    v.verdict := once.word_name(d.word);
    IF d.word IN (0, 4) THEN
        v.fence := (d.next).fence;
        v.attempt := (d.next).attempt;
        v.point := once.text_of((d.next).point);
        v.data := nullif((d.next).data, '');
    ELSIF d.word = 1 THEN
        v.code := (d.next).code;
        v.result := (d.next).result;
    ELSIF d.word = 2 THEN
        v.retry_ms := d.retry_ms;
    END IF;
    RETURN v;
END $$;

-- The same for a begin that made its row after it had waited: as if it came now.
CREATE FUNCTION once.begin_anew(ns text, key text, fingerprint bytea, owner text, ttl_ms bigint,
                                lease_ms bigint, on_doubt text) RETURNS once.verdict
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
    DELETE FROM once.operation o WHERE o.ns = $1 COLLATE "C" AND o.key = $2 COLLATE "C";
    RETURN once.begin_known($1, $2, $3, $4, $5, $6, $7);
END $$;

-- BUSY at once where once.begin would wait for another transaction.
CREATE FUNCTION once.begin_at_once(ns text, key text, fingerprint bytea, owner text, ttl_ms bigint,
                                   lease_ms bigint, on_doubt text) RETURNS once.verdict
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v once.verdict;
    before text := current_setting('lock_timeout');
BEGIN
    BEGIN
        PERFORM set_config('lock_timeout', '1ms', true);
        v := once.begin_known($1, $2, $3, $4, $5, $6, $7);
        PERFORM set_config('lock_timeout', before, true);
    EXCEPTION WHEN lock_not_available THEN
        v.verdict := 'BUSY';
        v.retry_ms := 100;
    END;
    RETURN v;
END $$;

-- A key is new nearly always, and then this is one INSERT: each further statement, and each expression
-- of one, is set up again in every transaction. Whoever waited for another transaction for 100 ms or
-- more comes again, and so does a key that is nearly too old.
CREATE FUNCTION once.begin(ns text, key text, fingerprint bytea DEFAULT NULL,
                           owner text DEFAULT NULL, ttl_ms bigint DEFAULT 86400000,
                           lease_ms bigint DEFAULT 30000, on_doubt text DEFAULT 'REJECT',
                           wait boolean DEFAULT true) RETURNS once.verdict
LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    v once.verdict;
BEGIN
    IF $8 IS FALSE THEN -- before any statement here: planning one waits for whoever locks the table
        RETURN once.begin_at_once($1, $2, $3, $4, $5, $6, $7);
    END IF;
    INSERT INTO once.operation AS o
    SELECT $1, $2, n.fence, 1, 1, n.fence, n.now, n.now OPERATOR(pg_catalog.+) $6, $5,
           greatest(n.now, n.birth) OPERATOR(pg_catalog.+) $5, 0, once.fingerprint_of($3),
           coalesce(pg_catalog.convert_to($4, 'UTF8'), ''), '', '', '', NULL
    FROM (SELECT pg_catalog.nextval('once.fence_seq') AS fence, once.clock_ms() AS now,
                 CASE WHEN pg_catalog.octet_length($2) OPERATOR(pg_catalog.=) 36
                      THEN once.birth_ms($2) ELSE -1 END AS birth) AS n
    WHERE $1 COLLATE pg_catalog."C" OPERATOR(pg_catalog.~) '^[!-~]+$'
          AND pg_catalog.octet_length($1) OPERATOR(pg_catalog.<=) 64
          AND $2 COLLATE pg_catalog."C" OPERATOR(pg_catalog.~) '^[ -~]+$'
          AND pg_catalog.octet_length($2) OPERATOR(pg_catalog.<=) 255
          AND ($4 IS NULL OR pg_catalog.octet_length(pg_catalog.convert_to($4, 'UTF8'))
                             OPERATOR(pg_catalog.<=) 64)
          AND $5 OPERATOR(pg_catalog.>=) 1 AND $5 OPERATOR(pg_catalog.<=) 315576000000
          AND $6 OPERATOR(pg_catalog.>=) 1 AND $6 OPERATOR(pg_catalog.<=) 604800000
          AND ($7 OPERATOR(pg_catalog.=) 'REJECT' OR $7 OPERATOR(pg_catalog.=) 'RETRY')
          AND n.now OPERATOR(pg_catalog.<=) 253402300799999
          AND (n.birth OPERATOR(pg_catalog.<) 0
               OR (n.now OPERATOR(pg_catalog.-) n.birth OPERATOR(pg_catalog.>=) -86400000
                   AND n.now OPERATOR(pg_catalog.-) n.birth
                       OPERATOR(pg_catalog.<) ($5 OPERATOR(pg_catalog.-) 100)))
          AND (pg_catalog.pg_sequence_last_value('once.scope_seq') IS NULL OR once.may($1))
    ON CONFLICT (ns, key) DO NOTHING
    RETURNING 'EXECUTE', o.fence,
              CASE WHEN once.clock_ms() OPERATOR(pg_catalog.-) o.created_ms
                        OPERATOR(pg_catalog.<) 100 THEN 1 END,
              NULL, NULL, NULL, NULL, NULL
    INTO v;
    IF v.attempt IS NOT NULL THEN
        RETURN v;
    ELSIF v.fence IS NOT NULL THEN
        RETURN once.begin_anew($1, $2, $3, $4, $5, $6, $7);
    END IF;
    RETURN once.begin_known($1, $2, $3, $4, $5, $6, $7);
END $$;

-- What once.complete does when its attempt is not simply running.
CREATE FUNCTION once.complete_known(ns text, key text, fence bigint, code integer, result bytea)
RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM once.check_name($1, $2);
    IF octet_length($5) > 16777216 THEN
        PERFORM once.refuse('ERR_FULL', 'the result is larger than 16 MiB');
    END IF;
    RETURN once.demand(1::smallint, $1, $2, ROW(NULL, NULL, -1, 0, 0, false, $3, false,
        coalesce($4, 0), coalesce($5, ''), NULL, NULL, false, NULL)::once.request);
END $$;

-- No sequential scan: a plan that was made while the table was small is kept for a whole session. The
-- states are written so that no partial index seems to fit: only the primary key is right here.
CREATE FUNCTION once.complete(ns text, key text, fence bigint, code integer DEFAULT 0,
                              result bytea DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
    UPDATE once.operation AS o
    SET state = 2, code = coalesce($4, 0), result = coalesce($5, ''), call = NULL,
        expires_ms = greatest(o.expires_ms, once.clock_ms() OPERATOR(pg_catalog.+) o.retention_ms)
    WHERE o.ns OPERATOR(pg_catalog.=) $1 COLLATE pg_catalog."C"
          AND o.key OPERATOR(pg_catalog.=) $2 COLLATE pg_catalog."C"
          AND o.fence OPERATOR(pg_catalog.=) $3 AND o.state OPERATOR(pg_catalog.<>) 2
          AND o.state OPERATOR(pg_catalog.<>) 3
          AND (pg_catalog.octet_length($5) OPERATOR(pg_catalog.<=) 16777216) IS NOT FALSE
          AND (pg_catalog.pg_sequence_last_value('once.scope_seq') IS NULL OR once.may($1));
    IF FOUND THEN
        RETURN 'OK';
    END IF;
    RETURN once.complete_known($1, $2, $3, $4, $5);
END $$;

-- Is the name one that can be, and the caller's?
CREATE FUNCTION once.check_name(ns text, key text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF ($1 COLLATE "C" ~ '^[!-~]+$' AND octet_length($1) <= 64 AND $2 COLLATE "C" ~ '^[ -~]+$'
        AND octet_length($2) <= 255
        AND (pg_sequence_last_value('once.scope_seq') IS NULL OR once.may($1))) IS NOT TRUE THEN
        PERFORM once.refuse_name($1, $2);
    END IF;
END $$;

CREATE FUNCTION once.fail(ns text, key text, fence bigint, reason text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    why bytea := convert_to(coalesce($4, ''), 'UTF8');
BEGIN
    PERFORM once.check_name($1, $2);
    IF octet_length(why) > 4096 THEN
        PERFORM once.refuse('ERR_FULL', 'the reason is larger than 4 KiB');
    END IF;
    RETURN once.demand(2::smallint, $1, $2, ROW(NULL, NULL, -1, 0, 0, false, $3, false, 0, why, NULL,
                                                NULL, false, NULL)::once.request);
END $$;

CREATE FUNCTION once.checkpoint(ns text, key text, fence bigint, point text,
                                data bytea DEFAULT NULL, after text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    step bytea := convert_to(coalesce($4, ''), 'UTF8');
    before bytea := convert_to(coalesce($6, ''), 'UTF8');
BEGIN
    PERFORM once.check_name($1, $2);
    IF octet_length(step) = 0 THEN
        PERFORM once.refuse('ERR_INVALID', 'the recovery point has no name');
    ELSIF octet_length(step) > 64 THEN
        PERFORM once.refuse('ERR_INVALID', 'the recovery point''s name is longer than 64 bytes');
    ELSIF octet_length(before) > 64 THEN
        PERFORM once.refuse('ERR_INVALID',
                            'the name of the point before is longer than 64 bytes');
    ELSIF octet_length($5) > 1048576 THEN
        PERFORM once.refuse('ERR_FULL', 'the recovery point''s data is larger than 1 MiB');
    END IF;
    RETURN once.demand(3::smallint, $1, $2, ROW(NULL, NULL, -1, 0, 0, false, $3, false, 0, '', step,
        coalesce($5, ''), $6 IS NOT NULL, before)::once.request);
END $$;

-- A longer lease; 0 gives it up with an unknown outcome.
CREATE FUNCTION once.renew(ns text, key text, fence bigint, lease_ms bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
BEGIN
    PERFORM once.check_name($1, $2);
    IF $4 IS NULL OR $4 < 0 OR $4 > 604800000 THEN
        PERFORM once.refuse('ERR_INVALID', 'the lease is not between 0 ms and 7 days');
    END IF;
    RETURN once.demand(4::smallint, $1, $2, ROW(NULL, NULL, -1, 0, $4, false, $3, false, 0, '', NULL,
                                                NULL, false, NULL)::once.request);
END $$;

-- Ends a doubt: it happened, with this answer, or it did not.
CREATE FUNCTION once.resolve(ns text, key text, done boolean, code integer DEFAULT 0,
                             result bytea DEFAULT NULL, fence bigint DEFAULT 0) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
BEGIN
    PERFORM once.check_name($1, $2);
    IF $3 IS NULL THEN
        PERFORM once.refuse('ERR_INVALID', 'say whether it was done: true or false');
    ELSIF octet_length($5) > 16777216 THEN
        PERFORM once.refuse('ERR_FULL', 'the result is larger than 16 MiB');
    END IF;
    RETURN once.demand(5::smallint, $1, $2, ROW(NULL, NULL, -1, 0, 0, false, coalesce($6, 0), $3,
        coalesce($4, 0), coalesce($5, ''), NULL, NULL, false, NULL)::once.request);
END $$;

CREATE FUNCTION once.forget(ns text, key text, fence bigint DEFAULT 0) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
BEGIN
    PERFORM once.check_name($1, $2);
    RETURN once.demand(6::smallint, $1, $2, ROW(NULL, NULL, -1, 0, 0, false, coalesce($3, 0), false,
        0, '', NULL, NULL, false, NULL)::once.request);
END $$;

CREATE FUNCTION once.get(ns text, key text)
RETURNS TABLE (state text, fence bigint, attempt integer, code integer, owner bytea, point bytea,
               data bytea, result bytea, created_ms bigint, lease_end_ms bigint,
               retention_ms bigint, expires_ms bigint, fingerprint bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    now bigint := once.clock_ms();
BEGIN
    PERFORM once.check_name($1, $2);
    RETURN QUERY
        SELECT once.state_name(once.state_at(o, now)), o.fence, o.attempt, o.code, o.owner, o.point,
               o.data, o.result, o.created_ms, o.lease_end_ms, o.retention_ms, o.expires_ms,
               o.fingerprint
        FROM once.operation o
        WHERE o.ns = $1 COLLATE "C" AND o.key = $2 COLLATE "C" AND once.state_at(o, now) <> 0;
END $$;
