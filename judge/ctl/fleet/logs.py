"""`judgectl logs`: what is asked of journald, what its answer means, the order of lines. Nothing is run here."""

from __future__ import annotations

import datetime
import heapq
import json
import re
import shlex
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from judge.common import kinds
from judge.common.errors import UsageError
from judge.common.text import one_line
from judge.ctl.text import duration

PRIORITIES = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
HEARTBEAT = 5  # seconds between the signs of life of a host that is followed
_FIELDS = "MESSAGE,PRIORITY,_SYSTEMD_UNIT,UNIT,SYSLOG_IDENTIFIER,_PID"
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}( \d{2}:\d{2}(:\d{2})?)?")
_UNIT = re.compile(r"[A-Za-z0-9@_.:*?\[\]-]{1,200}")
_COLOURS = ("cyan", "magenta", "blue", "green", "bright_cyan", "bright_magenta", "bright_blue", "bright_green")
_LATEST = 253_402_300_799_000_000  # the last microsecond of the year 9999


@dataclass(frozen=True)
class JournalQuery:
    """The lines that are wanted. `lines`: only the newest; None: all. `since` in journalctl's own words."""

    units: tuple[str, ...]
    lines: int | None = None
    since: str | None = None
    grep: str | None = None
    priority: str | None = None

    def history(self) -> str:
        """The script that prints what there is; newest first when only some lines are wanted, else oldest first."""
        words = self._journalctl()
        if self.since:
            words.append(f"--since={self.since}")
        if (
            self.lines is not None
        ):  # said here because journalctl implies it for some of these options and not for others
            words += [f"--lines={self.lines}", "--reverse"]
        return f"LC_ALL=C; export LC_ALL; exec {shlex.join(words)}"

    def follow(self, cursor: str | None, seconds: int, heartbeat: float = HEARTBEAT) -> str:
        """The script that prints what comes after `cursor`, or from `seconds` ago; it also gives signs of life.

        They go to standard error, so that they cannot split a line, and the script ends when nobody reads them.
        """
        words = [*self._journalctl(), "--follow", "--no-tail"]
        words.append(f"--after-cursor={cursor}" if cursor else f"--since=-{seconds}s")
        return (
            f"LC_ALL=C; export LC_ALL; trap '' PIPE; {shlex.join(words)} & journal=$!\n"
            "trap 'kill $journal 2>/dev/null' EXIT\n"
            f"while kill -0 $journal 2>/dev/null; do echo >&2 || exit 1; sleep {heartbeat:g}; done\n"
            "wait $journal\n"
        )

    def _journalctl(self) -> list[str]:
        words = ["journalctl", "--quiet", "--no-pager", "--output=json", f"--output-fields={_FIELDS}"]
        words += [f"--unit={unit}" for unit in self.units]
        if self.grep is not None:
            words.append(f"--grep={self.grep}")
        if self.priority is not None:
            words.append(f"--priority={self.priority}")
        return words


def query(
    units: Sequence[str], since: str | None, lines: int | None, grep: str | None, priority: str | None
) -> JournalQuery:
    """The query that the command's options ask for; UsageError says which one is wrong and what is expected."""
    if grep is not None and ("\0" in grep or "\n" in grep or not grep):
        raise UsageError("--grep: expected a regular expression of one line, such as 'claim|lease'")
    if priority is not None:
        ends = priority.split("..")
        if len(ends) > 2 or not all(end in PRIORITIES or re.fullmatch("[0-7]", end) for end in ends):
            choices = ", ".join(PRIORITIES)
            msg = f"--priority: '{priority}' is not known; choose one of {choices}, or a range such as err..notice"
            raise UsageError(msg)
    return JournalQuery(tuple(unit_names(units)), lines, moment(since) if since else None, grep, priority)


def unit_names(units: Sequence[str]) -> list[str]:
    """`executor` as judge-executor.service, names with a dot as they are; all of Judge's for none."""
    if not units:
        # The names as well as the pattern: journalctl refuses a pattern that nothing matches.
        return [*(f"judge-{service}.service" for service in kinds.services()), "judge-*"]
    for unit in units:
        if not _UNIT.fullmatch(unit) or unit.startswith("-"):
            choices = ", ".join(kinds.services())
            msg = f"--unit: '{unit}' is not a unit's name; expected one of {choices}, or such as nginx.service"
            raise UsageError(msg)
    return [
        unit if "." in unit else f"{unit if unit.startswith('judge-') else f'judge-{unit}'}.service" for unit in units
    ]


