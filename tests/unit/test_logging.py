"""Our own output: one line an event, safe to read in a terminal and in the journal."""

import contextlib
import io
import logging
import re
from collections.abc import Callable, Iterator

import pytest
import structlog

from rota.logging import answering, configure, escaped
from rota.secret import Secret

Lines = Callable[[], list[str]]


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Leave logging as it was found."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def writing(level: str) -> Lines:
    """Configure onto a file like Python's own standard error; return what gives the lines since."""
    written = io.BytesIO()
    stderr = io.TextIOWrapper(written, "utf-8", "backslashreplace")
    with contextlib.redirect_stderr(stderr):
        configure(level)

    def since() -> list[str]:
        stderr.flush()
        text = written.getvalue().decode()
        written.seek(0)
        written.truncate()
        return text.split("\n")[:-1]

    return since


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> Lines:
    """Log as under systemd."""
    monkeypatch.setenv("JOURNAL_STREAM", "8:12345")
    return writing("debug")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Lines:
    """Log as in a terminal."""
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    return writing("info")


class _Full(io.BytesIO):
    """A file on a disk without room."""

    def write(self, _: object) -> int:
        raise OSError(28, "No space left on device")


def test_that_nobody_reads_any_more_is_no_error() -> None:
    """A log file's disk is full, or the program after the pipe has ended."""
    full = io.TextIOWrapper(_Full())
    with contextlib.redirect_stderr(full):
        configure("info")
        log().warning("database unreachable")
        logging.getLogger("library").error("something")
    full.detach()


def log() -> structlog.typing.FilteringBoundLogger:
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger("rota.test")
    return logger


def test_the_event_comes_first_then_keys_and_values(journal: Lines) -> None:
    log().info("backup made", name="rota-1", bytes=42, whole=True)
    assert journal() == ["<6>backup made name=rota-1 bytes=42 whole=True"]


def test_a_terminal_gets_the_time_and_the_level(terminal: Lines) -> None:
    log().warning("late", seconds=3)
    (line,) = terminal()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z warning late seconds=3", line)


@pytest.mark.parametrize(
    ("method", "priority"), [("debug", 7), ("info", 6), ("warning", 4), ("error", 3), ("critical", 2)]
)
def test_the_journal_gets_syslogs_priorities(journal: Lines, method: str, priority: int) -> None:
    getattr(log(), method)("event")
    assert journal() == [f"<{priority}>event"]


@pytest.mark.parametrize(
    ("level", "written"),
    [
        ("debug", ["debug", "info", "warning", "error", "from a library"]),
        ("info", ["info", "warning", "error", "from a library"]),
        ("warning", ["warning", "error", "from a library"]),
        ("error", ["error"]),
    ],
)
def test_what_is_below_the_level_is_not_written(
    monkeypatch: pytest.MonkeyPatch, level: str, written: list[str]
) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", "8:12345")
    lines = writing(level)
    for method in ("debug", "info", "warning", "error"):
        getattr(log(), method)(method)
    logging.getLogger("library").warning("from a library")
    assert [line.partition(">")[2].partition(" source=")[0] for line in lines()] == written


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("two words", '"two words"'),
        ("", '""'),
        ("a=b", '"a=b"'),
        ('say "hi"', "\"say 'hi'\""),
        (["web", "worker"], "web,worker"),
        ([], "-"),
        (None, "None"),
        ("ünïcode", "ünïcode"),
    ],
)
def test_values_can_be_told_apart(journal: Lines, value: object, written: str) -> None:
    log().info("event", value=value)
    assert journal() == [f"<6>event value={written}"]


@pytest.mark.parametrize(
    ("hostile", "harmless"),
    [
        ("a\nb", r"a\nb"),
        ("a\r\nb", r"a\r\nb"),
        ("a\x00b", r"a\x00b"),
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\x7fb", r"a\x7fb"),
        ("a\x9b31mb", r"a\x9b31mb"),
        ("a\u2028b\u2029c", r"a\u2028b\u2029c"),
        ("a\x85b", r"a\x85b"),
        ("a\u202eb\u2066c", r"a\u202eb\u2066c"),
        ("a\\nb", r"a\\nb"),
    ],
)
def test_nothing_from_outside_begins_a_line_or_moves_a_terminal(
    journal: Lines, hostile: str, harmless: str
) -> None:
    assert escaped(hostile) == harmless
    log().info(hostile, value=hostile)
    assert journal() == [f"<6>{harmless} value={harmless}"]


def test_a_text_that_cannot_be_encoded_is_written_all_the_same(journal: Lines) -> None:
    log().info("event", path="/\udcff")
    assert journal() == [r"<6>event path=/\udcff"]


def test_a_secret_is_not_written(journal: Lines) -> None:
    log().info("event", token=Secret("canary"), tokens=[Secret("canary")])
    (line,) = journal()
    assert "canary" not in line
    assert "token=[redacted]" in line


def crash() -> None:
    raise ValueError("one\ntwo")


def test_a_traceback_stands_on_the_events_line(journal: Lines) -> None:
    try:
        crash()
    except ValueError:
        log().exception("crashed", task="t")
    (line,) = journal()
    assert line.startswith('<3>crashed task=t traceback="Traceback (most recent call last):\\n')
    assert "in crash" in line
    assert "ValueError: one\\ntwo" in line


def test_an_error_given_by_itself_has_its_traceback_too(journal: Lines) -> None:
    try:
        crash()
    except ValueError as error:
        caught = error
    log().error("crashed", exc_info=caught)
    (line,) = journal()
    assert "ValueError: one\\ntwo" in line


def test_libraries_log_in_the_same_form(journal: Lines) -> None:
    logging.getLogger("library").warning("pool of %d\nis full", 4)
    try:
        crash()
    except ValueError:
        logging.getLogger("library").exception("broke")
    first, second = journal()
    assert first == r"<4>pool of 4\nis full source=library"
    assert second.startswith("<3>broke source=library traceback=")


def test_libraries_are_never_heard_at_debug(journal: Lines) -> None:
    """A driver's debug output may hold what it was given, secrets included."""
    logging.getLogger("library").debug("password=canary")
    assert journal() == []


def test_a_requests_id_is_on_its_lines(journal: Lines) -> None:
    token = answering.set("r1")
    log().info("event", value=1)
    answering.reset(token)
    (line,) = journal()
    assert line.startswith("<6>event ")
    assert "request=r1" in line
