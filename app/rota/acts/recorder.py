"""The one function through which every act of a web process goes: logged, then done, then answered."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import structlog

from rota.acts.act import Act
from rota.errors import RotaError, UnreachableError
from rota.tlog.log import Tlog
from rota.tlog.records import Logged

T = TypeVar("T")
FAILED = ".failed"  # after an act's kind: it is in the log, and did not happen
UNKNOWN = ".unknown"  # it is in the log, and whether it happened nobody knows

log = structlog.get_logger("rota.acts")

_begun: set[asyncio.Task[object]] = set()  # a task that nobody holds may end at any moment


async def perform(tlog: Tlog, act: Act, work: Callable[[Logged], Awaitable[T]]) -> T:
    """Append an act, and only when it is durable do it; return what `work` returns.

    Raises TlogError or BusyError where it cannot be appended: then nothing was
    done, and the caller says so. Where `work` raises, an entry says that the act
    failed, or that nobody knows whether it did: a database that went away may
    have committed before its answer. What has begun is brought to its
    end, whether or not its caller stays: half of it may be done already, and a
    call to the database that is cancelled may have been committed.
    """
    running = asyncio.create_task(_perform(tlog, act, work), name="act")
    _begun.add(running)
    running.add_done_callback(_begun.discard)
    return await asyncio.shield(running)


async def _perform(tlog: Tlog, act: Act, work: Callable[[Logged], Awaitable[T]]) -> T:
    logged = await tlog.append(bytes(act))
    try:
        done = await work(logged)
    except asyncio.CancelledError:
        raise  # this process ends, and what came of it nobody knows
    except BaseException as error:
        with suppress(RotaError):
            await tlog.append(bytes(_end_of(act, logged, error)))
        raise
    log.info("act", kind=act.kind, actor=act.actor, subject=act.subject, entry=logged.index)
    return done


def _end_of(act: Act, logged: Logged, error: BaseException) -> Act:
    """Return the act that says how another one ended."""
    end = UNKNOWN if isinstance(error, UnreachableError) else FAILED
    reason = str(error) if isinstance(error, RotaError) else type(error).__name__
    return Act(
        kind=act.kind + end,
        actor=act.actor,
        subject=act.subject,
        details={"entry": logged.index, "act": act.id, "reason": reason[:500]},
    )
