"""The pure rules of webhooks: who is told of what, the message, its signature, its secret."""

import base64
import json
from pathlib import Path

import pytest
from tests.support.settings import NO_SETTINGS, sqlite_settings

from rota.acts.act import Act
from rota.drivers.outbound import checked_url, origin_of
from rota.errors import ConflictError, InputError, KeyFileError
from rota.hooks.matching import checked_app, checked_kinds, matches
from rota.hooks.message import body_of, message_id, new_secret, secret_key, signed_headers
from rota.hooks.vault import Vault, new_key
from rota.settings import load

ACT = Act(
    kind="backup.make",
    actor="token:ann/ci",
    subject="x.tar.zst",
    details={"size": 7},
    at=1_700_000_000_250_000,
)


class TestSignature:
    def test_it_is_the_published_one(self) -> None:
        headers = signed_headers(
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1614265330,
            '{"test": 2432232314}',
        )
        assert headers == {
            "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "webhook-timestamp": "1614265330",
            "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        }

    def test_a_secret_made_here_can_be_used(self) -> None:
        assert len(secret_key(new_secret())) == 32
        assert new_secret() != new_secret()

    @pytest.mark.parametrize(
        "secret",
        [
            "",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "whsec_",
            "whsec_!!!!",
            "whsec_QUJD",
            "whsec_" + "QUJD" * 30,
        ],
    )
    def test_a_bad_secret_is_refused_and_not_repeated(self, secret: str) -> None:
        with pytest.raises(InputError) as refused:
            secret_key(secret)
        assert secret.removeprefix("whsec_") not in str(refused.value) or len(secret) < 7


def test_the_message_tells_of_the_act() -> None:
    assert json.loads(body_of(ACT, 41)) == {
        "type": "backup.make",
        "timestamp": "2023-11-14T22:13:20.250000Z",
        "data": {
            "act": "backup.make",
            "actor": "token:ann/ci",
            "subject": "x.tar.zst",
            "details": {"size": 7},
            "entry": 41,
            "id": ACT.id,
        },
    }
    assert message_id("a", "b") != message_id("a", "c")
    assert "." not in message_id(ACT.id, "0a1b2c3d")


class TestMatching:
    @pytest.mark.parametrize(
        ("kinds", "told"),
        [
            (["*"], True),
            (["backup.make"], True),
            (["backup.*"], True),
            (["backup.make.*"], False),
            (["backup"], False),
            (["back.*"], False),
            (["webhook.*", "backup.make"], True),
            ([], False),
        ],
    )
    def test_by_kind_and_prefix(self, kinds: list[str], *, told: bool) -> None:
        assert matches(kinds, "", ACT) is told

    def test_a_failed_act_is_of_its_own_kind(self) -> None:
        failed = Act(kind="backup.make.failed", actor="a", subject="b")
        assert matches(["backup.*"], "", failed)
        assert matches(["backup.make.*"], "", failed)
        assert not matches(["backup.make"], "", failed)

    def test_by_app(self) -> None:
        assert not matches(["*"], "shop", ACT)
        assert matches(["*"], "shop", Act(kind="deploy.begin", actor="a", subject="app:shop"))
        assert matches(
            ["*"], "shop", Act(kind="run.begin", actor="a", subject="run:5", details={"app": "shop"})
        )
        assert not matches(["*"], "shop", Act(kind="deploy.begin", actor="a", subject="app:shop2"))

    def test_kinds_are_checked_sorted_and_each_named_once(self) -> None:
        assert checked_kinds([" b.c", "a.*", "b.c", ""]) == ("a.*", "b.c")
        assert checked_kinds([]) == ("*",)
        for bad in ("A.b", "a b", "a*", ".a", "*.a", "a..b", "a.*.*", "x" * 200):
            with pytest.raises(InputError):
                checked_kinds([bad])
        with pytest.raises(InputError, match="too many"):
            checked_kinds(f"kind{number}" for number in range(51))

    def test_apps_are_checked(self) -> None:
        assert (checked_app(""), checked_app("shop-2")) == ("", "shop-2")
        for bad in ("Shop", "2shop", "a" * 24, "a b"):
            with pytest.raises(InputError):
                checked_app(bad)


class TestAddress:
    @pytest.mark.parametrize(
        "url", ["https://example.org/x?y=z", "http://[2606::1]:8080/", "http://127.0.0.1"]
    )
    def test_a_good_one_stays_as_it_is(self, url: str) -> None:
        assert checked_url(url) == url

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "example.org",
            "ftp://example.org",
            "file:///etc/passwd",
            "https://",
            "https://user@example.org/",
            "https://user:secret@example.org/",
            "https://example.org/#part",
            "https://example.org:99999/",
            "https://[::1/",
            "https://example.org/a b",
            "https://example.org/\r\nHost: x",
            "https://example.org\\@127.0.0.1/",
            "https://ex\u00e4mple.org/",
            "https://example.org/\x7f",
            "https://example.org/" + "x" * 2000,
        ],
    )
    def test_a_bad_one_is_refused_with_a_remedy(self, url: str) -> None:
        with pytest.raises(InputError) as refused:
            checked_url(url)
        assert "secret" not in str(refused.value)
        assert refused.value.remedy

    def test_its_path_is_left_out_where_others_read(self) -> None:
        assert origin_of("https://hooks.example.org:8443/T000/secret?x=y") == "https://hooks.example.org:8443"


class TestVault:
    def test_the_single_node_edition_makes_its_key_once(self, tmp_path: Path) -> None:
        settings = sqlite_settings(tmp_path)
        sealed = Vault(settings).seal("whsec_abc")
        assert "abc" not in sealed
        assert Vault(settings).open(sealed) == "whsec_abc"
        assert (settings.keys_directory / "webhooks").stat().st_mode & 0o777 == 0o600

    def test_a_new_key_before_the_old_one_opens_both(self, tmp_path: Path) -> None:
        old, new = new_key(), new_key()

        def vault(key: str) -> Vault:
            return Vault(sqlite_settings(tmp_path, ROTA_WEBHOOKS_KEY=key))

        sealed = vault(old).seal("s")
        assert vault(f"{new}, {old}").open(sealed) == "s"
        assert vault(old.rstrip("=")).open(sealed) == "s"
        with pytest.raises(KeyFileError, match="does not open"):
            vault(new).open(sealed)

    def test_a_key_file_that_holds_none_is_told_by_its_path(self, tmp_path: Path) -> None:
        settings = sqlite_settings(tmp_path)
        Vault(settings).seal("s")
        (settings.keys_directory / "webhooks").write_text("short")
        with pytest.raises(KeyFileError, match=r"keys/webhooks: no key that"):
            Vault(settings).open("s")

    def test_a_cluster_without_a_key_says_what_to_do(self) -> None:
        environ = {"ROTA_DATABASE_URL": "postgresql://h/rota", "ROTA_DATABASE_SCHEMA": "rota"}
        vault = Vault(load(file=NO_SETTINGS, environ=environ).settings)
        with pytest.raises(ConflictError) as refused:
            vault.seal("s")
        assert "webhooks-key" in refused.value.remedy
        assert len(base64.urlsafe_b64decode(new_key())) == 32
