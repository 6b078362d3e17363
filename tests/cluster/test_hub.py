"""Several processes on several hosts act as one hub: events, webhooks, the log, and what each fault leaves.

The tests stand in an order: a fault strikes, and then what was shown before is shown again.
"""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.cluster.cluster import Cluster, unsettled
from tests.cluster.desk import SEEN, Desk, await_entry, entries, published
from tests.cluster.hooks import SLOW, Hook, read_hooks
from tests.cluster.inventory import ROOT, Host
from tests.support.wait import wait_for

PORT = 8700
RECEIVER = "10.78.0.1"  # the lab's switch, which webhooks may be sent to in these scenarios
LOG = "/srv/rota/tlog"
WITHIN_A_SECOND = 1.0
RECOVERED = 5.0  # seconds, while the processes find the database again one by one
SETTLED = 60.0
SECOND = 1_000_000_000  # nanoseconds
ACTS = 8  # that a slow receiver is told of while its sender is killed
WRITER = (ROOT / "tests" / "support" / "tlog_writer.py").read_text()
UNIT = "rota-trial.service"
FROZEN = (0.3, 6.0)  # seconds: within a writer's turn, and beyond the longest


@dataclass
class Figures:
    """What was measured, to be printed at the end."""

    lines: list[str] = field(default_factory=list)

    def note(self, what: str, seconds: float) -> None:
        """Keep one."""
        self.lines.append(f"{what:<62} {seconds:6.3f} s")


@pytest.fixture(scope="module")
def figures() -> Iterator[Figures]:
    """Give a place for figures."""
    kept = Figures()
    yield kept
    print("\n\nOne hub of many processes")
    print(*kept.lines, sep="\n")


@pytest.fixture(scope="module")
def desk(cluster: Cluster) -> Desk:
    """Give an operator who is signed in."""
    wait_for(lambda: not unsettled(cluster.health()), SETTLED)
    return Desk(cluster)


class Receiver:
    """The program that takes webhooks, and what it took so far."""

    def __init__(self, cluster: Cluster, file: Path) -> None:
        self._file = file
        self._process = cluster.beside("tests.cluster.hooks", RECEIVER, str(PORT), str(file))
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def hooks(self, path: str) -> list[Hook]:
        """Return what came to a path."""
        return [hook for hook in read_hooks(self._file.read_text()) if hook.path == path]

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate(timeout=10)


