"""What the lab needs on this machine."""

import pytest

from lab import packages, recipe
from lab.errors import LabError


def test_all_that_the_lab_needs_is_installed() -> None:
    assert packages.missing() == []
    assert packages.install() == []


def test_what_is_missing_is_named_and_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "CONTROLLER", ("apt", "rota-lab-is-no-package"))
    assert packages.missing() == ["rota-lab-is-no-package"]
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(LabError, match="run this as root"):
        packages.install()
