"""A receiver of webhooks on loopback that does what a test wants, and checks signatures by itself."""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Answer = Callable[["Received"], Awaitable[bytes]]


@dataclass(frozen=True)
class Received:
    """One request."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def document(self) -> dict[str, Any]:
        return dict(json.loads(self.body))

    def signed_with(self, secret: str) -> bool:
        """Tell whether the signature is one of this secret, by the published scheme and nothing of ours."""
        key = base64.b64decode(secret.split("_", 1)[1])
        signed = f"{self.id}.{self.headers['webhook-timestamp']}.".encode() + self.body
        wanted = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        return f"v1,{wanted}" in self.headers["webhook-signature"].split(" ")


def status(code: int, *headers: str) -> bytes:
    """Return an answer without a body."""
    lines = [f"HTTP/1.1 {code} Whatever", "Content-Length: 0", *headers, "", ""]
    return "\r\n".join(lines).encode()


async def thanks(_: Received) -> bytes:
    return status(204)


@dataclass
class Receiver:
    """Notes each request before it answers."""

    port: int = 0
    answer: Answer = thanks
    received: list[Received] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def of(self, kind: str) -> Iterator[Received]:
        """Yield the requests that tell of such an act."""
        return (each for each in self.received if each.document["type"] == kind)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection's one request."""
        self.connections += 1
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:-2])}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        one = Received(head[0], headers, body)
        self.received.append(one)
        writer.write(await self.answer(one))
        await writer.drain()


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve each connection this way, until the end of the block; give the port."""
    open_now: set[asyncio.Task[Any]] = set()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_now.add(task)
        # Also where it is cancelled in its last moment: whoever waits would wait for ever.
        task.add_done_callback(open_now.discard)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await serve(reader, writer)
        finally:
            if task.cancelling():
                writer.transport.abort()
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    server = await asyncio.start_server(one, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        while open_now:
            for task in tuple(open_now):
                task.cancel()
            await asyncio.wait(tuple(open_now))


@contextlib.asynccontextmanager
async def receiving(answer: Answer = thanks) -> AsyncIterator[Receiver]:
    """Run a receiver on loopback for the length of the block."""
    receiver = Receiver(answer=answer)
    async with serving(receiver.serve) as receiver.port:
        yield receiver
