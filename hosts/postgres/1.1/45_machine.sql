-- SPDX-License-Identifier: Apache-2.0
--
-- State machines (S7): only declared moves run, and arriving where one already is does nothing.
-- One declaration serves any number of entities (orders, accounts); each begins in the first state
-- that the declaration names.

CREATE TABLE once.machine (
    name  text COLLATE "C" PRIMARY KEY,
    first text COLLATE "C" NOT NULL,
    moves text[] COLLATE "C" NOT NULL -- 'from>to', as declared
);

CREATE TABLE once.entity (
    machine  text COLLATE "C" NOT NULL,
    entity   text COLLATE "C" NOT NULL,
    state    text COLLATE "C" NOT NULL,
    moved_ms bigint NOT NULL,
    PRIMARY KEY (machine, entity)
);

CREATE FUNCTION once.machine_states(moves text[]) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN ARRAY(SELECT split_part(m COLLATE "C", '>', side)
                 FROM unnest($1) m, generate_series(1, 2) side GROUP BY 1);
END $$;

CREATE FUNCTION once.check_machine(machine text, moves text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    m text COLLATE "C";
BEGIN
    PERFORM once.check_scope('a machine', $1);
    IF coalesce(array_ndims($2), 0) <> 1 THEN
        PERFORM once.refuse('ERR_INVALID', 'a machine has at least one move: from>to');
    END IF;
    FOREACH m IN ARRAY $2 LOOP
        IF (m ~ '^[A-Za-z0-9_.:-]{1,32}>[A-Za-z0-9_.:-]{1,32}$') IS NOT TRUE THEN
            PERFORM once.refuse('ERR_INVALID', format('the move %s is not from>to; a state''s name '
                'is 1 to 32 characters of A-Z a-z 0-9 _ - . :', quote_nullable(m)));
        ELSIF split_part(m, '>', 1) = split_part(m, '>', 2) THEN
            PERFORM once.refuse('ERR_INVALID', format('the move %s leads nowhere', m));
        END IF;
    END LOOP;
    IF cardinality(once.machine_states($2)) > 64 THEN
        PERFORM once.refuse('ERR_FULL', 'a machine has at most 64 states');
    ELSIF cardinality($2) > 4096 THEN
        PERFORM once.refuse('ERR_FULL', 'a machine has at most 4096 moves');
    END IF;
END $$;

-- Declares a machine. true: now. false: it was declared like this. Another declaration is
-- rejected.
CREATE FUNCTION once.machine(machine text, moves text[]) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    begins_in text COLLATE "C" := split_part($2[array_lower($2, 1)] COLLATE "C", '>', 1);
BEGIN
    PERFORM once.check_machine($1, $2);
    INSERT INTO once.machine VALUES ($1, begins_in, $2)
    ON CONFLICT (name) DO NOTHING;
    IF FOUND THEN
        RETURN true;
    END IF;
    PERFORM FROM once.machine m WHERE m.name = $1 COLLATE "C" AND m.moves @> ($2 COLLATE "C")
        AND m.moves <@ ($2 COLLATE "C") AND m.first = begins_in;
    IF NOT FOUND THEN
        PERFORM once.raise_word(10, 'REJECTED', format('REDECLARED: the machine %s is declared '
            'already, and differently; machine_change declares it anew', $1),
            format('machine %s', $1));
    END IF;
    RETURN false;
END $$;

-- Declares it anew. Every entity stays where it is, so none may be in a state that is no more.
CREATE FUNCTION once.machine_change(machine text, moves text[]) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    stray record;
BEGIN
    PERFORM once.check_machine($1, $2);
    PERFORM pg_advisory_xact_lock(once.hash64('once.machine ' || $1));
    UPDATE once.machine m
    SET first = split_part($2[array_lower($2, 1)] COLLATE "C", '>', 1), moves = $2
    WHERE m.name = $1 COLLATE "C";
    IF NOT FOUND THEN
        PERFORM once.raise_word(8, 'NOTFOUND', 'there is no such machine',
                                format('machine %s', $1));
    END IF;
    SELECT e.entity, e.state INTO stray FROM once.entity e
    WHERE e.machine = $1 COLLATE "C" AND e.state <> ALL (once.machine_states($2) COLLATE "C")
    LIMIT 1;
    IF FOUND THEN
        PERFORM once.raise_word(10, 'REJECTED', format('NO_STATE: %s is in %s, which the new '
            'declaration does not name', stray.entity, stray.state), format('machine %s', $1));
    END IF;
    RETURN true;
END $$;

-- Where an entity is; the first state if it never moved.
CREATE FUNCTION once.state(machine text, entity text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
DECLARE
    at text;
BEGIN
    PERFORM once.check_scope('a machine', $1);
    PERFORM once.check_word('an entity', $2);
    SELECT coalesce(e.state, m.first) INTO at
    FROM once.machine m LEFT JOIN once.entity e ON e.machine = m.name AND e.entity = $2 COLLATE "C"
    WHERE m.name = $1 COLLATE "C";
    IF NOT FOUND THEN
        PERFORM once.raise_word(8, 'NOTFOUND', 'there is no such machine',
                                format('machine %s', $1));
    END IF;
    RETURN at;
END $$;

-- Rejects a move, and says what would be legal.
CREATE FUNCTION once.reject_move(m once.machine, entity text, at text, word text, what text)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM once.raise_word(10, 'REJECTED', format('%s: %s; it may move to %s', $4, $5,
        (SELECT coalesce(string_agg(split_part(d COLLATE "C", '>', 2), ', '), 'nowhere')
         FROM unnest($1.moves) d WHERE split_part(d COLLATE "C", '>', 1) = $3)),
        format('machine %s, entity %s', $1.name, $2));
END $$;

-- true: it moved. false: it was there already. What was not declared, or comes out of turn, is
-- REJECTED and takes the transaction back. The order of the checks is that of src/core/effect.c.
-- The entity is held until the transaction ends; so is the declaration, against a change of it, by
-- a lock that is not in the row: all moves of a machine would write to that one row.
CREATE FUNCTION once.move(machine text, entity text, from_state text, to_state text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    m once.machine;
    at text COLLATE "C";
    states text[] COLLATE "C";
    from_c text COLLATE "C" := $3;
    to_c text COLLATE "C" := $4;
    now bigint := once.now_ms();
BEGIN
    PERFORM once.check_scope('a machine', $1);
    PERFORM once.check_word('an entity', $2);
    PERFORM pg_advisory_xact_lock_shared(once.hash64('once.machine ' || $1));
    SELECT * INTO m FROM once.machine d WHERE d.name = $1 COLLATE "C";
    IF FOUND AND current_setting('transaction_isolation') IN ('repeatable read', 'serializable')
    THEN -- with an old snapshot the declaration may be an old one: 40001 then
        SELECT * INTO m FROM once.machine d WHERE d.name = $1 COLLATE "C" FOR SHARE;
    END IF;
    IF m.name IS NULL THEN
        PERFORM once.raise_word(8, 'NOTFOUND', 'there is no such machine; declare it with '
            'once.machine', format('machine %s, entity %s', $1, $2));
    END IF;
    INSERT INTO once.entity VALUES ($1, $2, m.first, now)
    ON CONFLICT (machine, entity) DO NOTHING;
    SELECT e.state INTO STRICT at FROM once.entity e
    WHERE e.machine = $1 COLLATE "C" AND e.entity = $2 COLLATE "C" FOR UPDATE;
    states := once.machine_states(m.moves);
    IF (from_c = ANY (states)) IS NOT TRUE OR (to_c = ANY (states)) IS NOT TRUE THEN
        PERFORM once.reject_move(m, $2, at, 'NO_STATE', format('%s has no state %s; %s is in %s',
            $1, coalesce(CASE WHEN from_c = ANY (states) THEN $4 ELSE $3 END, 'NULL'), $2, at));
    ELSIF to_c = at THEN
        RETURN false;
    ELSIF from_c || '>' || to_c <> ALL (m.moves COLLATE "C") THEN
        PERFORM once.reject_move(m, $2, at, 'NO_MOVE', format('%s has no move from %s to %s; %s is '
            'in %s', $1, $3, $4, $2, at));
    ELSIF from_c <> at THEN
        PERFORM once.reject_move(m, $2, at, 'ELSEWHERE', format('%s is in %s, not in %s', $2, at,
            $3));
    END IF;
    UPDATE once.entity e SET state = $4, moved_ms = now
    WHERE e.machine = $1 COLLATE "C" AND e.entity = $2 COLLATE "C";
    RETURN true;
END $$;
