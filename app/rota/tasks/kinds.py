"""Every kind of job: its name, what it does, and its limits. An unknown kind on the queue is dead at once."""

from rota.coordination.queue.kinds import Job, Kind


async def probe(_: Job) -> None:
    """Do nothing: that it is done shows that workers take jobs."""


KINDS: tuple[Kind, ...] = (Kind("queue.probe", probe),)
