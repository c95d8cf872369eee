"""A submission as Judge0 shows it: its fields, its statuses, its sentences. Pure but for reading blobs.

The task is one that its reader may see as it is (`judge.gateway.disclosure`): nothing here decides what is secret.
"""

from __future__ import annotations

import base64 as b64
import functools
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from judge.errors import UsageError
from judge.judge0 import base64s, languages
from judge.judge0.fields import CONTENTS, NUMBERS, SHORT_TEXTS, SWITCHES
from judge.judge0.languages import Judge0Language
from judge.judge0.tokens import token_of
from judge.languages import handed
from judge.model import messages as m
from judge.model.verdicts import Verdict

STATUSES: Final[dict[int, str]] = {
    1: "In Queue",
    2: "Processing",
    3: "Accepted",
    4: "Wrong Answer",
    5: "Time Limit Exceeded",
    6: "Compilation Error",
    7: "Runtime Error (SIGSEGV)",
    8: "Runtime Error (SIGXFSZ)",
    9: "Runtime Error (SIGFPE)",
    10: "Runtime Error (SIGABRT)",
    11: "Runtime Error (NZEC)",
    12: "Runtime Error (Other)",
    13: "Internal Error",
    14: "Exec Format Error",
}
# Of any answer, as Judge0 says it: some clients take one for Latin-1 that does not.
MEDIA: Final = "application/json; charset=utf-8"
# The statuses 1 and 2.
WAITING: Final = frozenset({m.Status.PENDING, m.Status.RETRYING})
PROCESSING: Final = frozenset({m.Status.COMPILING, m.Status.RUNNING})
# Of verdicts that need no look at the run; OLE is what the kernel would do with a file that grows too large.
_PLAIN: Final[dict[Verdict, int]] = {
    Verdict.AC: 3,
    Verdict.WA: 4,
    Verdict.TLE: 5,
    Verdict.CE: 6,
    Verdict.OLE: 8,
    Verdict.SV: 12,
    Verdict.JE: 13,
}
_SIGNALS: Final = {11: 7, 25: 8, 8: 9, 6: 10}
_NZEC, _OTHER, _INTERNAL, _FORMAT = 11, 12, 13, 14
_SIGXFSZ, _SIGSYS, _SIGKILL = 25, 31, 9
_NOT_EXECUTABLE = 126
_IN_BOX: Final = re.compile(r'(?<![\w"./-])/box/(?=[\w])')
DEFAULT: Final = ("stdout", "time", "memory", "stderr", "token", "compile_output", "message", "status")


class NotTextError(UsageError):
    """An output that is no text, asked for as text."""


@dataclass(frozen=True)
class SeenTask:
    """One task as its reader may see it, with what it takes to show it. `read` returns the content of a blob."""

    task: m.Task
    row: Judge0Language | None
    read: Callable[[str], bytes]

    @property
    def deciding(self) -> m.TestResult | None:
        """The run that a caller hears of: the one that failed, else the last."""
        result = self.task.result
        if result is None or not result.tests or self.task.verdict is Verdict.CE:
            return None
        return next((test for test in result.tests if test.name == result.failed_test), result.tests[-1])

    @property
    def told(self) -> dict[str, str | int | float | bool]:
        """The caller's own words that are not in the rest of the submission."""
        return self.task.submission.told


def status(task: m.Task, kind: str | None = None) -> int:
    """The number of Judge0's status that a task has; `kind` is its row's."""
    if not task.done:
        return 1 if task.status in WAITING else 2
    if task.verdict is None:
        return _INTERNAL
    tests = task.result.tests if task.result is not None else []
    failed = task.result.failed_test if task.result is not None else None
    run = next((test for test in tests if test.name == failed), tests[-1] if tests else None)
    return of_run(task.verdict, run, kind)


def of_run(verdict: Verdict, run: m.TestResult | None, kind: str | None = None) -> int:
    """The same of one run with its verdict."""
    if verdict in _PLAIN:
        return _PLAIN[verdict]
    if verdict is Verdict.MLE:
        return 7 if run is not None and run.signal in _SIGNALS and _SIGNALS[run.signal] == 7 else _NZEC
    if run is None or run.signal is None:
        not_started = kind == "executable" and run is not None and run.exit_code == _NOT_EXECUTABLE
        return _FORMAT if not_started else _NZEC
    return _SIGNALS.get(run.signal, _OTHER)


def _message(seen: SeenTask) -> str | None:
    task, run = seen.task, seen.deciding
    number = status(task, seen.row.kind if seen.row else None)
    if not task.done or number in {3, 4, 6}:
        return None
    reason = task.result.reason if task.result is not None else ""
    if number == _INTERNAL:
        return reason or ("the submission was cancelled" if task.status is m.Status.CANCELLED else "internal error")
    if number == 5:
        return "Time limit exceeded (wall clock)" if run and "wall time" in run.reason else "Time limit exceeded"
    if number == _FORMAT:
        return "execve(./a.out): Exec format error"
    signal = _signal(seen)
    return f"Exited with error status {_exit_code(seen)}" if signal is None else f"Caught fatal signal {signal}"


