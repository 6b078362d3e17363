"""Acts: their bytes, and the one way on which they are done."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.acts.act import Act, read_act
from rota.acts.recorder import perform
from rota.errors import BackupError, BusyError, MalformedError, TlogError, UnreachableError
from rota.tlog.frames import Position
from rota.tlog.records import Logged
from rota.tlog.segments import EMPTY, Tail

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
DETAILS = st.recursive(
    TEXT | st.integers(-(2**53) + 1, 2**53 - 1) | st.booleans() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(max_codepoint=126), max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


class Kept:
    """A log in memory that may be told to fail."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.error: Exception | None = None

    async def append(self, entry: bytes) -> Logged:
        if self.error:
            raise self.error
        self.entries.append(entry)
        return Logged(len(self.entries) - 1, b"")

    async def append_once(self, entries: Sequence[bytes], since: Position) -> list[Logged]:
        later = self.entries[since.size :]
        return [await self.append(entry) for entry in entries if entry not in later]

    async def settle(self) -> Tail:
        return EMPTY

    async def head(self) -> Tail:
        return EMPTY

    async def close(self) -> None:
        return


def act(**details: object) -> Act:
    return Act(kind="token.create", actor="ada", subject="token ci", details=details, id="ab" * 16, at=1)


def test_an_act_has_one_spelling() -> None:
    assert (
        bytes(act(scope="tlog:read", b=[1, True, None], a="é"))
        == (
            '{"act":"token.create","actor":"ada","at":1,"details":{"a":"é","b":[1,true,null],"scope":"tlog:read"},'
            f'"id":"{"ab" * 16}","subject":"token ci","v":1}}'
        ).encode()
    )


@given(st.dictionaries(st.text(st.characters(max_codepoint=126), max_size=8), DETAILS, max_size=4), TEXT)
@settings(deadline=None)
def test_an_act_is_read_as_it_was_written(details: dict[str, object], subject: str) -> None:
    made = Act(kind="x.y", actor="a", subject=subject, details=details)
    assert read_act(bytes(made)) == made


@pytest.mark.parametrize("wrong", [1.5, 2**53, -(2**53), b"bytes", {"é": 1}, [{1: 2}], object()])
def test_what_readers_of_json_do_not_read_alike_is_no_detail(wrong: object) -> None:
    with pytest.raises(TlogError, match="details of an act"):
        bytes(act(wrong=wrong))


@pytest.mark.parametrize(
    "change",
    [
        (b'"v":1', b'"v":2'),
        (b'"v":1', b'"v": 1'),
        (b'"v":1', b'"v":1,"w":1'),
        (b'"act":"token.create",', b""),
        (b'"at":1', b'"at":"1"'),
        (b"{", b" {"),
        (b'{"act":"token.create","actor":"ada"', b'{"actor":"ada","act":"token.create"'),
    ],
)
def test_what_is_no_act_of_ours(change: tuple[bytes, bytes]) -> None:
    entry = bytes(act())
    assert change[0] in entry
    with pytest.raises(MalformedError):
        read_act(entry.replace(*change, 1))


async def test_an_act_is_in_the_log_before_it_is_done() -> None:
    log = Kept()

    async def work(logged: Logged) -> str:
        assert log.entries == [bytes(act())]
        return f"done, entry {logged.index}"

    assert await perform(log, act(), work) == "done, entry 0"
    assert len(log.entries) == 1


@pytest.mark.parametrize("error", [TlogError("disk full"), BusyError("try again")])
async def test_an_act_that_cannot_be_appended_is_not_done(error: Exception) -> None:
    log, done = Kept(), []
    log.error = error

    async def work(_: Logged) -> None:
        done.append(1)

    with pytest.raises(type(error)):
        await perform(log, act(), work)
    assert done == []


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (BackupError("no room"), "token.create.failed", "no room"),
        (KeyError("secret"), "token.create.failed", "KeyError"),
        # The commit may have come through, and its answer not.
        (UnreachableError("the connection is gone"), "token.create.unknown", "the connection is gone"),
    ],
)
async def test_an_act_that_failed_after_it_was_logged_is_said_to_have_failed(
    error: Exception, kind: str, reason: str
) -> None:
    log = Kept()

    async def work(_: Logged) -> None:
        raise error

    with pytest.raises(type(error)):
        await perform(log, act(), work)
    said = read_act(log.entries[1])
    assert (said.kind, said.details) == (
        kind,
        {"act": "ab" * 16, "entry": 0, "reason": reason},
    )

    async def then_the_log_fails_too(_: Logged) -> None:
        log.error = TlogError("gone")
        raise error

    with pytest.raises(type(error)):
        await perform(log, act(), then_the_log_fails_too)


async def test_an_act_whose_caller_leaves_is_done_and_not_said_to_have_failed() -> None:
    log, begun, go, done = Kept(), asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work(_: Logged) -> None:
        begun.set()
        await go.wait()
        done.set()

    caller = asyncio.create_task(perform(log, act(), work))
    await begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    go.set()
    await asyncio.wait_for(done.wait(), 5)
    assert log.entries == [bytes(act())]


async def test_an_act_whose_caller_leaves_while_it_is_appended_is_done_all_the_same() -> None:
    appending, go, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    class Slow(Kept):
        async def append(self, entry: bytes) -> Logged:
            appending.set()
            await go.wait()
            return await super().append(entry)

    async def work(_: Logged) -> None:
        done.set()

    log = Slow()
    caller = asyncio.create_task(perform(log, act(), work))
    await appending.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    go.set()
    await asyncio.wait_for(done.wait(), 5)
    assert log.entries == [bytes(act())]
