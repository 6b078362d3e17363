"""Runs on a host: follow.py URL HEADERS reads a stream of events and prints each line of it with its time.

HEADERS is a JSON object. Each line is [nanoseconds since 1970, text] as JSON; the first one says "open" once
the stream's head has come. It ends with the stream, or with its standard input.
"""

import http.client
import json
import os
import sys
import threading
import time
from urllib.parse import urlsplit

LONGEST = 60.0  # seconds without a byte


def end() -> None:
    """End once nobody holds our standard input any more."""
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=end, daemon=True).start()
url, headers = sys.argv[1:]
parts = urlsplit(url)
connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=LONGEST)
connection.request("GET", f"{parts.path}?{parts.query}", headers=json.loads(headers))
answer = connection.getresponse()
print(
    json.dumps([time.time_ns(), "open" if answer.status == http.client.OK else str(answer.status)]),
    flush=True,
)
while line := answer.readline():
    print(json.dumps([time.time_ns(), line.decode().rstrip("\n")]), flush=True)
