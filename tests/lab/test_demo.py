"""The demo: one command, and the hub's page can be looked at from here."""

import re
import socket
import subprocess
import urllib.request
from collections.abc import Callable
from http.client import HTTPResponse
from pathlib import Path
from urllib.parse import urlencode

import pytest
import yaml
from tests.lab import traces
from tests.lab.labctl import PROGRAM, Labctl

from lab import demo
from lab.places import Places

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as opened:
        port: int = opened.getsockname()[1]
        return port


def signed_in(port: int, password: str) -> HTTPResponse:
    """Sign in as a browser does; return the first page."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    form = urlencode({"name": demo.ADMINISTRATOR, "password": password, "to": "/"}).encode()
    origin = f"http://127.0.0.1:{port}"
    asked = urllib.request.Request(f"{origin}/sign-in", form, {"Origin": origin})  # noqa: S310 - our own http://
    page: HTTPResponse = browser.open(asked, timeout=10)
    return page


def test_the_demo_shows_its_page_and_goes_without_a_trace(
    places: Places, new_lab: Callable[[str], Labctl]
) -> None:
    lab, port = new_lab(""), free_port()
    argv = [str(PROGRAM), "demo", "up", f"--lab={lab.lab}", "--shape=single", f"--port={port}"]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"http://127.0.0.1:{port}/" in done.stdout
    password = re.search(r"with the password (\S+)", done.stdout)
    assert password
    with signed_in(port, password[1]) as page:
        assert page.status == 200
        assert demo.SHAPES["single"].entry in page.read().decode()
    lab("down")
    assert traces.of_lab(places, lab.lab) == {}
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_the_demo_of_five_has_the_hosts_of_the_cluster_scenario() -> None:
    inventory = yaml.safe_load((ROOT / "molecule" / "shared" / "cluster.yml").read_text())
    hosts = inventory["all"]["children"]["cluster"]["hosts"]
    assert demo.SHAPES["cluster"].hosts == {name: about["ansible_host"] for name, about in hosts.items()}
