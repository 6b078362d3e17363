"""The kit's own rules, over every task of every playbook and Ansible role."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import rota

ROOT = Path(__file__).parents[2]
OURS = {path.stem for kind in ("modules", "action") for path in (ROOT / "plugins" / kind).glob("*.py")}
KEYWORDS = {
    *(
        "always",
        "any_errors_fatal",
        "become",
        "block",
        "changed_when",
        "check_mode",
        "delay",
        "delegate_to",
        "diff",
    ),
    *(
        "environment",
        "failed_when",
        "ignore_errors",
        "ignore_unreachable",
        "loop",
        "loop_control",
        "name",
        "no_log",
        "notify",
        "register",
    ),
    *("rescue", "retries", "run_once", "tags", "timeout", "until", "vars", "when"),
}
SHELLS = {"shell", "raw", "expect"}
FILES = sorted(
    path
    for top in (
        "roles/*/tasks",
        "roles/*/handlers",
        "playbooks",
        "playbooks/tasks",
        "molecule/*",
        "molecule/*/tasks",
    )
    for path in ROOT.glob(f"{top}/*.yml")
)


def tasks(node: Any) -> Iterator[dict[str, Any]]:
    """Give every task of a file, those in plays and blocks included."""
    for each in node if isinstance(node, list) else []:
        inner = [
            each[key]
            for key in ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always")
            if key in each
        ]
        if not inner and "hosts" not in each and not any("import_playbook" in key for key in each):
            yield each
        for part in inner:
            yield from tasks(part)


def read(path: Path) -> list[dict[str, Any]]:
    return list(tasks(yaml.safe_load(path.read_text())))


def modules(task: dict[str, Any]) -> set[str]:
    return set(task) - KEYWORDS


def test_there_is_something_to_look_at() -> None:
    assert len(FILES) > 10
    assert sum(len(read(path)) for path in FILES) > 60


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_task_uses_one_module_that_is_builtin_or_ours_and_no_shell(path: Path) -> None:
    for task in read(path):
        (module,) = modules(task)
        assert module in OURS or module.startswith("ansible.builtin."), task
        assert module.split(".")[-1] not in SHELLS, task


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_command_is_a_list_of_words(path: Path) -> None:
    for task in read(path):
        if "ansible.builtin.command" in task:
            assert "argv" in task["ansible.builtin.command"], task


def test_an_ansible_role_names_only_its_own_variables() -> None:
    names = sorted(path.name for path in (ROOT / "roles").iterdir())
    for role in names:
        others = "|".join(name for name in names if name != role)
        foreign = re.compile(rf"(?<![\w/.@-])_?_?(?:{others})_[a-z_]+\b(?!:$)")
        for path in sorted((ROOT / "roles" / role).rglob("*")):
            if path.suffix not in (".yml", ".j2") or path.parent.name == "meta":
                continue
            found = set(foreign.findall(path.read_text())) - OURS
            assert not found, (path, found)


def test_the_single_inventory_names_one_host_once() -> None:
    inventory = yaml.safe_load((ROOT / "inventories" / "single" / "hosts.yml").read_text())
    assert [len(group["hosts"]) for group in inventory.values() if "hosts" in group] == [1]
    assert set(inventory) == {"hub", "primary", "web", "worker"}
    assert all(inventory[name] == {"children": {"hub": {}}} for name in ("primary", "web", "worker"))


def test_the_secret_tasks_are_hidden_by_one_switch_of_their_role() -> None:
    hidden = [
        task for path in sorted(FILES) if "roles" in path.parts for task in read(path) if "no_log" in task
    ]
    assert [(task["name"], task["no_log"], task["diff"]) for task in hidden] == [
        ("Write the credentials", "{{ rota_no_log }}", False),
        (
            "Read the hub's own secrets on its primary, and make those that are missing",
            "{{ rota_no_log }}",
            False,
        ),
        ("Have the primary await it", "{{ server_no_log }}", False),
        ("Give it the invitation", "{{ server_no_log }}", False),
    ]


def test_ansible_cfg_passes_arguments_on_standard_input() -> None:
    assert re.search(r"^pipelining = true$", (ROOT / "ansible.cfg").read_text(), re.MULTILINE)


def test_the_collection_has_the_programs_version() -> None:
    assert yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"] == rota.__version__
