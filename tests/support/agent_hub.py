"""A hub that exists only here, for one agent: it enrols it, proves releases, sends orders, hears reports."""

import asyncio
import base64
import io
import json
import secrets
import tarfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from aiohttp import web
from blake3 import blake3

from rota.artifacts import chunking
from rota.coordination.epoch import Epoch
from rota.releases import statement as statements
from rota.tlog.addcheckpoint import PATH, make_request
from rota.tlog.checkpoint import Checkpoint
from rota.tlog.keys import signer
from rota.tlog.merkle import consistency_proof, inclusion_proof, leaf_hash, range_root
from rota.tlog.notes import Note, sign_note
from rota.tlog.proof import Proof
from rota.tlog.tiles import Tile, parse_path
from rota.tlog.tree import Tree
from rota.wire import channel, request
from rota.wire.answer import Answer
from rota.wire.channel import Memory, Outgoing
from rota.wire.envelope import unseal
from rota.wire.keys import SigningKey
from rota.wire.statements import (
    Enrol,
    Enrolled,
    Health,
    Limits,
    Message,
    Place,
    Process,
    ReleaseStatement,
    Report,
    Rotate,
    Start,
    Stop,
)

NAME = "hub:test"
HEALTH = Health(start=10)
# Answers with its environment at /environ, and does as its path says.
SERVER = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/exit": os._exit(3)
        if self.path == "/sick": Handler.sick = True
        body = str(os.getpid()).encode()
        if self.path == "/environ": body = open("/proc/self/environ", "rb").read()
        self.send_response(500 if getattr(Handler, "sick", False) else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): print("asked", self.path, flush=True)
print("listening", flush=True)
http.server.HTTPServer((os.environ["HOST"], int(os.environ["PORT"])), Handler).serve_forever()
"""


def packed(files: Mapping[str, str]) -> bytes:
    """Return an artifact of these files."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, text in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(text.encode()), 0o755
            archive.addfile(info, io.BytesIO(text.encode()))
    return target.getvalue()


