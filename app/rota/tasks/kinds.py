"""Every kind of job: its name, what it does, and its limits. An unknown kind on the queue is dead at once."""

from rota.coordination.queue.kinds import Job, Kind
from rota.hooks import delivering as webhooks
from rota.hooks.delivering import Delivering
from rota.mail import mailer as mail
from rota.mail.mailer import Mailer


async def probe(_: Job) -> None:
    """Do nothing: that it is done shows that workers take jobs."""


def every_kind(delivering: Delivering, mailer: Mailer) -> tuple[Kind, ...]:
    """Return the kinds that this release knows."""
    return (
        Kind("queue.probe", probe),
        Kind(webhooks.KIND, delivering.again, limit=60),
        Kind(mail.KIND, mailer.work, limit=60),
    )
