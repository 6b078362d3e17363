"""Settings for tests, made the way an operator makes them."""

import os
from collections.abc import Mapping
from pathlib import Path

from tests.support.postgres import PASSWORD, Server

from rota.settings import Settings, load
from rota.tlog.keys import private_text

# A settings file that says nothing, so that the one of a host on which the
# tests happen to run is not read.
NO_SETTINGS = Path(os.devnull)

CHECKPOINT_KEY = private_text("hub.test/tlog", b"k" * 32)


def sqlite_settings(data: Path, **environ: str) -> Settings:
    """Return the settings of a single-node hub in this directory."""
    return load(file=NO_SETTINGS, environ={"ROTA_SERVER_DATA": str(data), **environ}).settings


def postgres_environ(data: Path, server: Server, schema: str, **environ: str) -> Mapping[str, str]:
    """Return the environment of one process of a cluster's hub."""
    return {
        "ROTA_SERVER_DATA": str(data),
        "ROTA_SERVER_PRIMARY": "true",
        "ROTA_DATABASE_URL": server.url,
        "ROTA_DATABASE_SCHEMA": schema,
        "ROTA_DATABASE_PASSWORD": PASSWORD,
        "ROTA_TLOG_CHECKPOINT_KEY": CHECKPOINT_KEY,
        **environ,
    }


def postgres_settings(data: Path, server: Server, schema: str, **environ: str) -> Settings:
    """Return the settings of one process of a cluster's hub."""
    return load(file=NO_SETTINGS, environ=postgres_environ(data, server, schema, **environ)).settings
