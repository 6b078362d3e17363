"""Runs on a host: ask.py URL ... asks all at the same time and prints [time, [status, body], ...] as JSON.

The time is when the last had answered, in nanoseconds since 1970. The status is 0, and the body the reason,
where nothing answers.
"""

import json
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

LONGEST = 3.0  # seconds


def ask(url: str) -> tuple[int, str]:
    """Ask one address."""
    try:
        with urllib.request.urlopen(url, timeout=LONGEST) as answer:  # noqa: S310 - our own http://
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


urls = sys.argv[1:]
with ThreadPoolExecutor(len(urls)) as threads:
    answers = list(threads.map(ask, urls))
print(json.dumps([time.time_ns(), *answers]))
