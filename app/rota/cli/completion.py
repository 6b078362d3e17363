"""`rota completion`: what a shell must be told so that it completes commands and options."""

import click
from click.shell_completion import BashComplete, ShellComplete, ZshComplete

_SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete}
VARIABLE = "_ROTA_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(sorted(_SHELLS)))
def command(*, shell: str) -> None:
    """Print the lines that complete `rota` in SHELL.

    For bash: `rota completion bash > ~/.local/share/bash-completion/completions/rota`.
    For zsh: write it to a file `_rota` in a directory of $fpath.
    """
    from rota.cli import rota

    made = _SHELLS[shell](rota, {}, "rota", VARIABLE)
    # The library's own source() of bash starts a bash to ask for its version; these are its lines.
    click.echo((made.source_template % made.source_vars()).strip())
