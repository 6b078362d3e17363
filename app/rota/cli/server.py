"""`rota server`: every command talks to the hub's API."""

import json
from typing import Any
from urllib.parse import quote

import click

API = "/api/servers"
as_json = click.option("--json", "as_json", is_flag=True, help="For programs.")
GIB = 1024**3


@click.group("server")
def command() -> None:
    """The servers that run apps: enrol them, and see how they are."""


@command.command("enrol")
@click.argument("name")
@click.option("--address", required=True, help="Its own address in the private network, as 10.98.0.6.")
@click.option("--endpoint", default="", metavar="HOST[:PORT]", help="Where it is reached from outside.")
@click.option("--wireguard-key", default="", metavar="KEY", help="Its public key in the private network.")
@click.option("--primary", is_flag=True, help="It is the primary itself.")
@as_json
def enrol(  # noqa: PLR0913 - one for each option
    *, name: str, address: str, endpoint: str, wireguard_key: str, primary: bool, as_json: bool
) -> None:
    """Await the server NAME, and print what it must be given within 15 minutes, this once."""
    body = {
        "name": name,
        "address": address,
        "endpoint": endpoint,
        "wireguard_key": wireguard_key,
        "primary": primary,
    }
    made = _call("POST", API, body)
    if as_json:
        click.echo(json.dumps(made, indent=2))
        return
    click.echo(f"{name} is awaited at {address} for 15 minutes. On the host, as root, put the next line into")
    click.echo(
        "/etc/rota/enrolment.json (mode 0600) and run `rota-agent enrol`; the playbook enrol.yml does both."
    )
    click.echo(json.dumps(made))


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
