"""Servers run apps: enrolled, refused, scaled over, deployed to, read from, guarded, and left alone.

The tests stand in an order: each goes on with what the one before it has left.
"""

import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cluster.cluster import Cluster, unsettled
from tests.cluster.desk import Desk, web
from tests.cluster.inventory import ROOT, Host
from tests.cluster.kit import run_kit
from tests.support.wait import wait_for

from lab.places import Places

APP = "hello"
NAME = f"{APP}.apps.test"
SETTLED = 60.0  # seconds
SERVERS = ("s1", "s2")
SHARED = "/mnt/shared/apps"
# Runs on a host: asks an address for / and prints the status and the body, or why there is none.
_GET = """
import http.client, sys
host, port, name, patience = sys.argv[1:]
connection = http.client.HTTPConnection(host, int(port), timeout=float(patience))
try:
    connection.request("GET", "/", headers={"Host": name})
    answer = connection.getresponse()
    print(answer.status, answer.read().decode())
except OSError as error:
    print(0, type(error).__name__)
"""


class Site:
    """The hub with its servers, and an operator at it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.primary = cluster.inventory.primary
        wait_for(lambda: not unsettled(cluster.health()), SETTLED)
        self.desk = Desk(cluster)

    def rota(self, *argv: str, good: bool = True) -> str:
        """Run a command on the primary as an operator does; return what it prints."""
        variables = [f"ROTA_URL={web(self.primary)}", f"ROTA_TOKEN={self.desk.token}"]
        command = ["env", *variables, "/usr/local/bin/rota", *argv]
        if good:
            return self.cluster.on(self.primary, *command)
        with pytest.raises(AssertionError) as failed:
            self.cluster.on(self.primary, *command)
        return str(failed.value)

    def app(self) -> dict[str, Any]:
        """Return what is known of the app."""
        found: dict[str, Any] = json.loads(self.rota("apps", "--json"))[0]
        return found

    def ps(self) -> list[dict[str, Any]]:
        """Return the app's instances."""
        found: list[dict[str, Any]] = json.loads(self.rota("ps", "show", APP, "--json"))["instances"]
        return found

    def where(self, process_type: str = "web") -> list[tuple[str, str]]:
        """Return which instance is on which server."""
        return sorted(
            (one["instance"], one["server"]) for one in self.ps() if one["process_type"] == process_type
        )

    def ask(self, host: Host | str, address: str, port: int, patience: float = 5) -> tuple[int, str]:
        """Ask an address from a host."""
        name = host if isinstance(host, str) else host.name
        argv = self.cluster.labctl.argv(
            "exec", name, "--", "python3", "-c", _GET, address, str(port), NAME, str(patience)
        )
        status, _, body = _output(argv).partition(" ")
        return int(status), body


