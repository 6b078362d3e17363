"""Two processes of one hub on PostgreSQL, for tests of what reaches one from the other."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.postgres import Server, free_port
from tests.support.process import Hub
from tests.support.settings import NO_SETTINGS, postgres_environ
from tests.support.wait import until

from rota import wiring
from rota.coordination.bus.events import Event
from rota.hooks.vault import new_key
from rota.settings import Settings, load
from rota.tlog.keys import private_text

KEY = private_text("hub.example/tlog", b"k" * 32)


@dataclass
class Pair:
    """Two web processes, a and b. `environ` is that of a."""

    environ: Mapping[str, str]
    hubs: list[Hub]
    directory: Path
    names: str = "ab"

    @classmethod
    def start(cls, directory: Path, server: Server, roles: str = "web", **extra: str) -> "Pair":
        """Start both and wait until they are well."""
        schema, sealing = server.new_schema(), new_key()
        pair = cls({}, [], directory)
        try:
            for name in pair.names:
                environ = {
                    **postgres_environ(directory / name, server, schema),
                    "ROTA_SERVER_ROLES": roles,
                    "ROTA_SERVER_NAME": f"web-{name}",
                    "ROTA_TLOG_CHECKPOINT_KEY": KEY,
                    "ROTA_WEBHOOKS_KEY": sealing,
                    "ROTA_TLOG_DIRECTORY": str(directory / "shared"),
                    **extra,
                }
                pair.environ = pair.environ or environ
                pair.hubs.append(Hub.start(directory / f"{name}.log", environ, port=free_port()))
            for hub in pair.hubs:
                hub.wait()
        except BaseException:
            pair.kill()
            raise
        return pair

    @property
    def ports(self) -> tuple[int, int]:
        """Where both listen."""
        first, second = (hub.port or 0 for hub in self.hubs)
        return first, second

    @property
    def settings(self) -> Settings:
        """The settings of a."""
        return load(file=NO_SETTINGS, environ=self.environ).settings

    def restart(self, which: int) -> None:
        """Stop one gracefully and start it again on its port."""
        old = self.hubs[which]
        assert old.stop() == 0, old.output()
        name = self.names[which]
        environ = {
            **self.environ,
            "ROTA_SERVER_NAME": f"web-{name}",
            "ROTA_SERVER_DATA": str(self.directory / name),
        }
        self.hubs[which] = Hub.start(old.log, environ, port=old.port).wait()

    def kill(self) -> None:
        """End both."""
        for hub in self.hubs:
            hub.kill()

    def publish(self, *events: Event) -> None:
        """Publish events, as yet another process of the hub."""
        asyncio.run(self._publish(events))

    async def _publish(self, events: tuple[Event, ...]) -> None:
        bus = wiring.make_bus(self.settings)
        bus.start()
        await until(lambda: bus.state.connected)
        for event in events:
            bus.publish(event)
        await until(lambda: bus.state.waiting == 0)
        await bus.close()
