"""Tasks that every process runs: begun anew when they crash, ended when they are asked to."""

import asyncio

import pytest
from tests.support.wait import until

from rota.coordination import residents as module
from rota.coordination.residents import Residents


async def test_a_resident_runs_until_it_is_asked_to_end() -> None:
    ended: list[str] = []

    async def body(stopping: asyncio.Event) -> None:
        await stopping.wait()
        ended.append("asked")

    residents = Residents()
    residents.run("b", body)
    residents.run("a", body)
    residents.start()
    await asyncio.sleep(0)
    assert residents.names() == ["a", "b"]
    residents.ask()
    await residents.stop()
    assert ended == ["asked", "asked"]


async def test_a_resident_that_crashes_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REST", 0.01)
    runs: list[int] = []

    async def body(stopping: asyncio.Event) -> None:
        runs.append(1)
        if len(runs) < 3:
            raise ValueError("a fault of the test's own")
        await stopping.wait()

    residents = Residents()
    residents.run("a", body)
    residents.start()
    await until(lambda: len(runs) == 3)
    await residents.stop()
    assert len(runs) == 3


async def test_a_stop_does_not_wait_for_one_that_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REST", 60.0)
    crashed: list[int] = []

    async def body(_: asyncio.Event) -> None:
        crashed.append(1)
        raise ValueError("a fault of the test's own")

    residents = Residents()
    residents.run("a", body)
    residents.start()
    await until(lambda: crashed)
    async with asyncio.timeout(10):
        await residents.stop()
    assert crashed == [1]


async def test_one_that_does_not_end_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAVE", 0.05)
    ended: list[str] = []

    async def deaf(_: asyncio.Event) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    residents = Residents()
    residents.run("a", deaf)
    residents.start()
    await asyncio.sleep(0)
    await residents.stop()
    assert ended == ["cancelled"]


async def test_what_never_started_can_be_stopped() -> None:
    await Residents().stop()
