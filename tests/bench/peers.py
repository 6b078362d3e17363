"""The same small route in other frameworks, for gunicorn to serve beside ours."""

from typing import Any

import falcon.asgi
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

PATH = "/health/process"
ANSWER = {"status": "serving"}


class _Bare:
    async def on_get(self, _: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.content_type = "application/json"
        resp.data = b'{"status":"serving"}'


falcon_app: Any = falcon.asgi.App()
falcon_app.add_route(PATH, _Bare())

fastapi_app = FastAPI()


@fastapi_app.get(PATH)
async def serving() -> dict[str, str]:
    return ANSWER


async def _starlette(_: object) -> JSONResponse:
    return JSONResponse(ANSWER)


starlette_app = Starlette(routes=[Route(PATH, _starlette)])