@dataclass
class FakeHub:
    """One hub and its log."""

    key: SigningKey = field(default_factory=SigningKey.new)
    log_seed: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    origin: str = "test.example/log"
    url: str = ""
    token: str = "the-token"
    keys: list[str] = field(default_factory=list)
    memory: Memory | None = None
    session_out: str = ""
    seq: int = 0
    epoch: Epoch = field(default_factory=lambda: Epoch(1, 1))
    first_port: int = 20000
    entries: list[bytes] = field(default_factory=list)
    artifacts: dict[str, bytes] = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)
    enrols: list[Enrol] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    refuses: bool = False

    @property
    def signer(self) -> Any:
        return signer(self.origin, self.log_seed)

    def invitation(self, name: str) -> bytes:
        return json.dumps(
            {
                "name": name,
                "address": "127.0.0.1",
                "token": self.token,
                "hub": NAME,
                "url": self.url,
                "hub_keys": [self.key.public],
                "log_key": str(self.signer.verifier),
            }
        ).encode()

    # The log.

    def tree(self, size: int | None = None) -> tuple[Checkpoint, Note]:
        size = len(self.entries) if size is None else size
        root = range_root(0, size, self._hash)
        checkpoint = Checkpoint(self.origin, size, root)
        return checkpoint, sign_note(str(checkpoint), [self.signer])

    def _hash(self, level: int, index: int) -> bytes:
        if level == 0:
            return leaf_hash(self.entries[index])
        return sha256(
            b"\x01" + self._hash(level - 1, 2 * index) + self._hash(level - 1, 2 * index + 1)
        ).digest()

    def proof(self, index: int, size: int | None = None) -> str:
        checkpoint, note = self.tree(size)
        path = inclusion_proof(index, checkpoint.size, self._hash)
        return bytes(Proof(index, tuple(path), str(note).encode())).decode()

    def fill(self, count: int) -> None:
        self.entries += [f"entry {len(self.entries)}-{number}".encode() for number in range(count)]

    def tile(self, tile: Tile) -> bytes | None:
        tree, found = Tree(), dict[Tile, bytes]()
        for entry in self.entries[: (tile.number * 256 + tile.width) * 256 ** (tile.level or 0)]:
            found.update(tree.add(entry))
        found.update(tree.partial())
        return found.get(tile)

    # Releases.

    def release(
        self,
        number: int = 1,
        files: Mapping[str, str] | None = None,
        command: str = "/usr/bin/python3 -u server.py",
        health: Health = HEALTH,
        **more: Any,
    ) -> int:
        """Add a release of the app shop to the log, and return its index."""
        archive = packed(files or {"server.py": SERVER})
        name = blake3(archive).hexdigest()
        self.artifacts[name] = archive
        limits, grace = more.pop("limits", Limits()), more.pop("grace", 5)
        process = Process(command=command, health=health, limits=limits, grace=grace)
        statement = ReleaseStatement(
            app=more.pop("app", "shop"),
            number=number,
            artifact=name,
            sha256=sha256(archive).hexdigest(),
            size=len(archive),
            processes={"web": process},
            configuration=0,
            **more,
        )
        self.entries.append(statements.written(statement, "test"))
        return len(self.entries) - 1

    def place(self, index: int, instance: str = "shop.web.1", port: int = 20000, **more: Any) -> Place:
        statement = statements.read(self.entries[index])
        fields: dict[str, Any] = {
            "instance": instance,
            "release": statement.number,
            "process_type": "web",
            "port": port,
            "statement": self.entries[index].decode(),
            "proof": self.proof(index),
        }
        return Place(**{**fields, **more})

    @staticmethod
    def start(instance: str = "shop.web.1", release: int = 1, run: int = 0, **values: bytes) -> Start:
        configuration = {name: base64.b64encode(value).decode() for name, value in values.items()}
        return Start(instance=instance, release=release, configuration=configuration, run=run)

    @staticmethod
    def stop(instance: str = "shop.web.1", release: int = 1, run: int = 0) -> Stop:
        return Stop(instance=instance, release=release, run=run)

    # The protocol.

    def sealed(
        self, body: Message, name: str, seq: int | None = None, key: SigningKey | None = None
    ) -> bytes:
        outgoing = Outgoing(NAME, name, self.session_out, seq or self.seq, self.epoch)
        return channel.write(outgoing, body, key or self.key)

    async def send(self, to: str, envelope: bytes) -> Answer:
        """Send an envelope until it is answered."""
        async with aiohttp.ClientSession() as client:
            while True:
                try:
                    async with client.post(f"{to}/messages", data=envelope) as answer:
                        if answer.status == 200:
                            return msgspec.json.decode(await answer.read(), type=Answer)
                except (aiohttp.ClientError, OSError):
                    pass
                await asyncio.sleep(0.05)

    async def order(self, to: str, body: Message, name: str = "s1") -> Answer:
        self.seq += 1
        return await self.send(to, self.sealed(body, name))

    async def cosign(self, to: str, old: int, new: int | None = None) -> tuple[int, bytes]:
        checkpoint, note = self.tree(new)
        proof = consistency_proof(old, checkpoint.size, self._hash)
        body = bytes(make_request(old, proof, note))
        async with aiohttp.ClientSession() as client, client.post(to + PATH, data=body) as answer:
            return answer.status, await answer.read()

    @asynccontextmanager
    async def serving(self, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator["FakeHub"]:
        app = web.Application(client_max_size=2**24)
        app.router.add_post("/agents/enrol", self._enrol)
        app.router.add_post("/agents/messages", self._message)
        app.router.add_get("/artifacts/{hash}", self._artifact)
        app.router.add_get("/artifacts/{hash}/chunks", self._chunks)
        app.router.add_get("/log/{path:.+}", self._tile)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, host, port)
        await site.start()
        bound = runner.addresses[0][1]
        self.url = f"http://{host}:{bound}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _enrol(self, asked: web.Request) -> web.Response:
        statement = channel.read_enrol(unseal(await asked.read()), NAME)
        body = statement.body
        assert isinstance(body, Enrol)
        self.enrols.append(body)
        if self.refuses or body.token != self.token:
            refused = Answer(state="refused", reason="this is not the token of s1", code="enrolment")
            return web.Response(status=403, body=msgspec.json.encode(refused))
        self.keys = [body.public_key]
        self.memory, self.session_out, self.seq = Memory(secrets.token_hex(16)), body.session, 0
        enrolled = Enrolled(
            hub=NAME,
            hub_keys=[self.key.public],
            session=self.memory.session,
            first_port=self.first_port,
            ports=1000,
            report_every=1,
            log_key=str(self.signer.verifier),
            primary_address="127.0.0.1",
        )
        return web.Response(body=msgspec.json.encode(enrolled))

    async def _message(self, asked: web.Request) -> web.Response:
        statement = channel.decode(unseal(await asked.read()), self.keys)
        assert self.memory is not None
        taken = channel.judge(statement, self.memory, NAME, statement.sender)
        self.memory = taken.memory
        if isinstance(statement.body, Report):
            self.reports.append(statement.body)
        elif isinstance(statement.body, Rotate):
            key = statement.body.public_key
            self.keys = [key] if statement.body.ends else [key, *self.keys]
        return web.Response(body=msgspec.json.encode(Answer(state="done", now=1, report_every=1)))

    async def _artifact(self, asked: web.Request) -> web.Response:
        sealed = request.read_header(asked.headers[request.HEADER])
        request.check(sealed, self.keys, NAME, "s1", ("GET", asked.path_qs))
        name = asked.match_info["hash"]
        self.fetched.append(name)
        if name not in self.artifacts:
            return web.Response(status=404)
        data, asks = self.artifacts[name], asked.http_range
        if asks.start is None:
            return web.Response(body=data)
        part = data[asks.start : asks.stop]
        told = f"bytes {asks.start}-{asks.start + len(part) - 1}/{len(data)}"
        return web.Response(status=206, body=part, headers={"Content-Range": told})

    async def _chunks(self, asked: web.Request) -> web.Response:
        sealed = request.read_header(asked.headers[request.HEADER])
        request.check(sealed, self.keys, NAME, "s1", ("GET", asked.path_qs))
        name = asked.match_info["hash"]
        if name not in self.artifacts:
            return web.Response(status=404)
        chunks = [chunk for chunk, _ in chunking.cut(io.BytesIO(self.artifacts[name]))]
        return web.Response(body=chunking.written(chunks))

    async def _tile(self, asked: web.Request) -> web.Response:
        data = self.tile(parse_path(asked.match_info["path"]))
        return web.Response(status=404) if data is None else web.Response(body=data)


def invite(hub: FakeHub, directory: Path, name: str = "s1") -> None:
    """Put an invitation where the agent accepts it."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "invitation.json").write_bytes(hub.invitation(name))
