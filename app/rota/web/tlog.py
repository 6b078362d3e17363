"""`/log/…`: the transparency log for anyone's tools (c2sp.org/tlog-tiles), its entries for people."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import falcon
import jinja2
from falcon.asgi import Request, Response

from rota.acts.act import read_act
from rota.errors import MalformedError, TlogError
from rota.hub import Hub
from rota.secret import Secret
from rota.tlog.publication import Publication
from rota.tlog.strict import encoded, number
from rota.tlog.tiles import implied, parse_path
from rota.tlog.view import AbsentError, Proved, View

T = TypeVar("T")

FOREVER = "max-age=31536000, immutable"
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class CheckpointResource:
    """The newest checkpoint."""

    def __init__(self, view: View) -> None:
        """Serve this log's."""
        self._view = view

    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer the signed note, to be kept for two seconds at most."""
        _, data = await _asked(self._view.checkpoint)
        resp.content_type = "text/plain; charset=utf-8"
        resp.set_header("Cache-Control", "public, max-age=2")
        resp.data = data


class TileResource:
    """Tiles of hashes, which are public, and bundles of entries, which need tlog:read."""

    def __init__(self, view: View, publication: Publication, token: Secret) -> None:
        """Serve this log's."""
        self._view = view
        self._publication = publication
        self._token = token

    async def on_get(self, req: Request, resp: Response, path: str) -> None:
        """Answer a file's bytes, which never change; what the checkpoint does not imply is not there."""
        try:
            tile = parse_path(f"tile/{path}")
        except MalformedError as error:
            raise _absent(str(error)) from error
        if tile.level is None:
            require_read(req, self._token)
        checkpoint, _ = await _asked(self._view.checkpoint)
        if not implied(tile, checkpoint.size):
            raise _absent(f"the newest checkpoint has {checkpoint.size} entries and does not imply this tile")
        resp.data = await _asked(lambda: self._publication.read(tile))
        resp.content_type = "application/octet-stream"
        resp.set_header("Cache-Control", f"{'private' if tile.level is None else 'public'}, {FOREVER}")


class EntryResource:
    """One entry: a page for people, the proof for programs, and the very bytes."""

    def __init__(self, view: View, token: Secret) -> None:
        """Serve this log's."""
        self._view = view
        self._token = token
        environment = jinja2.Environment(
            loader=jinja2.PackageLoader("rota.web"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            enable_async=True,
        )
        self._template = environment.get_template("entry.html")

    async def on_get(self, req: Request, resp: Response, index: str) -> None:
        """Answer the page."""
        proved = await self._entry(req, index)
        resp.content_type = "text/html; charset=utf-8"
        resp.set_headers(
            {
                "Cache-Control": "no-store",
                "Content-Security-Policy": _POLICY,
                "Referrer-Policy": "no-referrer",
                "X-Content-Type-Options": "nosniff",
            }
        )
        resp.text = await self._template.render_async(**_shown(proved))

    async def on_get_proof(self, req: Request, resp: Response, index: str) -> None:
        """Answer a self-contained proof (c2sp.org/tlog-proof@v1)."""
        proved = await self._entry(req, index)
        resp.content_type = "text/plain; charset=utf-8"
        resp.set_header("Cache-Control", "no-store")
        resp.downloadable_as = f"{proved.index}.tlog-proof"
        resp.data = bytes(proved.proof)

    async def on_get_bytes(self, req: Request, resp: Response, index: str) -> None:
        """Answer the entry's bytes, as they were hashed."""
        proved = await self._entry(req, index)
        resp.content_type = "application/octet-stream"
        resp.set_header("Cache-Control", f"private, {FOREVER}")
        resp.downloadable_as = f"{proved.index}.entry"
        resp.data = proved.entry

    on_head = on_get
    on_head_proof = on_get_proof
    on_head_bytes = on_get_bytes

    async def _entry(self, req: Request, index: str) -> Proved:
        require_read(req, self._token)
        try:
            place = number(index)
        except MalformedError as error:
            raise _absent("an entry is named by its index, as 42") from error
        return await _asked(lambda: self._view.entry(place))


def add_routes(app: Any, hub: Hub, add: Callable[[Any, str, Any], None]) -> None:
    """Add the log's routes to a web process's app."""
    publication = Publication(hub.settings.tlog_directory)
    view, token = View(publication), hub.settings.tlog.read_token
    add(app, "/log/checkpoint", CheckpointResource(view))
    add(app, "/log/tile/{path:path}", TileResource(view, publication, token))
    entry = EntryResource(view, token)
    app.add_route("/log/entries/{index}", entry)
    app.add_route("/log/entries/{index}/proof", entry, suffix="proof")
    app.add_route("/log/entries/{index}/bytes", entry, suffix="bytes")


def require_read(req: Request, token: Secret) -> None:
    """Refuse who may not read entries: until there are accounts, who lacks the token of the settings."""
    if not token:
        raise falcon.HTTPForbidden(
            title="Entries are not served",
            description="Set tlog.read_token, and send it as Authorization: Bearer TOKEN.",
            headers={"Cache-Control": "no-store"},
        )
    sent = (req.auth or "").encode("latin-1").decode(errors="replace")
    scheme, _, given = sent.partition(" ")
    if scheme.casefold() != "bearer" or not token.matches(given.strip()):
        raise falcon.HTTPUnauthorized(
            title="Entries need a token",
            description="Send Authorization: Bearer TOKEN, with the value of tlog.read_token.",
            challenges=['Bearer realm="tlog"'],
            headers={"Cache-Control": "no-store"},
        )


async def _asked(question: Callable[[], T]) -> T:
    """Ask the files, in a thread; no answer that is not 200 may be kept by anyone."""
    try:
        return await asyncio.to_thread(question)
    except (AbsentError, FileNotFoundError) as error:
        reason = str(error) if isinstance(error, AbsentError) else "There is no such file."
        raise _absent(reason) from error
    except (TlogError, OSError) as error:
        raise falcon.HTTPServiceUnavailable(
            title="The log cannot be read",
            description="Its files are damaged or away. On a host of the hub, `rota tlog fsck` says more.",
            headers={"Cache-Control": "no-store"},
        ) from error


def _absent(reason: str) -> falcon.HTTPNotFound:
    return falcon.HTTPNotFound(
        title="Not in the log", description=reason, headers={"Cache-Control": "no-store"}
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
