"""Appends to the log, beside a log that keeps a file for each tile, in one run on one disk.

    python -m tests.bench.tlog [SECONDS [ROUNDS]]

Rounds of both are interleaved, because a shared disk's speed changes by the
minute; the ratio is what counts. A probe says how many syncs the disk gives.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.report import Line
from tests.support.process import environment

ROOT = Path(__file__).parents[2]
SHAPES = [(processes, producers) for processes in (1, 4) for producers in (1, 16, 64)]
VARIANTS = ("ours", "tiles")
SECONDS = 5.0
ROUNDS = 2
FEWEST = 5000.0  # entries a second of 4 processes with 64 producers each
SLOWEST = 150.0  # milliseconds, at the 99th percentile
RATIO = 4.0


@dataclass
class Measured:
    """One variant in one shape, over all rounds."""

    rates: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Entries a second, the median of the rounds."""
        return statistics.median(self.rates)

    def percentile(self, share: float) -> float:
        """Return a latency in milliseconds."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def measure(seconds: float = SECONDS, rounds: int = ROUNDS) -> list[Line]:
    """Print a row for each shape; return the promises about the largest one."""
    found: dict[tuple[str, int, int], Measured] = {}
    print(f"  {probe():.0f} syncs a second of 4 KiB on this disk, now")
    print(f"  {'processes x producers':<24}{'ours /s':>9}{'p50':>7}{'p99':>8}", end="")
    print(f"  {'a file a tile /s':>17}{'p50':>7}{'p99':>8}  ratio")
    for processes, producers in SHAPES:
        for _ in range(rounds):
            for variant in VARIANTS:
                key = (variant, processes, producers)
                once(found.setdefault(key, Measured()), variant, (processes, producers), seconds)
        ours, tiles = (found[variant, processes, producers] for variant in VARIANTS)
        shape, ratio = f"{processes} x {producers}", ours.rate / tiles.rate
        print(f"  {shape:<24}{row(ours)}  {row(tiles, 17)}  {ratio:.1f}", flush=True)
    ours, tiles = (found[variant, *SHAPES[-1]] for variant in VARIANTS)
    return [
        Line("tlog, 4 processes of 64 producers, entries", ours.rate, "≥", FEWEST, "/s"),
        Line("tlog, 4 x 64, 99th percentile", ours.percentile(0.99), "≤", SLOWEST, "ms"),
        Line("tlog, 4 x 64, to a file for each tile", ours.rate / tiles.rate, "≥", RATIO, ""),
    ]


def row(measured: Measured, width: int = 9) -> str:
    """Return a variant's figures."""
    return f"{measured.rate:>{width}.0f}{measured.percentile(0.5):>7.1f}{measured.percentile(0.99):>8.1f}"


def once(into: Measured, variant: str, shape: tuple[int, int], seconds: float) -> None:
    """Run one variant once, in a directory of its own."""
    processes, producers = shape
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIRECTORY")) as directory:
        argv = [
            sys.executable,
            "-m",
            "tests.bench.tlog_worker",
            variant,
            f"{directory}/log",
            str(producers),
            str(seconds),
        ]
        running = [
            subprocess.Popen(
                argv,
                cwd=ROOT,
                env=environment({"PYTHONPATH": f"{ROOT / 'app'}:{ROOT}"}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(processes)
        ]
        try:
            for process in running:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
            for process in running:
                assert process.stdin is not None
                process.stdin.write("go\n")
                process.stdin.flush()
            latencies = [
                each for process in running for each in json.loads(process.communicate(timeout=120)[0])
            ]
        finally:
            for process in running:
                process.kill()
                process.wait()
        into.rates.append(len(latencies) / seconds)
        into.latencies += latencies


def probe() -> float:
    """Return how often a second a small append can be synced."""
    with tempfile.TemporaryFile(dir=os.environ.get("BENCH_DIRECTORY")) as file:
        began, count = time.monotonic(), 0
        while time.monotonic() - began < 1:
            os.pwrite(file.fileno(), bytes(4096), count * 4096)
            os.fdatasync(file.fileno())
            count += 1
        return count / (time.monotonic() - began)


def main() -> int:
    """Return 1 when a promise is broken."""
    given = sys.argv[1:]
    lines = measure(float(given[0]) if given else SECONDS, int(given[1]) if given[1:] else ROUNDS)
    for line in lines:
        print(f"  {line}")
    return 0 if all(line.kept for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
