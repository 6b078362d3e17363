"""The command line of the lab: its verbs and their arguments."""

import os
import sys
from argparse import REMAINDER, SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable, Sequence

from lab import demo, names, recipe, verbs, vm_verbs
from lab.commands import require_root
from lab.errors import LabError
from lab.places import Places

Act = Callable[[Namespace, Places], None]
AddVerb = Callable[[str, str, Act], ArgumentParser]


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the arguments say; return the exit status."""
    given = parser().parse_args(argv)
    os.umask(0o022)  # the directories of a host's disk are its own directories
    try:
        if "lab" in given:
            names.lab_name(given.lab)
            require_root()
        act: Act = given.act
        act(given, Places.from_environment())
    except LabError as error:
        print(f"labctl: {error}", file=sys.stderr)
        return 1
    return 0


def parser() -> ArgumentParser:
    """Return the parser of the whole command line."""
    top = ArgumentParser(prog="labctl", description="Real systemd hosts, made on the spot.")
    subparsers = top.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, text: str, act: Act) -> ArgumentParser:
        made = subparsers.add_parser(name, help=text, description=text)
        made.set_defaults(act=act)
        return made

    _machine_verbs(verb)
    _lab_verbs(verb)
    _host_verbs(verb)
    text = "emulated machines with a kernel of their own; `labctl vm --help` lists their verbs"
    vm_verbs.add_to(subparsers.add_parser("vm", help=text, description=text))
    return top


def _machine_verbs(verb: AddVerb) -> None:
    verb("packages", "install the Debian packages that the lab needs here", verbs.install_packages)
    one = verb("images", "bake the images that are not there, and print where they are", verbs.bake_images)
    one.add_argument("suites", metavar="SUITE", nargs="*", help=f"of {', '.join(recipe.SUITES)}; default all")
    verb("list", "list the labs and their hosts", verbs.show_labs)
    one = verb("demo", "a hub with the kit applied, left running", verbs.run_demo)
    one.add_argument("what", choices=("up", "down"))
    one.add_argument("--lab", metavar="LAB", default=demo.LAB, help=f"its lab; {demo.LAB} by default")
    one.add_argument("--shape", choices=sorted(demo.SHAPES), default="cluster", help="five hosts, or one")
    one.add_argument("--port", type=int, help="where its page is to be seen here")


def _lab_verbs(verb: AddVerb) -> None:
    one = verb("up", "make a lab's switch", verbs.make_switch)
    one.add_argument("lab", metavar="LAB")
    one.add_argument("switch", metavar="ADDRESS/LENGTH", help="the switch's own address, as 10.78.0.1/24")
    one = verb("net", "run a command of this machine on a lab's network", verbs.run_on_network)
    one.add_argument("lab", metavar="LAB")
    one.add_argument("argv", metavar="COMMAND", nargs=REMAINDER)
    one = verb("down", "take a lab away, whatever state it is in", verbs.take_down)
    one.add_argument("lab", metavar="LAB")


def _host_verbs(verb: AddVerb) -> None:
    def on_host(name: str, text: str, act: Act) -> ArgumentParser:
        made = verb(name, text, act)
        made.add_argument("lab", metavar="LAB")
        made.add_argument("host", metavar="HOST")
        return made

    one = on_host("add", "make a host, start it and wait until it is ready", verbs.add_host)
    one.add_argument("address", metavar="ADDRESS", help="on the switch's network, as 10.78.0.11")
    one.add_argument("--suite", default="trixie", help="trixie (the default) or bookworm")
    one.add_argument("--cgroup", default="v2", help="v2 (the default), v1, or limits: whichever gives limits")
    one.add_argument("--bind", action="append", default=[], metavar="DIR:PATH", help="share a directory")
    on_host("start", "power a host on", verbs.start)
    on_host("ready", "wait until a host is up and answers", verbs.await_ready)
    on_host("reboot", "reboot a host and wait until it is ready", verbs.reboot)
    on_host("stop", "power a host off in order", verbs.stop)
    on_host("kill", "take a host's power away", verbs.kill)
    on_host("freeze", "stop every process of a host where it stands", verbs.freeze)
    on_host("thaw", "let a frozen host go on", verbs.thaw)
    on_host("cut", "pull a host's cable", verbs.cut)
    on_host("heal", "plug a host's cable in again", verbs.heal)
    on_host("pid", "print the id of a host's PID 1, as this machine counts", verbs.show_pid)
    one = on_host("exec", "run a command inside a host, as root", verbs.run_inside)
    one.add_argument("argv", metavar="COMMAND", nargs=REMAINDER)
    one = on_host("forward", "lead a port of this machine to one of a host", verbs.forward_port)
    one.add_argument("port", metavar="PORT", type=int)
    one.add_argument("--descriptor", type=int, help=SUPPRESS)
    one = on_host("carry", "(for labctl itself) be the process that carries a host", verbs.carry)
    one.add_argument("--mounted", action="store_true")
