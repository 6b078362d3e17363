"""The units, rendered for each shape that the kit gives them, are sound and hardened."""

import re
import subprocess
from pathlib import Path
from typing import Any

import jinja2
import pytest

from rota.rootd.instances import drop_in
from rota.rootd.places import Places

ROOT = Path(__file__).parents[2]
# Programs that a host has and this machine need not: systemd wants to see something executable.
PROGRAMS = re.compile(r"/opt/rota/current/bin/(?:rota|python)|/usr/sbin/nft|/usr/bin/python3")
WEB: dict[str, Any] = {
    "instance": "web-%i",
    "roles": ["web", "worker"],
    "credentials": [],
    "writable": [],
    "memory_max": "512M",
    "tasks_max": "128",
    "cpu_quota": "",
    "after": [],
    "watch": {"release": "/opt/rota/current", "unit": "/etc/systemd/system/rota-web@.service"},
}
FULL = {
    **WEB,
    "roles": ["web"],
    "credentials": ["database-password", "server-metrics-token"],
    "writable": ["/srv/backups"],
    "after": ["wg-quick@rota0.service", "srv-rota-tlog.mount"],
    "cpu_quota": "150%",
    "watch": {**WEB["watch"], "credentials": "%d"},
}
BARE = {**WEB, "memory_max": "", "tasks_max": ""}
WORKER = {**FULL, "instance": "worker", "roles": ["worker"], "worker_address": "127.0.0.1:8420"}
AGENT: dict[str, Any] = {"after": ["wg-quick@rota0.service"], "watch": WEB["watch"]}
BUILD = {"time_limit": 1800, "memory_max": "4G", "denied": ["10.79.0.0/24"]}
FIREWALL = {"capabilities": "CAP_NET_ADMIN", "families": "AF_NETLINK"}
SHAPES = {
    "sqlite": ("rota-web@.service.j2", WEB),
    "postgresql": ("rota-web@.service.j2", FULL),
    "no limits": ("rota-web@.service.j2", BARE),
    "worker": ("rota-worker.service.j2", WORKER),
    "firewall": ("rota-firewall.service.j2", FIREWALL),
    "tunnel": ("rota-tunnel.service.j2", {}),
    "agent": ("rota-agent.service.j2", AGENT),
    "rootd": ("rota-rootd.service.j2", {}),
    "app": ("rota-app@.service.j2", {}),
    "run": ("rota-run@.service.j2", {}),
    "build": ("rota-build@.service.j2", BUILD),
    "apps' firewall": ("rota-apps-firewall.service.j2", FIREWALL),
}
# Of exposure, in tenths, where it cannot be 15.
MOST = {
    "rota-tunnel": 18,  # it asks name servers and changes an interface: there is no network to deny it
    "rota-rootd": 24,  # it is root, owns what it unpacks and writes units
    "rota-app": 17,  # what compiles as it runs needs writable code, and apps have the network
    "rota-run": 17,
    "rota-build": 17,  # the same
}
# What a copy's drop-in adds that no template can say.
_FIELDS = {"sha256": "ab" * 32, "port": 20000, "memory": 1 << 28, "processors": 500, "grace": 10}
_DROP_IN = drop_in(Places(), "shop.web.1@1", _FIELDS, reader=False).replace("User=app-shop", "User=daemon")
OWN = {shape: _DROP_IN.replace("Group=app-shop", "Group=daemon") for shape in ("app", "run")}


def render(template: str, values: dict[str, Any]) -> str:
    """Render as Ansible does."""
    loader = jinja2.FileSystemLoader(ROOT / "units")
    environment = jinja2.Environment(
        loader=loader,
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - units are not HTML
    )
    return environment.get_template(template).render(values)


