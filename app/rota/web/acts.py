"""`/acts`: the transparency log as people read it, newest first."""

import msgspec
from falcon.asgi import Request, Response

from rota.access.scopes import Scope
from rota.acts.search import Acts, Wanted
from rota.web.bodies import queried
from rota.web.endpoint import HTML, Answer, Routes, endpoint
from rota.web.pages import Pages
from rota.web.tlog import asked


class Looking(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What is looked for, and before which entry."""

    kind: str = ""
    actor: str = ""
    text: str = ""
    before: int | None = None


class ActsResource:
    """The list."""

    def __init__(self, acts: Acts, pages: Pages) -> None:
        """Show these acts."""
        self._acts = acts
        self._pages = pages

    @endpoint(
        Scope.TLOG_READ,
        "The acts in the log, newest first, searched",
        answers={200: Answer("The page.", media=HTML)},
        query=Looking,
        page=True,
    )
    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer one page of the list."""
        looking = queried(req, Looking)
        wanted = Wanted(looking.kind.strip(), looking.actor.strip(), looking.text.strip())
        page = await asked(lambda: self._acts.search(wanted, looking.before))
        self._pages.show(req, resp, "acts.html", page=page, wanted=wanted, before=looking.before)


def add_routes(routes: Routes, acts: Acts, pages: Pages) -> None:
    """Add the list."""
    routes.add("/acts", ActsResource(acts, pages))
