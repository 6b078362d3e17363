"""What the kit makes of five bare hosts: one hub, reached by one name, and closed to everyone else."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.cluster.cluster import Cluster, unsettled
from tests.cluster.inventory import Host, inventories
from tests.cluster.kit import Run, run_kit
from tests.support.wait import wait_for

from lab.places import Places

PRIMARY_TASKS = {"maintenance.nightly", "backups.scheduler"}
WEB_TASKS = {"tlog.checkpointer", "tlog.outbox"}
SETTLED = 60.0  # seconds after the last host is up; a loaded machine needs a fraction of it
MOST_EXECUTIONS = 8  # on one host, by one Ansible role
TOOL = ("/usr/bin/python3", "-I", "/opt/rota/libexec/rota-tunnel.py")
LOG = "/srv/rota/tlog"
HOSTS = ("p1", "w1", "w2", "k1", "k2")

# Runs on a host: reaches out to each HOST:PORT given and prints those that took the connection.
REACH = """
import socket, sys
for word in sys.argv[1:]:
    host, _, port = word.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except OSError:
        continue
    print(word)
"""


def settle(cluster: Cluster) -> None:
    """Wait until every process is well and every singleton is led exactly once."""
    wait_for(lambda: not unsettled(cluster.health()), within=SETTLED)


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Give a run of the kit on hosts that need nothing."""
    return run_kit(tmp_path_factory.mktemp("second"))


def test_a_second_run_changes_nothing_and_executes_little(second: Run) -> None:
    assert second.code == 0, second.said[-4000:]
    assert second.changed == dict.fromkeys(HOSTS, 0)
    most = {role: n for about in second.executed.values() for role, n in about.items()}
    for about in second.executed.values():
        for role, n in about.items():
            most[role] = max(most[role], n)
    total = sum(sum(about.values()) for about in second.executed.values())
    print(
        f"\nno-change site.yml, five hosts: {total} executions, {second.seconds:.0f} s; on one host: {most}"
    )
    assert max(most.values()) <= MOST_EXECUTIONS


def test_a_check_foretells_nothing(tmp_path: Path) -> None:
    run = run_kit(tmp_path, "--check", "--diff")
    assert run.code == 0, run.said[-4000:]
    assert run.changed == dict.fromkeys(HOSTS, 0)


def test_every_host_speaks_with_every_other(cluster: Cluster) -> None:
    for host in cluster.inventory.hosts.values():
        ages = json.loads(cluster.on(host, *TOOL, "health", "--wait", "30"))
        assert sorted(ages) == sorted(set(HOSTS) - {host.name})


def test_every_process_is_well_and_every_task_is_led_once(cluster: Cluster) -> None:
    settle(cluster)
    health = cluster.health()
    by_web = {task for name, one in health.items() if name.endswith("/web") for task in one["leading"]}
    assert by_web >= WEB_TASKS
    assert set(health["p1/worker"]["leading"]) >= PRIMARY_TASKS
    assert all("queue.worker" in health[f"{name}/worker"]["tasks"] for name in ("p1", "k1", "k2"))
    assert all(one["database"]["kind"] == "postgresql" for one in health.values())
    assert {name: one["roles"] for name, one in health.items()} == {
        **{f"{name}/web": ["web"] for name in ("p1", "w1", "w2")},
        **{f"{name}/worker": ["worker"] for name in ("p1", "k1", "k2")},
    }


def test_the_hub_answers_by_its_name_through_the_proxy(cluster: Cluster) -> None:
    argv = ("--silent", "--show-error", "--insecure", "--max-time", "10", "--write-out", "%{http_code}")
    entry = cluster.inventory.primary.address
    named = ("--resolve", f"hub.test:443:{entry}", "https://hub.test/version")
    body = cluster.labctl("net", "--", "curl", *argv, *named)
    assert body.endswith("200")
    plain = ("--resolve", f"hub.test:80:{entry}", "http://hub.test/x")
    assert cluster.labctl("net", "--", "curl", *argv, "--output", "/dev/null", *plain) == "308"
    assert cluster.labctl("net", "--", "curl", *argv, f"https://{entry}/").endswith("404")


def test_every_web_process_takes_requests(cluster: Cluster) -> None:
    stats = cluster.on(cluster.inventory.primary, "/usr/bin/python3", "-I", "-c", STATS)
    states = dict(line.split() for line in stats.splitlines())
    assert states == dict.fromkeys(("p1-1", "w1-1", "w2-1"), "UP")


