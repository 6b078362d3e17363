"""What rootd takes, and what it writes; that it does so for real is proved on hosts (tests/lab)."""

import ast
import base64
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.hostile import HOSTILE

from rota.rootd import artifacts, firewall, instances, listener
from rota.rootd.fields import LONGEST_REQUEST, RefusedError, checked, parsed
from rota.rootd.instances import drop_in, template
from rota.rootd.places import Places
from rota.rootd.verbs import VERBS, act

PACKAGE = Path(instances.__file__).parent
HASH = "ab" * 32
PLACE = {"copy": "shop.web.1@12", "sha256": HASH, "port": 20001, "memory": 0, "processors": 0, "grace": 10}
GOOD: dict[str, dict[str, Any]] = {
    "unpack": {"sha256": HASH, "size": 10240},
    "forget": {"sha256": HASH},
    "place": PLACE,
    "start": {"copy": "shop.web.1@12", "configuration": base64.b64encode(b"run\0A=b\0").decode()},
    "stop": {"copy": "shop.web.1@12"},
}


@pytest.fixture
def places(tmp_path: Path) -> Places:
    made = Places(
        artifacts=tmp_path / "state" / "artifacts",
        placed=tmp_path / "state" / "placed",
        configuration=tmp_path / "state" / "configuration",
        firewall=tmp_path / "state" / "firewall.nft",
        units=tmp_path / "units",
        server=tmp_path / "server.json",
    )
    made.make()
    (made.units / "multi-user.target.wants").mkdir(parents=True)
    made.server.write_text(json.dumps({"primary": "10.79.0.1", "network": "10.79.0.0/24"}))
    (made.artifacts / HASH).mkdir()
    return made


class Programs:
    """Stands for the programs that rootd runs: notes what was run, and plays systemd's part."""

    def __init__(self) -> None:
        self.ran: list[list[str]] = []
        self.state = "inactive"

    def __call__(self, argv: list[str], given: str = "") -> str:
        self.ran.append([*argv, given] if given else argv)
        if argv[:2] == ["systemctl", "show"]:
            return self.state + "\n"
        if argv[:2] == ["systemctl", "start"]:
            self.state = "active"
        if argv[:2] == ["systemctl", "reset-failed"]:
            self.state = "inactive"
        return ""

    def verbs(self) -> list[str]:
        return [argv[1] for argv in self.ran if argv[0] == "systemctl" and argv[1] != "show"]


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Programs:
    made = Programs()
    for module in (instances, firewall):
        monkeypatch.setattr(module, "run", made)
    return made


def ask(places: Places, verb: str, **fields: object) -> dict[str, Any]:
    return act(places, {"verb": verb, **fields}, None)


def test_rootd_is_short_and_needs_nothing_of_the_rest() -> None:
    modules = sorted(PACKAGE.glob("*.py"))
    assert sum(len(each.read_text().splitlines()) for each in modules) <= 600
    for each in modules:
        for item in ast.walk(ast.parse(each.read_text())):
            names = [item.module or ""] if isinstance(item, ast.ImportFrom) else []
            names += [alias.name for alias in item.names] if isinstance(item, ast.Import) else []
            for name in names:
                assert name.split(".")[0] in sys.stdlib_module_names or name.startswith("rota.rootd"), each


@pytest.mark.parametrize("verb", ["", "__class__", "place.__init__", "Place", "exec", None, 1, ["place"], {}])
def test_what_is_no_verb_is_refused(places: Places, verb: object) -> None:
    with pytest.raises(RefusedError, match="no such verb: unpack, forget, place, start, stop"):
        act(places, {"verb": verb, **GOOD["place"]}, None)


@pytest.mark.parametrize("verb", VERBS)
def test_no_hostile_name_passes_in_any_field(verb: str) -> None:
    assert checked(VERBS[verb][0], GOOD[verb]) == GOOD[verb]
    for name in HOSTILE:
        for field in set(GOOD[verb]) - {"configuration"}:  # which is data, and no name
            with pytest.raises(RefusedError):
                checked(VERBS[verb][0], {**GOOD[verb], field: name})


@pytest.mark.parametrize(
    "wrong",
    [
        {"port": 1023},
        {"port": 65536},
        {"port": True},
        {"port": 20000.0},
        {"port": None},
        {"memory": -1},
        {"grace": 0},
        {"grace": 601},
        {"copy": "shop.web.1"},
        {"copy": "shop.web.0@1"},
        {"copy": "shop.web.1@0"},
        {"copy": "shop.web.1@12\n"},
        {"copy": "shop.web.1@12.0"},
        {"copy": "s" * 24 + ".web.1@1"},
        {"sha256": HASH.upper()},
        {"sha256": HASH[:-1]},
        {"more": 1},
    ],
)
def test_a_field_out_of_bounds_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(RefusedError):
        checked(VERBS["place"][0], {**PLACE, **wrong})
    with pytest.raises(RefusedError, match="the fields of this verb are"):
        checked(VERBS["place"][0], {"copy": "shop.web.1@12"})


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"1", b"{", b'{"a":1,"a":2}', b"\xff", b"[" * 100_000, b'{"verb":' * 10_000, b"nan"]
)
def test_a_request_is_one_object(data: bytes) -> None:
    with pytest.raises(RefusedError):
        parsed(data)


