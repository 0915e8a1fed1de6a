-- SPDX-License-Identifier: Apache-2.0
--
-- Once in PostgreSQL: the key and the effect in one transaction. What is kept.
--
-- An operation is named by (ns, key). Its numbers of states and words are those of
-- include/once/verdict.h; its bounds those of include/once/limits.h. Nobody but the owner of the
-- schema may touch the tables: the functions are the way in.

CREATE SCHEMA once;
COMMENT ON SCHEMA once IS 'Exactly-once effects: see docs/postgres.md of Once';

-- Fences increase for ever, in this database and on every replica that takes over from it: a fence is
-- logged before the commit that tells it. No cache: a fence that is drawn later is larger.
CREATE SEQUENCE once.fence_seq AS bigint MINVALUE 1 MAXVALUE 9007199254740991 NO CYCLE CACHE 1;

CREATE TABLE once.operation (
    ns           text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL,
    id           bigint NOT NULL,   -- the first fence; stays: the order of lists
    state        smallint NOT NULL, -- 1 started, 2 completed, 3 failed, 4 in doubt
    attempt      integer NOT NULL,
    fence        bigint NOT NULL,
    created_ms   bigint NOT NULL,
    lease_end_ms bigint NOT NULL,
    retention_ms bigint NOT NULL,
    expires_ms   bigint NOT NULL,   -- while running: the earliest possible expiry
    code         integer NOT NULL,
    fingerprint  bytea NOT NULL,    -- 32 bytes; all zero is none
    owner        bytea NOT NULL,    -- empty is anonymous
    point        bytea NOT NULL,    -- the last finished step
    data         bytea NOT NULL,
    result       bytea NOT NULL,    -- completed: the answer; failed: the reason
    call         uuid,              -- of the server's call that changed it last
    PRIMARY KEY (ns, key)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05,
        autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX operation_id ON once.operation (id);
CREATE INDEX operation_open ON once.operation (id) WHERE state IN (1, 4);
CREATE INDEX operation_ended ON once.operation (expires_ms) WHERE state IN (2, 3);

-- Store time is never before clock_seq, which servers and sweep move on; ahead_seq is what is added to
-- the system's clock, 0 but in tests. Sequences, because reading one costs nothing: every call does.
CREATE SEQUENCE once.clock_seq AS bigint MINVALUE 0 MAXVALUE 9007199254740991 START 0 CACHE 1;
CREATE SEQUENCE once.ahead_seq AS bigint MINVALUE -9007199254740991 MAXVALUE 9007199254740991
    START 0 CACHE 1;
-- Drawn from as soon as a role is confined to some namespaces: until then nobody needs to look.
CREATE SEQUENCE once.scope_seq AS bigint CACHE 1;

-- ---- What functions are given and give ----------------------------------------------------------

CREATE TYPE once.verdict AS (
    verdict  text, -- EXECUTE, REPLAY, BUSY, MISMATCH, DOUBT or TOO_OLD
    fence    bigint, attempt integer, point text, data bytea, -- with EXECUTE and DOUBT
    code     integer, result bytea,                           -- with REPLAY
    retry_ms bigint                                           -- with BUSY
);

-- What meets a record; struct once_request and what the calls of an owner say.
CREATE TYPE once.request AS (
    fingerprint bytea, owner bytea, birth_ms bigint, ttl_ms bigint, lease_ms bigint, retry boolean,
    fence bigint, done boolean, code integer, result bytea,
    point bytea, data bytea, follows boolean, after bytea
);

-- struct once_decision.
CREATE TYPE once.decision AS (
    word smallint, changed boolean, retry_ms bigint, next once.operation
);

-- The answer to one call of once.calls. A negative word is an enum once_err.
CREATE TYPE once.told AS (
    i integer, word smallint, now_ms bigint, fence bigint, attempt integer, retry_ms bigint,
    code integer, point bytea, data bytea, result bytea,
    state smallint, created_ms bigint, lease_end_ms bigint, retention_ms bigint, expires_ms bigint,
    owner bytea, fingerprint bytea
);
