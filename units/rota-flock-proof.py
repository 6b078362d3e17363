"""Prove that flock on a directory excludes between two hosts, and read how the directory is mounted.

    rota-flock-proof inspect --directory DIR ...             prints, as JSON, what is mounted there
    rota-flock-proof intact --directory DIR --source WHAT    succeeds when just that is mounted there
    rota-flock-proof hold --directory DIR --run NONCE ...    one side of a proof
    rota-flock-proof contend --directory DIR --run NONCE ... the other side, on another host

The two sides meet through marks in the directory. In two rounds, each side once the holder, they show that
a lock that one host holds is refused to the other, that what the holder wrote is read there, and that the
lock is free soon after the holder was killed. Standard library only: it runs on the host's own Python.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import pwd
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = 1  # raise it when more is proved, and every host proves itself anew
PLACE = ".rota-proof"
RECOVER = Path("/sys/module/nfs/parameters/recover_lost_locks")
PAUSE = 0.1  # seconds between two looks
REFUSALS = 5  # how often the lock is tried while the other side holds it
STEPS = 8  # that one side waits for the other at the most
STALE = 3600.0  # seconds after which the marks of a proof that was killed are removed
# What /proc/self/mountinfo calls by another name than mount does.
SHOWN_AS = {"lookupcache=positive": "lookupcache=pos", "vers=4": "vers=4.2"}
FLAGS = {"hard", "nosuid", "nodev", "noexec", "noac", "noatime"}
# Options of NFS under which locks do not exclude, or errors come where data was promised.
REFUSED = {
    "nolock": "locks would stay on this host",
    "nocto": "one host would not see what another wrote",
    "soft": "an outage of the server would become an error in the middle of a write",
    "softerr": "an outage of the server would become an error in the middle of a write",
}


class Failed(Exception):  # noqa: N818 - reads as what happened
    """A step of the proof failed; the message says which, what it means and what to do."""


# -- how a directory is mounted ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Mount:
    """One line of /proc/self/mountinfo."""

    point: str
    root: str  # which directory of its file system
    kind: str
    source: str
    options: tuple[str, ...]

    @property
    def network(self) -> bool:
        """Say whether it is NFS."""
        return self.kind in ("nfs", "nfs4")


def mounts(mountinfo: str) -> list[Mount]:
    """Read the text of /proc/self/mountinfo."""
    found = []
    for line in mountinfo.splitlines():
        fields, _, tail = line.partition(" - ")
        words = fields.split(" ")
        kind, source, super_options = tail.split(" ")[:3]
        options = sorted({*words[5].split(","), *super_options.split(",")})
        found.append(Mount(_plain(words[4]), _plain(words[3]), kind, _plain(source), tuple(options)))
    return found


def _plain(field: str) -> str:
    """Undo mountinfo's octal escapes of spaces and the like."""
    return field.encode().decode("unicode_escape") if "\\" in field else field


def covering(found: list[Mount], directory: str) -> Mount:
    """Return the mount that a directory is on; of two at one place the later lies on top."""
    path = Path(directory)
    over = [mount for mount in found if mount.point == directory or Path(mount.point) in path.parents]
    return max(reversed(over), key=lambda mount: len(mount.point))


def refusals(mount: Mount, recover: str) -> list[str]:
    """Say why the hub's log cannot lie there: one sentence each, with what to do.

    Args:
        mount: what the directory is on.
        recover: the text of /sys/module/nfs/parameters/recover_lost_locks, empty without NFS.

    """
    if not mount.network:
        return []
    said = [
        f"{mount.point} is mounted with {option}: {reason}. Take {option} out of its mount options."
        for option, reason in REFUSED.items()
        if option in mount.options
    ]
    values = dict(option.split("=", 1) for option in mount.options if "=" in option)
    if values.get("local_lock", "none") != "none":
        said.append(
            f"{mount.point} is mounted with local_lock={values['local_lock']}: locks would stay on this "
            "host. Take local_lock out of its mount options."
        )
    if not values.get("vers", "4.2").startswith("4"):
        said.append(f"{mount.point} is mounted by NFSv{values['vers']}: mount it with vers=4.2.")
    if recover.strip() == "Y":
        said.append(
            f"{RECOVER} is Y: a host that lost its lock would take it again and write over others. "
            "Remove recover_lost_locks=1 from /etc/modprobe.d and the kernel's command line, and reboot."
        )
    return said


