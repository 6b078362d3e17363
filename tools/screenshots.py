"""Writes a picture of each page, light and dark, to docs/screenshots, from a hub made for it.

    .venv/bin/python tools/screenshots.py [NAME …]

A hub of two processes on PostgreSQL, both on loopback, with some acts in its log. Look at the pictures
before they are committed.
"""

import base64
import json
import struct
import sys
import tempfile
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from playwright.sync_api import BrowserContext, Page
from tests.support import access, browser
from tests.support.pair import Pair
from tests.support.postgres import Server

from rota.access.scopes import Scope

PLACE = Path(__file__).resolve().parent.parent / "docs" / "screenshots"
PAGES = {
    "home": "/",
    "acts": "/acts",
    "entry": "/log/entries/3",
    "queue": "/queue",
    "webhooks": "/webhooks",
    "rooms": "/rooms",
    "room": "/rooms/server-s2",
    "tokens": "/tokens",
    "settings": "/settings",
    "problem": "/acts?before=x",
}
WIDE, PHONE = {"width": 1200, "height": 800}, {"width": 360, "height": 740}
MOST = 100_000  # bytes of a picture

# Gives a picture's size, its 256 commonest colours, and for each pixel the number of the nearest of them.
PALETTE = """async (data) => {
  const bitmap = await createImageBitmap(await (await fetch(data)).blob());
  const { width, height } = bitmap;
  const context = new OffscreenCanvas(width, height).getContext("2d");
  context.drawImage(bitmap, 0, 0);
  const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) || 0) + 1);
  const colours = [...counts].sort((a, b) => b[1] - a[1]).map(([pixel]) => pixel);
  const parts = (pixel) => [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255];
  const palette = colours.slice(0, 256).map(parts);
  const far = (one, other) => one.reduce((sum, part, at) => sum + (part - other[at]) ** 2, 0);
  const nearest = new Map(colours.map((pixel) => {
    const wanted = parts(pixel);
    const best = palette.reduce((a, b, at) => (far(wanted, b) < far(wanted, palette[a]) ? at : a), 0);
    return [pixel, best];
  }));
  let text = "";
  for (const pixel of pixels) text += String.fromCharCode(nearest.get(pixel));
  return { width, height, palette, pixels: btoa(text) };
}"""


def main() -> int:
    """Write the pictures of the pages that are named, or of all."""
    wanted = sys.argv[1:] or [*PAGES, "sign-in"]
    PLACE.mkdir(exist_ok=True)
    server = Server.create()
    try:
        with tempfile.TemporaryDirectory() as directory:
            pair = Pair.start(Path(directory), server, "web,worker", ROTA_LIMITS_SIGN_IN="0")
            try:
                _photograph(pair, wanted)
            finally:
                pair.kill()
    finally:
        server.destroy()
    large = [path.name for path in PLACE.glob("*.png") if path.stat().st_size > MOST]
    if large:
        print(f"larger than {MOST} bytes: {', '.join(large)}", file=sys.stderr)
    return 1 if large else 0


def _photograph(pair: Pair, wanted: list[str]) -> None:
    access.account(pair.environ, "ada", Scope.ADMIN)
    port, _ = pair.ports
    with browser.chromium() as chromium:
        for scheme in ("light", "dark"):
            with browser.visitor(chromium, [], color_scheme=scheme, viewport=WIDE) as context:
                if "sign-in" in wanted:
                    page = context.new_page()
                    page.goto(f"http://127.0.0.1:{port}/sign-in")
                    _picture(page, f"sign-in-{scheme}")
                    page.close()
                browser.sign_in(context, port, "ada")
                if scheme == "light":
                    _act(context, port)
                _take(context, port, wanted, scheme)
        with browser.visitor(chromium, [], color_scheme="light", viewport=PHONE) as context:
            browser.sign_in(context, port, "ada")
            _take(context, port, [name for name in wanted if name in ("home", "acts", "room")], "phone")


def _act(context: BrowserContext, port: int) -> None:
    """Do some things, so that there is something to see."""
    webhooks = context.new_page()
    webhooks.goto(f"http://127.0.0.1:{port}/webhooks")
    webhooks.get_by_label("Address").fill("https://203.0.113.7/rota")
    webhooks.get_by_role("button", name="Add").click()
    webhooks.get_by_role("button", name="Ping").click()
    webhooks.close()
    tokens = context.new_page()
    tokens.goto(f"http://127.0.0.1:{port}/tokens")
    tokens.get_by_label("Name").fill("continuous integration")
    tokens.get_by_label("queue:read").check()
    tokens.get_by_role("button", name="Make").click()
    tokens.close()
    room = context.new_page()
    room.goto(f"http://127.0.0.1:{port}/rooms/server-s2")
    browser.live(room)
    for choice in ("wait", "drain", "wait", "remove"):
        with room.expect_response("**/choices"):
            room.get_by_role("button", name=choice).click()
    room.close()


def _take(context: BrowserContext, port: int, names: list[str], suffix: str) -> None:
    for name in names:
        if name not in PAGES:
            continue
        page = context.new_page()
        answer = page.goto(f"http://127.0.0.1:{port}{PAGES[name]}")
        if answer is None or (not answer.ok and name != "problem"):
            print(f"{name}: {json.dumps(answer.status if answer else None)}", file=sys.stderr)
            page.close()
            continue
        if page.locator("#live").count():
            browser.live(page)
        _picture(page, f"{name}-{suffix}")
        page.close()


def _picture(page: Page, name: str) -> None:
    """Write a picture of the page, with a palette so that it is small."""
    # The settings name places of this machine, further down.
    whole = not name.startswith("settings")
    taken = base64.b64encode(page.screenshot(full_page=whole)).decode()
    blank = page.context.new_page()
    found = blank.evaluate(PALETTE, f"data:image/png;base64,{taken}")
    blank.close()
    width, pixels = found["width"], base64.b64decode(found["pixels"])
    rows = b"".join(b"\0" + pixels[at : at + width] for at in range(0, len(pixels), width))
    size = struct.pack(">IIBBBBB", width, found["height"], 8, 3, 0, 0, 0)
    palette = bytes(part for colour in found["palette"] for part in colour)
    parts = (b"IHDR", size), (b"PLTE", palette), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b"")
    (PLACE / f"{name}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


if __name__ == "__main__":
    sys.exit(main())
