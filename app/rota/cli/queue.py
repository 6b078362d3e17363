"""`rota queue`: for now on the host alone, since it opens the store itself."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.cli.options import settings_from, shared
from rota.errors import RotaError
from rota.logging import escaped

if TYPE_CHECKING:
    from datetime import datetime

    from rota.settings import Settings
    from rota.store.database import Database
    from rota.store.jobs import JobRecord

STATES = ("due", "later", "running", "dead")


@click.group("queue")
def command() -> None:
    """Show the jobs on the work queue; retry or drop them."""


@command.command("list")
@click.option("--kind", metavar="KIND", help="Only jobs of this kind.")
@click.option("--state", type=click.Choice(STATES), help="Only jobs in this state.")
@click.option("--limit", default=100, type=click.IntRange(1, 10_000), help="At most so many.  [default: 100]")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@shared
def show_all(  # noqa: PLR0913 - one parameter an option
    *,
    kind: str | None,
    state: str | None,
    limit: int,
    as_json: bool,
    data: str | None,
    file: Path | None,
) -> None:
    """List jobs, the one that is due first at the top."""
    from rota.cli.database import with_database
    from rota.store.jobs import Jobs, State

    settings = settings_from(file, data).settings
    wanted = State(state) if state else None
    jobs = with_database(settings, lambda database: Jobs(database).list(kind, wanted, limit))
    if as_json:
        click.echo(json.dumps([_document(job) for job in jobs], indent=2))
    elif not jobs:
        click.echo("No such job.")
    for job in () if as_json else jobs:
        error = escaped(job.error or "").partition(" (")[0][:80]
        line = f"{job.id:>8}  {job.kind:<20}  {job.state:<7}  {job.attempts}  {_when(job.run_after)}  {error}"
        click.echo(line.rstrip())


@command.command("show")
@click.argument("job", type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@shared
def show(*, job: int, as_json: bool, data: str | None, file: Path | None) -> None:
    """Print everything that is known of a job."""
    from rota.cli.database import with_database
    from rota.store.jobs import Jobs

    settings = settings_from(file, data).settings
    found = with_database(settings, lambda database: Jobs(database).find(job))
    if found is None:
        raise RotaError(f"job {job} is not on the queue: it is done, or dropped; `rota queue list` shows all")
    document = _document(found)
    if as_json:
        click.echo(json.dumps(document, indent=2))
        return
    for name, value in document.items():
        if value is not None:
            click.echo(f"{name:<15} {escaped(str(value))}")


@command.command("retry")
@click.argument("jobs", metavar="JOB...", nargs=-1, type=click.IntRange(1))
@click.option("--dead", metavar="KIND", help="Every dead job of this kind.")
@shared
def retry(jobs: tuple[int, ...], dead: str | None, data: str | None, file: Path | None) -> None:
    """Make jobs due now. A dead one has all its attempts before it again."""
    _change("retry", jobs, dead, settings_from(file, data).settings)


@command.command("drop")
@click.argument("jobs", metavar="JOB...", nargs=-1, type=click.IntRange(1))
@click.option("--dead", metavar="KIND", help="Every dead job of this kind.")
@shared
def drop(jobs: tuple[int, ...], dead: str | None, data: str | None, file: Path | None) -> None:
    """Remove jobs that do not run. They are not done, and nobody will do them."""
    _change("drop", jobs, dead, settings_from(file, data).settings)


def _change(verb: str, named: Sequence[int], dead: str | None, settings: "Settings") -> None:
    """Retry or drop jobs, print those that were, and fail for those named that were not."""
    from rota.cli.database import with_database
    from rota.store.jobs import MOST_DEAD, Jobs, State

    if not named and not dead:
        raise click.UsageError("Name jobs by their numbers, or a kind with --dead.")

    async def work(database: "Database") -> Sequence[int]:
        store = Jobs(database)
        found = await store.list(dead, State.DEAD, MOST_DEAD) if dead else ()
        wanted = [*named, *(job.id for job in found)]
        return await (store.retry(wanted) if verb == "retry" else store.drop(wanted))

    changed = with_database(settings, work)
    done = "due now" if verb == "retry" else "dropped"
    for job in changed:
        click.echo(f"{job}  {done}")
    left = sorted(set(named) - set(changed))
    if left:
        listed = ", ".join(map(str, left))
        raise RotaError(f"left alone: {listed}: running, or not on the queue; `rota queue show` says which")
    if not changed:
        click.echo(f"No job of kind {dead} is dead.")


def _document(job: "JobRecord") -> dict[str, object]:
    return {
        "id": job.id,
        "kind": job.kind,
        "state": job.state.value,
        "attempts": job.attempts,
        "enqueued_at": _when(job.enqueued_at),
        "run_after": _when(job.run_after),
        "key": job.key,
        "worker": job.worker,
        "program_schema": job.program_schema,
        "error": job.error,
        "payload": job.payload,
    }


def _when(moment: "datetime") -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
