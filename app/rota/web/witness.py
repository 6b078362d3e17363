"""A witness over HTTP (c2sp.org/tlog-witness): small enough to run anywhere, and to be embedded."""

import asyncio
import signal
from contextlib import suppress
from http import HTTPStatus

import structlog
from aiohttp import web

from rota.errors import MalformedError, RotaError
from rota.tlog.addcheckpoint import LONGEST, PATH, SIZE_TYPE, Refusal, Request, parse_request
from rota.tlog.notes import Signature
from rota.tlog.witness import Witness

log = structlog.get_logger("rota.witness")


def witness_app(witness: Witness) -> web.Application:
    """Return the app: add-checkpoint, and the newest cosigned checkpoint of each log."""
    app = web.Application(client_max_size=LONGEST + 1)

    async def add_checkpoint(request: web.Request) -> web.Response:
        try:
            asked = parse_request(await request.read())
        except MalformedError as error:
            return _text(HTTPStatus.BAD_REQUEST, str(error))
        return _answered(await _decided(witness, asked))

    async def newest(request: web.Request) -> web.Response:
        try:
            data = await asyncio.to_thread(witness.checkpoint, request.match_info["digest"])
        except (RotaError, OSError) as error:
            return _failed(error)
        if data is None:
            return _text(HTTPStatus.NOT_FOUND, "nothing is cosigned for this log")
        return web.Response(body=data, content_type="text/plain", charset="utf-8", headers=_NOT_KEPT)

    app.router.add_post(PATH, add_checkpoint)
    app.router.add_get("/{digest}/checkpoint", newest)
    return app


async def serve_witness(witness: Witness, host: str, port: int) -> None:
    """Serve until SIGTERM or Ctrl-C. Raises OSError where the address cannot be had."""
    runner = web.AppRunner(witness_app(witness), access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        log.info("witnessing", address=f"{host}:{port}")
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await stop.wait()
    finally:
        with suppress(OSError):
            await runner.cleanup()


_NOT_KEPT = {"Cache-Control": "no-store"}


async def _decided(witness: Witness, asked: Request) -> Signature | Refusal:
    """Let the witness decide, in a thread: it waits for its disk before it answers."""
    try:
        return await asyncio.to_thread(witness.add_checkpoint, asked)
    except (RotaError, OSError) as error:
        log.error("nothing cosigned", reason=str(error))  # noqa: TRY400 - the operator's to mend, not a crash
        return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "this witness cannot keep what it would say")


def _answered(decided: Signature | Refusal) -> web.Response:
    if isinstance(decided, Signature):
        return _text(HTTPStatus.OK, str(decided))
    if decided.size is not None:
        return web.Response(
            status=decided.status,
            body=f"{decided.size}\n".encode(),
            headers={**_NOT_KEPT, "Content-Type": SIZE_TYPE},
        )
    return _text(decided.status, decided.reason)


def _failed(error: Exception) -> web.Response:
    log.error("cannot answer", reason=str(error))
    return _text(HTTPStatus.SERVICE_UNAVAILABLE, "this witness cannot read what it kept")


def _text(status: HTTPStatus, line: str) -> web.Response:
    return web.Response(status=status, text=f"{line}\n", headers=_NOT_KEPT)
