"""An emulated machine's life: made, started, cut off, killed, and commands run in it.

It has a kernel of its own, which a host of systemd-nspawn has not: kernel WireGuard, an NFS server and its
clients that can truly lose one another. There is no systemd in it, and it needs about ten seconds to be up.
Its disk is made anew at each start; what is below /srv outlives a start.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from lab import cgroups, names, switch, vm_image, vm_talk
from lab.commands import program, run, wait_for
from lab.errors import LabError
from lab.places import Places

_BOOT = 400.0  # seconds a machine may take to be up; an idle computer needs a thirtieth
_MEMORY = 384  # MiB
_CONSOLE_LINES = 15
_DATA_SIZE = 64 << 20  # bytes of /srv


@dataclass(frozen=True)
class Machine:
    """What a machine is, as kept beside its disk."""

    lab: str
    name: str
    address: str  # with the prefix length

    @property
    def ip(self) -> str:
        """Return the address alone."""
        return self.address.partition("/")[0]

    @property
    def mac(self) -> str:
        """Return the address of its network card, made from the other. Pure."""
        return "52:54:" + ":".join(f"{int(part):02x}" for part in self.ip.split("."))


def qemu_argv(machine: Machine, image: Path, home: Path) -> list[str]:
    """Return the argv that emulates a machine. Pure."""
    told = f"lab.name={machine.name} lab.address={machine.address}"
    quick = "quiet mitigations=off nokaslr tsc=reliable random.trust_cpu=on no_timer_check"
    disks = (("root", image / vm_image.DISK, "readonly=on"), ("data", home / "data.img", "cache=unsafe"))
    drives = [
        word
        for name, path, options in disks
        for word in (
            f"-drive=file={path},if=none,id={name},format=raw,{options}",
            f"-device=virtio-blk-pci,drive={name}",
        )
    ]
    options = [
        "-machine=q35",
        "-accel=tcg,tb-size=128",
        "-cpu=max",
        f"-m={_MEMORY}",
        "-nodefaults",
        "-no-user-config",
        "-display=none",
        "-no-reboot",
        f"-kernel={image / vm_image.KERNEL}",
        f"-initrd={home / 'initial'}",
        f"-append=console=ttyS0 panic=-1 {quick} {told}",
        f"-serial=file:{home / 'console.log'}",
        *drives,
        f"-netdev=tap,id=net,ifname={names.port(machine.name)},script=no,downscript=no",
        f"-device=virtio-net-pci,netdev=net,mac={machine.mac}",
        "-object=rng-random,id=random,filename=/dev/urandom",
        "-device=virtio-rng-pci,rng=random",
    ]
    # The program takes an option and its value as two words.
    return ["qemu-system-x86_64", *(part for option in options for part in option.split("=", 1))]


def load(places: Places, lab: str, name: str) -> Machine:
    """Return the description of a machine; LabError if there is no such machine."""
    description = places.host(lab, name) / "vm.json"
    try:
        return Machine(**json.loads(description.read_text()))
    except FileNotFoundError as error:
        raise LabError(f"there is no machine {name} in lab {lab}: make it with `labctl vm add`") from error


def create(places: Places, machine: Machine) -> None:
    """Make a machine's disk and description; one that is there stays if it is the same."""
    home = places.host(machine.lab, machine.name)
    if (home / "host.json").exists():
        raise LabError(f"{machine.name} is a host of lab {machine.lab}: give the machine another name")
    if (home / "vm.json").exists():
        if (have := load(places, machine.lab, machine.name)) != machine:
            raise LabError(f"machine {machine.name} is there with {have.address}: take the lab down first")
        return
    image = vm_image.ensure(places)
    home.mkdir(parents=True, exist_ok=True)
    (home / "image").unlink(missing_ok=True)
    (home / "image").symlink_to(image)
    with (home / "data.img").open("wb") as data:
        data.truncate(_DATA_SIZE)
    run(["mke2fs", "-q", "-t", "ext4", "-m", "0", str(home / "data.img")])
    with (home / "initial").open("wb") as initial:
        initial.write(vm_image.padded((image / vm_image.INITIAL).read_bytes()))
        initial.write(vm_image.archive(_own_files()))
    (home / "vm.json").write_text(json.dumps(asdict(machine), indent=2) + "\n")


