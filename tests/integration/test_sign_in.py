"""Signing in and out: through the page, at a process that serves, and `rota admin` beside it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import access
from tests.support.postgres import free_port
from tests.support.process import ROTA, Hub, environment, run
from tests.support.raw import ask
from tests.support.tlog_files import entries_in
from tests.support.wait import wait_for

from rota.access.scopes import Scope
from rota.acts.act import Act, read_act

CROSS = "Sec-Fetch-Site: cross-site"
SECURE = ("X-Forwarded-Proto: https", "Sec-Fetch-Site: same-origin")


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {"ROTA_SERVER_DATA": str(tmp_path_factory.mktemp("hub") / "data"), "ROTA_LIMITS_SIGN_IN": "0"}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, environ: dict[str, str]) -> Iterator[Hub]:
    """Give a process with an administrator, somebody who reads, and nobody else."""
    process = Hub.start(tmp_path_factory.mktemp("log") / "log", environ, port=free_port()).wait()
    access.account(environ, "root", Scope.ADMIN)
    access.account(environ, "reader", Scope.HUB_READ)
    yield process
    process.kill()


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """Give a process that lets nobody ask for much."""
    environ = {
        "ROTA_SERVER_DATA": str(tmp_path_factory.mktemp("narrow") / "data"),
        "ROTA_LIMITS_SIGN_IN": "3",
        "ROTA_LIMITS_STRANGER": "1",
    }
    process = Hub.start(tmp_path_factory.mktemp("log") / "log", environ, port=free_port()).wait()
    access.account(environ, "root", Scope.ADMIN)
    yield process
    process.kill()


def acts(environ: dict[str, str]) -> list[Act]:
    """Return every act in the log."""
    return [read_act(entry) for entry in entries_in(Path(environ["ROTA_SERVER_DATA"]) / "tlog")]


def test_who_is_not_signed_in_is_led_to_the_page_and_back(port: int) -> None:
    led = ask(port, "GET", "/?x=1", "Accept: text/html")
    assert (led.status, led.headers["location"]) == (303, "/sign-in?to=%2F%3Fx%3D1")
    page = ask(port, "GET", led.headers["location"])
    assert '<input type="hidden" name="to" value="/?x=1">' in page.text
    assert 'value="/"' in ask(port, "GET", "/sign-in?to=//evil.example").text
    assert ask(port, "GET", "/sign-in?what=x").status == 400


def test_a_program_is_told_what_to_do_instead(port: int) -> None:
    refused = ask(port, "GET", "/")
    assert refused.status == 401
    assert refused.headers["www-authenticate"] == 'Bearer realm="rota"'


def test_a_session_begins_with_the_password_and_ends_when_it_is_told_to(port: int) -> None:
    came = access.sign_in(port, "reader", access.PASSWORD)
    assert (came.status, came.headers["location"]) == (303, "/")
    sent = came.headers["set-cookie"]
    assert set(sent.split("; ")[1:]) == {"HttpOnly", "Max-Age=34560000", "Path=/", "SameSite=Lax"}
    cookie = f"Cookie: {sent.partition(';')[0]}"
    assert "This process does its work." in ask(port, "GET", "/", cookie).text
    assert ask(port, "POST", "/sign-out", cookie, CROSS, "Content-Length: 0").status == 403
    assert ask(port, "GET", "/", cookie).status == 200
    gone = access.send_form(port, "/sign-out", {}, cookie)
    assert (gone.status, gone.headers["location"]) == (303, "/sign-in")
    assert "expires=Thu, 01 Jan 1970" in gone.headers["set-cookie"]
    assert ask(port, "GET", "/", cookie).status == 401


def test_behind_the_proxy_the_cookie_is_for_https_alone(port: int) -> None:
    came = access.sign_in(port, "reader", access.PASSWORD, *SECURE)
    sent = came.headers["set-cookie"]
    assert sent.startswith("__Host-rota-session=")
    assert "Secure" in sent.split("; ")
    cookie = f"Cookie: {sent.partition(';')[0]}"
    assert ask(port, "GET", "/", cookie, SECURE[0]).status == 200
    assert ask(port, "GET", "/", cookie).status == 401, "over http it is not looked at"


@pytest.mark.parametrize(
    ("name", "password"),
    [("reader", "wrong"), ("nobody", access.PASSWORD), ("reader\0", "x"), ("", ""), ("'; --", "x" * 5000)],
)
def test_a_wrong_name_and_a_wrong_password_look_the_same(port: int, name: str, password: str) -> None:
    refused = access.sign_in(port, name, password)
    assert refused.status == 403
    assert "set-cookie" not in refused.headers
    assert "The name or the password is wrong." in refused.text
    assert refused.text == access.sign_in(port, "root", "wrong").text


def test_a_disabled_account_is_as_good_as_none(port: int, environ: dict[str, str]) -> None:
    access.account(environ, "gone", Scope.ADMIN)
    assert access.sign_in(port, "gone", access.PASSWORD).status == 303
    assert run(["admin", "disable", "gone"], environ).stdout == "gone is disabled.\n"
    assert access.sign_in(port, "gone", access.PASSWORD).status == 403
    assert run(["admin", "enable", "gone"], environ).returncode == 0
    assert access.sign_in(port, "gone", access.PASSWORD).status == 303


def test_another_site_signs_nobody_in(port: int) -> None:
    for headers in ((CROSS,), ("Sec-Fetch-Site: same-site",)):
        refused = access.sign_in(port, "reader", access.PASSWORD, *headers)
        assert refused.status == 403
        assert "set-cookie" not in refused.headers
    assert ask(port, "POST", "/sign-in", "Content-Length: 0").status == 403, "nobody says where it comes from"


@pytest.mark.parametrize("header", ["X-Forwarded-User: root", "X-Hub-User: root", "Remote-User: root"])
def test_no_header_says_who_one_is(port: int, header: str) -> None:
    assert ask(port, "GET", "/", header, "X-Forwarded-Proto: https").status == 401


@pytest.mark.parametrize(
    "authorisation", ["Basic cm9vdDpyb290", "Bearer", "Bearer ", "Bearer rota_x", "Bearer \xff", "bearer a b"]
)
def test_what_is_no_token_counts_for_nothing_even_beside_a_good_cookie(
    port: int, environ: dict[str, str], authorisation: str
) -> None:
    cookie = access.session(environ, Scope.HUB_READ)
    assert ask(port, "GET", "/", cookie).status == 200
    assert ask(port, "GET", "/", cookie, f"Authorization: {authorisation}").status == 401


def test_sign_ins_of_administrators_are_acts_and_no_others(port: int, environ: dict[str, str]) -> None:
    before = [act for act in acts(environ) if act.kind == "session.begin"]
    assert access.sign_in(port, "reader", access.PASSWORD).status == 303
    assert access.sign_in(port, "root", "wrong").status == 403
    assert access.sign_in(port, "root", access.PASSWORD).status == 303
    (act,) = [act for act in acts(environ) if act.kind == "session.begin"][len(before) :]
    assert (act.kind, act.actor, act.subject, act.details) == (
        "session.begin",
        "account:root",
        "account:root",
        {},
    )


class TestLimits:
    def test_passwords_cannot_be_tried_for_long(self, narrow: Hub) -> None:
        port = narrow.port or 0
        assert [access.sign_in(port, "root", "wrong").status for _ in range(4)] == [403, 403, 403, 429]
        refused = access.sign_in(port, "root", access.PASSWORD)
        assert refused.status == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 20
        assert "Try again in" in refused.text
        assert access.sign_in(port, "nobody", "wrong").status == 403, "another name has tries of its own"
        door = "X-Forwarded-For: 192.0.2.9"
        elsewhere = [access.sign_in(port, f"name{number}", "wrong", door).status for number in range(10)]
        assert elsewhere == [403] * 9 + [429], "an address has three times as many"

    def test_strangers_ask_so_much_and_the_proxy_as_often_as_it_likes(self, narrow: Hub) -> None:
        port = narrow.port or 0
        stranger = "X-Forwarded-For: 192.0.2.77"
        asked = [ask(port, "GET", "/version", stranger).status for _ in range(25)]
        assert asked[:20] == [200] * 20
        assert asked[-1] == 429
        assert ask(port, "GET", "/version", "X-Forwarded-For: 192.0.2.78").status == 200
        assert {ask(port, "GET", path, stranger).status for path in ("/health", "/health/process") * 20} == {
            200
        }


class TestAdmin:
    def give(self, environ: dict[str, str], *argv: str, password: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*ROTA, "admin", *argv, "--password-stdin"],
            env=environment(environ),
            input=password + "\n",
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def test_the_first_administrator_is_made_on_the_host(self, port: int, environ: dict[str, str]) -> None:
        made = self.give(environ, "create", "grace", password="a good password")
        assert (made.returncode, made.stdout) == (0, "grace is an administrator.\n")
        assert access.sign_in(port, "grace", "a good password").status == 303
        again = self.give(environ, "create", "grace", password="a good password")
        assert again.returncode == 1
        assert again.stderr == "rota: There is an account grace already. Choose another name.\n"
        made_acts = ("account:grace", "account.create")
        wait_for(lambda: any((act.subject, act.kind) == made_acts for act in acts(environ)))
        act = next(act for act in acts(environ) if (act.subject, act.kind) == made_acts)
        assert (act.actor, act.details) == ("operator on the host", {"scopes": ["admin"]})

    @pytest.mark.parametrize(
        ("name", "password"), [("Grace", "a good password"), ("short", "short"), ("e", "")]
    )
    def test_a_bad_name_and_a_bad_password_are_refused(
        self, environ: dict[str, str], name: str, password: str
    ) -> None:
        refused = self.give(environ, "create", name, password=password)
        assert refused.returncode == 1
        assert "Traceback" not in refused.stderr
        assert not password or password not in refused.stderr.replace(name, "")

    def test_a_new_password_signs_the_old_sessions_out(self, port: int, environ: dict[str, str]) -> None:
        number = access.account(environ, "alan", Scope.HUB_READ)
        bearer = access.bearer(environ, Scope.HUB_READ)
        cookie = access.session(environ, account=number)
        assert ask(port, "GET", "/", cookie).status == 200
        changed = self.give(environ, "password", "alan", password="another password")
        assert changed.stdout == "alan has a new password.\n"
        assert ask(port, "GET", "/", cookie).status == 401
        assert ask(port, "GET", "/", bearer).status == 200
        assert access.sign_in(port, "alan", "another password").status == 303
        unknown = self.give(environ, "password", "nobody", password="another password")
        assert "There is no account nobody." in unknown.stderr

    def test_the_list_shows_who_there_is(self, environ: dict[str, str], tmp_path: Path) -> None:
        listed = run(["admin", "list"], environ).stdout.splitlines()
        assert "reader good hub:read" in [" ".join(line.split()) for line in listed]
        nobody = {"ROTA_SERVER_DATA": str(tmp_path / "fresh")}
        assert run(["migrate"], nobody).returncode == 0
        fresh = run(["admin", "list"], nobody)
        assert "No account yet: `rota admin create NAME`" in fresh.stdout
