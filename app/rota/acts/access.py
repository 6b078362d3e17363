"""The log as this process may use it: a web process appends, one that is only a worker reads."""

from rota.acts.key import checkpoint_signer, need_signer, read_policy
from rota.acts.telling import TellingLog
from rota.coordination.bus.bus import Bus
from rota.roles import Role
from rota.settings import Settings
from rota.store.database import Database
from rota.store.tlog import SignedRows
from rota.tlog.disk import LocalDisk
from rota.tlog.log import AppendingLog, ReadingLog, Tlog
from rota.tlog.mounts import check_mount
from rota.tlog.records import Records, Rules
from rota.tlog.signing import SignedFile
from rota.tlog.turn import sleep_longer


def make_tlog(settings: Settings, database: Database, bus: Bus | None = None) -> Tlog:
    """Return the log, not yet opened. Raises ConfigurationError for a bad place, key or policy.

    The first append asks the database for the hub's generation, and for how much
    of the log is signed: an older copy of the directory is never appended to.
    With a bus, pages and webhooks are told of each act.
    """
    mount = check_mount(settings.tlog_directory)
    disk = LocalDisk(settings.tlog_directory)
    if Role.WEB not in settings.roles:
        return ReadingLog(disk)
    if settings.sqlite:
        checkpoint_signer(settings)  # a bad one stops the program; a missing one is made later
    else:
        need_signer(settings)
    read_policy(settings)

    # A cluster's directory may be mounted after this process has started.
    shared = mount.shared or not settings.sqlite
    rules = Rules(shared=True, sleep=sleep_longer) if shared else Rules()

    async def open_records() -> Records:
        signer = need_signer(settings)
        generation, signed = await SignedRows(database).ground(signer.verifier.name)
        kept = SignedFile(disk)
        return Records(disk, lambda: max(signed, kept.size()), generation, rules)

    appending = AppendingLog(disk, open_records)
    return appending if bus is None else TellingLog(appending, bus)
