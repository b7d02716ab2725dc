// node-redis: its cluster client, or a plain one behind the proxy.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { createClient, createCluster } from "redis";
import { serve } from "./counting.mjs";

const version = createRequire(import.meta.url)("redis/package.json").version;
const isCluster = process.argv[2] === "cluster";
const client = isCluster
    ? createCluster({ rootNodes: process.env.NODES.split(",").map((node) => ({ url: `redis://${node}` })), useReplicas: false })
    : createClient({ url: `redis://127.0.0.1:${process.env.PROXY_PORT}` });
client.on("error", () => {});
await client.connect();

assert.equal(await client.set("{p}1", "1"), "OK");
assert.deepEqual(await client.mGet(["{p}1", "{p}none"]), ["1", null]);
await client.del("{p}n");
assert.deepEqual(await client.multi().incr("{p}n").get("{p}n").exec(), [1, "1"]);
assert.equal(await client.eval("return redis.call('GET', KEYS[1])", { keys: ["{p}1"] }), "1");
if (isCluster) assert.equal(client.masters.length, 3);

await serve(`node-redis ${version}`, (key) => client.incr(key), (key) => client.get(key));