@given(st.binary())
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        assert isinstance(parsed(data), dict)
    except RefusedError:
        return


def test_a_configuration_has_a_bound(places: Places, programs: Programs) -> None:
    ask(places, "place", **PLACE)
    for data, reason in ((b"x" * (512 * 1024 + 1), "longer than"), (None, "no base64")):
        given_ = base64.b64encode(data).decode() if data else "abc"
        with pytest.raises(RefusedError, match=reason):
            ask(places, "start", copy="shop.web.1@12", configuration=given_)
    assert programs.state == "inactive"


def test_a_copy_is_placed_started_and_stopped(places: Places, programs: Programs) -> None:
    copy, unit = PLACE["copy"], "rota-app@shop.web.1@12.service"
    assert ask(places, "place", **PLACE) == {"state": "placed"}
    kept = places.units / f"{unit}.d" / "rota.conf"
    assert f"BindReadOnlyPaths={places.artifacts}/{HASH}:/app" in kept.read_text().splitlines()
    assert programs.ran[0][:2] == ["systemd-sysusers", "-"]
    assert programs.ran[0][2].startswith("u app-shop - ")
    assert "20001" in places.firewall.read_text()

    assert ask(places, "start", **GOOD["start"]) == {"state": "started"}
    held = places.configuration / str(copy)
    assert (held.read_bytes(), held.stat().st_mode & 0o777) == (b"run\0A=b\0", 0o600)
    assert (places.units / "multi-user.target.wants" / unit).is_symlink()

    assert ask(places, "stop", copy=copy) == {"state": "stopping"}
    assert not held.exists()
    with pytest.raises(RefusedError, match="is stopping"):
        ask(places, "start", **GOOD["start"])
    programs.state = "failed"
    assert ask(places, "stop", copy=copy) == {"state": "stopped"}
    assert not kept.parent.exists()
    assert not (places.units / "multi-user.target.wants" / unit).is_symlink()
    assert "20001" not in places.firewall.read_text()
    assert ask(places, "stop", copy=copy) == {"state": "stopped"}


def test_what_runs_is_never_started_again(places: Places, programs: Programs) -> None:
    ask(places, "place", **PLACE)
    ask(places, "start", **GOOD["start"])
    for state in ("active", "activating", "reloading", "deactivating"):
        programs.state = state
        ask(places, "place", **PLACE)
        ask(places, "start", **GOOD["start"])
        with pytest.raises(RefusedError, match="placed otherwise"):
            ask(places, "place", **{**PLACE, "port": 20002})
    assert programs.verbs() == ["daemon-reload", "start"]


def test_a_run_has_a_unit_of_its_own_and_is_not_started_at_boot(places: Places, programs: Programs) -> None:
    run = {**PLACE, "copy": "shop.web.1@12.7"}
    ask(places, "place", **run)
    ask(places, "start", copy=run["copy"], configuration=GOOD["start"]["configuration"])
    assert template("shop.web.1@12.7") == "rota-run@"
    assert programs.ran[-1][-1] == "rota-run@shop.web.1@12.7.service"
    assert list((places.units / "multi-user.target.wants").iterdir()) == []


def test_what_does_not_go_with_how_things_stand_is_refused(places: Places, programs: Programs) -> None:
    with pytest.raises(RefusedError, match="not placed"):
        ask(places, "start", **GOOD["start"])
    with pytest.raises(RefusedError, match="not unpacked"):
        ask(places, "place", **{**PLACE, "sha256": "cd" * 32})
    ask(places, "place", **PLACE)
    with pytest.raises(RefusedError, match=r"port 20001 is that of shop.web.1@12"):
        ask(places, "place", **{**PLACE, "copy": "blog.web.1@3"})
    with pytest.raises(RefusedError, match="a placed copy uses"):
        ask(places, "forget", sha256=HASH)
    ask(places, "stop", copy=PLACE["copy"])
    assert ask(places, "forget", sha256=HASH) == {"artifact": "gone"}
    assert list(places.artifacts.iterdir()) == []
    places.server.unlink()
    with pytest.raises(RefusedError, match="apply the kit's role server"):
        ask(places, "place", **PLACE)
    assert programs.state == "inactive"


def test_output_goes_to_the_reader_where_there_is_one() -> None:
    fields = {**PLACE, "memory": 1 << 28, "processors": 1500}
    with_reader = drop_in(Places(), "shop.web.1@12", fields, reader=True).splitlines()
    assert {"Wants=rota-log@shop.web.1@12.socket", "StandardOutput=file:/run/rota-log/shop.web.1@12"} <= {
        *with_reader
    }
    assert {"MemoryMax=268435456", "CPUQuota=150%", "TimeoutStopSec=10s", "User=app-shop"} <= {*with_reader}
    without = drop_in(Places(), "shop.web.1@12", PLACE, reader=False)
    for word in ("StandardOutput", "[Unit]", "MemoryMax", "CPUQuota"):
        assert word not in without


