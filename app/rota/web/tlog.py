"""`/log/…`: the transparency log for anyone's tools (c2sp.org/tlog-tiles), its entries for people."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, TypeVar

from falcon.asgi import Request, Response

from rota.access.scopes import Gate, Scope
from rota.acts.act import read_act
from rota.errors import MalformedError, TlogError
from rota.hub import Hub
from rota.tlog.publication import Publication
from rota.tlog.strict import encoded, number
from rota.tlog.tiles import implied, parse_path
from rota.tlog.view import AbsentError, Proved, View
from rota.web.endpoint import HTML, Answer, Routes, endpoint
from rota.web.pages import Pages
from rota.web.problems import Problem

T = TypeVar("T")

FOREVER = "max-age=31536000, immutable"
TEXT = "text/plain; charset=utf-8"
BYTES = "application/octet-stream"


class CheckpointResource:
    """The newest checkpoint."""

    def __init__(self, view: View) -> None:
        """Serve this log's."""
        self._view = view

    @endpoint(
        Gate.PUBLIC,
        "The newest checkpoint of the transparency log (c2sp.org/tlog-checkpoint)",
        answers={200: Answer("A signed note.", media=TEXT), 404: Answer("Nothing is signed yet.")},
    )
    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer the signed note, to be kept for two seconds at most."""
        _, data = await asked(self._view.checkpoint)
        resp.content_type = TEXT
        resp.set_header("Cache-Control", "public, max-age=2")
        resp.data = data


class TileResource:
    """Tiles of hashes, which are public, and bundles of entries, which are not."""

    def __init__(self, view: View, publication: Publication) -> None:
        """Serve this log's."""
        self._view = view
        self._publication = publication

    @endpoint(
        Gate.PUBLIC,
        "A tile of hashes (c2sp.org/tlog-tiles)",
        answers={200: Answer("The tile.", media=BYTES)},
    )
    async def on_get_hashes(self, req: Request, resp: Response, path: str) -> None:
        """Answer a tile's bytes, which never change."""
        await self._answer(resp, path, "public")

    @endpoint(
        Scope.TLOG_READ,
        "A bundle of entries (c2sp.org/tlog-tiles)",
        answers={200: Answer("The bundle.", media=BYTES)},
    )
    async def on_get_entries(self, req: Request, resp: Response, path: str) -> None:
        """Answer a bundle's bytes, which never change."""
        await self._answer(resp, f"entries/{path}", "private")

    async def _answer(self, resp: Response, path: str, kept: str) -> None:
        """Answer a file; what the checkpoint does not imply is not there."""
        try:
            tile = parse_path(f"tile/{path}")
        except MalformedError as error:
            raise _absent(str(error)) from error
        checkpoint, _ = await asked(self._view.checkpoint)
        if not implied(tile, checkpoint.size):
            raise _absent(f"the newest checkpoint has {checkpoint.size} entries and does not imply this tile")
        resp.data = await asked(lambda: self._publication.read(tile))
        resp.content_type = BYTES
        resp.set_header("Cache-Control", f"{kept}, {FOREVER}")


class EntryResource:
    """One entry: a page for people, the proof for programs, and the very bytes."""

    def __init__(self, view: View, pages: Pages) -> None:
        """Serve this log's."""
        self._view = view
        self._pages = pages

    @endpoint(
        Scope.TLOG_READ,
        "An entry of the log, with its proof",
        answers={200: Answer("The page.", media=HTML)},
        page=True,
    )
    async def on_get(self, req: Request, resp: Response, index: str) -> None:
        """Answer the page."""
        self._pages.show(req, resp, "entry.html", **_shown(await self._entry(index)))

    @endpoint(
        Scope.TLOG_READ,
        "The self-contained proof of an entry (c2sp.org/tlog-proof)",
        answers={200: Answer("The proof.", media=TEXT)},
    )
    async def on_get_proof(self, req: Request, resp: Response, index: str) -> None:
        """Answer a proof that needs nothing else but the log's public key."""
        proved = await self._entry(index)
        resp.content_type = TEXT
        resp.set_header("Cache-Control", "no-store")
        resp.downloadable_as = f"{proved.index}.tlog-proof"
        resp.data = bytes(proved.proof)

    @endpoint(
        Scope.TLOG_READ,
        "The bytes of an entry, as they were hashed",
        answers={200: Answer("The bytes.", media=BYTES)},
    )
    async def on_get_bytes(self, req: Request, resp: Response, index: str) -> None:
        """Answer the entry's bytes."""
        proved = await self._entry(index)
        resp.content_type = BYTES
        resp.set_header("Cache-Control", f"private, {FOREVER}")
        resp.downloadable_as = f"{proved.index}.entry"
        resp.data = proved.entry

    async def _entry(self, index: str) -> Proved:
        try:
            place = number(index)
        except MalformedError as error:
            raise _absent("an entry is named by its index, as 42") from error
        return await asked(lambda: self._view.entry(place))


def add_routes(routes: Routes, hub: Hub, pages: Pages) -> None:
    """Add the log's routes to a web process's app."""
    publication = Publication(hub.settings.tlog_directory)
    view = View(publication)
    routes.add("/log/checkpoint", CheckpointResource(view))
    tiles = TileResource(view, publication)
    routes.add("/log/tile/{path:path}", tiles, suffix="hashes")
    routes.add("/log/tile/entries/{path:path}", tiles, suffix="entries")
    entry = EntryResource(view, pages)
    routes.add("/log/entries/{index}", entry)
    routes.add("/log/entries/{index}/proof", entry, suffix="proof")
    routes.add("/log/entries/{index}/bytes", entry, suffix="bytes")


async def asked(question: Callable[[], T]) -> T:
    """Ask the files, in a thread; no answer that is not 200 may be kept by anyone."""
    try:
        return await asyncio.to_thread(question)
    except (AbsentError, FileNotFoundError) as error:
        reason = str(error) if isinstance(error, AbsentError) else "There is no such file."
        raise _absent(reason) from error
    except (TlogError, OSError) as error:
        raise Problem(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "The log cannot be read",
            "Its files are damaged or away.",
            "On a host of the hub, `rota tlog fsck` says more.",
        ) from error


def _absent(reason: str) -> Problem:
    return Problem(
        HTTPStatus.NOT_FOUND, "Not in the log", reason, "/log/checkpoint says how many entries there are."
    )


def _shown(proved: Proved) -> dict[str, Any]:
    """Return what the page shows; an entry that no act of ours is stands there as text."""
    try:
        act = read_act(proved.entry)
    except MalformedError:
        act = None
    return {
        "index": proved.index,
        "act": act,
        "when": datetime.fromtimestamp(act.at / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        if act
        else "",
        "text": proved.entry.decode(errors="replace"),
        "leaf": encoded(proved.leaf),
        "path": [encoded(step) for step in proved.proof.path],
        "checkpoint": proved.proof.checkpoint.decode(errors="replace"),
        "origin": proved.checkpoint.origin,
        "size": proved.checkpoint.size,
    }
