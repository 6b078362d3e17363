"""Webhooks between real processes on PostgreSQL: web, workers, the command line, and a receiver."""

import asyncio
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support import access
from tests.support.postgres import Server, free_port
from tests.support.process import Hub, run
from tests.support.raw import ask
from tests.support.receiver import Received, Receiver, receiving, status
from tests.support.settings import postgres_environ
from tests.support.wait import until, wait_for

from rota.access.scopes import Scope
from rota.hooks.vault import new_key

TASK = "hooks.worker"
METRICS = "a-token-for-metrics"


@pytest.fixture
def environ(tmp_path: Path, postgres: Server) -> Mapping[str, str]:
    return postgres_environ(
        tmp_path / "data",
        postgres,
        postgres.new_schema(),
        ROTA_WEBHOOKS_KEY=new_key(),
        ROTA_WEBHOOKS_ALLOW="127.0.0.0/8",
        ROTA_SERVER_METRICS_TOKEN=METRICS,
    )


class Site:
    """A hub's processes, and an operator who has a token."""

    def __init__(self, tmp_path: Path, environ: Mapping[str, str], hubs: list[Hub]) -> None:
        self._tmp_path = tmp_path
        self._environ = environ
        self._hubs = hubs
        self.web = self.start("web", "web")
        self.web.wait()
        self.token = access.token(environ, Scope.ADMIN)

    def start(self, name: str, role: str) -> Hub:
        named = {**self._environ, "ROTA_SERVER_NAME": name}
        hub = Hub.start(self._tmp_path / f"{name}.log", named, "--role", role, port=free_port())
        self._hubs.append(hub)
        return hub

    def worker(self, name: str) -> Hub:
        return self.start(name, "worker").wait()

    def rota(self, *argv: str, good: bool = True) -> str:
        """Run a command against the web process; return what it prints."""
        environ = {"ROTA_URL": f"http://127.0.0.1:{self.web.port}", "ROTA_TOKEN": self.token}
        done = run(argv, environ)
        assert (done.returncode == 0) is good, done.stdout + done.stderr
        return done.stdout if good else done.stderr

    def json(self, *argv: str) -> Any:
        return json.loads(self.rota(*argv, "--json"))


@pytest.fixture
async def site(tmp_path: Path, environ: Mapping[str, str], hubs: list[Hub]) -> Site:
    return await asyncio.to_thread(Site, tmp_path, environ, hubs)


def pings(receiver: Receiver) -> list[Received]:
    return list(receiver.of("webhook.ping"))


async def test_an_act_on_a_web_process_arrives_through_a_worker_within_a_second(site: Site) -> None:
    worker = await asyncio.to_thread(site.worker, "w1")
    await asyncio.to_thread(wait_for, lambda: TASK in worker.leading())
    async with receiving() as receiver:
        made = await asyncio.to_thread(site.json, "webhook", "create", receiver.url, "--act", "webhook.*")
        took = []
        for number in range(1, 6):
            answer = await asyncio.to_thread(_ping, site, made["webhook"]["id"])
            answered = asyncio.get_running_loop().time()
            assert answer == 202
            await until(lambda count=number: len(pings(receiver)) == count, within=5)  # type: ignore[misc]
            took.append(asyncio.get_running_loop().time() - answered)
        print(f"from the answer to the arrival: {max(took) * 1000:.0f} ms at most")
        assert max(took) < 1
        assert all(got.signed_with(made["secret"]) for got in pings(receiver))
        assert len({got.id for got in pings(receiver)}) == 5


def _ping(site: Site, webhook: str) -> int:
    path = f"/api/webhooks/{webhook}/ping"
    return ask(site.web.port or 0, "POST", path, f"Authorization: Bearer {site.token}").status


async def test_the_commands_do_and_show_what_they_say(site: Site) -> None:
    await asyncio.to_thread(site.worker, "w1")
    async with receiving() as receiver:
        await asyncio.to_thread(_commands, site, receiver)


def _commands(site: Site, receiver: Receiver) -> None:
    assert "No webhook" in site.rota("webhook", "list")
    printed = site.rota("webhook", "create", receiver.url, "--act", "nothing.*", "--app", "shop")
    assert "not shown again" in printed
    (listed,) = site.json("webhook", "list")
    name = listed["id"]
    assert (listed["kinds"], listed["app"], listed["active"]) == (["nothing.*"], "shop", True)
    assert "secret" not in site.rota("webhook", "show", name)
    assert "Nothing yet" in site.rota("webhook", "deliveries", name)
    site.rota("webhook", "ping", name)

    def delivery() -> dict[str, Any]:
        (one,) = site.json("webhook", "deliveries", name)
        return dict(one)

    wait_for(lambda: delivery()["state"] == "delivered")
    assert (delivery()["kind"], delivery()["tries"], delivery()["status"]) == ("webhook.ping", 1, 204)
    site.rota("webhook", "redeliver", name, str(delivery()["id"]))
    wait_for(lambda: delivery()["tries"] == 2)
    assert len(receiver.received) == 2
    assert "a.b" in site.rota("webhook", "change", name, "--act", "a.b", "--app", "")
    assert "False" in site.rota("webhook", "pause", name)
    assert "is paused" in site.rota("webhook", "ping", name, good=False)
    assert "True" in site.rota("webhook", "resume", name)
    assert "delivered" in site.rota("webhook", "deliveries", name)
    assert "no such delivery" in site.rota("webhook", "redeliver", name, "99", good=False)
    metrics = ask(site.web.port or 0, "GET", "/metrics", f"Authorization: Bearer {METRICS}").text
    assert 'rota_webhook_deliveries{state="delivered"} 1.0' in metrics
    site.rota("webhook", "delete", name)
    assert "There is no webhook" in site.rota("webhook", "show", name, good=False)
    assert "begin with https://" in site.rota("webhook", "create", "ftp://x", good=False)
    assert "No mail server is set" in site.rota("mail", "test", "ops@example.org", good=False)


