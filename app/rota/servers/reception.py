"""What the hub does with a server's message: believe it, judge it, keep what it says, answer."""

import time
from dataclasses import dataclass

import structlog

from rota.acts.act import Act
from rota.coordination.bus.announcer import Announcer
from rota.coordination.epoch import Epoch
from rota.settings import Settings
from rota.store.database import Database, Transaction
from rota.store.runs import Runs
from rota.store.servers import KeyOwner, Servers
from rota.store.tlog import Outbox
from rota.wire import channel
from rota.wire.answer import Answer
from rota.wire.channel import Memory, Side, Standing, Statement
from rota.wire.envelope import Sealed, check_public_key, unseal
from rota.wire.errors import IllegalError, UnsignedError, WireError
from rota.wire.rotation import standing
from rota.wire.statements import Report, Rotate, RunReport

PAGES = "server:{}"  # the topic of a server's pages

log = structlog.get_logger("rota.servers")


@dataclass(frozen=True)
class _Kept:
    """What came of a message: whether what is said of instances changed, and whether it was lost."""

    changed: bool = False
    returned: bool = False


class Reception:
    """Takes reports and rotations."""

    def __init__(self, settings: Settings, database: Database, announcer: Announcer) -> None:
        """Keep what servers say in this database, and tell pages."""
        self._settings = settings
        self._database = database
        self._announcer = announcer
        self._servers = Servers(database)
        self._audience = ""

    async def audience(self) -> str:
        """Return whom messages must be meant for."""
        if not self._audience:
            self._audience = (await self._servers.identity()).audience
        return self._audience

    async def take(self, data: bytes) -> Answer:
        """Take an envelope. Raises WireError's kinds for what is refused; it then changed nothing."""
        sealed = unseal(data)
        owner = await self.owner(sealed)
        stands = standing(owner.key, owner.now)
        channel.refuse_illegal(sealed.kind, Side.SERVER, stands)
        statement = channel.decode(sealed, [owner.key.public])
        me = await self.audience()
        kept = await self._database.write(lambda tx: self._keep(tx, statement, owner, me))
        name = owner.server
        if kept.returned:
            log.info("server returned", server=name)
        if isinstance(statement.body, Report):
            for reason in statement.body.refused:
                log.warning("server refused an order", server=name, reason=reason)
            self._announcer.say(PAGES.format(name), "state" if kept.changed or kept.returned else "report")
        return Answer(
            state="done", now=time.time_ns() // 1000, report_every=self._settings.servers.report_every
        )

    async def owner(self, sealed: Sealed) -> KeyOwner:
        """Return whose key signed. Raises UnsignedError where nobody's did."""
        if len(sealed.signers) != 1:
            raise UnsignedError("a server signs with one key")
        owner = await self._servers.owner(check_public_key(sealed.signers[0]))
        if owner is None:
            raise UnsignedError("no server has this key: enrol it with `rota server enrol NAME`")
        return owner

    async def _keep(self, tx: Transaction, statement: Statement, owner: KeyOwner, me: str) -> _Kept:
        row = await Servers.lock(tx, owner.server)
        if row is None or row["state"] == "removed":
            raise IllegalError(
                f"{owner.server} was removed: enrol it anew with `rota server enrol {owner.server}`"
            )
        if row["state"] == "awaited":
            channel.refuse_illegal(channel.kind_of(statement.body), Side.SERVER, Standing.AWAITED)
        memory = Memory(row["session_in"], int(row["seq_in"]), Epoch(0, 0))
        taken = channel.judge(statement, memory, me, owner.server)
        if taken.repeated:
            return _Kept()
        body = statement.body
        if isinstance(body, Report):
            changed = await Servers.report(tx, owner.server, statement.seq, body, row["report"])
            for run in body.runs:
                changed = await _run(tx, run) or changed
            if row["lost"]:
                await Outbox.add(tx, bytes(_act("server.returned", owner.server)))
            return _Kept(changed, bool(row["lost"]))
        if isinstance(body, Rotate):
            await self._rotate(tx, statement.seq, body, owner)
        return _Kept()

    async def _rotate(self, tx: Transaction, seq: int, body: Rotate, owner: KeyOwner) -> None:
        check_public_key(body.public_key)
        other = await tx.one("servers.by_key", public_key=body.public_key)
        if other is not None and (other["server"] != owner.server or other["revoked"]):
            raise WireError("this key cannot be taken: it is or was another's, or was ended for good")
        if body.ends and body.public_key != owner.key.public:
            raise WireError("only the key that stays may end the others")
        days = self._settings.servers.key_overlap
        await Servers.rotate(tx, owner.server, body.public_key, days, ends=body.ends)
        await Servers.number(tx, owner.server, seq)
        await Outbox.add(tx, bytes(_act("server.rotate", owner.server, key=body.public_key, ends=body.ends)))


async def _run(tx: Transaction, run: RunReport) -> bool:
    if run.state == "running":
        return await Runs.begin(tx, run.run)
    if run.state == "ended":
        state = "done" if run.exit_code == 0 else "failed"
        return await Runs.end(tx, run.run, state, run.exit_code, run.reason)
    if run.state == "failed":
        return await Runs.end(tx, run.run, "failed", None, run.reason)
    return False


def _act(kind: str, server: str, **details: object) -> Act:
    return Act(kind=kind, actor=f"server {server}", subject=server, details=details)
