\set account random(1, :accounts)
\set amount random(1, 100)
\set number random(1, 9223372036854775807)
BEGIN;
UPDATE accounts SET balance = balance - :amount FROM once.begin('orders', 'order-' || :number) AS o WHERE id = :account AND o.verdict = 'EXECUTE' RETURNING o.fence \gset
INSERT INTO orders (account, amount) VALUES (:account, :amount) RETURNING id, once.complete('orders', 'order-' || :number, :fence, 201, convert_to(id::text, 'UTF8'));
COMMIT;
