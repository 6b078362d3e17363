"""The output of this very machine's instances, from their pipes to the shelf, without a spool between."""

import threading
import time
from collections.abc import Callable

from rota.logs.entry import LONGEST, Entry
from rota.logs.parcel import lined
from rota.logs.shelf import Shelf


def straight_to(shelf: Shelf, server: str) -> Callable[[str, bytes], None]:
    """Return what is told each line of each copy, and keeps it."""
    numbers: dict[str, int] = {}
    lock = threading.Lock()
    began = time.time_ns() // 1000

    def told(copy: str, line: bytes) -> None:
        with lock:
            # A restart of the hub begins above whatever came before it.
            number = numbers[copy] = numbers.get(copy, began) + 1
        text = line.rstrip(b"\r\n")
        entry = Entry(
            number, time.time_ns() // 1000, text[:LONGEST].decode(errors="replace"), 0, len(text) > LONGEST
        )
        shelf.append([lined(server, copy, entry)])

    return told
