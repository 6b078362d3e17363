"""A process that appends to a log and notes what was answered, to be killed at any moment.

    python -m tests.support.tlog_writer DIRECTORY ACKNOWLEDGED NAME BATCHES ENTRIES [LIMIT]

Each answered entry becomes a line `INDEX NAME-BATCH-AT` in the file ACKNOWLEDGED. An
append that fails is tried again, with other entries, as another act would be.
LIMIT is the largest size, in bytes, that a file may grow to.
"""

import os
import resource
import signal
import sys
from pathlib import Path

from rota.errors import RotaError
from rota.tlog.disk import LocalDisk
from rota.tlog.records import Records, Rules

SEGMENT = 20_000


def main() -> int:
    """Append; return how many batches failed, 100 at most."""
    directory, acknowledged, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    batches, entries = int(sys.argv[4]), int(sys.argv[5])
    if len(sys.argv) > 6:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        limit = int(sys.argv[6])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    records = Records(LocalDisk(directory), lambda: 0, 0, Rules(segment=SEGMENT))
    failed = 0
    with acknowledged.open("ab", buffering=0) as out:
        for batch in range(batches):
            names = [b"%s-%d-%d" % (name.encode(), batch, at) for at in range(entries)]
            try:
                logged = records.append([each + b" " * 200 for each in names])
            except RotaError as error:
                failed += 1
                print(error, file=sys.stderr)
                continue
            lines = [b"%d %s\n" % (each.index, what) for each, what in zip(logged, names, strict=True)]
            os.write(out.fileno(), b"".join(lines))
    return min(failed, 100)


if __name__ == "__main__":
    sys.exit(main())
