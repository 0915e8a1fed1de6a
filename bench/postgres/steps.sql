\set account random(1, :accounts)
\set amount random(1, 100)
\set number random(1, 9223372036854775807)
BEGIN;
SELECT fence FROM once.begin('orders', 'order-' || :number) \gset
UPDATE accounts SET balance = balance - :amount WHERE id = :account;
INSERT INTO orders (account, amount) VALUES (:account, :amount) RETURNING id \gset
SELECT once.complete('orders', 'order-' || :number, :fence, 201, convert_to(:id::text, 'UTF8'));
COMMIT;
