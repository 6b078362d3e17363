"""The table of background tasks, and who contends for which."""

import re
from pathlib import Path

import pytest
from tests.support.settings import sqlite_settings

from rota.roles import Role
from rota.settings import Settings, load
from rota.tasks.table import TABLE, tasks_for

EVERY = sorted(entry.name for entry in TABLE)


def cluster(**environ: str) -> Settings:
    given = {"ROTA_DATABASE_URL": "postgresql://rota@h/rota", "ROTA_DATABASE_SCHEMA": "rota", **environ}
    return load(file=Path("/dev/null"), environ=given).settings


def names(settings: Settings) -> list[str]:
    return [entry.name for entry in tasks_for(settings)]


def test_names_are_unique_and_of_one_form() -> None:
    assert len(set(EVERY)) == len(TABLE)
    assert all(re.fullmatch(r"[a-z]+\.[a-z_]+", name) for name in EVERY)


def test_the_single_node_edition_runs_them_all(tmp_path: Path) -> None:
    assert names(sqlite_settings(tmp_path)) == EVERY


@pytest.mark.parametrize("primary", ["true", "false"])
def test_a_web_process_runs_none_of_a_workers(primary: str) -> None:
    of_web = sorted(entry.name for entry in TABLE if entry.role is Role.WEB)
    assert names(cluster(ROTA_SERVER_ROLES="web", ROTA_SERVER_PRIMARY=primary)) == of_web


def test_tasks_that_live_on_the_primary_are_contended_for_there_alone() -> None:
    on_primary = names(cluster(ROTA_SERVER_ROLES="worker", ROTA_SERVER_PRIMARY="true"))
    elsewhere = names(cluster(ROTA_SERVER_ROLES="worker"))
    workers = [entry for entry in TABLE if entry.role is Role.WORKER]
    assert on_primary == sorted(entry.name for entry in workers)
    assert elsewhere == sorted(entry.name for entry in workers if not entry.primary)
