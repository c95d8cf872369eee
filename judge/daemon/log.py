"""Logging of every daemon: one line per decision on stderr, in a form that journald and people both read."""

from __future__ import annotations

import datetime
import json
import logging
import re
import sys
import threading
import time
from types import TracebackType
from typing import Final, TextIO

from judge.common.text import one_line

# sd-daemon(3) priority prefixes: journald files a line under its level without a wrapper.
_SYSLOG = {
    logging.DEBUG: "<7>",
    logging.INFO: "<6>",
    logging.WARNING: "<4>",
    logging.ERROR: "<3>",
    logging.CRITICAL: "<2>",
}


# Submissions as messages name them, in the same words everywhere.
_NAMED: Final = {
    "trace": re.compile(r"\btrace ([A-Za-z0-9][A-Za-z0-9._-]{0,63})"),
    "task": re.compile(r"\b(?:task|submission) ([0-9a-f]{24})\b"),
}


class _Formatter(logging.Formatter):
    """`2026-01-31T12:00:00.123Z INFO judicator: sentence`, or journald's prefix under systemd."""

    converter = staticmethod(time.gmtime)

    def __init__(self, *, journal: bool) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
        self._journal = journal

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  its name in logging
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        if not self._journal:
            return super().format(record)
        prefix = _SYSLOG.get(record.levelno, "<6>")
        text = f"{record.name}: {one_line(record.getMessage())}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return "\n".join(prefix + line for line in text.splitlines())


class _JsonFormatter(logging.Formatter):
    """One JSON object a line: `time`, `level`, `logger`, `message`, and what a message names as `trace` and `task`."""

    def __init__(self, *, journal: bool) -> None:
        super().__init__()
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        message = one_line(record.getMessage())
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        fields = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
        }
        fields |= {name: match[1] for name, pattern in _NAMED.items() if (match := pattern.search(message))}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        prefix = _SYSLOG.get(record.levelno, "<6>") if self._journal else ""
        return prefix + json.dumps(fields, ensure_ascii=False)


def setup(level: str, *, journal: bool = False, form: str = "text", to: TextIO | None = None) -> None:
    """Send all loggers to stderr at `level` (debug, info, warning, error); called once by every daemon's main.

    `form` is text, or json for those who collect lines by machine. `to` is another's stderr, whose log this is.
    """
    handler = logging.StreamHandler(to or sys.stderr)
    handler.setFormatter((_JsonFormatter if form == "json" else _Formatter)(journal=journal))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("aiohttp.access", "httpx", "httpcore", "pymongo", "grpc", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def catch() -> None:
    """Log what nobody has caught, in any thread, and Python's own warnings, as everything else; for whole processes."""

    def log_it(kind: type[BaseException], fault: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not SystemExit:
            exc_info = None if fault is None else (kind, fault, trace)
            logging.getLogger(__name__).critical("unforeseen error", exc_info=exc_info)

    sys.excepthook = log_it
    threading.excepthook = lambda args: log_it(args.exc_type, args.exc_value, args.exc_traceback)
    logging.captureWarnings(capture=True)
