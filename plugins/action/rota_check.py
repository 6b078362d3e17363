"""Refuse, on the controller, what cannot work, before anything changes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENTATION = r"""
module: rota_check
short_description: Refuse variables and inventories that cannot work
description:
  - Runs on the controller. Compares every variable that has the prefix of an Ansible role of Rota with the
    roles' argument_specs (a name that none knows, a value of the wrong type), then looks for what cannot work
    together.
  - Needs the facts of the host, and of its C(passwd) and C(group) databases.
options:
  roles:
    description: The directory of the Ansible roles.
    type: path
    required: true
author: The Rota authors
"""

ROLES = ("base", "rota", "web", "worker")
RELEASES = ("12", "13")
MOST_INSTANCES = 32
MOST_PORTS = 65535
SSH = 22
URL = re.compile(r"postgresql://[^:@/]+@[^@/]+/[^/]+")
CREDENTIAL = re.compile(r"[a-z]+(-[a-z]+)+")
# What rota_settings must not hold, and where it comes from.
OWNED = {
    ("server", "name"): "it is the host's name in the inventory",
    ("server", "roles"): "the groups web and worker say it",
    ("server", "address"): "web_address, web_port_base and worker_address say it",
    ("server", "data"): "it is /var/lib/rota",
    ("server", "primary"): "the group primary says it",
    ("server", "metrics_token"): "put it into rota_credentials as server-metrics-token",
    ("database", "url"): "set rota_database_url",
    ("database", "schema"): "set rota_database_schema",
    ("database", "password"): "put it into rota_credentials as database-password",
    ("backups", "destination"): "set rota_backups_destination",
}

Options = dict[str, dict[str, Any]]


class Host(NamedTuple):
    """What is known of one host: its variables (typed), its facts, the inventory's groups, its ssh port."""

    values: dict[str, Any]
    facts: dict[str, Any]
    groups: dict[str, list[str]]
    port: int

    @property
    def sqlite(self) -> bool:
        return bool(self.values["rota_database_url"] == "sqlite:")


def unknown(names: list[str], options: Options) -> list[str]:
    """Name the variables that have a role's prefix and are no option of any."""
    ours = re.compile(rf"(?:{'|'.join(ROLES)})_")
    return [
        f"No Ansible role knows {name}. Is it misspelt? docs/reference/variables.md has them all."
        for name in sorted(names)
        if ours.match(name) and name not in options
    ]


def mistyped(values: dict[str, Any], options: Options) -> tuple[dict[str, Any], list[str]]:
    """Give the values in their types, and what is wrong with those that have none."""
    checked = ArgumentSpecValidator(options).validate(values, validate_role_argument_spec=True)
    return checked.validated_parameters, list(checked.error_messages)


def host_faults(host: Host) -> Iterator[str]:
    system, release = host.facts["distribution"], host.facts["distribution_major_version"]
    if system != "Debian" or release not in RELEASES:
        yield f"This host runs {system} {release}; Rota runs on Debian {' and '.join(RELEASES)}."
    ports = host.values["base_ssh_ports"]
    if host.values["base_firewall_policy"] == "drop" and host.port not in ports:
        yield (
            f"This run reaches the host at port {host.port}, which is not in base_ssh_ports: "
            "the firewall would lock you out."
        )


def account_faults(host: Host) -> Iterator[str]:
    for kind, entries in (("user", host.facts["getent_passwd"]), ("group", host.facts["getent_group"])):
        option = f"base_{kind[0]}id"
        wanted = str(host.values[option])
        for name, entry in entries.items():
            if name != "rota" and entry[1] == wanted:
                yield f"The {kind} {name} already has the number {wanted}: choose another {option}."
            if name == "rota" and entry[1] != wanted:
                yield f"The {kind} rota exists with the number {entry[1]}, not {wanted}: set {option} to it."


