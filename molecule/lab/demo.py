"""The demo: a hub with the kit applied, and its page led to a port of this machine."""

import os
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab import forward, host, images, nspawn, switch
from lab.commands import wait_for
from lab.errors import LabError
from lab.places import Places

LAB = "demo"
ADMINISTRATOR = "admin"
SWITCH = "10.78.0.1/24"
ROTA = 8420  # the number of the rota user and group on every host
CHECKOUT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Shape:
    """A hub that can be shown: its hosts and their addresses, its inventories, and where its page is."""

    hosts: dict[str, str]
    inventories: tuple[str, ...]
    entry: str  # the host at which people enter
    entry_port: int
    port: int  # of this machine, unless another is asked for
    page: str
    shared: str = ""  # where the hosts find the directory that they share
    variables: tuple[str, ...] = ()


SHAPES = {
    "cluster": Shape(
        hosts={
            "p1": "10.78.0.21",
            "w1": "10.78.0.22",
            "w2": "10.78.0.23",
            "k1": "10.78.0.24",
            "k2": "10.78.0.25",
        },
        inventories=(
            "molecule/shared/lab.yml",
            "molecule/shared/cluster.yml",
            "molecule/cluster/inventory.yml",
        ),
        entry="p1",
        entry_port=443,
        port=8443,
        page="https://localhost:{port}/",
        shared="/mnt/shared",
        variables=("haproxy_hub_name=localhost",),
    ),
    "single": Shape(
        hosts={"rota1": "10.78.0.11"},
        inventories=("molecule/shared/lab.yml", "molecule/demo/single.yml"),
        entry="rota1",
        entry_port=8421,
        port=8421,
        page="http://127.0.0.1:{port}/",
    ),
}


def playbook_argv(checkout: Path, shape: Shape) -> list[str]:
    """Return the argv that applies the kit to the demo's hosts. Pure."""
    inventories = [f"--inventory={checkout / each}" for each in shape.inventories]
    variables = [f"--extra-vars={each}" for each in shape.variables]
    program = str(checkout / ".venv/bin/ansible-playbook")
    return [program, *inventories, *variables, str(checkout / "playbooks/site.yml")]


def up(places: Places, lab: str, shape: Shape, port: int) -> None:
    """Make the demo's hosts, apply the kit, and lead a port of this machine to its page."""
    argv = playbook_argv(CHECKOUT, shape)
    if not Path(argv[0]).exists():
        raise LabError("the kit needs Ansible from .venv: run `make venv`")
    images.ensure(places, "trixie")
    switch.up(lab, switch.network(SWITCH))
    for name, address in shape.hosts.items():
        _make_host(places, lab, shape, name, address)
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(places.control(lab)),
        "PATH": f"{CHECKOUT / '.venv/bin'}:{os.environ['PATH']}",
        "ROTA_LAB": lab,
    }
    done = subprocess.run(argv, check=False, cwd=CHECKOUT, env=environment, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise LabError(
            "the kit did not go through: see above. The hosts are left as they are; `make lab-down` ends them"
        )
    _open_port(lab, shape, port)
    print(
        f"\nThe demo runs. Its page: {shape.page.format(port=port)}\n"
        f"Sign in:      {_administrator(host.load(places, lab, shape.entry))}\n"
        f"Its hosts:    {', '.join(shape.hosts)}\n"
        f"Look inside:  molecule/labctl exec {lab} {shape.entry} -- systemctl status 'rota-*'\n"
        f"Run it again: make lab\n"
        f"End it:       make lab-down"
    )


def _administrator(entry: nspawn.Host) -> str:
    """Make an administrator of the hub, unless there is one; return what to say of it."""
    password = secrets.token_urlsafe(15)
    command = ["rota", "admin", "create", ADMINISTRATOR, "--password-stdin"]
    made = host.inside(entry, command, password)
    if made.returncode == 0:
        return f"{ADMINISTRATOR}, with the password {password}"
    if "already" in made.stderr + made.stdout:
        return f"{ADMINISTRATOR}, with the password that the first run printed"
    raise LabError(f"no administrator could be made: {(made.stderr or made.stdout).strip()}")


def _make_host(places: Places, lab: str, shape: Shape, name: str, address: str) -> None:
    binds: tuple[str, ...] = ()
    if shape.shared:
        directory = places.lab(lab) / ".shared"
        directory.mkdir(parents=True, exist_ok=True)
        os.chown(directory, ROTA, ROTA)
        directory.chmod(0o700)
        binds = (f"{directory}:{shape.shared}",)
    one = nspawn.Host(lab=lab, name=name, address=f"{address}/24", suite="trixie", binds=binds)
    host.create(places, one)
    host.start(places, one)
    host.ready(places, one)


def _open_port(lab: str, shape: Shape, port: int) -> None:
    """Start what forwards, unless it runs from before; it ends with the lab, as all in its network does."""
    if forward.running(lab, shape.entry):
        return
    listening = forward.listen(port)
    subprocess.Popen(
        forward.argv(lab, shape.entry, shape.entry_port, listening),
        pass_fds=[listening.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    listening.close()
    if not wait_for(lambda: forward.running(lab, shape.entry), seconds=10):
        raise LabError(
            f"port {port} does not lead to the demo: run "
            f"`molecule/labctl forward {lab} {shape.entry} {shape.entry_port}`"
        )
