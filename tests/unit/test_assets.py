"""What pages are made of: vendored files as pinned, readable colours, no script in a page."""

import re
from pathlib import Path

import pytest
from tools import vendor

from rota.web.assets import AssetResource

ASSETS = vendor.ASSETS
VENDORED = [file for package in vendor.PACKAGES for file in package.files]
TEMPLATES = sorted((ASSETS.parent / "templates").glob("*.html"))
SHEET = (ASSETS / "rota.css").read_text()
TOKENS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", SHEET)
}
TEXT, SHAPES = 4.5, 3.0  # WCAG 2.2 AA: 1.4.3 for text, 1.4.11 for what shows where a control is
INKS, GROUNDS = ("text", "soft", "accent", "good", "warn", "bad"), ("page", "panel")
PAIRS = [
    *((ink, ground, TEXT) for ink in INKS for ground in GROUNDS),
    *((ink, "fresh", TEXT) for ink in ("text", "soft", "accent")),
    ("on-accent", "accent", TEXT),
    *(("edge", ground, SHAPES) for ground in GROUNDS),
]


def luminance(colour: str) -> float:
    """Return WCAG's relative luminance of #rrggbb."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_reckoned_as_wcag_says() -> None:
    assert contrast("#000000", "#ffffff") == 21
    assert round(contrast("#777777", "#ffffff"), 2) == 4.48


@pytest.mark.parametrize(("ink", "ground", "least"), PAIRS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_colours_can_be_read(ink: str, ground: str, least: float, dark: bool) -> None:  # noqa: FBT001
    assert contrast(TOKENS[ink][dark], TOKENS[ground][dark]) >= least


def test_every_colour_is_a_token() -> None:
    rules = re.sub(r":root \{.*?\n\}", "", SHEET, count=1, flags=re.DOTALL)
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b|\brgb|\bhsl|\boklch", rules) == []
    used = set(re.findall(r"var\(--([a-z-]+)\)", SHEET)) - {"row"}
    assert used == set(TOKENS)


@pytest.mark.parametrize("file", VENDORED, ids=lambda file: file.name)
def test_what_others_made_is_what_was_pinned(file: vendor.File) -> None:
    assert vendor.digest((ASSETS / file.name).read_bytes()) == file.sha512


def test_the_archives_hash_is_written_as_the_registry_does() -> None:
    assert vendor.integrity(b"").startswith("sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H")


def test_every_script_has_a_licence_or_is_ours() -> None:
    theirs = {file.name for file in VENDORED}
    scripts = {path.name for path in ASSETS.glob("*.js")}
    assert scripts - theirs == {"live.js"}
    assert "htmx.LICENSE" in theirs


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_page_has_a_script_or_style_or_address_of_its_own(template: Path) -> None:
    text = template.read_text()
    assert re.findall(r"<style|\sstyle=|\son[a-z]+=|javascript:|hx-on|hx-vals|https?://", text) == []
    assert re.findall(r"<script(?! src=\"/assets/[a-z.]+\" defer></script>)", text) == []
    assert "| safe" not in text


def test_only_what_pages_load_is_served() -> None:
    served = set(AssetResource()._files)
    assert served == {path.name for path in ASSETS.iterdir() if path.suffix in {".css", ".js", ".svg"}}