def _signal(seen: SeenTask) -> int | None:
    run, verdict = seen.deciding, seen.task.verdict
    if run is None or verdict is Verdict.TLE:
        return None
    if verdict is Verdict.OLE:
        return _SIGXFSZ
    if verdict is Verdict.SV:
        return run.signal or _SIGSYS
    # Judge0's shell tells an end for want of memory by its exit code.
    return None if verdict is Verdict.MLE and run.signal == _SIGKILL else run.signal


def _exit_code(seen: SeenTask) -> int | None:
    run, verdict = seen.deciding, seen.task.verdict
    if run is None:
        return None
    if verdict is Verdict.TLE:
        return 0
    if verdict is Verdict.MLE and run.signal is None and not run.exit_code:
        return 128 + _SIGKILL
    signal = _signal(seen) or run.signal
    return run.exit_code if signal is None else 128 + signal


def number(value: float) -> str:
    """Seconds as Judge0 writes decimals: up to milliseconds, at least one digit behind the point."""
    text = f"{value:.3f}".rstrip("0")
    return text + "0" if text.endswith(".") else text


def _mean(seen: SeenTask, name: str) -> float | None:
    """Of all runs of one program; of several tests the largest."""
    result = seen.task.result
    if result is None or seen.deciding is None:
        return None
    values = [float(getattr(test, name)) for test in result.tests]
    runs = seen.told.get("number_of_runs", 1)
    return sum(values) / len(values) if runs != 1 and seen.task.problem is None else max(values)


def _seconds(seen: SeenTask, name: str) -> str | None:
    value = _mean(seen, name)
    if value is None or (name == "wall" and seen.task.result is not None and seen.task.result.withheld):
        return None
    return number(value)


def _stdout(seen: SeenTask) -> bytes | None:
    result = seen.task.result
    if result is None or seen.deciding is None:
        return None
    if result.stdout_blob is not None:
        return seen.read(result.stdout_blob)
    text = result.stdout if result.stdout is not None else seen.deciding.output
    return text.encode("utf-8", "replace") or None


def _stderr(seen: SeenTask) -> bytes | None:
    result, run = seen.task.result, seen.deciding
    if result is None or run is None:
        return None
    if result.stderr is not None:
        return b64.b64decode(result.stderr) or None
    return run.error.encode("utf-8", "replace") or None


def _compile_output(seen: SeenTask) -> bytes | None:
    result = seen.task.result
    if result is None:
        return None
    if seen.task.verdict is Verdict.CE and "time limit exceeded" in result.reason:
        return b"Compilation time limit exceeded."
    text = result.compile_log or (result.reason if seen.task.verdict is Verdict.CE else "")
    # Judge0's compilers are told the bare names, and editors look for `main.cpp:1:5` at the beginning of a line.
    text = _IN_BOX.sub("", text)
    return text.encode("utf-8", "replace") or None


def _source(seen: SeenTask) -> bytes | None:
    submission = seen.task.submission
    files = handed.contents(submission)
    if submission.source is not None:
        return files[submission.filename or "source"]
    if seen.row is not None and seen.row.kind != "project":
        return files.get(seen.row.file)
    return files[next(iter(files))] if len(files) == 1 else None


def _archive(seen: SeenTask) -> bytes | None:
    """The additional files, as one archive; not the caller's own, byte by byte."""
    own = seen.row.file if seen.row is not None else ""
    files = {file.name: file.data for file in seen.task.submission.files if file.name != own}
    return handed.pack(files) if files else None


def _left(seen: SeenTask) -> bytes | None:
    """The directory after the last run, as an archive: what was handed in, with what the run made or changed."""
    if not seen.task.done:
        return None
    files = handed.contents(seen.task.submission)
    result = seen.task.result
    if result is not None and result.left is not None:
        files |= handed.unpack(b64.b64decode(result.left), handed.LEFT_BYTES)
    return handed.pack(files) if files else None


def _of_test(seen: SeenTask, text: str, blob: str) -> bytes | None:
    tests = seen.task.submission.tests
    if not tests or seen.task.problem is not None:
        return None
    named = getattr(tests[0], blob)
    if named is not None:
        return seen.read(named)
    value: str | None = getattr(tests[0], text)
    return None if value is None else value.encode()


def _status(seen: SeenTask) -> dict[str, Any]:
    found = status(seen.task, seen.row.kind if seen.row else None)
    return {"id": found, "description": STATUSES[found]}


def _language(seen: SeenTask) -> dict[str, Any] | None:
    return None if seen.row is None else {"id": seen.row.id, "name": seen.row.name}


def _tests(seen: SeenTask) -> list[dict[str, Any]]:
    result = seen.task.result
    shown = []
    for one in result.tests if result is not None else []:
        found = of_run(one.verdict, one, seen.row.kind if seen.row else None)
        shown.append(
            {
                "name": one.name,
                "verdict": one.verdict,
                "status": {"id": found, "description": STATUSES[found]},
                "time": number(one.cpu),
                "memory": one.memory // 1024,
                "stdout": one.output or None,
                "stderr": one.error or None,
                "score": one.score,
            }
        )
    return shown


