"""Units as systemd's, through rootd. What systemd says of them any user may ask."""

import asyncio
import base64
from collections.abc import Iterator, Mapping
from pathlib import Path

from rota.agent import rootd
from rota.agent.launch import written
from rota.agent.units import Seen, State, Unit, UnitsError
from rota.logs.spool import last_lines

LOOKS = ("Id", "ActiveState", "SubState", "Result", "NRestarts", "ExecMainCode", "ExecMainStatus")
PATTERNS = ("rota-app@*.service", "rota-run@*.service")
PAUSE = 0.1  # seconds between two looks at what is stopping
ASIDE = 60  # seconds beyond its grace that a copy may take to end
LINES = "20"
SPOOLS = Path("/var/lib/rota-log")  # where the reader of output keeps what it has read
BY_SIGNAL = ("2", "3")  # ExecMainCode: killed, dumped
_STATES: dict[str, State] = {"active": "running", "failed": "failed", "inactive": "ended"}


class SystemdUnits:
    """The units of this host."""

    def __init__(self, socket: Path = rootd.SOCKET, within: tuple[str, ...] = ()) -> None:
        """Ask rootd at this socket, and systemd by programs that run `within` a command such as nsenter."""
        self._socket = socket
        self._within = within

    async def unpack(self, sha256: str, size: int, archive: Path | None) -> bool:
        """Have an artifact unpacked by rootd, which is passed the archive and no name."""
        if archive is None:
            try:
                await self._ask("unpack", sha256=sha256, size=size)
            except UnitsError as error:
                if "no archive was passed" in str(error):
                    return False
                raise
            return True
        with archive.open("rb") as stream:
            await self._ask("unpack", descriptor=stream.fileno(), sha256=sha256, size=size)
        return True

    async def forget(self, sha256: str) -> None:
        """Delete an artifact."""
        await self._ask("forget", sha256=sha256)

    async def place(self, unit: Unit) -> None:
        """Have the unit's drop-in written."""
        await self._ask(
            "place",
            copy=unit.copy,
            sha256=unit.sha256,
            port=unit.port,
            memory=unit.memory,
            processors=unit.processors,
            grace=unit.grace,
        )

    async def start(self, copy: str, command: str, environment: Mapping[str, bytes] | None) -> None:
        """Start it, with its configuration in a file that only root reads."""
        data = b"" if environment is None else written(command, environment)
        await self._ask("start", copy=copy, configuration=base64.b64encode(data).decode())

    async def stop(self, copy: str) -> None:
        """Stop it, and wait until systemd says that it has ended, or has killed it."""
        async with asyncio.timeout(600 + ASIDE):
            while (await self._ask("stop", copy=copy))["state"] != "stopped":
                await self._ended(copy)

    async def _ended(self, copy: str) -> None:
        """Wait until systemd says that a copy has ended."""
        while True:
            await asyncio.sleep(PAUSE)
            seen = (await self._states(_unit(copy))).get(copy)
            if seen is None or seen.state in ("ended", "failed"):
                return

    async def seen(self) -> Mapping[str, Seen]:
        """Return what systemd says of every unit of ours that it has loaded."""
        return await self._states(*PATTERNS)

    async def last_lines(self, copy: str) -> str:
        """Return the last lines that the reader of output has of it, or the journal, where one may look."""
        if lines := await asyncio.to_thread(last_lines, SPOOLS / copy):
            return lines
        argv = [
            "journalctl",
            f"--unit={_unit(copy)}",
            "--lines",
            LINES,
            "--output=cat",
            "--quiet",
            "--no-pager",
        ]
        try:
            return await _output([*self._within, *argv])
        except UnitsError:
            return ""

    async def _ask(self, verb: str, descriptor: int | None = None, **fields: object) -> dict[str, str]:
        return await asyncio.to_thread(rootd.ask, self._socket, verb, descriptor, **fields)

    async def _states(self, *units: str) -> dict[str, Seen]:
        argv = ["systemctl", "show", f"--property={','.join(LOOKS)}", "--", *units]
        return dict(_read(await _output([*self._within, *argv])))


def _unit(copy: str) -> str:
    run = "." in copy.partition("@")[2]
    return f"rota-{'run' if run else 'app'}@{copy}.service"


def _read(text: str) -> Iterator[tuple[str, Seen]]:
    """Yield the copies and their states from what `systemctl show` prints."""
    for block in text.strip().split("\n\n"):
        values = dict(line.partition("=")[::2] for line in block.splitlines())
        name = values.get("Id", "")
        if "@" not in name or values.get("ActiveState") is None:
            continue
        copy = name.partition("@")[2].removesuffix(".service")
        yield copy, seen_of(values, run=name.startswith("rota-run@"))


def seen_of(values: Mapping[str, str], *, run: bool) -> Seen:
    """Return how a unit is, from systemd's properties."""
    active, sub = values["ActiveState"], values.get("SubState", "")
    restarts = int(values.get("NRestarts") or 0)
    status = int(values.get("ExecMainStatus") or 0)
    code = (128 + status if values.get("ExecMainCode") in BY_SIGNAL else status) & 255
    if sub.startswith("auto-restart"):
        return Seen("restarting", restarts, reason=_reason(values, code))
    if run and (sub == "exited" or active == "failed"):
        started = active != "failed" or values.get("Result") in (
            "exit-code",
            "signal",
            "core-dump",
            "oom-kill",
        )
        return Seen("ended" if started else "failed", exit_code=code, reason=_reason(values, code))
    state = _STATES.get(active, "starting")
    return Seen(state, restarts, reason="" if state == "running" else _reason(values, code))


def _reason(values: Mapping[str, str], code: int) -> str:
    result = values.get("Result", "success")
    if result == "success":
        return f"it ended with exit code {code}" if code else ""
    if result == "start-limit-hit":
        return "it ended again and again soon after its start"
    if result == "oom-kill":
        return "it used more memory than its limit"
    return f"it ended: {result}, exit code {code}"


async def _output(argv: list[str]) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await process.communicate()
    except OSError as error:
        raise UnitsError(f"{argv[0]} cannot be run: {error}") from error
    if process.returncode != 0:
        raise UnitsError(f"{argv[0]}: {errors.decode(errors='replace').strip()[:300]}")
    return output.decode(errors="replace")
