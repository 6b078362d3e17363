"""Names, passwords, scopes, origins and peers: the rules of access that need no database."""

import asyncio
import re
from functools import partial
from pathlib import Path

import falcon
import pytest
from falcon import testing
from falcon.asgi import Request
from tests.support.settings import sqlite_settings

from rota.access.credential import digest, new_cookie, new_token
from rota.access.names import check_account_name, check_password, check_token_name
from rota.access.passwords import MOST, Passwords, fits, hashed
from rota.access.principal import Principal
from rota.access.scopes import Scope, covers, granted, parse_scopes, read_scopes, written
from rota.errors import BusyError, InputError
from rota.settings.model import Limits
from rota.web.cookies import PLAIN, SECURE, SessionCookie
from rota.web.limits import MOST as MOST_BUCKETS
from rota.web.limits import Buckets, RateLimits
from rota.web.origin import check_origin
from rota.web.peer import Peers
from rota.web.problems import Problem
from rota.web.sign_in import local

PROXY, ELSEWHERE = "10.0.0.1", "192.0.2.7"
FORWARDED = {"X_Forwarded_Proto": "https", "X_Forwarded_For": "203.0.113.9, 198.51.100.4"}
PEERS = Peers(["127.0.0.0/8", "::1", f"{PROXY}/32"])


def request(method: str = "GET", peer: str = ELSEWHERE, **headers: str) -> Request:
    """Return a request as it comes from a socket with this peer."""
    sent = {"host": "hub.example"} | {
        name.replace("_", "-").lower(): value for name, value in headers.items()
    }
    scope = {
        **testing.create_scope(method=method),
        "client": (peer, 4711) if peer else None,
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
    }
    return Request(scope, testing.ASGIRequestEventEmitter(b""))


class TestNames:
    @pytest.mark.parametrize("name", ["a", "ada", "ada.b-c_9", "a" * 32])
    def test_good_ones(self, name: str) -> None:
        assert check_account_name(name) == name

    @pytest.mark.parametrize("name", ["", "Ada", "9a", "a" * 33, "a b", "a/b", "a\n", "ä", "a:b"])
    def test_bad_ones(self, name: str) -> None:
        with pytest.raises(InputError, match="small letters"):
            check_account_name(name)

    @pytest.mark.parametrize("name", ["", " ", "-x", "a" * 65, "a/b", "a\n", "<b>"])
    def test_bad_ones_of_tokens(self, name: str) -> None:
        assert check_token_name("ci of ada@laptop 2") == "ci of ada@laptop 2"
        with pytest.raises(InputError, match="token's name"):
            check_token_name(name)


