// SPDX-License-Identifier: Apache-2.0
// node-redis: node node_redis.mjs PORT PROTOCOL. Ends with status 0 when all of it held.
import assert from 'node:assert/strict';
import { createClient } from 'redis';

const [port, protocol] = process.argv.slice(2).map(Number);
const client = createClient({
  url: `redis://127.0.0.1:${port}`, RESP: protocol, name: 'node',
  socket: { reconnectStrategy: false },
});
client.on('error', (error) => { throw error; });
await client.connect();

const once = (...words) => client.sendCommand(words.map(String));
const ns = `node-redis-${protocol}`;

// An operation and its retry.
const [word, fence, attempt, point, data] = await once('ONCE.BEGIN', ns, 'a', 'FP', '100 EUR');
assert.deepEqual([word, attempt, point, data], ['EXECUTE', 1, null, null]);
assert.equal(await once('ONCE.COMPLETE', ns, 'a', fence, 201, 'ch_1'), 'OK');
assert.deepEqual(await once('ONCE.BEGIN', ns, 'a', 'FP', '100 EUR'), ['REPLAY', 201, 'ch_1']);
assert.deepEqual(await once('ONCE.BEGIN', ns, 'a', 'FP', '999 EUR'), ['MISMATCH']);
await assert.rejects(once('ONCE.COMPLETE', ns, 'a', fence + 100, 201, 'x'), /STALE/);

// A hundred at once over one connection: one executes.
const words = await Promise.all(
  Array.from({ length: 100 }, () => once('ONCE.BEGIN', ns, 'b').then((verdict) => verdict[0])));
assert.equal(words.filter((w) => w === 'EXECUTE').length, 1);
assert.equal(words.filter((w) => w === 'BUSY').length, 99);

// A record is a map where the protocol has maps.
const record = await once('ONCE.GET', ns, 'a');
if (protocol === 3) assert.equal(record.state, 'completed');
else assert.equal(record[record.indexOf('state') + 1], 'completed');
assert.equal(await once('ONCE.GET', ns, 'none'), null);

// What Redis has.
assert.equal(await client.set(`${ns}-v`, 'mine', { NX: true, EX: 60 }), 'OK');
assert.equal(await client.set(`${ns}-v`, 'theirs', { NX: true, EX: 60 }), null);
assert.equal(await client.get(`${ns}-v`), 'mine');
assert.ok(await client.ttl(`${ns}-v`) > 50);
assert.deepEqual(await client.mGet([`${ns}-v`, `${ns}-none`]), ['mine', null]);
assert.equal(await client.del(`${ns}-v`), 1);
assert.equal(await client.ping(), 'PONG');
await client.close();
console.log(`node-redis RESP${protocol}: all held`);
