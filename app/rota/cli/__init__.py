"""The command line. Every command is imported when it is called, so that --help is quick."""

import importlib
import sys
from typing import TYPE_CHECKING

import click

from rota import __version__
from rota.errors import InputError, RotaError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_COMMANDS = {
    "admin": ("rota.cli.admin", "Make administrators, list accounts, set passwords: on a host of the hub."),
    "apps": ("rota.cli.apps", "List the apps."),
    "backup": ("rota.cli.backup", "Make, list and verify backups of this hub."),
    "completion": ("rota.cli.completion", "Print what completes commands in bash or zsh."),
    "config": ("rota.cli.config", "Set, show and import the values that an app runs with."),
    "context": ("rota.cli.context", "Choose between several hubs."),
    "deploy": ("rota.cli.deploy", "Build an app, and move it to what was built."),
    "domain": ("rota.cli.domain", "Give apps names, and certificates to names."),
    "gate": ("rota.cli.gate", "Let only those who are signed in use an app."),
    "login": ("rota.cli.login", "Let this user's commands talk to a hub."),
    "logout": ("rota.cli.logout", "Forget the hub and the token of `rota login`."),
    "logs": ("rota.cli.logs", "Print what an app has written, on every server."),
    "mail": ("rota.cli.mail", "See whether the hub's mail arrives."),
    "migrate": ("rota.cli.migrate", "Bring the database's schema up to date."),
    "ps": ("rota.cli.ps", "What an app runs, where and why; how many, and on which servers."),
    "queue": ("rota.cli.queue", "Show the jobs on the work queue; retry or drop them."),
    "releases": ("rota.cli.releases", "List the releases of an app."),
    "rollback": ("rota.cli.rollback", "Have an app run what an earlier release ran."),
    "serve": ("rota.cli.serve", "Run the hub: every role, or those you name."),
    "server": ("rota.cli.server", "Enrol servers, and see how they are."),
    "settings": ("rota.cli.settings", "Print the settings in force, and where each came from."),
    "tlog": ("rota.cli.tlog", "Look at the transparency log, prove and verify its entries."),
    "token": ("rota.cli.token", "Make, list and revoke API tokens."),
    "webhook": ("rota.cli.webhook", "Tell other programs of acts, and see what came of it."),
    "witness": ("rota.cli.witness", "Witness other hubs' transparency logs."),
}


class _Lazy(click.Group):
    """A group that knows its commands' names and help before it imports any."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _ = _COMMANDS[cmd_name]
        command: click.Command = importlib.import_module(module).command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list["CompletionItem"]:
        from click.shell_completion import CompletionItem

        # Options as every command has them; commands by the table alone, so that none is imported.
        options = click.Command.shell_complete(self, ctx, incomplete)
        found = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [*(CompletionItem(name, help=_COMMANDS[name][1]) for name in found), *options]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rota")
@click.option(
    "--context", metavar="NAME", help="The hub to talk to, of those that `rota context list` shows."
)
@click.pass_context
def rota(ctx: click.Context, *, context: str | None) -> None:
    """Rota runs apps on one to fifty Linux servers, without Kubernetes.

    Exit codes: 0 done; 1 refused or failed, and standard error says why; 2 the command
    line is wrong; 78 a setting, a key or the schema is wrong: trying again does not help;
    130 ended by Ctrl-C. A deploy that was begun goes on then.
    """
    ctx.meta["rota.context"] = context  # rota.cli.contexts.OPTION, which is not imported for --help


def main() -> None:
    """Run the command line; an error becomes a sentence and an exit code."""
    try:
        rota(prog_name="rota", standalone_mode=False)
    except click.exceptions.Exit as ended:
        sys.exit(ended.exit_code)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except InputError as error:
        click.echo(f"rota: {error} {error.remedy}", err=True)
        sys.exit(error.exit_code)
    except RotaError as error:
        click.echo(f"rota: {error}", err=True)
        sys.exit(error.exit_code)
