"""A real server: what its instances, other users and a captured agent may not do, and what outlives what."""

import asyncio
import base64
import json
import random
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.lab.labctl import SWITCH, Labctl
from tests.lab.server import PRIMARY, Server, on_network
from tests.security.test_archive import HOSTILE as ARCHIVES
from tests.support.agent_hub import SERVER, FakeHub, packed
from tests.support.hostile import HOSTILE
from tests.support.wait import until, wait_for

from rota.agent import rootd
from rota.agent.launch import written
from rota.agent.units import UnitsError

PORT = 20001
COPY = "shop.web.1@1"
UNIT = f"rota-app@{COPY}.service"
ARCHIVE = packed({"server.py": SERVER})
HASH = sha256(ARCHIVE).hexdigest()
COMMAND = "/usr/bin/python3 -u server.py"
_AS_AGENT = ("setpriv", "--reuid=rota", "--regid=rota", "--clear-groups", "--")
TRY = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=2).close()
    print("reached")
except OSError as error:
    print(type(error).__name__)
"""
ASK = """
import socket, sys
with socket.socket(socket.AF_UNIX) as peer:
    try:
        peer.connect("/run/rota-rootd.socket")
        peer.sendall(sys.argv[1].encode())
        peer.shutdown(socket.SHUT_WR)
        print(peer.makefile().read())
    except OSError as error:
        print(type(error).__name__)
"""
# Flips what stands at a path between a directory, a link to a directory of root's, and nothing.
REFUSED = '{"refused": "this user may ask for nothing"}'
RACER = """
import os, sys
path = sys.argv[1]
for turn in range(100_000):
    try:
        os.symlink("/etc", path)
        os.unlink(path)
        os.mkdir(path)
        os.rmdir(path)
    except OSError:
        pass
