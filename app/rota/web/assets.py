"""The files that pages need: style, scripts. Read once, and named in `assets/`."""

from hashlib import blake2b
from http import HTTPStatus
from importlib.resources import files

from falcon.asgi import Request, Response

from rota.access.scopes import Gate
from rota.web.endpoint import Answer, endpoint
from rota.web.problems import Problem

TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


class AssetResource:
    """One file, revalidated by its hash."""

    def __init__(self) -> None:
        """Read every file."""
        self._files: dict[str, tuple[bytes, str, str]] = {}
        for file in files("rota.web").joinpath("assets").iterdir():
            media = TYPES.get("." + file.name.rpartition(".")[2])
            if media is not None:
                data = file.read_bytes()
                self._files[file.name] = data, media, f'"{blake2b(data, digest_size=16).hexdigest()}"'

    @endpoint(
        Gate.PUBLIC,
        "A file that pages need",
        answers={200: Answer("The file.", media="*/*"), 304: Answer("It is as you have it.", media="")},
        limited=False,
    )
    async def on_get(self, req: Request, resp: Response, name: str) -> None:
        """Answer the file, or that it has not changed."""
        if name not in self._files:
            raise Problem(
                HTTPStatus.NOT_FOUND,
                "No such file",
                "There is no such file.",
                "Reload the page that names it.",
            )
        data, media, tag = self._files[name]
        resp.set_headers({"ETag": tag, "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"})
        if req.get_header("If-None-Match") == tag:
            resp.status = "304 Not Modified"
            return
        resp.content_type = media
        resp.data = data
