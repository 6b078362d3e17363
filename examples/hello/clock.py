"""Writes a line every few seconds: a process type that listens nowhere and runs once."""

import time

if __name__ == "__main__":
    while True:
        print("tick", int(time.time()), flush=True)
        time.sleep(5)
