"""Take a host's web processes out of the proxy, or put them back, through the proxy's runtime socket."""

from __future__ import annotations

import csv
import socket
import time
from typing import TYPE_CHECKING, NamedTuple

from ansible.module_utils.basic import AnsibleModule

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTATION = r"""
module: rota_proxy
short_description: Drain a host at the proxy, or put it back
description:
  - Runs on the host of the proxy. A server of the proxy is named HOST-N, as in C(w1-2); the host is what
    stands before the last dash.
  - C(drained) gives the host no new request, waits until those under way have ended, and says how many had
    not at the deadline. It refuses to take away the last servers that are up.
  - C(ready) puts the host back and waits until the proxy's own checks have passed. A host that does not
    become up is taken out again, and the module fails.
  - What is set here lasts until the proxy's configuration is loaded anew; then every server is ready.
options:
  host:
    description: Name of the host in the inventory.
    type: str
    required: true
  state:
    description: What the host shall be.
    type: str
    choices: [drained, ready]
    required: true
  backends:
    description: The proxy's backends that are the hub's.
    type: list
    elements: str
    default: [hub, hub_rooms]
  socket:
    description: The proxy's runtime socket.
    type: path
    default: /run/haproxy/admin.sock
  timeout:
    description: Seconds that sessions have to end, or servers to become up.
    type: int
    default: 30
author: The Rota authors
"""

EXAMPLES = r"""
- name: Take the host out of the proxy
  rota_proxy:
    host: w1
    state: drained
  delegate_to: p1
"""

RETURN = r"""
actions:
  description: The orders given to the proxy.
  type: list
  elements: str
  returned: always
left:
  description: Sessions of the host that had not ended at the deadline.
  type: int
  returned: always
"""

# Requests that the proxy had already given to a server when it was drained are under way by then.
SETTLE = 2.0
PAUSE = 0.2
ANSWER_WITHIN = 10


class Server(NamedTuple):
    """One server of a backend, as the proxy shows it."""

    backend: str
    name: str
    status: str
    sessions: int
    # It has no checks of its own: its state is another server's.
    follows: bool
    # Every check that counts has passed.
    proved: bool

    @property
    def host(self) -> str:
        return self.name.rpartition("-")[0]

    @property
    def up(self) -> bool:
        return self.status.startswith("UP") or self.status == "no check"

    @property
    def drained(self) -> bool:
        return self.status.startswith("MAINT")


class Failed(Exception):  # noqa: N818 - reads as what happened
    """The proxy did not come to the state asked for; the message is for the operator."""


class Runtime:
    """The proxy's runtime socket: one order, one answer."""

    def __init__(self, path: str) -> None:
        self._path = path

    def ask(self, order: str) -> str:
        """Give an order and return the answer.

        Raises:
            Failed: nobody answers.
        """
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
                link.settimeout(ANSWER_WITHIN)
                link.connect(self._path)
                link.sendall(f"{order}\n".encode())
                answer = b"".join(iter(lambda: link.recv(65536), b""))
        except OSError as error:
            raise Failed(
                f"The proxy does not answer at {self._path}: {error}. "
                "Look at it with:  systemctl status haproxy"
            ) from error
        return answer.decode().strip()

    def order(self, order: str) -> None:
        """Give an order that has no answer when it is taken.

        Raises:
            Failed: the proxy refused it, with its words.
        """
        if refused := self.ask(order):
            raise Failed(f"The proxy refused “{order}”: {refused}")


def read(statistics: str, backends: list[str]) -> list[Server]:
    """Give the servers of these backends from what `show stat` answers."""
    rows = csv.DictReader(statistics.removeprefix("# ").splitlines())
    return [
        Server(
            backend=row["pxname"],
            name=row["svname"],
            status=row["status"],
            sessions=int(row["scur"]) + int(row["qcur"] or 0),
            follows=bool(row["tracked"]),
            proved=not row["check_health"]
            or int(row["check_health"]) == int(row["check_rise"]) + int(row["check_fall"]) - 1,
        )
        for row in rows
        if row["pxname"] in backends and row["svname"] not in ("FRONTEND", "BACKEND")
    ]


