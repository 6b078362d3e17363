"""One mail handed to the operator's mail server."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rota.errors import RotaError
from rota.secret import Secret

if TYPE_CHECKING:
    from email.message import EmailMessage

WITHIN = 10.0  # seconds for one mail


class MailError(RotaError):
    """The mail server did not take it; the message says why."""


@dataclass(frozen=True, kw_only=True)
class MailServer:
    """Where mail is handed in; `tls` is starttls, tls or none."""

    host: str
    port: int
    tls: str
    username: str
    password: Secret


class Smtp:
    """A connection of its own for each mail: they are few."""

    def __init__(self, server: MailServer) -> None:
        """Hand mail to this server."""
        self._server = server

    async def send(self, message: "EmailMessage") -> None:
        """Send it to whom it names. Raises MailError."""
        import aiosmtplib  # noqa: PLC0415 - a hub without mail never loads it

        server = self._server
        try:
            await aiosmtplib.send(
                message,
                hostname=server.host,
                port=server.port,
                username=server.username or None,
                password=server.password.reveal() or None,
                use_tls=server.tls == "tls",
                start_tls=server.tls == "starttls",
                timeout=WITHIN,
            )
        except (aiosmtplib.SMTPException, OSError) as error:
            raise MailError(f"{server.host}:{server.port}: {_why(error)}") from error


def _why(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
