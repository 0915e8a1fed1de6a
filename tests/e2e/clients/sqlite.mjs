// SPDX-License-Identifier: Apache-2.0
// The functions of Once from Node: sqlite.mjs EXTENSION DATABASE. The package has the interface of
// Node's own node:sqlite, and SQLite inside of it.
import assert from "node:assert/strict";
import { DatabaseSync } from "@photostructure/sqlite";

const [extension, path] = process.argv.slice(2);
const db = new DatabaseSync(path, { allowExtension: true });
db.enableLoadExtension(true);
db.loadExtension(extension);
db.enableLoadExtension(false);
db.exec("CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER); INSERT INTO account VALUES (42, 1000)");

const begin = db.prepare("SELECT once_begin('charges', ?, ?) AS answer");
const complete = db.prepare("SELECT once_complete('charges', ?, ?, 201, ?)");
const debit = db.prepare("UPDATE account SET balance = balance - ? WHERE id = 42");

function charge(key, amount) {
    db.exec("BEGIN IMMEDIATE");
    try {
        const verdict = JSON.parse(begin.get(key, `${amount} EUR`).answer);
        if (verdict.verdict === "EXECUTE") {
            debit.run(amount);
            complete.get(key, verdict.fence, `charged ${amount}`);
        }
        db.exec("COMMIT");
        return verdict;
    } catch (error) {
        db.exec("ROLLBACK");
        throw error;
    }
}

assert.equal(charge("order-1", 100).verdict, "EXECUTE");
for (let i = 0; i < 3; i++)
    assert.deepEqual(charge("order-1", 100), { verdict: "REPLAY", code: 201, result: "charged 100" });
assert.equal(charge("order-1", 900).verdict, "MISMATCH");
assert.equal(db.prepare("SELECT balance FROM account").get().balance, 900);
assert.throws(() => complete.get("order-1", 77, "x"), /STALE/);
assert.throws(() => complete.get("order-1", 1.5, "x"), /whole number/);
// A number of JavaScript is a double, also where it is whole.
assert.equal(db.prepare("SELECT once_begin('charges', 'order-2', NULL, NULL, ?, ?) AS answer")
    .get(86400000, 1000).answer, '{"verdict":"EXECUTE","fence":2,"attempt":1,"point":null,"data":null}');
db.function("receipt", (request) => JSON.stringify({ paid: JSON.parse(request).amount }));
const apply = db.prepare("SELECT once_apply('charges', 'order-3', ?, 'receipt') AS answer");
assert.equal(apply.get('{"amount": 5}').answer, '{"paid":5}');
assert.equal(apply.get('{ "amount":5 }').answer, '{"paid":5}');
db.close();
console.log("node: all held");
