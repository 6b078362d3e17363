"""The program's words are those of `docs/glossary.md`."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "app" / "rota"
SPOKEN = {".py", ".toml", ".html", ".sql"}
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def tables() -> dict[str, list[list[str]]]:
    """Return heading → rows of cells, from the glossary."""
    found: dict[str, list[list[str]]] = {}
    heading = ""
    for line in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            found.setdefault(heading, []).append(cells)
    return {heading: rows[2:] for heading, rows in found.items()}


WORDS = tables()["The words"]
OURS = {row[0].strip("*") for row in WORDS}
SECOND = {row[0] for row in tables()["Words with a second meaning"]}
FORCED = [row[0] for row in tables()["Words that others force on us"]]
NEVER = {word for row in WORDS for word in re.split(r",\s*", row[2]) if word}
# A word of ours, or one with a second meaning, is wrong only for one thing;
# which thing is meant, no pattern can tell.
FORBIDDEN = sorted(NEVER - OURS - SECOND)


def pattern(word: str) -> re.Pattern[str]:
    """Return what finds a word or its plural, however the words of a name are joined."""
    joined = r"[\s_-]*".join(map(re.escape, word.split()))
    return re.compile(rf"(?<![a-z]){joined}(?:s|es)?(?![a-z])")


def spoken(text: str) -> str:
    """Return text as lower-case words: camel case taken apart, forced words taken out."""
    words = CAMEL.sub(" ", text).casefold()
    for forced in FORCED:
        words = words.replace(forced, "")
    return words


def found(text: str) -> Iterator[tuple[str, str]]:
    """Yield (forbidden word, the line that it is in)."""
    for line in text.splitlines():
        words = spoken(line)
        yield from ((word, line.strip()) for word in FORBIDDEN if pattern(word).search(words))


def test_the_glossary_is_complete_in_its_own_tables() -> None:
    assert len(OURS) == len(WORDS) == 18
    assert all(len(row) == 3 and row[1] for row in WORDS)
    assert SECOND <= NEVER
    assert {"node", "master", "minion", "box", "manager", "merge request"} <= set(FORBIDDEN)


@pytest.mark.parametrize(
    "path", [path for path in sorted(PROGRAM.rglob("*")) if path.suffix in SPOKEN], ids=lambda path: path.name
)
def test_the_program_never_calls_a_thing_what_the_glossary_says_not_to(path: Path) -> None:
    assert list(found(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "line",
    [
        "for node in nodes:",
        "class NodeManager:",
        "WORKER_SERVERS = ()",
        'raise RotaError("the merge request failed")',
        "# the master decides",
        "the mergeRequest",
        "audit-events",
    ],
)
def test_a_forbidden_word_is_found_in_names_messages_and_comments(line: str) -> None:
    assert list(found(line))


@pytest.mark.parametrize(
    "line",
    [
        "The single-node edition is one process.",
        "class HubWorker(ASGIWorker): version = schedule",
        "acknowledge the mailbox imagery",
    ],
)
def test_nothing_else_is_taken_for_one(line: str) -> None:
    assert list(found(line)) == []


def test_every_exception_is_still_needed() -> None:
    """An exception that nothing needs any more would let the word in by another door."""
    text = "\n".join(
        path.read_text(encoding="utf-8") for path in PROGRAM.rglob("*") if path.suffix in SPOKEN
    ).casefold()
    assert [forced for forced in FORCED if forced not in text] == []
    assert [word for word in sorted(SECOND) if not pattern(word).search(spoken(text))] == []
