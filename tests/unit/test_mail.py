"""Mail as it is written: nothing in it makes another header or another recipient."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.settings import NO_SETTINGS

from rota.errors import InputError, SettingsError
from rota.mail.mailer import new_mail
from rota.mail.message import LONGEST_SUBJECT, Mail, checked_address, written
from rota.settings import load

MAIL = Mail(to="ops@example.org", subject="backup", text="It failed.\n", id="rota.1", at=1_700_000_000)


def test_it_says_from_whom_to_whom_and_that_a_program_wrote_it() -> None:
    message = written(MAIL, "rota@example.org")
    assert dict(message.items()) == {
        "From": "Rota <rota@example.org>",
        "To": "ops@example.org",
        "Subject": "backup",
        "Date": "Tue, 14 Nov 2023 22:13:20 +0000",
        "Message-ID": "<rota.1@example.org>",
        "Auto-Submitted": "auto-generated",
        "Content-Type": 'text/plain; charset="utf-8"',
        "Content-Transfer-Encoding": "7bit",
        "MIME-Version": "1.0",
    }
    assert written(MAIL, "rota@example.org").as_bytes() == message.as_bytes()


@given(
    st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\r\n\0\u2028\u0085"), max_size=400)
)
def test_no_text_makes_another_header(text: str) -> None:
    mail = Mail(to=MAIL.to, subject=text, text=text, id="rota.1", at=0)
    plain = written(MAIL, "rota@example.org")
    data = written(mail, "rota@example.org").as_bytes()
    head = data.partition(b"\r\n\r\n")[0]
    names = [line.partition(b":")[0] for line in head.split(b"\r\n") if not line.startswith((b" ", b"\t"))]
    assert names == [name.encode() for name in plain]
    assert len(str(written(mail, "rota@example.org")["Subject"])) <= LONGEST_SUBJECT


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ops",
        "@example.org",
        "ops@",
        "ops@example.org\r\nBcc: x@example.org",
        "ops@example.org, x@example.org",
        "Ops <ops@example.org>",
        '"a b"@example.org',
        "ops@example.org\n",
        "o p@example.org",
        "ops@exa..mple.org",
        "\u00f6ps@example.org",
    ],
)
def test_what_is_not_one_plain_address_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="no address for mail"):
        checked_address(address)
    with pytest.raises(InputError):
        new_mail(address, "s", "t")


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({"ROTA_MAIL_HOST": "mx"}, "mail.sender"),
        ({"ROTA_MAIL_SENDER": "x"}, "mail.sender"),
        ({"ROTA_MAIL_OPERATORS": "a@example.org,b"}, "mail.operators"),
        ({"ROTA_MAIL_TLS": "ssl"}, "mail.tls"),
        ({"ROTA_MAIL_PORT": "0"}, "mail.port"),
        ({"ROTA_MAIL_TLS": "none", "ROTA_MAIL_PASSWORD": "p"}, "mail.tls"),
        ({"ROTA_WEBHOOKS_ALLOW": "10.1.0.1/16"}, "webhooks.allow"),
        ({"ROTA_WEBHOOKS_KEY": "short"}, "webhooks.key"),
        ({"ROTA_WEBHOOKS_KEY": f"{'k' * 43}=,"}, "webhooks.key"),
    ],
)
def test_settings_that_cannot_work_are_refused(environ: dict[str, str], problem: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(file=NO_SETTINGS, environ=environ)
    assert str(refused.value).startswith(problem)
