"""Tokens and accounts over the API and on their pages, and the commands that use it."""

import json
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support import access
from tests.support.postgres import free_port
from tests.support.process import ROTA, Hub, environment
from tests.support.raw import Answer, ask
from tests.support.tlog_files import entries_in

from rota.access.scopes import Scope
from rota.acts.act import Act, read_act

NO_BODY = "Content-Length: 0"


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {"ROTA_SERVER_DATA": str(tmp_path_factory.mktemp("hub") / "data")}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, environ: dict[str, str]) -> Iterator[Hub]:
    """Give a process with an administrator and somebody who reads."""
    process = Hub.start(tmp_path_factory.mktemp("log") / "log", environ, port=free_port()).wait()
    access.account(environ, "root", Scope.ADMIN)
    access.account(environ, "reader", Scope.HUB_READ, Scope.QUEUE_READ)
    yield process
    process.kill()


@pytest.fixture(scope="module")
def admin(hub: Hub, environ: dict[str, str]) -> str:
    """Give the header of an administrator's token."""
    assert hub.process.poll() is None
    return access.bearer(environ, Scope.ADMIN)


def said(answer: Answer, status: int = 200) -> Any:
    """Return the document of an answer with this status."""
    assert answer.status == status, answer.text
    return json.loads(answer.body) if answer.body else None


def acts(environ: Mapping[str, str], kind: str) -> list[Act]:
    """Return every act of a kind in the log."""
    found = [read_act(entry) for entry in entries_in(Path(environ["ROTA_SERVER_DATA"]) / "tlog")]
    return [act for act in found if act.kind == kind]


def login(port: int, name: str, token_name: str, password: str = access.PASSWORD) -> Answer:
    """Get a token by a password."""
    return access.send_json(
        port, "POST", "/api/login", {"name": name, "password": password, "token_name": token_name}
    )


