-- SPDX-License-Identifier: Apache-2.0
--
-- Arguments, where they enter: every refusal names the argument, the bound and the unit, and carries
-- the name of the error in its DETAIL.

CREATE FUNCTION once.version() RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT '1.0' $$;

CREATE FUNCTION once.refuse(error text, what text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING MESSAGE = $2, DETAIL = $1,
        ERRCODE = CASE WHEN $1 IN ('ERR_FULL', 'ERR_TOO_LARGE') THEN '54000'
                       WHEN $1 = 'ERR_DENIED' THEN '42501'
                       WHEN $1 = 'ERR_CLOCK' THEN '22008'
                       ELSE '22023' END;
END $$;

-- May the caller's role use this namespace?
CREATE FUNCTION once.may(ns text) RETURNS boolean LANGUAGE sql STABLE AS $$ SELECT true $$;

CREATE FUNCTION once.refuse_name(ns text, key text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce($1, '') = '' THEN
        PERFORM once.refuse('ERR_INVALID', 'a namespace has at least one character');
    ELSIF $1 COLLATE "C" !~ '^[!-~]+$' THEN
        PERFORM once.refuse('ERR_INVALID', 'a namespace holds printable ASCII without spaces');
    ELSIF octet_length($1) > 64 THEN
        PERFORM once.refuse('ERR_INVALID', 'a namespace has at most 64 characters');
    ELSIF coalesce($2, '') = '' THEN
        PERFORM once.refuse('ERR_KEY_EMPTY', 'a key has at least one character');
    ELSIF $2 COLLATE "C" ~ '^[ -~]{0,254}[^ -~]' THEN
        PERFORM once.refuse('ERR_KEY_CHARACTER', CASE
            WHEN $2 COLLATE "C" ~ E'^[ -~]*[\\x01-\\x1f\\x7f]'
            THEN 'a control character may not stand in a key'
            ELSE 'a byte outside ASCII may not stand in a key' END);
    ELSIF octet_length($2) > 255 THEN
        PERFORM once.refuse('ERR_KEY_TOO_LONG', 'a key has at most 255 characters');
    END IF;
    PERFORM once.refuse('ERR_DENIED', format('the role %I may not use the namespace %s',
        CASE current_setting('role') WHEN 'none' THEN session_user::text
                                     ELSE current_setting('role') END, $1));
END $$;

-- ---- Parts of the expressions of begin and complete ---------------------------------------------
--
-- These two are called in every business transaction. They, and what is written out in them, name the
-- schema of every operator, function and type: so they need no search_path of their own, which would
-- have to be set and taken back in each call. Text is compared by its bytes, whatever collation the
-- caller's has.

-- When a key that is a UUIDv7 was born; -1 of any other.
CREATE FUNCTION once.birth_ms(key text) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN $1 COLLATE pg_catalog."C" OPERATOR(pg_catalog.~)
             '^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-7[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$'
        THEN ('x0000' OPERATOR(pg_catalog.||) pg_catalog.substr($1, 1, 8)
              OPERATOR(pg_catalog.||) pg_catalog.substr($1, 10, 4))::bit(64)::bigint
        ELSE -1
    END
$$;

-- Of a request's bytes: 32 are taken as they are, any others are hashed, none is none.
CREATE FUNCTION once.fingerprint_of(bytes bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN $1 IS NULL OR pg_catalog.octet_length($1) OPERATOR(pg_catalog.=) 0
        THEN E'\\x0000000000000000000000000000000000000000000000000000000000000000'
             ::pg_catalog.bytea
        WHEN pg_catalog.octet_length($1) OPERATOR(pg_catalog.=) 32 AND $1 OPERATOR(pg_catalog.<>)
             E'\\x0000000000000000000000000000000000000000000000000000000000000000'
             ::pg_catalog.bytea
        THEN $1
        ELSE pg_catalog.sha256($1)
    END
$$;

-- Of a request: equal for equal JSON, whatever the order of its members and its spaces.
CREATE FUNCTION once.fingerprint(request jsonb) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $$
    SELECT pg_catalog.sha256(pg_catalog.convert_to($1::pg_catalog.text, 'UTF8'))
$$;

CREATE FUNCTION once.check_begin(owner text, ttl_ms bigint, lease_ms bigint, on_doubt text,
                                 birth_ms bigint, now_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF octet_length(convert_to($1, 'UTF8')) > 64 THEN
        PERFORM once.refuse('ERR_INVALID', 'the owner is longer than 64 bytes');
    ELSIF $2 IS NULL OR $2 < 1 OR $2 > 315576000000 THEN
        PERFORM once.refuse('ERR_INVALID', 'the retention (TTL) is not between 1 ms and 10 years');
    ELSIF $3 IS NULL OR $3 < 1 OR $3 > 604800000 THEN
        PERFORM once.refuse('ERR_INVALID', 'the lease is not between 1 ms and 7 days');
    ELSIF $4 IS NULL OR upper($4) NOT IN ('REJECT', 'RETRY') THEN
        PERFORM once.refuse('ERR_INVALID', 'the doubt policy is not REJECT or RETRY');
    ELSIF $6 < 0 OR $6 > 253402300799999 THEN
        PERFORM once.refuse('ERR_CLOCK', 'the system clock is outside the years 1970 to 9999');
    ELSIF $5 > $6 + 86400000 THEN
        PERFORM once.refuse('ERR_KEY_FUTURE',
            'the key (UUIDv7) says that it was born more than 24 h in the future: check the clock of '
            'the machine that made it');
    END IF;
END $$;

-- Bytes that should be text, for people: what is not UTF-8 is shown escaped.
CREATE FUNCTION once.text_of(bytes bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF octet_length($1) = 0 THEN
        RETURN NULL;
    END IF;
    RETURN convert_from($1, 'UTF8');
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN encode($1, 'escape');
END $$;

CREATE FUNCTION once.word_name(word smallint) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT (ARRAY['EXECUTE', 'REPLAY', 'BUSY', 'MISMATCH', 'DOUBT', 'TOO_OLD', 'OK', 'STALE',
                  'NOTFOUND'])[$1 + 1]
$$;

CREATE FUNCTION once.state_name(state smallint) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT (ARRAY['absent', 'started', 'completed', 'failed', 'doubt'])[$1 + 1]
$$;