@pytest.mark.parametrize("primary", ["10.79.0.1", "fd00::1"])
def test_the_firewall_is_what_nft_understands(tmp_path: Path, primary: str) -> None:
    network = "fd00::/64" if ":" in primary else "10.79.0.0/24"
    (tmp_path / "server.json").write_text(json.dumps({"primary": primary, "network": network}))
    server = firewall.addresses(tmp_path / "server.json")
    for ports, apps in ((set[int](), set[int]()), ({20001, 20000}, {990, 991})):
        text = firewall.rules(server, ports, apps, {100})
        done = subprocess.run(
            ["nft", "--check", "--file", "-"], input=text, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
    assert "tcp dport { 20000, 20001 } drop" in text
    for wrong in ("", "{}", '{"primary": "x; drop"}', '{"primary": "10.0.0.1", "network": "10.0.0.1/8"}'):
        (tmp_path / "server.json").write_text(wrong)
        with pytest.raises(RefusedError, match="does not say the addresses"):
            firewall.addresses(tmp_path / "server.json")


@pytest.fixture
def asked(places: Places, programs: Programs, tmp_path: Path) -> Iterator[tuple[Path, list[str]]]:
    """Give the path of a socket that rootd answers, and what it logs."""
    lines: list[str] = []
    path = tmp_path / "uid=0;.socket"
    assert programs.ran == []
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        path.chmod(0o777)
        listening.listen()
        serving = Thread(target=listener.serve, args=(listening, places, lines.append, 0.5))
        serving.start()
        yield path, lines
        serving.join()


def send(path: Path, data: bytes, descriptors: tuple[int, ...] = ()) -> dict[str, Any]:
    with closing(socket.socket(socket.AF_UNIX)) as peer:
        peer.connect(str(path))
        if descriptors:
            socket.send_fds(peer, [data], list(descriptors))
        else:
            peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        answer: dict[str, Any] = json.loads(peer.makefile().read())
        return answer


def test_a_request_is_logged_before_it_is_done_and_with_its_answer(asked: tuple[Path, list[str]]) -> None:
    path, lines = asked
    assert send(path, json.dumps({"verb": "place", **PLACE}).encode()) == {"done": {"state": "placed"}}
    start = {"verb": "start", **GOOD["start"]}
    assert send(path, json.dumps(start).encode()) == {"done": {"state": "started"}}
    assert lines[0].startswith(f"asked uid={os.geteuid()} pid={os.getpid()} verb=place copy=")
    assert lines[1].endswith('{"done": {"state": "placed"}}')
    assert GOOD["start"]["configuration"] not in "".join(lines)


@pytest.mark.parametrize(
    ("data", "count", "reason"),
    [
        (b'{"verb": "\\n\\u001b[2J"}', 0, "no such verb"),
        (b"x" * (LONGEST_REQUEST + 1), 0, "longer than"),
        (json.dumps({"verb": "stop", "copy": "shop.web.1@12"}).encode(), 2, "more than one descriptor"),
        (json.dumps({"verb": "stop", "copy": "shop.web.1@12"}).encode(), 9, "more than one descriptor"),
        (json.dumps({"verb": "unpack", "sha256": "cd" * 32, "size": 9}).encode(), 0, "no archive"),
    ],
)
def test_what_is_wrong_is_told_and_logged(
    asked: tuple[Path, list[str]], data: bytes, count: int, reason: str
) -> None:
    path, lines = asked
    before = len(list(Path("/proc/self/fd").iterdir()))
    with Path("/dev/null").open() as null:
        try:
            assert reason in send(path, data, (null.fileno(),) * count)["refused"]
        except (BrokenPipeError, ConnectionResetError):
            assert len(data) > LONGEST_REQUEST
    while reason not in lines[-1:].__str__():
        os.sched_yield()
    assert "\x1b" not in "".join(lines)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1


def test_another_user_is_refused_whatever_the_socket_is_named(asked: tuple[Path, list[str]]) -> None:
    path, lines = asked
    code = (
        "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        "s.shutdown(1); print(s.makefile().read())"
    )
    for parent in path.parents:
        if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
            parent.chmod(0o755)
    argv = ["/usr/bin/python3", "-c", code, str(path)]
    done = subprocess.run(argv, user="nobody", capture_output=True, text=True, check=False)
    assert "may ask for nothing" in done.stdout, done.stderr
    assert lines[-1].startswith("answered uid=65534")


def test_an_archive_that_is_not_what_was_said_leaves_nothing(places: Places, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.write_bytes(bytes(10240))
    with archive.open("rb") as stream:
        for size, reason in ((10239, "another size"), (10241, "another size"), (10240, "another SHA-256")):
            with pytest.raises(RefusedError, match=reason):
                artifacts.unpack(places, {"sha256": "cd" * 32, "size": size}, stream.fileno())
    assert [each.name for each in places.artifacts.iterdir()] == [HASH]
