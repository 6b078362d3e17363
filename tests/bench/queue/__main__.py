"""`make bench-queue`: rounds of every system in turn, a table of all, our promises beside the best peer."""

import argparse
import statistics
import sys
from collections.abc import Callable, Iterable

from tests.bench.queue.install import install
from tests.bench.queue.measure import Bench, Figures, Size, is_quiet, make_cluster, systems, version
from tests.bench.report import Line

OURS = "rota"
COLUMNS: tuple[tuple[str, Callable[[list[Figures]], float]], ...] = (
    ("single/s", lambda rounds: _median(each.single for each in rounds)),
    ("bulk/s", lambda rounds: _median(rate for each in rounds for rate in each.bulk)),
    ("drain 1/s", lambda rounds: _median(each.drain[1] for each in rounds)),
    ("drain 2/s", lambda rounds: _median(each.drain[2] for each in rounds)),
    ("client µs", lambda rounds: min(each.client[1] for each in rounds)),
    ("server µs", lambda rounds: min(each.server[1] for each in rounds)),
    ("cpu µs", lambda rounds: min(each.client[1] + each.server[1] for each in rounds)),
    ("p50 ms", lambda rounds: _share(rounds, 0.5)),
    ("p99 ms", lambda rounds: _share(rounds, 0.99)),
)


def main() -> int:
    """Return 1 when a promise is broken."""
    given = _arguments()
    peers = install()
    server = make_cluster()
    try:
        bench = Bench(server, Size(given.jobs, given.single, given.pickups))
        chosen = [
            each for each in systems(peers, sys.executable) if not given.only or each.name in given.only
        ]
        print(f"PostgreSQL {version(server)}, load {is_quiet()} at the start", flush=True)
        rounds: dict[str, list[Figures]] = {each.name: [] for each in chosen}
        for number in range(given.rounds):
            for system in chosen:
                rounds[system.name].append(bench.round(system))
                newest = {title: of(rounds[system.name][-1:]) for title, of in COLUMNS}
                print(
                    f"round {number + 1}, load {is_quiet()}",
                    *_table({system.name: newest}),
                    sep="\n",
                    flush=True,
                )
    finally:
        server.destroy()
    table = {name: {title: of(each) for title, of in COLUMNS} for name, each in rounds.items()}
    print("\n".join(_table(table)))
    lines = _promises(table) if OURS in table and len(table) > 1 else []
    for line in lines:
        print(f"  {line}")
    return 0 if all(line.kept for line in lines) else 1


def _promises(table: dict[str, dict[str, float]]) -> list[Line]:
    """Return our figures as ratios to the best peer at each."""
    ours = table[OURS]
    others = [figures for name, figures in table.items() if name != OURS]

    def to_most(column: str) -> float:
        return ours[column] / max(other[column] for other in others)

    cpu = ours["cpu µs"] / min(other["cpu µs"] for other in others)
    return [
        Line("CPU a job, client and server, to the best peer", cpu, "≤", 0.65, "x"),
        Line("drain with one worker", to_most("drain 1/s"), "≥", 1.8, "x"),
        Line("drain with two workers", to_most("drain 2/s"), "≥", 1.5, "x"),
        Line("bulk enqueue", to_most("bulk/s"), "≥", 1.8, "x"),
        Line("single enqueue", to_most("single/s"), "≥", 0.95, "x"),
        Line("pick-up when idle, median", ours["p50 ms"], "≤", 5, "ms"),
        Line("pick-up when idle, 99th percentile", ours["p99 ms"], "≤", 10, "ms"),
    ]


def _table(table: dict[str, dict[str, float]]) -> list[str]:
    titles = [title for title, _ in COLUMNS]
    lines = [f"{'':<16}" + "".join(f"{title:>11}" for title in titles)]
    for name, figures in table.items():
        cells = (
            f"{figures[title]:>11.2f}" if "ms" in title else f"{figures[title]:>11.0f}" for title in titles
        )
        lines.append(f"{name:<16}" + "".join(cells))
    return lines


def _median(values: Iterable[float]) -> float:
    return float(statistics.median(values))


def _share(rounds: list[Figures], share: float) -> float:
    """Return the median over the rounds of a percentile of each."""
    each = [sorted(figures.pickups) for figures in rounds]
    return float(statistics.median(times[min(len(times) - 1, int(len(times) * share))] for times in each))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-queue", description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000, help="drained each time")
    parser.add_argument("--single", type=int, default=500, help="enqueued one by one")
    parser.add_argument("--pickups", type=int, default=200, help="picked up when idle")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="these systems alone")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
