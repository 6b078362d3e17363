"""The pages in a real browser: what appears by itself, and who can use them."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from tests.support import access, browser
from tests.support.pair import Pair
from tests.support.wait import wait_for

PAGES = (
    "/",
    "/acts",
    "/queue",
    "/webhooks",
    "/rooms",
    "/rooms/server-s1",
    "/tokens",
    "/settings",
    "/log/entries/0",
)
PHONE = {"width": 360, "height": 740}

# Every text that is seen whose colour stands out too little from what it stands on (WCAG 2.2, 1.4.3).
FAINT = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const parts = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const light = (rgb) => {
    const linear = Array.from(rgb).slice(0, 3).map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const found = parts(getComputedStyle(at).backgroundColor);
      if (found[3] === 255) return found;
    }
    return parts("white");
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    const [one, other] = [light(parts(getComputedStyle(element).color)), light(ground(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) faint.push(`${walker.currentNode.data.trim()}: ${contrast.toFixed(2)}`);
  }
  return faint;
}"""

# Controls that have no name for those who listen to a page, and ids that stand twice.
NAMELESS = """() => {
  const named = (element) => element.labels?.length || element.getAttribute("aria-label")
    || element.textContent.trim() || element.type === "hidden";
  const ids = Array.from(document.querySelectorAll("[id]"), (element) => element.id);
  return [
    ...Array.from(document.querySelectorAll("a, button, input, select, textarea"))
      .filter((element) => !named(element)).map((element) => element.outerHTML),
    ...ids.filter((id, at) => ids.indexOf(id) !== at).map((id) => `id ${id} twice`),
  ];
}"""

# Whether an element lies between the screen's edges.
SEEN = """(element) => {
  const { left, right } = element.getBoundingClientRect();
  return left >= 0 && right <= document.documentElement.clientWidth;
}"""


@pytest.fixture
def ada(chromium: Browser, complaints: list[str]) -> Iterator[BrowserContext]:
    with browser.visitor(chromium, complaints) as context:
        yield context


@pytest.fixture
def bob(chromium: Browser, complaints: list[str]) -> Iterator[BrowserContext]:
    with browser.visitor(chromium, complaints) as context:
        yield context


def act(pair: Pair, which: int, name: str) -> None:
    """Have one process log an act: another administrator signs in."""
    assert access.sign_in(pair.ports[which], name, access.PASSWORD).status == 303


def shifts(page: Page) -> float:
    """Return by how much what stood on the page has moved since it was watched."""
    return float(page.evaluate("window.shifts"))


def watch(page: Page) -> None:
    """Add up every shift of the layout from now on."""
    page.evaluate(
        """() => {
          window.shifts = 0;
          new PerformanceObserver((list) => {
            for (const entry of list.getEntries()) window.shifts += entry.value;
          }).observe({ type: "layout-shift" });
        }"""
    )


def test_an_act_through_one_process_appears_by_itself_on_a_page_of_the_other(
    pair: Pair, ada: BrowserContext
) -> None:
    page = browser.live(browser.sign_in(ada, pair.ports[1], "ada", "/acts"))
    watch(page)
    act(pair, 0, "carol")
    row = page.locator("tr", has_text="account:carol").first
    expect(row).to_be_visible()
    expect(row).to_have_class("fresh")
    proof = row.get_by_role("link", name="proof")
    proof.wait_for()  # a checkpoint came, and said so
    assert shifts(page) < 0.01
    row.get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(r"Entry \d+"))
    expect(page.get_by_text("Path to the root")).to_be_visible()


def test_the_first_page_shows_acts_and_who_leads_as_they_change(pair: Pair, ada: BrowserContext) -> None:
    page = browser.live(browser.sign_in(ada, pair.ports[1], "ada"))
    watch(page)
    act(pair, 0, "dave")
    expect(page.locator("tr", has_text="account:dave").first).to_be_visible()
    assert shifts(page) < 0.01


def test_a_stream_is_followed_through_a_restart_of_its_process(
    pair: Pair, ada: BrowserContext, complaints: list[str]
) -> None:
    page = browser.live(browser.sign_in(ada, pair.ports[1], "ada", "/acts"))
    before = page.evaluate("performance.timeOrigin")
    pair.restart(1)
    browser.live(page)
    act(pair, 0, "erin")
    expect(page.locator("tr", has_text="account:erin").first).to_be_visible()
    assert page.evaluate("performance.timeOrigin") == before, "the page was never loaded anew"
    # What a browser says itself while nobody listens where it knocks, or one does who has no database yet.
    complaints[:] = [text for text in complaints if "net::ERR_" not in text and "503" not in text]


