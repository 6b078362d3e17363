"""How pg_dump is called: what it is told, and where its password goes."""

import os
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from rota.settings import Settings


def dump_command(settings: Settings, target: Path) -> list[str]:
    """Return the argv that dumps this hub's schema. No password is in it, not even a key file's."""
    database = settings.database
    given = conninfo_to_dict(database.direct_url or database.url)
    parts = {name: value for name, value in given.items() if "password" not in name}
    return [
        "pg_dump",
        "--format=custom",
        "--no-owner",
        "--no-privileges",
        f"--schema={database.schema}",
        f"--file={target}",
        f"--dbname={make_conninfo('', **parts)}",
        "--no-password",
    ]


def dump_environment(settings: Settings) -> dict[str, str]:
    """Return the environment of that one process, with the password."""
    database = settings.database
    password = database.password.reveal() or conninfo_to_dict(database.direct_url or database.url).get(
        "password"
    )
    return {**os.environ, **({"PGPASSWORD": str(password)} if password else {})}
