\set account random(1, :accounts)
\set amount random(1, 100)
BEGIN;
UPDATE accounts SET balance = balance - :amount WHERE id = :account;
INSERT INTO orders (account, amount) VALUES (:account, :amount) RETURNING id;
COMMIT;