async def test_the_page_shows_the_secret_once_and_its_buttons_work(
    site: Site, environ: dict[str, str]
) -> None:
    await asyncio.to_thread(site.worker, "w1")
    async with receiving() as receiver:
        await asyncio.to_thread(_page, site, environ, receiver)


def _page(site: Site, environ: Mapping[str, str], receiver: Receiver) -> None:
    port = site.web.port or 0
    writer = access.session(environ, Scope.WEBHOOKS_READ, Scope.WEBHOOKS_WRITE)
    reader = access.session(environ, Scope.WEBHOOKS_READ)
    form = {"url": receiver.url, "kinds": "nothing.*, webhook.x", "app": ""}
    assert access.send_form(port, "/api/webhooks", form, reader).status == 403
    made = access.send_form(port, "/api/webhooks", form, writer)
    assert made.status == 200
    assert "whsec_" in made.text
    (name,) = [one["id"] for one in site.json("webhook", "list")]
    page = ask(port, "GET", f"/webhooks/{name}", writer, "Accept: text/html").text
    assert receiver.url in page
    assert "whsec_" not in page
    assert ">Ping</button>" in page
    assert "Ping" not in ask(port, "GET", f"/webhooks/{name}", reader, "Accept: text/html").text
    assert access.send_form(port, f"/api/webhooks/{name}/ping", {}, writer).status == 303
    wait_for(lambda: "delivered" in ask(port, "GET", "/webhooks", reader, "Accept: text/html").text)
    assert receiver.received[0].document["data"]["actor"].startswith("account:")
    for do, state in (("pause", "paused"), ("resume", "active")):
        assert access.send_form(port, f"/api/webhooks/{name}", {"do": do}, writer).status == 303
        assert f">{state}</dd>" in ask(port, "GET", f"/webhooks/{name}", reader, "Accept: text/html").text
    assert access.send_form(port, f"/api/webhooks/{name}", {"do": "delete"}, writer).status == 303
    assert ask(port, "GET", f"/webhooks/{name}", reader, "Accept: text/html").status == 404


async def test_a_leader_that_is_killed_mid_delivery_loses_nothing(site: Site) -> None:
    """Its successor sends the same message again, so that the receiver can tell."""
    released = asyncio.Event()

    async def hold(_: Received) -> bytes:
        if not released.is_set():
            await released.wait()
        return status(200)

    workers = [await asyncio.to_thread(site.worker, name) for name in ("w1", "w2")]
    await until(lambda: any(TASK in each.leading() for each in workers))
    leader, heir = sorted(workers, key=lambda each: TASK not in each.leading())
    async with receiving(hold) as receiver:
        made = await asyncio.to_thread(site.json, "webhook", "create", receiver.url, "--act", "webhook.ping")
        name = made["webhook"]["id"]
        for _ in range(3):
            assert await asyncio.to_thread(_ping, site, name) == 202
        await until(lambda: len(receiver.received) == 3, within=5)
        os.kill(leader.pids()[-1], signal.SIGKILL)
        leader.kill()
        released.set()
        await until(lambda: TASK in heir.leading(), within=9)

        def standings() -> list[tuple[str, int]]:
            deliveries = site.json("webhook", "deliveries", name)
            return [(each["state"], each["tries"]) for each in deliveries]

        await asyncio.to_thread(wait_for, lambda: standings() == [("delivered", 1)] * 3)
    ids = [got.id for got in receiver.received]
    assert len(set(ids)) == 3
    assert sorted(ids) == sorted([*set(ids), *set(ids)]), "each twice, and under its own id"
    assert all(got.signed_with(made["secret"]) for got in receiver.received)


async def test_what_happens_while_no_worker_runs_is_told_later(site: Site) -> None:
    async with receiving() as receiver:
        made = await asyncio.to_thread(site.json, "webhook", "create", receiver.url, "--act", "webhook.*")
        name = made["webhook"]["id"]
        await asyncio.to_thread(site.rota, "webhook", "change", name, "--act", "webhook.change")
        await asyncio.to_thread(site.rota, "webhook", "change", name, "--act", "webhook.*")
        await asyncio.to_thread(site.worker, "w1")
        await until(lambda: len(list(receiver.of("webhook.change"))) == 2)
        assert {got.document["data"]["subject"] for got in receiver.received} == {f"webhook:{name}"}
