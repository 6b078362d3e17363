"""Mail on its way: tried at once by who asks for it, and by the queue's job after a failure."""

import secrets
import time
from typing import Any

import msgspec
import structlog

from rota.coordination.queue.job import NewJob
from rota.coordination.queue.kinds import FIRST, Job
from rota.coordination.queue.queue import Queue
from rota.drivers.smtp import MailError, MailServer, Smtp
from rota.errors import ConflictError
from rota.mail.message import Mail, checked_address, written
from rota.settings import Settings
from rota.store.database import Database, Transaction

KIND = "mail.send"

log = structlog.get_logger("rota.mail")


class Mailer:
    """Sends this hub's mail."""

    def __init__(self, settings: Settings, database: Database, queue: Queue) -> None:
        """Send as the settings say; what fails goes onto this queue."""
        self._settings = settings
        self._database = database
        self._queue = queue
        mail = settings.mail
        self._smtp = Smtp(
            MailServer(
                host=mail.host, port=mail.port, tls=mail.tls, username=mail.username, password=mail.password
            )
        )

    async def send(self, mail: Mail) -> str:
        """Send a mail; where that fails queue it and return why, else return nothing.

        Raises ConflictError where no mail server is set, InputError for a bad address.
        """
        if not self._settings.mail.host:
            raise ConflictError("No mail server is set.", "Set [mail] host and sender, and restart the hub.")
        message = written(mail, self._settings.mail.sender)
        try:
            await self._smtp.send(message)
        except MailError as error:
            log.warning("mail queued", to=mail.to, reason=str(error))
            await self._database.write(lambda tx: self.enqueue(tx, mail, FIRST))
            return str(error)
        return ""

    async def enqueue(self, tx: Transaction, mail: Mail, delay: float = 0.0) -> None:
        """Leave a mail to a worker, in the caller's transaction."""
        payload: dict[str, Any] = msgspec.to_builtins(mail)
        await self._queue.enqueue(tx, NewJob(kind=KIND, payload=payload, delay=delay))

    async def work(self, job: Job) -> None:
        """Send what was queued. Raises MailError where that failed again."""
        mail = msgspec.convert(job.payload, Mail)
        if not self._settings.mail.host:
            raise MailError("no mail server is set: set [mail] host and sender, and restart the workers")
        await self._smtp.send(written(mail, self._settings.mail.sender))


def new_mail(to: str, subject: str, text: str) -> Mail:
    """Return a mail of now. Raises InputError for a bad address."""
    return Mail(
        to=checked_address(to),
        subject=subject,
        text=text,
        id=f"rota.{secrets.token_hex(16)}",
        at=int(time.time()),
    )
