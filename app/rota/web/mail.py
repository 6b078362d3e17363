"""`/api/mail/test`: whether this hub's mail arrives."""

from http import HTTPStatus
from typing import Annotated

import msgspec
from falcon.asgi import Request, Response

from rota.access.scopes import Scope
from rota.acts.act import Act
from rota.acts.recorder import perform
from rota.errors import ConflictError
from rota.hub import Hub
from rota.mail.mailer import Mailer, new_mail
from rota.tlog.records import Logged
from rota.web.bodies import answered, received
from rota.web.endpoint import Answer, Routes, endpoint


class TestMail(msgspec.Struct, forbid_unknown_fields=True):
    """To whom."""

    to: Annotated[str, msgspec.Meta(max_length=320)]


class SentDocument(msgspec.Struct):
    """Whether the mail server took it; else why not, and the queue tries again."""

    sent: bool
    reason: str


class TestMailResource:
    """A mail that says that mail arrives."""

    def __init__(self, hub: Hub) -> None:
        """Send this hub's."""
        self._hub = hub
        self._mailer = Mailer(hub.settings, hub.database, hub.together.queue)

    @endpoint(
        Scope.ADMIN,
        "Send a mail to see whether it arrives",
        body=TestMail,
        answers={
            200: Answer("The mail server took it.", SentDocument),
            202: Answer("It did not, and the queue tries again.", SentDocument),
        },
    )
    async def on_post(self, req: Request, resp: Response) -> None:
        """Try at once, and say what came of it."""
        asked = await received(req, TestMail)
        name = self._hub.settings.name
        if not self._hub.settings.mail.host:
            raise ConflictError("No mail server is set.", "Set [mail] host and sender, and restart the hub.")
        mail = new_mail(asked.to, f"[{name}] test", f"Mail from Rota on {name} arrives.\n")
        act = Act(kind="mail.test", actor=req.context.principal.actor, subject=f"mail:{mail.to}")

        async def work(_: Logged) -> str:
            return await self._mailer.send(mail)

        reason = await perform(self._hub.tlog, act, work)
        status = HTTPStatus.ACCEPTED if reason else HTTPStatus.OK
        answered(resp, SentDocument(sent=not reason, reason=reason), status)


def add_routes(routes: Routes, hub: Hub) -> None:
    """Add them to a web process's app."""
    routes.add("/api/mail/test", TestMailResource(hub))
