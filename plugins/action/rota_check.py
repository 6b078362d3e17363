"""Refuse, on the controller, what cannot work, before anything changes."""

from __future__ import annotations

import ipaddress
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
  - Needs the facts of the host, and of its C(passwd) and C(group) databases; without facts it says that the
    host cannot be reached.
options:
  roles:
    description: The directory of the Ansible roles.
    type: path
    required: true
  primary_release:
    description: The distribution release that the primary runs; empty when this run reads its facts itself.
    type: str
    default: ""
author: The Rota authors
"""

RELEASES = ("12", "13")
MOST_INSTANCES = 32
MOST_PORTS = 65535
# What IPv4 asks of every path, and the largest frame in use.
MTU = range(576, 9001)
SSH = 22
URL = re.compile(r"postgresql://[^:@/]+@(?P<host>[^@/]+?)(:[0-9]+)?/[^/]+")
NAME = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*", re.IGNORECASE
)
CREDENTIAL = re.compile(r"[a-z]+(-[a-z]+)+")
# What rota_settings must not hold, and where it comes from.
OWNED = {
    ("server", "name"): "it is the host's name in the inventory",
    ("server", "roles"): "the groups web and worker say it",
    ("server", "address"): "web_address, web_port_base and worker_address say it",
    ("server", "data"): "it is /var/lib/rota",
    ("server", "primary"): "the group primary says it",
    ("server", "trusted_proxies"): "set rota_trusted_proxies",
    ("server", "metrics_token"): "put it into rota_credentials as server-metrics-token",
    ("database", "url"): "set rota_database_url",
    ("database", "schema"): "set rota_database_schema",
    ("database", "password"): "put it into rota_credentials as database-password",
    ("backups", "destination"): "set rota_backups_destination",
    ("tlog", "directory"): "shared_log_directory says it",
    ("tlog", "checkpoint_key"): "put it into rota_credentials as tlog-checkpoint-key",
}

Options = dict[str, dict[str, Any]]


class Member(NamedTuple):
    """What a host of the hub must have in common with the others, or apart from them."""

    address: str = ""
    """Its private address."""
    hub: tuple[str, ...] | None = None
    """The hosts that it counts to its hub; None when it does not say."""
    release: str = ""
    """Its distribution's release; empty when this run has not read it."""
    key: str = ""
    """Its public key in the keystore; empty when there is none."""
    removed: bool = False
    """Whether that key is among the removed ones."""
    endpoint: str = ""
    """Where the other hosts reach it for the tunnel: an address or a name."""


class Host(NamedTuple):
    """What is known of one host and of the hub that it belongs to."""

    name: str
    values: dict[str, Any]
    """Its variables, in their types."""
    facts: dict[str, Any]
    groups: dict[str, list[str]]
    port: int
    """Where ssh reached it."""
    members: dict[str, Member]
    """Every host of its hub, itself among them, and every server of the hub."""
    limited: bool = False
    """Whether the run leaves hosts of the inventory out."""
    servers: tuple[str, ...] = ()
    """Those of them that carry apps and no process of the hub."""

    @property
    def sqlite(self) -> bool:
        return bool(self.values["rota_database_url"] == "sqlite:")

    @property
    def cluster(self) -> bool:
        return len(self.members) > 1

    @property
    def hub(self) -> set[str]:
        """Give the hosts that run processes of the hub."""
        return set(self.members) - set(self.servers)

    @property
    def only_server(self) -> bool:
        """Say whether it carries apps alone."""
        return self.name in self.servers

    @property
    def primary(self) -> str:
        return next((name for name in self.groups.get("primary", []) if name in self.members), "")

    @property
    def own_database(self) -> bool:
        """Say whether PostgreSQL is the kit's own, on the primary."""
        found = URL.fullmatch(self.values["rota_database_url"])
        own = [self.members[self.primary].address] if self.primary else []
        return bool(found and found["host"] in [*own, "127.0.0.1", "localhost"])


def unknown(names: list[str], options: Options, roles: list[str]) -> list[str]:
    """Name the variables that have a role's prefix and are no option of any."""
    ours = re.compile(rf"(?:{'|'.join(roles)})_")
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
    together = host.hub
    for name in ("hub", "primary", "web", "worker"):
        if name not in host.groups:
            yield f"The inventory has no group {name}; take inventories/single as the pattern."
    if host.name not in together and not host.only_server:
        yield f"rota_hosts does not list {host.name} itself: list every host of its hub."
    chosen = together & set(host.groups.get("primary", []))
    if len(chosen) != 1:
        there = f"it holds {', '.join(sorted(chosen))}" if chosen else "it holds none"
        yield f"The group primary must hold exactly one host of each hub: {there}."
    for group in ("primary", "web", "worker"):
        for stray in sorted(set(host.groups.get(group, [])) - set(host.groups.get("hub", []))):
            yield f"{stray} is in the group {group} and not in hub: put it into hub too."
    if host.sqlite and len(host.members) != 1:
        yield (
            "SQLite serves exactly one host: keep one in the group hub and none beside it in the group "
            "server, or set rota_database_url."
        )
    if host.sqlite and not host.values["web_enabled"]:
        yield "With SQLite the one process is a web process: put the host into the group web."


