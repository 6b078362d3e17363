"""The one function through which every act of a web process goes: logged, then done, then answered."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import structlog

from rota.acts.act import Act
from rota.errors import RotaError, TlogError
from rota.tlog.log import Tlog
from rota.tlog.records import Logged

T = TypeVar("T")
FAILED = ".failed"  # after an act's kind: it is in the log, and did not happen

log = structlog.get_logger("rota.acts")


async def perform(tlog: Tlog, act: Act, work: Callable[[Logged], Awaitable[T]]) -> T:
    """Append an act, and only when it is durable do it; return what `work` returns.

    Raises TlogError or BusyError where it cannot be appended: then nothing was
    done, and the caller says so. Where `work` raises, an entry says that the act
    failed, as far as that can still be said.
    """
    logged = await tlog.append(bytes(act))
    try:
        done = await work(logged)
    except BaseException as error:
        reason = str(error) if isinstance(error, RotaError) else type(error).__name__
        with suppress(TlogError, RotaError):
            await tlog.append(bytes(_failure(act, logged, reason)))
        raise
    log.info("act", kind=act.kind, actor=act.actor, subject=act.subject, entry=logged.index)
    return done


def _failure(act: Act, logged: Logged, reason: str) -> Act:
    return Act(
        kind=act.kind + FAILED,
        actor=act.actor,
        subject=act.subject,
        details={"entry": logged.index, "act": act.id, "reason": reason[:500]},
    )
