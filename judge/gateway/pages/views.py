"""The look of values for people: times, sizes, verdicts. Pure functions, used by the templates as filters."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from judge.common.text import decimal, lines, size
from judge.model.messages import RunUsage, Status, Task, TestResult, Verdict

UNKNOWN = "\N{EN DASH}"
__all__ = ["FILTERS", "Look", "ago", "look", "progress", "seconds", "size", "utc"]


@dataclass(frozen=True)
class Look:
    """The look of a verdict or status: a tone for the colour, an icon for the shape, a code and words for the text."""

    tone: str
    icon: str
    code: str
    text: str


# Without a problem nothing is accepted: it ran to its end, or its output is also as somebody has said.
_RAN: Final = Look("good", "check", "", "Ran")
_PASSED: Final = Look("good", "check", "", "Passed")
_STATUSES = {
    Status.PENDING: Look("idle", "queue", "", "Waiting"),
    Status.COMPILING: Look("live", "spin", "", "Compiling"),
    Status.RUNNING: Look("live", "spin", "", "Running"),
    Status.RETRYING: Look("live", "queue", "", "Waiting for another try"),
    Status.SUCCESS: Look("good", "check", "", "Done"),
    Status.COMPILE_FAILED: Look("warn", "wrench", "CE", "Compile error"),
    Status.RUN_FAILED: Look("bad", "cross", "", "Failed"),
    Status.CANCELLED: Look("idle", "stop", "", "Cancelled"),
    Status.INTERNAL_ERROR: Look("warn", "question", "JE", "Judge's error"),
}


def look(subject: Task | TestResult | Verdict | Status | Look) -> Look:
    """The look of a task, a test, a verdict or a status; a finished task has that of its verdict."""
    if isinstance(subject, Look):
        return subject
    if isinstance(subject, Task):
        if subject.done and subject.verdict is Verdict.AC and subject.submission.problem is None:
            return _PASSED if any(test.answered for test in subject.submission.tests) else _RAN
        subject = subject.verdict if subject.done and subject.verdict is not None else subject.status
    elif isinstance(subject, TestResult):
        subject = subject.verdict
    if isinstance(subject, Status):
        return _STATUSES[subject]
    return Look(subject.about.tone, subject.about.icon, subject.value, subject.about.title)


def looks(task: Task) -> dict[str, Look]:
    tests = task.result.tests if task.result is not None else []
    by_name = {test.name: look(test) for test in tests}
    if task.submission.problem is None:
        answered = {test.name for test in task.submission.tests if test.answered}
        by_name |= {
            test.name: _PASSED if test.name in answered else _RAN for test in tests if test.verdict is Verdict.AC
        }
    return by_name


def seconds(value: float | None) -> str:
    """A duration: `3 ms`, `1.25 s`, `2 s`, `2 min 5 s`; a dash when unknown."""
    if value is None:
        return UNKNOWN
    if value < 0.9995:
        return f"{value * 1000:.0f} ms"
    if value < 59.995:
        return f"{decimal(round(value, 2))} s"
    minutes, remainder = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {remainder} s" if remainder else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def _parse(text: str) -> datetime.datetime | None:
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment.astimezone(datetime.UTC)


def utc(text: str) -> str:
    """A stored time in full: `2026-01-31 12:00:05 UTC`."""
    moment = _parse(text)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC") if moment else text


def utc_time(text: str) -> str:
    """A time that a person typed, as ISO 8601: UTC unless it says another zone, midnight unless it says an hour."""
    if not text or text.endswith("Z") or "+" in text:
        return text
    return f"{text}{'' if re.search('[T ]', text) else 'T00:00'}Z"


_DAY = 86400
# Below 5 s all is "just now": clocks of two machines differ a little, so a time may even lie ahead.
_AGES = (
    (2 * _DAY, "{} days ago", _DAY),
    (_DAY, "yesterday", _DAY),
    (3600, "{} h ago", 3600),
    (60, "{} min ago", 60),
    (5, "{} s ago", 1),
)


def ago(text: str, now: datetime.datetime) -> str:
    """A stored time as people say it: `just now`, `5 min ago`, `yesterday`, `31 Jan 2026`."""
    moment = _parse(text)
    if moment is None:
        return text or UNKNOWN
    passed = (now - moment).total_seconds()
    if passed >= 14 * _DAY:
        return f"{moment.day} {moment:%b %Y}"
    for least, template, unit in _AGES:
        if passed >= least:
            return template.format(int(passed // unit))
    return "just now"


def progress(task: Task) -> tuple[int, int] | None:
    """(done, all) out of a progress text such as `3/10` or `test 3 of 10`, when it has such."""
    match = re.search(r"(\d+)\s*(?:/|of)\s*(\d+)", task.progress)
    if not match or int(match[2]) == 0:
        return None
    return min(int(match[1]), int(match[2])), int(match[2])


def ending(run: TestResult | RunUsage) -> str:
    """The end of a program, when that says something: `exit code 3`, `SIGSEGV`."""
    if run.signal:
        return _SIGNALS.get(run.signal, f"signal {run.signal}")
    return f"exit code {run.exit_code}" if run.exit_code else ""


def repeated(result: TestResult) -> str:
    """A sentence about a test that was run twice, as its first run was near the time limit; else empty."""
    first = result.repeated
    if first is None:
        return ""
    circumstance = (
        "with all other slots at rest" if first.exclusive else "beside other runs, which took too long to end"
    )
    return f"first run {first.cpu:.3f} s CPU, {first.wall:.3f} s wall; repeated {circumstance}"


_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE",
            24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS"}  # fmt: skip


def capitalize_first(text: str) -> str:
    """A sentence with a capital letter; names in the rest stay as they are."""
    return text[:1].upper() + text[1:]


def as_shown(value: object) -> object:
    """A filter for every expression of a template: every character of its text shows, see `judge.common.text.lines`.

    Markup is left as it is: it was made of such text, or by `verbatim`.
    """
    return lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def verbatim(value: str) -> Markup:
    """The text that a form gives back to be sent again: escaped, but with every character that was typed."""
    return escape(value)


def beginning(text: str) -> tuple[list[str], bool]:
    """The lines of a source as far as a page shows them, and whether they are all."""
    lines = text[:_SHOWN_CHARS].replace("\r\n", "\n").split("\n", _SHOWN_LINES)
    complete = len(text) <= _SHOWN_CHARS and len(lines) <= _SHOWN_LINES
    return lines[:_SHOWN_LINES], complete or (len(text) <= _SHOWN_CHARS and lines[_SHOWN_LINES:] == [""])


_SHOWN_CHARS = 64 * 1024
_SHOWN_LINES = 2000

# Languages that are written from the right to the left, and scripts that are.
_RTL: Final = {
    *("ar", "arc", "ckb", "dv", "fa", "glk", "he", "iw", "ji", "ks", "lrc", "mzn", "nqo", "pnb"),
    *("prs", "ps", "sd", "sdh", "syc", "syr", "ug", "ur", "yi"),
}
_RTL_SCRIPTS: Final = {"adlm", "arab", "aran", "hebr", "mand", "nkoo", "rohg", "samr", "syrc", "thaa"}


def direction(language: str) -> str:
    """The direction of a language's text, as HTML says it: `rtl` or `ltr`. A script in its name decides."""
    first, *subtags = language.lower().replace("_", "-").split("-")
    script = next((part for part in subtags if len(part) == 4 and part.isalpha()), None)
    return "rtl" if (script in _RTL_SCRIPTS if script else first in _RTL) else "ltr"


FILTERS = {
    "direction": direction,
    "decimal": decimal,
    "beginning": beginning,
    "verbatim": verbatim,
    "capitalize_first": capitalize_first,
    "look": look,
    "seconds": seconds,
    "size": size,
    "utc": utc,
    "progress": progress,
    "ending": ending,
    "repeated": repeated,
}
