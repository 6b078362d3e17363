"""`make bench`: measures everything, prints each figure beside its promise, fails when one is broken."""

import sys

from tests.bench import proxy, routes, startup, takeover


def main() -> int:
    """Return 1 when a promise is broken."""
    lines = []
    for part in (startup, routes, proxy, takeover):
        print(f"== {part.__name__.rpartition('.')[2]}", flush=True)
        for line in part.measure():
            print(f"  {line}", flush=True)
            lines.append(line)
    return 0 if all(line.kept for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
