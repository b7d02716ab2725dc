// ioredis: its Cluster, or a plain client behind the proxy.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import Redis from "ioredis";
import { serve } from "./counting.mjs";

const version = createRequire(import.meta.url)("ioredis/package.json").version;
const isCluster = process.argv[2] === "cluster";
const nodes = process.env.NODES.split(",").map((node) => ({ host: node.split(":")[0], port: Number(node.split(":")[1]) }));
const client = isCluster ? new Redis.Cluster(nodes) : new Redis(Number(process.env.PROXY_PORT));
client.on("error", () => {});

const pipeline = client.pipeline();
for (let number = 0; number < 50; number++) pipeline.set(`{p}${number}`, number);
assert.ok((await pipeline.exec()).every(([error]) => error === null));
assert.deepEqual(await client.mget("{p}1", "{p}2"), ["1", "2"]);
await client.del("{p}n");
assert.deepEqual(await client.multi().incr("{p}n").get("{p}n").exec(), [[null, 1], [null, "1"]]);
client.defineCommand("addTo", { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" });
assert.equal(await client.addTo("{p}n", 5), 6);
if (isCluster) {
    assert.equal(client.nodes("master").length, 3);
    await assert.rejects(client.mget("a", "b"), /CROSSSLOT|same slot/);
    const reader = new Redis.Cluster(nodes, { scaleReads: "slave" });
    for (let turn = 0; turn < 100 && (await reader.get("{p}7")) !== "7"; turn++) await new Promise((resolve) => setTimeout(resolve, 20));
    assert.equal(await reader.get("{p}7"), "7");
    reader.disconnect();
}

await serve(`ioredis ${version}`, (key) => client.incr(key), (key) => client.get(key));
