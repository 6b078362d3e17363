"""What playbooks/wiring.yml works out of the inventory."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
WIRING = ROOT / "playbooks" / "wiring.yml"


def role_options() -> dict[str, dict[str, object]]:
    options: dict[str, dict[str, object]] = {}
    for path in ROOT.glob("roles/*/meta/argument_specs.yml"):
        options |= yaml.safe_load(path.read_text())["argument_specs"]["main"]["options"]
    return options


def test_it_repeats_the_default_of_the_role_that_has_it() -> None:
    stated = re.search(r"shared_log_directory \| default\('([^']+)'\)", WIRING.read_text())
    assert stated
    assert stated[1] == role_options()["shared_log_directory"]["default"]


def test_it_sets_what_the_roles_say_is_set_by_the_playbook_and_nothing_else() -> None:
    wired = {name for name in yaml.safe_load(WIRING.read_text()) if not name.startswith("hub_")}
    said = {
        name for name, option in role_options().items() if "Set by the playbook" in str(option["description"])
    }
    # The one network interface is no choice of the playbook's: it stands in the role's default.
    assert wired == said - {"base_private_interface"}


def test_no_set_is_written_in_an_order_that_differs_from_run_to_run() -> None:
    """Ansible's filters of sets give any order, and a file that holds it would change each time."""
    filters = "difference|intersect|union|symmetric_difference"
    sets = re.compile(rf"\| (?:{filters})\((?:[^()]|\([^()]*\))*\)(.{{0,9}})")
    texts = {
        path: path.read_text()
        for folder in ("playbooks", "roles")
        for pattern in ("*.yml", "*.j2")
        for path in (ROOT / folder).rglob(pattern)
    }
    found = [(path, after) for path, text in texts.items() for after in sets.findall(text)]
    assert len(found) > 3
    assert [each for each in found if not each[1].startswith((" | sort", " | first"))] == []