class TestPasswords:
    @pytest.mark.parametrize("password", ["x" * 11, "x" * 1025, ""])
    def test_one_that_is_too_short_or_long_is_refused_and_not_repeated(self, password: str) -> None:
        assert check_password("x" * 12) == "x" * 12
        with pytest.raises(InputError) as refused:
            check_password(password)
        assert not password or password not in str(refused.value) + refused.value.remedy

    def test_one_fits_its_own_hash_alone(self) -> None:
        kept = hashed("right \ud800")
        assert kept.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
        assert fits(kept, "right \ud800")
        assert not fits(kept, "wrong")
        assert not fits("", "right")
        assert not fits("no hash", "right")

    def test_where_there_is_no_account_as_much_is_tried_and_nothing_fits(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tried: list[str] = []

        class Hasher:
            def verify(self, kept: str, _: bytes) -> bool:
                tried.append(kept)
                return True

        monkeypatch.setattr("rota.access.passwords._HASHER", Hasher())
        assert not fits(None, "any")
        assert tried[0].startswith("$argon2id$v=19$m=19456,t=2,p=1$")

    async def test_too_many_at_once_are_refused_and_the_rest_answered(self) -> None:
        passwords = Passwords()
        ended = await asyncio.gather(
            *(passwords.fits("no hash", "x") for _ in range(MOST + 5)), return_exceptions=True
        )
        assert sum(isinstance(each, BusyError) for each in ended) == 5
        assert ended.count(False) == MOST
        assert not await passwords.fits("no hash", "x")


class TestScopes:
    def test_admin_is_every_other(self) -> None:
        assert covers(frozenset({Scope.ADMIN}), Scope)
        assert not covers(frozenset(Scope) - {Scope.ADMIN}, [Scope.ADMIN])

    def test_nobody_is_granted_more_than_he_has(self) -> None:
        assert granted([Scope.ADMIN, Scope.HUB_READ], frozenset({Scope.HUB_READ})) == {Scope.HUB_READ}
        assert granted([Scope.HUB_READ], frozenset({Scope.ADMIN})) == {Scope.HUB_READ}

    def test_text_and_back(self) -> None:
        assert read_scopes(written(Scope)) == frozenset(Scope)
        assert read_scopes("") == frozenset()
        assert read_scopes("hub:read of:tomorrow") == {Scope.HUB_READ}
        with pytest.raises(ValueError, match="the scopes are hub:read"):
            parse_scopes(["hub:reed"])


def test_credentials_are_long_random_and_kept_as_a_hash() -> None:
    assert re.fullmatch(r"rota_[A-Za-z0-9_-]{43}", new_token())
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", new_cookie())
    assert len({new_token() for _ in range(50)}) == 50
    assert digest("abc").hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


class TestPeers:
    @pytest.mark.parametrize("proxy", [PROXY, "127.0.0.1", "::1", "::ffff:10.0.0.1"])
    def test_a_proxy_is_believed(self, proxy: str) -> None:
        req = request(peer=proxy, **FORWARDED)
        assert PEERS.https(req)
        assert PEERS.client(req) == "198.51.100.4"
        assert PEERS.origin(req) == "https://hub.example"

    @pytest.mark.parametrize("peer", [ELSEWHERE, "10.0.0.2", "::2", ""])
    def test_nobody_else_is(self, peer: str) -> None:
        req = request(peer=peer, **FORWARDED)
        assert not PEERS.https(req)
        assert PEERS.client(req) == (peer or "unknown")

    @pytest.mark.parametrize("given", ["", "nonsense", "1.2.3.4, x", "1.2.3.4:80"])
    def test_an_address_that_is_none_counts_as_the_proxys(self, given: str) -> None:
        assert PEERS.client(request(peer=PROXY, X_Forwarded_For=given)) == PROXY

    @pytest.mark.parametrize("given", ["HTTPS", "http", "https, http", ""])
    def test_https_is_said_in_one_way(self, given: str) -> None:
        assert not PEERS.https(request(peer=PROXY, X_Forwarded_Proto=given))


class TestLimits:
    def test_a_bucket_gives_what_is_in_it_and_fills_again(self) -> None:
        now = [0.0]
        buckets = Buckets(rate=2.0, burst=3.0, clock=lambda: now[0])
        assert [buckets.take("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
        assert buckets.take("b") == 0.0, "another key has a bucket of its own"
        now[0] = 0.4
        assert buckets.take("a") == pytest.approx(0.1)
        now[0] = 0.5
        assert [buckets.take("a"), buckets.take("a")] == [0.0, 0.5]
        now[0] = 1000.0
        assert sum(buckets.take("a") == 0.0 for _ in range(9)) == 3, "it holds no more than it did"

    def test_to_look_takes_nothing(self) -> None:
        buckets = Buckets(rate=1.0, burst=1.0, clock=lambda: 0.0)
        assert [buckets.take("a", 0.0) for _ in range(3)] == [0.0] * 3
        assert [buckets.take("a"), buckets.take("a", 0.0)] == [0.0, 1.0]

    def test_there_are_never_more_than_so_many(self) -> None:
        buckets = Buckets(rate=1.0, burst=1.0, clock=lambda: 0.0)
        for number in range(MOST_BUCKETS + 100):
            buckets.take(number)
        assert len(buckets) == MOST_BUCKETS
        assert buckets.take(MOST_BUCKETS + 99) == 1.0, "who came last is kept"
        assert Buckets(rate=0.0, burst=0.0).take("a") == 0.0

    def test_a_network_of_ipv6_is_one_address_and_an_account_one_caller(self) -> None:
        limits = RateLimits(Limits(caller=1, stranger=1, sign_in=1), clock=lambda: 0.0)
        for number in range(20):
            limits.stranger(f"2001:db8:1:2::{number + 1:x}")
            limits.caller(Principal(1, "ada", frozenset(), token=number))
        same = Principal(1, "ada", frozenset(), session=1)
        for refused in (
            partial(limits.stranger, "2001:db8:1:2::ffff"),
            partial(limits.newcomer, "2001:db8:1:2::fffe"),
            partial(limits.caller, same),
        ):
            with pytest.raises(Problem) as problem:
                refused()
            assert problem.value.status_code == 429
            assert dict(problem.value.headers or {})["Retry-After"] == "1"
        limits.stranger("2001:db8:1:3::1")
        limits.newcomer("unknown")
        limits.caller(Principal(2, "grace", frozenset(), session=1))

    def test_as_they_are_set_they_hinder_no_honest_work(self, tmp_path: Path) -> None:
        """A thousand live pages of one account that reconnect at once, and 64 programs that never pause."""
        now = [0.0]
        limits = RateLimits(sqlite_settings(tmp_path).limits, clock=lambda: now[0])
        caller = Principal(1, "ada", frozenset(), token=1)
        for _ in range(1000):
            limits.caller(caller)
        for second in range(60):
            now[0] = float(second)
            for _ in range(64 * 3):
                limits.caller(caller)
        for _ in range(64 * 10):
            limits.stranger("192.0.2.1")

    def test_sign_ins_are_counted_by_name_and_by_address(self) -> None:
        limits = RateLimits(Limits(caller=1, stranger=1, sign_in=2), clock=lambda: 0.0)
        for address in ("192.0.2.1", "192.0.2.2"):
            limits.sign_in(address, "ada")
        with pytest.raises(Problem):
            limits.sign_in("192.0.2.3", "ada")
        for number in range(5):
            limits.sign_in("192.0.2.3", f"name {number}")
        with pytest.raises(Problem):
            limits.sign_in("192.0.2.3", "name 6")

    def test_one_address_that_is_refused_locks_nobody_out(self) -> None:
        limits = RateLimits(Limits(caller=1, stranger=1, sign_in=2), clock=lambda: 0.0)
        for number in range(6):
            limits.sign_in("192.0.2.3", f"name {number}")
        for _ in range(9):
            with pytest.raises(Problem):
                limits.sign_in("192.0.2.3", "ada")
        limits.sign_in("192.0.2.1", "ada")


class TestOrigin:
    @pytest.mark.parametrize(
        "headers",
        [
            {"Sec_Fetch_Site": "same-origin"},
            {"Sec_Fetch_Site": "none"},
            {"Sec_Fetch_Site": "same-origin", "Origin": "null"},
            {"Origin": "http://hub.example"},
            {"Origin": "HTTP://Hub.Example"},
        ],
    )
    def test_the_hubs_own_pages_may(self, headers: dict[str, str]) -> None:
        check_origin(request("POST", **headers), PEERS)

    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"Sec_Fetch_Site": "cross-site"},
            {"Sec_Fetch_Site": "same-site"},
            {"Sec_Fetch_Site": "cross-site", "Origin": "http://hub.example"},
            {"Sec_Fetch_Site": ""},
            {"Origin": "null"},
            {"Origin": "https://hub.example"},
            {"Origin": "http://hub.example:81"},
            {"Origin": "http://hub.example.evil.example"},
        ],
    )
    def test_others_may_only_look(self, headers: dict[str, str]) -> None:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            with pytest.raises(Problem) as refused:
                check_origin(request(method, **headers), PEERS)
            assert refused.value.status_code == 403
        for method in ("GET", "HEAD", "OPTIONS"):
            check_origin(request(method, **headers), PEERS)

    def test_behind_the_proxy_it_is_the_https_one(self) -> None:
        secure = {"peer": PROXY, "X_Forwarded_Proto": "https"}
        check_origin(request("POST", Origin="https://hub.example", **secure), PEERS)
        with pytest.raises(Problem):
            check_origin(request("POST", Origin="http://hub.example", **secure), PEERS)


