"""`rota serve`."""

import sys
from pathlib import Path

import click

from rota.cli.options import settings_from, shared
from rota.logging import configure


@click.command("serve")
@click.option("--role", metavar="ROLES", help="web, worker, or both with a comma.  [default: every role]")
@shared
def command(role: str | None, data: str | None, file: Path | None) -> None:
    """Run the hub until it is told to stop.

    On one machine this is all there is: SQLite in the data directory, every
    role, http://127.0.0.1:8420/. In a cluster, systemd runs one process for each role.
    """
    from rota.serve import serve

    settings = settings_from(file, data, role).settings
    configure(settings.server.log_level)
    sys.exit(serve(settings))
