// SPDX-License-Identifier: Apache-2.0
// AWS Lambda Powertools idempotency with its cache persistence on node-redis, as it documents it.
// Reads an event a line, as JSON, invokes the handler with it, and prints what came back. Every
// execution, as opposed to an invocation, appends a line to the file EXECUTED.
import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { randomUUID } from 'node:crypto';
import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency';
import { CachePersistenceLayer } from '@aws-lambda-powertools/idempotency/cache';
import { createClient } from '@redis/client';

const client = createClient({ url: `redis://127.0.0.1:${process.env.CACHE_PORT}` });
client.on('error', () => {}); // it connects again by itself
await client.connect();

const persistenceStore = new CachePersistenceLayer({ client });
const config = new IdempotencyConfig({ eventKeyJmesPath: '["user", "productId"]' });

const createSubscriptionPayment = async (event) => {
  appendFileSync(process.env.EXECUTED, `${event.user} ${event.productId}\n`);
  if (event.fails) throw new Error('card declined');
  return { id: randomUUID(), productId: event.productId };
};

export const handler = makeIdempotent(
  async (event, _context) => {
    const payment = await createSubscriptionPayment(event);
    return { paymentId: payment.id, message: 'success', statusCode: 200 };
  },
  { persistenceStore, config });

const context = {
  functionName: 'payments', awsRequestId: randomUUID(), getRemainingTimeInMillis: () => 10000,
};
for await (const line of createInterface({ input: process.stdin })) {
  let result;
  try {
    result = await handler(JSON.parse(line), context);
  } catch (error) {
    result = { error: error.name, message: error.message };
  }
  console.log(JSON.stringify(result));
}
await client.close();
