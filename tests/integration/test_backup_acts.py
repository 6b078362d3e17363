"""A backup is an act: it is in the log once its maker has recorded it, by whomever it was made."""

from pathlib import Path

from tests.support.postgres import free_port
from tests.support.process import Hub, run
from tests.support.tlog_files import entries_in
from tests.support.wait import wait_for

from rota.acts.act import read_act


def test_backups_made_and_removed_are_in_the_log(tmp_path: Path, hubs: list[Hub]) -> None:
    data = tmp_path / "data"
    environ = {"ROTA_SERVER_DATA": str(data), "ROTA_BACKUPS_KEEP": "1", "ROTA_BACKUPS_SCHEDULE": ""}
    assert run(["migrate"], environ).returncode == 0
    first = run(["backup", "now"], environ).stdout.split()[0]
    hub = Hub.start(tmp_path / "log", {**environ, "ROTA_BACKUPS_SCHEDULE": "00:00"}, port=free_port())
    hubs.append(hub)
    wait_for(lambda: len(entries_in(data / "tlog")) == 3, 20)
    wait_for(lambda: hub.health()["tlog"] == {"reachable": True, "size": 3, "published": 3})
    acts = [read_act(entry) for entry in entries_in(data / "tlog")]
    kinds = [(act.kind, act.actor) for act in acts]
    assert kinds == [
        ("backup.make", "operator on the host"),
        ("backup.make", "backups.scheduler"),
        ("backup.remove", "backups.scheduler"),
    ]
    assert acts[0].subject == acts[2].subject == Path(first).name
    assert set(acts[1].details) == {"size", "blake3"}
