"""What an Ansible role takes is what its argument_specs say, and what the reference tells."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tools import variables

ROOT = Path(__file__).parents[2]
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir())


def options(role: str) -> dict[str, dict[str, Any]]:
    spec = yaml.safe_load((ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text())
    return dict(spec["argument_specs"]["main"]["options"])


def defaults(role: str) -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "roles" / role / "defaults" / "main.yml").read_text()))


def test_every_role_is_told() -> None:
    assert sorted(variables.ROLES) == ROLES


@pytest.mark.parametrize("role", ROLES)
def test_specs_and_defaults_have_the_same_names_in_the_same_order(role: str) -> None:
    assert list(options(role)) == list(defaults(role))


@pytest.mark.parametrize("role", ROLES)
def test_every_variable_begins_with_its_role(role: str) -> None:
    inner = yaml.safe_load((ROOT / "roles" / role / "vars" / "main.yml").read_text())
    assert all(name.startswith(f"{role}_") for name in options(role))
    assert all(name.startswith(f"_{role}_") for name in inner)


@pytest.mark.parametrize("role", ROLES)
def test_the_stated_default_is_the_real_one(role: str) -> None:
    real = defaults(role)
    for name, option in options(role).items():
        computed = isinstance(real[name], str) and "{{" in real[name]
        assert option.get("default", "computed") == ("computed" if computed else real[name]), name


def test_the_reference_is_current() -> None:
    assert variables.PAGE.read_text() == variables.page(), "run: python tools/variables.py"