@pytest.fixture(params=SHAPES)
def unit(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Give the rendered service, as instance 1, beside everything it refers to."""
    template, values = SHAPES[request.param]
    if "web" in template:
        (tmp_path / "rota-web@1.socket.d").mkdir()
        (tmp_path / "rota-web@1.socket.d" / "address.conf").write_text(
            "[Socket]\nListenStream=127.0.0.1:8421\n"
        )
        (tmp_path / "rota-web@1.socket").write_text((ROOT / "units" / "rota-web@.socket").read_text())
    (tmp_path / "rota-apps.slice").write_text((ROOT / "units" / "rota-apps.slice").read_text())
    if "build" in template:
        (tmp_path / "rota-build.socket").write_text((ROOT / "units" / "rota-build.socket").read_text())
        (tmp_path / "rota-build@.service").write_text(PROGRAMS.sub("/usr/bin/true", render(template, values)))
    if "rootd" in template:
        (tmp_path / "rota-rootd.socket").write_text((ROOT / "units" / "rota-rootd.socket").read_text())
    (tmp_path / "rota.slice").write_text((ROOT / "units" / "rota.slice").read_text())
    path = tmp_path / template.removesuffix(".j2").replace("@", "@1")
    path.write_text(PROGRAMS.sub("/usr/bin/true", render(template, values)) + OWN.get(request.param, ""))
    return path


def analyze(*arguments: object) -> subprocess.CompletedProcess[str]:
    argv = ["systemd-analyze", *map(str, arguments)]
    return subprocess.run(argv, check=False, capture_output=True, text=True)


def test_systemd_understands_every_word(unit: Path) -> None:
    beside = [path for path in unit.parent.iterdir() if path.suffix in (".socket", ".slice")]
    done = analyze("verify", "--recursive-errors=no", "--man=no", unit, *beside)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_word_would_be_seen(unit: Path) -> None:
    unit.write_text(unit.read_text().replace("[Service]\n", "[Service]\nNoSuchKey=yes\n"))
    assert analyze("verify", "--recursive-errors=no", "--man=no", unit).returncode != 0


def test_the_service_is_hardened(unit: Path) -> None:
    most = MOST.get(unit.name.partition("@")[0].removesuffix(".service"), 15)
    done = analyze("security", "--no-pager", "--offline=true", f"--threshold={most}", unit)
    assert done.returncode == 0, done.stdout.splitlines()[-1]


@pytest.mark.parametrize(("added", "said"), [("", ""), ("NoSuchKey=yes\n", "NoSuchKey")])
def test_systemd_understands_what_is_added_to_postgresql(tmp_path: Path, added: str, said: str) -> None:
    values = {
        "tunnel_unit": "rota-tunnel.target",
        "record": "/usr/bin/true --into %t/rota/postgresql unit=/etc/systemd/system/x.service.d",
        "endpoints": ["127.0.0.1:5432", "[fd00::1]:5432"],
    }
    unit = tmp_path / "postgresql@17-main.service"
    unit.write_text("[Service]\nType=forking\nExecStart=/usr/bin/true\nExecReload=/usr/bin/true\n")
    (tmp_path / "rota-tunnel.target").write_text("[Unit]\nDescription=The tunnel's\n")
    drop_in = tmp_path / f"{unit.name}.d" / "rota.conf"
    drop_in.parent.mkdir()
    text = PROGRAMS.sub("/usr/bin/true", render("postgresql-rota.conf.j2", values))
    drop_in.write_text(text + added)
    done = analyze("verify", "--recursive-errors=no", "--man=no", unit)
    assert (done.returncode == 0, done.stderr == "", said in done.stderr) == (not added, not added, True)


def test_secrets_come_as_credentials_only() -> None:
    text = render(*SHAPES["postgresql"])
    loaded = re.findall(r"^LoadCredential=(.*)$", text, re.MULTILINE)
    assert loaded == [f"{name}:/etc/rota/credentials/{name}" for name in FULL["credentials"]]
    assert "EnvironmentFile" not in text
    assert re.findall(r"^Environment=.*", text, re.MULTILINE) == []


def test_limits_that_are_empty_are_not_there() -> None:
    text = render(*SHAPES["no limits"])
    assert not re.search(r"^(MemoryMax|TasksMax|CPUQuota)=", text, re.MULTILINE)


@pytest.mark.parametrize("shape", ["sqlite", "postgresql", "worker"])
def test_a_process_does_not_start_again_on_wrong_settings_and_does_on_all_else(shape: str) -> None:
    lines = render(*SHAPES[shape]).splitlines()
    assert {"Restart=always", "RestartPreventExitStatus=78"} <= set(lines)
    # A user namespace would show files of a shared directory as nobody's.
    assert not any(line.startswith("PrivateUsers") for line in lines)


def test_a_slow_crash_loop_never_uses_up_the_starts() -> None:
    values = dict(line.split("=", 1) for line in render(*SHAPES["sqlite"]).splitlines() if "=" in line)
    interval, pause = (int(values[key].removesuffix("s")) for key in ("StartLimitIntervalSec", "RestartSec"))
    assert int(values["StartLimitBurst"]) * pause >= interval
