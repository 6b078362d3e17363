"""Two holders, one lock, and everything that can happen to them.

The server is modelled, the holder's rules and the receiver are the program's
own: `Tenure` decides whether a holder may act, `EpochGate` whether an effect is
accepted. Whatever is frozen, cut off, thawed or healed, no effect of an older
epoch is accepted, and no two holders that can see their clock act at once.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rota.coordination.epoch import Epoch, EpochGate, Fence
from rota.coordination.tenure import ANSWER, EXPIRY, JITTER, ROUND, TRUST, Tenure
from rota.errors import FencedError

TASK = "flow.scheduler"
STEP = 0.1
HOLDERS = st.sampled_from(["a", "b"])


def test_a_holder_stops_before_the_server_frees_its_lock() -> None:
    assert ROUND + ANSWER <= TRUST < EXPIRY
    assert 0 < JITTER < 1


@dataclass
class Holder:
    """One process, as its own rules see it."""

    name: str
    tenure: Tenure = field(default_factory=Tenure)
    fence: Fence | None = None
    frozen: bool = False
    cut: bool = False
    session: int = 0  # 0: none
    next_probe: float = 0.0
    unanswered: float | None = None


class Leadership(RuleBasedStateMachine):
    """Time moves in small steps; between them, faults strike and holders act."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.sessions = 0
        self.generation = 1
        self.epoch = 0
        self.locked_by: int | None = None
        self.heard: dict[int, float] = {}
        self.holders = {name: Holder(name) for name in "ab"}
        self.gate = EpochGate()
        self.accepted: list[Epoch] = []
        self.stale: set[Fence] = set()

    @initialize()
    def someone_leads(self) -> None:
        """Begin where the faults are interesting."""
        self.time_passes(0.5)

    @rule(seconds=st.sampled_from([0.1, 0.5, 2.0, 3.0, 5.0, 9.0]))
    def time_passes(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP)):
            self.now += STEP
            for session, last in list(self.heard.items()):
                if self.now - last >= EXPIRY:
                    self.end_session(session)
            for holder in self.holders.values():
                if not holder.frozen:
                    self.live(holder)
            self.no_two_act_at_once()

    def live(self, holder: Holder) -> None:
        """Do what a running process does at this moment."""
        if holder.fence and not holder.tenure.trusted(self.now):
            self.lose(holder)
        if holder.session and holder.session not in self.heard and not holder.cut:
            self.lose(holder)  # the server's end of the connection says so
        if holder.unanswered is not None and self.now - holder.unanswered >= ANSWER:
            self.lose(holder)
        if self.now < holder.next_probe or holder.unanswered is not None:
            return
        holder.next_probe = self.now + ROUND
        if holder.cut:
            if holder.session:
                holder.unanswered = self.now
            return
        if not holder.session:
            self.sessions += 1
            holder.session = self.sessions
        self.heard[holder.session] = self.now
        holder.tenure.renew(self.now)
        if self.locked_by is None:
            self.locked_by = holder.session
            self.epoch += 1
            holder.fence = Fence(TASK, self.generation, self.epoch)

    def lose(self, holder: Holder) -> None:
        if holder.fence:
            self.stale.add(holder.fence)
        if not holder.cut and holder.session:
            self.end_session(holder.session)
        holder.fence, holder.session, holder.unanswered = None, 0, None
        holder.tenure.end()

    def end_session(self, session: int) -> None:
        self.heard.pop(session, None)
        if self.locked_by == session:
            self.locked_by = None

    @rule(name=HOLDERS)
    def freeze(self, name: str) -> None:
        self.holders[name].frozen = True

    @rule(name=HOLDERS)
    def thaw(self, name: str) -> None:
        """Wake a process up; before it looks at its clock, it may still act as it meant to."""
        holder = self.holders[name]
        if holder.frozen and holder.fence:
            self.effect(holder.fence)
        holder.frozen = False

    @rule(name=HOLDERS)
    def cut_off(self, name: str) -> None:
        self.holders[name].cut = True

    @rule(name=HOLDERS)
    def heal(self, name: str) -> None:
        self.holders[name].cut = False

    @rule(name=HOLDERS)
    def kill(self, name: str) -> None:
        """End a process; the kernel says so to the server, unless the cable is cut."""
        holder = self.holders[name]
        self.lose(holder)
        self.holders[name] = Holder(name, cut=holder.cut)

    @rule(name=HOLDERS)
    def act(self, name: str) -> None:
        holder = self.holders[name]
        if not holder.frozen and holder.fence and holder.tenure.trusted(self.now):
            self.effect(holder.fence)

    @precondition(lambda self: self.stale)
    @rule(data=st.data())
    def a_late_message_arrives(self, data: st.DataObject) -> None:
        """Deliver an effect that was under way when its sender lost the lock."""
        self.effect(data.draw(st.sampled_from(sorted(self.stale))))

    @rule()
    def restore_from_backup(self) -> None:
        """Go back to older rows: epochs repeat, the generation does not."""
        self.generation += 1
        self.epoch = 0
        for session in list(self.heard):
            self.end_session(session)
        for holder in self.holders.values():
            if not holder.frozen:
                self.lose(holder)

    def effect(self, fence: Fence) -> None:
        newest = max(self.accepted, default=fence.pair)
        try:
            self.gate.admit(fence)
        except FencedError:
            assert fence.pair < newest, "a newest effect was refused"
            return
        assert fence.pair >= newest, "an effect of an older epoch was accepted"
        self.accepted.append(fence.pair)

    @invariant()
    def no_two_act_at_once(self) -> None:
        acting = [
            holder.name
            for holder in self.holders.values()
            if not holder.frozen and holder.fence and holder.tenure.trusted(self.now)
        ]
        assert len(acting) <= 1, acting

    @invariant()
    def accepted_effects_never_go_back(self) -> None:
        assert self.accepted == sorted(self.accepted)


TestLeadership = Leadership.TestCase
TestLeadership.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
