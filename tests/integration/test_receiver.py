"""The receiver that other tests ask ends when it is told to, whatever its clients do."""

import asyncio

from tests.support.receiver import serving
from tests.support.wait import until

MUCH = 50_000_000  # bytes, more than any buffer takes of a client that does not read


async def test_a_client_that_does_not_read_its_answer_holds_nobody_up_for_ever() -> None:
    closing: list[asyncio.StreamWriter] = []

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x" * MUCH)
        closing.append(writer)

    async with asyncio.timeout(10):
        async with serving(serve) as port:
            _, client = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            await until(lambda: closing and closing[0].is_closing())
    client.close()
