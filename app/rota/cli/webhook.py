"""`rota webhook`: all but `key` talks to the hub's API."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

API = "/api/webhooks"
as_json = click.option("--json", "as_json", is_flag=True, help="For programs.")
one = click.argument("webhook")


@click.group("webhook")
def command() -> None:
    """Tell other programs of acts, and see what came of it."""


@command.command("create")
@click.argument("url")
@click.option(
    "--act", "kinds", metavar="KIND", multiple=True, help="As backup.make or backup.*; else every act."
)
@click.option("--app", default="", metavar="NAME", help="Only the acts of this app.")
@click.option(
    "--secret-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="A secret of the receiver's, whsec_ and base64; else one is made.",
)
@as_json
def create(*, url: str, kinds: tuple[str, ...], app: str, secret_file: Path | None, as_json: bool) -> None:
    """Have URL told of acts, and print the secret that its receiver needs, this once."""
    secret = secret_file.read_text(encoding="utf-8").strip() if secret_file else ""
    made = _call("POST", API, {"url": url, "kinds": list(kinds), "app": app, "secret": secret})
    if as_json:
        click.echo(json.dumps(made, indent=2))
        return
    _show(made["webhook"])
    _say(f"{'secret':<12} {made['secret']}")
    click.echo("Give the secret to the receiver now: it is not shown again.")


@command.command("list")
@as_json
def show_all(*, as_json: bool) -> None:
    """List the webhooks."""
    webhooks = _call("GET", API)["webhooks"]
    if as_json:
        click.echo(json.dumps(webhooks, indent=2))
    elif not webhooks:
        click.echo("No webhook: `rota webhook create URL` makes one.")
    for webhook in () if as_json else webhooks:
        state = "active" if webhook["active"] else "paused"
        kinds, app = ", ".join(webhook["kinds"]), webhook["app"] or "all apps"
        _say(f"{webhook['id']}  {state}  {kinds}  {app}  {webhook['url']}")


@command.command("show")
@one
@as_json
def show(*, webhook: str, as_json: bool) -> None:
    """Print everything that is known of a webhook, but its secret."""
    found = _call("GET", _path(webhook))
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        _show(found)


@command.command("change")
@one
@click.option("--url", help="Another address.")
@click.option("--act", "kinds", metavar="KIND", multiple=True, help="Other acts, instead of those it has.")
@click.option("--app", metavar="NAME", help="Another app; empty for all.")
def change(webhook: str, url: str | None, kinds: tuple[str, ...], app: str | None) -> None:
    """Change a webhook: what is not given stays."""
    given = {"url": url, "kinds": list(kinds) or None, "app": app}
    changed = {name: value for name, value in given.items() if value is not None}
    if not changed:
        raise click.UsageError("Give --url, --act or --app.")
    _show(_call("PATCH", _path(webhook), changed))


@command.command("pause")
@one
def pause(webhook: str) -> None:
    """Tell a webhook of nothing, until it is resumed."""
    _show(_call("PATCH", _path(webhook), {"active": False}))


@command.command("resume")
@one
def resume(webhook: str) -> None:
    """Tell a paused webhook of what comes from now on."""
    _show(_call("PATCH", _path(webhook), {"active": True}))


@command.command("delete")
@one
def delete(webhook: str) -> None:
    """Remove a webhook, and the record of what it was told."""
    _call("DELETE", _path(webhook))
    click.echo(f"{webhook}  deleted")


@command.command("ping")
@one
def ping(webhook: str) -> None:
    """Tell a webhook of this very command, whatever it is subscribed to."""
    _tell(_call("POST", f"{_path(webhook)}/ping"), webhook)


@command.command("deliveries")
@one
@click.option("--limit", default=20, type=click.IntRange(1, 500), help="At most so many.  [default: 20]")
@as_json
def deliveries(*, webhook: str, limit: int, as_json: bool) -> None:
    """List what a webhook was told, the newest first, and what came of it."""
    found = _call("GET", f"{_path(webhook)}/deliveries?limit={limit}")["deliveries"]
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif not found:
        click.echo(f"Nothing yet: `rota webhook ping {webhook}` sends something.")
    for each in () if as_json else found:
        result = each["reason"] or each["status"] or "-"
        next_at = f"  next try {each['next_at']}" if each["next_at"] else ""
        line = f"{each['id']:>8}  {each['kind']:<24}  {each['state']:<9}  {each['tries']}  {result}{next_at}"
        _say(line)


@command.command("redeliver")
@one
@click.argument("delivery", type=click.IntRange(1))
def redeliver(webhook: str, delivery: int) -> None:
    """Try a delivery again now, whatever came of it before."""
    _tell(_call("POST", f"{_path(webhook)}/deliveries/{delivery}/redeliver"), webhook)


@command.command("key")
def key() -> None:
    """Print a new key for the credential webhooks-key, which seals the secrets of a cluster's webhooks."""
    from rota.hooks.vault import new_key

    click.echo(new_key())


def _call(method: str, path: str, body: object = None) -> Any:
    from rota.cli.client import call

    return call(method, path, body)


def _say(line: str) -> None:
    from rota.cli.client import tell

    tell(line)


def _path(webhook: str) -> str:
    return f"{API}/{quote(webhook, safe='')}"


def _show(webhook: dict[str, Any]) -> None:
    for name, value in webhook.items():
        text = ", ".join(value) if isinstance(value, list) else value
        _say(f"{name:<12} {text}")


def _tell(delivery: dict[str, Any], webhook: str) -> None:
    _say(f"{delivery['id']}  {delivery['state']}: `rota webhook deliveries {webhook}` shows what comes of it")
