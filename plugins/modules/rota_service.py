"""Bring units to the state that their files on disk describe, one after the other, each proved healthy."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rota_service
short_description: Run units as their files on disk describe them
description:
  - Restarts by state, not by event. Each unit records at its start what it runs (see
    C(units/rota-record.py)); a unit whose record differs from what is on disk is
    restarted, whichever run changed the files.
  - Units are taken one after the other; the next is touched only when the one before answers its probe.
  - Enabled or running units that O(only) matches and that are not listed are stopped and disabled.
options:
  units:
    description:
      - Each has C(name) and optionally C(socket) (a unit started before it), C(record) (the
        directory of its record), C(watch) (the record's parts and their paths), C(probe) (an address that
        must answer 200), C(intact) (a command, as a list, that fails when what the unit set up is gone) and
        C(reload) (the record's parts that a reload takes in; its ExecReload writes the record anew).
      - When the part named C(socket) differs, the socket is restarted as well.
    type: list
    elements: dict
    default: []
  only:
    description: Patterns of unit names that belong to this call.
    type: list
    elements: str
    default: []
  loaded:
    description: Further units whose files may have changed (slices); systemd reads them again if so.
    type: list
    elements: str
    default: []
  timeout:
    description: Seconds that a unit has to answer its probe.
    type: int
    default: 60
author: The Rota authors
"""

EXAMPLES = r"""
- name: Run one web process
  rota_service:
    units:
      - name: rota-web@1.service
        socket: rota-web@1.socket
        record: /run/rota/web-1
        watch: {release: /opt/rota/current, settings: /etc/rota/hub.toml}
        probe: http://127.0.0.1:8421/health
    only: [rota-web@*]
"""

RETURN = r"""
actions:
  description: What was done, in order, each with its reason.
  type: list
  elements: str
  returned: always
"""

RECORDER = ["/usr/bin/python3", "-I", "/opt/rota/libexec/rota-record.py"]
UNIT_FILES = "/etc/systemd/system"
SHOWN = ("Id", "ActiveState", "UnitFileState", "NeedDaemonReload", "DropInPaths", "InvocationID")
JOURNAL_LINES = "20"
PAUSE = 0.2
# How often a unit may have been started while it is waited for.
LIVES = 3


class Unit(NamedTuple):
    """A unit as it shall run."""

    name: str
    socket: str = ""
    record: str = ""
    watch: dict[str, str] = {}  # noqa: RUF012 - never changed
    probe: str = ""
    intact: list[str] = []  # noqa: RUF012 - never changed
    reload: list[str] = []  # noqa: RUF012 - never changed


class Seen(NamedTuple):
    """A unit as systemd and the disk show it."""

    active: bool
    socket_active: bool
    enabled: bool
    running: dict[str, str]
    on_disk: dict[str, str]
    intact: bool


class Systemd:
    """The few calls to systemd; each raises CalledProcessError when it is refused."""

    def run(self, *argv: str) -> str:
        done = subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return done.stdout

    def succeeds(self, argv: list[str]) -> bool:
        """Say whether a command succeeds; one that is not there, as on a bare host, does not."""
        try:
            done = subprocess.run(argv, check=False, stdin=subprocess.DEVNULL, capture_output=True)
        except FileNotFoundError:
            return False
        return done.returncode == 0

    def control(self, *arguments: str) -> str:
        return self.run("systemctl", "--no-ask-password", *arguments)

    def show(self, names: list[str]) -> dict[str, dict[str, str]]:
        """Properties by unit name."""
        if not names:
            return {}
        answer = self.control("show", *(f"--property={key}" for key in SHOWN), *names)
        blocks = [
            dict(line.split("=", 1) for line in block.splitlines()) for block in answer.strip().split("\n\n")
        ]
        return {block["Id"]: block for block in blocks}

    def known(self, patterns: list[str]) -> set[str]:
        """Units in memory, or wanted at boot, that a pattern matches."""
        if not patterns:
            return set()
        answer = self.control("list-units", "--all", "--plain", "--no-legend", "--full", *patterns)
        rows = [line.split() for line in answer.splitlines()]
        loaded = {row[0] for row in rows if row and row[2] != "inactive"}
        return loaded | {
            link.name for link in wanted_links("*") if any(fnmatch(link.name, p) for p in patterns)
        }

    def journal(self, name: str) -> str:
        return self.run(
            "journalctl", "--no-pager", "--output=cat", f"--lines={JOURNAL_LINES}", f"--unit={name}"
        ).strip()