def of(host: str, servers: list[Server]) -> list[Server]:
    """Give the host's own servers.

    Raises:
        Failed: it has none.
    """
    found = [server for server in servers if server.host == host]
    if not found:
        known = ", ".join(sorted({server.host for server in servers})) or "none"
        raise Failed(
            f"The proxy knows no server of the host {host}; the hosts that it knows: {known}. "
            "playbooks/site.yml writes its configuration from the inventory."
        )
    return found


def plan(servers: list[Server], host: str, state: str) -> list[str]:
    """Give the orders that bring the host to the state.

    Raises:
        Failed: the host has no server, or the last ones that are up.
    """
    ours = of(host, servers)
    if state == "ready":
        return [order(each, "ready") for each in ours if not each.follows and not each.up]
    for backend in sorted({each.backend for each in ours if each.up}):
        if not any(each.up for each in servers if each.backend == backend and each.host != host):
            raise Failed(
                f"{host} has the last web processes that are up (backend {backend}): without them every "
                "request fails. See why the other hosts are not up, or put them back with state=ready, first."
            )
    return [order(each, "maint") for each in ours if not each.follows and not each.drained]


def order(server: Server, state: str) -> str:
    # Maintenance, and not the proxy's own word drain: that still sends whoever has a cookie.
    return f"set server {server.backend}/{server.name} state {state}"


def wait(look: Callable[[], list[Server]], reached: Callable[[list[Server]], bool], within: float) -> bool:
    """Look until the servers are as they should be; tell whether they were in time."""
    deadline = time.monotonic() + within
    while not reached(look()):
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE)
    return True


def drain(runtime: Runtime, look: Callable[[], list[Server]], orders: list[str], within: float) -> int:
    """Give the orders and wait for the sessions to end; return how many are left."""
    for each in orders:
        runtime.order(each)
    settled = time.monotonic() + (SETTLE if orders else 0)
    wait(
        look,
        lambda servers: time.monotonic() >= settled and not any(each.sessions for each in servers),
        max(within, SETTLE),
    )
    return sum(each.sessions for each in look())


def put_back(runtime: Runtime, look: Callable[[], list[Server]], orders: list[str], within: float) -> None:
    """Give the orders and wait until the servers are up and their checks have passed.

    Raises:
        Failed: they are not in time; those that were put back are taken out again.
    """
    for each in orders:
        runtime.order(each)
    if wait(look, lambda servers: all(each.up and each.proved for each in servers), within):
        return
    states = ", ".join(f"{each.backend}/{each.name} is {each.status}" for each in look())
    for each in orders:
        runtime.order(each.removesuffix("ready") + "maint")
    raise Failed(
        f"Not up after {within:.0f} s: {states}. What was put back is taken out again. "
        "Look at the processes with:  systemctl status 'rota-web@*'"
    )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "host": {"type": "str", "required": True},
            "state": {"type": "str", "required": True, "choices": ["drained", "ready"]},
            "backends": {"type": "list", "elements": "str", "default": ["hub", "hub_rooms"]},
            "socket": {"type": "path", "default": "/run/haproxy/admin.sock"},
            "timeout": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    host, state, within = (module.params[name] for name in ("host", "state", "timeout"))
    runtime, left, orders = Runtime(module.params["socket"]), 0, list[str]()

    def look() -> list[Server]:
        return of(host, read(runtime.ask("show stat"), module.params["backends"]))

    try:
        orders = plan(read(runtime.ask("show stat"), module.params["backends"]), host, state)
        if not module.check_mode and state == "drained":
            left = drain(runtime, look, orders, within)
        elif not module.check_mode:
            put_back(runtime, look, orders, within)
    except Failed as error:
        module.fail_json(msg=str(error), actions=orders, left=left)
    message = f"{left} sessions of {host} had not ended after {within} s." if left else ""
    diff = {"before": "", "after": "".join(f"{each}\n" for each in orders)}
    module.exit_json(changed=bool(orders), actions=orders, left=left, msg=message, diff=diff)


if __name__ == "__main__":
    main()
