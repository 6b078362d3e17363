"""`rota logout`."""

import click

from rota.cli.client import Target, call, credentials_file, forget, kept
from rota.errors import RotaError


@click.command("logout")
def command() -> None:
    """Forget the hub and the token of `rota login`; a token that it made is revoked."""
    known = kept()
    if known is None:
        click.echo("Not signed in.")
        return
    try:
        if known.token_id is not None:
            call("DELETE", f"/api/tokens/{known.token_id}", to=Target(known.url, known.token))
    except RotaError as error:
        click.echo(f"rota: the token is forgotten here, and not revoked: {error}", err=True)
    forget()
    click.echo(f"Signed out: {credentials_file()} is removed.")
