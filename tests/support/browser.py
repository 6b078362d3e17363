"""The system's Chromium, headless, and pages that complain when something is wrong with them."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from tests.support.access import PASSWORD

WITHIN = 15_000.0  # milliseconds that anything on a page may take
# Chromium's own sandbox needs what a container may not give; the pages are ours alone.
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Give a browser."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    assert found, "Chromium is not installed: apt install chromium, or run `make test` as root"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=OPTIONS)
        yield browser
        browser.close()


@contextmanager
def visitor(browser: Browser, complaints: list[str], **options: Any) -> Iterator[BrowserContext]:
    """Give a browser of one person, whose pages' errors are gathered as complaints."""
    with browser.new_context(**options) as context:
        context.set_default_timeout(WITHIN)
        context.on("console", lambda message: _heard(complaints, message.type, message.text))
        context.on("weberror", lambda error: complaints.append(str(error.error)))
        yield context


def sign_in(context: BrowserContext, port: int, name: str, to: str = "/") -> Page:
    """Sign in by the form, and return the page that was asked for."""
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{port}{to}")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"http://127.0.0.1:{port}{to}")
    return page


def live(page: Page) -> Page:
    """Wait until a page's stream is open."""
    page.locator("#lamp[data-state=live]").wait_for()
    return page


def _heard(complaints: list[str], kind: str, text: str) -> None:
    if kind in ("error", "warning"):
        complaints.append(f"{kind}: {text}")
