"""`rota server`: every command talks to the hub's API."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from rota.cli.options import settings_from, shared

API = "/api/servers"
as_json = click.option("--json", "as_json", is_flag=True, help="For programs.")
GIB = 1024**3
ACTOR = "operator on the host"


@click.group("server")
def command() -> None:
    """The servers that run apps: enrol them, and see how they are."""


@command.command("enrol")
@click.argument("name")
@click.option("--address", required=True, help="Its own address in the private network, as 10.98.0.6.")
@click.option("--endpoint", default="", metavar="HOST[:PORT]", help="Where it is reached from outside.")
@click.option("--wireguard-key", default="", metavar="KEY", help="Its public key in the private network.")
@click.option("--primary", is_flag=True, help="It is the primary itself.")
@click.option(
    "--here", is_flag=True, help="On a host of the hub, as root: open the store, and need no login."
)
@as_json
@shared
def enrol(*, as_json: bool, here: bool, data: str | None, file: Path | None, **asked: Any) -> None:
    """Await the server NAME, and print what it must be given within 15 minutes, this once."""
    made = _invite_here(asked, data, file) if here else _call("POST", API, asked)
    if as_json:
        click.echo(json.dumps(made))
        return
    click.echo(
        f"{asked['name']} is awaited at {asked['address']} for 15 minutes. On the host, as root, give the"
    )
    click.echo("next line to `rota-agent enrol`; the playbook enrol.yml does all of it.")
    click.echo(json.dumps(made))


def _invite_here(asked: dict[str, Any], data: str | None, file: Path | None) -> dict[str, Any]:
    from dataclasses import asdict

    from rota.acts.access import make_tlog
    from rota.acts.key import log_key
    from rota.cli.database import with_database
    from rota.servers.enrolment import Enrolments, Invitation
    from rota.store.database import Database
    from rota.store.servers import Awaited

    settings = settings_from(file, data).settings

    async def work(database: Database) -> Invitation:
        enrolments = Enrolments(settings, database, make_tlog(settings, database), log_key(settings))
        primary = {"is_primary": asked.pop("primary")}
        return await enrolments.begin_here(ACTOR, Awaited(**asked, **primary, token="", lasts=0))

    return asdict(with_database(settings, work))


@command.command("list")
@as_json
def show_all(*, as_json: bool) -> None:
    """List the servers; one whose reports are missing is shown as lost."""
    servers = _call("GET", API)["servers"]
    if as_json:
        click.echo(json.dumps(servers, indent=2))
        return
    if not servers:
        click.echo("No server: `rota server enrol NAME --address ADDRESS` awaits one.")
        return
    head = ("NAME", "STATE", "ADDRESS", "RELEASE", "CPU", "MEMORY", "LATENCY", "INSTANCES", "LAST REPORT")
    _table([head, *(_row(server) for server in servers)])


@command.command("show")
@click.argument("name")
@as_json
def show(*, name: str, as_json: bool) -> None:
    """Print everything that is known of a server."""
    server = _call("GET", f"{API}/{quote(name, safe='')}")
    if as_json:
        click.echo(json.dumps(server, indent=2))
        return
    for key, value in server.items():
        if key not in ("instances", "warnings") and value is not None:
            _say(f"{key:<20} {value}")
    for warning in server["warnings"]:
        _say(f"{'warning':<20} {warning}")
    for one in server["instances"]:
        well = "healthy" if one["healthy"] else one["state"]
        _say(f"{one['instance']}@{one['release']:<6} {well:<10} port {one['port']}  {one['reason']}")


def _row(server: dict[str, Any]) -> tuple[str, ...]:
    latency, reported = server["round_trip_ms"], server["report_age_s"]
    return (
        server["name"],
        server["state"],
        server["address"] + (" (primary)" if server["primary"] else ""),
        server["distribution"] or "-",
        str(server["processors"] or "-"),
        f"{server['memory_bytes'] / GIB:.1f} GiB" if server["memory_bytes"] else "-",
        "-" if latency is None else f"{latency:.1f} ms",
        str(len(server["instances"])),
        "never" if reported is None else f"{reported:.0f} s ago",
    )


def _table(rows: list[tuple[str, ...]]) -> None:
    from rota.cli.tables import table

    for line in table(rows):
        _say(line)


def _call(method: str, path: str, body: object = None) -> Any:
    from rota.cli.client import call

    return call(method, path, body)


def _say(text: str) -> None:
    from rota.cli.client import tell

    tell(text)
