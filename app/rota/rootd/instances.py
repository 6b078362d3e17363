"""Copies of instances, and one-shot runs, as systemd units: placed, started, stopped."""

import json
import pwd
from pathlib import Path
from typing import Any

from rota.rootd import firewall
from rota.rootd.fields import COPY, RefusedError, configuration
from rota.rootd.places import Places, placed, run, sync, write

ENDED = ("inactive", "failed")
LOCAL = ("rota", "haproxy")  # who may connect to instances of this host, besides root


def template(copy: str) -> str:
    """Return the name of the template that a copy is started from: runs have one of their own."""
    found = COPY.fullmatch(copy)
    return "rota-run@" if found and found["run"] else "rota-app@"


def unit(copy: str) -> str:
    """Return the name of a copy's unit."""
    return f"{template(copy)}{copy}.service"


def user(copy: str) -> str:
    """Return the system user of a copy's app."""
    return f"app-{copy.partition('.')[0]}"


def drop_in(places: Places, copy: str, fields: dict[str, Any], *, reader: bool) -> str:
    """Return what makes the template a copy's own. With a `reader`, its output goes where that listens."""
    lines = ["# Kept by Rota's rootd."]
    if reader:
        lines += ["[Unit]", f"Wants=rota-log@{copy}.socket", f"After=rota-log@{copy}.socket"]
    lines += ["[Service]", f"User={user(copy)}", f"Group={user(copy)}"]
    lines += [f"BindReadOnlyPaths={places.artifacts / fields['sha256']}:/app"]
    lines += [f"LoadCredential=configuration:{places.configuration / copy}"]
    lines += [f"TimeoutStopSec={fields['grace']}s"]
    if reader:
        lines += [f"StandardOutput=file:{places.output / copy}", "StandardError=inherit"]
    if fields["memory"]:
        lines += [f"MemoryMax={fields['memory']}"]
    if fields["processors"]:
        lines += [f"CPUQuota={max(1, fields['processors'] // 10)}%"]
    return "\n".join([*lines, ""])


def place(places: Places, fields: dict[str, Any], _: int | None = None) -> dict[str, Any]:
    """Make a copy's unit ready to start."""
    copy, others = fields["copy"], placed(places)
    firewall.addresses(places.server)  # without them nothing is guarded, so nothing is placed
    if not (places.artifacts / fields["sha256"]).is_dir():
        raise RefusedError("the artifact is not unpacked here")
    mine = others.pop(copy, None)
    if mine is not None and mine != fields and state(copy) not in ENDED:
        raise RefusedError("the copy runs, placed otherwise: stop it first")
    if taken := [name for name, other in others.items() if other["port"] == fields["port"]]:
        raise RefusedError(f"port {fields['port']} is that of {taken[0]}")
    described = f'u {user(copy)} - "Rota app {copy.partition(".")[0]}" /nonexistent /usr/sbin/nologin\n'
    run(["systemd-sysusers", "-"], described)
    write(places.placed / f"{copy}.json", json.dumps(fields).encode())
    reader = (places.units / "rota-log@.socket").exists()
    directory = places.units / f"{unit(copy)}.d"
    directory.mkdir(exist_ok=True)
    directory.chmod(0o755)
    if write(directory / "rota.conf", drop_in(places, copy, fields, reader=reader).encode(), 0o644):
        run(["systemctl", "daemon-reload"])
    guard(places)
    return {"state": "placed"}


def start(places: Places, fields: dict[str, Any], _: int | None = None) -> dict[str, Any]:
    """Start a placed copy with its configuration, or "" for the one it had; one that runs goes on."""
    copy = fields["copy"]
    if copy not in placed(places):
        raise RefusedError("the copy is not placed here")
    now = state(copy)
    if not (places.configuration / copy).exists() and not (now in ENDED and fields["configuration"]):
        raise RefusedError(
            "the copy has no configuration, or is stopping: start it with one once it has ended"
        )
    if now in ENDED:
        if fields["configuration"]:
            write(places.configuration / copy, configuration(fields["configuration"]))
        guard(places)
        if template(copy) == "rota-app@" and not (link := _wants(places, copy)).is_symlink():
            link.symlink_to(places.units / "rota-app@.service")
            sync(link.parent)
        if now == "failed":
            run(["systemctl", "reset-failed", unit(copy)])
        run(["systemctl", "start", "--no-block", unit(copy)])
    return {"state": "started"}


def stop(places: Places, fields: dict[str, Any], _: int | None = None) -> dict[str, Any]:
    """Stop a copy and delete its configuration. Says `stopping` until it has ended, and is asked again."""
    copy = fields["copy"]
    _wants(places, copy).unlink(missing_ok=True)
    (places.configuration / copy).unlink(missing_ok=True)
    if state(copy) not in ENDED:
        run(["systemctl", "stop", "--no-block", unit(copy)])
        return {"state": "stopping"}
    directory = places.units / f"{unit(copy)}.d"
    if directory.is_dir():
        (directory / "rota.conf").unlink(missing_ok=True)
        directory.rmdir()
        run(["systemctl", "daemon-reload"])
    if state(copy) == "failed":
        run(["systemctl", "reset-failed", unit(copy)])
    (places.placed / f"{copy}.json").unlink(missing_ok=True)
    guard(places)
    return {"state": "stopped"}


def state(copy: str) -> str:
    """Return systemd's word: active, activating, deactivating, inactive or failed."""
    return run(["systemctl", "show", "--property=ActiveState", "--value", unit(copy)]).strip()


def guard(places: Places) -> None:
    """Bring the firewall to what is placed."""
    copies = placed(places)
    apps, local = (_uids(names) for names in ({user(copy) for copy in copies}, LOCAL))
    ports = {fields["port"] for fields in copies.values()}
    firewall.apply(places, firewall.rules(firewall.addresses(places.server), ports, apps, local))


def _uids(names: set[str] | tuple[str, ...]) -> set[int]:
    return {each.pw_uid for each in pwd.getpwall() if each.pw_name in names}


def _wants(places: Places, copy: str) -> Path:
    """Return the link by which a copy is started at boot."""
    return places.units / "multi-user.target.wants" / unit(copy)