def _output(argv: list[str]) -> str:
    done = subprocess.run(
        argv, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def site(cluster: Cluster) -> Site:
    """Give the site, with an app's directory that the primary can read."""
    made = Site(cluster)
    shared = Places.from_environment().lab(cluster.labctl.lab) / ".shared" / "apps"
    shutil.rmtree(shared, ignore_errors=True)
    for version, command in (("good", "python3 app.py"), ("bad", "python3 -c 'raise SystemExit(3)'")):
        (shared / version).mkdir(parents=True)
        shutil.copytree(ROOT / "examples" / "hello", shared / version, dirs_exist_ok=True)
        (shared / version / "rota.toml").unlink()
        (shared / version / "Procfile").write_text(f"web: {command}\n")
    for path in [shared, *shared.rglob("*")]:
        shutil.chown(path, 8420, 8420)
    return made


@pytest.fixture(scope="module")
def figures() -> Iterator[Callable[[str, float], None]]:
    """Give a place for figures."""
    kept: list[str] = []
    yield lambda what, seconds: kept.append(f"{what:<60} {seconds:7.2f} s")
    print("\n\nServers")
    print(*kept, sep="\n")


def test_a_server_enrols_with_a_key_and_reports(site: Site) -> None:
    def enrolled() -> bool:
        servers = json.loads(site.rota("server", "list", "--json"))
        return [(each["name"], each["state"]) for each in servers] == [
            ("p1", "enrolled"),
            ("s1", "enrolled"),
            ("s2", "enrolled"),
        ] and all(each["round_trip_ms"] is not None for each in servers)

    wait_for(enrolled, SETTLED)


@pytest.mark.usefixtures("site")
def test_a_host_of_another_release_is_refused_with_the_reason(tmp_path: Path) -> None:
    inventory = yaml.safe_load((ROOT / "molecule" / "servers" / "inventory.yml").read_text())
    inventory["all"]["children"]["server"]["hosts"]["old"] = {}
    other = tmp_path / "inventory.yml"
    other.write_text(yaml.safe_dump(inventory))
    shared = ROOT / "molecule" / "shared"
    run = run_kit(tmp_path, instead=[shared / "lab.yml", shared / "cluster.yml", other], playbook="enrol")
    assert run.code != 0
    assert "old runs Debian 12 and the primary p1 Debian 13" in " ".join(run.said.split())
    assert set(run.changed.values()) == {0}


def test_two_instances_run_on_two_servers_and_answer_through_each(
    site: Site, figures: Callable[[str, float], None]
) -> None:
    site.rota("deploy", APP, f"{SHARED}/good")
    site.rota("ps", "pin", APP, "web", "--use", ",".join(SERVERS))
    site.rota("ps", "scale", APP, "web=2")
    assert site.where() == [("hello.web.1", "s1"), ("hello.web.2", "s2")]
    for one in site.ps():
        assert one["healthy"], one
        status, body = site.ask(site.primary, one["address"], one["port"])
        assert (status, json.loads(body)["host"]) == (200, one["server"])
    began, before = time.monotonic(), site.app()["release"]
    site.rota("config", "set", APP, "GREETING", "--file", "/etc/hostname")
    wait_for(lambda: site.app()["release"] == before + 1, SETTLED)
    figures("a release that is built already, from command to switched", time.monotonic() - began)
    wait_for(lambda: site.app()["deploy"] is None, SETTLED)


def test_the_app_answers_under_its_own_name_from_both_servers(site: Site) -> None:
    seen: set[str] = set()

    def both() -> bool:
        with contextlib.suppress(ValueError, KeyError):
            status, body = _https(site)
            if status == 200:
                seen.add(json.loads(body)["host"])
        return seen == set(SERVERS)

    wait_for(both, 20)


def _https(site: Site) -> tuple[int, str]:
    code = (
        "import http.client,ssl,sys;c=ssl.create_default_context();c.check_hostname=False;"
        "c.verify_mode=ssl.CERT_NONE;"
        "h=http.client.HTTPSConnection(sys.argv[1],443,timeout=5,context=c);"
        "h.request('GET','/',headers={'Host':sys.argv[2]});r=h.getresponse();print(r.status,r.read().decode())"
    )
    argv = site.cluster.labctl.argv("net", "--", "python3", "-c", code, site.primary.address, NAME)
    status, _, body = _output(argv).partition(" ")
    return int(status), body


def test_an_instance_is_reached_from_the_primary_alone(site: Site) -> None:
    (one,) = [each for each in site.ps() if each["server"] == "s1"]
    assert site.ask(site.primary, one["address"], one["port"])[0] == 200
    for host in ("s2", "w1", "k1"):
        assert site.ask(host, one["address"], one["port"], 2)[0] == 0, host


def test_a_broken_release_is_named_and_the_old_one_serves_on(site: Site) -> None:
    before = site.where()
    said = site.rota("deploy", APP, f"{SHARED}/bad", good=False)
    assert "did not become healthy" in said
    assert any(server in said for server in SERVERS)
    assert site.where() == before
    assert all(one["healthy"] for one in site.ps())


def test_lines_of_both_servers_are_read_in_one_place(site: Site) -> None:
    def both() -> bool:
        lines = [json.loads(line) for line in site.rota("logs", APP, "--json", "-n", "500").splitlines()]
        return {line["server"] for line in lines if "listening on" in line["text"]} >= set(SERVERS)

    wait_for(both, 20)


def test_a_restart_of_every_hub_process_leaves_instances_and_requests_alone(site: Site) -> None:
    copies = {(one["instance"], one["server"], one["port"]): one for one in site.ps()}
    pids = {server: _pids(site, server) for server in SERVERS}
    failed: list[str] = []
    asked = 0
    for host in site.cluster.inventory.hosts.values():
        units = [
            *(["rota-web@1.service"] if host.web else []),
            *(["rota-worker.service"] if host.worker else []),
        ]
        site.cluster.on(host, "systemctl", "restart", "--no-block", *units)
        for _ in range(10):
            for one in copies.values():
                status, body = site.ask(site.primary, one["address"], one["port"])
                asked += 1
                if status != 200:
                    failed.append(f"{host.name}: {status} {body}")
    assert failed == []
    assert asked >= 50
    wait_for(lambda: not unsettled(site.cluster.health()), SETTLED)
    assert {server: _pids(site, server) for server in SERVERS} == pids
    wait_for(lambda: all(one["healthy"] for one in site.ps()), SETTLED)


def _pids(site: Site, server: str) -> str:
    units = "rota-app@*.service"
    argv = site.cluster.labctl.argv("exec", server, "--", "systemctl", "show", "--property=Id,MainPID", units)
    return _output(argv)
