"""The leader, over locks on one machine and over PostgreSQL's advisory locks."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable

import pytest
from tests.support.wait import until

from rota import wiring
from rota.coordination import leader as leading
from rota.coordination.epoch import Fence
from rota.coordination.leader import Leader, Term
from rota.coordination.locks import SessionLostError
from rota.errors import FencedError, UnreachableError
from rota.settings import Settings
from rota.store.database import Database
from rota.store.leaders import Leaders

Make = Callable[[], Leader]


@pytest.fixture
async def make(settings: Settings, database: Database) -> AsyncIterator[Make]:
    """Give a maker of leaders that resign when the test ends."""
    made: list[Leader] = []

    def new() -> Leader:
        made.append(Leader(wiring.make_locks(settings, database)))
        return made[-1]

    yield new
    for leader in made:
        await leader.resign()


async def for_ever(term: Term) -> None:
    await term.stopping.wait()


async def test_a_task_runs_while_its_lock_is_held(make: Make) -> None:
    leader = make()
    leader.run("a", for_ever)
    leader.run("b", for_ever)
    leader.start()
    await until(lambda: leader.leading() == ["a", "b"])
    assert leader.epoch_of("a") == 1
    assert leader.trust_left() > 0


async def test_the_database_knows_who_leads(make: Make, database: Database) -> None:
    leader = make()
    leader.run("a", for_ever)
    leader.start()
    await until(leader.leading)
    row = (await Leaders(database).all())[0]
    assert (row.task, row.epoch) == ("a", 1)


async def test_a_task_is_asked_to_stop_before_it_is_cancelled(make: Make) -> None:
    ended: list[str] = []

    async def polite(term: Term) -> None:
        await term.stopping.wait()
        ended.append("asked")

    leader = make()
    leader.run("a", polite)
    leader.start()
    await until(leader.leading)
    await leader.resign()
    assert (ended, leader.leading()) == (["asked"], [])


async def test_a_task_that_does_not_stop_is_cancelled(make: Make) -> None:
    ended: list[str] = []

    async def deaf(_: Term) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    leader = make()
    leader.run("a", deaf)
    leader.start()
    await until(leader.leading)
    async with asyncio.timeout(2):
        await leader.resign()
    assert ended == ["cancelled"]


async def test_a_task_that_ends_by_itself_gives_its_lock_back_and_is_not_run_again(make: Make) -> None:
    runs: list[int] = []

    async def once(term: Term) -> None:
        runs.append(term.fence.epoch)

    first, second = make(), make()
    first.run("a", once)
    first.start()
    await until(lambda: runs and not first.leading())
    second.run("a", for_ever)
    second.start()
    await until(second.leading)
    assert (runs, second.epoch_of("a")) == ([1], 2)


async def test_a_task_that_crashes_gives_its_lock_back_and_is_tried_again(make: Make) -> None:
    epochs: list[int] = []

    async def crash_once(term: Term) -> None:
        epochs.append(term.fence.epoch)
        if len(epochs) == 1:
            raise ValueError("a fault of the test's own")
        await term.stopping.wait()

    leader = make()
    leader.run("a", crash_once)
    leader.start()
    await until(leader.failing)
    assert leader.failing() == {"a": "a fault of this program: ValueError; its journal says more"}
    await until(lambda: len(epochs) > 1, within=15)
    assert epochs == [1, 2]
    await leader.resign()
    assert leader.failing() == {}


async def test_after_resigning_a_term_may_act_no_more(make: Make) -> None:
    terms: list[Term] = []

    async def keep(term: Term) -> None:
        terms.append(term)
        await term.stopping.wait()

    leader = make()
    leader.run("a", keep)
    leader.start()
    await until(lambda: terms)
    terms[0].check()
    await leader.resign()
    with pytest.raises(FencedError):
        terms[0].check()


async def test_resigning_twice_is_resigning_once(make: Make) -> None:
    leader = make()
    leader.run("a", for_ever)
    leader.start()
    await until(leader.leading)
    await asyncio.gather(leader.resign(), leader.resign())
    assert leader.leading() == []


async def test_a_leader_that_never_started_can_resign(make: Make) -> None:
    await make().resign()


async def test_a_fault_of_our_own_stops_what_is_led_and_contending_goes_on(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = make()
    leader.run("a", for_ever)
    leader.start()
    await until(leader.leading)
    faults: list[int] = []

    async def fault() -> None:
        faults.append(1)
        monkeypatch.undo()
        raise ZeroDivisionError("a fault of the test's own")

    monkeypatch.setattr(leader._locks, "probe", fault)
    await until(lambda: faults and leader.epoch_of("a") == 2)
    assert leader.generation == 1


async def test_a_task_that_has_ended_is_not_run_again_though_its_session_is_lost(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[int] = []

    async def once(term: Term) -> None:
        runs.append(term.fence.epoch)

    async def lost(_: str) -> None:
        monkeypatch.undo()
        raise SessionLostError("by the test")

    leader = make()
    leader.run("a", once)
    leader.run("b", for_ever)
    monkeypatch.setattr(leader._locks, "release", lost)
    leader.start()
    await until(lambda: leader.generation and leader.epoch_of("b") == 2)
    assert runs == [1]


async def test_a_lock_that_can_never_be_taken_is_told_once(
    make: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def refused(_: Iterable[str]) -> list[Fence]:
        raise SessionLostError("permission denied for table leaders")

    monkeypatch.setattr(leading, "ROUND", 0.01)
    leader = make()
    leader.run("a", for_ever)
    monkeypatch.setattr(leader._locks, "acquire", refused)
    leader.start()
    await until(lambda: leader.generation >= 3)
    assert "".join(capsys.readouterr()).count("permission denied") == 1


async def test_an_outage_that_a_task_meets_is_told_in_one_line(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    met: list[int] = []

    async def meet_an_outage(_: Term) -> None:
        met.append(1)
        raise UnreachableError("the database went away")

    leader = make()
    leader.run("a", meet_an_outage)
    leader.start()
    await until(lambda: met)
    await leader.resign()
    said = "".join(capsys.readouterr())
    assert "the database went away" in said
    assert "traceback" not in said.casefold()
