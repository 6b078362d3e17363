"""The counting callback counts results of a role's modules on the host, and nothing else."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from plugins.callback import rota_count


def result(
    action: str = "rota_files",
    *,
    role: str | None = "web",
    loop: list[object] | None = None,
    delegate_to: str | None = None,
    host: str = "h1",
    **answer: Any,
) -> SimpleNamespace:
    named = SimpleNamespace(get_name=lambda: role) if role else None
    task = SimpleNamespace(action=action, _role=named, loop=loop, delegate_to=delegate_to)
    return SimpleNamespace(_task=task, _host=SimpleNamespace(get_name=lambda: host), _result=answer)


@pytest.fixture
def callback() -> rota_count.CallbackModule:
    return rota_count.CallbackModule()


@pytest.mark.parametrize(
    ("seen", "counted"),
    [
        (result(), 1),
        (result("ansible.builtin.apt"), 1),
        (result("ansible.builtin.assert"), 0),
        (result("ansible.builtin.validate_argument_spec"), 0),
        (result("rota_wheelhouse", delegate_to="localhost"), 0),
        (result(role=None), 0),
        (result(loop=[1, 2, 3], results=[{}, {"skipped": True}, {}]), 2),
    ],
)
def test_what_counts(callback: rota_count.CallbackModule, seen: SimpleNamespace, counted: int) -> None:
    callback.v2_runner_on_ok(seen)
    assert callback.executed["h1", "web"] == counted


def test_the_count_is_appended_for_each_host(
    callback: rota_count.CallbackModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "counts.jsonl"
    monkeypatch.setenv("ROTA_COUNT_FILE", str(target))
    said: list[str] = []
    monkeypatch.setattr(callback, "_display", SimpleNamespace(display=said.append))
    for host in ("h1", "h1", "h2"):
        callback.v2_runner_on_ok(result(host=host))
    callback.v2_runner_on_failed(result(host="h2", role="base"))
    stats = SimpleNamespace(processed={"h1": 1, "h2": 1}, summarize=lambda _: {"changed": 0, "failures": 0})
    callback.playbook = "site.yml"
    callback.v2_playbook_on_stats(stats)
    line = json.loads(target.read_text())
    assert (line["playbook"], line["check"]) == ("site.yml", False)
    assert line["hosts"]["h1"] == {"executed": {"web": 2}, "changed": 0, "failures": 0}
    assert line["hosts"]["h2"]["executed"] == {"base": 1, "web": 1}
    assert said == ["executions on one host: base 1, web 2"]
