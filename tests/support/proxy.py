"""A TCP link to a server that can be made silent, as a cut cable makes it."""

import asyncio
import contextlib


class Proxy:
    """Forwards bytes both ways until it is muted; then it keeps what it gets, and says nothing."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    @classmethod
    async def start(cls, target: int) -> "Proxy":
        """Listen on loopback and forward to this port."""
        proxy = cls(target)
        proxy._server = await asyncio.start_server(proxy._accept, "127.0.0.1", 0)
        proxy.port = proxy._server.sockets[0].getsockname()[1]
        return proxy

    def mute(self) -> None:
        """Let nothing through any more, on old connections and on new ones."""
        self._open.clear()

    def heal(self) -> None:
        """Let everything through again, what was kept first."""
        self._open.set()

    async def stop(self) -> None:
        """Close every connection."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await self._open.wait()
            upstream, downstream = await asyncio.open_connection("127.0.0.1", self._target)
            try:
                await asyncio.gather(self._pump(reader, downstream), self._pump(upstream, writer))
            finally:
                downstream.close()
        writer.close()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            await self._open.wait()
            sink.write(data)
            await sink.drain()
        sink.close()
