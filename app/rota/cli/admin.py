"""`rota admin`: administrators, on a host of the hub alone, since it opens the store itself."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.cli.options import settings_from, shared

if TYPE_CHECKING:
    from rota.store.accounts import Change

ACTOR = "operator on the host"


@click.group("admin")
def command() -> None:
    """Make administrators, list accounts, set passwords: on a host of the hub."""


@command.command("create")
@click.argument("name")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@shared
def create(name: str, password_stdin: bool, data: str | None, file: Path | None) -> None:  # noqa: FBT001
    """Make an administrator of this name. Others it can make in the hub itself."""
    from rota.access.names import check_account_name
    from rota.access.passwords import hashed
    from rota.access.scopes import Scope
    from rota.acts.act import Act
    from rota.cli.database import with_database
    from rota.store.accounts import Accounts

    settings = settings_from(file, data).settings
    check_account_name(name)
    kept = hashed(_password(from_stdin=password_stdin))
    details = {"scopes": [Scope.ADMIN.value]}
    act = bytes(Act(kind="account.create", actor=ACTOR, subject=f"account:{name}", details=details))
    with_database(
        settings, lambda database: Accounts(database).create(name, kept, [Scope.ADMIN], act), begin=True
    )
    click.echo(f"{name} is an administrator.")


@command.command("list")
@shared
def show(data: str | None, file: Path | None) -> None:
    """List the accounts, their scopes, and whether they may sign in."""
    from rota.access.scopes import written
    from rota.cli.database import with_database
    from rota.store.accounts import Accounts

    settings = settings_from(file, data).settings
    accounts = with_database(settings, lambda database: Accounts(database).all())
    if not accounts:
        click.echo("No account yet: `rota admin create NAME` makes an administrator.")
    for account in accounts:
        state = "disabled" if account.disabled else "good"
        click.echo(f"{account.name:<32}  {state:<8}  {written(account.scopes)}".rstrip())


@command.command("password")
@click.argument("name")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@shared
def password(name: str, password_stdin: bool, data: str | None, file: Path | None) -> None:  # noqa: FBT001
    """Set an account's password. Its browsers are signed out; its tokens stay."""
    from rota.access.passwords import hashed
    from rota.store.accounts import Change

    kept = hashed(_password(from_stdin=password_stdin))
    _change("account.password", name, Change(password=kept), data, file)
    click.echo(f"{name} has a new password.")


@command.command("disable")
@click.argument("name")
@shared
def disable(name: str, data: str | None, file: Path | None) -> None:
    """Let an account in no longer, neither by its password nor by its tokens."""
    from rota.store.accounts import Change

    _change("account.disable", name, Change(disabled=True), data, file)
    click.echo(f"{name} is disabled.")


@command.command("enable")
@click.argument("name")
@shared
def enable(name: str, data: str | None, file: Path | None) -> None:
    """Let a disabled account in again."""
    from rota.store.accounts import Change

    _change("account.enable", name, Change(disabled=False), data, file)
    click.echo(f"{name} is enabled.")


def _change(kind: str, name: str, change: "Change", data: str | None, file: Path | None) -> None:
    from rota.acts.act import Act
    from rota.cli.database import with_database
    from rota.store.accounts import Accounts

    settings = settings_from(file, data).settings
    act = bytes(Act(kind=kind, actor=ACTOR, subject=f"account:{name}"))
    with_database(settings, lambda database: Accounts(database).change(name, change, act))


def _password(*, from_stdin: bool) -> str:
    from rota.access.names import check_password

    if from_stdin:
        given = sys.stdin.readline().rstrip("\n")
    else:
        given = str(click.prompt("Password", hide_input=True, confirmation_prompt="Once more"))
    return check_password(given)
