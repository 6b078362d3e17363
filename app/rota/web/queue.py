"""`/api/queue` and the page `/queue`: the jobs on the work queue, and what to do about them."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from falcon.asgi import Request, Response

from rota.access.scopes import Scope
from rota.acts.act import Act
from rota.acts.recorder import perform
from rota.errors import InputError, NotFoundError
from rota.hub import Hub
from rota.store.jobs import MOST_DEAD, JobRecord, Jobs, State
from rota.tlog.records import Logged
from rota.web.bodies import answered, is_form, queried, received, see
from rota.web.endpoint import HTML, NUMBER, ON_TO_PAGE, Answer, Routes, endpoint
from rota.web.pages import Pages

PAGE = "/queue"
NAMED = 100  # jobs that an act names; of more it holds the count
MOST = 10_000  # jobs in one answer, or changed by one request

Kind = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[^\x00]*$")]
Number = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]


class Filter(msgspec.Struct, forbid_unknown_fields=True):
    """Which jobs to list; an empty kind is every kind."""

    kind: Kind = ""
    state: Literal["", "due", "later", "running", "dead"] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = 100


class Choice(msgspec.Struct, forbid_unknown_fields=True):
    """Jobs to change: by their numbers, and every dead one of a kind."""

    jobs: Annotated[list[Number], msgspec.Meta(max_length=MOST)] = []
    dead: Kind = ""


class Changed(msgspec.Struct, frozen=True):
    """The jobs that were changed; those left out run, or are not on the queue."""

    jobs: list[int]


class JobDocument(msgspec.Struct, frozen=True):
    """A job. `run_after` is when it is due, or died; `payload` is text as stored."""

    id: int
    kind: str
    state: str
    attempts: int
    enqueued_at: datetime
    run_after: datetime
    key: str | None
    worker: str | None
    program_schema: int
    error: str | None
    payload: str


class QueueResource:
    """The jobs."""

    def __init__(self, hub: Hub, pages: Pages) -> None:
        """Show this hub's."""
        self._jobs = Jobs(hub.database)
        self._pages = pages

    @endpoint(
        Scope.QUEUE_READ,
        "Jobs on the queue, the one that is due first at the top",
        answers={200: Answer("The jobs.", document=list[JobDocument])},
        query=Filter,
    )
    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer the list."""
        answered(resp, [_document(job) for job in await self._list(queried(req, Filter))])

    @endpoint(
        Scope.QUEUE_READ,
        "The page of the queue",
        answers={200: Answer("The page.", media=HTML)},
        query=Filter,
        page=True,
    )
    async def on_get_page(self, req: Request, resp: Response) -> None:
        """Answer the page."""
        wanted = queried(req, Filter)
        counts, jobs = await self._jobs.counts(), await self._list(wanted)
        self._pages.show(
            req,
            resp,
            "queue.html",
            counts=counts,
            jobs=jobs,
            wanted=wanted,
            states=list(State),
            may_write=req.context.principal.may(Scope.QUEUE_WRITE),
        )

    async def _list(self, wanted: Filter) -> list[JobRecord]:
        state = State(wanted.state) if wanted.state else None
        return list(await self._jobs.list(wanted.kind or None, state, wanted.limit))


class JobResource:
    """One job."""

    def __init__(self, hub: Hub) -> None:
        """Show this hub's."""
        self._jobs = Jobs(hub.database)

    @endpoint(
        Scope.QUEUE_READ,
        "One job on the queue",
        answers={200: Answer("The job.", document=JobDocument)},
    )
    async def on_get(self, req: Request, resp: Response, job: int) -> None:
        """Answer the job."""
        found = await self._jobs.find(job)
        if found is None:
            raise NotFoundError(
                f"Job {job} is not on the queue: it is done, or dropped.", "`rota queue list` shows all."
            )
        answered(resp, _document(found))


class QueueChangeResource:
    """Retries and drops jobs, as acts."""

    def __init__(self, hub: Hub) -> None:
        """Change this hub's."""
        self._tlog = hub.tlog
        self._jobs = Jobs(hub.database)

    @endpoint(
        Scope.QUEUE_WRITE,
        "Make jobs due now, dead ones with every attempt before them; one that runs is left alone",
        answers={
            200: Answer("The jobs.", document=Changed),
            303: ON_TO_PAGE,
        },
        body=Choice,
        form=True,
    )
    async def on_post_retry(self, req: Request, resp: Response) -> None:
        """Retry them."""
        await self._change(req, resp, "retry")

    @endpoint(
        Scope.QUEUE_WRITE,
        "Remove jobs; one that runs is left alone",
        answers={
            200: Answer("The jobs.", document=Changed),
            303: ON_TO_PAGE,
        },
        body=Choice,
        form=True,
    )
    async def on_post_drop(self, req: Request, resp: Response) -> None:
        """Drop them."""
        await self._change(req, resp, "drop")

    async def _change(self, req: Request, resp: Response, verb: Literal["retry", "drop"]) -> None:
        choice = await received(req, Choice)
        if not choice.jobs and not choice.dead:
            raise InputError("No job is named.", "Name jobs by their numbers, or a kind with `dead`.")
        wanted = set(choice.jobs)
        if choice.dead:
            wanted |= {job.id for job in await self._jobs.list(choice.dead, State.DEAD, MOST_DEAD)}

        async def work(_: Logged) -> list[int]:
            change = self._jobs.retry if verb == "retry" else self._jobs.drop
            return list(await change(sorted(wanted)))

        changed: list[int] = []
        if wanted:
            act = Act(
                kind=f"queue.{verb}",
                actor=req.context.principal.actor,
                subject=f"kind:{choice.dead}" if choice.dead else "jobs",
                details={"jobs": sorted(wanted)[:NAMED], "count": len(wanted)},
            )
            changed = await perform(self._tlog, act, work)
        if is_form(req):
            see(resp, PAGE)
        else:
            answered(resp, Changed(changed))


def add_routes(routes: Routes, hub: Hub, pages: Pages) -> None:
    """Add them to a web process's app."""
    queue, change = QueueResource(hub, pages), QueueChangeResource(hub)
    routes.add("/api/queue", queue)
    routes.add(f"/api/queue/{{job:{NUMBER}}}", JobResource(hub))
    routes.add("/api/queue/retry", change, suffix="retry")
    routes.add("/api/queue/drop", change, suffix="drop")
    routes.add(PAGE, queue, suffix="page")


def _document(job: JobRecord) -> JobDocument:
    return JobDocument(
        id=job.id,
        kind=job.kind,
        state=job.state.value,
        attempts=job.attempts,
        enqueued_at=job.enqueued_at,
        run_after=job.run_after,
        key=job.key,
        worker=job.worker,
        program_schema=job.program_schema,
        error=job.error,
        payload=job.payload,
    )