@pytest.fixture(scope="module")
def receiver(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    """Give a receiver on the lab's network."""
    file = tmp_path_factory.mktemp("hooks") / "hooks"
    file.touch()
    started = Receiver(cluster, file)
    yield started
    started.stop()


@contextmanager
def told(desk: Desk, path: str) -> Iterator[None]:
    """Subscribe a path of the receiver to tokens that are made, for the length of the block."""
    host = desk.cluster.inventory.primary
    made = desk.call(
        host, "POST", "/api/webhooks", {"url": f"http://{RECEIVER}:{PORT}{path}", "kinds": ["token.create"]}
    )
    assert made.status == 201, made
    try:
        yield
    finally:
        gone = desk.call(host, "DELETE", f"/api/webhooks/{made.document['webhook']['id']}")
    assert gone.status == 204, gone


def webs(cluster: Cluster) -> list[Host]:
    """Return the hosts that have a web process and are not the primary, then the primary."""
    hosts = [host for host in cluster.inventory.hosts.values() if host.web]
    return sorted(hosts, key=lambda host: host == cluster.inventory.primary)


def subjects(hooks: list[Hook]) -> dict[str, list[Hook]]:
    """Return the webhooks by the subject of their act."""
    found: dict[str, list[Hook]] = {}
    for hook in hooks:
        found.setdefault(hook.body["data"]["subject"], []).append(hook)
    return found


def naming(log: list[str], name: str) -> list[int]:
    """Return the indices of the entries that name a token."""
    return [index for index, entry in enumerate(log) if name in entry]


def show_an_act(desk: Desk, figures: Figures, when: str, promise: float = WITHIN_A_SECOND) -> None:
    """Act through one web host; see it on the other's stream, and in the log that both serve."""
    one, other, *_ = webs(desk.cluster)
    with desk.follow(other, "acts") as stream:
        name, made = desk.act(one)
        seen = stream.until("token.create")
    (index,) = naming(entries(desk.cluster, other, LOG), name)
    assert await_entry(desk, one, index) == await_entry(desk, other, index)
    assert published(desk, one)[0] > index
    figures.note(f"{when}: an act through {one.name} on a stream of {other.name}", (seen - made.at) / SECOND)
    assert (seen - made.at) / SECOND <= promise


def show_a_webhook(desk: Desk, receiver: Receiver, figures: Figures, when: str) -> None:
    """Act through a web host; a worker tells the receiver of it within a second, once."""
    cluster = desk.cluster
    one, *_ = webs(cluster)
    path = f"/quick-{time.monotonic_ns()}"
    with told(desk, path):
        wait_for(lambda: not unsettled(cluster.health()), SETTLED)
        name, made = desk.act(one)
        hook = wait_for(lambda: next(iter(receiver.hooks(path)), None), SEEN)
        assert hook is not None
    assert name in json.dumps(hook.body)
    senders = {host.address for host in cluster.inventory.hosts.values() if host.worker}
    assert hook.peer in senders
    figures.note(f"{when}: a webhook of an act through {one.name}", (hook.at - made.at) / SECOND)
    assert (hook.at - made.at) / SECOND <= WITHIN_A_SECOND
    assert len(receiver.hooks(path)) == 1


def test_an_act_through_one_web_host_is_seen_through_the_other(desk: Desk, figures: Figures) -> None:
    show_an_act(desk, figures, "at rest")


def test_a_webhook_of_an_act_comes_from_a_worker_within_a_second(
    desk: Desk, receiver: Receiver, figures: Figures
) -> None:
    show_a_webhook(desk, receiver, figures, "at rest")


def test_the_sender_of_webhooks_is_killed_mid_delivery_and_nothing_is_lost(
    desk: Desk, receiver: Receiver, figures: Figures
) -> None:
    cluster = desk.cluster
    one, *_ = webs(cluster)
    path = f"/slow-{time.monotonic_ns()}"
    with told(desk, path):
        holder = cluster.holder("hooks.worker")
        names = [desk.act(one)[0] for _ in range(ACTS)]
        under_way = wait_for(lambda: just_come(receiver.hooks(path)), SEEN)
        at = cluster.strike(holder.host, holder.pid, signal.SIGKILL)
        assert at - under_way < SLOW * SECOND, "it was not mid-delivery"

        def all_told() -> bool:
            said = json.dumps([hook.body for hook in receiver.hooks(path)])
            return all(name in said for name in names)

        wait_for(all_told, SEEN * 3)
        figures.note(f"{ACTS} webhooks told after a kill of their sender", time.time() - at / SECOND)
        wait_for(lambda: not unsettled(cluster.health()), SETTLED)
    for hooks in subjects(receiver.hooks(path)).values():
        assert len({hook.id for hook in hooks}) == 1, "a delivery has one id, however often it is tried"


def just_come(hooks: list[Hook]) -> int:
    """Return when the newest came, if that is hardly ago; else 0."""
    newest = max((hook.at for hook in hooks), default=0)
    return newest if time.time_ns() - newest < SECOND // 2 else 0


@contextmanager
def acting(desk: Desk, made: list[str]) -> Iterator[None]:
    """Keep clients acting through the proxy for the length of the block; note what was answered."""
    cluster = desk.cluster
    name = cluster.inventory.variables["haproxy_hub_name"]
    address = cluster.inventory.primary.address
    with cluster.meanwhile("tests.cluster.acting", address, name, ROTA_TOKEN=desk.token) as said:
        yield
    tally = json.loads(said[0])
    assert tally["failed"] == []
    made += tally["made"]


def test_each_web_host_is_restarted_and_no_request_fails_and_the_log_does_not_fork(
    desk: Desk, figures: Figures
) -> None:
    cluster = desk.cluster
    made: list[str] = []
    began = time.monotonic()
    with acting(desk, made):
        for host in webs(cluster):
            cluster.on(host, "systemctl", "restart", "rota-web@1.service")
            wait_for(lambda: not unsettled(cluster.health()), SETTLED)
    figures.note(f"{len(made)} acts through the proxy, each web host restarted", time.monotonic() - began)
    found = [entries(cluster, host, LOG) for host in webs(cluster)]
    assert found[0] == found[1] == found[2]
    assert len({json.loads(entry)["id"] for entry in found[0]}) == len(found[0]), "an act stands twice"
    told = "\n".join(found[0])
    assert [name for name in made if told.count(name) != 1] == []
    assert made
    whole = len(found[0])
    wait_for(lambda: min(published(desk, host)[0] for host in webs(cluster)) >= whole, SEEN)
    checked = {cluster.on(host, "rota", "tlog", "fsck").partition(";")[0] for host in webs(cluster)}
    assert len(checked) == 1, checked


def test_every_promise_holds_after_a_restart_of_postgresql(
    desk: Desk, receiver: Receiver, figures: Figures
) -> None:
    cluster = desk.cluster
    cluster.on(cluster.inventory.primary, "systemctl", "restart", "--no-block", "postgresql.service")
    began = cluster.postgresql_began
    before = time.time_ns()
    wait_for(lambda: restarted(began, before), SETTLED)
    wait_for(lambda: not unsettled(cluster.health()), SETTLED)
    show_an_act(desk, figures, "PostgreSQL just restarted", RECOVERED)
    show_an_act(desk, figures, "PostgreSQL restarted")
    show_a_webhook(desk, receiver, figures, "PostgreSQL restarted")


def restarted(began: object, before: int) -> bool:
    """Return whether PostgreSQL takes connections again, and has since begun anew."""
    try:
        return callable(began) and int(began()) > before - 5 * SECOND
    except AssertionError:
        return False


def test_two_hosts_append_at_full_speed_while_one_is_frozen_and_thawed(cluster: Cluster) -> None:
    hosts = webs(cluster)[:2]
    trial = f"{LOG}/trial"
    for host in hosts:
        cluster.on(host, *_writer(host, trial))
    try:
        for host in hosts:
            wait_for(lambda host=host: answered(cluster, host) > 5, SEEN)  # type: ignore[misc]
        frozen = hosts[0]
        for seconds in FROZEN:
            before = answered(cluster, frozen)
            cluster.on(frozen, "systemctl", "kill", "--signal=STOP", UNIT)
            thaw = time.monotonic() + seconds
            wait_for(lambda thaw=thaw: time.monotonic() > thaw, seconds + 5)  # type: ignore[misc]
            cluster.on(frozen, "systemctl", "kill", "--signal=CONT", UNIT)
            wait_for(lambda before=before: answered(cluster, frozen) > before + 5, 30)  # type: ignore[misc]
    finally:
        for host in hosts:
            cluster.on(host, "systemctl", "stop", UNIT)
    found = entries(cluster, hosts[0], trial)
    assert found == entries(cluster, hosts[1], trial)
    for host in hosts:
        for line in cluster.on(host, "cat", acknowledged(host)).splitlines():
            index, _, name = line.partition(" ")
            assert found[int(index)] == name, f"{line!r} was answered"
        cluster.on(host, "rm", acknowledged(host))
    assert len(set(found)) == len(found), "an entry stands twice"
    cluster.on(hosts[0], "rm", "--recursive", trial)


def acknowledged(host: Host) -> str:
    """Return the file where a writer notes what it was answered."""
    return f"/var/lib/rota/trial-{host.name}"


def _writer(host: Host, directory: str) -> list[str]:
    """Return what starts a writer on a host, as a unit of its own."""
    return [
        *("systemd-run", "--quiet", f"--unit={UNIT}", "--property=User=rota"),
        *("/opt/rota/current/bin/python", "-c", WRITER),
        *(directory, acknowledged(host), host.name, "100000", "3"),
    ]


def answered(cluster: Cluster, host: Host) -> int:
    """Return how many entries a writer was answered for."""
    # The file is there once the writer has begun.
    path = Path(acknowledged(host))
    found = ["find", str(path.parent), "-maxdepth", "1", "-name", path.name]
    counted = cluster.on(host, *found, "-exec", "wc", "--lines", "{}", "+").split()
    return int(counted[0]) if counted else 0
