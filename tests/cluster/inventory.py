"""The hosts of the cluster under test, as the inventory has them."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SHARED = [ROOT / "molecule" / "shared" / name for name in ("lab.yml", "cluster.yml")]
OWN = ROOT / "molecule" / "cluster" / "inventory.yml"
WORKER_PORT = 8420
WEB_PORT = 8421  # of the first web process of a host


@dataclass(frozen=True)
class Host:
    """One host. `private` is its address in the tunnel; its processes listen there."""

    name: str
    address: str
    private: str
    web: bool
    worker: bool


@dataclass(frozen=True)
class Inventory:
    """The hosts by name, and which of them is the primary."""

    hosts: dict[str, Host]
    primary: Host
    variables: dict[str, Any]

    def at(self, private: str) -> Host:
        """Return the host that has this private address."""
        return next(host for host in self.hosts.values() if host.private == private)

    def health_urls(self) -> dict[str, str]:
        """Return the address of /health of each process, by HOST/ROLE."""
        web = {
            f"{host.name}/web": f"http://{host.private}:{WEB_PORT}/health"
            for host in self.hosts.values()
            if host.web
        }
        worker = {
            f"{host.name}/worker": f"http://{host.private}:{WORKER_PORT}/health"
            for host in self.hosts.values()
            if host.worker
        }
        return web | worker


def inventories() -> list[Path]:
    """Return the inventory's files; $ROTA_INVENTORY names another than the scenarios' own."""
    return [*SHARED, Path(os.environ.get("ROTA_INVENTORY") or OWN)]


def read_inventory() -> Inventory:
    """Return the inventory as Ansible understands it. The environment's ROTA_LAB names the lab."""
    program = Path(sys.executable).with_name("ansible-inventory")
    done = subprocess.run(
        [str(program), *(f"--inventory={path}" for path in inventories()), "--list"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return parse(json.loads(done.stdout))


def parse(listed: dict[str, Any]) -> Inventory:
    """Return the inventory from what `ansible-inventory --list` says. Pure."""
    variables: dict[str, dict[str, Any]] = listed["_meta"]["hostvars"]
    members = {group: _members(listed, group) for group in ("hub", "primary", "web", "worker")}
    hosts = {
        name: Host(
            name=name,
            address=variables[name]["ansible_host"],
            private=variables[name].get("wireguard_address", variables[name]["ansible_host"]),
            web=name in members["web"],
            worker=name in members["worker"],
        )
        for name in sorted(members["hub"])
    }
    (primary,) = members["primary"]
    return Inventory(hosts, hosts[primary], variables[primary])


def _members(listed: dict[str, Any], group: str) -> set[str]:
    one = listed.get(group, {})
    return set(one.get("hosts", [])).union(*(_members(listed, child) for child in one.get("children", [])))
