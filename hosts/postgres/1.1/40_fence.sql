-- SPDX-License-Identifier: Apache-2.0
--
-- Fencing tokens (S4). grant gives a larger token each time; guard, in the transaction that writes
-- to the resource, refuses whoever comes with one that is not above what has been there. Tokens of other
-- origin, such as the fence of a begin here or at a server, can be guarded too.

CREATE TABLE once.resource (
    name    text COLLATE "C" PRIMARY KEY,
    granted bigint NOT NULL, -- the last token given here; 0 is none
    seen    bigint NOT NULL  -- the largest that guard has met; 0 is none
);

-- From the sequence, so that a token is not given again where a transaction was rolled back and
-- its client does not know; and larger than whatever the resource has met.
CREATE FUNCTION once.grant(resource text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    token bigint;
BEGIN
    PERFORM once.check_scope('a resource', $1);
    INSERT INTO once.resource AS r VALUES ($1, 0, 0) ON CONFLICT (name) DO NOTHING;
    UPDATE once.resource r
    SET granted = greatest(nextval('once.fence_seq'), r.granted + 1, r.seen + 1)
    WHERE r.name = $1 COLLATE "C"
    RETURNING r.granted INTO token;
    IF token > 9007199254740991 THEN
        PERFORM once.refuse('ERR_OVERFLOW', 'the tokens of this resource are used up');
    END IF;
    RETURN token;
END $$;

-- Passes a token that is larger than any that has been there, and not older than the newest that was
-- granted: as GUARD of the core (S4), so a token guards one write, and a repeated write is refused
-- without a key. Any other is STALE. The resource is held until the transaction ends, so that a larger
-- token waits for this write, or this one meets it.
CREATE FUNCTION once.guard(resource text, token bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    met once.resource;
BEGIN
    PERFORM once.check_scope('a resource', $1);
    IF ($2 BETWEEN 1 AND 9007199254740991) IS NOT TRUE THEN
        PERFORM once.refuse('ERR_INVALID', 'a token is between 1 and 9007199254740991');
    END IF;
    INSERT INTO once.resource AS r VALUES ($1, 0, 0) ON CONFLICT (name) DO NOTHING;
    SELECT * INTO STRICT met FROM once.resource r WHERE r.name = $1 COLLATE "C" FOR UPDATE;
    IF $2 <= met.seen THEN
        PERFORM once.raise_word(7, 'STALE', format('%s has seen token %s, and %s is not above it',
            $1, met.seen, $2), format('resource %s, token %s', $1, $2));
    ELSIF $2 < met.granted THEN
        PERFORM once.raise_word(7, 'STALE', format('%s has granted token %s, and %s is older than '
            'that', $1, met.granted, $2), format('resource %s, token %s', $1, $2));
    END IF;
    UPDATE once.resource r SET seen = $2 WHERE r.name = $1 COLLATE "C";
    RETURN true;
END $$;