def _memory(seen: SeenTask) -> int | None:
    value = _mean(seen, "memory")
    return None if value is None else int(value) // 1024


def _decimal(seen: SeenTask, name: str) -> str | None:
    value = seen.told.get(name)
    return None if value is None else number(float(value))


def _said(seen: SeenTask, name: str) -> str | int | float | bool | None:
    return seen.told.get(name)


def _switch(seen: SeenTask, name: str) -> bool:
    return bool(seen.told.get(name, False))


# The fields, and what makes each of them; bytes are Base64 or text, as the caller wants.
_FIELDS: Final[dict[str, Callable[[SeenTask], Any]]] = {
    "source_code": _source,
    "language_id": lambda seen: seen.row.id if seen.row else None,
    "stdin": lambda seen: _of_test(seen, "input", "input_blob"),
    "expected_output": lambda seen: _of_test(seen, "answer", "answer_blob"),
    "stdout": _stdout,
    "status_id": lambda seen: _status(seen)["id"],
    "created_at": lambda seen: seen.task.created,
    "finished_at": lambda seen: seen.task.finished,
    "time": lambda seen: _seconds(seen, "cpu"),
    "memory": _memory,
    "stderr": _stderr,
    "token": lambda seen: token_of(seen.task.id),
    **{name: functools.partial(_said if rule.whole else _decimal, name=name) for name, rule in NUMBERS.items()},
    **{name: functools.partial(_switch, name=name) for name in SWITCHES},
    "compile_output": _compile_output,
    "exit_code": _exit_code,
    "exit_signal": _signal,
    "message": lambda seen: None if (text := _message(seen)) is None else text.encode(),
    "wall_time": lambda seen: _seconds(seen, "wall"),
    **{name: functools.partial(_said, name=name) for name in SHORT_TEXTS},
    "additional_files": _archive,
    "post_execution_filesystem": _left,
    "status": _status,
    "language": _language,
}
# Fields that Judge0's master has more, and fields that only we have: shown to those who name them, since clients that
# ask for everything know the fields of the released Judge0 alone.
_MORE: Final[dict[str, Callable[[SeenTask], Any]]] = {
    "started_at": lambda seen: seen.task.started,
    "queued_at": lambda seen: seen.task.created,
    "updated_at": lambda seen: seen.task.finished or seen.task.started or seen.task.created,
    "queue_host": lambda _: None,
    "execution_host": lambda seen: seen.task.judged_by or seen.task.executor,
    "id": lambda seen: seen.task.id,
    "verdict": lambda seen: seen.task.verdict,
    "reason": lambda seen: seen.task.result.reason if seen.task.result is not None else None,
    "problem": lambda seen: seen.task.submission.problem,
    "score": lambda seen: seen.task.result.score if seen.task.result is not None else None,
    "tests": _tests,
}
_ALWAYS_BASE64: Final = frozenset({"additional_files", "post_execution_filesystem"})
_TEXTS: Final = frozenset({*CONTENTS, "stdout", "stderr", "compile_output", "message"})
ALL: Final = tuple(_FIELDS)
KNOWN: Final = frozenset({*_FIELDS, *_MORE})


def fields_of(asked: str | None) -> tuple[Sequence[str], list[str]]:
    """(the fields that a caller wants, those that there are not); `*` are all that released versions of Judge0 have."""
    names = [name.strip() for name in (asked or "").split(",") if name.strip()]
    if not names:
        return DEFAULT, []
    wanted: dict[str, None] = {}
    for name in names:
        wanted.update(dict.fromkeys(ALL) if name == "*" else {name: None})
    return list(wanted), [name for name in wanted if name not in KNOWN]


def shown(seen: SeenTask, fields: Collection[str], *, base64: bool) -> dict[str, Any]:
    """These fields of a submission, in this order. NotTextError for what is no text and was asked for as text."""
    return {name: _shown(name, (_FIELDS.get(name) or _MORE[name])(seen), base64=base64) for name in fields}


def encoded(*, base64: bool) -> frozenset[str]:
    """The fields whose contents are Base64, by the caller's wish or always."""
    return _ALWAYS_BASE64 | (_TEXTS if base64 else frozenset())


def _shown(name: str, value: Any, *, base64: bool) -> Any:
    if not isinstance(value, bytes):
        return value
    if name in encoded(base64=base64):
        return base64s.encode(value)
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise NotTextError(
            "some attributes for this submission cannot be converted to UTF-8, use base64_encoded=true query parameter"
        ) from None


def row_of(task: m.Task, rows: dict[int, Judge0Language], flavour: languages.Flavour) -> Judge0Language | None:
    """The language of a submission by Judge0's ids: the one that was asked for, else the newest alike."""
    said = task.submission.told.get("language_id")
    known = rows.get(said) if isinstance(said, int) else None
    return known or languages.of_row(flavour, task.submission.language)
