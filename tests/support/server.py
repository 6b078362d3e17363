"""A server that exists only here: it speaks the protocol over HTTP, and its instances are rows of a dict."""

import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import msgspec
from aiohttp import web

from rota.wire import channel
from rota.wire.answer import DONE, Answer
from rota.wire.channel import Memory, Outgoing, Side, Standing
from rota.wire.envelope import unseal
from rota.wire.errors import GapError, WireError
from rota.wire.keys import SigningKey
from rota.wire.statements import (
    Capabilities,
    Enrol,
    Enrolled,
    InstanceReport,
    Load,
    Message,
    Place,
    Report,
    Rotate,
    RunReport,
    Start,
    Stop,
)

CAPABILITIES = Capabilities(virtualisation=False, memory=2**33, processors=2, architecture="x86_64")
LOAD = Load(average=100, memory_free=2**32, memory=2**33, disk_free=2**34, disk=2**35)


@dataclass
class Simulated:
    """One server. `sick` are process types that never become healthy; `deaf` refuses every connection."""

    name: str
    address: str
    hub: str = ""
    url: str = ""
    distribution: str = "debian 13"
    capabilities: Capabilities = CAPABILITIES
    key: SigningKey = field(default_factory=SigningKey.new)
    session: str = field(default_factory=lambda: secrets.token_hex(16))
    hub_keys: list[str] = field(default_factory=list)
    session_out: str = ""
    seq: int = 0
    memory: Memory | None = None
    instances: dict[str, InstanceReport] = field(default_factory=dict)
    orders: list[Message] = field(default_factory=list)
    envelopes: list[bytes] = field(default_factory=list)  # every one that arrived
    said: list[bytes] = field(default_factory=list)  # every one that was sent
    refuse: Callable[[Message], str] = lambda _: ""
    sick: set[str] = field(default_factory=set)
    round_trip: int = 1000
    silent: bool = False
    restarts: int = 0
    idle: bool = False  # it begins no run
    exit_code: int = 0  # of the runs that it is given
    runs: dict[int, RunReport] = field(default_factory=dict)
    last: Answer = DONE

    async def enrol(self, client: aiohttp.ClientSession, invitation: dict[str, object]) -> tuple[int, bytes]:
        """Complete an enrolment; return the status and the body of the answer."""
        self.hub, self.url = str(invitation["hub"]), str(invitation["url"])
        body = Enrol(
            name=self.name,
            token=str(invitation["token"]),
            public_key=self.key.public,
            session=self.session,
            distribution=self.distribution,
            capabilities=self.capabilities,
            agent_version="0",
        )
        outgoing = Outgoing(self.name, self.hub, "0" * 32, 1)
        envelope = channel.write(outgoing, body, self.key)
        self.said.append(envelope)
        async with client.post(f"{self.url}/agents/enrol", data=envelope) as answer:
            data = await answer.read()
            if answer.status == 200:
                enrolled = msgspec.json.decode(data, type=Enrolled)
                self.session_out, self.seq = enrolled.session, 0
                self.hub_keys, self.memory = enrolled.hub_keys, Memory(self.session)
            return answer.status, data

    def message(self, body: Message, key: SigningKey | None = None) -> bytes:
        """Return the next message of this server, signed."""
        self.seq += 1
        envelope = channel.write(
            Outgoing(self.name, self.hub, self.session_out, self.seq), body, key or self.key
        )
        self.said.append(envelope)
        return envelope

    def report(self) -> Report:
        """Return what this server would report now."""
        return Report(
            instances=list(self.instances.values()),
            runs=list(self.runs.values()),
            load=LOAD,
            agent_version="0",
            round_trip=self.round_trip,
            clock_offset=0,
        )

    async def say(self, client: aiohttp.ClientSession, envelope: bytes | None = None) -> Answer:
        """Send a message, a report if none is given; return the answer."""
        data = envelope or self.message(self.report())
        async with client.post(f"{self.url}/agents/messages", data=data) as answer:
            return msgspec.json.decode(await answer.read(), type=Answer)

    def receive(self, envelope: bytes) -> Answer:
        """Take an order as an agent does."""
        self.envelopes.append(envelope)
        try:
            assert self.memory is not None, "not enrolled"
            sealed = unseal(envelope)
            channel.refuse_illegal(sealed.kind, Side.HUB, Standing.ENROLLED)
            statement = channel.decode(sealed, self.hub_keys)
            taken = channel.judge(statement, self.memory, self.name, self.hub)
        except WireError as error:
            expected = error.expected if isinstance(error, GapError) else 0
            return Answer(state="refused", reason=str(error), code=error.code, expected=expected)
        self.memory = taken.memory
        if not taken.repeated:
            self.last = self._obey(statement.body)
        return self.last

    def _obey(self, body: Message) -> Answer:
        reason = self.refuse(body)
        if reason:
            return Answer(state="refused", reason=reason)
        self.orders.append(body)
        match body:
            case Place() | Start() | Stop() if body.run:
                self._run(body)
            case Place():
                self._put(body.instance, body.release, "placed", port=body.port)
            case Start():
                kind = body.instance.split(".")[1]
                self._put(body.instance, body.release, "running", healthy=kind not in self.sick)
            case Stop():
                self.instances.pop(f"{body.instance}@{body.release}", None)
            case Rotate():
                self.hub_keys = [body.public_key, *self.hub_keys]
        return DONE

    def _run(self, body: Place | Start | Stop) -> None:
        if self.idle:
            return
        match body:
            case Place():
                self.runs[body.run] = RunReport(run=body.run, state="placed")
            case Start():
                self.runs[body.run] = RunReport(run=body.run, state="ended", exit_code=self.exit_code)
            case Stop():
                self.runs.pop(body.run, None)

    def _put(self, instance: str, release: int, state: str, *, healthy: bool = False, port: int = 0) -> None:
        known = self.instances.get(f"{instance}@{release}")
        self.instances[f"{instance}@{release}"] = InstanceReport(
            instance=instance,
            release=release,
            state=state,  # type: ignore[arg-type]
            healthy=healthy,
            address=self.address,
            port=port or (known.port if known else 20000),
            restarts=self.restarts,
            reason="" if healthy or state == "placed" else "no answer at /",
        )


@asynccontextmanager
async def listening(server: Simulated, port: int) -> AsyncIterator[Simulated]:
    """Have a server take orders at its address until the block ends."""

    async def take(request: web.Request) -> web.Response:
        answer = server.receive(await request.read())
        answer = msgspec.structs.replace(answer, now=time.time_ns() // 1000)
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    app = web.Application(client_max_size=2**24)
    app.router.add_post("/messages", take)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, server.address, port, reuse_address=True).start()
        yield server
    finally:
        await runner.cleanup()