def inventory_faults(host: Host) -> Iterator[str]:
    together = set(host.values["rota_hosts"])
    for name in ("primary", "web", "worker"):
        if name not in host.groups:
            yield f"The inventory has no group {name}; take inventories/single as the pattern."
    if len(together & set(host.groups.get("primary", []))) != 1:
        yield "The group primary must hold exactly one host of each hub."
    if host.sqlite and len(together) != 1:
        yield "SQLite serves exactly one host: keep one in the group hub, or set rota_database_url."
    if host.sqlite and not host.values["web_enabled"]:
        yield "With SQLite the one process is a web process: put the host into the group web."


def database_faults(host: Host) -> Iterator[str]:
    values = host.values
    if host.sqlite and values["rota_database_schema"]:
        yield "rota_database_schema is for PostgreSQL: remove it, or set rota_database_url."
    if host.sqlite:
        return
    if not URL.fullmatch(values["rota_database_url"]):
        yield (
            "rota_database_url must be sqlite: or postgresql://user@host:port/database, "
            "with the password apart in rota_credentials."
        )
    if not values["rota_database_schema"]:
        yield "PostgreSQL needs rota_database_schema, the schema that holds the hub's tables."
    if "database-password" not in values["rota_credentials"]:
        yield "PostgreSQL needs its password, in rota_credentials under the name database-password."


def number_faults(host: Host) -> Iterator[str]:
    instances = host.values["web_instances"]
    if host.sqlite and instances != 1:
        yield "SQLite serves exactly one process: set web_instances to 1, or rota_database_url."
    if not 1 <= instances <= MOST_INSTANCES:
        yield f"web_instances must be from 1 to {MOST_INSTANCES}."
    base = host.values["web_port_base"]
    if base < 0 or base + instances > MOST_PORTS:
        yield f"web_port_base plus web_instances must be a port, 1 to {MOST_PORTS}."
    port = host.values["worker_address"].rpartition(":")[2]
    if not port.isdigit():
        yield "worker_address must be ADDRESS:PORT, as in 127.0.0.1:8420."
    elif host.values["worker_enabled"] and base < int(port) <= base + instances:
        yield f"worker_address has port {port}, which is a web process's: choose another web_port_base."
    if host.values["rota_releases_kept"] < 2:  # noqa: PLR2004 - the sentence says which two
        yield "rota_releases_kept must be at least 2: the current release and the one before."


def settings_faults(host: Host) -> Iterator[str]:
    for name in host.values["rota_credentials"]:
        if not CREDENTIAL.fullmatch(name):
            yield f"The credential {name} must be named SECTION-KEY, as in server-metrics-token."
    for section, keys in host.values["rota_settings"].items():
        if not isinstance(keys, dict):
            yield f"rota_settings.{section} must be a mapping of keys."
            continue
        for key in keys:
            if (section, key) in OWNED:
                yield f"rota_settings must not hold {section}.{key}: {OWNED[section, key]}."


RULES = (host_faults, account_faults, inventory_faults, database_faults, number_faults, settings_faults)


def faults(host: Host) -> list[str]:
    """Give every fault as one sentence for the operator: what is wrong, and what to do."""
    return [fault for rule in RULES for fault in rule(host)]


def read_options(roles: Path) -> Options:
    """Give the options of all roles, by name, from their argument_specs."""
    options: Options = {}
    for role in ROLES:
        spec = yaml.safe_load((roles / role / "meta" / "argument_specs.yml").read_text())
        options |= spec["argument_specs"]["main"]["options"]
    return options


class ActionModule(ActionBase):  # type: ignore[misc] # ansible ships no types
    _requires_connection = False

    def run(self, tmp: object = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        options = read_options(Path(self._task.args["roles"]))
        said = unknown(list(variables), options)
        given = self._templar.template({name: variables[name] for name in options if name in variables})
        values, errors = mistyped(given, options)
        said += errors
        if not said:
            port = int(self._templar.template(variables.get("ansible_port") or SSH))
            said = faults(Host(values, variables["ansible_facts"], variables["groups"], port))
        result.update(changed=False, failed=bool(said), msg=" ".join(said) or "Nothing is wrong.")
        return result
