"""`rota mail`."""

import click


@click.group("mail")
def command() -> None:
    """See whether the hub's mail arrives."""


@command.command("test")
@click.argument("address")
def test(address: str) -> None:
    """Send a mail to ADDRESS, and say whether the mail server took it."""
    from rota.cli.client import call
    from rota.errors import RotaError
    from rota.logging import escaped

    answer = call("POST", "/api/mail/test", {"to": address})
    if not answer["sent"]:
        raise RotaError(
            f"not yet sent: {escaped(answer['reason'])}: the queue tries again (`rota queue list`)"
        )
    click.echo(f"The mail server took a mail to {address}.")
