"""What the operators are told by mail: of one subject not again and again."""

from datetime import timedelta

from rota.mail.mailer import Mailer, new_mail
from rota.settings import Settings
from rota.store.database import Transaction
from rota.store.webhooks import Notices


class Operators:
    """Those that `[mail] operators` names; nobody, unless it does."""

    def __init__(self, settings: Settings, mailer: Mailer) -> None:
        """Tell this hub's."""
        self._settings = settings
        self._mailer = mailer

    async def tell(self, tx: Transaction, subject: str, text: str, rest: timedelta) -> bool:
        """Have a mail sent to each, in the caller's transaction, unless they were told lately.

        Return whether they are told now.
        """
        mail = self._settings.mail
        if not (mail.host and mail.operators) or not await Notices.tell(tx, subject, rest.total_seconds()):
            return False
        name = self._settings.name
        for operator in mail.operators:
            signed = f"{text}\nThis mail comes from Rota on {name}."
            await self._mailer.enqueue(tx, new_mail(operator, f"[{name}] {subject}", signed))
        return True
