"""One hub of two processes, and one browser, for every test of pages."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser
from tests.support import access, browser
from tests.support.pair import Pair
from tests.support.postgres import Server

from rota.access.scopes import Scope


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[Pair]:
    """Give a hub that bob may only look at and choose in, and that the others administer."""
    both = Pair.start(tmp_path_factory.mktemp("browser"), postgres, "web,worker", ROTA_LIMITS_SIGN_IN="0")
    for name in ("ada", "carol", "dave", "erin"):
        access.account(both.environ, name, Scope.ADMIN)
    access.account(both.environ, "bob", Scope.HUB_READ, Scope.ROOMS_WRITE)
    yield both
    both.kill()


@pytest.fixture(scope="session")
def chromium(pair: Pair) -> Iterator[Browser]:  # noqa: ARG001 - the hub is made first, outside its event loop
    """Give the browser."""
    with browser.chromium() as found:
        yield found


@pytest.fixture
def complaints() -> Iterator[list[str]]:
    """Give the list of what pages complain of; at the test's end it must be empty."""
    found: list[str] = []
    yield found
    assert found == []
