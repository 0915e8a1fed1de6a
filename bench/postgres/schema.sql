-- SPDX-License-Identifier: Apache-2.0
-- A shop: accounts that pay, orders that belong to them; and the tables that people make by hand, one for
-- answers in the transaction of the effect, one for claims.
CREATE TABLE accounts (
    id      integer PRIMARY KEY,
    balance bigint NOT NULL CHECK (balance >= 0)
);
INSERT INTO accounts SELECT id, 1000000000000 FROM generate_series(1, :accounts) id;
CREATE TABLE orders (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account integer NOT NULL REFERENCES accounts,
    amount  bigint NOT NULL,
    created timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX orders_account ON orders (account);
CREATE TABLE answers (
    key     text PRIMARY KEY,
    code    integer,
    result  bytea,
    expires timestamptz NOT NULL
);
CREATE TABLE claims (
    key     text PRIMARY KEY,
    state   smallint NOT NULL,
    expires timestamptz NOT NULL
);
VACUUM ANALYZE accounts;
