"""Runs on a host: call.py METHOD URL HEADERS BODY sends one request and prints [time, status, headers, body].

HEADERS is a JSON object; BODY the text to send, or nothing. The time is when it was about to be sent, in
nanoseconds since 1970.
"""

import http.client
import json
import sys
import time
from urllib.parse import urlsplit

LONGEST = 20.0  # seconds

method, url, headers, body = sys.argv[1:]
parts = urlsplit(url)
connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=LONGEST)
connection.connect()
began = time.time_ns()
connection.request(method, f"{parts.path}?{parts.query}", body or None, json.loads(headers))
answer = connection.getresponse()
data = answer.read()
print(json.dumps([began, answer.status, dict(answer.getheaders()), data.decode("latin-1")]))
