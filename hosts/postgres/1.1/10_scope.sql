-- SPDX-License-Identifier: Apache-2.0
--
-- Tenants: a role that stands in once.scope uses the names that its rows allow, and no others
-- (K2). And what the functions of this version check and say.

-- "shop" allows the namespace shop and its scopes shop~...; "shop*" every name that begins with
-- shop; "*" all. A role without rows, of its own or of a role that it is a member of, may use all.
CREATE TABLE once.scope (
    role name NOT NULL,
    ns   text COLLATE "C" NOT NULL CHECK (ns ~ '^[!-~]+$' AND octet_length(ns) <= 64),
    PRIMARY KEY (role, ns)
);
COMMENT ON TABLE once.scope IS 'which namespaces a role may use; a role without rows may use all';

-- Whether there was ever a row is asked by every call, and costs nothing to ask of a sequence.
CREATE FUNCTION once.scope_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM nextval('once.scope_seq');
    RETURN NULL;
END $$;
CREATE TRIGGER scope_changed AFTER INSERT OR UPDATE ON once.scope
    FOR EACH STATEMENT EXECUTE FUNCTION once.scope_changed();

-- Who asks, for people: a function with the rights of its owner does not change these two.
CREATE FUNCTION once.caller() RETURNS name LANGUAGE sql STABLE AS $$
    SELECT CASE current_setting('role') WHEN 'none' THEN session_user
                                        ELSE current_setting('role')::name END
$$;

-- The rows of a role, and of every role that it is a member of: who does not say SET ROLE is not
-- let out by that.
CREATE FUNCTION once.scoped(role name, ns text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    allowed boolean;
BEGIN
    WITH RECURSIVE mine (oid) AS (
        SELECT r.oid FROM pg_roles r WHERE r.rolname = $1
        UNION
        SELECT m.roleid FROM pg_auth_members m JOIN mine ON m.member = mine.oid
    )
    SELECT bool_or(CASE WHEN s.ns LIKE '%*' THEN starts_with($2, left(s.ns, -1))
                        ELSE $2 = s.ns OR starts_with($2, s.ns || '~') END) INTO allowed
    FROM mine JOIN pg_roles r ON r.oid = mine.oid JOIN once.scope s ON s.role = r.rolname;
    RETURN coalesce(allowed, true);
END $$;

-- Both the role that logged in and the one that it took with SET ROLE must be allowed: a tenant
-- that takes a role without rows stays a tenant, and a pool that takes a tenant's role becomes
-- one. Asked by every function, which then has the rights of the owner, and not always a path of
-- its own.
CREATE OR REPLACE FUNCTION once.may(ns text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN pg_sequence_last_value('once.scope_seq') IS NULL
        OR (once.scoped(session_user, $1 COLLATE "C")
            AND (once.caller() = session_user OR once.scoped(once.caller(), $1 COLLATE "C")));
END $$;

-- The same for views and row level security, which ask with the rights of whoever looks.
CREATE FUNCTION once.mine(ns text) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN once.may($1);
END $$;

-- Names that are not namespaces or keys: of consumers, topics, messages, resources, machines,
-- entities and groups. 255 bytes, no control characters.
CREATE FUNCTION once.check_word(what text, word text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce($2, '') = '' THEN
        PERFORM once.refuse('ERR_INVALID', format('%s has at least one character', $1));
    ELSIF octet_length(convert_to($2, 'UTF8')) > 255 THEN
        PERFORM once.refuse('ERR_INVALID', format('%s has at most 255 bytes', $1));
    ELSIF $2 COLLATE "C" ~ E'[\\x01-\\x1f\\x7f]' THEN
        PERFORM once.refuse('ERR_INVALID',
                            format('a control character may not stand in %s', $1));
    END IF;
END $$;

-- The same of the name that decides whose it is.
CREATE FUNCTION once.check_scope(what text, word text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM once.check_word($1, $2);
    IF NOT once.may($2) THEN
        PERFORM once.refuse('ERR_DENIED', format('the role %I may not use %s %s', once.caller(),
            regexp_replace($1 COLLATE "C", '^an? ', 'the '), $2));
    END IF;
END $$;

-- A verdict that takes the caller's transaction back: its word and its number.
CREATE FUNCTION once.raise_word(number integer, word text, what text, about text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'ON' || lpad($1::text, 3, '0'), MESSAGE = $2 || ' ' || $3,
                          DETAIL = $4;
END $$;

-- 64 bits of a name, the same in every version of PostgreSQL: they are kept.
CREATE FUNCTION once.hash64(name text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT ('x' || encode(substr(sha256(convert_to($1, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint
$$;
