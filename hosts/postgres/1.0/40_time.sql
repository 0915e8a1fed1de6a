-- SPDX-License-Identifier: Apache-2.0
--
-- Store time (INV-6): the database's clock, never before what was written down last. A replica that
-- takes over with a clock that is behind goes on from there.

-- For the functions of this schema, which have the rights of its owner: a part of their expressions.
CREATE FUNCTION once.clock_ms() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT greatest(pg_catalog.floor(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp())
                                     OPERATOR(pg_catalog.*) 1000.0::double precision)::bigint
                    OPERATOR(pg_catalog.+)
                    coalesce(pg_catalog.pg_sequence_last_value('once.ahead_seq'), 0),
                    coalesce(pg_catalog.pg_sequence_last_value('once.clock_seq'), 0))
$$;

-- Does what was decided at this time still hold when the row is held at last? A lease that began
-- while its owner waited may be over, and a key that was young enough may be too old.
CREATE FUNCTION once.timely(decided_ms bigint, birth_ms bigint, ttl_ms bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    now bigint := once.clock_ms();
BEGIN
    RETURN now OPERATOR(pg_catalog.-) $1 OPERATOR(pg_catalog.<) 100
        AND ($2 OPERATOR(pg_catalog.<) 0
             OR now OPERATOR(pg_catalog.-) $2 OPERATOR(pg_catalog.<) $3);
END $$;

CREATE FUNCTION once.now_ms() RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN once.clock_ms();
END $$;

-- Writes the time down: servers each second, sweep each time. One at a time, so that it never goes
-- back; who comes second leaves it to the first, but not for long: anybody can hold such a lock.
CREATE FUNCTION once.tick() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    now bigint := once.clock_ms();
BEGIN
    IF pg_try_advisory_xact_lock(hashtextextended('once.tick', 0))
       OR now > coalesce(pg_sequence_last_value('once.clock_seq'), 0) + 10000 THEN
        now := once.clock_ms();
        PERFORM setval('once.clock_seq', now);
    END IF;
    RETURN now;
END $$;

-- For tests, and for the owner of a restored database: what is NULL stays.
CREATE FUNCTION once.set_clock(ahead_ms bigint, last_ms bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    IF $1 IS NOT NULL THEN
        PERFORM setval('once.ahead_seq', $1);
    END IF;
    IF $2 IS NOT NULL THEN
        PERFORM setval('once.clock_seq', $2);
    END IF;
    RETURN once.clock_ms();
END $$;
