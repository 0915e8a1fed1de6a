\set account random(1, :accounts)
\set amount random(1, 100)
\set number random(1, 9223372036854775807)
BEGIN;
INSERT INTO answers (key, expires) VALUES ('order-' || :number, now() + interval '24 hours') ON CONFLICT DO NOTHING;
UPDATE accounts SET balance = balance - :amount WHERE id = :account;
INSERT INTO orders (account, amount) VALUES (:account, :amount) RETURNING id \gset
UPDATE answers SET code = 201, result = convert_to(:id::text, 'UTF8') WHERE key = 'order-' || :number;
COMMIT;
