"""What `labctl vm ...` does, and its arguments."""

import sys
import time
from argparse import REMAINDER, SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path

from lab import names, switch, vm, vm_image, vm_talk
from lab.errors import LabError
from lab.places import Places

Act = Callable[[Namespace, Places], None]


def add_to(parser: ArgumentParser) -> None:
    """Give `labctl vm` its verbs."""
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, text: str, act: Act, *, machine: bool = True) -> ArgumentParser:
        made = verbs.add_parser(name, help=text, description=text)
        made.set_defaults(act=act)
        if machine:
            made.add_argument("lab", metavar="LAB")
            made.add_argument("name", metavar="NAME")
        return made

    verb("image", "bake the machines' image if it is not there", _bake, machine=False)
    one = verb("add", "make a machine and start it; wait for it with `vm ready`", _add)
    one.add_argument("address", metavar="ADDRESS", help="on the switch's network, as 10.78.0.21")
    verb("start", "power a machine on", _start)
    verb("ready", "wait until a machine is up and answers", _ready)
    verb("kill", "take a machine's power away", _kill)
    verb("cut", "pull a machine's cable", _cut)
    verb("heal", "plug a machine's cable in again", _heal)
    one = verb("exec", "run a command inside a machine, as root", _exec)
    one.add_argument("--input", metavar="FILE", type=Path, help="what the command reads")
    one.add_argument("argv", metavar="COMMAND", nargs=REMAINDER)
    one = verb("list", "list the machines of a lab", _list, machine=False)
    one.add_argument("lab", metavar="LAB")
    one = verb("talk", "(for labctl itself) be the one who asks, on the lab's network", _talk, machine=False)
    one.add_argument("--input", type=Path, help=SUPPRESS)
    one.add_argument("address")
    one.add_argument("argv", nargs=REMAINDER)


def _bake(_given: Namespace, places: Places) -> None:
    print(vm_image.ensure(places))


def _add(given: Namespace, places: Places) -> None:
    uplink = switch.address(given.lab)
    if uplink is None:
        raise LabError(f"the switch of lab {given.lab} is half made: run `molecule/labctl up` again")
    address = switch.host_address(given.address, uplink)
    machine = vm.Machine(lab=given.lab, name=names.host_name(given.name), address=address)
    vm.create(places, machine)
    vm.start(places, machine)


def _start(given: Namespace, places: Places) -> None:
    vm.start(places, _machine(given, places))


def _ready(given: Namespace, places: Places) -> None:
    began = time.monotonic()
    machine = _machine(given, places)
    vm.ready(places, machine)
    print(f"lab: machine {machine.name} of lab {machine.lab} answers after {time.monotonic() - began:.1f} s")


def _kill(given: Namespace, places: Places) -> None:
    vm.kill(_machine(given, places))


def _cut(given: Namespace, places: Places) -> None:
    switch.plug(given.lab, _machine(given, places).name, plugged=False)


def _heal(given: Namespace, places: Places) -> None:
    switch.plug(given.lab, _machine(given, places).name, plugged=True)


def _exec(given: Namespace, places: Places) -> None:
    vm.become_inside(_machine(given, places), _command(given.argv), given.input)


def _list(given: Namespace, places: Places) -> None:
    for machine in vm.every(places, given.lab):
        print(f"{machine.name:13} {machine.address:18} {'on' if vm.on(machine) else 'off'}")


def _talk(given: Namespace, _places: Places) -> None:
    if not given.argv:
        vm_talk.knock(given.address)
        return
    sys.exit(
        vm_talk.talk(given.address, _command(given.argv), given.input.read_text() if given.input else "")
    )


def _machine(given: Namespace, places: Places) -> vm.Machine:
    return vm.load(places, given.lab, names.host_name(given.name))


def _command(words: list[str]) -> list[str]:
    argv = words[1:] if words[:1] == ["--"] else words
    if not argv:
        raise LabError("give the command to run after the names")
    return argv
