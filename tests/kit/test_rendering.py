"""What the Ansible roles render: every value arrives whole, in every shape that the kit has."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NASTY = "100%sure $HOME \"quoted\" 'single' \\back {{ '{{' }} # ünï 🦄 \ufeff\x85\n\ttab"
NASTY_IS = NASTY.replace("{{ '{{' }}", "{{")
POSTGRESQL: dict[str, Any] = {
    "rota_database_url": "postgresql://rota@db.internal:5432/rota",
    "rota_database_schema": "hub",
    "rota_credentials": {"database-password": NASTY, "server-metrics-token": "token"},
    "rota_primary": True,
    "rota_trusted_proxies": ["10.0.0.1"],
    "rota_tlog_directory": "/srv/rota/tlog",
    "rota_settings": {
        "server": {"log_level": NASTY},
        "database": {"pool_size": 7},
        "maintenance": {"schedule": ""},
    },
    "web_credentials": ["database-password", "server-metrics-token"],
    "web_writable": ["/srv/backups"],
    # As `-e web_instances=2` gives it.
    "web_instances": "2",
    "web_port_base": "8500",
    "worker_credentials": ["database-password"],
    "_postgresql_version": "17",
    "postgresql_address": "10.98.0.1",
    "postgresql_clients": ["10.98.0.2", "10.98.0.1", "fd00::2", "10.98.0.2"],
    "postgresql_tunnel_unit": "wg-quick@rota0.service",
    "postgresql_settings": {
        "work_mem": "8MB",
        "autovacuum": False,
        "tcp_user_timeout": 9000,
        "listen_addresses": "*",
        "hba_file": "/open",
        "search_path": "it's \\ mine",
    },
    "worker_address": "0.0.0.0:8420",
}
SQLITE: dict[str, Any] = {"web_roles": ["web", "worker"], "web_address": "::1", "_postgresql_version": "15"}
NONE: dict[str, Any] = {"web_enabled": False, "_postgresql_version": "15"}
Render = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.fixture(scope="module")
def render(tmp_path_factory: pytest.TempPathFactory) -> Render:
    """Give what the roles render for these variables."""
    done: dict[str, dict[str, Any]] = {}

    def give(variables: dict[str, Any]) -> dict[str, Any]:
        key = json.dumps(variables)
        if key not in done:
            into = tmp_path_factory.mktemp("render") / "rendered.json"
            given = {**variables, "into": str(into), "groups": {"hub": ["h1"]}}
            argv = [
                sys.executable,
                "-m",
                "ansible",
                "playbook",
                "--inventory=localhost,",
                "tests/kit/render.yml",
            ]
            argv.append(f"--extra-vars={json.dumps(given)}")
            environment = {**os.environ, "ANSIBLE_LOCAL_TEMP": str(into.parent)}
            ran = subprocess.run(argv, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)
            assert ran.returncode == 0, ran.stdout + ran.stderr
            done[key] = json.loads(into.read_text())
        return done[key]

    return give


def by_path(files: list[dict[str, Any]]) -> dict[str, str]:
    return {entry["path"].removeprefix("/etc/systemd/system/"): entry["content"] for entry in files}


def test_settings_are_toml_with_every_value_as_it_is(render: Render) -> None:
    settings = tomllib.loads(render(POSTGRESQL)["hub_toml"])
    assert settings == {
        "server": {
            "name": "localhost",
            "data": "/var/lib/rota",
            "primary": True,
            "log_level": NASTY_IS,
            "trusted_proxies": ["10.0.0.1"],
        },
        "database": {"url": POSTGRESQL["rota_database_url"], "schema": "hub", "pool_size": 7},
        "maintenance": {"schedule": ""},
        "tlog": {"directory": "/srv/rota/tlog"},
    }


def test_the_plainest_settings(render: Render) -> None:
    assert tomllib.loads(render(SQLITE)["hub_toml"]) == {
        "server": {"name": "localhost", "data": "/var/lib/rota", "primary": False},
        "database": {"url": "sqlite:"},
    }


def test_secrets_arrive_whole_and_for_root_alone(render: Render) -> None:
    assert render(SQLITE)["credentials"] == []
    assert render(POSTGRESQL)["credentials"] == [
        {"path": "/etc/rota/credentials/database-password", "content": NASTY_IS, "mode": "0600"},
        {"path": "/etc/rota/credentials/server-metrics-token", "content": "token", "mode": "0600"},
    ]


def test_each_web_process_has_its_socket_and_its_probe(render: Render) -> None:
    rendered = render(POSTGRESQL)
    files = by_path(rendered["web_files"])
    assert list(files)[2:] == ["rota-web@1.socket.d/address.conf", "rota-web@2.socket.d/address.conf"]
    assert "ListenStream=127.0.0.1:8502\n" in files["rota-web@2.socket.d/address.conf"]
    second = rendered["web_units"][1]
    assert (second["name"], second["socket"]) == ("rota-web@2.service", "rota-web@2.socket")
    assert (second["record"], second["probe"]) == ("/run/rota/web-2", "http://127.0.0.1:8502/health")


def test_a_unit_records_what_the_kit_compares(render: Render) -> None:
    rendered = render(POSTGRESQL)
    unit = by_path(rendered["web_files"])["rota-web@.service"]
    (recorded,) = (line for line in unit.splitlines() if line.startswith("ExecStartPre="))
    words = recorded.replace("%i", "1").replace("%d", "/etc/rota/credentials").split(" --into ")[1].split()
    assert words[0] == "%t/rota/web-1"
    assert words[1:] == [
        f"{part}={paths}" for part, paths in sorted(rendered["web_units"][0]["watch"].items())
    ]
    assert set(rendered["web_units"][0]["watch"]) == {"release", "settings", "credentials", "unit", "socket"}


def test_on_sqlite_one_process_takes_every_role(render: Render) -> None:
    rendered = render(SQLITE)
    unit = by_path(rendered["web_files"])["rota-web@.service"]
    assert "serve --settings /etc/rota/hub.toml --role web,worker\n" in unit
    assert "LoadCredential" not in unit
    assert "credentials" not in rendered["web_units"][0]["watch"]
    assert [unit["probe"] for unit in rendered["web_units"]] == ["http://[::1]:8421/health"]


def test_a_host_that_is_not_web_has_no_web_unit(render: Render) -> None:
    rendered = render(NONE)
    assert (rendered["web_files"], rendered["web_units"]) == ([], [])


def test_the_worker_answers_at_an_address_of_its_own(render: Render) -> None:
    rendered = render(POSTGRESQL)
    (file,) = rendered["worker_files"]
    assert "Environment=ROTA_SERVER_ADDRESS=0.0.0.0:8420\n" in file["content"]
    assert "--role worker\n" in file["content"]
    assert "LoadCredential=database-password:/etc/rota/credentials/database-password\n" in file["content"]
    (unit,) = rendered["worker_units"]
    assert (unit["record"], unit["probe"]) == ("/run/rota/worker", "http://127.0.0.1:8420/health")
    # Not the whole directory, which holds the web processes' as well: it would differ at each look.
    assert unit["watch"]["credentials"] == "/etc/rota/credentials/database-password"


def test_postgresql_takes_the_operators_settings_but_where_it_listens_and_whom_it_admits(
    render: Render,
) -> None:
    lines = render(POSTGRESQL)["postgresql_conf"].splitlines()[1:]
    settings = dict(line.split(" = ", 1) for line in lines)
    assert settings["listen_addresses"] == "'127.0.0.1,10.98.0.1'"
    assert settings["hba_file"] == "'/etc/postgresql/17/main/pg_hba.rota.conf'"
    assert (settings["work_mem"], settings["autovacuum"]) == ("'8MB'", "'false'")
    # As PostgreSQL reads it: a quote doubled, a backslash too.
    assert settings["search_path"] == "'it''s \\\\ mine'"
    assert (settings["tcp_keepalives_idle"], settings["tcp_user_timeout"]) == ("'3'", "'9000'")


def test_postgresql_admits_each_client_alone_to_one_database(render: Render) -> None:
    rules = [line for line in render(POSTGRESQL)["postgresql_hba"].splitlines() if not line.startswith("#")]
    assert rules == [
        "local all all peer",
        'host "rota" "rota" 10.98.0.1/32 scram-sha-256',
        'host "rota" "rota" 10.98.0.2/32 scram-sha-256',
        'host "rota" "rota" fd00::2/128 scram-sha-256',
    ]


def test_postgresql_waits_for_no_tunnel_and_is_proved_to_listen(render: Render) -> None:
    rendered = render(POSTGRESQL)
    lines = rendered["postgresql_unit"].splitlines()
    assert {"Wants=wg-quick@rota0.service", "After=wg-quick@rota0.service"} <= set(lines)
    assert not any(line.startswith(("Requires=", "BindsTo=", "Requisite=")) for line in lines)
    (proof,) = (line for line in lines if line.startswith("ExecStartPost="))
    assert proof.endswith("/rota-bound.py postgres 127.0.0.1:5432 10.98.0.1:5432")
    # A start and a reload record what the kit compares.
    watched = " ".join(f"{part}={paths}" for part, paths in sorted(rendered["postgresql_watch"].items()))
    records = [line for line in lines if line.endswith(f" --into %t/rota/postgresql {watched}")]
    assert [line.split("=")[0] for line in records] == ["ExecStartPre", "ExecReload"]


def test_postgresql_of_one_host_listens_once_and_waits_for_nothing(render: Render) -> None:
    rendered = render(SQLITE)
    assert "listen_addresses = '127.0.0.1'\n" in rendered["postgresql_conf"]
    assert "Wants=" not in rendered["postgresql_unit"]
