"""Two hosts that share the record files over NFS, and everything that can happen to them.

The file system is a model, the writers are the program's own. At any call of
one writer the other may append, the one may be frozen beyond its lease, be
killed, or find the disk full. Nothing that was answered is lost or doubled, and
the frames at the server always form one chain.
"""

import errno
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.support.nfs_model import Host, KilledError, ModelHandle, Server

from rota.errors import DamagedError, MalformedError, RotaError
from rota.tlog import segments
from rota.tlog.frames import START, Chain, Position
from rota.tlog.merkle import EMPTY_ROOT, Frontier, leaf_hash
from rota.tlog.records import Records, Rules
from rota.tlog.turn import FILE

HOSTS = st.sampled_from(["a", "b"])
EVENTS = ("others", "frozen", "frozen, others", "killed", "crashed", "full")
FROZEN = 100.0  # seconds: far beyond a lease


class Shared(RuleBasedStateMachine):
    """One rule is one append, with what happens at one of its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.hosts = {name: Host(self.server, name) for name in "ab"}
        self.writers = {name: self.writer(name) for name in "ab"}
        self.answered: dict[int, bytes] = {}
        self.number = 0

    def writer(self, name: str) -> Records:
        def sleep(seconds: float) -> None:
            self.server.now += max(seconds, 0.5)

        rules = Rules(segment=2500, wait=40.0, shared=True, clock=lambda: self.server.now, sleep=sleep)
        return Records(self.hosts[name], lambda: 0, 0, rules)

    @initialize()
    def begin(self) -> None:
        self.append("a", 1)

    @rule(name=HOSTS, count=st.integers(1, 3))
    def appends(self, name: str, count: int) -> None:
        self.append(name, count)

    @rule(name=HOSTS, count=st.integers(1, 3), at=st.integers(0, 30), event=st.sampled_from(EVENTS))
    def appends_and(self, name: str, count: int, at: int, event: str) -> None:
        """Append, and let something happen at the call with this number."""
        host, calls = self.hosts[name], [0]

        def before(_: str) -> None:
            calls[0] += 1
            if calls[0] == at + 1:
                self.happen(name, event)

        host.before = before
        try:
            self.append(name, count)
        except KilledError:
            host.crash() if event == "crashed" else host.kill()
            self.writers[name] = self.writer(name)
        finally:
            host.before = lambda _: None
            host.full = False

    def happen(self, name: str, event: str) -> None:
        other = "b" if name == "a" else "a"
        if event.startswith("frozen"):
            self.server.now += FROZEN
        if event.endswith("others"):
            self.append(other, 2)
        if event == "full":
            self.hosts[name].full = True
        if event in ("killed", "crashed"):
            raise KilledError

    @rule(seconds=st.sampled_from([1.0, 20.0, 100.0]))
    def time_passes(self, seconds: float) -> None:
        self.server.now += seconds

    def append(self, name: str, count: int) -> None:
        entries = [b"%d" % (self.number + at) * 40 for at in range(count)]
        self.number += count
        try:
            logged = self.writers[name].append(entries)
        except RotaError:
            return
        for each, entry in zip(logged, entries, strict=True):
            assert each.index not in self.answered, "one index was answered twice"
            self.answered[each.index] = entry

    @invariant()
    def what_was_answered_is_there(self) -> None:
        found = entries_at(self.server)
        assert len(set(found)) == len(found)
        for index, entry in self.answered.items():
            assert found[index] == entry, f"entry {index} was answered"


def entries_at(server: Server) -> list[bytes]:
    """Return the entries at the server, as far as sound frames follow each other, their chain checked."""
    view = Host(server, "view")
    chain, frontier, found = Chain(START, EMPTY_ROOT), Frontier(), list[bytes]()
    try:
        for _, frame in segments.read_on(view, chain, Position(2**40, 0, 0)):
            for entry in frame.entries:
                frontier.add(leaf_hash(entry))
            assert frontier.root() == frame.root
            found += frame.entries
    except MalformedError:
        raise
    except (FileNotFoundError, DamagedError):
        return found
    return found


TestShared = Shared.TestCase
TestShared.settings = settings(max_examples=80, stateful_step_count=20, deadline=None)


def test_every_call_of_an_append_with_a_freeze_in_which_another_host_appends() -> None:
    """At whatever call a writer is frozen, it answers nothing that is not so."""
    outcomes = set()
    for at in range(1, 40):
        machine = Shared()
        machine.append("a", 1)
        machine.append("b", 1)
        answered = len(machine.answered)
        machine.appends_and("a", 1, at, "frozen, others")
        machine.what_was_answered_is_there()
        outcomes.add(len(machine.answered) - answered)
        machine.append("a", 1)
        machine.append("b", 1)
        machine.what_was_answered_is_there()
    assert outcomes == {1, 2, 3}, "never reached; refused; answered"


class OnlyOuter(Host):
    """A host whose writers lock `append.lock` alone: what the record file is written with fences nobody."""

    def open(self, path: str, *, write: bool = False) -> ModelHandle:
        handle = super().open(path, write=write)
        if path != FILE:
            handle.try_lock = lambda: True  # type: ignore[method-assign]
        return handle


def test_the_model_shows_the_fork_that_locking_the_record_file_prevents() -> None:
    """The model can fail: without a lock on the file itself, a thawed writer overwrites another's frame."""

    def broken(at: int, host: Callable[..., Host]) -> bool:
        machine = Shared()
        machine.hosts = {name: host(machine.server, name) for name in "ab"}
        machine.writers = {name: machine.writer(name) for name in "ab"}
        machine.append("a", 1)
        try:
            machine.appends_and("a", 1, at, "frozen, others")
            machine.what_was_answered_is_there()
        except (AssertionError, IndexError, RotaError):
            return True
        return False

    assert any(broken(at, OnlyOuter) for at in range(40))
    assert not any(broken(at, Host) for at in range(40))


def test_the_model_keeps_what_it_promises() -> None:
    server = Server()
    one, other = Host(server, "one"), Host(server, "other")
    mine, theirs = one.open("f", write=True), other.open("f", write=True)
    assert mine.try_lock()
    assert not theirs.try_lock()
    mine.write(0, b"abc")
    assert other.open("f").read(0, 9) == b"", "what is not synced is not seen elsewhere"
    mine.sync()
    assert other.open("f").read(0, 9) == b"abc"
    assert theirs.read(0, 9) == b"", "an open file is stale"
    assert theirs.read(0, 9, fresh=True) == b"abc"
    server.now += 20
    assert theirs.try_lock()
    with pytest.raises(OSError, match="error") as raised:
        mine.write(3, b"d")
    assert raised.value.errno == errno.EIO
