"""One mail to one person: checked, and written as RFC 5322 has it. Pure."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime

from rota.errors import InputError

# An address as it stands in mail that real people get: no quotes, no comments, no list.
_ADDRESS = re.compile(r"[A-Za-z0-9._%+'/=~-]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?", re.ASCII)
LONGEST_SUBJECT = 200


@dataclass(frozen=True, kw_only=True)
class Mail:
    """What is sent. `id` and `at` (seconds since 1970) are the same on each try, so that a double shows."""

    to: str
    subject: str
    text: str
    id: str
    at: int


def checked_address(address: str) -> str:
    """Return an address of one person. Raises InputError."""
    if not _ADDRESS.fullmatch(address) or ".." in address:
        raise InputError(f"{address!r} is no address for mail.", "Write it as name@example.org.")
    return address


def written(mail: Mail, sender: str) -> EmailMessage:
    """Return the mail as it is sent. Whatever its parts hold, each header stays one. Raises InputError."""
    message = EmailMessage(policy.SMTP)
    message["From"] = Address(display_name="Rota", addr_spec=checked_address(sender))
    message["To"] = Address(addr_spec=checked_address(mail.to))
    message["Subject"] = one_line(mail.subject)
    message["Date"] = format_datetime(datetime.fromtimestamp(mail.at, UTC))
    message["Message-ID"] = f"<{mail.id}@{sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(mail.text.replace("\0", "\ufffd"))
    return message


def one_line(text: str) -> str:
    """Return a text as a header may hold it: no line ends, no other control signs, not too long."""
    plain = "".join(sign if sign.isprintable() else " " for sign in text)
    return " ".join(plain.split())[:LONGEST_SUBJECT]
