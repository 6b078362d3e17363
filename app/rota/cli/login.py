"""`rota login`."""

import os
import socket
import sys
from secrets import token_hex

import click

from rota.cli import contexts
from rota.cli.client import DEFAULT_URL, Target, call, tell
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
    in ~/.config/rota/contexts.json, which only this user can read. The hub is kept
    as a context: under the name of `rota --context NAME login`, else its host's.
    """
    asked = contexts.checked(contexts.chosen()) if contexts.chosen() else ""
    hub = (url or _known_url(asked)).rstrip("/")
    if token_stdin:
        token = sys.stdin.readline().strip()
        if not token:
            raise InputError("Standard input holds no token.", "Pipe one in.")
        kept = contexts.Context(hub, token, None)
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
        kept = contexts.Context(hub, made["token"], made["id"])
    me = call("GET", "/api/me", to=Target(hub, kept.token))
    name_of = asked or contexts.read().name_of(hub)
    contexts.change(lambda known: known.adding(name_of, kept))
    tell(f"{me['account']} is signed in at {hub}; kept as {name_of} in {contexts.file()}.")


def _known_url(asked: str) -> str:
    """Return where the hub is when nobody says: that of the context asked for, or in use."""
    known = contexts.read()
    context = known.known.get(asked or known.current)
    return os.environ.get("ROTA_URL") or (context.url if context else DEFAULT_URL)


def _host() -> str:
    """Return this host's name as a token's name can hold it."""
    return "".join(
        sign for sign in socket.gethostname() if (sign.isalnum() and sign.isascii()) or sign in ".-"
    )[:32]
