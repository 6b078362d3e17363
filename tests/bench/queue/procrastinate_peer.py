"""Procrastinate, with ten jobs at once."""

import asyncio
import logging

import procrastinate
import psycopg
from tests.bench.queue.driver import DSN, Counter, arguments, batches, say, timed, trickle

CONCURRENCY = 10

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=DSN, min_size=2, max_size=16))
counter = Counter()


@app.task(name="noop", pass_context=False)  # type: ignore[untyped-decorator, unused-ignore]
async def noop(sent: float = 0.0) -> None:
    counter.hit(sent)


async def setup() -> None:
    async with await psycopg.AsyncConnection.connect(DSN, autocommit=True) as connection:
        await connection.execute("DROP SCHEMA public CASCADE")
        await connection.execute("CREATE SCHEMA public")
    await app.schema_manager.apply_schema_async()


async def single(count: int) -> None:
    for _ in range(count):
        await noop.defer_async(sent=0)


async def bulk(count: int) -> None:
    for size in batches(count):
        await noop.batch_defer_async(*[{"sent": 0} for _ in range(size)])


async def work() -> None:
    working = asyncio.create_task(
        app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False, delete_jobs="successful")
    )
    await counter.until_idle()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


async def left() -> None:
    async with await psycopg.AsyncConnection.connect(DSN) as connection:
        query = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
        row = await (await connection.execute(query)).fetchone()
        assert row is not None
        say(left=row[0])


async def main() -> None:
    command, count = arguments()
    logging.disable(logging.INFO)
    async with app.open_async():
        if command in ("single", "bulk"):
            await timed(lambda: (single if command == "single" else bulk)(count))
        elif command == "trickle":
            await trickle(count, lambda sent: noop.defer_async(sent=sent))
        else:
            await {"setup": setup, "worker": work, "left": left}[command]()


if __name__ == "__main__":
    asyncio.run(main())