class Failed(Exception):  # noqa: N818 - reads as what happened
    """A unit did not come to the state asked for; the message is for the operator."""


def wanted_links(pattern: str) -> list[Path]:
    """Give the links that start matching units at boot, those whose unit file is gone included."""
    return sorted(link for link in Path(UNIT_FILES).glob("*.wants/*") if fnmatch(link.name, pattern))


def recorded(directory: str) -> dict[str, str]:
    """Read what a unit recorded at its start; nothing if it did not."""
    try:
        return dict(json.loads((Path(directory) / "running").read_text()))
    except (FileNotFoundError, ValueError):
        return {}


def on_disk(systemd: Systemd, watch: dict[str, str]) -> dict[str, str]:
    if not watch or not Path(RECORDER[-1]).exists():
        return {}
    return dict(json.loads(systemd.run(*RECORDER, *(f"{name}={paths}" for name, paths in watch.items()))))


def see(systemd: Systemd, unit: Unit) -> Seen:
    names = [name for name in (unit.name, unit.socket) if name]
    shown = systemd.show(names)
    return Seen(
        active=shown[unit.name]["ActiveState"] == "active",
        socket_active=not unit.socket or shown[unit.socket]["ActiveState"] == "active",
        # A unit without an [Install] section is started by others and cannot be enabled.
        enabled=all(shown[name]["UnitFileState"] in ("enabled", "static") for name in names),
        running=recorded(unit.record) if unit.record else {},
        on_disk=on_disk(systemd, unit.watch),
        intact=not unit.intact or systemd.succeeds(unit.intact),
    )


def plan(unit: Unit, seen: Seen, stale: set[str]) -> list[tuple[str, str]]:
    """Say what to do to the unit, as (verb, reason): nothing when it runs what is on disk.

    Args:
        unit: As it shall run.
        seen: As it is.
        stale: The units that systemd had loaded from older files. What such a unit recorded at its
            start may be newer than what systemd started, so the record is not believed.
    """
    steps = [] if seen.enabled else [("enable", "not enabled")]
    if not seen.active:
        return [*steps, ("start", "not running")]
    if not seen.socket_active:
        return [*steps, ("rebind", "its socket is not listening")]
    if not seen.intact:
        return [*steps, ("restart", "what it set up is gone")]
    changed = {part for part, value in seen.on_disk.items() if seen.running.get(part) != value}
    changed |= {part for part, name in (("unit", unit.name), ("socket", unit.socket)) if name in stale}
    if not changed:
        return steps
    if unit.socket and "socket" in changed:
        verb = "rebind"
    else:
        # What left no record may run anything.
        verb = "reload" if seen.running and changed <= set(unit.reload) else "restart"
    return [
        *steps,
        (
            verb,
            f"what it started with has changed since: {', '.join(sorted(changed))}"
            if seen.running
            else "it left no record",
        ),
    ]


def commands(verb: str, unit: Unit) -> list[list[str]]:
    """Give systemctl's arguments for a verb."""
    names = [name for name in (unit.socket, unit.name) if name]
    starts = [["start", name] for name in names]
    return {
        "enable": [["enable", *names]],
        "start": [["reset-failed", *names], *starts],
        "restart": [["reset-failed", *names], ["restart", unit.name]],
        "reload": [["reload", unit.name]],
        # A socket cannot be bound anew under a running service. The service goes first.
        "rebind": [["stop", unit.name], ["stop", unit.socket], ["reset-failed", *names], *starts],
    }[verb]


def ask(address: str) -> tuple[int, str]:
    """Ask once: the status (0 when nobody answers) and the text."""
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:  # noqa: S310 - the kit's own http address
            return int(answer.status), answer.read(4096).decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.code, error.read(4096).decode(errors="replace")
    except OSError as error:
        return 0, str(error)


