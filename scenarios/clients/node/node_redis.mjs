// node-redis: RESP3, a cache beside the program, a pool, sets of commands, subscriptions, waiting; and limits of rates.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import Redis from "ioredis";
import { RateLimiterRedis } from "rate-limiter-flexible";
import { BasicClientSideCache, createClient, createClientPool } from "redis";

const require = createRequire(import.meta.url);
const version = (name) => require(`${name}/package.json`).version;
// The authority of the store's certificate, if it speaks TLS.
const ca = process.env.REDIS_CA && readFileSync(process.env.REDIS_CA);
const socket = { host: "127.0.0.1", port: Number(process.env.REDIS_PORT), ...(ca && { tls: true, ca }) };

async function until(what, isSo) {
  for (let turn = 0; turn < 500; turn++) {
    if (await isSo()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.fail(`not in 5 s: ${what}`);
}

for (const RESP of [2, 3]) {
  const client = await createClient({ socket, RESP }).connect();
  await client.flushAll();
  assert.equal(await client.set("k", "v", { expiration: { type: "EX", value: 100 }, condition: "NX" }), "OK");
  assert.equal(await client.set("k", "w", { condition: "NX" }), null);
  assert.equal(await client.hSet("h", { a: "1", b: "2" }), 2);
  assert.deepEqual({ ...(await client.hGetAll("h")) }, { a: "1", b: "2" });
  await client.zAdd("z", [{ score: 1, value: "one" }, { score: 2.5, value: "two" }]);
  assert.deepEqual(await client.zRangeWithScores("z", 0, -1), [{ value: "one", score: 1 }, { value: "two", score: 2.5 }]);
  await Promise.all(Array.from({ length: 1000 }, (_, number) => client.set(`key:${number}`, `${number}`)));
  let found = 0;
  for await (const keys of client.scanIterator({ MATCH: "key:*", COUNT: 100 })) found += keys.length;
  assert.equal(found, 1000);
  assert.deepEqual(await client.multi().incr("n").incr("n").get("n").exec(), [1, 2, "2"]);
  await client.xAdd("stream", "*", { a: "1" });
  await client.xGroupCreate("stream", "group", "0");
  const read = await client.xReadGroup("group", "me", { key: "stream", id: ">" });
  const entries = Array.isArray(read) ? read[0].messages : Object.values(read)[0];
  assert.equal(entries[0].message.a, "1");

  const listener = await client.duplicate().connect();
  const messages = [];
  await listener.subscribe("news", (message) => messages.push(message));
  assert.equal(await client.publish("news", "hello"), 1);
  await until("the message", () => messages.length === 1);
  const waits = client.duplicate();
  await waits.connect();
  const popped = waits.blPop("queue", 5);
  await client.rPush("queue", "job");
  assert.deepEqual({ ...(await popped) }, { key: "queue", element: "job" });
  for (const each of [client, listener, waits]) await each.close();
}

// What is read is kept here until somebody changes it.
const cache = new BasicClientSideCache({ maxEntries: 100 });
const cached = await createClient({ socket, RESP: 3, clientSideCache: cache }).connect();
const other = await createClient({ socket }).connect();
await other.set("shared", "1");
for (let turn = 0; turn < 10; turn++) assert.equal(await cached.get("shared"), "1");
assert.equal(cache.stats().hitCount, 9);
await other.set("shared", "2");
await until("what is cached is let go", async () => (await cached.get("shared")) === "2");
await other.flushAll();
await until("all of it", async () => (await cached.get("shared")) === null);
await cached.close();

const pool = await createClientPool({ socket, RESP: 3 }, { minimum: 2, maximum: 8 }).connect();
await Promise.all(Array.from({ length: 500 }, () => pool.incr("sum")));
assert.equal(await pool.get("sum"), "500");
await pool.close();
await other.close();
console.log(`node-redis ${version("redis")}, its cache and its pool: ok`);

// Of 50 at once, the limit's number is let through, whoever they are; it is lifted in time.
const storeClient = new Redis({ port: socket.port, ...(ca && { tls: { ca } }) });
const limiter = new RateLimiterRedis({ storeClient, points: 10, duration: 1, keyPrefix: "limit" });
const tries = await Promise.allSettled(Array.from({ length: 50 }, () => limiter.consume("somebody")));
assert.equal(tries.filter((one) => one.status === "fulfilled").length, 10);
assert.ok(tries.filter((one) => one.status === "rejected").every((one) => one.reason.msBeforeNext > 0));
await until("it is lifted", () => limiter.consume("somebody").then(() => true, () => false));
storeClient.disconnect();
console.log(`rate-limiter-flexible ${version("rate-limiter-flexible")}: ok`);