class TestApi:
    def test_a_password_gives_a_token_that_may_what_the_account_may(
        self, port: int, environ: dict[str, str]
    ) -> None:
        made = said(login(port, "reader", "laptop"), 201)
        assert made["scopes"] == ["hub:read", "queue:read"]
        me = said(ask(port, "GET", "/api/me", f"Authorization: Bearer {made['token']}"))
        assert me == {"account": "reader", "by": "token", "token": made["id"], "scopes": made["scopes"]}
        act = acts(environ, "token.create")[-1]
        assert (act.actor, act.subject) == ("account:reader", "token:reader/laptop")
        assert act.details == {"scopes": ["hub:read", "queue:read"], "days": None}
        assert said(login(port, "reader", "laptop"), 409)["title"] == "Conflict"
        assert said(login(port, "reader", "other", "wrong"), 403) == said(login(port, "nobody", "other"), 403)

    def test_a_token_makes_others_that_may_no_more_than_it(self, port: int, environ: dict[str, str]) -> None:
        reader = access.bearer(environ, Scope.HUB_READ)
        new = {"name": "ci", "scopes": ["hub:read"], "days": 7}
        made = said(access.send_json(port, "POST", "/api/tokens", new, reader), 201)
        (first, second) = said(ask(port, "GET", "/api/tokens", reader))
        assert (first["id"], first["state"], first["name"]) == (made["id"], "good", "ci")
        assert "token" not in first
        assert first["expires_at"][:10] > first["created_at"][:10]
        assert second["expires_at"] is None
        greedy = {"name": "ci2", "scopes": ["hub:read", "queue:read", "admin"], "days": None}
        refused = said(access.send_json(port, "POST", "/api/tokens", greedy, reader), 400)
        assert "scopes that you have not: admin queue:read" in refused["detail"]

    def test_one_that_is_revoked_is_good_no_longer(self, port: int, environ: dict[str, str]) -> None:
        reader = access.bearer(environ, Scope.HUB_READ)
        me = said(ask(port, "GET", "/api/me", reader))
        other = access.bearer(environ, Scope.HUB_READ)
        assert ask(port, "DELETE", f"/api/tokens/{me['token']}", other).status == 404
        assert ask(port, "DELETE", f"/api/tokens/{me['token']}", reader).status == 204
        assert ask(port, "GET", "/api/me", reader).status == 401
        act = acts(environ, "token.revoke")[-1]
        assert act.actor == act.subject, "it revoked itself"

    def test_a_token_that_may_little_does_not_end_one_that_may_more(
        self, port: int, environ: dict[str, str]
    ) -> None:
        access.account(environ, "owner", Scope.HUB_READ, Scope.QUEUE_WRITE)
        more = said(login(port, "owner", "more"), 201)
        big = f"Authorization: Bearer {more['token']}"
        new = {"name": "less", "scopes": ["hub:read"]}
        less = said(access.send_json(port, "POST", "/api/tokens", new, big), 201)
        small = f"Authorization: Bearer {less['token']}"
        refused = said(ask(port, "DELETE", f"/api/tokens/{more['id']}", small), 403)
        assert "scopes which this one has not: queue:write" in refused["detail"]
        assert ask(port, "GET", "/api/me", big).status == 200
        assert ask(port, "DELETE", f"/api/tokens/{less['id']}", big).status == 204

    def test_an_administrator_sees_and_revokes_everybodys(
        self, port: int, environ: dict[str, str], admin: str
    ) -> None:
        reader = access.bearer(environ, Scope.HUB_READ)
        assert said(ask(port, "GET", "/api/tokens?of=all", reader), 403)["title"] == "Not allowed"
        number = said(ask(port, "GET", "/api/me", reader))["token"]
        assert number in [each["id"] for each in said(ask(port, "GET", "/api/tokens?of=all", admin))]
        assert ask(port, "DELETE", f"/api/tokens/{number}", admin).status == 204
        before = len(acts(environ, "token.revoke"))
        assert ask(port, "DELETE", f"/api/tokens/{number}", admin).status == 204
        assert len(acts(environ, "token.revoke")) == before, "there was nothing to do"

    @pytest.mark.parametrize(
        "number", ["0", "-1", "9007199254740992", "99999999999999999999999", "1x", "", "9007199254740991"]
    )
    def test_a_number_that_no_token_has_is_not_found(self, port: int, admin: str, number: str) -> None:
        assert ask(port, "DELETE", f"/api/tokens/{number}", admin).status == 404

    @pytest.mark.parametrize(
        "document",
        [
            {},
            {"name": "x"},
            {"name": "x", "scopes": ["hub:reed"]},
            {"name": "x", "scopes": "hub:read"},
            {"name": "\0", "scopes": []},
            {"name": "x", "scopes": [], "days": 0},
            {"name": "x", "scopes": [], "days": 10**12},
            {"name": "x", "scopes": [], "admin": True},
            [],
        ],
    )
    def test_what_is_no_token_is_refused(self, port: int, admin: str, document: object) -> None:
        assert said(access.send_json(port, "POST", "/api/tokens", document, admin), 400)["remedy"]

    def test_accounts_are_made_and_changed(self, port: int, environ: dict[str, str], admin: str) -> None:
        new = {"name": "grace", "password": "a good password", "scopes": ["hub:read"]}
        made = said(access.send_json(port, "POST", "/api/accounts", new, admin), 201)
        assert (made["name"], made["scopes"], made["disabled"]) == ("grace", ["hub:read"], False)
        assert access.send_json(port, "POST", "/api/accounts", new, admin).status == 409
        assert access.sign_in(port, "grace", "a good password").status == 303
        for change, status in (
            ({"disabled": True}, 403),
            ({"disabled": False, "password": "another good one"}, 303),
        ):
            assert (
                said(access.send_json(port, "PATCH", "/api/accounts/grace", change, admin))["name"] == "grace"
            )
            assert access.sign_in(port, "grace", "another good one").status == status
        assert said(access.send_json(port, "PATCH", "/api/accounts/grace", {}, admin), 400)
        assert said(access.send_json(port, "PATCH", "/api/accounts/nobody", {"disabled": True}, admin), 404)
        assert [act.details for act in acts(environ, "account.change")] == [
            {"disabled": True},
            {"disabled": False, "password": "changed"},
        ]
        assert "grace" in [each["name"] for each in said(ask(port, "GET", "/api/accounts", admin))]

    def test_the_settings_are_shown_without_their_secrets(self, port: int, admin: str) -> None:
        assert said(ask(port, "GET", "/api/settings", admin))["server.metrics_token"] == "[unset]"