def cluster_faults(host: Host) -> Iterator[str]:
    if not host.cluster:
        return
    idle = not (host.values["web_enabled"] or host.values["worker_enabled"])
    if idle and not host.sqlite and not host.only_server:
        yield "This host is in the group hub and in neither web nor worker: put it into one of them."
    for group in ("web", "worker"):
        if host.name == host.primary and host.name not in host.groups.get(group, []):
            yield f"The primary always runs a {group} process: put it into the group {group} too."
    for name, member in sorted(host.members.items()):
        if member.hub is not None and set(member.hub) != host.hub:
            yield (
                f"{host.name} counts {name} to its hub, and {name} names other hosts: "
                "a host is in one hub only."
            )
    own, primary = host.members.get(host.name, Member()), host.members.get(host.primary, Member())
    if own.release and primary.release and own.release != primary.release:
        yield (
            f"{host.name} runs Debian {own.release} and the primary {host.primary} Debian {primary.release}: "
            "all hosts and servers of a hub run the same release."
        )


def network_faults(host: Host) -> Iterator[str]:
    if not host.cluster:
        return
    try:
        network = ipaddress.ip_network(host.values["wireguard_network"])
    except ValueError:
        yield "wireguard_network must be a range such as 10.98.0.0/24, without host bits."
        return
    if network.version != 4:  # noqa: PLR2004 - the sentence says which
        yield (
            f"wireguard_network {network} is of IPv6: take one of IPv4, such as 10.98.0.0/24. "
            "The hosts' own addresses, outside the tunnel, may be of IPv6."
        )
        return
    own = host.members.get(host.name, Member()).address
    try:
        address = ipaddress.ip_address(own)
    except ValueError:
        said = f"is {own}, which is no address" if own else "is not set"
        yield (
            f"wireguard_address {said}: give each host of the hub its own in {network}, "
            "as in inventories/cluster."
        )
        return
    if address not in network or address in (network.network_address, network.broadcast_address):
        yield f"wireguard_address {own} is no host's address in wireguard_network {network}."
    for name, member in sorted(host.members.items()):
        if name != host.name and member.address == own:
            yield f"{host.name} and {name} both have the wireguard_address {own}: give each its own."
        if inside(member.endpoint, network):
            yield (
                f"{name} is reached at {member.endpoint}, which is in wireguard_network {network}: "
                "the tunnel would cut it off. Choose a network that the hosts do not use already."
            )


