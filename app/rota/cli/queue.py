"""`rota queue`."""

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

import click

from rota.cli.client import call, tell
from rota.errors import RotaError

STATES = ("due", "later", "running", "dead")


@click.group("queue")
def command() -> None:
    """Show the jobs on the work queue; retry or drop them."""


@command.command("list")
@click.option("--kind", metavar="KIND", help="Only jobs of this kind.")
@click.option("--state", type=click.Choice(STATES), help="Only jobs in this state.")
@click.option("--limit", default=100, type=click.IntRange(1, 10_000), help="At most so many.  [default: 100]")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def show_all(*, kind: str | None, state: str | None, limit: int, as_json: bool) -> None:
    """List jobs, the one that is due first at the top."""
    jobs = call("GET", f"/api/queue?{urlencode({'kind': kind or '', 'state': state or '', 'limit': limit})}")
    if as_json:
        click.echo(json.dumps([_shown(job) for job in jobs], indent=2))
    elif not jobs:
        click.echo("No such job." if kind or state else "No job is on the queue.")
    for job in () if as_json else jobs:
        error = (job["error"] or "").partition(" (")[0][:80]
        when = _when(job["run_after"])
        line = f"{job['id']:>8}  {job['kind']:<20}  {job['state']:<7}  {job['attempts']}  {when}  {error}"
        tell(line)


@command.command("show")
@click.argument("job", type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def show(*, job: int, as_json: bool) -> None:
    """Print everything that is known of a job."""
    document = _shown(call("GET", f"/api/queue/{job}"))
    if as_json:
        click.echo(json.dumps(document, indent=2))
        return
    for name, value in document.items():
        if value is not None:
            tell(f"{name:<15} {value}")


@command.command("retry")
@click.argument("jobs", metavar="JOB...", nargs=-1, type=click.IntRange(1))
@click.option("--dead", metavar="KIND", help="Every dead job of this kind.")
def retry(jobs: tuple[int, ...], dead: str | None) -> None:
    """Make jobs due now. A dead one has all its attempts before it again."""
    _change("retry", jobs, dead)


@command.command("drop")
@click.argument("jobs", metavar="JOB...", nargs=-1, type=click.IntRange(1))
@click.option("--dead", metavar="KIND", help="Every dead job of this kind.")
def drop(jobs: tuple[int, ...], dead: str | None) -> None:
    """Remove jobs that do not run. They are not done, and nobody will do them."""
    _change("drop", jobs, dead)


def _change(verb: str, named: Sequence[int], dead: str | None) -> None:
    """Retry or drop jobs, print those that were, and fail for those named that were not."""
    if not named and not dead:
        raise click.UsageError("Name jobs by their numbers, or a kind with --dead.")
    changed = call("POST", f"/api/queue/{verb}", {"jobs": named, "dead": dead or ""})["jobs"]
    done = "due now" if verb == "retry" else "dropped"
    for job in changed:
        tell(f"{job}  {done}")
    left = sorted(set(named) - set(changed))
    if left:
        listed = ", ".join(map(str, left))
        raise RotaError(f"left alone: {listed}: running, or not on the queue; `rota queue show` says which")
    if not changed:
        click.echo(f"No job of kind {dead} is dead.")


def _shown(job: dict[str, Any]) -> dict[str, Any]:
    times = {name: _when(job[name]) for name in ("enqueued_at", "run_after")}
    return {**job, **times}


def _when(moment: str) -> str:
    """Return a moment to the second."""
    return f"{moment[:19]}Z"
