"""`rota login`."""

import socket
import sys
from secrets import token_hex

import click

from rota.cli.client import DEFAULT_URL, Kept, Target, call, credentials_file, keep, target, tell
from rota.errors import InputError

DAYS = 90  # that a token of `rota login` is good for


@click.command("login")
@click.argument("url", required=False)
@click.option("--name", metavar="ACCOUNT", help="The account; asked for without it.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@click.option("--token-stdin", is_flag=True, help="Read a token from standard input instead of signing in.")
@click.option("--days", type=click.IntRange(1, 3650), help=f"How long it is good.  [default: {DAYS}]")
def command(
    *, url: str | None, name: str | None, password_stdin: bool, token_stdin: bool, days: int | None
) -> None:
    """Let the commands of this user talk to the hub at URL.

    Makes a token by an account's name and password, or takes one, and keeps it
    in ~/.config/rota/credentials.json, which only this user can read.
    """
    hub = (url or target().url or DEFAULT_URL).rstrip("/")
    if token_stdin:
        token = sys.stdin.readline().strip()
        if not token:
            raise InputError("Standard input holds no token.", "Pipe one in.")
        kept = Kept(hub, token, None)
    else:
        account = name or str(click.prompt("Name"))
        password = (
            sys.stdin.readline().rstrip("\n") if password_stdin else click.prompt("Password", hide_input=True)
        )
        login = {
            "name": account,
            "password": password,
            "token_name": f"login at {_host()} {token_hex(3)}",
            "days": days or DAYS,
        }
        made = call("POST", "/api/login", login, Target(hub, ""))
        kept = Kept(hub, made["token"], made["id"])
    me = call("GET", "/api/me", to=Target(hub, kept.token))
    keep(kept)
    tell(f"{me['account']} is signed in at {hub}; kept in {credentials_file()}.")


def _host() -> str:
    """Return this host's name as a token's name can hold it."""
    return "".join(
        sign for sign in socket.gethostname() if (sign.isalnum() and sign.isascii()) or sign in ".-"
    )[:32]
