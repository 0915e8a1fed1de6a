// SPDX-License-Identifier: Apache-2.0
// Stripe's own SDK, as npm has it: charges that are created at the same time, each as argv[2] says:
// [{port, key, amount, retries, timeout, options}]. Prints what became of each, as JSON: the charge
// or the error, and how many requests the SDK made for it.
import Stripe from 'stripe';

const calls = JSON.parse(process.argv[2]);

async function create({port, key, amount = 100, retries, timeout = 20000, metadata}) {
  const stripe = new Stripe('sk_test_once', {
    host: '127.0.0.1', port, protocol: 'http', timeout,
    ...(retries === undefined ? {} : {maxNetworkRetries: retries}),
  });
  let requests = 0;
  let sent;
  stripe.on('request', (event) => {
    requests++;
    sent = event.idempotency_key;
  });
  const options = key === undefined ? {} : {idempotencyKey: key};
  try {
    const charge = await stripe.charges.create(
      {amount, currency: 'eur', source: 'tok_visa', metadata}, options);
    return {requests, key: sent, charge, status: charge.lastResponse.statusCode,
            replayed: charge.lastResponse.headers['idempotent-replayed'] === 'true'};
  } catch (error) {
    return {requests, key: sent, error: error.constructor.name, type: error.rawType,
            code: error.code, status: error.statusCode, message: error.message};
  }
}

console.log(JSON.stringify(await Promise.all(calls.map(create))));
process.exit(0);
