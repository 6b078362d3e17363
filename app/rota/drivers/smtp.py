"""One mail handed to the operator's mail server."""

from typing import TYPE_CHECKING

from rota.errors import RotaError
from rota.settings import Settings

if TYPE_CHECKING:
    from email.message import EmailMessage

WITHIN = 10.0  # seconds for one mail


class MailError(RotaError):
    """The mail server did not take it; the message says why."""


class Smtp:
    """A connection of its own for each mail: they are few."""

    def __init__(self, settings: Settings) -> None:
        """Hand mail to this hub's mail server."""
        self._mail = settings.mail

    async def send(self, message: "EmailMessage") -> None:
        """Send it to whom it names. Raises MailError."""
        import aiosmtplib  # noqa: PLC0415 - a hub without mail never loads it

        mail = self._mail
        try:
            await aiosmtplib.send(
                message,
                hostname=mail.host,
                port=mail.port,
                username=mail.username or None,
                password=mail.password.reveal() or None,
                use_tls=mail.tls == "tls",
                start_tls=mail.tls == "starttls",
                timeout=WITHIN,
            )
        except (aiosmtplib.SMTPException, OSError) as error:
            raise MailError(f"{mail.host}:{mail.port}: {_why(error)}") from error


def _why(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