def owner_faults(directory: str, user: str) -> list[str]:
    """Say what is wrong with the owner and the mode of the directory."""
    account, status = pwd.getpwnam(user), os.stat(directory)  # noqa: PTH116 - one call, two uses
    own = f"{account.pw_uid}:{account.pw_gid}"
    if status.st_uid != account.pw_uid:
        fault = (
            f"{directory} belongs to uid {status.st_uid}, and {user} has {account.pw_uid} on this host: run "
            f"`chown {own} {directory}` where it can be changed, or set base_uid to the number that the "
            "other hosts use."
        )
        return [fault]
    if status.st_mode & 0o077:
        return [f"{directory} is open to others than {user}: run `chmod 0700 {directory}` as {user}."]
    return []


def subject(mount: Mount, given: argparse.Namespace) -> str:
    """Name what a proof is about by a digest: another digest, and it must be proved anew."""
    # Device names and options of a disk change with the weather; those of NFS are what locks hang on.
    details = [mount.source, *mount.options] if mount.network else []
    about = [VERSION, given.backend, given.directory, given.source, given.alone, mount.kind, *details]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()


def inspect(given: argparse.Namespace) -> dict[str, Any]:
    """Tell how the directory is mounted, what is wrong with that, and whether its kept proof is about it."""
    mount = covering(mounts(Path("/proc/self/mountinfo").read_text()), given.directory)
    there = Path(given.directory).is_dir()
    on_it = mount.point == given.directory
    mounted = there and (given.backend == "local" or on_it)
    said = refusals(mount, RECOVER.read_text() if RECOVER.exists() else "") if mounted else []
    if mounted:
        said += owner_faults(given.directory, given.user)
    else:
        said.append(f"Nothing is mounted on {given.directory}: ask `systemctl status '{given.directory}'`.")
    kept = read_kept(given.result)
    about = subject(mount, given)
    return {
        "mounted": on_it,
        # What a mount would hide.
        "beneath": there and not on_it and any(Path(given.directory).iterdir()),
        "mount": {"kind": mount.kind, "source": mount.source, "options": list(mount.options)},
        "refusals": said,
        "subject": about,
        "kept": kept,
        "proved": bool(kept.get("proved")) and kept.get("subject") == about,
    }


def read_kept(path: str) -> dict[str, Any]:
    """Read the result of the last proof; nothing if there is none."""
    try:
        return dict(json.loads(Path(path).read_text())) if path else {}
    except (FileNotFoundError, ValueError):
        return {}


def intact(given: argparse.Namespace) -> bool:
    """Say whether the directory is mounted from the source with the options given."""
    mount = covering(mounts(Path("/proc/self/mountinfo").read_text()), given.directory)
    if mount.point != given.directory:
        return False
    if given.backend == "bind":
        return Path(given.directory).samefile(given.source)
    names = {option.partition("=")[0] for option in mount.options if "=" in option}
    wanted = [SHOWN_AS.get(option, option) for option in given.options.split(",") if option]
    shown = [word for word in wanted if word in FLAGS or word.partition("=")[0] in names]
    return mount.source == given.source and set(shown) <= set(mount.options)


