// BullMQ: a thousand jobs, with priorities, delays, retries, a flow of parents and children, and events.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { FlowProducer, Queue, QueueEvents, Worker } from "bullmq";

// The authority of the store's certificate, if it speaks TLS.
const ca = process.env.REDIS_CA && readFileSync(process.env.REDIS_CA);
const connection = {
  host: "127.0.0.1",
  port: Number(process.env.REDIS_PORT),
  maxRetriesPerRequest: null,
  ...(ca && { tls: { ca } }),
};
const version = createRequire(import.meta.url)("bullmq/package.json").version;
const COUNT = 1000;

const queue = new Queue("numbers", { connection });
const events = new QueueEvents("numbers", { connection });
await events.waitUntilReady();

let done = 0;
let finish;
const finished = new Promise((resolve) => (finish = resolve));
const attempts = new Map();
const worker = new Worker(
  "numbers",
  async (job) => {
    attempts.set(job.id, (attempts.get(job.id) ?? 0) + 1);
    if (job.name === "fails once" && attempts.get(job.id) === 1) throw new Error("the first time");
    return job.data.number * 2;
  },
  { connection, concurrency: 10 },
);
worker.on("completed", () => ++done === COUNT + 21 && finish());
worker.on("error", (error) => {
  throw error;
});

await queue.addBulk(
  Array.from({ length: COUNT }, (_, number) => ({ name: "double", data: { number }, opts: { priority: number % 3 } })),
);
for (let number = 0; number < 10; number++) {
  await queue.add("later", { number }, { delay: 200 });
  await queue.add("fails once", { number }, { attempts: 3, backoff: 50 });
}
const last = await queue.add("waited for", { number: 21 });
assert.equal(await last.waitUntilFinished(events, 60000), 42);
const late = setTimeout(() => {
  throw new Error(`${done} jobs were done in 60 s`);
}, 60000);
await finished;
clearTimeout(late);
assert.ok([...attempts.values()].filter((count) => count === 2).length === 10);
const counts = await queue.getJobCounts();
assert.equal(counts.completed, COUNT + 21);
assert.equal(counts.failed + counts.waiting + counts.active + counts.delayed, 0);

const flow = new FlowProducer({ connection });
const tree = await flow.add({
  name: "parent",
  queueName: "numbers",
  data: { number: 1 },
  children: [1, 2, 3].map((number) => ({ name: "child", queueName: "numbers", data: { number } })),
});
assert.equal(await tree.job.waitUntilFinished(events, 60000), 2);
assert.deepEqual(Object.values(await tree.job.getChildrenValues()).sort(), [2, 4, 6]);

// Eleven at five in 300 ms take two pauses; what is due again and again comes until it is removed.
const slow = new Queue("slow", { connection });
await slow.addBulk(Array.from({ length: 11 }, (_, number) => ({ name: "one", data: { number } })));
await slow.upsertJobScheduler("again", { every: 50 }, { name: "again", data: {} });
const began = [];
let again = 0;
const slowWorker = new Worker(
  "slow",
  async (job) => (job.name === "again" ? again++ : began.push(job.processedOn)),
  { connection, limiter: { max: 5, duration: 300 } },
);
for (let turn = 0; turn < 600 && (began.length < 11 || again < 3); turn++) {
  await new Promise((resolve) => setTimeout(resolve, 50));
}
assert.ok(began.length === 11 && again >= 3, `${began.length} jobs, ${again} times again`);
// The worker's clock and the store's round differently.
assert.ok(Math.max(...began) - Math.min(...began) >= 580, `${began}`);
assert.ok(await slow.removeJobScheduler("again"));
assert.deepEqual(await slow.getJobSchedulers(), []);

for (const part of [worker, events, queue, flow, slowWorker, slow]) await part.close();
console.log(`BullMQ ${version}: ${COUNT} jobs, delays, retries, a flow, a limit and a schedule: ok`);
