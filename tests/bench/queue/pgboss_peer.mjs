// pg-boss with notifications, a thousand jobs a batch.
import pg from "pg";
import { PgBoss } from "pg-boss";
import { Counter, DSN, batches, say, timed, trickle } from "./driver.mjs";

const [command, given] = process.argv.slice(2);
const count = Number(given ?? 0);

async function query(text) {
  const client = new pg.Client(DSN);
  await client.connect();
  const { rows } = await client.query(text);
  await client.end();
  return rows;
}

async function work(boss) {
  const counter = new Counter();
  const options = { batchSize: 1000, pollingIntervalSeconds: 2, localConcurrency: 1, burstWhenBatchFull: true };
  await boss.work("noop", options, async (jobs) => {
    for (const job of jobs) counter.hit(job.data.sent);
  });
  await counter.untilIdle(4);
}

if (command === "left") {
  say((await query(`SELECT count(*)::int AS "left" FROM pgboss.job WHERE name = 'noop' AND state < 'completed'`))[0]);
  process.exit(0);
}
if (command === "setup") await query("DROP SCHEMA IF EXISTS pgboss CASCADE");
const boss = new PgBoss({ connectionString: DSN, useListenNotify: true });
boss.on("error", (error) => console.error(String(error)));
await boss.start();
if (command === "setup") await boss.createQueue("noop", { notify: true });
if (command === "single")
  await timed(async () => {
    for (let begun = 0; begun < count; begun++) await boss.send("noop", { sent: 0 });
  });
if (command === "bulk")
  await timed(async () => {
    for (const size of batches(count))
      await boss.insert("noop", Array.from({ length: size }, () => ({ data: { sent: 0 } })));
  });
if (command === "trickle") await trickle(count, (sent) => boss.send("noop", { sent }));
if (command === "worker") await work(boss);
await boss.stop({ graceful: false });
process.exit(0);
