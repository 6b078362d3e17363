"""What an agent must not forget: its key, whom it obeys, what was last said both ways, and what is placed."""

from pathlib import Path

import msgspec

from rota.agent.files import delete, load, save, write
from rota.coordination.epoch import Epoch
from rota.errors import ConfigurationError, MalformedError
from rota.wire.answer import Answer
from rota.wire.channel import Memory, Outgoing
from rota.wire.keys import SigningKey
from rota.wire.statements import Health


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """How this server stands to its hub. `heard` is the last number taken, `reply` its answer."""

    hub: str
    url: str
    hub_keys: list[str]
    log_key: str
    session_in: str
    session_out: str
    first_port: int
    ports: int
    report_every: int
    primary_address: str
    heard: int = 0
    generation: int = 0
    epoch: int = 0
    reply: Answer | None = None
    said: int = 0

    @property
    def memory(self) -> Memory:
        """What the channel judges by."""
        return Memory(self.session_in, self.heard, Epoch(self.generation, self.epoch))

    def outgoing(self, sender: str) -> Outgoing:
        """Return what the next message is written with."""
        return Outgoing(sender, self.hub, self.session_out, self.said + 1)


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of an instance, or a run, as it was placed here. Times are in seconds since 1970."""

    instance: str
    release: int
    process_type: str
    port: int
    command: str
    artifact: str
    sha256: str
    size: int
    environment: dict[str, str]
    health: Health
    memory: int
    processors: int
    grace: int
    run: int = 0
    started_at: float | None = None
    exit_code: int | None = None
    ended: bool = False

    @property
    def copy(self) -> str:
        """Its name: shop.web.1@12, and of a run shop.web.1@12.7."""
        return copy_of(self.instance, self.release, self.run)


def copy_of(instance: str, release: int, run: int = 0) -> str:
    """Return the name of a copy, or of a run."""
    return f"{instance}@{release}" + (f".{run}" if run else "")


class AgentMemory:
    """The files of one agent. Every method may block; what is set is on the disk when it returns."""

    def __init__(self, directory: Path) -> None:
        """Read what is there, and make the key where it is missing. Raises ConfigurationError."""
        self.directory = directory
        self.key = self._key("key")
        self.witness_key = self._key("witness-key")
        self.link = load(directory / "link.json", Link)
        self.placements = {
            each.copy: each
            for path in sorted((directory / "placements").glob("[!.]*.json"))
            if (each := load(path, Placement)) is not None
        }
        self.used = load(directory / "used.json", dict[str, tuple[str, float]]) or {}

    @property
    def invitation(self) -> Path:
        """Where an invitation waits until it is accepted."""
        return self.directory / "invitation.json"

    def set_link(self, link: Link) -> None:
        """Keep how this server stands to its hub."""
        save(self.directory / "link.json", link)
        self.link = link

    def put(self, placement: Placement) -> None:
        """Keep a placement."""
        save(self.directory / "placements" / f"{placement.copy}.json", placement)
        self.placements[placement.copy] = placement

    def drop(self, copy: str) -> None:
        """Forget a placement."""
        delete(self.directory / "placements" / f"{copy}.json")
        self.placements.pop(copy, None)

    def note_use(self, sha256: str, artifact: str, now: float | None) -> None:
        """Note when an artifact was last used, or forget it."""
        self.used.pop(sha256, None)
        if now is not None:
            self.used[sha256] = (artifact, now)
        save(self.directory / "used.json", self.used)

    def next_key(self) -> SigningKey | None:
        """Return the key that is to replace this one, if the operator asked for one."""
        return self._key("key.next") if (self.directory / "key.next").exists() else None

    def make_next_key(self) -> SigningKey:
        """Make the key that is to replace this one."""
        return self._key("key.next")

    def change_key(self, key: SigningKey) -> None:
        """Sign with another key from now on."""
        write(self.directory / "key", key.written().encode() + b"\n")
        delete(self.directory / "key.next")
        self.key = key

    def _key(self, name: str) -> SigningKey:
        path = self.directory / name
        try:
            if path.stat().st_mode & 0o077:
                raise ConfigurationError(f"{path} may be read by others: chmod 600 it, and enrol anew")
            return SigningKey.read(path.read_text(encoding="ascii").strip())
        except FileNotFoundError:
            key = SigningKey.new()
            write(path, key.written().encode() + b"\n")
            return key
        except (MalformedError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"{path} holds no key: put it back, or delete it and enrol anew"
            ) from error