def test_two_people_in_one_room_on_two_processes_see_each_choice(
    pair: Pair, ada: BrowserContext, bob: BrowserContext
) -> None:
    hers = browser.live(browser.sign_in(ada, pair.ports[0], "ada", "/rooms/server-s2"))
    his = browser.live(browser.sign_in(bob, pair.ports[1], "bob", "/rooms/server-s2"))
    expect(hers.locator(".people li")).to_have_text(["ada"])
    expect(his.locator(".people li")).to_have_text(["bob"])
    hers.get_by_role("button", name="Drain").click()
    his.get_by_role("button", name="Wait").click()
    for page in (hers, his):
        rows = page.locator("#live tbody tr")
        expect(rows).to_have_count(2)
        assert {tuple(row.inner_text().split("\t")[1:3]) for row in rows.all()} == {
            ("ada", "drain"),
            ("bob", "wait"),
        }
    newcomer = ada.new_page()
    newcomer.goto(f"http://127.0.0.1:{pair.ports[1]}/rooms/server-s2")
    expect(newcomer.locator("#live tbody tr")).to_have_count(2)
    expect(his.locator(".people li")).to_have_text(["ada", "bob"])
    newcomer.close()
    expect(his.locator(".people li")).to_have_text(["bob"])


def test_who_signs_out_elsewhere_is_shown_the_sign_in(pair: Pair, bob: BrowserContext) -> None:
    page = browser.live(browser.sign_in(bob, pair.ports[0], "bob"))
    other = bob.new_page()
    other.goto(f"http://127.0.0.1:{pair.ports[1]}/rooms")
    other.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in?**", timeout=8000)


def test_it_works_by_the_keyboard_alone(pair: Pair, ada: BrowserContext) -> None:
    page = ada.new_page()
    page.goto(f"http://127.0.0.1:{pair.ports[0]}/acts")
    expect(page.get_by_label("Name")).to_be_focused()  # by itself
    page.keyboard.type("ada")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Password")).to_be_focused()
    page.keyboard.type(access.PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url("**/acts")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Kind begins with")).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineWidth") == "2px"
    page.keyboard.type("session.")
    page.keyboard.press("Enter")
    page.wait_for_url("**/acts?kind=session.*")
    assert set(page.locator("td.w-kind").all_inner_texts()) == {"session.begin"}


def test_without_javascript_the_pages_and_their_forms_work(
    pair: Pair, chromium: Browser, complaints: list[str]
) -> None:
    with browser.visitor(chromium, complaints, java_script_enabled=False) as context:
        page = browser.sign_in(context, pair.ports[0], "ada")
        expect(page.get_by_role("heading", name="Last acts")).to_be_visible()
        page.get_by_role("link", name="Rooms").click()
        page.get_by_label("Open a room").fill("deploy-shop-7")
        page.get_by_role("button", name="Open").click()
        page.wait_for_url("**/rooms/deploy-shop-7")
        page.get_by_role("button", name="Remove").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Nobody is here")
        assert [text for text in complaints if "410" not in text] == []
        complaints.clear()  # a browser tells of the status itself
        page.go_back()
        page.reload()
        expect(page.locator("tbody tr")).to_have_count(1)


def post(page: Page, path: str, body: dict[str, object]) -> None:
    """Send JSON as the page's own session."""
    call = """async ([path, body]) => (await fetch(path, { method: "POST", body: JSON.stringify(body),
        headers: { "Content-Type": "application/json" } })).ok"""
    assert page.evaluate(call, [path, body])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_legible_and_fits_a_phone(
    pair: Pair, chromium: Browser, complaints: list[str], scheme: str
) -> None:
    with browser.visitor(chromium, complaints, color_scheme=scheme, viewport=PHONE) as context:
        page = browser.sign_in(context, pair.ports[0], "ada")
        wait_for(lambda: page.goto(f"http://127.0.0.1:{pair.ports[0]}{PAGES[-1]}").ok)  # type: ignore[union-attr]
        post(page, "/api/tokens", {"name": f"a long name for {scheme}", "scopes": ["hub:read", "tlog:read"]})
        post(page, "/api/webhooks", {"url": f"https://hooks.example.org/{scheme}/with/a/long/path"})
        for path in PAGES:
            page.goto(f"http://127.0.0.1:{pair.ports[0]}{path}")
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
            assert page.evaluate(FAINT) == [], path
            assert page.evaluate(NAMELESS) == [], path
            assert page.locator("h1").count() == 1, path
            here = page.locator("nav [aria-current]")
            assert here.count() == 0 or here.evaluate(SEEN), path
