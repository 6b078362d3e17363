"""`rota logout`."""

import click

from rota.cli import contexts
from rota.cli.client import Target, call, tell
from rota.errors import RotaError


@click.command("logout")
def command() -> None:
    """Forget the hub in use and its token, or those of `rota --context NAME logout`.

    A token that `rota login` made is revoked.
    """
    known = contexts.read()
    name = contexts.chosen() or known.current
    if not name:
        click.echo("Not signed in.")
        return
    context = known.named(name)
    try:
        if context.token_id is not None:
            call("DELETE", f"/api/tokens/{context.token_id}", to=Target(context.url, context.token))
    except RotaError as error:
        tell(f"rota: the token is forgotten here, and not revoked: {error}", err=True)
    contexts.change(lambda all_known: all_known.without(name))
    tell(f"Signed out: {name} is removed from {contexts.file()}.")