# -- the two sides of a proof -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """One of the two, and where both meet.

    Every mark is a file that is written once and never changed, so that no cache of any host can show an
    older one.
    """

    name: str  # hold or contend: who holds in the first round
    place: Path
    alone: bool
    patience: float  # seconds for each step of the other side
    release: float  # seconds until the lock of a holder that was killed must be free

    @property
    def other(self) -> str:
        """Return the name of the other side."""
        return {"hold": "contend", "contend": "hold"}[self.name]

    def mark(self, name: str, **content: Any) -> None:
        """Leave a mark for the other side."""
        draft = self.place / f".{self.name}.{name}"
        with draft.open("w") as stream:
            stream.write(json.dumps(content))
            stream.flush()
            os.fsync(stream.fileno())
        draft.rename(self.place / name)
        print(f"{self.name}: {name}", file=sys.stderr, flush=True)

    def look(self, name: str) -> dict[str, Any] | None:
        """Read a mark; None if it is not there yet."""
        try:
            return dict(json.loads((self.place / name).read_text()))
        except FileNotFoundError:
            return None

    def wait(self, name: str, meaning: str) -> dict[str, Any]:
        """Wait for a mark of the other side.

        Raises:
            Failed: it did not come in time, which has this meaning; or the other side has failed.

        """
        deadline = time.monotonic() + self.patience
        while True:
            if (found := self.look(name)) is not None:
                return found
            if failed := self.look(f"{self.other}.failed"):
                raise Failed(f"the other side says: {failed['message']}")
            if time.monotonic() > deadline:
                raise Failed(f"{meaning} (waited {self.patience:g} s for the mark {name})")
            time.sleep(PAUSE)


def meet(side: Side) -> dict[str, Any]:
    """Wait for the other side, and check that the two can prove something to each other."""
    side.mark(f"{side.name}.here", host=socket.gethostname(), uid=os.getuid())
    other = side.wait(
        f"{side.other}.here",
        "the other side was not seen in the directory: either it does not run, or the two hosts do not have "
        "the same directory mounted. Compare `findmnt` on both",
    )
    if other["uid"] != os.getuid():
        raise Failed(
            f"the user has uid {os.getuid()} here and {other['uid']} on {other['host']}: set base_uid"
        )
    if not side.alone and other["host"] == socket.gethostname():
        raise Failed(f"both sides ran on {other['host']}, which proves nothing: give each host its own name")
    return other


def attempt(descriptor: int) -> bool:
    """Try for the lock without waiting."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def hold_round(side: Side, number: int) -> dict[str, Any]:
    """Hold the lock, let the other side find it held, and have the holder killed; tell what that side saw."""
    lock, token = side.place / f"{number}.lock", secrets.token_hex(16)
    with gripping(lock, token) as process:
        await_grip(process, side.patience)
        side.mark(f"{number}.held", token=token)
        side.wait(f"{number}.refused", "the other side did not get as far as finding the lock held")
        process.kill()
        process.wait()
    side.mark(f"{number}.killed")
    done = side.wait(f"{number}.done", "the other side did not get the lock after its holder was killed")
    if lock.read_text() != done["token"]:
        raise Failed("what the other host wrote under the lock is not read here: is the directory cached?")
    return dict(done["seen"])


def contend_round(side: Side, number: int, holder: str) -> dict[str, Any]:
    """Find the lock held and what the holder wrote, then get the lock when the holder is dead."""
    held = side.wait(f"{number}.held", f"{holder} did not take the lock")
    lock, token = side.place / f"{number}.lock", secrets.token_hex(16)
    with lock.open("r+b", buffering=0) as stream:
        for _ in range(REFUSALS):
            if attempt(stream.fileno()):
                raise Failed(
                    f"flock does not exclude: this host took the lock while {holder} held it. Two hosts "
                    "would write over each other; mount a file system whose locks reach all hosts"
                )
            time.sleep(PAUSE)
        if lock.read_text() != held["token"]:
            raise Failed(f"what {holder} wrote and synced under the lock is not read here: is it cached?")
        side.mark(f"{number}.refused")
        seconds = await_release(side, number, stream.fileno(), holder)
        if lock.read_text() != held["token"]:
            raise Failed(f"with the lock in hand, what {holder} wrote is not read here")
        os.pwrite(stream.fileno(), token.encode(), 0)
        os.fsync(stream.fileno())
    seen = {"holder": holder, "refused": REFUSALS, "free_after": round(seconds, 2)}
    side.mark(f"{number}.done", token=token, seen=seen)
    return seen


