"""Bad input is refused with a sentence for the operator, before anything changes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from plugins.action import rota_check

ROOT = Path(__file__).parents[2]
OPTIONS = rota_check.read_options(ROOT / "roles")
SECRET = "KITCANARY-5d1e"
POSTGRESQL: dict[str, Any] = {
    "rota_database_url": "postgresql://rota@db.internal:5432/rota",
    "rota_database_schema": "hub",
    "rota_credentials": {"database-password": SECRET},
}


def defaults() -> dict[str, Any]:
    values: dict[str, Any] = {}
    for role in rota_check.ROLES:
        values |= yaml.safe_load((ROOT / "roles" / role / "defaults" / "main.yml").read_text())
    return {**values, "rota_hosts": ["h1"]}


def host(facts: dict[str, Any] | None = None, port: int = 22, **given: Any) -> rota_check.Host:
    """Give a host without a fault, save what is given."""
    sound = {
        "distribution": "Debian",
        "distribution_major_version": "13",
        "getent_passwd": {"root": ["x", "0", "0"]},
        "getent_group": {"root": ["x", "0", ""]},
    }
    groups = {name: ["h1"] for name in ("hub", "primary", "web", "worker")}
    return rota_check.Host({**defaults(), **given}, {**sound, **(facts or {})}, groups, port)


def test_the_defaults_have_no_fault_and_the_right_types() -> None:
    assert rota_check.faults(host()) == []
    assert rota_check.faults(host(**POSTGRESQL, web_instances=4)) == []
    assert rota_check.faults(host(facts={"distribution_major_version": "12"})) == []
    assert rota_check.mistyped(host().values, OPTIONS)[1] == []


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"web_instances": 2}, "SQLite serves exactly one process: set web_instances to 1"),
        ({"rota_hosts": ["h1", "h2"]}, "SQLite serves exactly one host"),
        ({"rota_hosts": ["h2"]}, "The group primary must hold exactly one host of each hub"),
        ({"rota_database_schema": "hub"}, "rota_database_schema is for PostgreSQL"),
        ({"web_enabled": False}, "put the host into the group web"),
        ({**POSTGRESQL, "rota_database_schema": ""}, "PostgreSQL needs rota_database_schema"),
        ({**POSTGRESQL, "rota_credentials": {}}, "PostgreSQL needs its password"),
        ({**POSTGRESQL, "rota_database_url": "mysql://x"}, "rota_database_url must be sqlite:"),
        ({**POSTGRESQL, "rota_database_url": "postgresql://u:pw@db/x"}, "the password apart"),
        ({**POSTGRESQL, "web_instances": 0}, "web_instances must be from 1 to 32"),
        ({**POSTGRESQL, "web_instances": 33}, "web_instances must be from 1 to 32"),
        ({"rota_credentials": {"../../etc/x": SECRET}}, "must be named SECTION-KEY"),
        ({"rota_settings": {"server": {"primary": False}}}, "must not hold server.primary: the group"),
        ({"rota_settings": {"server": "x"}}, "rota_settings.server must be a mapping"),
        ({"web_port_base": 65535}, "must be a port, 1 to 65535"),
        ({"worker_address": "127.0.0.1"}, "worker_address must be ADDRESS:PORT"),
        (
            {**POSTGRESQL, "web_port_base": 8419, "worker_enabled": True},
            "port 8420, which is a web process's",
        ),
        ({"rota_releases_kept": 1}, "rota_releases_kept must be at least 2"),
        ({"base_firewall_policy": "drop", "port": 2222}, "would lock you out"),
        ({"base_uid": 0}, "The user root already has the number 0: choose another base_uid"),
        ({"base_gid": 0}, "The group root already has the number 0: choose another base_gid"),
        (
            {"facts": {"getent_passwd": {"rota": ["x", "77", "77"]}}},
            "exists with the number 77, not 8420",
        ),
        ({"facts": {"distribution": "Fedora"}}, "This host runs Fedora 13; Rota runs on Debian 12 and 13."),
        ({"facts": {"distribution_major_version": "11"}}, "This host runs Debian 11"),
    ],
)
def test_each_fault_has_its_sentence(given: dict[str, Any], sentence: str) -> None:
    (said,) = rota_check.faults(host(**given))
    assert sentence in said
    assert SECRET not in said


def test_a_firewall_that_drops_is_fine_when_ssh_is_open() -> None:
    assert rota_check.faults(host(base_firewall_policy="drop", base_ssh_ports=[22, 2222], port=2222)) == []


def test_a_misspelt_name_is_refused_and_others_are_not_ours() -> None:
    names = ["web_instance", "web_instances", "webserver_x", "ansible_host", "rota_databse_url", "_web_x"]
    said = rota_check.unknown(names, OPTIONS)
    assert [line.split(".")[0] for line in said] == [
        "No Ansible role knows rota_databse_url",
        "No Ansible role knows web_instance",
    ]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"web_instances": "many"}, "web_instances"),
        ({"base_firewall_policy": "refuse"}, "base_firewall_policy must be one of: accept, drop"),
        ({"rota_credentials": [SECRET]}, "rota_credentials"),
        ({"base_ssh_ports": ["ssh"]}, "base_ssh_ports"),
    ],
)
def test_a_wrong_type_is_refused(given: dict[str, Any], sentence: str) -> None:
    (said,) = rota_check.mistyped({**defaults(), **given}, OPTIONS)[1]
    assert sentence in said
    assert SECRET not in said


def test_every_owned_setting_exists() -> None:
    page = (ROOT / "app" / "rota" / "hub.toml").read_text()
    for section, key in rota_check.OWNED:
        assert re.search(rf"^\[{section}\]$(?:\n(?!\[).*)*^{key} = ", page, re.MULTILINE), (section, key)


def test_the_playbook_stops_before_anything_changes(tmp_path: Path) -> None:
    """One run of site.yml, in check mode so that not even a fault of this test could change this machine."""
    cases: dict[str, dict[str, Any]] = {
        "misspelt": {"web_instance": 2},
        "mistyped": {"rota_credentials": [SECRET]},
        "wrong": {"rota_credentials": {"x": SECRET}, "web_instances": 2},
        "sound": {},
    }
    local = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
    }
    every: dict[str, Any] = {"children": {"hub": {}}}
    hosts = {name: {**local, "rota_hosts": [name], **given} for name, given in cases.items()}
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(
        json.dumps({"hub": {"hosts": hosts}, "primary": every, "web": every, "worker": every})
    )
    argv = [
        sys.executable,
        "-m",
        "ansible",
        "playbook",
        "--check",
        f"--inventory={inventory}",
        "playbooks/site.yml",
    ]
    environment = {
        **os.environ,
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
        "ANSIBLE_LOCAL_TEMP": str(tmp_path),
    }
    done = subprocess.run(argv, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)
    output = done.stdout + done.stderr
    assert done.returncode == 2, output
    assert set(re.findall(r"^fatal: \[(\w+)\]", output, re.MULTILINE)) == {"misspelt", "mistyped", "wrong"}, (
        output
    )
    assert "TASK [base" not in output
    assert set(re.findall(r"changed=(\d+)", output)) == {"0"}
    assert SECRET not in output
