"""Faults strike the leaders of two singleton tasks, on real hosts. Who acted when, a receiver tells.

Each fault hits the process, the session or the host that the database shows for the lock connection. The
times are the program's promises, from the moment of the fault to the moment at which the kernel took in the
next leader's first act.
"""

import signal
from collections.abc import Iterator

import pytest
from tests.cluster.cluster import Cluster, Holder
from tests.cluster.history import broken, refused
from tests.cluster.inventory import Host
from tests.cluster.trial import Receiver, Trial
from tests.support.wait import wait_for

WORKER, WEB = "failover.probe", "failover.web"

GRACEFUL, KILLED, FREED, FROZEN, RECOVERED = 1.0, 3.0, 8.5, 11.0, 5.0  # seconds, promised


@pytest.fixture(scope="module")
def trial(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """Give the cluster with a receiver that hears it; print every figure at the end."""
    receiver = Receiver(cluster, tmp_path_factory.mktemp("receiver") / "history")
    trial = Trial(cluster, receiver)
    yield trial
    acts = receiver.history()
    receiver.stop()
    print("\n\nTakeovers")
    print(*trial.figures, sep="\n")
    late = sum(not act.accepted for act in acts)
    print(f"{len(acts)} acts under {len({(act.task, act.pair) for act in acts})} epochs, {late} refused")


@pytest.mark.parametrize("task", [WORKER, WEB])
def test_a_service_that_stops_is_taken_over_at_once(trial: Trial, task: str) -> None:
    def stop(holder: Holder) -> int:
        arbiter = trial.cluster.parent(holder.host, holder.pid)
        return trial.cluster.strike(holder.host, arbiter, signal.SIGTERM)

    trial.strike(task, f"SIGTERM to the service of {task}", GRACEFUL, stop)


@pytest.mark.parametrize("task", [WORKER, WEB])
def test_a_killed_leader_is_taken_over(trial: Trial, task: str) -> None:
    trial.strike(
        task,
        f"kill -9 of the leader of {task}",
        KILLED,
        lambda holder: trial.cluster.strike(holder.host, holder.pid, signal.SIGKILL),
    )


def test_a_killed_arbiter_takes_its_leader_down_with_it(trial: Trial) -> None:
    def kill(holder: Holder) -> int:
        arbiter = trial.cluster.parent(holder.host, holder.pid)
        return trial.cluster.strike(holder.host, arbiter, signal.SIGKILL)

    trial.strike(WEB, "kill -9 of the leader's arbiter", KILLED, kill)


def test_a_leader_whose_backend_is_terminated_is_replaced(trial: Trial) -> None:
    trial.strike(
        WORKER,
        "the lock's backend terminated",
        KILLED,
        lambda holder: trial.cluster.terminate(holder.backend),
    )


def test_a_frozen_leader_is_taken_over_and_refused_when_it_wakes(trial: Trial) -> None:
    cluster = trial.cluster
    holder, act = trial.leader(WORKER, but=cluster.inventory.primary)
    watch = cluster.watch(holder)
    at = cluster.strike(holder.host, holder.pid, signal.SIGSTOP)
    following = trial.successor(act)
    frozen = f"{holder.host.name}/worker"
    trial.settle(but=frozen)
    woken = cluster.strike(holder.host, holder.pid, signal.SIGCONT)
    late = wait_for(lambda: refused(trial.receiver.history(), act))
    assert all(one.at > woken for one in late)
    trial.settle()
    assert cluster.health()[frozen]["leading"] == []
    assert cluster.holder(WORKER).name == following.holder
    trial.note("SIGSTOP: freed by the server", at, watch.freed(), FREED)
    trial.note("SIGSTOP: taken over", at, following.at, FROZEN)


def test_a_leader_that_is_cut_off_has_stopped_before_another_begins(trial: Trial) -> None:
    cluster = trial.cluster
    holder, act = trial.leader(WORKER, but=cluster.inventory.primary)
    watch = cluster.watch(holder)
    at = cluster.labctl_at("cut", holder.host)
    stopped = leads_nothing(cluster, holder.host)
    following = trial.successor(act)
    at = max(at, trial.heard(act))  # what came through came before the cut
    cluster.labctl("heal", holder.host.name)
    assert stopped < following.at
    trial.settle()
    assert cluster.holder(WORKER).name == following.holder
    trial.note("host cut off: freed by the server", at, watch.freed(), FREED)
    trial.note("host cut off: taken over", at, following.at, FROZEN)


def leads_nothing(cluster: Cluster, host: Host) -> int:
    """Return when the worker of a host that nobody else reaches was seen to lead nothing."""

    def idle() -> int:
        at, said = cluster.own_health(host)
        return 0 if said[f"{host.name}/worker"]["leading"] else at

    return wait_for(idle, within=FROZEN)


def test_a_leader_whose_host_loses_its_power_is_taken_over(trial: Trial) -> None:
    cluster = trial.cluster
    holder, act = trial.leader(WORKER, but=cluster.inventory.primary)
    watch = cluster.watch(holder)
    at = cluster.labctl_at("kill", holder.host)
    following = trial.successor(act)
    at = max(at, trial.heard(act))
    cluster.labctl("start", holder.host.name)
    cluster.labctl("ready", holder.host.name)
    trial.settle()
    trial.note("host powered off: freed by the server", at, watch.freed(), FREED)
    trial.note("host powered off: taken over", at, following.at, FROZEN)


def test_everything_recovers_when_postgresql_has_restarted(trial: Trial) -> None:
    cluster = trial.cluster
    acts = [trial.leader(task)[1] for task in (WORKER, WEB)]
    # Debian's unit counts as started seconds after the server takes connections.
    cluster.on(cluster.inventory.primary, "systemctl", "restart", "--no-block", "postgresql.service")
    led = max(trial.successor(act).at for act in acts)
    whole = trial.settle()
    back = cluster.postgresql_began()
    trial.note("PostgreSQL restarted: led again", back, led, RECOVERED)
    trial.note("PostgreSQL restarted: every process well, every task led", back, whole, RECOVERED)


def test_no_rule_was_broken_in_all_this(trial: Trial) -> None:
    acts = trial.receiver.history()
    assert broken(acts) == []
    assert {act.task for act in acts} == {WORKER, WEB}
    assert any(not act.accepted for act in acts), "nothing was refused: the rules were not put to the test"