"""


@pytest.fixture(scope="module")
def lab(new_lab: Callable[[str], Labctl]) -> Labctl:
    made = new_lab("")
    made("up", SWITCH)
    return made


@pytest.fixture(scope="module")
def server(lab: Labctl, tmp_path_factory: pytest.TempPathFactory) -> Server:
    return Server(lab, "s1", "10.78.0.11").make(tmp_path_factory.mktemp("shared"), program=True)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("archive") / "archive"
    path.write_bytes(ARCHIVE)
    return path


def launched(server: Server, command: str = COMMAND, port: int = PORT) -> dict[str, Any]:
    own = {"PATH": b"/usr/bin:/bin", "HOST": server.address.encode(), "PORT": str(port).encode()}
    return {"configuration": base64.b64encode(written(command, own)).decode()}


def ask(server: Server, verb: str, descriptor: int | None = None, **fields: object) -> dict[str, object]:
    return rootd.ask(server.socket, verb, descriptor, **fields)


def up(server: Server, archive: Path, copy: str = COPY, command: str = COMMAND, **more: int) -> None:
    """Have a copy run, whatever there was before."""
    with archive.open("rb") as stream:
        ask(server, "unpack", stream.fileno(), sha256=HASH, size=len(ARCHIVE))
    fields = {"port": PORT, "memory": 0, "processors": 0, "grace": 5, **more}
    ask(server, "place", copy=copy, sha256=HASH, **fields)
    ask(server, "start", copy=copy, **launched(server, command, fields["port"]))
    wait_for(lambda: shown(server, "ActiveState", copy) == "active")


def down(server: Server, copy: str = COPY) -> None:
    wait_for(lambda: ask(server, "stop", copy=copy) == {"state": "stopped"}, 20)


def shown(server: Server, name: str, copy: str = COPY) -> str:
    return server.inside("systemctl", "show", f"--property={name}", "--value", f"rota-app@{copy}.service")


def answers(server: Server, port: int = PORT) -> bool:
    done = server.lab.attempt(
        "net", "--", "curl", "-sS", "--max-time", "2", f"http://{server.address}:{port}/"
    )
    return done.returncode == 0


def test_rootd_is_gone_when_nobody_asks_and_there_when_somebody_does(server: Server) -> None:
    with pytest.raises(UnitsError, match="no such verb"):
        ask(server, "hello")
    assert server.inside("systemctl", "show", "--property=ActiveState", "--value", "rota-rootd") == "active"
    assert "refused" in server.inside("journalctl", "--unit=rota-rootd", "--output=cat")


def test_an_instance_runs_as_its_apps_user_and_sees_its_artifact_read_only(
    server: Server, archive: Path
) -> None:
    up(server, archive)
    assert wait_for(lambda: answers(server))
    pid = shown(server, "MainPID")
    assert server.inside("stat", "--format=%U", f"/proc/{pid}") == "app-shop"
    owner = server.inside("find", "/var/lib/rota-server/artifacts", "!", "-user", "root")
    held = server.file(f"/var/lib/rota-server/configuration/{COPY}").stat()
    assert (owner, held.st_uid, held.st_mode & 0o777) == ("", 0, 0o600)
    inner = ["nsenter", f"--target={pid}", "--mount", "--setuid", "0", "--"]
    assert "ro," in server.inside(*inner, "findmnt", "--noheadings", "--output=OPTIONS", "/app")
    assert server.inside(*inner, "ls", "/app") == "server.py"
    assert server.inside(*inner, "find", "/tmp", "-mindepth", "1") == ""  # noqa: S108 - its own
    down(server)
    assert not server.file(f"/var/lib/rota-server/configuration/{COPY}").exists()


def test_its_port_admits_the_primary_alone(server: Server, archive: Path) -> None:
    up(server, archive)
    assert wait_for(lambda: answers(server))
    lab = server.lab
    lab("net", "--", "ip", "address", "add", "10.78.0.77/24", "dev", _bridge(lab))
    other = [
        "curl",
        "-sS",
        "--max-time",
        "2",
        "--interface",
        "10.78.0.77",
        f"http://{server.address}:{PORT}/",
    ]
    assert lab.attempt("net", "--", *other).returncode != 0
    other[5] = PRIMARY
    assert lab.attempt("net", "--", *other).returncode == 0
    assert server.python(TRY, server.address, str(PORT), user="rota") == "reached"
    for user in ("nobody", "app-shop"):
        assert server.python(TRY, server.address, str(PORT), user=user) == "ConnectionRefusedError"
    down(server)


def _bridge(lab: Labctl) -> str:
    (link,) = json.loads(lab("net", "--", "ip", "-json", "address", "show", "to", f"{PRIMARY}/32"))
    return str(link["ifname"])


def test_an_instance_reaches_neither_anothers_port_nor_the_private_network(
    server: Server, archive: Path
) -> None:
    up(server, archive)
    up(server, archive, "blog.web.1@1", port=PORT + 1)
    assert wait_for(lambda: answers(server) and answers(server, PORT + 1))
    for host, port in ((server.address, PORT), ("127.0.0.1", PORT), (server.address, 22), (PRIMARY, 22)):
        assert server.python(TRY, host, str(port), user="app-blog") == "ConnectionRefusedError", (host, port)
    down(server)
    down(server, "blog.web.1@1")


def test_it_starts_at_boot_without_the_agent_or_the_hub_and_is_guarded(server: Server, archive: Path) -> None:
    up(server, archive)
    server.lab("reboot", "s1")
    server.lab("ready", "s1")
    assert wait_for(lambda: answers(server), 30)
    assert f"dport {{ {PORT} }}" in server.inside("nft", "list", "table", "inet", "rota_apps").replace(
        f"dport {PORT} ", f"dport {{ {PORT} }} "
    )
    assert server.python(TRY, server.address, str(PORT), user="nobody") == "ConnectionRefusedError"
    down(server)


def test_a_crashing_instance_is_given_up_after_five_starts_and_can_be_started_again(
    server: Server, archive: Path
) -> None:
    with archive.open("rb") as stream:
        ask(server, "unpack", stream.fileno(), sha256=HASH, size=len(ARCHIVE))
    ask(server, "place", copy=COPY, sha256=HASH, port=PORT, memory=0, processors=0, grace=5)
    ask(server, "start", copy=COPY, **launched(server, "false"))
    assert wait_for(lambda: shown(server, "ActiveState") == "failed", 30)
    assert int(shown(server, "NRestarts")) <= 5
    ask(server, "start", copy=COPY, configuration="")
    wait_for(lambda: shown(server, "ActiveState") != "failed")
    down(server)


def test_two_hundred_hostile_names_change_nothing(server: Server) -> None:
    before = _state(server)
    fields: dict[str, Any] = {
        "copy": COPY,
        "sha256": HASH,
        "port": PORT,
        "memory": 0,
        "processors": 0,
        "grace": 5,
    }
    for name in HOSTILE:
        for verb, good in (("place", fields), ("stop", {"copy": COPY}), ("forget", {"sha256": HASH})):
            for field in good:
                with pytest.raises(UnitsError, match="not of its form"):
                    ask(server, verb, **{**good, field: name})
    assert _state(server) == before


def _state(server: Server) -> str:
    """Return a listing of all that rootd may change, but for times."""
    places = ["/etc/systemd/system", "/var/lib/rota-server", "/etc/passwd", "/etc/shadow", "/etc/group"]
    return server.inside("find", *places, "-printf", "%p %M %U %s %l\\n")


def test_nobody_but_the_agent_and_root_may_ask(server: Server) -> None:
    request = json.dumps({"verb": "stop", "copy": COPY})
    assert "stopped" in server.inside(*_AS_AGENT, "python3", "-c", ASK, request)
    assert server.python(ASK, request, user="nobody") == "PermissionError"
    server.inside("chmod", "666", "/run/rota-rootd.socket")
    for user in ("nobody", "daemon", "rota-unpack"):
        assert server.python(ASK, request, user=user) in ("ConnectionResetError", "BrokenPipeError", REFUSED)
    server.inside("chmod", "660", "/run/rota-rootd.socket")


@pytest.mark.parametrize(
    "name", ["parent", "link out", "written through a link", "device", "twice", "cut", "hard link"]
)
def test_a_hostile_archive_leaves_nothing_and_touches_nothing(
    server: Server, tmp_path: Path, name: str
) -> None:
    data = ARCHIVES[name]
    path = tmp_path / "archive"
    path.write_bytes(data)
    before = _state(server)
    with path.open("rb") as stream, pytest.raises(UnitsError, match="the archive: "):
        ask(server, "unpack", stream.fileno(), sha256=sha256(data).hexdigest(), size=len(data))
    assert _state(server) == before


def test_an_archive_that_changes_while_it_is_read_is_refused_or_whole(server: Server, tmp_path: Path) -> None:
    data = packed({"a": "x" * 3_000_000})
    path, digest = tmp_path / "archive", sha256(data).hexdigest()
    flip = random.Random(1)  # noqa: S311
    for _ in range(5):
        path.write_bytes(data)
        with path.open("r+b") as stream:
            stream.seek(flip.randrange(1000, 2_000_000))
            stream.write(b"y")
            stream.flush()
            with pytest.raises(UnitsError, match="another SHA-256"):
                ask(server, "unpack", stream.fileno(), sha256=digest, size=len(data))
    assert not server.file(f"/var/lib/rota-server/artifacts/{digest}").exists()


def test_a_race_for_a_path_wins_nothing(server: Server, archive: Path) -> None:
    """Whoever may write beside rootd's files could only race there, and nobody may."""
    for path in ("/var/lib/rota-server/x", f"/var/lib/rota-server/artifacts/{HASH}", "/etc/systemd/system/x"):
        for user in ("rota", "rota-unpack", "nobody"):
            code = "import os, sys\ntry: os.mkdir(sys.argv[1])\nexcept PermissionError: print('denied')"
            assert server.python(code, path, user=user) == "denied"
    canary = server.inside("sha256sum", "/etc/passwd", "/etc/shadow", "/etc/group")
    racing = server.lab.argv("exec", "s1", "--", *_AS_AGENT, "python3", "-c", RACER)
    with subprocess.Popen([*racing, f"/tmp/{COPY}"], stdin=subprocess.DEVNULL) as racer:  # noqa: S108
        for _ in range(5):
            up(server, archive)
            down(server)
        racer.terminate()
    kept = server.inside("sha256sum", "/etc/passwd", "/etc/shadow", "/etc/group")
    assert kept == canary


