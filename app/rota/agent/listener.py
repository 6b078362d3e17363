"""What the agent answers, over HTTP on its private address: the hub's messages, and add-checkpoint.

Written out here because it is two routes: a framework would take more memory than the agent may.
"""

import asyncio
import contextlib
import re
import socket
from collections.abc import Awaitable, Callable

import structlog

from rota.wire.envelope import MOST

PATIENCE = 10.0  # seconds that a request may take to arrive
IDLE = 60.0  # seconds that a connection is kept without one
LONGEST_HEAD = 16_384  # bytes
MOST_PEERS = 64
_LINE = re.compile(rb"(POST|GET) (/[!-~]{0,200}) HTTP/1\.1")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([ -~\t]*?)[ \t]*")
IP_FREEBIND = 15  # the private address may come up after the agent

# What answers a body: status, content type, bytes.
Answered = tuple[int, str, bytes]
Handler = Callable[[bytes], Awaitable[Answered]]

log = structlog.get_logger("rota.agent")


class BadRequestError(Exception):
    """A request is not as it must be; the message says why."""


class Listener:
    """Serves POSTs to a few paths."""

    def __init__(self, routes: dict[str, Handler]) -> None:
        """Answer these paths."""
        self._routes = routes
        self._peers: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> None:
        """Listen. Raises OSError where the address cannot be had."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
        listening.settimeout(0)
        try:
            listening.bind((host, port))
        except OSError:
            listening.close()
            raise
        self._server = await asyncio.start_server(self._serve, sock=listening, limit=LONGEST_HEAD)

    async def close(self) -> None:
        """Stop listening; what is being answered is given up."""
        if self._server is not None:
            self._server.close()
        for task in self._peers:
            task.cancel()
        await asyncio.gather(*self._peers, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine of the loop
        self._peers.add(task)
        try:
            if len(self._peers) <= MOST_PEERS:
                while await self._one(reader, writer):
                    pass
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the peer went away, or took too long
        finally:
            self._peers.discard(task)
            writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                await writer.wait_closed()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether another may follow on this connection."""
        async with asyncio.timeout(IDLE):
            head = await reader.readuntil(b"\r\n\r\n")
        try:
            path, length, keep = read_head(head)
        except BadRequestError as error:
            await _write(writer, (400, "text/plain", f"{error}\n".encode()), keep=False)
            return False
        handler = self._routes.get(path)
        if handler is None:
            await _write(writer, (404, "text/plain", b"there is nothing here\n"), keep=False)
            return False
        async with asyncio.timeout(PATIENCE + length / 100_000):
            body = await reader.readexactly(length)
        await _write(writer, await handler(body), keep=keep)
        return keep


def read_head(head: bytes) -> tuple[str, int, bool]:
    """Return the path of a POST, its body's length, and whether to keep the connection.

    Raises BadRequestError for what is anything else than a plain POST with a length.
    """
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    line = _LINE.fullmatch(first)
    if line is None or line[1] != b"POST":
        raise BadRequestError("only POST is answered here, of HTTP/1.1")
    fields: dict[bytes, bytes] = {}
    for each in lines:
        field = _FIELD.fullmatch(each)
        if field is None or (name := field[1].lower()) in fields:
            raise BadRequestError("a header is malformed, or stands there twice")
        fields[name] = field[2]
    length = fields.get(b"content-length", b"")
    if b"transfer-encoding" in fields or not re.fullmatch(rb"[0-9]{1,8}", length) or int(length) > MOST:
        raise BadRequestError(f"a body has a Content-Length, {MOST} at most")
    return line[2].decode(), int(length), fields.get(b"connection", b"").lower() != b"close"


async def _write(writer: asyncio.StreamWriter, answered: Answered, *, keep: bool) -> None:
    status, kind, body = answered
    head = (
        f"HTTP/1.1 {int(status)} \r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        f"Cache-Control: no-store\r\nConnection: {'keep-alive' if keep else 'close'}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    async with asyncio.timeout(PATIENCE):
        await writer.drain()