def _own_files() -> list[vm_image.Entry]:
    here, runs = Path(__file__).parent, 0o100755
    first = b"#!/usr/bin/python3 -IS\n" + (here / "vm_first.py").read_bytes()
    return [
        vm_image.Entry("init", runs, first),
        vm_image.Entry("lab-agent.py", runs, (here / "vm_agent.py").read_bytes()),
    ]


def start(places: Places, machine: Machine) -> None:
    """Power a machine on and plug it in; no effect if it is on. Wait for it with `ready`."""
    lab, name = machine.lab, machine.name
    switch.tap(lab, name)
    if cgroups.populated(lab, name):
        return
    home = places.host(lab, name)
    leaf = cgroups.make_emulator(lab, name)
    argv = switch.inside(names.switch_netns(lab), qemu_argv(machine, (home / "image").resolve(), home))
    with (home / "qemu.log").open("wb") as log:
        subprocess.Popen(
            [program(argv[0]), *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # it outlives us
            preexec_fn=partial(_begin, leaf),  # noqa: PLW1509 - we have one thread
        )


def _begin(leaf: Path) -> None:
    """Enter the machine's cgroup, ahead of others at the processor."""
    cgroups.enter([leaf])
    # One that stands still for seconds is a fault that nobody asked for: leases lapse, peers call it lost.
    os.nice(-15)


def ready(places: Places, machine: Machine) -> None:
    """Wait until a machine answers; LabError with the end of its console if it does not."""
    home = places.host(machine.lab, machine.name)

    knock = subprocess.Popen(_through(machine, vm_talk.argv(machine.ip)), stderr=subprocess.PIPE)

    def settled() -> bool:
        return knock.poll() is not None or not on(machine)

    if wait_for(settled, seconds=_BOOT) and knock.poll() == 0:
        return
    knock.kill()
    state = f"does not answer after {_BOOT:g} s" if on(machine) else "went off"
    raise LabError(f"machine {machine.name} of lab {machine.lab} {state}:\n{_said(home)}")


def _said(home: Path) -> str:
    lines = [
        line
        for name in ("qemu.log", "console.log")
        if (home / name).exists()
        for line in (home / name).read_text(errors="replace").splitlines()
    ]
    return "\n".join(lines[-_CONSOLE_LINES:])


def kill(machine: Machine) -> None:
    """Take a machine's power away; its peers hear nothing. What is below /srv stays."""
    switch.plug(machine.lab, machine.name, plugged=False)
    cgroups.end(machine.lab, machine.name)


def on(machine: Machine) -> bool:
    """Say whether a machine's power is on."""
    return cgroups.populated(machine.lab, machine.name)


def become_inside(machine: Machine, argv: list[str], text: Path | None) -> None:
    """Turn the calling process into a command inside a machine; never returns.

    Args:
        machine: where.
        argv: the command and its arguments.
        text: a file that the command reads as its input; it has none else.

    """
    if not on(machine):
        raise LabError(f"machine {machine.name} of lab {machine.lab} is off: start it")
    entry = _through(machine, vm_talk.argv(machine.ip, *argv, text=text))
    os.execv(program(entry[0]), entry)


def _through(machine: Machine, argv: list[str]) -> list[str]:
    return switch.inside(names.switch_netns(machine.lab), [sys.executable, *argv])


def every(places: Places, lab: str) -> list[Machine]:
    """Return the machines of a lab."""
    return [load(places, lab, path.parent.name) for path in sorted(places.lab(lab).glob("*/vm.json"))]
