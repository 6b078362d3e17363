"""Every kind of job: its name, what it does, and its limits. An unknown kind on the queue is dead at once."""

from rota.coordination.queue.kinds import Job, Kind
from rota.deploys import asking as deploys
from rota.deploys.driver import ATTEMPTS, LEASE, LIMIT, Driver
from rota.hooks import delivering as webhooks
from rota.hooks.delivering import Delivering
from rota.mail import mailer as mail
from rota.mail.mailer import Mailer


async def probe(_: Job) -> None:
    """Do nothing: that it is done shows that workers take jobs."""


def every_kind(delivering: Delivering, mailer: Mailer, driver: Driver) -> tuple[Kind, ...]:
    """Return the kinds that this release knows."""
    return (
        Kind("queue.probe", probe),
        Kind(deploys.KIND, driver.work, lease=LEASE, attempts=ATTEMPTS, limit=LIMIT),
        Kind(webhooks.KIND, delivering.again, limit=60),
        Kind(mail.KIND, mailer.work, limit=60),
    )