def test_the_agent_is_killed_at_every_step_and_no_instance_restarts(server: Server) -> None:
    """The agent ends again and again while orders come; what runs never notices, each order counts once."""
    on_network(server.lab, _killed(server))


async def _killed(server: Server) -> None:
    state = server.file("/var/lib/rota-agent")
    async with FakeHub(first_port=20000).serving(PRIMARY) as hub:
        hub.fill(2)
        server.inside("install", "-d", "-o", "rota", "-g", "rota", "-m", "700", "/var/lib/rota-agent")
        (state / "invitation.json").write_bytes(hub.invitation("s1"))
        server.inside("chown", "rota:rota", "/var/lib/rota-agent/invitation.json")
        server.inside("chmod", "600", "/var/lib/rota-agent/invitation.json")
        server.inside("systemctl", "start", "rota-agent")
        await until(lambda: hub.reports, 30)
        url = f"http://{server.address}:8427"
        place, start = hub.place(hub.release(), port=PORT), hub.start(A=b"1")
        assert (await hub.order(url, place)).state == "done"
        assert (await hub.order(url, start)).state == "done"
        await until(lambda: hub.reports[-1].instances and hub.reports[-1].instances[0].healthy, 30)
        pid = shown(server, "MainPID")
        rss = server.inside("sh", "-c", "grep VmRSS /proc/$(systemctl show -P MainPID rota-agent)/status")
        print("agent:", rss)
        assert int(rss.split()[1]) <= 45 * 1024

        chaos = asyncio.create_task(_kill(server))
        try:
            for number in range(2, 8):
                other = f"shop.web.{number}"
                for order in (
                    hub.place(0 + len(hub.entries) - 1, other, PORT + number),
                    hub.start(other),
                    hub.stop(other),
                ):
                    assert (await hub.order(url, order)).state == "done"
        finally:
            chaos.cancel()
            with suppress(asyncio.CancelledError):
                await chaos
        assert shown(server, "MainPID") == pid
        assert shown(server, "NRestarts") == "0"
        await until(lambda: [each.instance for each in hub.reports[-1].instances] == ["shop.web.1"], 30)
        assert len(hub.enrols) == 1
        print("kills survived:", server.inside("systemctl", "show", "-P", "NRestarts", "rota-agent"))
        server.inside("systemctl", "restart", "rota-agent")
        seen = len(hub.reports)
        await until(lambda: len(hub.reports) > seen + 1 and hub.reports[-1].instances[0].healthy, 30)
        assert shown(server, "MainPID") == pid
        assert (await hub.order(url, hub.stop())).state == "done"
        server.inside("systemctl", "stop", "rota-agent")