def inside(endpoint: str, network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    """Say whether a host's address outside the tunnel is one of the tunnel's; a name is not looked up."""
    try:
        return ipaddress.ip_address(endpoint) in network
    except ValueError:
        return False


def key_faults(host: Host) -> Iterator[str]:
    if not host.cluster:
        return
    missing = sorted(name for name, member in host.members.items() if not member.key)
    if host.limited and missing:
        yield (
            f"The keystore {host.values['wireguard_keystore']} has no key of {', '.join(missing)}. "
            "Every host must learn a new host's key: run the playbook without --limit."
        )
    own = host.members.get(host.name, Member()).key
    for name, member in sorted(host.members.items()):
        if name != host.name and own and member.key == own:
            yield (
                f"{host.name} and {name} have the same key: one is a copy of the other's disk. Delete "
                "/etc/wireguard/rota0.key on the copy and its file in the keystore, "
                "so that it makes itself a new key."
            )
        if member.removed:
            yield (
                f"The key of {name} was removed for good: take {name} out of the inventory. To have the host "
                "again, delete /etc/wireguard/rota0.key on it and its file in the keystore, so that it makes "
                "itself a new key."
            )


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
    if "database-password" not in values["rota_credentials"] and not host.own_database:
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
    for name in ("wireguard_port", "haproxy_http_port", "haproxy_https_port"):
        if not 1 <= host.values[name] <= MOST_PORTS:
            yield f"{name} must be a port, 1 to {MOST_PORTS}."
    if host.values["wireguard_mtu"] not in MTU:
        yield f"wireguard_mtu must be from {MTU[0]} to {MTU[-1]}."
    port = host.values["worker_address"].rpartition(":")[2]
    if not port.isdigit() or not 1 <= int(port) <= MOST_PORTS:
        yield "worker_address must be ADDRESS:PORT, as in 127.0.0.1:8420."
    elif host.values["worker_enabled"] and base < int(port) <= base + instances:
        yield f"worker_address has port {port}, which is a web process's: choose another web_port_base."
    if host.values["rota_releases_kept"] < 2:  # noqa: PLR2004 - the sentence says which two
        yield "rota_releases_kept must be at least 2: the current release and the one before."


def shared_log_faults(host: Host) -> Iterator[str]:
    backend = host.values["shared_log_backend"]
    if len(host.hub) > 1 and backend == "local":
        yield "shared_log_backend local is for one host: a hub of several shares its log by nfs or bind."
    if backend == "bind" and not host.values["shared_log_source"]:
        yield "shared_log_backend bind needs shared_log_source, the directory that every host mounts already."


def proxy_faults(host: Host) -> Iterator[str]:
    name = host.values["haproxy_hub_name"]
    if name and not NAME.fullmatch(name):
        yield f"haproxy_hub_name {name} is no name of DNS: write it without https:// and without a port."
    if name and host.values["haproxy_http_port"] == host.values["haproxy_https_port"]:
        yield "haproxy_http_port and haproxy_https_port are the same: choose two."


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


RULES = (
    host_faults,
    account_faults,
    inventory_faults,
    cluster_faults,
    network_faults,
    key_faults,
    database_faults,
    number_faults,
    shared_log_faults,
    proxy_faults,
    settings_faults,
)


def faults(host: Host) -> list[str]:
    """Give every fault as one sentence for the operator: what is wrong, and what to do."""
    return [fault for rule in RULES for fault in rule(host)]


def read_options(roles: Path) -> Options:
    """Give the options of all roles, by name, from their argument_specs."""
    options: Options = {}
    for path in sorted(roles.glob("*/meta/argument_specs.yml")):
        options |= yaml.safe_load(path.read_text())["argument_specs"]["main"]["options"]
    return options


def read_key(keystore: Path, name: str) -> str:
    """Give the public key that the keystore has of a host; empty when it has none."""
    try:
        return (keystore / f"{name}.pub").read_text().strip()
    except FileNotFoundError:
        return ""


def members(
    values: dict[str, Any], hostvars: Any, primary: str, release: str, servers: tuple[str, ...] = ()
) -> dict[str, Member]:
    """Give what is known of every host of the hub, and of every server.

    Args:
        values: The variables of the host that is checked, in their types.
        servers: The servers that are no hosts of the hub.
        hostvars: The variables of every host.
        primary: The primary's name.
        release: The primary's release, when its facts are not among `hostvars`.
    """
    keystore = Path(values["wireguard_keystore"])
    removed = {path.read_text().strip() for path in keystore.glob("removed/*.pub")}
    found = {}
    for name in (*values["rota_hosts"], *servers):
        known = hostvars[name] if name in hostvars else {}  # noqa: SIM401 - Ansible's has no other way
        read = known.get("ansible_facts", {}).get("distribution_major_version", "")
        key = read_key(keystore, name)
        found[name] = Member(
            address=str(known.get("wireguard_address", "")),
            hub=tuple(known["rota_hosts"]) if "rota_hosts" in known else None,
            release=read or (release if name == primary else ""),
            key=key,
            removed=key in removed,
            endpoint=str(known.get("wireguard_endpoint", known.get("ansible_host", name))),
        )
    return found


class ActionModule(ActionBase):  # type: ignore[misc] # ansible ships no types
    _requires_connection = False

    def run(self, tmp: object = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        said = self._said(task_vars or {})
        result.update(changed=False, failed=bool(said), msg=" ".join(said) or "Nothing is wrong.")
        return result

    def _said(self, task_vars: dict[str, Any]) -> list[str]:
        name = task_vars["inventory_hostname"]
        if "distribution" not in task_vars["ansible_facts"]:
            first = f"{name} cannot be reached, so nothing was changed anywhere."
            return [f"{first} Repair it, or leave it out of this run: --limit '!{name}'"]
        roles = Path(self._task.args["roles"])
        options = read_options(roles)
        variables = {**self._defaults(roles), **task_vars}
        self._templar.available_variables = variables
        given = self._templar.template({name: variables[name] for name in options if name in variables})
        values, errors = mistyped(given, options)
        said = unknown(list(task_vars), options, sorted(path.name for path in roles.iterdir())) + errors
        return said or faults(self._host(values, task_vars))

    def _defaults(self, roles: Path) -> dict[str, Any]:
        """Give the defaults of all roles: those of later plays are not among this play's variables."""
        defaults: dict[str, Any] = {}
        for path in sorted(roles.glob("*/defaults/main.yml")):
            defaults |= self._loader.load_from_file(str(path), trusted_as_template=True)
        return defaults

    def _host(self, values: dict[str, Any], variables: dict[str, Any]) -> Host:
        primary = self._templar.template(variables["hub_primary"])
        release = self._task.args.get("primary_release", "")
        servers = tuple(self._templar.template(variables["hub_servers"]))
        return Host(
            name=variables["inventory_hostname"],
            values=values,
            facts=variables["ansible_facts"],
            groups=variables["groups"],
            port=int(self._templar.template(variables.get("ansible_port") or SSH)),
            members=members(values, variables["hostvars"], primary, release, servers),
            limited="ansible_limit" in variables,
            servers=servers,
        )