def await_release(side: Side, number: int, descriptor: int, holder: str) -> float:
    """Wait until the lock is free; return the seconds since the holder was seen killed, or since we began."""
    began = time.monotonic()
    killed = 0.0
    while not attempt(descriptor):
        now = time.monotonic()
        if not killed and side.look(f"{number}.killed") is not None:
            killed = now
        if killed and now - killed > side.release:
            raise Failed(
                f"the lock was still held {side.release:g} s after its holder on {holder} was killed: a "
                "crash would stop the log. Is the server's lease-time longer? It must be at most 15"
            )
        if not killed and now - began > side.patience:
            raise Failed(f"{holder} neither let the lock go nor died within {side.patience:g} s")
        time.sleep(PAUSE)
    return time.monotonic() - (killed or began)


def grip(lock: Path, token: str) -> int:
    """Be the holder: take the lock, write, say so, and write on until killed or left alone."""
    with lock.open("w+b", buffering=0) as stream:
        if not attempt(stream.fileno()):
            print("busy", flush=True)
            return 1
        os.pwrite(stream.fileno(), token.encode(), 0)
        os.fsync(stream.fileno())
        print("held", flush=True)
        while not select.select([sys.stdin], [], [], 1.0)[0]:  # the end of our parent is readable
            try:
                os.pwrite(stream.fileno(), token.encode(), 0)
                os.fsync(stream.fileno())
            except OSError as error:
                print(f"lost {error.strerror}", flush=True)
                os._exit(1)  # closing the file would say the same once more
    return 0


@contextlib.contextmanager
def gripping(lock: Path, token: str) -> Iterator[subprocess.Popen[str]]:
    """Give a process that grips; it ends with the block, and with us."""
    argv = [sys.executable, "-I", __file__, "grip", str(lock), token]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def next_line(process: subprocess.Popen[str], patience: float) -> str:
    """Return what a process says next; nothing if it says nothing for so many seconds, or ends."""
    if process.stdout and select.select([process.stdout.fileno()], [], [], patience)[0]:
        return process.stdout.readline().strip()
    return ""


def await_grip(process: subprocess.Popen[str], patience: float) -> None:
    """Wait until a process says that it holds the lock."""
    said = next_line(process, patience) or "nothing"
    if said != "held":
        raise Failed(f"a new file of the directory could not be locked and written (its holder said {said})")


def stay_round(side: Side) -> dict[str, Any]:
    """Hold the lock for as long as may be, to be lost with the whole host; tell what became of it."""
    lock, token = side.place / "1.lock", secrets.token_hex(16)
    with gripping(lock, token) as process:
        await_grip(process, side.patience)
        side.mark("1.held", token=token)
        return {"lost": next_line(process, side.patience)}


def prove(side: Side, *, stay: bool) -> dict[str, Any]:
    """Go through the proof as one of the two sides; return what was seen."""
    other = meet(side)["host"]
    if stay:
        rounds = [stay_round(side) if side.name == "hold" else contend_round(side, 1, other)]
    elif side.name == "hold":
        rounds = [hold_round(side, 1), contend_round(side, 2, other)]
    else:
        rounds = [contend_round(side, 1, other), hold_round(side, 2)]
    side.mark(f"{side.name}.end")
    return {"peer": other, "rounds": rounds}


def take_side(given: argparse.Namespace) -> dict[str, Any]:
    """Be one side, and clean up behind both."""
    top = Path(given.directory) / PLACE
    side = Side(given.side, top / given.run, given.alone, given.patience, given.release)
    try:
        side.place.mkdir(mode=0o700, parents=True, exist_ok=True)
        sweep(top)
        seen = prove(side, stay=given.stay)
    except Failed as error:
        return {"proved": False, "message": str(error)} | tell_failure(side, str(error))
    except OSError as error:
        return {"proved": False, "message": f"the directory cannot be used: {error}"}
    finally:
        clean(side)
    return {"proved": True, "message": "flock excludes"} | seen


def tell_failure(side: Side, message: str) -> dict[str, Any]:
    """Let the other side know, so that it need not wait; return whom it was tried with."""
    with contextlib.suppress(OSError):
        side.mark(f"{side.name}.failed", message=message)
    there = side.look(f"{side.other}.here")
    return {"peer": there["host"] if there else ""}


