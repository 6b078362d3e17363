// What every peer in Node is driven by: the commands of driver.py.
const IDLE = 1.5;
const MOST = 15;

export const DSN = process.env.BENCH_DSN;
export const wall = () => (performance.timeOrigin + performance.now()) / 1000;
export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
export const say = (values) => console.log(JSON.stringify(values));

export const batches = (count) =>
  Array.from({ length: Math.ceil(count / 1000) }, (_, index) => Math.min(1000, count - index * 1000));

export async function timed(work) {
  const began = performance.now();
  await work();
  say({ seconds: (performance.now() - began) / 1000 });
}

export async function trickle(count, enqueue) {
  for (let begun = 0; begun < count; begun++) {
    await enqueue(wall());
    await sleep(20 + Math.random() * 20);
  }
}

export class Counter {
  count = 0;
  first = 0;
  last = 0;
  pickups = [];
  over = false;

  hit(sent) {
    const now = wall();
    if (this.over) return;
    if (!this.count) this.first = now;
    this.last = now;
    this.count++;
    if (sent) this.pickups.push(now - sent);
    else if (now - this.first > MOST) this.over = true;
  }

  // pg-boss polls: it may be idle for longer between two jobs.
  async untilIdle(idle = IDLE) {
    console.log("READY");
    const before = process.cpuUsage();
    while (!this.over && !(this.count && wall() - this.last > idle)) await sleep(100);
    const used = process.cpuUsage(before);
    const { count, first, last, pickups } = this;
    say({ count, first, last, pickups, cpu: (used.user + used.system) / 1e6 });
  }
}