async def _kill(server: Server) -> None:
    """Kill the agent at moments that differ each time."""
    moments = random.Random(7)  # noqa: S311
    while True:
        await asyncio.sleep(moments.uniform(0.2, 1.6))
        argv = server.lab.argv("exec", "s1", "--", "systemctl", "kill", "--signal=KILL", "rota-agent")
        process = await asyncio.create_subprocess_exec(*argv, stdout=-3, stderr=-3, stdin=-3)
        await process.wait()


@pytest.fixture(scope="module")
def limited(lab: Labctl, tmp_path_factory: pytest.TempPathFactory) -> Server:
    host = Server(lab, "s2", "10.78.0.12")
    return host.make(tmp_path_factory.mktemp("limited"), "--suite=bookworm", "--cgroup=limits")


def test_memory_and_processors_are_limited_by_effect(limited: Server, archive: Path) -> None:
    eat = "/usr/bin/python3 -c 'import time; x = bytearray(300 << 20); time.sleep(600)'"
    up_without_waiting = {"memory": 64 << 20, "processors": 100}
    with archive.open("rb") as stream:
        ask(limited, "unpack", stream.fileno(), sha256=HASH, size=len(ARCHIVE))
    ask(limited, "place", copy=COPY, sha256=HASH, port=PORT, grace=5, **up_without_waiting)
    ask(limited, "start", copy=COPY, **launched(limited, eat))
    assert wait_for(lambda: int(shown(limited, "NRestarts")) >= 1, 30)
    assert shown(limited, "Result") in ("signal", "oom-kill", "success")
    down(limited)
    spin = "/usr/bin/python3 -uc 'import time\nwhile True: pass'"
    ask(limited, "place", copy=COPY, sha256=HASH, port=PORT, grace=5, **up_without_waiting)
    ask(limited, "start", copy=COPY, **launched(limited, spin))
    assert wait_for(lambda: shown(limited, "ActiveState") == "active")
    pid, began = shown(limited, "MainPID"), time.monotonic()
    used = _cpu(limited, pid)
    wait_for(lambda: time.monotonic() - began > 3)
    share = (_cpu(limited, pid) - used) / (time.monotonic() - began)
    print(f"a tenth of a processor is {share:.2f}")
    assert share < 0.3
    down(limited)


def _cpu(server: Server, pid: str) -> float:
    """Return the seconds of processor time that a process has used."""
    fields = server.inside("cat", f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
