"""rota_certificate keeps one certificate that serves, and says why another cannot."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from plugins.modules import rota_certificate as certificate
from tests.kit.modules import Capture, run

NAME = "rota.example.org"
LONG = f"{'a' * 60}.{'b' * 60}.{'c' * 60}.example.org"


def issue(name: str, days: int = 400, subject: str = "/CN=Somebody") -> str:
    """Return a certificate as an authority gives it, and its key."""
    argv = [
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
        *("-days", str(days), "-subj", subject, "-addext", f"subjectAltName=DNS:{name}"),
        *("-keyout", "/dev/stdout", "-out", "/dev/stdout"),
    ]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def keep(path: Path, capture: Capture, name: str = NAME, **more: Any) -> dict[str, Any]:
    return run(certificate.main, capture, {"path": str(path), "name": name, **more})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rota" / "hub.pem"


@pytest.mark.parametrize("name", [NAME, LONG, "192.0.2.7"])
def test_one_is_made_once(path: Path, capsys: Capture, name: str) -> None:
    made = keep(path, capsys, name)
    assert (made["changed"], made["reason"]) == (True, "there is none")
    text = path.read_text()
    found = certificate.read(text, name)
    assert (found.names_it, found.key_fits) == (True, True)
    assert found.ends > datetime.now(UTC) + timedelta(days=3600)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert [entry.name for entry in path.parent.iterdir()] == ["hub.pem"]
    assert not keep(path, capsys, name)["changed"]
    assert path.read_text() == text


def test_the_key_is_in_no_answer(path: Path, capsys: Capture) -> None:
    given = issue(NAME)
    for answer in (keep(path, capsys), keep(path, capsys, pem=given)):
        assert "PRIVATE" not in str(answer)


def test_it_is_made_anew_for_another_name(path: Path, capsys: Capture) -> None:
    keep(path, capsys)
    again = keep(path, capsys, "other.example.org")
    assert again["reason"] == "the one that is there is not for other.example.org"
    assert certificate.read(path.read_text(), "other.example.org").names_it


def test_it_is_made_anew_before_it_ends(path: Path) -> None:
    soon = issue(NAME, days=certificate.SOON - 1, subject=f"/CN={certificate.OURS}")
    assert "ends on" in certificate.stale(soon, NAME, datetime.now(UTC))
    later = issue(NAME, days=certificate.SOON + 2, subject=f"/CN={certificate.OURS}")
    assert certificate.stale(later, NAME, datetime.now(UTC)) == ""
    assert not path.exists()


def test_it_is_made_anew_when_others_could_read_it(path: Path, capsys: Capture) -> None:
    keep(path, capsys)
    old = path.read_text()
    path.chmod(0o644)
    assert keep(path, capsys)["reason"] == "others than root could read it"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text() != old


@pytest.mark.parametrize("damaged", [b"not a certificate", b"\xff\xfe\x00"])
def test_what_cannot_be_read_is_replaced(path: Path, capsys: Capture, damaged: bytes) -> None:
    keep(path, capsys)
    path.write_bytes(damaged)
    assert keep(path, capsys)["reason"] == "what is there cannot be read"


def test_the_one_that_is_given_is_kept_and_leaves_with_its_variable(path: Path, capsys: Capture) -> None:
    keep(path, capsys)
    given = issue(NAME)
    assert keep(path, capsys, pem=given)["reason"] == "another one is given"
    assert path.read_text() == given
    assert not keep(path, capsys, pem=given)["changed"]
    assert keep(path, capsys)["reason"].startswith("the one that is there was given")


def test_the_end_of_one_that_is_given_is_warned_of(
    path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    # Where a warning goes depends on whether Ansible's own side is loaded too, as it is beside other tests.
    monkeypatch.setattr(
        "ansible.module_utils.basic.AnsibleModule.warn", lambda _self, text: said.append(text)
    )
    assert keep(path, capsys, pem=issue(NAME, days=10))["changed"]
    (warning,) = said
    assert f"The certificate for {NAME} ends on " in warning


def wrong() -> dict[str, tuple[str, str]]:
    """Give what cannot serve, and a word of why."""
    one, other = issue(NAME), issue(NAME)
    parts = {part: one[one.index(f"-----BEGIN {part}") :] for part in ("CERTIFICATE", "PRIVATE KEY")}
    parts["PRIVATE KEY"] = parts["PRIVATE KEY"].partition("-----BEGIN CERTIFICATE")[0]
    return {
        "no PEM": ("text", "as PEM"),
        "no key": (parts["CERTIFICATE"], "as PEM"),
        "no certificate": (parts["PRIVATE KEY"], "as PEM"),
        "another's key": (parts["PRIVATE KEY"] + other[other.index("-----BEGIN CERT") :], "not the key"),
        "another's name": (issue("other.example.org"), f"not for {NAME}"),
    }


def test_what_cannot_serve_is_refused_and_what_is_there_stays(path: Path, capsys: Capture) -> None:
    keep(path, capsys)
    before = path.read_text()
    for what, (pem, word) in wrong().items():
        answer = keep(path, capsys, pem=pem)
        assert answer.get("failed"), what
        assert word in answer["msg"], (what, answer["msg"])
        assert path.read_text() == before


def test_one_that_has_ended_is_refused() -> None:
    with pytest.raises(certificate.Refused, match="It ended on"):
        certificate.given(issue(NAME, days=10), NAME, datetime.now(UTC) + timedelta(days=11))


def test_check_mode_foretells_and_does_nothing(
    path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keep(path, capsys, _ansible_check_mode=True)["changed"]
    assert not path.exists()
    keep(path, capsys)
    assert not keep(path, capsys, _ansible_check_mode=True)["changed"]
    # On a bare host openssl comes with the run.
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert not keep(path, capsys, _ansible_check_mode=True).get("failed")
    assert "install the package openssl" in keep(path, capsys)["msg"]
