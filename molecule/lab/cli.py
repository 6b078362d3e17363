"""The command line of the lab."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence

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
)
from lab.commands import program, require_root
from lab.errors import LabError
from lab.places import Places


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the arguments say; return the exit status."""
    given = _parser().parse_args(argv)
    os.umask(0o022)  # the directories of a host's disk are its own directories
    try:
        if "lab" in given:
            names.lab_name(given.lab)
            require_root()
        run: Callable[[argparse.Namespace, Places], None] = given.run
        run(given, Places.from_environment())
    except LabError as error:
        print(f"labctl: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="labctl", description="Real systemd hosts, made on the spot.")
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def verb(
        name: str, text: str, run: Callable[[argparse.Namespace, Places], None]
    ) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=text, description=text)
        made.set_defaults(run=run)
        return made

    verb("packages", "install the Debian packages that the lab needs on this machine", _packages)
    one = verb("images", "bake the images that are not there, and print where they are", _images)
    one.add_argument("suites", metavar="SUITE", nargs="*", help=f"of {', '.join(recipe.SUITES)}; default all")
    verb("list", "list the labs and their hosts", _list)
    one = verb("up", "make a lab's switch", _up)
    one.add_argument("lab", metavar="LAB")
    one.add_argument("switch", metavar="ADDRESS/LENGTH", help="the switch's own address, as 10.78.0.1/24")
    one = verb("down", "take a lab away, whatever state it is in", _down)
    one.add_argument("lab", metavar="LAB")
    one = verb("net", "run a command of this machine on a lab's network", _net)
    one.add_argument("lab", metavar="LAB")
    one.add_argument("argv", metavar="COMMAND", nargs=argparse.REMAINDER)
    one = verb("add", "make a host, start it and wait until it is ready", _add)
    _host_arguments(one)
    one.add_argument("address", metavar="ADDRESS", help="on the switch's network, as 10.78.0.11")
    one.add_argument("--suite", default="trixie", help="trixie (the default) or bookworm")
    one.add_argument(
        "--cgroup",
        default="v2",
        help="v2 (the default), v1, or limits: whichever makes limits in units take effect here",
    )
    one.add_argument("--bind", action="append", default=[], metavar="DIR:PATH", help="share a directory")
    one = verb("forward", "lead a port of this machine to one of a host, until interrupted", _forward)
    _host_arguments(one)
    one.add_argument("port", metavar="PORT", type=int)
    one.add_argument("--descriptor", type=int, help=argparse.SUPPRESS)
    one = verb("demo", "a host with the kit applied, left running: make it, or take it away", _demo)
    one.add_argument("what", choices=sorted(demo.VERBS))
    for name, text, act in _HOST_VERBS:
        _host_arguments(verb(name, text, act))
    one = verb("exec", "run a command inside a host, as root", _exec)
    _host_arguments(one)
    one.add_argument("argv", metavar="COMMAND", nargs=argparse.REMAINDER)
    one = verb("carry", "(for labctl itself) be the process that carries a host", _carry)
    one.add_argument("--mounted", action="store_true")
    _host_arguments(one)
    return parser


def _host_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lab", metavar="LAB")
    parser.add_argument("host", metavar="HOST")


def _packages(_given: argparse.Namespace, _places: Places) -> None:
    installed = packages.install()
    print(f"lab: installed {' '.join(installed)}" if installed else "lab: every package is installed")


def _images(given: argparse.Namespace, places: Places) -> None:
    for suite in given.suites or recipe.SUITES:
        print(images.ensure(places, suite))


def _list(_given: argparse.Namespace, places: Places) -> None:
    require_root()
    for lab in destroy.labs(places):
        print(lab)
        for path in sorted(places.lab(lab).glob("*/host.json")):
            one = host.load(places, lab, path.parent.name)
            state = "on" if host.running(one) else "off"
            print(f"  {one.name:13} {one.address:18} {one.suite} {one.cgroup} {state}")


def _up(given: argparse.Namespace, places: Places) -> None:
    switch.up(given.lab, switch.network(given.switch))
    places.control(given.lab).mkdir(mode=0o700, parents=True, exist_ok=True)


def _down(given: argparse.Namespace, places: Places) -> None:
    destroy.down(places, given.lab)


def _net(given: argparse.Namespace, _places: Places) -> None:
    switch.address(given.lab)
    argv = switch.inside(names.switch_netns(given.lab), _command(given))
    os.execv(program(argv[0]), argv)


def _add(given: argparse.Namespace, places: Places) -> None:
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
        binds=tuple(given.bind),
    )
    host.create(places, one)
    host.start(places, one)
    host.ready(places, one)
    print(f"lab: host {one.name} of lab {one.lab} is ready after {time.monotonic() - started:.1f} s")


def _exec(given: argparse.Namespace, places: Places) -> None:
    host.become_inside(_host(given, places), _command(given))


def _forward(given: argparse.Namespace, places: Places) -> None:
    if given.descriptor is not None:  # we are in the host's network already
        forward.serve(given.descriptor, given.port)
        return
    one = _host(given, places)
    listening = forward.listen(given.port)
    print(
        f"{forward.LOOPBACK}:{given.port} leads to host {one.name} of lab {one.lab}. Ctrl-C ends it.",
        flush=True,
    )
    forward.become(one.lab, one.name, given.port, listening)


def _demo(given: argparse.Namespace, places: Places) -> None:
    require_root()
    demo.VERBS[given.what](places)


def _carry(given: argparse.Namespace, places: Places) -> None:
    one = _host(given, places)
    if not given.mounted:
        guest.carry(one, cgroups.of_host(one.lab, one.name, one.cgroup))
    sys.exit(guest.boot(one, places.host(one.lab, one.name)))


def _host(given: argparse.Namespace, places: Places) -> nspawn.Host:
    return host.load(places, given.lab, names.host_name(given.host))


def _command(given: argparse.Namespace) -> list[str]:
    argv: list[str] = given.argv[1:] if given.argv[:1] == ["--"] else given.argv
    if not argv:
        raise LabError("give the command to run after the names")
    return argv


def _on_host(act: Callable[[Places, nspawn.Host], None]) -> Callable[[argparse.Namespace, Places], None]:
    return lambda given, places: act(places, _host(given, places))


def _pid(one: nspawn.Host) -> None:
    pid = cgroups.guest_init(one.lab, one.name)
    if pid is None:
        raise LabError(f"host {one.name} of lab {one.lab} is off")
    print(pid)


_HOST_VERBS = [
    ("start", "power a host on", _on_host(host.start)),
    ("ready", "wait until a host is up and answers", _on_host(host.ready)),
    ("reboot", "reboot a host and wait until it is ready", _on_host(host.reboot)),
    ("stop", "power a host off in order", _on_host(lambda _, one: host.stop(one))),
    ("kill", "take a host's power away", _on_host(lambda _, one: host.kill(one))),
    (
        "freeze",
        "stop every process of a host where it stands",
        _on_host(lambda _, one: host.freeze(one, frozen=True)),
    ),
    ("thaw", "let a frozen host go on", _on_host(lambda _, one: host.freeze(one, frozen=False))),
    ("cut", "pull a host's cable", _on_host(lambda _, one: host.plug(one, plugged=False))),
    ("heal", "plug a host's cable in again", _on_host(lambda _, one: host.plug(one, plugged=True))),
    ("pid", "print the id of a host's PID 1, as this machine counts", _on_host(lambda _, one: _pid(one))),
]
