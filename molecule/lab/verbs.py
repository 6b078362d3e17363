"""What each verb of the command line does, given its arguments."""

import os
import sys
import time
from argparse import Namespace

from lab import (
    cgroups,
    demo,
    destroy,
    forward,
    guest,
    hierarchies,
    host,
    images,
    names,
    nspawn,
    packages,
    recipe,
    switch,
    vm,
)
from lab.commands import program, require_root
from lab.errors import LabError
from lab.places import Places


def install_packages(_given: Namespace, _places: Places) -> None:
    """Install what this machine lacks."""
    installed = packages.install()
    print(f"lab: installed {' '.join(installed)}" if installed else "lab: every package is installed")


def bake_images(given: Namespace, places: Places) -> None:
    """Bake images and print where they are."""
    for suite in given.suites or recipe.SUITES:
        print(images.ensure(places, suite))


def show_labs(_given: Namespace, places: Places) -> None:
    """Print every lab with its hosts."""
    require_root()
    for lab in destroy.labs(places):
        print(lab)
        for path in sorted(places.lab(lab).glob("*/host.json")):
            one = host.load(places, lab, path.parent.name)
            state = "on" if host.running(one) else "off"
            print(f"  {one.name:13} {one.address:18} {one.suite} {one.cgroup} {state}")
        for machine in vm.every(places, lab):
            print(f"  {machine.name:13} {machine.address:18} emulated {'on' if vm.on(machine) else 'off'}")


def make_switch(given: Namespace, places: Places) -> None:
    """Make a lab's switch."""
    switch.up(given.lab, switch.network(given.switch))
    places.control(given.lab).mkdir(mode=0o700, parents=True, exist_ok=True)


def take_down(given: Namespace, places: Places) -> None:
    """Take a lab away."""
    destroy.down(places, given.lab)


def run_on_network(given: Namespace, _places: Places) -> None:
    """Become a command of this machine on a lab's network."""
    switch.address(given.lab)
    argv = switch.inside(names.switch_netns(given.lab), _command(given))
    os.execv(program(argv[0]), argv)


def add_host(given: Namespace, places: Places) -> None:
    """Make a host, start it and wait until it is ready."""
    started = time.monotonic()
    uplink = switch.address(given.lab)
    if uplink is None:
        raise LabError(f"the switch of lab {given.lab} is half made: run `molecule/labctl up` again")
    one = nspawn.Host(
        lab=given.lab,
        name=names.host_name(given.host),
        address=switch.host_address(given.address, uplink),
        suite=recipe.suite(given.suite),
        cgroup=hierarchies.chosen(given.cgroup),
        limits=given.cgroup == "limits",
        binds=tuple(nspawn.check_bind(bind) for bind in given.bind),
    )
    host.create(places, one)
    host.start(places, one)
    host.ready(places, one)
    print(f"lab: host {one.name} of lab {one.lab} is ready after {time.monotonic() - started:.1f} s")


def start(given: Namespace, places: Places) -> None:
    """Power a host on."""
    host.start(places, _host(given, places))


def await_ready(given: Namespace, places: Places) -> None:
    """Wait until a host is up and answers."""
    host.ready(places, _host(given, places))


def reboot(given: Namespace, places: Places) -> None:
    """Reboot a host and wait until it is ready."""
    host.reboot(places, _host(given, places))


def stop(given: Namespace, places: Places) -> None:
    """Power a host off in order."""
    host.stop(_host(given, places))


def kill(given: Namespace, places: Places) -> None:
    """Take a host's power away."""
    host.kill(_host(given, places))


def freeze(given: Namespace, places: Places) -> None:
    """Stop every process of a host where it stands."""
    host.freeze(_host(given, places), frozen=True)


def thaw(given: Namespace, places: Places) -> None:
    """Let a frozen host go on."""
    host.freeze(_host(given, places), frozen=False)


def cut(given: Namespace, places: Places) -> None:
    """Pull a host's cable."""
    host.plug(_host(given, places), plugged=False)


def heal(given: Namespace, places: Places) -> None:
    """Plug a host's cable in again."""
    host.plug(_host(given, places), plugged=True)


def show_pid(given: Namespace, places: Places) -> None:
    """Print the id of a host's PID 1, as this machine counts."""
    one = _host(given, places)
    pid = cgroups.guest_init(one.lab, one.name)
    if pid is None:
        raise LabError(f"host {one.name} of lab {one.lab} is off: start it")
    print(pid)


def run_inside(given: Namespace, places: Places) -> None:
    """Become a command inside a host."""
    host.become_inside(_host(given, places), _command(given))


def forward_port(given: Namespace, places: Places) -> None:
    """Lead a port of this machine to one of a host, until interrupted."""
    if given.descriptor is not None:  # we are in the host's network already
        forward.serve(given.descriptor, given.port)
        return
    one = _host(given, places)
    listening = forward.listen(given.port)
    here = f"{forward.LOOPBACK}:{given.port}"
    print(f"{here} leads to host {one.name} of lab {one.lab}. Ctrl-C ends it.", flush=True)
    forward.become(one.lab, one.name, given.port, listening)


def run_demo(given: Namespace, places: Places) -> None:
    """Make the demo, or take it away."""
    if given.what == "up":
        shape = demo.SHAPES[given.shape]
        demo.up(places, given.lab, shape, given.port or shape.port)
    else:
        destroy.down(places, given.lab)


def carry(given: Namespace, places: Places) -> None:
    """Be the process that carries a host; never returns."""
    one = _host(given, places)
    if not given.mounted:
        guest.carry(one, cgroups.of_carrier(one.lab, one.name, one.cgroup))
    sys.exit(guest.boot(one, places.host(one.lab, one.name)))


def _host(given: Namespace, places: Places) -> nspawn.Host:
    return host.load(places, given.lab, names.host_name(given.host))


def _command(given: Namespace) -> list[str]:
    argv: list[str] = given.argv[1:] if given.argv[:1] == ["--"] else given.argv
    if not argv:
        raise LabError("give the command to run after the names")
    return argv