class TestCookie:
    COOKIE = SessionCookie(PEERS)

    def test_over_https_it_belongs_to_this_host_alone(self) -> None:
        req = request(peer=PROXY, X_Forwarded_Proto="https", Cookie=f"{PLAIN}=a; {SECURE}=b")
        resp = falcon.asgi.Response()
        self.COOKIE.set(req, resp, "value")
        assert self.COOKIE.value(req) == "b"
        (sent,) = cookies(resp)
        assert sent.startswith(f"{SECURE}=value; ")
        assert set(sent.split("; ")[1:]) == {
            "HttpOnly",
            "Max-Age=34560000",
            "Path=/",
            "SameSite=Lax",
            "Secure",
        }

    def test_over_http_it_is_another(self) -> None:
        req = request(Cookie=f"{PLAIN}=a; {SECURE}=b", X_Forwarded_Proto="https")
        resp = falcon.asgi.Response()
        self.COOKIE.clear(req, resp)
        assert self.COOKIE.value(req) == "a"
        (sent,) = cookies(resp)
        assert sent.startswith(f"{PLAIN}=")
        assert "Secure" not in sent
        assert "expires=Thu, 01 Jan 1970" in sent
        assert self.COOKIE.value(request()) == ""


def cookies(resp: falcon.asgi.Response) -> list[str]:
    """Return the Set-Cookie headers of an answer."""
    return [value for name, value in resp._wsgi_headers() if name == "set-cookie"]


@pytest.mark.parametrize(
    ("to", "where"),
    [
        ("/", "/"),
        ("/queue?state=dead", "/queue?state=dead"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/x\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\r\nSet-Cookie: x", "/"),
        ("/\t/evil.example", "/"),
        ("/ä", "/"),
        ("", "/"),
    ],
)
def test_after_the_sign_in_one_stays_here(to: str, where: str) -> None:
    assert local(to) == where
