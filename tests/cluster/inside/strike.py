"""Runs on a host: strike.py PID SIGNAL sends it and prints when, in nanoseconds since 1970, just before."""

import os
import sys
import time

pid, number = map(int, sys.argv[1:])
at = time.time_ns()
os.kill(pid, number)
print(at)
