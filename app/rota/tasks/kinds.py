"""Every kind of job: its name, what it does, and its limits. An unknown kind on the queue is dead at once."""

from rota.artifacts import mirroring
from rota.builds import building
from rota.configuration import opening
from rota.configuration.opening import Opener
from rota.coordination.queue.kinds import Job, Kind
from rota.deploys import asking as deploys
from rota.deploys.driver import ATTEMPTS, LEASE, LIMIT
from rota.hooks import delivering as webhooks
from rota.hooks.delivering import Delivering
from rota.mail import mailer as mail
from rota.tasks.parts import Parts


async def probe(_: Job) -> None:
    """Do nothing: that it is done shows that workers take jobs."""


def every_kind(parts: Parts, delivering: Delivering) -> tuple[Kind, ...]:
    """Return the kinds that this release knows."""
    return (
        Kind(
            building.KIND,
            parts.building.run,
            lease=building.LEASE,
            attempts=building.TRIES,
            limit=building.LIMIT,
            primary=True,
        ),
        Kind(opening.KIND, Opener(parts.settings, parts.database).open, limit=60, primary=True),
        Kind(mirroring.KIND, parts.mirroring.refresh, limit=2 * mirroring.WITHIN, primary=True),
        Kind("queue.probe", probe),
        Kind(deploys.KIND, parts.driver().work, lease=LEASE, attempts=ATTEMPTS, limit=LIMIT),
        Kind(webhooks.KIND, delivering.again, limit=60),
        Kind(mail.KIND, parts.mailer.work, limit=60),
    )
