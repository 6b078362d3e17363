"""Three emulated machines of the lab, as they stand for the hosts of a cluster that shares its log over NFS.

The private network is the kernel's WireGuard; the export, the server's settings, the mount options and the
proof are the files of the Ansible role `shared_log`.
"""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jinja2
import yaml
from tests.lab.labctl import PROGRAM

ROOT = Path(__file__).resolve().parents[2]
ROLE = ROOT / "roles" / "shared_log"
DEFAULTS: dict[str, Any] = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())
SERVER, ONE, TWO = "n1", "n2", "n3"
NAMES = (SERVER, ONE, TWO)
DIRECTORY, EXPORT = DEFAULTS["shared_log_directory"], "/srv/export"
OPTIONS = ",".join(DEFAULTS["shared_log_mount_options"])
USER = "8420"
PROOF = "/opt/rota-flock-proof.py"
# Runs in a machine: writes files, then runs commands, and ends at the first that fails.
_VISIT = """
import json, pathlib, subprocess, sys
work = json.load(sys.stdin)
for name, text in work["files"].items():
    path = pathlib.Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
for command in work["commands"]:
    done = subprocess.run(command, stdin=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(f"{command}: status {done.returncode}")
"""
LONGEST = 400.0  # seconds for one command, on a loaded computer


def private(name: str) -> str:
    """Return a machine's address on the private network."""
    return f"10.98.0.{name.removeprefix('n')}"


SOURCE = f"{private(SERVER)}:{EXPORT}"


def rendered(template: str) -> str:
    """Render a template of the role for these machines, as Ansible does."""
    loader = jinja2.FileSystemLoader(ROLE / "templates")
    environment = jinja2.Environment(
        loader=loader,
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - settings are not HTML
    )
    return environment.get_template(template).render(
        shared_log_export=EXPORT,
        shared_log_server_address=private(SERVER),
        shared_log_clients=[private(name) for name in NAMES],
    )


class Machines:
    """The machines of one lab."""

    def __init__(self, lab: str, drafts: Path) -> None:
        """Stand for the machines of a lab; drafts is a directory for what is sent to them."""
        self.lab = lab
        self.drafts = drafts

    def labctl(self, verb: str, name: str, *words: str) -> None:
        """Do something to a machine from outside: cut, heal, kill, start, ready."""
        argv = [str(PROGRAM), "vm", verb, self.lab, name, *words]
        done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=LONGEST)
        assert done.returncode == 0, done.stderr

    def argv(self, name: str, command: Sequence[str], *, text: Path | None = None) -> list[str]:
        """Return the argv of a command in a machine."""
        given = [f"--input={text}"] if text else []
        return [str(PROGRAM), "vm", "exec", *given, self.lab, name, "--", *command]

    def attempt(self, name: str, *command: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command in a machine to its end, whatever its exit status."""
        draft = None
        if text:
            draft = self.drafts / f"{name}-{abs(hash((command, text)))}"
            draft.write_text(text)
        argv = self.argv(name, command, text=draft)
        return subprocess.run(
            argv, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=LONGEST
        )

    def run(self, name: str, *command: str, text: str = "") -> str:
        """Run a command in a machine that must succeed, and return its output."""
        done = self.attempt(name, *command, text=text)
        assert done.returncode == 0, f"{name}: {command}: {done.stderr}{done.stdout}"
        return done.stdout.strip()

    def begin(self, name: str, *command: str) -> subprocess.Popen[str]:
        """Start a command in a machine."""
        return subprocess.Popen(
            self.argv(name, command), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def run_all(self, name: str, *commands: Sequence[str], files: Mapping[str, str] | None = None) -> None:
        """Write files in a machine, then run commands there, each of which must succeed, in one visit."""
        work = {"files": files or {}, "commands": [list(command) for command in commands]}
        self.run(name, "python3", "-I", "-c", _VISIT, text=json.dumps(work))

    def inspect(self, name: str) -> dict[str, Any]:
        """Return what the proof's program sees of the directory."""
        answer = self.run(name, *proof("inspect", f"--source={SOURCE}"))
        return dict(json.loads(answer))


def proof(verb: str, *more: str) -> list[str]:
    """Return the argv of the proof's program."""
    about = ["--backend=nfs", f"--directory={DIRECTORY}", "--user=rota"]
    return ["python3", "-I", PROOF, verb, *about, *more]


def on_all(act: Callable[[str], None], names: Sequence[str] = NAMES) -> None:
    """Do something on several machines at once."""
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(act, names))


def set_up(machines: Machines) -> None:
    """Join the machines by WireGuard, export, and mount on all three."""
    public: dict[str, str] = {}

    def prepare(name: str) -> None:
        key = machines.run(name, "wg", "genkey")
        public[name] = machines.run(name, "wg", "pubkey", text=key)
        machines.run_all(
            name,
            ["groupadd", f"--gid={USER}", "rota"],
            ["useradd", f"--uid={USER}", f"--gid={USER}", "--no-create-home", "rota"],
            ["modprobe", "wireguard"],
            ["ip", "link", "add", "rota0", "type", "wireguard"],
            ["ip", "address", "add", f"{private(name)}/24", "dev", "rota0"],
            ["ip", "link", "set", "rota0", "up"],
            files={"/run/key": key, PROOF: (ROOT / "units" / "rota-flock-proof.py").read_text()},
        )

    def join(name: str) -> None:
        peers = [
            word
            for other in NAMES
            if other != name
            for word in (
                *("peer", public[other], "allowed-ips", f"{private(other)}/32"),
                *("endpoint", f"10.81.0.1{other.removeprefix('n')}:51820", "persistent-keepalive", "5"),
            )
        ]
        machines.run_all(
            name, ["wg", "set", "rota0", "private-key", "/run/key", "listen-port", "51820", *peers]
        )

    on_all(prepare)
    on_all(join)
    export(machines)
    on_all(
        lambda name: machines.run_all(
            name,
            ["mkdir", "-p", DIRECTORY],
            ["mount", "-t", "nfs4", "-o", OPTIONS, SOURCE, DIRECTORY],
        )
    )


def export(machines: Machines) -> None:
    """Serve the export, as the role's files say."""
    machines.run_all(
        SERVER,
        ["install", "-d", "-o", USER, "-g", USER, "-m", "0700", EXPORT],
        ["mkdir", "-p", "/var/lib/nfs/v4recovery"],
        ["modprobe", "nfsd"],
        ["mount", "-t", "nfsd", "nfsd", "/proc/fs/nfsd"],
        ["exportfs", "-ra"],
        ["rpc.mountd"],
        ["rpc.nfsd", "4"],
        files={
            "/etc/exports.d/rota.exports": rendered("rota.exports.j2"),
            "/etc/nfs.conf.d/rota.conf": rendered("nfs.conf.j2"),
        },
    )
