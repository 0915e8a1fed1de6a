// SPDX-License-Identifier: Apache-2.0
// ioredis: node ioredis.mjs PORT. Ends with status 0 when all of it held.
import assert from 'node:assert/strict';
import Redis from 'ioredis';

const port = Number(process.argv[2]);
const client = new Redis({
  port, host: '127.0.0.1', connectionName: 'io', retryStrategy: null, maxRetriesPerRequest: 0,
});
client.on('error', (error) => { throw error; });
const ns = 'ioredis';

const [word, fence, attempt] = await client.call('ONCE.BEGIN', ns, 'a', 'FP', '100 EUR');
assert.deepEqual([word, attempt], ['EXECUTE', 1]);
assert.equal(await client.call('ONCE.COMPLETE', ns, 'a', fence, 201, 'ch_1'), 'OK');
assert.deepEqual(await client.call('ONCE.BEGIN', ns, 'a', 'FP', '100 EUR'), ['REPLAY', 201, 'ch_1']);
await assert.rejects(client.call('ONCE.COMPLETE', ns, 'none', 1, 201, 'x'), /^ReplyError: NOTFOUND/);

// A pipeline: answers in order.
const pipeline = client.pipeline();
for (let i = 0; i < 200; i++)
  pipeline.call('ONCE.BEGIN', ns, `p${i}`).set(`io-p${i}`, i, 'EX', 60, 'NX').get(`io-p${i}`);
const answers = await pipeline.exec();
assert.ok(answers.every(([error]) => error === null));
for (let i = 0; i < 200; i++) {
  assert.equal(answers[3 * i][1][0], 'EXECUTE');
  assert.deepEqual([answers[3 * i + 1][1], answers[3 * i + 2][1]], ['OK', String(i)]);
}

assert.equal(await client.set('io-v', 'mine', 'EX', 60, 'NX'), 'OK');
assert.equal(await client.set('io-v', 'theirs', 'EX', 60, 'NX'), null);
assert.deepEqual(await client.getBuffer('io-v'), Buffer.from('mine'));
assert.equal(await client.exists('io-v', 'io-none'), 1);
assert.equal(await client.unlink('io-v'), 1);
assert.match(await client.info(), /redis_version:/);
await client.quit();
console.log('ioredis: all held');
