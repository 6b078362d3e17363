"""An agent with child processes, against a hub of the test's own: orders, proofs, health, keys, restarts."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.support.agent_hub import SERVER, FakeHub, invite
from tests.support.wait import eventually, until

from rota.agent.agent import Agent
from rota.agent.children import ChildUnits
from rota.agent.enrolling import NotEnrolledError
from rota.agent.settings import AgentSettings
from rota.coordination.epoch import Epoch
from rota.tlog.cosignature import check_cosignature
from rota.tlog.keys import read_verifier
from rota.tlog.notes import parse_signatures
from rota.wire.keys import SigningKey
from rota.wire.statements import Health, InstanceReport, Rotate


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Running:
    """An agent that runs, and how to reach it."""

    def __init__(self, agent: Agent, units: ChildUnits) -> None:
        self.agent = agent
        self.units = units
        self.url = f"http://127.0.0.1:{agent.settings.port}"


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[Running]:
    settings = AgentSettings(
        name="s1", address="127.0.0.1", port=free_port(), data=str(directory), units="children"
    )
    units = ChildUnits(directory / "units")
    await units.open()
    agent, ready = Agent(settings, units), asyncio.Event()
    task = asyncio.create_task(agent.run(ready))
    waiting = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        yield Running(agent, units)
    finally:
        waiting.cancel()
        task.cancel()
        with suppress(asyncio.CancelledError, NotEnrolledError):
            await task
        await units.close()


@pytest.fixture
async def hub() -> AsyncIterator[FakeHub]:
    async with FakeHub(first_port=20000 + os.getpid() % 20000).serving() as made:
        made.fill(3)
        yield made


@pytest.fixture
async def s1(hub: FakeHub, tmp_path: Path) -> AsyncIterator[Running]:
    invite(hub, tmp_path / "s1")
    async with running(tmp_path / "s1") as made:
        yield made


def told(hub: FakeHub) -> InstanceReport | None:
    """Return what the newest report says of the one instance."""
    return hub.reports[-1].instances[0] if hub.reports and hub.reports[-1].instances else None


async def healthy(hub: FakeHub) -> InstanceReport:
    found = await until(lambda: each if (each := told(hub)) and each.healthy else None)
    assert found is not None
    return found


async def answered(port: int, path: str = "/") -> tuple[int, bytes]:
    async with (
        aiohttp.ClientSession() as client,
        client.get(f"http://127.0.0.1:{port}{path}") as answer,
    ):
        return answer.status, await answer.read()


async def test_an_instance_is_placed_started_seen_and_stopped(hub: FakeHub, s1: Running) -> None:
    port, index = hub.first_port + 7, hub.release(environment={"A": "build", "B": "build"})
    assert (await hub.order(s1.url, hub.place(index, port=port))).state == "done"
    await until(lambda: (each := told(hub)) and each.state == "placed")
    values: dict[str, Any] = {"B": b"\xff\x01\n='\"$PATH", "EMPTY": b""}
    assert (await hub.order(s1.url, hub.start(**values))).state == "done"
    seen = await healthy(hub)
    assert (seen.instance, seen.release, seen.port, seen.address) == ("shop.web.1", 1, port, "127.0.0.1")

    _, found = await answered(port, "/environ")
    variables = dict(each.split(b"=", 1) for each in found.split(b"\0") if each)
    assert variables[b"A"] == b"build"
    assert {name: variables[name.encode()] for name in values} == values
    assert variables[b"PORT"] == str(port).encode()
    assert variables[b"ROTA_INSTANCE"] == b"shop.web.1"

    assert (await hub.order(s1.url, hub.stop())).state == "done"
    assert not await _answers(port)
    assert list((s1.agent.settings.directory / "units" / "started").iterdir()) == []
    await until(lambda: told(hub) is None)
    assert hub.reports[-1].log_size == len(hub.entries)


async def test_a_message_that_comes_twice_has_one_effect_and_one_answer(hub: FakeHub, s1: Running) -> None:
    port = hub.first_port
    await hub.order(s1.url, hub.place(hub.release(), port=port))
    await hub.order(s1.url, hub.start())
    await healthy(hub)
    _, pid = await answered(port)
    start = hub.sealed(hub.start(), "s1")
    assert [(await hub.send(s1.url, start)).state for _ in range(3)] == ["done"] * 3
    assert (await answered(port))[1] == pid
    older = await hub.send(s1.url, hub.sealed(hub.stop(), "s1", seq=1))
    ahead = await hub.send(s1.url, hub.sealed(hub.stop(), "s1", seq=9))
    assert (older.code, ahead.code, ahead.expected) == ("stale", "gap", hub.seq + 1)
    hub.seq, hub.epoch = hub.seq + 1, Epoch(1, 0)
    assert (await hub.send(s1.url, hub.sealed(hub.stop(), "s1"))).code == "epoch"
    hub.epoch = Epoch(2, 0)
    other = await hub.send(s1.url, hub.sealed(hub.stop(), "s1", key=SigningKey.new()))
    elsewhere = await hub.send(s1.url, hub.sealed(hub.stop(), "s2"))
    assert (other.code, elsewhere.code) == ("signature", "audience")
    assert (await answered(port))[1] == pid


@pytest.mark.parametrize(
    "wrong", ["a byte", "no entry", "another's", "forked", "unsigned", "another release"]
)
async def test_what_is_not_proved_is_refused_before_anything_is_unpacked(
    hub: FakeHub, s1: Running, wrong: str
) -> None:
    good = hub.place(hub.release())
    other = hub.place(hub.release(number=2), "shop.web.2", hub.first_port)
    fields: dict[str, object] = {"port": hub.first_port}
    match wrong:
        case "a byte":
            fields["statement"] = good.statement.replace('"number":1', '"number":3')
        case "no entry":
            fields["statement"] = hub.entries[0].decode()
        case "another's":
            fields["proof"] = other.proof
        case "forked":
            assert (
                await hub.order(s1.url, msgspec.structs.replace(good, port=hub.first_port))
            ).state == "done"
            hub.entries[0] = b"another history"
            fields |= {"proof": hub.proof(3), "instance": "shop.web.3"}
        case "unsigned":
            seed, hub.log_seed = hub.log_seed, b"x" * 32
            fields["proof"], hub.log_seed = hub.proof(3), seed
        case "another release":
            fields["release"] = 9
    fetched = len(hub.fetched)
    answer = await hub.order(s1.url, msgspec.structs.replace(good, **fields))
    assert answer.state == "refused"
    print(answer.reason)
    assert len(hub.fetched) == fetched
    await until(lambda: any(answer.reason in each for report in hub.reports for each in report.refused))
    if wrong == "forked":
        assert list((s1.agent.settings.directory / "log").glob("forked-*.note"))


async def test_an_older_tree_is_believed_where_it_is_the_beginning_of_the_newer(
    hub: FakeHub, s1: Running
) -> None:
    first = hub.release()
    hub.fill(300)
    older = hub.proof(first, 200)
    await hub.order(s1.url, hub.place(hub.release(number=2), "shop.web.2", hub.first_port))
    place = hub.place(first, port=hub.first_port + 1, proof=older)
    assert (await hub.order(s1.url, place)).state == "done"
    await until(lambda: hub.reports and hub.reports[-1].log_size == len(hub.entries))


async def test_an_artifact_with_another_content_is_refused_and_nothing_stays(
    hub: FakeHub, s1: Running
) -> None:
    index = hub.release()
    name = next(iter(hub.artifacts))
    good, hub.artifacts[name] = hub.artifacts[name], bytes(len(hub.artifacts[name]))
    answer = await hub.order(s1.url, hub.place(index, port=hub.first_port))
    assert (answer.state, "and not" in answer.reason) == ("refused", True)
    del hub.artifacts[name]
    assert (
        "the hub has no artifact" in (await hub.order(s1.url, hub.place(index, port=hub.first_port))).reason
    )
    hub.artifacts[name] = good + b"more"
    assert (await hub.order(s1.url, hub.place(index, port=hub.first_port))).state == "refused"
    hub.artifacts[name] = good
    assert (await hub.order(s1.url, hub.place(index, port=hub.first_port))).state == "done"


async def test_a_sick_instance_is_told_at_once_with_its_last_lines(hub: FakeHub, s1: Running) -> None:
    port = hub.first_port
    await hub.order(s1.url, hub.place(hub.release(), port=port))
    await hub.order(s1.url, hub.start())
    await healthy(hub)
    await answered(port, "/sick")
    seen = await until(lambda: each if (each := told(hub)) and not each.healthy else None)
    assert seen is not None
    assert (seen.state, seen.reason) == ("running", "/ answered 500")
    await until(lambda: "asked /sick" in (told(hub) or seen).last_lines)


async def test_a_process_that_ends_starts_again(hub: FakeHub, s1: Running) -> None:
    port = hub.first_port
    await hub.order(s1.url, hub.place(hub.release(), port=port))
    await hub.order(s1.url, hub.start())
    await healthy(hub)
    with suppress(aiohttp.ClientError):
        await answered(port, "/exit")
    again = await until(lambda: each if (each := told(hub)) and each.restarts and each.healthy else None, 15)
    assert again is not None
    assert again.restarts == 1


async def test_a_release_that_never_becomes_well_is_failed_with_the_reason(hub: FakeHub, s1: Running) -> None:
    index = hub.release(health=Health(path="/", start=1), command="sh -c 'echo no port here; exec sleep 60'")
    await hub.order(s1.url, hub.place(index, port=hub.first_port))
    await hub.order(s1.url, hub.start())
    seen = await until(lambda: each if (each := told(hub)) and each.state == "failed" else None)
    assert seen is not None
    assert seen.reason.startswith("not well within 1 s: port ")
    assert "no port here" in seen.last_lines


async def ended(hub: FakeHub, run: int) -> int | None:
    """Return the exit code of a run, once it has ended."""

    def found() -> list[int | None]:
        return [each.exit_code for each in hub.reports[-1].runs if (each.run, each.state) == (run, "ended")]

    return (await until(found))[0]


async def test_a_run_happens_once_and_its_exit_code_is_told(hub: FakeHub, s1: Running) -> None:
    index = hub.release()
    for run, command, code in ((7, "sh -c 'echo $HOOK; exit 3'", 3), (8, "sh -c 'kill -9 $$'", 137)):
        place = hub.place(index, "shop.hook.1", port=hub.first_port + run, run=run, command=command)
        assert (await hub.order(s1.url, place)).state == "done"
        assert (await hub.order(s1.url, hub.start("shop.hook.1", run=run, HOOK=b"value"))).state == "done"
        assert await ended(hub, run) == code
        await hub.order(s1.url, hub.start("shop.hook.1", run=run))
        assert (await hub.order(s1.url, hub.stop("shop.hook.1", run=run))).state == "done"
    await until(lambda: hub.reports[-1].runs == [])


async def test_what_ran_starts_again_with_the_next_agent_and_nothing_is_forgotten(
    hub: FakeHub, tmp_path: Path
) -> None:
    port, directory = hub.first_port, tmp_path / "s1"
    invite(hub, directory)
    async with running(directory) as first:
        await hub.order(first.url, hub.place(hub.release(), port=port))
        await hub.order(first.url, hub.start(A=b"1"))
        await healthy(hub)
        sent = hub.sealed(hub.start(A=b"1"), "s1")
    async with running(directory) as second:
        await eventually(lambda: _answers(port))
        assert (await hub.send(second.url, sent)).state == "done"
        assert (await hub.order(second.url, hub.stop())).state == "done"
    assert len(hub.enrols) == 1


async def _answers(port: int) -> bool:
    with suppress(OSError, aiohttp.ClientError):
        return (await answered(port))[0] == 200
    return False


async def test_both_sides_change_their_keys(hub: FakeHub, s1: Running) -> None:
    old, new = s1.agent.memory.key.public, s1.agent.memory.make_next_key().public
    await until(lambda: hub.keys == [new])
    assert old != new == s1.agent.memory.key.public
    before, hub_key = hub.key, SigningKey.new()
    assert (await hub.order(s1.url, Rotate(public_key=hub_key.public))).state == "done"
    await hub.order(s1.url, hub.place(hub.release(), port=hub.first_port))
    hub.key = hub_key
    assert (await hub.order(s1.url, Rotate(public_key=hub_key.public, ends=True))).state == "done"
    hub.seq += 1
    assert (await hub.send(s1.url, hub.sealed(hub.stop(), "s1", key=before))).code == "signature"
    assert (await hub.send(s1.url, hub.sealed(hub.stop(), "s1"))).state == "done"


async def test_it_cosigns_what_goes_on_and_never_another_history(hub: FakeHub, s1: Running) -> None:
    status, body = await hub.cosign(s1.url, 0)
    (signature,) = parse_signatures(body.decode())
    _, note = hub.tree()
    check_cosignature(read_verifier(hub.enrols[0].witness_key), note.text, signature)
    hub.fill(40)
    assert (status, (await hub.cosign(s1.url, 3))[0], (await hub.cosign(s1.url, 3))[0]) == (200, 200, 409)
    hub.entries[1] = b"another history"
    hub.fill(1)
    assert (await hub.cosign(s1.url, 43))[0] == 422


@pytest.mark.parametrize("wrong", ["token", "name", "hub", "log"])
async def test_an_enrolment_that_does_not_fit_is_refused_with_the_reason(
    hub: FakeHub, tmp_path: Path, wrong: str
) -> None:
    invite(hub, tmp_path / "s1", "s2" if wrong == "name" else "s1")
    match wrong:
        case "token":
            hub.token = "another"
        case "hub":
            hub.key = SigningKey.new()
        case "log":
            hub.origin = "elsewhere.example/log"
    with pytest.raises(NotEnrolledError) as refused:
        async with running(tmp_path / "s1"):
            pass
    print(refused.value)
    assert not (tmp_path / "s1" / "link.json").exists()


async def test_nobody_else_may_read_what_the_agent_keeps(s1: Running) -> None:
    files = [path for path in s1.agent.settings.directory.rglob("*") if path.is_file()]
    modes = {path.name: path.stat().st_mode & 0o077 for path in files if "units" not in path.parts}
    assert {"key", "witness-key", "link.json"} <= modes.keys()
    assert {name for name, mode in modes.items() if mode} == set()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /messages HTTP/1.1\r\n\r\n",
        b"POST /messages HTTP/1.1\r\n\r\n",
        b"POST /messages HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
        b"POST /messages HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /messages HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        b"POST /messages HTTP/1.1\r\nContent-Length: +1\r\n\r\nx",
        b"POST /messages HTTP/1.1\nContent-Length: 1\r\n\r\nx",
        b"POST /elsewhere HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        b"\x16\x03\x01\r\n\r\n",
    ],
)
async def test_what_is_no_plain_request_is_refused(s1: Running, head: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", s1.agent.settings.port)
    writer.write(head)
    answer = await reader.read()
    writer.close()
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 404"))


def test_the_app_of_these_tests_is_a_program() -> None:
    compile(SERVER, "server.py", "exec")
