"""The build itself, in its sandbox: takes a source on standard input, answers output and an artifact.

It is a program of its own, `python -m rota.builds.inside`: a service of one build, or
a child of the hub. It ends with the stream: when whoever ordered it goes away, all of
it does.
"""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from rota.archive.extract import ArchiveError, Bounds, extract
from rota.archive.pack import pack
from rota.builds import detection, static_files
from rota.builds.detection import OURS, BuildPlan, Step
from rota.builds.frames import BYTES, MADE, ORDER, OUTPUT, WRONG, Made, Order, exactly, receive, send
from rota.builds.manifest import written
from rota.errors import InputError

PART = 1024 * 1024  # bytes
CLEAN = {"PATH": detection.SYSTEM, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "SOURCE_DATE_EPOCH": "315532800"}


class StepError(Exception):
    """A program of the build failed; the message says which, and how."""


def build(source: BinaryIO, answer: BinaryIO) -> None:
    """Take an order with its source, and answer what came of it."""
    kind, data = receive(source)
    if kind != ORDER:
        raise ValueError("no order")
    order = msgspec.json.decode(data, type=Order)
    _limit(order)
    with tempfile.TemporaryDirectory(prefix="build-") as place:
        tree, archive = Path(place, "app"), Path(place, "archive")
        try:
            _take(source, order, archive, tree)
            _until_the_stream_ends(source)
            plan = detection.plan(tree)
            _say(answer, f"This is a {plan.kind} app: {plan.because}.\n")
            home = Path(place, "home")
            home.mkdir()
            for step in plan.steps:
                _run(
                    step, tree, {**CLEAN, "HOME": str(home), "TMPDIR": str(home), **order.environment}, answer
                )
            _finish(plan, tree)
            with archive.open("wb") as file:
                files = pack(tree, file)
        except (InputError, StepError, ArchiveError) as error:
            remedy = f" {error.remedy}" if isinstance(error, InputError) else ""
            send(answer, WRONG, f"{error}{remedy}".encode())
            return
        size = archive.stat().st_size
        _say(answer, f"The artifact has {files} files and {size} bytes.\n")
        send(answer, MADE, msgspec.json.encode(Made(size, written(plan.manifest))))
        with archive.open("rb", buffering=0) as made:
            while part := made.read(PART):
                send(answer, BYTES, part)


def _take(source: BinaryIO, order: Order, archive: Path, tree: Path) -> None:
    """Write the source to a file, and unpack it."""
    with archive.open("wb") as file:
        left = order.size
        while left:
            part = exactly(source, min(PART, left))
            file.write(part)
            left -= len(part)
    tree.mkdir()
    with archive.open("rb") as file, _directory(tree) as directory:
        extract(file, directory, Bounds(order.size))
    archive.unlink()
    shutil.rmtree(tree / OURS, ignore_errors=True)


@contextmanager
def _directory(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _run(step: Step, tree: Path, environment: Mapping[str, str], answer: BinaryIO) -> None:
    """Run one program to its end, its output going to who ordered the build. Raises StepError."""
    shown = " ".join(_short(word) for word in step.argv)
    _say(answer, f"$ {shown}\n")
    try:
        process = subprocess.Popen(  # noqa: S603 - the app's own words, in the build's sandbox
            step.argv,
            cwd=tree,
            env={**environment, **step.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        raise StepError(
            f"{step.argv[0]} cannot be run: {error.strerror}. Is it installed on the primary?"
        ) from error
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    with process:
        while data := os.read(process.stdout.fileno(), 65_536):
            send(answer, OUTPUT, data)
    if process.returncode < 0:
        raise StepError(f"{shown} was ended by signal {-process.returncode}: did it need more memory?")
    if process.returncode:
        raise StepError(f"{shown} failed with exit code {process.returncode}; its output says why.")


def _finish(plan: BuildPlan, tree: Path) -> None:
    """Add what the artifact needs beside what was built."""
    if not plan.serves:
        return
    if not (tree / plan.serves).is_dir():
        raise InputError(f"There is no directory {plan.serves} after the build.", "See [build] directory.")
    (tree / OURS).mkdir(exist_ok=True)
    shutil.copyfile(static_files.__file__, tree / OURS / "static_files.py")


def _until_the_stream_ends(source: BinaryIO) -> None:
    """End with everything that was started when whoever ordered the build goes away."""

    def watch() -> None:
        source.read(1)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _limit(order: Order) -> None:
    """Bound what each process of the build may use; a unit bounds all of them together."""
    with contextlib.suppress(PermissionError):  # a unit may forbid it, and bounds them itself
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if order.memory:
            resource.setrlimit(resource.RLIMIT_DATA, (order.memory, order.memory))


def _say(answer: BinaryIO, text: str) -> None:
    send(answer, OUTPUT, f"-----> {text}".encode())


def _short(word: str) -> str:
    return "python" if word == sys.executable else word


def main() -> None:
    """Build once."""
    os.umask(0o022)
    with os.fdopen(os.dup(0), "rb") as source, os.fdopen(os.dup(0), "wb") as answer:
        build(source, answer)


if __name__ == "__main__":
    main()