def moment(text: str) -> str:
    """`10m` or `2026-05-01 12:00` (UTC) as journalctl's --since understands it; UsageError otherwise."""
    text = text.strip()
    if _MOMENT.fullmatch(text):
        try:
            datetime.datetime.fromisoformat(text)
        except ValueError as exc:
            raise UsageError(f"--since: '{text}' is no moment: {exc}") from exc
        return f"{text} UTC"
    try:
        return f"-{duration(text, '--since')}s"
    except UsageError as exc:
        expected = "a duration such as 10m, or a moment such as '2026-05-01 12:00' (UTC)"
        raise UsageError(f"--since: '{text}' is not understood; expected {expected}") from exc


@dataclass(frozen=True)
class JournalEntry:
    """One entry of a host's journal; `time` in microseconds since 1970, by that host's clock."""

    time: int
    host: str
    unit: str
    message: str
    priority: int = 6
    cursor: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "time": when(self.time).isoformat(),
            "host": self.host,
            "unit": self.unit,
            "priority": PRIORITIES[self.priority],
            "message": self.message,
        }


def when(time: int) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=time)


def parse_entry(line: bytes, host: str) -> JournalEntry | None:
    """One line of `journalctl --output=json`; None for anything else, as hosts may send what they like."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    stamp, cursor = fields.get("__REALTIME_TIMESTAMP"), fields.get("__CURSOR")
    if not isinstance(stamp, str) or not stamp.isascii() or not stamp.isdigit() or len(stamp) > len(str(_LATEST)):
        return None
    priority = fields.get("PRIORITY")
    unit = _text(fields.get("UNIT") or fields.get("_SYSTEMD_UNIT"))
    message = _text(fields.get("MESSAGE"))
    if fields.get("SYSLOG_IDENTIFIER") == "systemd":
        message = f"systemd: {message}"
    return JournalEntry(
        time=min(int(stamp), _LATEST),
        host=host,
        unit=one_line(unit),
        message="\n".join(one_line(part) for part in message.rstrip("\n").split("\n")),
        priority=int(priority) if isinstance(priority, str) and priority in set("01234567") else 6,
        cursor=cursor if isinstance(cursor, str) and cursor.isprintable() and len(cursor) < 1000 else "",
    )


def _text(value: Any) -> str:
    """A field's value: text, a list of bytes where it is not UTF-8, a list of values where there are several."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(byte, int) and 0 <= byte < 256 for byte in value):
        return bytes(value).decode(errors="replace")
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return str(value[-1])
    return "" if value is None else "(not text)"


def merge(streams: Sequence[Iterable[JournalEntry]]) -> Iterator[JournalEntry]:
    """Entries of several hosts in order of time, lazily; each host's own order is kept even where its clock jumped."""
    return heapq.merge(*streams, key=lambda entry: (entry.time, entry.host))


def batch(entries: Iterable[JournalEntry]) -> list[JournalEntry]:
    """Lines that came in together from many hosts, in order of time; each host's own order is kept."""
    by_host: dict[str, list[JournalEntry]] = {}
    for entry in entries:
        by_host.setdefault(entry.host, []).append(entry)
    return list(merge(list(by_host.values())))


def short(unit: str) -> str:
    """A unit's name for people: executor for judge-executor.service."""
    return unit.removesuffix(".service").removeprefix("judge-") or "-"


def render(entry: JournalEntry) -> list[Text]:
    """The lines of an entry: time (UTC), host/unit, message; the colours are for terminals only."""
    stamp = when(entry.time).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    colour = _COLOURS[zlib.crc32(entry.host.encode()) % len(_COLOURS)]
    style = (
        "bold red" if entry.priority <= 3 else "yellow" if entry.priority == 4 else "dim" if entry.priority == 7 else ""
    )
    return [
        Text.assemble((stamp, "dim"), " ", (f"{entry.host}/{short(entry.unit)}", colour), " ", (part, style))
        for part in entry.message.split("\n")
    ]
