"""`rota ps`: what runs where, and why; how many, and on which servers. Talks to the hub's API."""

import json
from typing import Any
from urllib.parse import quote

import click

as_json = click.option("--json", "as_json", is_flag=True, help="For programs.")
detach = click.option("--detach", is_flag=True, help="Return as soon as the deploy has begun.")


class _Group(click.Group):
    """Takes what is no command's name for an app's."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["show", *args]
        return super().resolve_command(ctx, args)


@click.group("ps", cls=_Group)
def command() -> None:
    """What an app runs, and where: `rota ps APP`. An app may not be named as one of the commands here."""


@command.command("show")
@click.argument("app")
@as_json
def show(*, app: str, as_json: bool) -> None:
    """List an app's instances with their servers; `rota ps APP` is short for it."""
    found = _call("GET", _path(app))
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    about = found["app"]
    release = f"v{about['release']}" if about["release"] else "no release yet"
    _say(f"{about['name']} {release}, {about['healthy']} of {about['instances']} healthy")
    for scale in found["scales"]:
        pins = [f"{word} {', '.join(scale[word])}" for word in ("use", "avoid") if scale[word]]
        _say(f"  {scale['process_type']}={scale['count']}" + (f"  ({'; '.join(pins)})" if pins else ""))
    rows: list[tuple[str, ...]] = [("INSTANCE", "RELEASE", "SERVER", "PORT", "STATE", "RESTARTS")]
    for one in (*found["instances"], *found["unknown"]):
        state = "healthy" if one["healthy"] and one["state"] == "running" else one["state"]
        rows.append(
            (
                one["instance"],
                f"v{one['release']}",
                one["server"],
                str(one["port"]),
                state,
                str(one["restarts"]),
            )
        )
    if len(rows) > 1:
        _table(rows)
    for one in (*found["instances"], *found["unknown"]):
        reason = one["waits"] or ("" if one["healthy"] else one["reason"].partition("\n")[0])
        if reason:
            _say(f"{one['instance']}@{one['release']}: {reason}")


@command.command("scale")
@click.argument("app")
@click.argument("counts", nargs=-1, required=True, metavar="TYPE=N...")
@detach
def scale(*, app: str, counts: tuple[str, ...], detach: bool) -> None:
    """Set how many instances run, as web=2 worker=1."""
    wanted = {}
    for each in counts:
        name, equals, number = each.partition("=")
        if not equals or not number.isdecimal():
            raise click.UsageError(f"{each}: write TYPE=N, as web=2.")
        wanted[name] = int(number)
    _follow(_call("POST", f"{_path(app)}/scale", {"counts": wanted}), detach=detach)


@command.command("pin")
@click.argument("app")
@click.argument("process_type", metavar="TYPE")
@click.option("--use", default="", metavar="S1,S2", help="The servers it may run on; without it, any.")
@click.option("--avoid", default="", metavar="S3", help="The servers it must not run on.")
@detach
def pin(*, app: str, process_type: str, use: str, avoid: str, detach: bool) -> None:
    """Pin a process type to servers, or away from them; what that affects moves. With neither, it is free."""
    body = {"process_type": process_type, "use": _names(use), "avoid": _names(avoid)}
    _follow(_call("POST", f"{_path(app)}/pin", body), detach=detach)


@command.command("why")
@click.argument("instance")
@as_json
def why(*, instance: str, as_json: bool) -> None:
    """Say why INSTANCE, as shop.web.2, is where it is: the verdict on every server."""
    found = _call("GET", f"/api/instances/{quote(instance, safe='')}/why")
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    _say(f"{found['instance']} v{found['release']} is on {found['server']} ({found['state']})")
    if found["waits"]:
        _say(f"  it waits: {found['waits']}")
    for each in found["verdicts"]:
        against = "; ".join(f"{rule}: {reason}" for rule, reason in each["against"].items())
        _say(f"  {each['server']:<20} {against or _rank(each)}")


def _rank(verdict: dict[str, Any]) -> str:
    if verdict["rank"] == 1:
        return "chosen"
    return f"fit, and came {verdict['rank']}. by fewest instances of the app, then fewest of all, then name"


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _path(app: str) -> str:
    return f"/api/apps/{quote(app, safe='')}"


def _follow(begun: dict[str, Any], *, detach: bool) -> None:
    from rota.cli.following import follow

    follow(begun, detach=detach)


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
