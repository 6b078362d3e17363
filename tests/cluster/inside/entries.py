"""Runs on a host with the release's own Python: entries.py DIRECTORY prints a log's entries as JSON.

Each frame's root is reckoned anew, and its chain checked.
"""

import json
import sys
from pathlib import Path

from rota.tlog import segments
from rota.tlog.disk import LocalDisk
from rota.tlog.frames import START, Chain
from rota.tlog.merkle import EMPTY_ROOT, Frontier, leaf_hash

disk, chain, frontier = LocalDisk(Path(sys.argv[1])), Chain(START, EMPTY_ROOT), Frontier()
found = []
for _, frame in segments.read_on(disk, chain, segments.look(disk).position):
    for entry in frame.entries:
        frontier.add(leaf_hash(entry))
        found.append(entry.decode().rstrip())
    if frontier.root() != frame.root:
        sys.exit(f"the tree differs after {len(found)} entries")
print(json.dumps(found))
