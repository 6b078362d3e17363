"""rota_service restarts by state: whatever run changed the files, the unit ends up running them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from plugins.modules import rota_service as service
from tests.kit.modules import Capture, run

WEB = service.Unit("web@1.service", "web@1.socket", probe="http://127.0.0.1:1/health")
RUNNING = {"release": "a", "settings": "b", "socket": "c"}


def seen(**changes: Any) -> service.Seen:
    settled = service.Seen(
        active=True,
        socket_active=True,
        enabled=True,
        running=dict(RUNNING),
        on_disk=dict(RUNNING),
        intact=True,
    )
    return settled._replace(**changes)


@pytest.mark.parametrize(
    ("changes", "stale", "steps"),
    [
        ({}, set(), []),
        (
            {"on_disk": {**RUNNING, "release": "z"}},
            set(),
            [("restart", "what it started with has changed since: release")],
        ),
        (
            {"on_disk": {"release": "y", "settings": "z", "socket": "c"}},
            set(),
            [("restart", "what it started with has changed since: release, settings")],
        ),
        (
            {"on_disk": {**RUNNING, "socket": "z"}},
            set(),
            [("rebind", "what it started with has changed since: socket")],
        ),
        ({"running": {}}, set(), [("rebind", "it left no record")]),
        ({"socket_active": False}, set(), [("rebind", "its socket is not listening")]),
        ({"intact": False}, set(), [("restart", "what it set up is gone")]),
        ({"enabled": False}, set(), [("enable", "not enabled")]),
        ({"active": False}, set(), [("start", "not running")]),
        (
            {"active": False, "enabled": False, "running": {}},
            set(),
            [("enable", "not enabled"), ("start", "not running")],
        ),
        ({}, {"web@1.service"}, [("restart", "what it started with has changed since: unit")]),
        ({}, {"web@1.socket"}, [("rebind", "what it started with has changed since: socket")]),
        ({}, {"rota.slice"}, []),
    ],
)
def test_the_plan(changes: dict[str, Any], stale: set[str], steps: list[tuple[str, str]]) -> None:
    assert service.plan(WEB, seen(**changes), stale) == steps


@pytest.mark.parametrize(
    ("running", "verb"),
    [
        ({"peers": "old", "unit": "u"}, "reload"),
        ({"peers": "p", "unit": "old"}, "restart"),
        ({"peers": "old", "unit": "old"}, "restart"),
        ({}, "restart"),
    ],
)
def test_a_part_that_a_reload_takes_in_does_not_restart_the_unit(running: dict[str, str], verb: str) -> None:
    unit = service.Unit("tunnel.service", reload=["peers"])
    now = service.Seen(
        active=True,
        socket_active=True,
        enabled=True,
        running=running,
        on_disk={"peers": "p", "unit": "u"},
        intact=True,
    )
    assert [step for step, _ in service.plan(unit, now, set())] == [verb]


def test_a_unit_that_systemd_holds_from_an_older_file_is_restarted_and_not_reloaded() -> None:
    unit = service.Unit("tunnel.service", reload=["peers"])
    assert [step for step, _ in service.plan(unit, seen(), {"tunnel.service"})] == ["restart"]


def test_a_check_of_a_bare_host_does_not_end_at_a_program_that_is_not_there_yet() -> None:
    assert not service.Systemd().succeeds(["/no/such/program", "show"])
    assert service.Systemd().succeeds(["true"])


def test_a_unit_without_a_socket_is_restarted_whatever_changed() -> None:
    unit = service.Unit("worker.service")
    assert service.plan(unit, seen(running={}), set()) == [("restart", "it left no record")]


def test_the_socket_stays_open_in_a_restart() -> None:
    touched = [
        name
        for command in service.commands("restart", WEB)
        for name in command[1:]
        if command[0] != "reset-failed"
    ]
    assert touched == ["web@1.service"]


def test_a_first_drop_in_is_seen_where_systemd_does_not_see_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(service, "UNIT_FILES", str(tmp_path))
    shown = {"NeedDaemonReload": "no", "DropInPaths": "/usr/lib/systemd/system/web.service.d/a.conf"}
    assert not service.outdated("web.service", shown)
    drop_in = tmp_path / "web.service.d" / "rota.conf"
    drop_in.parent.mkdir()
    drop_in.write_text("[Service]\n")
    assert service.outdated("web.service", shown)
    assert not service.outdated("web.service", {**shown, "DropInPaths": f"/a.conf {drop_in}"})
    assert service.outdated("web.service", {"NeedDaemonReload": "yes", "DropInPaths": str(drop_in)})


class FakeSystemd(service.Systemd):
    """Units in memory; `refuse` names one that does not start."""

    def __init__(self, units: dict[str, str], refuse: str = "") -> None:
        self.units, self.refuse, self.asked = units, refuse, []
        self.lives = 0

    asked: list[str]

    def run(self, *argv: str) -> str:
        if argv[0] == "journalctl":
            return "the last line\n"
        return json.dumps({})

    def control(self, *arguments: str) -> str:
        verb, *names = arguments
        if verb == "show":
            return ""
        self.asked.append(" ".join(arguments))
        if verb in ("start", "restart") and self.refuse in names:
            raise subprocess.CalledProcessError(1, ["systemctl", *arguments], stderr="Job failed.")
        for name in names:
            self.units[name] = {"stop": "inactive"}.get(verb, "active")
        return ""

    def show(self, names: list[str]) -> dict[str, dict[str, str]]:
        shown = {}
        for name in names:
            self.lives += 1
            shown[name] = {
                "ActiveState": self.units.get(name, "inactive"),
                "UnitFileState": "enabled",
                "NeedDaemonReload": "no",
                "InvocationID": str(self.lives),
            }
        return shown

    def known(self, patterns: list[str]) -> set[str]:
        return set(self.units) if patterns else set()


def answers(monkeypatch: pytest.MonkeyPatch, *given: tuple[int, str]) -> None:
    left = list(given)
    monkeypatch.setattr(service, "ask", lambda _: left.pop(0) if len(left) > 1 else left[0])
    monkeypatch.setattr(service, "PAUSE", 0)


def use(monkeypatch: pytest.MonkeyPatch, systemd: FakeSystemd) -> FakeSystemd:
    monkeypatch.setattr(service, "Systemd", lambda: systemd)
    return systemd


WEB_ARGUMENT = {"name": WEB.name, "socket": WEB.socket, "probe": WEB.probe}


def test_a_start_is_proved_by_the_probe(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    systemd = use(monkeypatch, FakeSystemd({}))
    answers(monkeypatch, (0, "refused"), (503, "not yet"), (200, "ok"))
    answer = run(service.main, capsys, {"units": [WEB_ARGUMENT]})
    assert answer["actions"] == ["start web@1.service: not running"]
    assert systemd.asked == [
        "reset-failed web@1.socket web@1.service",
        "start web@1.socket",
        "start web@1.service",
    ]


def test_the_next_unit_is_not_touched_when_one_is_not_healthy(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    systemd = use(monkeypatch, FakeSystemd({}))
    answers(monkeypatch, (503, '{"reason": "database: no route"}'))
    second = {"name": "web@2.service", "socket": "web@2.socket", "probe": WEB.probe}
    answer = run(service.main, capsys, {"units": [WEB_ARGUMENT, second], "timeout": 0})
    assert answer["failed"] is True
    assert "web@1.service is active" in answer["msg"]
    assert "database: no route" in answer["msg"]
    assert answer["msg"].endswith("the last line")
    assert not any("web@2" in asked for asked in systemd.asked)


def test_a_unit_that_keeps_stopping_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, (503, "starting"))
    systemd = FakeSystemd({"web@1.service": "activating"})
    with pytest.raises(service.Failed, match="answers 503: starting"):
        service.wait_healthy(systemd, WEB, timeout=1e9)
    assert systemd.lives == service.LIVES + 1


def test_a_refused_start_says_why(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    use(monkeypatch, FakeSystemd({}, refuse="web@1.service"))
    answer = run(service.main, capsys, {"units": [WEB_ARGUMENT]})
    assert answer["msg"] == "systemctl start web@1.service: Job failed.\nIts last lines:\nthe last line"


def test_surplus_units_are_stopped_and_leave_the_boot(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    monkeypatch.setattr(service, "UNIT_FILES", str(tmp_path))
    wants = tmp_path / "multi-user.target.wants"
    wants.mkdir()
    for n in (1, 2):
        (wants / f"web@{n}.service").symlink_to("/nowhere")
    (tmp_path / "sockets.target.wants").mkdir()
    (tmp_path / "sockets.target.wants" / "web@2.socket").symlink_to("/nowhere")
    units = {name: "active" for n in (1, 2) for name in (f"web@{n}.service", f"web@{n}.socket")}
    systemd = use(monkeypatch, FakeSystemd(units))
    answers(monkeypatch, (200, "ok"))
    answer = run(service.main, capsys, {"units": [WEB_ARGUMENT], "only": ["web@*"]})
    assert answer["actions"] == [
        "retire web@2.service: not wanted here",
        "retire web@2.socket: not wanted here",
    ]
    assert systemd.asked == ["stop web@2.service web@2.socket", "daemon-reload"]
    left = [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))]
    assert left == ["multi-user.target.wants", "multi-user.target.wants/web@1.service"]


def test_check_mode_foretells_and_does_nothing(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    systemd = use(monkeypatch, FakeSystemd({}))
    answer = run(service.main, capsys, {"units": [WEB_ARGUMENT], "_ansible_check_mode": True})
    assert answer["actions"] == ["start web@1.service: not running"]
    assert systemd.asked == []


def test_a_settled_unit_must_still_be_healthy(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    use(monkeypatch, FakeSystemd({"web@1.service": "active", "web@1.socket": "active"}))
    answers(monkeypatch, (503, "sick"))
    assert run(service.main, capsys, {"units": [WEB_ARGUMENT], "timeout": 0})["failed"] is True
