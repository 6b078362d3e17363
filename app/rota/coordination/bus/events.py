"""Every event that the bus carries. Events carry ids and kinds; what must not be lost is a row."""

from enum import StrEnum
from typing import ClassVar

import msgspec


class Topic(StrEnum):
    """What one subscribes to."""

    DELIVERIES = "deliveries"
    QUEUE = "queue"
    PROPOSALS = "proposals"
    LIVE = "live"
    ROOMS = "rooms"


class Event(msgspec.Struct, frozen=True, tag_field="type"):
    """One event: a frozen value that belongs to one topic.

    `cuttable` names the one field of text that is cut for other processes when
    the event is too long for them; the field `cut` then says so. Without one,
    an event that is too long stays in its own process.
    """

    on: ClassVar[Topic]
    cuttable: ClassVar[str] = ""


class DeliveryWaiting(Event, frozen=True, tag="delivery_waiting"):
    """There is a webhook to deliver."""

    on: ClassVar[Topic] = Topic.DELIVERIES


class JobWaiting(Event, frozen=True, tag="job_waiting"):
    """There is a job of this kind on the work queue."""

    on: ClassVar[Topic] = Topic.QUEUE

    kind: str


class ActWaiting(Event, frozen=True, tag="act_waiting"):
    """There is an act on its way into the log."""

    on: ClassVar[Topic] = Topic.QUEUE


class OrderWaiting(Event, frozen=True, tag="order_waiting"):
    """There is something to tell this server."""

    on: ClassVar[Topic] = Topic.QUEUE

    server: str


class ProposalChanged(Event, frozen=True, tag="proposal"):
    """Something happened to an app's proposal; whoever needs a text in full reads the proposal."""

    on: ClassVar[Topic] = Topic.PROPOSALS
    cuttable: ClassVar[str] = "event"

    app: str
    n: int
    event: str
    cut: bool = False


class Live(Event, frozen=True, tag="live"):
    """What a page shows has changed: `topic` is such as app:1 or run:5, `kind` such as deploy or state."""

    on: ClassVar[Topic] = Topic.LIVE

    topic: str
    kind: str


class RoomEvent(Event, frozen=True, tag="room"):
    """What one viewer of a room chose, for all the others."""

    on: ClassVar[Topic] = Topic.ROOMS

    room: str
    event: str


AnyEvent = DeliveryWaiting | JobWaiting | ActWaiting | OrderWaiting | ProposalChanged | Live | RoomEvent
