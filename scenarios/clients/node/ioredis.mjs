// ioredis: pipelines, transactions, scripts, streams, subscriptions, waiting.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import Redis from "ioredis";

// The authority of the store's certificate, if it speaks TLS.
const ca = process.env.REDIS_CA && readFileSync(process.env.REDIS_CA);
const place = { port: Number(process.env.REDIS_PORT), ...(ca && { tls: { ca } }) };
const version = createRequire(import.meta.url)("ioredis/package.json").version;
const redis = new Redis(place);
await redis.flushall();

assert.equal(await redis.set("k", "v", "EX", 100, "NX"), "OK");
assert.equal(await redis.getBuffer("k").then(String), "v");
assert.deepEqual(await redis.mget("k", "none"), ["v", null]);
await redis.hset("h", { a: 1, b: 2 });
assert.deepEqual(await redis.hgetall("h"), { a: "1", b: "2" });

const writes = redis.pipeline();
for (let number = 0; number < 1000; number++) writes.set(`key:${number}`, number);
assert.ok((await writes.exec()).every(([error, reply]) => error === null && reply === "OK"));
const found = new Set();
for await (const keys of redis.scanStream({ match: "key:*", count: 100 })) keys.forEach((key) => found.add(key));
assert.equal(found.size, 1000);

assert.deepEqual(await redis.multi().incr("n").incr("n").get("n").exec(), [[null, 1], [null, 2], [null, "2"]]);
const other = redis.duplicate();
await redis.watch("n");
await other.set("n", 10);
assert.equal(await redis.multi().incr("n").exec(), null);

redis.defineCommand("addTo", { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" });
assert.equal(await redis.addTo("n", 5), 15);
await redis.script("FLUSH");
assert.equal(await redis.addTo("n", 5), 20);

const first = await redis.xadd("stream", "*", "a", "1");
assert.deepEqual(await redis.xrange("stream", "-", "+"), [[first, ["a", "1"]]]);

const listener = new Redis(place);
const messages = [];
listener.on("message", (channel, message) => messages.push([channel, message]));
listener.on("pmessage", (pattern, channel, message) => messages.push([pattern, channel, message]));
await listener.subscribe("news");
await listener.psubscribe("n*s");
assert.equal(await redis.publish("news", "hello"), 2);

const waits = other.blpop("queue", 5);
await redis.rpush("queue", "job");
assert.deepEqual(await waits, ["queue", "job"]);
for (let turn = 0; turn < 100 && messages.length < 2; turn++) await new Promise((resolve) => setTimeout(resolve, 10));
assert.deepEqual(messages, [["news", "hello"], ["n*s", "news", "hello"]]);

for (const client of [redis, other, listener]) client.disconnect();
console.log(`ioredis ${version}: ok`);