class TestPages:
    @pytest.fixture
    def cookie(self, hub: Hub, environ: dict[str, str]) -> str:
        """Give the cookie of an administrator's browser."""
        assert hub.process.poll() is None
        return access.session(environ, Scope.ADMIN)

    def test_the_secret_is_shown_once(self, port: int, cookie: str) -> None:
        form = {"name": "from the page", "scopes": "hub:read", "days": "3"}
        made = access.send_form(port, "/api/tokens", form, cookie)
        assert made.status == 201
        assert made.headers["content-type"] == "text/html; charset=utf-8"
        secret = made.text.partition("<pre>rota_")[2].partition("</pre>")[0]
        assert ask(port, "GET", "/", f"Authorization: Bearer rota_{secret}").status == 200
        page = ask(port, "GET", "/tokens", cookie)
        assert "from the page" in page.text
        assert secret not in page.text

    def test_a_form_in_which_nothing_is_ticked_says_so(self, port: int, cookie: str) -> None:
        page = ask(port, "GET", "/tokens", cookie).text
        assert '<input type="hidden" name="scopes" value="">' in page
        form = {"name": "idle", "scopes": "", "days": "3"}
        refused = access.send_form(port, "/api/tokens", form, cookie)
        assert refused.status == 400
        assert "Tick what it may do." in refused.text

    def test_a_form_revokes_and_leads_back(self, port: int, cookie: str, environ: dict[str, str]) -> None:
        reader = access.bearer(environ, Scope.HUB_READ)
        number = said(ask(port, "GET", "/api/me", reader))["token"]
        path = f"/api/tokens/{number}/revoke"
        assert ask(port, "POST", path, cookie, NO_BODY).status == 403, "from nowhere"
        gone = access.send_form(port, path, {}, cookie)
        assert (gone.status, gone.headers["location"]) == (303, "/tokens")
        assert ask(port, "GET", "/api/me", reader).status == 401

    def test_forms_make_and_change_accounts(self, port: int, cookie: str) -> None:
        form = {"name": "alan", "password": "a good password", "scopes": "queue:read"}
        assert access.send_form(port, "/api/accounts", form, cookie).headers["location"] == "/settings"
        page = ask(port, "GET", "/settings", cookie).text
        assert '<form method="post" action="/api/accounts/alan">' in page
        assert 'value="queue:read" checked' in page
        assert "<dt>database.url</dt><dd>sqlite:</dd>" in page
        unticked = access.send_form(port, "/api/accounts/alan", {"scopes": ""}, cookie)
        assert unticked.headers["location"] == "/settings"
        accounts = {each["name"]: each for each in said(ask(port, "GET", "/api/accounts", cookie))}
        assert accounts["alan"]["scopes"] == []
        changed = access.send_form(port, "/api/accounts/alan", {"disabled": "true"}, cookie)
        assert changed.headers["location"] == "/settings"
        assert '<span class="tag bad">disabled</span>' in ask(port, "GET", "/settings", cookie).text

    def test_one_changes_ones_own_password_with_the_old_one(self, port: int, environ: dict[str, str]) -> None:
        number = access.account(environ, "changer", Scope.HUB_READ)
        here, there = (access.session(environ, account=number) for _ in range(2))
        wrong = access.send_form(port, "/api/me/password", {"old": "x", "new": "a better password"}, here)
        assert wrong.status == 403
        form = {"old": access.PASSWORD, "new": "a better password"}
        assert access.send_form(port, "/api/me/password", form, here).headers["location"] == "/tokens"
        assert (ask(port, "GET", "/", here).status, ask(port, "GET", "/", there).status) == (200, 401)
        assert access.sign_in(port, "changer", "a better password").status == 303
        assert acts(environ, "account.password")[-1].actor == "account:changer"


class TestCommands:
    @pytest.fixture
    def user(self, hub: Hub, tmp_path: Path) -> dict[str, str]:
        """Give the environment of a user of the commands."""
        return {"XDG_CONFIG_HOME": str(tmp_path), "ROTA_URL": f"http://127.0.0.1:{hub.port}"}

    def rota(
        self, user: Mapping[str, str], *argv: str, given: str = "", code: int = 0
    ) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [*ROTA, *argv],
            env=environment(user),
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done

    def test_from_login_to_logout(self, user: dict[str, str], tmp_path: Path) -> None:
        url = user.pop("ROTA_URL")
        assert "run `rota login`" in self.rota(user | {"ROTA_URL": url}, "token", "list", code=1).stderr
        argv = ("login", url, "--name", "root", "--password-stdin")
        assert "password is wrong" in self.rota(user, *argv, given="wrong\n", code=1).stderr
        assert "root is signed in" in self.rota(user, *argv, given=access.PASSWORD + "\n").stdout
        file = tmp_path / "rota" / "contexts.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert [path.name for path in file.parent.iterdir()] == [file.name]
        made = self.rota(user, "token", "create", "ci", "--scope", "hub:read", "--days", "1")
        number = made.stderr.split()[1].rstrip(",")
        listed = self.rota(user, "token", "list", "--all").stdout
        assert f"{number}  root/ci" in listed
        assert "root/login at " in listed
        other = user | {"XDG_CONFIG_HOME": str(tmp_path / "other")}
        assert (
            "root is signed in" in self.rota(other, "login", url, "--token-stdin", given=made.stdout).stdout
        )
        self.rota(other, "logout")
        assert self.rota(user | {"ROTA_TOKEN": made.stdout.strip()}, "token", "list").returncode == 0
        assert self.rota(user, "token", "revoke", number).stdout == f"Token {number} is revoked.\n"
        assert (
            "not signed in"
            in self.rota(user | {"ROTA_TOKEN": made.stdout.strip()}, "token", "list", code=1).stderr
        )
        (kept,) = json.loads(file.read_text())["contexts"].values()
        self.rota(user, "logout")
        assert not file.exists()
        revoked = self.rota(user | {"ROTA_URL": url, "ROTA_TOKEN": kept["token"]}, "token", "list", code=1)
        assert "not signed in" in revoked.stderr
        assert self.rota(user, "logout").stdout == "Not signed in.\n"

    def test_a_file_that_is_damaged_is_named(self, user: dict[str, str], tmp_path: Path) -> None:
        (tmp_path / "rota").mkdir()
        (tmp_path / "rota" / "contexts.json").write_text('{"url": 1')
        assert "contexts.json cannot be read" in self.rota(user, "token", "list", code=1).stderr

    def test_no_token_on_standard_input_is_no_sign_in(self, user: dict[str, str]) -> None:
        assert "holds no token" in self.rota(user, "login", "--token-stdin", code=1).stderr
        wrong = self.rota(user, "login", "--token-stdin", given="rota_x\n", code=1)
        assert "not signed in" in wrong.stderr
