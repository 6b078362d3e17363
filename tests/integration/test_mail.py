"""Mail against a real SMTP server on loopback: at once, queued on failure, and what operators are told."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from email import message_from_bytes
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from tests.support.hooks_hub import HooksHub
from tests.support.postgres import free_port
from tests.support.receiver import Received, receiving, status
from tests.support.tlog_hub import Led, lead
from tests.support.wait import eventually, until

from rota.backups import maker
from rota.coordination.queue import kinds as rules
from rota.coordination.queue import worker as working
from rota.errors import BackupError, ConflictError
from rota.hooks import delivering
from rota.mail import mailer as sending
from rota.mail.mailer import new_mail
from rota.secret import Secret
from rota.settings import Settings
from rota.store.backups import Backups
from rota.store.database import Database
from rota.store.history import History
from rota.store.jobs import Jobs
from rota.tasks.backups import Scheduler

TO = "ops@example.org"


class Box:
    """What the server took. `refusal` is what it says instead, if anything."""

    def __init__(self) -> None:
        self.mails: list[Any] = []
        self.refusal = ""

    async def handle_DATA(self, _: Any, __: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's
        if self.refusal:
            return self.refusal
        assert isinstance(envelope.content, bytes)
        self.mails.append(message_from_bytes(envelope.content))
        return "250 taken"


@contextlib.asynccontextmanager
async def mail_server(box: Box, port: int, **options: Any) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(box, hostname="mx.example.org", loop=loop, **options), "127.0.0.1", port
    )
    try:
        yield
    finally:
        server.close()


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def hub(settings: Settings, database: Database, port: int) -> HooksHub:
    return HooksHub(settings, database, host="127.0.0.1", port=port, operators=(TO,))


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make waits short."""
    for module in (delivering, sending):
        monkeypatch.setattr(module, "FIRST", 0.0)
    monkeypatch.setattr(rules, "FIRST", 0.01)
    monkeypatch.setattr(working, "POLL", 0.05)


async def until_came(box: Box, count: int = 1) -> None:
    await until(lambda: len(box.mails) >= count)


async def test_a_mail_is_sent_at_once(hub: HooksHub, port: int) -> None:
    box = Box()
    async with mail_server(box, port):
        assert await hub.parts.mailer.send(new_mail(TO, "test", "It arrives.\n")) == ""
    (mail,) = box.mails
    assert (mail["To"], mail["From"], mail["Subject"]) == (TO, "Rota <rota@example.org>", "test")
    assert mail.get_payload() == "It arrives.\r\n"
    assert await Jobs(hub.database).list() == []


async def test_one_that_cannot_be_sent_is_queued_and_comes_later_as_the_same_mail(
    hub: HooksHub, port: int
) -> None:
    mail = new_mail(TO, "test", "It arrives.\n")
    assert "127.0.0.1" in await hub.parts.mailer.send(mail)
    box = Box()
    box.refusal = "451 busy, come again"
    async with mail_server(box, port), hub.working():

        async def refused() -> bool:
            return any("451" in (job.error or "") for job in await Jobs(hub.database).list())

        await eventually(refused)
        box.refusal = ""
        await until_came(box)
    assert box.mails[0]["Message-ID"] == f"<{mail.id}@example.org>"


async def test_it_signs_in_where_a_user_is_set(settings: Settings, database: Database, port: int) -> None:
    seen: list[tuple[bytes, bytes]] = []

    def authenticator(_: Any, __: Any, ___: Any, ____: str, data: LoginPassword) -> AuthResult:
        seen.append((data.login, data.password))
        return AuthResult(success=True)

    box = Box()
    hub = HooksHub(
        settings, database, host="127.0.0.1", port=port, username="hub", password=Secret("p\u00e4ss word")
    )
    options = {"authenticator": authenticator, "auth_require_tls": False}
    async with mail_server(box, port, **options):
        assert await hub.parts.mailer.send(new_mail(TO, "test", "x")) == ""
    assert seen == [(b"hub", "p\u00e4ss word".encode())]


async def test_without_starttls_nothing_is_sent_in_the_clear(
    settings: Settings, database: Database, port: int
) -> None:
    box = Box()
    hub = HooksHub(settings, database, host="127.0.0.1", port=port, tls="starttls")
    async with mail_server(box, port):
        assert "STARTTLS" in await hub.parts.mailer.send(new_mail(TO, "test", "x"))
    assert box.mails == []


async def test_without_a_server_it_says_what_to_set(settings: Settings, database: Database) -> None:
    hub = HooksHub(settings, database)
    with pytest.raises(ConflictError) as refused:
        await hub.parts.mailer.send(new_mail(TO, "test", "x"))
    assert "[mail] host" in refused.value.remedy


async def test_operators_hear_of_a_webhook_that_is_given_up_once(hub: HooksHub, port: int) -> None:
    async def refuse(_: Received) -> bytes:
        return status(500)

    box = Box()
    async with receiving(refuse) as receiver, mail_server(box, port), hub.leading(), hub.working():
        made, _ = await hub.subscribe(receiver.url, "probe.*")
        await hub.act()
        await hub.act()

        async def given_up() -> bool:
            return await hub.standings() == {"dead": 2}

        async def no_mail_waits() -> bool:
            return not [job for job in await Jobs(hub.database).list() if job.kind == "mail.send"]

        await eventually(given_up, within=30)
        await until_came(box)
        await eventually(no_mail_waits)
    (mail,) = box.mails
    assert mail["Subject"].endswith(f"webhook {made.id}")
    assert f"rota webhook redeliver {made.id} " in str(mail.get_payload())


async def test_operators_hear_of_a_failed_backup(
    hub: HooksHub, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: object) -> None:
        raise BackupError("the disk is full")

    monkeypatch.setattr(maker.Maker, "make", fail)
    scheduler = Scheduler(hub.settings, hub.database, operators=hub.parts.operators)
    term = Led(await lead(hub.database, "backups.scheduler")).term
    box = Box()
    async with mail_server(box, port), hub.working():
        for _ in range(2):
            await scheduler._back_up(
                term, maker.Maker(hub.settings, hub.database, term), History(hub.database)
            )
        await until_came(box)
    (mail,) = box.mails
    assert mail["Subject"].endswith("backup")
    assert "the disk is full" in str(mail.get_payload())
    assert await Backups(hub.database).all() == []


async def test_nobody_is_told_where_nobody_is_named(settings: Settings, database: Database) -> None:
    hub = HooksHub(settings, database, host="127.0.0.1")
    told = await database.write(lambda tx: hub.parts.operators.tell(tx, "subject", "text", timedelta(days=1)))
    assert told is False
    assert await Jobs(database).list() == []
