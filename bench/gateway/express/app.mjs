// SPDX-License-Identifier: Apache-2.0
// An application that keeps idempotency itself, as the manuals of Express, express-idempotency and its
// adapter for Redis say: app.mjs PORT REDIS_PORT. It answers what the service behind the gateway answers, in
// the same process, so that it has one hop less. What costs time and is not needed is off.
import express from "express";
import { idempotency, getSharedIdempotencyService } from "express-idempotency";
import adapterModule from "express-idempotency-redis-adapter";

const [port, redisPort] = process.argv.slice(2).map(Number);
const RedisAdapter = adapterModule.default ?? adapterModule;
const dataAdapter = new RedisAdapter({
  ttl: 86400,
  connectionConfig: { url: `redis://127.0.0.1:${redisPort}` },
});
await dataAdapter.connect();

const app = express();
app.disable("x-powered-by");
app.disable("etag");
app.use(express.json()); // the middleware compares bodies
app.use(idempotency({ dataAdapter }));
app.post("/", (request, response) => {
  if (getSharedIdempotencyService().isHit(request)) return; // the kept answer was sent
  response.status(201).type("application/json").send('{"id":"ch_1","object":"charge","status":"succeeded"}\n');
});
const server = app.listen(port, "127.0.0.1", 1024);
server.keepAliveTimeout = 600000;
process.on("SIGTERM", () => process.exit(0));
