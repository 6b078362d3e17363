"""Rooms: operators who look at one incident, and what one of them chooses to do about it."""

from http import HTTPStatus

import msgspec
from falcon.asgi import Request, Response

from rota.access.scopes import Scope
from rota.acts.act import Act
from rota.acts.recorder import perform
from rota.coordination.bus.events import RoomEvent
from rota.hub import Hub
from rota.live.topics import parse_room
from rota.rooms.rooms import Choice, Chosen, Rooms
from rota.tlog.records import Logged
from rota.web.bodies import answered, is_form, queried, received, see
from rota.web.endpoint import HTML, Answer, Routes, endpoint
from rota.web.pages import Pages
from rota.web.problems import Problem


class Wanted(msgspec.Struct, forbid_unknown_fields=True):
    """What one chooses."""

    choice: Choice


class Named(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Which room one looks for."""

    name: str = ""


class RoomResource:
    """The page of a room, and the page that leads to one."""

    def __init__(self, rooms: Rooms, pages: Pages) -> None:
        """Show this process's rooms."""
        self._rooms = rooms
        self._pages = pages

    @endpoint(
        Scope.HUB_READ,
        "A room: who is here, and what was chosen",
        answers={200: Answer("The page.", media=HTML)},
        page=True,
    )
    async def on_get(self, req: Request, resp: Response, room: str) -> None:
        """Answer the page. A room is there once somebody opens it."""
        self._pages.show(
            req,
            resp,
            "room.html",
            room=self._rooms.look(parse_room(room)),
            each=list(Choice),
            may_choose=req.context.principal.may(Scope.ROOMS_WRITE),
        )

    @endpoint(
        Scope.HUB_READ,
        "The rooms that somebody is in, in this process",
        answers={200: Answer("The page.", media=HTML), 303: Answer("The room that was named.", media="")},
        query=Named,
        page=True,
    )
    async def on_get_all(self, req: Request, resp: Response) -> None:
        """Answer the page, or lead on to the room that is named."""
        wanted = queried(req, Named).name.strip().lower()
        if wanted:
            see(resp, f"/rooms/{parse_room(wanted)}")
            return
        rooms = [self._rooms.look(name) for name in self._rooms.names()]
        self._pages.show(req, resp, "rooms.html", rooms=rooms)


class ChoiceResource:
    """What is chosen in a room."""

    def __init__(self, hub: Hub, rooms: Rooms) -> None:
        """Pass choices on to every process of this hub."""
        self._hub = hub
        self._rooms = rooms

    @endpoint(
        Scope.ROOMS_WRITE,
        "Choose what is done about the incident of a room",
        answers={
            200: Answer("The choice, as every viewer sees it.", Chosen),
            204: Answer("It is made, and the page hears of it.", media=""),
            303: Answer("It is made; the room.", media=""),
            410: Answer("It is made and passed on, but nobody is in the room in this process."),
        },
        body=Wanted,
        form=True,
    )
    async def on_post(self, req: Request, resp: Response, room: str) -> None:
        """Log the choice, pass it on to every process, and answer it."""
        parse_room(room)
        wanted, principal = await received(req, Wanted), req.context.principal
        act = Act(
            kind="room.choose",
            actor=principal.actor,
            subject=f"room:{room}",
            details={"choice": wanted.choice.value},
        )

        async def work(logged: Logged) -> Chosen:
            chosen = Chosen(wanted.choice, principal.name, act.at, logged.index)
            told = RoomEvent(room, msgspec.json.encode(chosen).decode())
            self._hub.together.bus.publish(told)
            return chosen

        chosen = await perform(self._hub.tlog, act, work)
        if not self._rooms.occupied(room):
            raise Problem(
                HTTPStatus.GONE,
                "Nobody is here",
                f"The choice is entry {chosen.entry} of the log and was passed on to every process, "
                f"but nobody is in the room {room} in this one.",
                f"Open /rooms/{room}: the choices of that page reach the process that its viewers are in.",
            )
        if req.get_header("HX-Request"):
            resp.status = HTTPStatus.NO_CONTENT
        elif is_form(req):
            see(resp, f"/rooms/{room}")
        else:
            answered(resp, chosen)


def add_routes(routes: Routes, hub: Hub, pages: Pages, rooms: Rooms) -> None:
    """Add the rooms."""
    page = RoomResource(rooms, pages)
    routes.add("/rooms", page, suffix="all")
    routes.add("/rooms/{room}", page)
    routes.add("/api/rooms/{room}/choices", ChoiceResource(hub, rooms))
