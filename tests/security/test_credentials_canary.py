"""Passwords, cookies and tokens are found nowhere but with whoever holds them."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import access
from tests.support.postgres import free_port
from tests.support.process import ROTA, Hub, environment
from tests.support.raw import ask

from rota.access.scopes import Scope

FIRST, SECOND, WRONG = "canary first words", "canary second words", "canary that is wrong"
NEW = {"name": "ci", "scopes": ["hub:read"], "days": None}


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    data = tmp_path_factory.mktemp("hub") / "data"
    return {"ROTA_SERVER_DATA": str(data), "ROTA_SERVER_LOG_LEVEL": "debug", "ROTA_LIMITS_SIGN_IN": "0"}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, environ: dict[str, str]) -> Iterator[Hub]:
    process = Hub.start(tmp_path_factory.mktemp("log") / "log", environ, port=free_port()).wait()
    yield process
    process.kill()


@pytest.fixture(scope="module")
def secrets(hub: Hub, environ: dict[str, str]) -> list[str]:
    """Use everything that there is to sign in with, well and badly; return every secret that was used."""
    port = hub.port or 0
    made = subprocess.run(
        [*ROTA, "admin", "create", "ada", "--password-stdin"],
        env=environment(environ),
        input=FIRST + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert FIRST not in made.stdout + made.stderr
    for name, password in (("ada", WRONG), (FIRST, WRONG), ("ada", "")):
        assert access.sign_in(port, name, password).status == 403
    came = access.sign_in(port, "ada", FIRST)
    cookie = came.headers["set-cookie"].partition(";")[0]
    token = access.send_json(
        port, "POST", "/api/login", {"name": "ada", "password": FIRST, "token_name": "laptop"}
    ).text.partition('"token":"')[2][:-2]
    bearer = f"Authorization: Bearer {token}"
    other = access.send_json(port, "POST", "/api/tokens", NEW, bearer).text.partition('"token":"')[2][:-2]
    assert access.send_json(port, "POST", "/api/tokens", NEW, bearer).status == 409
    form = {"old": FIRST, "new": SECOND}
    assert access.send_form(port, "/api/me/password", form, f"Cookie: {cookie}").status == 303
    account = {"name": "grace", "password": SECOND, "scopes": [Scope.HUB_READ]}
    assert access.send_json(port, "POST", "/api/accounts", account, bearer).status == 201
    for path in ("/", f"/{other}?token={other}", "/api/me"):
        ask(port, "GET", path, f"Authorization: Bearer {other}", f"Cookie: {cookie}")
    for damaged in (f"Bearer {other}x", f"Basic {other}", other):
        assert ask(port, "GET", "/api/me", f"Authorization: {damaged}").status == 401
    assert other.startswith("rota_")
    assert token.startswith("rota_")
    return [FIRST, SECOND, WRONG, cookie.partition("=")[2], token, other]


def test_logging_holds_none(hub: Hub, secrets: list[str]) -> None:
    said = hub.output()
    assert "sign-in refused" in said
    assert "act" in said
    assert [secret for secret in secrets if secret in said] == []


def test_nothing_that_the_hub_keeps_holds_one(environ: dict[str, str], secrets: list[str]) -> None:
    """Neither the database nor the transparency log: of all of them there are hashes, and names."""
    files = [path for path in Path(environ["ROTA_SERVER_DATA"]).rglob("*") if path.is_file()]
    assert any(path.name.startswith("rota.db") for path in files)
    kept = {path: path.read_bytes() for path in files}
    assert any(b"token:ada/laptop" in data for data in kept.values()), "the acts are among them"
    assert any(b"$argon2id$" in data for data in kept.values()), "and the hashes"
    assert [
        (path, secret) for path, data in kept.items() for secret in secrets if secret.encode() in data
    ] == []


def test_no_page_shows_one_again(hub: Hub, secrets: list[str]) -> None:
    for path in ("/", "/tokens", "/settings", "/api/tokens", "/api/accounts", "/api/me", "/sign-in"):
        answer = ask(hub.port or 0, "GET", path, f"Authorization: Bearer {secrets[4]}")
        assert answer.status == 200
        assert [secret for secret in secrets if secret in answer.text + str(answer.headers)] == []