STATS = """
import csv, socket
with socket.socket(socket.AF_UNIX) as s:
    s.connect("/run/haproxy/admin.sock")
    s.sendall(b"show stat\\n")
    text = b"".join(iter(lambda: s.recv(65536), b"")).decode()
for row in csv.DictReader(text.lstrip("# ").splitlines()):
    if row["pxname"] == "hub" and row["svname"] != "BACKEND":
        print(row["svname"], row["status"])
"""


def inner(cluster: Cluster) -> list[str]:
    """Return every address that only the hub's own hosts may reach."""
    hosts = cluster.inventory.hosts.values()
    web = [f"{host.private}:8421" for host in hosts if host.web]
    worker = [f"{host.private}:8420" for host in hosts if host.worker]
    return [f"{cluster.inventory.primary.private}:5432", *web, *worker]


@pytest.fixture
def routed(cluster: Cluster) -> Iterator[None]:
    """Give a neighbour on the network, who sends what is for private addresses to the hosts' cables."""
    hosts = list(cluster.inventory.hosts.values())
    for host in hosts:
        cluster.labctl("net", "--", "ip", "route", "add", f"{host.private}/32", "via", host.address)
    yield
    for host in hosts:
        cluster.labctl("net", "--", "ip", "route", "del", f"{host.private}/32")


@pytest.mark.usefixtures("routed")
def test_what_is_private_is_reached_through_the_tunnel_alone(cluster: Cluster) -> None:
    inside = cluster.on(cluster.inventory.hosts["k2"], "python3", "-I", "-c", REACH, *inner(cluster))
    assert inside.splitlines() == inner(cluster), "through the tunnel all of it answers"
    public = [
        f"{host.address}:{port}"
        for host in cluster.inventory.hosts.values()
        for port in (5432, 8420, 8421, 2049, 111)
    ]
    outside = cluster.labctl("net", "--", "python3", "-I", "-c", REACH, *inner(cluster), *public)
    assert outside == ""


@pytest.mark.usefixtures("routed")
def test_a_neighbour_who_takes_a_private_address_is_not_heard(cluster: Cluster) -> None:
    cluster.labctl("net", "--", "ip", "address", "add", "10.98.0.77/32", "dev", "lo")
    try:
        bound = REACH.replace("timeout=2", "timeout=2, source_address=('10.98.0.77', 0)")
        primary = cluster.inventory.primary
        said = cluster.labctl(
            "net", "--", "python3", "-I", "-c", bound, f"{primary.private}:5432", f"{primary.address}:22"
        )
        assert said == ""
    finally:
        cluster.labctl("net", "--", "ip", "address", "del", "10.98.0.77/32", "dev", "lo")


def test_the_shared_directory_is_the_hubs_own_and_its_locks_were_proved(cluster: Cluster) -> None:
    for host in cluster.inventory.hosts.values():
        assert cluster.on(host, "stat", "--format=%U %a", LOG) == "rota 700"
        kept = json.loads(cluster.on(host, "cat", "/etc/rota/shared-log.json"))
        assert kept["proved"] is True, kept


def test_flock_excludes_across_hosts(cluster: Cluster) -> None:
    held, other = cluster.inventory.hosts["w1"], cluster.inventory.hosts["w2"]
    lock = f"{LOG}/test.lock"
    as_rota = ("runuser", "--user", "rota", "--")
    cluster.on(
        held, "systemd-run", "--quiet", "--unit=hold-lock", "--uid=rota", "flock", lock, "sleep", "infinity"
    )
    try:
        busy = (*as_rota, "flock", "--nonblock", "--conflict-exit-code", "9", lock, "true")
        attempt = cluster.labctl.attempt
        wait_for(lambda: attempt("exec", other.name, "--", *busy).returncode == 9)
        cluster.on(held, "systemctl", "kill", "--signal=KILL", "hold-lock.service")
        wait_for(lambda: attempt("exec", other.name, "--", *busy).returncode == 0)
    finally:
        cluster.labctl.attempt("exec", held.name, "--", "systemctl", "stop", "hold-lock.service")
        cluster.on(other, "rm", "--force", lock)


def test_a_process_writes_to_a_shared_log_that_was_mounted_after_it_started(cluster: Cluster) -> None:
    late, other = cluster.inventory.hosts["w1"], cluster.inventory.hosts["k1"]
    mount, web = "srv-rota-tlog.mount", "rota-web@1.service"
    cluster.on(late, "systemctl", "stop", mount)
    cluster.on(late, "systemctl", "restart", "--job-mode=ignore-dependencies", web)
    cluster.on(late, "systemctl", "start", mount)
    pid = cluster.on(late, "systemctl", "show", "--property=MainPID", "--value", web)
    written = f"{LOG}/test.late"
    as_rota = ("runuser", "--user", "rota", "--", "touch", written)
    cluster.on(late, "nsenter", f"--target={pid}", "--mount", "--", *as_rota)
    try:
        assert cluster.on(other, "stat", "--format=%U", written) == "rota"
    finally:
        cluster.on(other, "rm", "--force", written)
    settle(cluster)


