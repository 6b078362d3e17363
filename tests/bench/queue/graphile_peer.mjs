// graphile-worker as its makers tune it for speed: 24 jobs at once, a local queue, batched completion.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { Counter, DSN, batches, say, timed, trickle } from "./driver.mjs";

const [command, given] = process.argv.slice(2);
const count = Number(given ?? 0);
const logger = new Logger(() => () => {});

async function enqueue() {
  const utils = await makeWorkerUtils({ connectionString: DSN, logger });
  if (command === "setup") await utils.migrate();
  if (command === "single")
    await timed(async () => {
      for (let begun = 0; begun < count; begun++) await utils.addJob("noop", { sent: 0 });
    });
  if (command === "bulk")
    await timed(async () => {
      for (const size of batches(count))
        await utils.addJobs(Array.from({ length: size }, () => ({ identifier: "noop", payload: { sent: 0 } })));
    });
  if (command === "trickle") await trickle(count, (sent) => utils.addJob("noop", { sent }));
  await utils.release();
}

async function work() {
  const counter = new Counter();
  const worker = {
    concurrentJobs: 24,
    maxPoolSize: 11,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  };
  const runner = await run({
    connectionString: DSN,
    logger,
    noHandleSignals: true,
    preset: { worker },
    taskList: { noop: async (payload) => counter.hit(payload.sent) },
  });
  await counter.untilIdle();
  await runner.stop();
}

async function query(text) {
  const client = new pg.Client(DSN);
  await client.connect();
  const { rows } = await client.query(text);
  await client.end();
  return rows;
}

if (command === "setup") await query("DROP SCHEMA IF EXISTS graphile_worker CASCADE");
if (command === "worker") await work();
else if (command === "left") say((await query('SELECT count(*)::int AS "left" FROM graphile_worker._private_jobs'))[0]);
else await enqueue();
process.exit(0);
