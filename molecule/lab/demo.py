"""The demo: one host with the kit applied, left running to look at."""

import os
import subprocess
from pathlib import Path

from lab import forward, host, images, nspawn, switch
from lab.commands import wait_for
from lab.errors import LabError
from lab.places import Places

LAB, HOST = "demo", "rota1"
SWITCH, ADDRESS = "10.78.0.1/24", "10.78.0.11"
PORT = 8421  # where the kit puts the first web process
CHECKOUT = Path(__file__).resolve().parents[2]
_INVENTORIES = ("molecule/shared/lab.yml", "molecule/demo/inventory.yml")


def playbook_argv(checkout: Path) -> list[str]:
    """Return the argv that applies the kit to the demo's host. Pure."""
    inventories = [f"--inventory={checkout / each}" for each in _INVENTORIES]
    return [str(checkout / ".venv/bin/ansible-playbook"), *inventories, str(checkout / "playbooks/site.yml")]


def up(places: Places, lab: str, port: int) -> None:
    """Make the demo's host, apply the kit, and lead a port of this machine to its page."""
    argv = playbook_argv(CHECKOUT)
    if not Path(argv[0]).exists():
        raise LabError("the kit needs Ansible from .venv: run `make venv`")
    images.ensure(places, "trixie")
    switch.up(lab, switch.network(SWITCH))
    one = nspawn.Host(lab=lab, name=HOST, address=f"{ADDRESS}/24", suite="trixie")
    host.create(places, one)
    host.start(places, one)
    host.ready(places, one)
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
            "the kit did not go through: see above. The host is left as it is; `make lab-down` ends it"
        )
    _open_port(lab, port)
    print(
        f"\nThe demo runs. Its page: http://{forward.LOOPBACK}:{port}/\n"
        f"Look inside:  molecule/labctl exec {lab} {HOST} -- systemctl status 'rota-*'\n"
        f"Run it again: make lab\n"
        f"End it:       make lab-down"
    )


def _open_port(lab: str, port: int) -> None:
    """Start what forwards, unless it runs from before; it ends with the lab, as all in its network does."""
    if forward.running(lab, HOST):
        return
    listening = forward.listen(port)
    subprocess.Popen(
        forward.argv(lab, HOST, PORT, listening),
        pass_fds=[listening.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    listening.close()
    if not wait_for(lambda: forward.running(lab, HOST), seconds=10):
        raise LabError(
            f"port {port} does not lead to the demo: run `molecule/labctl forward {lab} {HOST} {PORT}`"
        )