def clean(side: Side) -> None:
    """Remove the marks: the holding side does, once the other has ended; the other only if it was alone."""
    met = side.look(f"{side.other}.here") is not None
    deadline = time.monotonic() + (5.0 if side.name == "hold" and met else 0.0)
    while time.monotonic() < deadline:
        if any(side.look(f"{side.other}.{word}") is not None for word in ("end", "failed")):
            break
        time.sleep(PAUSE)
    if side.name == "hold" or not met:
        shutil.rmtree(side.place, ignore_errors=True)
    with contextlib.suppress(OSError):
        side.place.parent.rmdir()  # another proof may be there


def sweep(top: Path) -> None:
    """Remove what proofs that were killed have left."""
    for place in top.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if time.time() - place.stat().st_mtime > STALE:
                shutil.rmtree(place, ignore_errors=True)


# -- the command line -------------------------------------------------------------------------------------


def supervise(given: argparse.Namespace) -> int:
    """Run one side as the user of the hub, keep its result, and print it; it cannot hang for ever."""
    account = pwd.getpwnam(given.user)
    argv = [sys.executable, "-I", __file__, "side", *sys.argv[1:]]
    root = os.getuid() == 0
    try:
        done = subprocess.run(
            argv,
            check=False,
            stdout=subprocess.PIPE,
            text=True,
            timeout=STEPS * given.patience,
            user=account.pw_uid if root else None,
            group=account.pw_gid if root else None,
            extra_groups=[] if root else None,
        )
        result = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        result = {"proved": False, "message": "the directory does not answer: is its server away?"}
    except ValueError:
        result = {"proved": False, "message": "the proof itself failed: its standard error says why"}
    if given.result:
        about = inspect(given)["subject"]
        keep(
            Path(given.result),
            {
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
                "backend": given.backend,
                "directory": given.directory,
                "source": given.source,
                "subject": about,
                **result,
            },
        )
    print(json.dumps(result))
    return 0 if result["proved"] else 1


def keep(path: Path, result: dict[str, Any]) -> None:
    """Write the result, whole or not at all."""
    draft = path.with_name(f".{path.name}")
    draft.write_text(json.dumps(result, indent=2) + "\n")
    draft.chmod(0o644)
    draft.replace(path)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(prog="rota-flock-proof", description=__doc__.partition("\n")[0])
    verbs = top.add_subparsers(dest="verb", required=True)
    for name in ("inspect", "intact", "hold", "contend"):
        one = verbs.add_parser(name)
        one.add_argument("--directory", required=True)
        one.add_argument("--backend", default="local", choices=("local", "bind", "nfs"))
        one.add_argument("--source", default="", help="what is mounted there, as /proc/self/mountinfo has it")
        one.add_argument("--options", default="", help="the mount options that must be in force")
        one.add_argument("--user", default=pwd.getpwuid(os.getuid()).pw_name, help="who uses the directory")
        one.add_argument("--result", default="", help="the file that keeps the result")
        one.add_argument("--alone", action="store_true", help="both sides are on one host")
    for name in ("hold", "contend"):
        one = verbs.choices[name]
        one.add_argument("--run", required=True, help="a word that both sides, and no other run, are given")
        one.add_argument("--patience", type=float, default=60.0, help="seconds for each step")
        one.add_argument("--release", type=float, default=20.0, help="seconds for a dead holder's lock")
        one.add_argument("--stay", action="store_true", help="one round, whose holder is lost with its host")
    one = verbs.add_parser("grip")
    one.add_argument("lock", type=Path)
    one.add_argument("token")
    return top


def interrupted(_number: int, _frame: object) -> NoReturn:
    """End in order, so that the marks are removed."""
    raise Failed("stopped from outside")


def main(arguments: list[str]) -> int:
    """Do what the arguments say; return the exit status."""
    given = parser().parse_args(arguments[1:] if arguments[:1] == ["side"] else arguments)
    if given.verb == "grip":
        return grip(given.lock, given.token)
    if given.verb == "intact":
        return 0 if intact(given) else 1
    if given.verb == "inspect":
        print(json.dumps(inspect(given)))
        return 0
    if arguments[:1] != ["side"]:
        return supervise(given)
    signal.signal(signal.SIGTERM, interrupted)
    given.side = given.verb
    print(json.dumps(take_side(given)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
