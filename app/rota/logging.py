"""Our own output: one line an event, to standard error, for the journal.

The event comes first, then key=value. Control characters are escaped, so that
nothing from outside can begin a line of its own or colour a terminal.
"""

import contextlib
import logging
import os
import re
import sys
import traceback
from collections.abc import MutableMapping
from contextvars import ContextVar
from typing import Any, TextIO, cast

import structlog

# syslog's priorities, which the journal reads from a <N> before the line
_PRIORITY = {"debug": 7, "info": 6, "warning": 4, "error": 3, "exception": 3, "critical": 2}
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
# control characters, line and paragraph separators, and what turns the direction of writing
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\\]")
_PLAIN = re.compile(r"[^\s\"'=]+")


# The id of the request that this task is answering.
answering: ContextVar[str] = ContextVar("answering", default="")


def configure(level: str) -> None:
    """Set up logging for this process, the standard library's included."""
    journal = "JOURNAL_STREAM" in os.environ
    structlog.configure(
        processors=[
            _with_request,
            structlog.stdlib.add_log_level,
            structlog.processors.StackInfoRenderer(),
            _Renderer(journal=journal),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _Output(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    handler = _Forward()
    # What libraries say of their ordinary days is for those who look for faults.
    libraries = logging.INFO if level == "debug" else max(_LEVELS[level], logging.WARNING)
    logging.basicConfig(handlers=[handler], level=libraries, force=True)


def _with_request(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the id of the request being answered, if any."""
    if request := answering.get():
        event["request"] = request
    return event


class _Output:
    """Standard error. That nobody reads it any more, or its disk is full, stops nothing but the line."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()


class _Renderer:
    """Renders `event key=value …`, after the time on a terminal, after the priority in the journal."""

    def __init__(self, *, journal: bool) -> None:
        self._journal = journal
        self._clock = structlog.processors.TimeStamper(fmt="iso", utc=True)

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
        level = str(event.pop("level", method))
        frames = _traceback(event.pop("exc_info", None))
        words = [escaped(str(event.pop("event", "")))]
        words += [f"{key}={_value(value)}" for key, value in event.items()]
        if frames:
            words.append(f"traceback={_value(frames)}")
        line = " ".join(words)
        if self._journal:
            return f"<{_PRIORITY.get(level, 6)}>{line}"
        stamp = self._clock(logger, method, {})["timestamp"]
        return f"{stamp} {level:<7} {line}"


class _Forward(logging.Handler):
    """Hands what libraries log to the same renderer."""

    def emit(self, record: logging.LogRecord) -> None:
        logger = structlog.get_logger(record.name)
        name = record.levelname.lower()
        method = getattr(logger, name if name in _PRIORITY else "info")
        extra = {"exc_info": record.exc_info} if record.exc_info else {}
        method(record.getMessage(), source=record.name, **extra)


def escaped(text: str) -> str:
    """Return text with every control character and backslash written as an escape."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _value(value: object) -> str:
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(_value(item) for item in value) or "-"
    text = escaped(str(value))
    return text if _PLAIN.fullmatch(text) else '"' + text.replace('"', "'") + '"'


def _traceback(exc_info: Any) -> str:
    if not exc_info:
        return ""
    error = exc_info if isinstance(exc_info, BaseException) else sys.exc_info()[1]
    if isinstance(exc_info, tuple):
        error = exc_info[1]
    return "".join(traceback.format_exception(error)) if error else ""
