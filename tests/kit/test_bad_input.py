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
    for path in sorted(ROOT.glob("roles/*/defaults/main.yml")):
        values |= yaml.safe_load(path.read_text())
    computed = {
        "rota_database_url": "sqlite:",
        "rota_database_schema": "",
        "web_address": "127.0.0.1",
        "worker_address": "127.0.0.1:8420",
        "shared_log_backend": "local",
    }
    return {**values, **computed, "rota_hosts": ["h1"], "web_enabled": True}


def host(
    facts: dict[str, Any] | None = None,
    port: int = 22,
    *,
    members: dict[str, rota_check.Member] | None = None,
    groups: dict[str, list[str]] | None = None,
    limited: bool = False,
    **given: Any,
) -> rota_check.Host:
    """Give a host without a fault, save what is given."""
    sound = {
        "distribution": "Debian",
        "distribution_major_version": "13",
        "getent_passwd": {"root": ["x", "0", "0"]},
        "getent_group": {"root": ["x", "0", ""]},
    }
    every = {name: ["h1"] for name in ("hub", "primary", "web", "worker")} | (groups or {})
    values = {**defaults(), **given}
    hub = members or {name: rota_check.Member() for name in values["rota_hosts"]}
    return rota_check.Host("h1", values, {**sound, **(facts or {})}, every, port, hub, limited)


def cluster(changed: dict[str, rota_check.Member] | None = None, **given: Any) -> rota_check.Host:
    """Give the primary of a hub of three without a fault, save what is given."""
    names = ("h1", "h2", "h3")
    sound = {
        name: rota_check.Member(f"10.98.0.{last}", names, "13", f"key {last}")
        for last, name in enumerate(names, 1)
    }
    usual = {
        "rota_hosts": list(names),
        "rota_database_url": "postgresql://rota@10.98.0.1:5432/rota",
        "rota_database_schema": "rota",
        "worker_enabled": True,
        "shared_log_backend": "nfs",
        "members": {**sound, **(changed or {})},
        "groups": {"hub": list(names), "web": list(names), "worker": ["h1"]},
    }
    return host(**{**usual, **given})


def test_the_defaults_have_no_fault_and_the_right_types() -> None:
    assert rota_check.faults(host()) == []
    assert rota_check.faults(host(**POSTGRESQL, web_instances=4)) == []
    assert rota_check.faults(host(facts={"distribution_major_version": "12"})) == []
    assert rota_check.mistyped(host().values, OPTIONS)[1] == []


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"web_instances": 2}, "SQLite serves exactly one process: set web_instances to 1"),
        ({"groups": {"primary": []}}, "exactly one host of each hub: it holds none"),
        ({"groups": {"web": ["h1", "h9"]}}, "h9 is in the group web and not in hub"),
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
        (
            {"rota_settings": {"tlog": {"directory": "/x"}}},
            "must not hold tlog.directory: shared_log_directory",
        ),
        ({"rota_settings": {"server": "x"}}, "rota_settings.server must be a mapping"),
        ({"web_port_base": 65535}, "must be a port, 1 to 65535"),
        ({"worker_address": "127.0.0.1"}, "worker_address must be ADDRESS:PORT"),
        ({"worker_address": "127.0.0.1:84200"}, "worker_address must be ADDRESS:PORT"),
        ({"wireguard_port": 0}, "wireguard_port must be a port, 1 to 65535"),
        ({"wireguard_mtu": 142}, "wireguard_mtu must be from 576 to 9000"),
        ({"haproxy_http_port": 80000}, "haproxy_http_port must be a port, 1 to 65535"),
        ({"haproxy_hub_name": "hub.test", "haproxy_http_port": 443}, "are the same: choose two"),
        (
            {**POSTGRESQL, "web_port_base": 8419, "worker_enabled": True},
            "port 8420, which is a web process's",
        ),
        ({"haproxy_hub_name": "https://hub.test"}, "haproxy_hub_name https://hub.test is no name of DNS"),
        ({"haproxy_hub_name": "hub.test:443"}, "is no name of DNS"),
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


Member = rota_check.Member
NAMES = ("h1", "h2", "h3")


def test_a_cluster_without_a_fault() -> None:
    assert rota_check.faults(cluster()) == []
    assert rota_check.faults(cluster(limited=True)) == []
    elsewhere = Member("10.98.0.2", NAMES, "13", "k", endpoint="h2.example.org")
    assert rota_check.faults(cluster({"h2": elsewhere})) == []
    assert rota_check.faults(cluster(haproxy_hub_name="Hub.Example.ORG")) == []
    # The first run: no host has a key yet.
    assert rota_check.faults(cluster({"h2": Member("10.98.0.2", NAMES, "13")})) == []