def test_a_run_of_one_host_changes_nothing_anywhere(cluster: Cluster, tmp_path: Path) -> None:
    before = peers(cluster)
    run = run_kit(tmp_path, "--limit=w2")
    assert run.code == 0, run.said[-4000:]
    assert run.changed == {"w2": 0}
    assert peers(cluster) == before


def peers(cluster: Cluster) -> dict[str, set[str]]:
    """Return the peers that each host's interface has."""
    return {
        host.name: set(cluster.on(host, "wg", "show", "rota0", "peers").split())
        for host in cluster.inventory.hosts.values()
    }


def test_a_new_host_alone_is_refused_since_the_others_must_learn_its_key(
    cluster: Cluster, tmp_path: Path
) -> None:
    keystore = Places.from_environment().lab(cluster.labctl.lab) / ".wireguard"
    key = keystore / "k2.pub"
    text = key.read_text()
    key.unlink()
    try:
        run = run_kit(tmp_path, "--limit=k2")
    finally:
        key.write_text(text)
    assert run.code == 2
    assert "has no key of k2" in run.said
    assert "run the playbook without --limit" in " ".join(run.said.split())
    assert set(run.changed.values()) == {0}


def test_a_host_that_is_off_is_named_before_anything_changes(cluster: Cluster, tmp_path: Path) -> None:
    cluster.labctl("stop", "w2")
    try:
        run = run_kit(tmp_path, "--extra-vars=web_memory_max=300M")
    finally:
        cluster.labctl("start", "w2")
        cluster.labctl("ready", "w2")
    assert run.code != 0
    assert "w2 cannot be reached, so nothing was changed anywhere" in " ".join(run.said.split())
    assert set(run.changed.values()) == {0}
    settle(cluster)


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_that_restarts_comes_back_by_itself(cluster: Cluster, name: str) -> None:
    cluster.labctl("reboot", name)
    settle(cluster)
    check_host(cluster, cluster.inventory.hosts[name])


def test_all_hosts_come_back_from_a_power_cut_at_once(cluster: Cluster) -> None:
    for name in HOSTS:
        cluster.labctl("kill", name)
    began = time.monotonic()
    for name in HOSTS:
        cluster.labctl("start", name)
    for name in HOSTS:
        cluster.labctl("ready", name)
    settle(cluster)
    print(f"\nfive hosts from power-on to a healthy cluster: {time.monotonic() - began:.1f} s")
    for host in cluster.inventory.hosts.values():
        check_host(cluster, host)


def check_host(cluster: Cluster, host: Host) -> None:
    """See that nothing failed, and that tunnel and shared directory are there again."""
    cluster.on(host, *TOOL, "health", "--wait", "30")
    wait_for(lambda: cluster.on(host, "stat", "--format=%U", LOG) == "rota", within=SETTLED)
    failed = cluster.on(host, "systemctl", "list-units", "--failed", "--no-legend", "--plain")
    assert failed == ""


def test_a_host_taken_out_of_the_inventory_loses_its_peer_everywhere(
    cluster: Cluster, tmp_path: Path
) -> None:
    inventory = yaml.safe_load(inventories()[-1].read_text())
    everyone = inventory["all"]
    everyone["vars"]["rota_hosts"] = [name for name in HOSTS if name != "k2"]
    everyone["children"]["hub"] = {"hosts": {name: {} for name in HOSTS if name != "k2"}}
    del everyone["children"]["worker"]["hosts"]["k2"]
    without = tmp_path / "inventory.yml"
    without.write_text(json.dumps(inventory))
    gone = cluster.on(cluster.inventory.hosts["k2"], "wg", "show", "rota0", "public-key")
    run = run_kit(tmp_path, instead=[*inventories()[:-1], without])
    assert run.code == 0, run.said[-4000:]
    left = peers(cluster)
    assert [name for name in HOSTS if name != "k2" and gone in left[name]] == []
    removed = cluster.inventory.hosts["k2"]
    others = [each for each in inner(cluster) if not each.startswith(f"{removed.private}:")]
    assert cluster.on(removed, "python3", "-I", "-c", REACH, *others) == "", (
        "the removed host reaches nothing"
    )
    back = run_kit(tmp_path)
    assert back.code == 0, back.said[-4000:]
    settle(cluster)
