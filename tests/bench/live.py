"""Live pages: what a thousand streams cost, and how long it takes from one process to pixels of another.

    python -m tests.bench.live [STREAMS [EVENTS]]

Two web processes on a private PostgreSQL, on loopback. One of them logs an act, and so publishes an event;
a reader of raw bytes and a page in Chromium listen to the other.
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page
from tests.bench.report import Line
from tests.support import access, browser
from tests.support.pair import Pair
from tests.support.postgres import Server
from tests.support.raw import Connection
from tests.support.sse import Stream
from tests.support.wait import wait_for

from rota.access.scopes import Scope
from rota.coordination.bus.announcer import PAUSE
from rota.web.streams import MOST_EACH

STREAMS, EVENTS = 1000, 100
MEMORY = 150.0  # MiB over the process without streams
LATE = 250.0  # milliseconds, at the 99th percentile
METRICS = "a-token-for-metrics"

# Notes when each row of the list came to be, in milliseconds since 1970.
WATCH = """() => {
  window.seen = {};
  const note = () => {
    for (const row of document.querySelectorAll("#live tr[id]")) window.seen[row.id] ||= Date.now();
  };
  note();
  const observer = new MutationObserver(() => requestAnimationFrame(note));
  observer.observe(document.getElementById("main"), { childList: true, subtree: true });
}"""
SEEN = """(id) => new Promise((resolve) => {
  const look = () => (window.seen[id] ? resolve(window.seen[id]) : setTimeout(look, 5));
  look();
})"""


def measure(streams: int = STREAMS, events: int = EVENTS) -> list[Line]:
    """Return every figure beside its promise."""
    server = Server.create()
    try:
        with tempfile.TemporaryDirectory() as directory:
            extra = {"ROTA_SERVER_METRICS_TOKEN": METRICS, "ROTA_LIMITS_CALLER": "0"}
            pair = Pair.start(Path(directory), server, **extra)
            try:
                return [*memory(pair, streams), *latency(pair, events)]
            finally:
                pair.kill()
    finally:
        server.destroy()


def pss(pair: Pair) -> float:
    """Return the MiB of the first process, the share of what it has together with others counted in parts."""
    total = 0
    for pid in pair.hubs[0].pids():
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        total += next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return total / 1024


def memory(pair: Pair, streams: int) -> list[Line]:
    """Open so many streams to one process and leave them idle; every account has as many as it may."""
    headers = [access.bearer(pair.environ, Scope.HUB_READ) for _ in range(-(-streams // MOST_EACH))]
    port, _ = pair.ports
    for header in headers[:2]:
        with Stream.of(port, "topic=acts", header) as stream:
            wait_for(lambda held=stream: held.id)  # type: ignore[misc]
    base = pss(pair)
    took, most = asyncio.run(_hold(pair, [headers[number // MOST_EACH] for number in range(streams)]))
    print(f"  {streams} streams opened in {took:.2f} s; {base:.0f} MiB without, {most:.0f} MiB with them")
    return [Line(f"{streams} idle streams: memory over base", most - base, "≤", MEMORY, "MiB")]


async def _hold(pair: Pair, headers: list[str]) -> tuple[float, float]:
    """Return the seconds that opening took, and the memory while all are open."""
    port, _ = pair.ports
    began = time.monotonic()

    async def opened(header: str) -> asyncio.StreamWriter:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET /live?topic=acts HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{header}\r\n\r\n".encode())
        await reader.readuntil(b"id: ")
        return writer

    writers = await asyncio.gather(*map(opened, headers))
    took = time.monotonic() - began
    found = pss(pair)
    for writer in writers:
        writer.close()
    return took, found


def latency(pair: Pair, events: int) -> list[Line]:
    """Log acts in one process; note when a reader, and when a page, of the other one sees each."""
    access.account(pair.environ, "ada", Scope.ADMIN)
    header = access.bearer(pair.environ, Scope.HUB_READ, Scope.ROOMS_WRITE)
    first, second = pair.ports
    heard, seen = list[float](), list[float]()
    with Stream.of(second, "topic=acts", header) as stream:
        for _ in range(events):
            began = time.time()
            _choose(first, header)
            stream.named("live")
            heard.append((time.time() - began) * 1000)
            time.sleep(2 * PAUSE)  # what comes faster than that is told once, at the end
    with browser.chromium() as chromium, browser.visitor(chromium, []) as context:
        page = browser.live(browser.sign_in(context, second, "ada", "/acts"))
        page.evaluate(WATCH)
        for _ in range(events):
            began = time.time()
            entry = _choose(first, header)
            seen.append(_seen(page, entry) - began * 1000)
            page.wait_for_timeout(1500)  # a person's pace: what comes faster is fetched together
    print(f"  heard {_shares(heard)}; on the page {_shares(seen)}")
    return [
        Line("act in one process to event in another, p99", _share(heard, 0.99), "≤", LATE, "ms"),
        Line("act in one process to pixels in another, p99", _share(seen, 0.99), "≤", LATE, "ms"),
    ]


def _choose(port: int, header: str) -> int:
    """Have an act logged; return its entry. Nobody is in the room, which changes nothing of that."""
    body = json.dumps({"choice": "wait"})
    with Connection(port) as connection:
        lines = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        connection.send(
            f"POST /api/rooms/bench/choices HTTP/1.1\r\nHost: h\r\n{header}\r\n{text}\r\n{body}".encode()
        )
        detail = str(json.loads(connection.answer().body)["detail"])
    return int(detail.split("entry ")[1].split(maxsplit=1)[0])


def _seen(page: Page, entry: int) -> float:
    return float(page.evaluate(SEEN, f"entry-{entry}"))


def _share(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _shares(values: list[float]) -> str:
    return ", ".join(f"p{share * 100:.0f} {_share(values, share):.0f} ms" for share in (0.5, 0.9, 0.99))


def main() -> int:
    """Return 1 when a promise is broken."""
    given = [int(word) for word in sys.argv[1:]]
    lines = measure(*given)
    for line in lines:
        print(f"  {line}")
    return 0 if all(line.kept for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
