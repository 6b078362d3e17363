"""What the Ansible role shared_log refuses, and what it writes, for each kind of host."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEFAULTS = yaml.safe_load((ROOT / "roles" / "shared_log" / "defaults" / "main.yml").read_text())
UNITS = "/etc/systemd/system"
MOUNT = "srv-rota-tlog.mount"


def nfs(**changed: Any) -> dict[str, Any]:
    """Give the variables of a member of a hub of three, where p1 exports."""
    return {
        "shared_log_enabled": True,
        "shared_log_backend": "nfs",
        "shared_log_hosts": ["w1", "p1", "k1", *changed.pop("also", [])],
        "shared_log_server": "p1",
        "shared_log_server_address": "10.98.0.1",
        "shared_log_clients": ["10.98.0.12", "10.98.0.1", "10.98.0.11"],
        "shared_log_tunnel_unit": "wg-quick@rota0.service",
        **changed,
    }


def own(name: str, backend: str, **changed: Any) -> dict[str, Any]:
    """Give the variables of a host that is alone."""
    return {
        "shared_log_enabled": True,
        "shared_log_backend": backend,
        "shared_log_hosts": [name],
        **changed,
    }


OPTIONS = DEFAULTS["shared_log_mount_options"]
SOUND: dict[str, dict[str, Any]] = {
    "off": {},
    "local": own("local", "local"),
    "bind": own("bind", "bind", shared_log_source="/mnt/shared/tlog"),
    "p1": nfs(),
    "w1": nfs(),
    "k1": nfs(),
}
# What each host has wrong, and a part of the one sentence that says so.
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "dash": (own("dash", "local", shared_log_directory="/srv/rota-log"), "without dashes"),
    "root": (own("root", "local", shared_log_directory="/"), "must be a path of its own"),
    "inside": (own("inside", "local", shared_log_directory="/var/lib/rota/tlog"), "not below /var/lib/rota"),
    "stranger": (nfs(), "not in shared_log_hosts"),
    "many": (own("many", "local", shared_log_hosts=["many", "more"]), "2 share the log"),
    "nowhere": (own("nowhere", "bind"), "needs shared_log_source"),
    "itself": (own("itself", "bind", shared_log_source="/srv/rota/tlog/a"), "and not /srv/rota/tlog itself"),
    "serverless": (nfs(also=["serverless"], shared_log_server=""), "needs shared_log_server"),
    "foreign": (nfs(also=["foreign"], shared_log_server="x1"), "one of shared_log_hosts"),
    "nobody": (nfs(also=["nobody"], shared_log_clients=[]), "shared_log_clients"),
    "below": (nfs(also=["below"], shared_log_export="/srv/rota/tlog/x"), "neither in /srv/rota/tlog nor"),
    "around": (nfs(also=["around"], shared_log_export="/srv/rota"), "neither in /srv/rota/tlog nor"),
    **{
        word.partition("=")[0]: (
            nfs(also=[word.partition("=")[0]], shared_log_mount_options=[*OPTIONS, word]),
            f"must not have {word.partition('=')[0]};",
        )
        for word in ("nolock", "nocto", "soft", "softerr", "local_lock=flock", "nfsvers=3", "noac")
    },
    "three": (
        nfs(also=["three"], shared_log_mount_options=["hard", "vers=3"]),
        "must have hard and vers=4.2",
    ),
    "weak": (nfs(also=["weak"], shared_log_mount_options=["vers=4.2"]), "must have hard and vers=4.2"),
}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Give what is rendered for each host, in one run for all."""
    into = tmp_path_factory.mktemp("rendered")
    hosts = SOUND | {name: variables for name, (variables, _) in WRONG.items()}
    inventory = into / "inventory.yml"
    full = {name: {**DEFAULTS, **variables} for name, variables in hosts.items()}
    inventory.write_text(yaml.safe_dump({"all": {"hosts": full}}))
    argv = [sys.executable, "-m", "ansible", "playbook", f"--inventory={inventory}"]
    argv += [f"--extra-vars=into={into}", "tests/kit/render_shared_log.yml"]
    environment = {**os.environ, "ANSIBLE_LOCAL_TEMP": str(into)}
    ran = subprocess.run(argv, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return {name: json.loads((into / f"{name}.json").read_text()) for name in hosts}


def contents(host: dict[str, Any]) -> dict[str, str]:
    return {entry["path"]: entry["content"] for entry in host["files"]}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_work_is_refused_with_one_sentence(rendered: dict[str, Any], name: str) -> None:
    (sentence,) = rendered[name]["faults"]
    assert WRONG[name][1] in sentence


@pytest.mark.parametrize("name", SOUND)
def test_what_can_work_is_not_refused(rendered: dict[str, Any], name: str) -> None:
    assert rendered[name]["faults"] == []


@pytest.mark.parametrize("name", SOUND)
def test_every_file_that_is_written_is_one_that_would_be_removed(rendered: dict[str, Any], name: str) -> None:
    assert set(contents(rendered[name])) <= set(rendered[name]["kept"])


def test_a_host_without_it_has_nothing_of_it(rendered: dict[str, Any]) -> None:
    assert (rendered["off"]["files"], rendered["off"]["units"], rendered["off"]["directories"]) == (
        [],
        [],
        [],
    )


def test_a_local_directory_is_not_mounted(rendered: dict[str, Any]) -> None:
    assert list(contents(rendered["local"])) == ["/opt/rota/libexec/rota-flock-proof.py"]
    assert rendered["local"]["units"] == []


def test_a_client_mounts_after_the_tunnel_and_requires_nothing(rendered: dict[str, Any]) -> None:
    lines = contents(rendered["w1"])[f"{UNITS}/{MOUNT}"].splitlines()
    assert "What=10.98.0.1:/srv/rota/export" in lines
    assert "Type=nfs4" in lines
    assert f"Options={','.join(OPTIONS)},_netdev" in lines
    assert "After=network-online.target wg-quick@rota0.service" in lines
    assert not any(line.startswith(("Requires", "BindsTo", "Before", "WantedBy")) for line in lines)
    assert [unit["name"] for unit in rendered["w1"]["units"]] == [MOUNT, "rota-shared-log.timer"]


def test_the_server_exports_and_mounts_its_own_export(rendered: dict[str, Any]) -> None:
    files = contents(rendered["p1"])
    assert (
        "After=network-online.target wg-quick@rota0.service nfs-server.service\n" in files[f"{UNITS}/{MOUNT}"]
    )
    units = [unit["name"] for unit in rendered["p1"]["units"]]
    assert units == ["nfs-server.service", MOUNT, "rota-shared-log.timer"]
    (line,) = (each for each in files["/etc/exports.d/rota.exports"].splitlines() if each[:1] == "/")
    path, *clients = line.split()
    options = "(rw,sync,root_squash,no_subtree_check,fsid=8420)"
    assert path == "/srv/rota/export"
    assert clients == [f"{each}{options}" for each in ("10.98.0.1", "10.98.0.11", "10.98.0.12")]
    settings = files["/etc/nfs.conf.d/rota.conf"].splitlines()
    assert {"host=10.98.0.1", "lease-time=15", "grace-time=15", "vers3=n", "vers4.2=y"} <= set(settings)
    assert rendered["p1"]["directories"][2] == {
        "path": "/srv/rota/export",
        "owner": "rota",
        "group": "rota",
        "mode": "0700",
    }


def test_what_only_nfsv3_needs_is_never_started(rendered: dict[str, Any]) -> None:
    units = ("rpcbind.socket", "rpcbind.service", "rpc-statd.service")
    for name in ("p1", "w1"):
        masked = [path for path, content in contents(rendered[name]).items() if content == ""]
        assert masked == [f"{UNITS}/{unit}" for unit in units]


def test_an_export_to_another_host_is_a_reload_and_another_lease_a_restart(rendered: dict[str, Any]) -> None:
    server = rendered["p1"]["units"][0]
    assert (set(server["watch"]), server["reload"]) == ({"exports", "settings"}, ["exports"])
    lines = contents(rendered["p1"])[f"{UNITS}/nfs-server.service.d/rota.conf"].splitlines()
    recorded = {line.split("=-", 1)[1] for line in lines if line.startswith(("ExecStartPre", "ExecReload"))}
    (words,) = (each.split(" --into ")[1].split() for each in recorded)
    assert words == ["%t/rota/nfs", *(f"{part}={path}" for part, path in sorted(server["watch"].items()))]
    assert server["record"] == "/run/rota/nfs"


def test_a_bound_directory_waits_for_its_own_file_system(rendered: dict[str, Any]) -> None:
    lines = contents(rendered["bind"])[f"{UNITS}/{MOUNT}"].splitlines()
    assert "RequiresMountsFor=/mnt/shared/tlog" in lines
    assert "Options=bind,nosuid,nodev,noexec,_netdev" in lines
    assert "AssertDirectoryNotEmpty=!/srv/rota/tlog" in lines


def test_each_host_has_another_to_prove_it_with(rendered: dict[str, Any]) -> None:
    assert rendered["k1"]["peers"] == ["p1", "w1"]
    assert rendered["p1"]["peers"] == ["w1", "k1"]
    assert rendered["w1"]["peers"] == ["k1", "p1"]
    assert rendered["local"]["peers"] == ["local"]


def test_uninstalling_deletes_only_what_is_of_this_host(rendered: dict[str, Any]) -> None:
    own_data = {name: rendered[name]["own_data"] for name in ("local", "bind", "p1", "w1")}
    assert own_data == {"local": "/srv/rota/tlog", "bind": "", "p1": "/srv/rota/export", "w1": ""}


@pytest.mark.parametrize("name", ["bind", "p1", "w1"])
def test_systemd_understands_every_word(rendered: dict[str, Any], tmp_path: Path, name: str) -> None:
    units = [path for path in contents(rendered[name]) if path.endswith((".mount", ".timer"))]
    for path in units:
        (tmp_path / Path(path).name).write_text(contents(rendered[name])[path])
    argv = ["systemd-analyze", "verify", "--recursive-errors=no", "--man=no", *map(str, tmp_path.iterdir())]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / MOUNT).write_text((tmp_path / MOUNT).read_text() + "NoSuchKey=yes\n")
    assert subprocess.run(argv, check=False, capture_output=True, text=True).stderr