@pytest.mark.parametrize(
    ("changed", "given", "sentence"),
    [
        ({}, {"groups": {"hub": [*NAMES], "primary": ["h1", "h2"]}}, "it holds h1, h2"),
        ({}, {"groups": {"hub": [*NAMES], "primary": []}}, "it holds none"),
        ({}, {"rota_database_url": "sqlite:"}, "SQLite serves exactly one host"),
        ({}, {"shared_log_backend": "local"}, "shared_log_backend local is for one host"),
        ({}, {"shared_log_backend": "bind"}, "bind needs shared_log_source"),
        ({}, {"groups": {"hub": [*NAMES], "worker": ["h2"]}}, "The primary always runs a worker process"),
        ({}, {"groups": {"hub": [*NAMES], "web": ["h2"]}}, "The primary always runs a web process"),
        ({"h1": Member("", NAMES, "13", "k")}, {}, "wireguard_address is not set"),
        ({"h1": Member("ten", NAMES, "13", "k")}, {}, "wireguard_address is ten, which is no address"),
        (
            {"h1": Member("10.99.0.1", NAMES, "13", "k")},
            {},
            "no host's address in wireguard_network 10.98.0.0/24",
        ),
        ({"h1": Member("10.98.0.0", NAMES, "13", "k")}, {}, "no host's address in wireguard_network"),
        ({"h1": Member("10.98.0.255", NAMES, "13", "k")}, {}, "no host's address in wireguard_network"),
        (
            {"h2": Member("10.98.0.1", NAMES, "13", "k")},
            {},
            "h1 and h2 both have the wireguard_address 10.98.0.1",
        ),
        ({}, {"wireguard_network": "10.98.0.1/24"}, "without host bits"),
        ({}, {"wireguard_network": "fd00::/64"}, "fd00::/64 is of IPv6: take one of IPv4"),
        (
            {"h2": Member("10.98.0.2", NAMES, "13", "k", endpoint="10.98.0.77")},
            {},
            "h2 is reached at 10.98.0.77, which is in wireguard_network 10.98.0.0/24",
        ),
        ({"h2": Member("10.98.0.2", NAMES, "13", "key 1")}, {}, "h1 and h2 have the same key"),
        ({"h2": Member("10.98.0.2", ("h2", "h7"), "13", "k")}, {}, "a host is in one hub only"),
        (
            {"h1": Member("10.98.0.1", NAMES, "12", "k")},
            {"groups": {"primary": ["h2"]}},
            "runs Debian 12 and the",
        ),
        ({"h3": Member("10.98.0.3", NAMES)}, {"limited": True}, "has no key of h3"),
        (
            {"h3": Member("10.98.0.3", NAMES, "13", "k", removed=True)},
            {},
            "The key of h3 was removed for good",
        ),
    ],
)
def test_each_fault_of_a_cluster_has_its_sentence(
    changed: dict[str, rota_check.Member], given: dict[str, Any], sentence: str
) -> None:
    assert sentence in " ".join(rota_check.faults(cluster(changed, **given)))


def test_the_password_of_a_database_elsewhere_is_the_operators_to_give() -> None:
    (said,) = rota_check.faults(cluster(rota_database_url="postgresql://rota@db.internal:5432/rota"))
    assert "PostgreSQL needs its password" in said


def test_a_firewall_that_drops_is_fine_when_ssh_is_open() -> None:
    assert rota_check.faults(host(base_firewall_policy="drop", base_ssh_ports=[22, 2222], port=2222)) == []


def test_a_misspelt_name_is_refused_and_others_are_not_ours() -> None:
    names = ["web_instance", "web_instances", "webserver_x", "ansible_host", "rota_databse_url", "_web_x"]
    said = rota_check.unknown(names, OPTIONS, ["rota", "web"])
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
        "gone": {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 9},
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
    assert set(re.findall(r"^fatal: \[(\w+)\]", output, re.MULTILINE)) == {
        "misspelt",
        "mistyped",
        "wrong",
        "gone",
    }, output
    assert "gone cannot be reached, so nothing was changed anywhere" in output
    assert "TASK [base" not in output
    assert set(re.findall(r"changed=(\d+)", output)) == {"0"}
    assert SECRET not in output
