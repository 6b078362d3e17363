"""`rota token`."""

import json

import click

from rota.access.scopes import Scope
from rota.cli.client import call, tell


@click.group("token")
def command() -> None:
    """Make, list and revoke API tokens."""


@command.command("create")
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice([scope.value for scope in Scope]),
    help="What it may do; several times for several.  [default: all you may]",
)
@click.option("--days", type=click.IntRange(1, 3650), help="How long it is good.  [default: for ever]")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def create(name: str, scopes: tuple[str, ...], days: int | None, as_json: bool) -> None:  # noqa: FBT001
    """Make a token and print its secret, which nothing can show again."""
    wanted = list(scopes) or call("GET", "/api/me")["scopes"]
    made = call("POST", "/api/tokens", {"name": name, "scopes": wanted, "days": days})
    if as_json:
        click.echo(json.dumps(made, indent=2))
        return
    tell(made["token"])
    tell(f"Token {made['id']}, {name}: {' '.join(made['scopes'])}", err=True)


@command.command("list")
@click.option("--all", "everybody", is_flag=True, help="Everybody's; for administrators.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def show(everybody: bool, as_json: bool) -> None:  # noqa: FBT001
    """List your tokens, the newest first."""
    tokens = call("GET", f"/api/tokens?of={'all' if everybody else 'me'}")
    if as_json:
        click.echo(json.dumps(tokens, indent=2))
        return
    if not tokens:
        click.echo("No token yet: `rota token create NAME` makes one.")
    for token in tokens:
        until = (token["expires_at"] or "for ever")[:10]
        name = f"{token['account']}/{token['name']}"
        line = f"{token['id']:>6}  {name:<40}  {token['state']:<8}  {until:<10}  {' '.join(token['scopes'])}"
        tell(line)


@command.command("revoke")
@click.argument("token", type=click.IntRange(1))
def revoke(token: int) -> None:
    """Make a token good no longer, by its number."""
    call("DELETE", f"/api/tokens/{token}")
    click.echo(f"Token {token} is revoked.")