def wait_healthy(systemd: Systemd, unit: Unit, timeout: float) -> None:
    """Wait until the unit answers its probe with 200.

    Raises:
        Failed: it did not in time, it stopped for good, or it keeps stopping. (A question waiting at its
            socket starts a stopped unit again, so that one look at its state is not enough.)
    """
    deadline = time.monotonic() + timeout
    lives = set()
    while unit.probe:
        status, answer = ask(unit.probe)
        if status == 200:  # noqa: PLR2004 - HTTP's own number
            return
        shown = systemd.show([unit.name])[unit.name]
        lives.add(shown["InvocationID"])
        if shown["ActiveState"] == "failed" or len(lives) > LIVES or time.monotonic() > deadline:
            said = f"answers {status}: {answer.strip()}" if status else f"does not answer: {answer}"
            raise Failed(f"{unit.name} is {shown['ActiveState']} and {unit.probe} {said}")
        time.sleep(PAUSE)


def carry_out(systemd: Systemd, unit: Unit, verb: str) -> None:
    for arguments in commands(verb, unit):
        try:
            systemd.control(*arguments)
        except subprocess.CalledProcessError as error:
            # A unit that systemd has not loaded yet has no failure to forget.
            if arguments[0] != "reset-failed":
                raise Failed(f"systemctl {' '.join(arguments)}: {error.stderr.strip()}") from error


def outdated(name: str, shown: dict[str, str]) -> bool:
    """Tell whether systemd holds a unit from older files.

    systemd 252 does not see by itself that a unit has got its first drop-in.
    """
    drop_ins = {str(path) for path in Path(UNIT_FILES, f"{name}.d").glob("*.conf")}
    return shown["NeedDaemonReload"] == "yes" or not drop_ins <= set(shown.get("DropInPaths", "").split())


def surplus(systemd: Systemd, only: list[str], units: list[Unit]) -> list[str]:
    return sorted(systemd.known(only) - {name for unit in units for name in (unit.name, unit.socket)})


def retire(systemd: Systemd, names: list[str]) -> None:
    """Stop units in one transaction and take them out of the boot, also when their files are gone."""
    systemd.control("stop", *names)
    for name in names:
        for link in wanted_links(name):
            link.unlink()
            if not any(link.parent.iterdir()):
                link.parent.rmdir()
    systemd.control("daemon-reload")


def reach(systemd: Systemd, unit: Unit, stale: set[str], timeout: float, *, act: bool) -> list[str]:
    """Bring one unit to its state and give what was, or would be, done.

    Raises:
        Failed: systemd refused, or the unit does not answer its probe; its last lines are in the message.
    """
    steps = plan(unit, see(systemd, unit), stale)
    if act:
        try:
            for verb, _ in steps:
                carry_out(systemd, unit, verb)
            wait_healthy(systemd, unit, timeout)
        except Failed as error:
            raise Failed(f"{error}\nIts last lines:\n{systemd.journal(unit.name)}") from error
    return [f"{verb} {unit.name}: {reason}" for verb, reason in steps]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "units": {"type": "list", "elements": "dict", "default": []},
            "only": {"type": "list", "elements": "str", "default": []},
            "loaded": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    systemd, act = Systemd(), not module.check_mode
    units = [Unit(**raw) for raw in module.params["units"]]
    names = [name for unit in units for name in (unit.name, unit.socket) if name]
    shown = systemd.show([*names, *module.params["loaded"]])
    stale = {name for name, block in shown.items() if outdated(name, block)}
    actions = ["reload systemd: unit files changed"] if stale else []
    old = surplus(systemd, module.params["only"], units)
    actions += [f"retire {name}: not wanted here" for name in old]
    try:
        if stale and act:
            systemd.control("daemon-reload")
        if old and act:
            retire(systemd, old)
        for unit in units:
            actions += reach(systemd, unit, stale, module.params["timeout"], act=act)
    except Failed as error:
        module.fail_json(msg=str(error), actions=actions)
    except subprocess.CalledProcessError as error:
        module.fail_json(msg=f"{' '.join(error.cmd)}: {error.stderr.strip()}", actions=actions)
    diff = {"before": "", "after": "".join(f"{action}\n" for action in actions)}
    module.exit_json(changed=bool(actions), actions=actions, diff=diff)


if __name__ == "__main__":
    main()
