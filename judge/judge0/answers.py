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

from judge.common.errors import UsageError
from judge.judge0 import languages
from judge.judge0.fields import CONTENTS, NUMBERS, SHORT_TEXTS, SWITCHES, encode_base64
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
_NZEC, _OTHER_SIGNAL, _INTERNAL, _FORMAT = 11, 12, 13, 14
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
    def kind(self) -> str | None:
        return self.row.kind if self.row is not None else None

    @property
    def status(self) -> int:
        return status(self.task, self.kind)

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
    return _SIGNALS.get(run.signal, _OTHER_SIGNAL)


def _message(view: SeenTask) -> str | None:
    task, run = view.task, view.deciding
    number = view.status
    if not task.done or number in {3, 4, 6}:
        return None
    reason = task.result.reason if task.result is not None else ""
    if number == _INTERNAL:
        return reason or ("the submission was cancelled" if task.status is m.Status.CANCELLED else "internal error")
    if number == 5:
        return "Time limit exceeded (wall clock)" if run and "wall time" in run.reason else "Time limit exceeded"
    if number == _FORMAT:
        return "execve(./a.out): Exec format error"
    signal = _signal(view)
    return f"Exited with error status {_exit_code(view)}" if signal is None else f"Caught fatal signal {signal}"


def _signal(view: SeenTask) -> int | None:
    run, verdict = view.deciding, view.task.verdict
    if run is None or verdict is Verdict.TLE:
        return None
    if verdict is Verdict.OLE:
        return _SIGXFSZ
    if verdict is Verdict.SV:
        return run.signal or _SIGSYS
    # Judge0's shell tells an end for want of memory by its exit code.
    return None if verdict is Verdict.MLE and run.signal == _SIGKILL else run.signal


def _exit_code(view: SeenTask) -> int | None:
    run, verdict = view.deciding, view.task.verdict
    if run is None:
        return None
    if verdict is Verdict.TLE:
        return 0
    if verdict is Verdict.MLE and run.signal is None and not run.exit_code:
        return 128 + _SIGKILL
    signal = _signal(view) or run.signal
    return run.exit_code if signal is None else 128 + signal


def number(value: float) -> str:
    """Seconds as Judge0 writes decimals: up to milliseconds, at least one digit behind the point."""
    text = f"{value:.3f}".rstrip("0")
    return text + "0" if text.endswith(".") else text


def _mean(view: SeenTask, name: str) -> float | None:
    """Of all runs of one program; of several tests the largest."""
    result = view.task.result
    if result is None or view.deciding is None:
        return None
    values = [float(getattr(test, name)) for test in result.tests]
    runs = view.told.get("number_of_runs", 1)
    return sum(values) / len(values) if runs != 1 and view.task.problem is None else max(values)


def _seconds(view: SeenTask, name: str) -> str | None:
    value = _mean(view, name)
    if value is None or (name == "wall" and view.task.result is not None and view.task.result.withheld):
        return None
    return number(value)


def _stdout(view: SeenTask) -> bytes | None:
    result = view.task.result
    if result is None or view.deciding is None:
        return None
    if result.stdout_blob is not None:
        return view.read(result.stdout_blob)
    text = result.stdout if result.stdout is not None else view.deciding.output
    return text.encode("utf-8", "replace") or None


def _stderr(view: SeenTask) -> bytes | None:
    result, run = view.task.result, view.deciding
    if result is None or run is None:
        return None
    if result.stderr is not None:
        return b64.b64decode(result.stderr) or None
    return run.error.encode("utf-8", "replace") or None


def _compile_output(view: SeenTask) -> bytes | None:
    result = view.task.result
    if result is None:
        return None
    if view.task.verdict is Verdict.CE and "time limit exceeded" in result.reason:
        return b"Compilation time limit exceeded."
    text = result.compile_log or (result.reason if view.task.verdict is Verdict.CE else "")
    # Judge0's compilers are told the bare names, and editors look for `main.cpp:1:5` at the beginning of a line.
    text = _IN_BOX.sub("", text)
    return text.encode("utf-8", "replace") or None


def _source(view: SeenTask) -> bytes | None:
    submission = view.task.submission
    files = handed.contents(submission)
    if submission.source is not None:
        return files[submission.filename or "source"]
    if view.row is not None and view.row.kind != "project":
        return files.get(view.row.file)
    return files[next(iter(files))] if len(files) == 1 else None


def _archive(view: SeenTask) -> bytes | None:
    """The additional files, as one archive; not the caller's own, byte by byte."""
    source_name = view.row.file if view.row is not None else ""
    files = {file.name: file.data for file in view.task.submission.files if file.name != source_name}
    return handed.pack(files) if files else None


def _files_after(view: SeenTask) -> bytes | None:
    """The directory after the last run, as an archive: what was handed in, with what the run made or changed."""
    if not view.task.done:
        return None
    files = handed.contents(view.task.submission)
    result = view.task.result
    if result is not None and result.left is not None:
        files |= handed.unpack(b64.b64decode(result.left), handed.LEFT_BYTES)
    return handed.pack(files) if files else None


def _of_test(view: SeenTask, text: str, blob: str) -> bytes | None:
    tests = view.task.submission.tests
    if not tests or view.task.problem is not None:
        return None
    blob_value = getattr(tests[0], blob)
    if blob_value is not None:
        return view.read(blob_value)
    value: str | None = getattr(tests[0], text)
    return None if value is None else value.encode()


def _described(number: int) -> dict[str, Any]:
    return {"id": number, "description": STATUSES[number]}


def _tests(view: SeenTask) -> list[dict[str, Any]]:
    return [
        {
            "name": test.name,
            "verdict": test.verdict,
            "status": _described(of_run(test.verdict, test, view.kind)),
            "time": number(test.cpu),
            "memory": test.memory // 1024,
            "stdout": test.output or None,
            "stderr": test.error or None,
            "score": test.score,
        }
        for test in (view.task.result.tests if view.task.result is not None else [])
    ]


def _memory(view: SeenTask) -> int | None:
    value = _mean(view, "memory")
    return None if value is None else int(value) // 1024


def _decimal(view: SeenTask, name: str) -> str | None:
    value = view.told.get(name)
    return None if value is None else number(float(value))


def _value_of(view: SeenTask, name: str) -> str | int | float | bool | None:
    return view.told.get(name)


def _switch(view: SeenTask, name: str) -> bool:
    return bool(view.told.get(name))


# The fields, and what makes each of them; bytes are Base64 or text, as the caller wants.
_FIELDS: Final[dict[str, Callable[[SeenTask], Any]]] = {
    "source_code": _source,
    "language_id": lambda view: view.row.id if view.row else None,
    "stdin": lambda view: _of_test(view, "input", "input_blob"),
    "expected_output": lambda view: _of_test(view, "answer", "answer_blob"),
    "stdout": _stdout,
    "status_id": lambda view: view.status,
    "created_at": lambda view: view.task.created,
    "finished_at": lambda view: view.task.finished,
    "time": lambda view: _seconds(view, "cpu"),
    "memory": _memory,
    "stderr": _stderr,
    "token": lambda view: token_of(view.task.id),
    **{name: functools.partial(_value_of if rule.integer else _decimal, name=name) for name, rule in NUMBERS.items()},
    **{name: functools.partial(_switch, name=name) for name in SWITCHES},
    "compile_output": _compile_output,
    "exit_code": _exit_code,
    "exit_signal": _signal,
    "message": lambda view: None if (text := _message(view)) is None else text.encode(),
    "wall_time": lambda view: _seconds(view, "wall"),
    **{name: functools.partial(_value_of, name=name) for name in SHORT_TEXTS},
    "additional_files": _archive,
    "post_execution_filesystem": _files_after,
    "status": lambda view: _described(view.status),
    "language": lambda view: None if view.row is None else {"id": view.row.id, "name": view.row.name},
}
# Fields that Judge0's master has more, and fields that only we have: shown to those who name them, since clients that
# ask for everything know the fields of the released Judge0 alone.
_MORE: Final[dict[str, Callable[[SeenTask], Any]]] = {
    "started_at": lambda view: view.task.started,
    "queued_at": lambda view: view.task.created,
    "updated_at": lambda view: view.task.finished or view.task.started or view.task.created,
    "queue_host": lambda _: None,
    "execution_host": lambda view: view.task.judged_by or view.task.executor,
    "id": lambda view: view.task.id,
    "verdict": lambda view: view.task.verdict,
    "reason": lambda view: view.task.result.reason if view.task.result is not None else None,
    "problem": lambda view: view.task.submission.problem,
    "score": lambda view: view.task.result.score if view.task.result is not None else None,
    "tests": _tests,
}
_ALWAYS_BASE64: Final = frozenset({"additional_files", "post_execution_filesystem"})
_TEXTS: Final = frozenset({*CONTENTS, "stdout", "stderr", "compile_output", "message"})
ALL: Final = tuple(_FIELDS)
NAMES: Final = frozenset({*_FIELDS, *_MORE})


def fields_of(requested: str | None) -> tuple[Sequence[str], list[str]]:
    """(the fields that a caller wants, those that there are not); `*` are all that released versions of Judge0 have."""
    names = [name.strip() for name in (requested or "").split(",") if name.strip()]
    if not names:
        return DEFAULT, []
    selected: dict[str, None] = {}
    for name in names:
        selected.update(dict.fromkeys(ALL) if name == "*" else {name: None})
    return list(selected), [name for name in selected if name not in NAMES]


def shown(view: SeenTask, fields: Collection[str], *, base64: bool) -> dict[str, Any]:
    """These fields of a submission, in this order. NotTextError for what is no text and was asked for as text."""
    return {name: _encoded(name, (_FIELDS.get(name) or _MORE[name])(view), base64=base64) for name in fields}


def encoded(*, base64: bool) -> frozenset[str]:
    """The fields whose contents are Base64, by the caller's wish or always."""
    return _ALWAYS_BASE64 | (_TEXTS if base64 else frozenset())


def _encoded(name: str, value: Any, *, base64: bool) -> Any:
    if not isinstance(value, bytes):
        return value
    if name in encoded(base64=base64):
        return encode_base64(value)
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise NotTextError(
            "some attributes for this submission cannot be converted to UTF-8, use base64_encoded=true query parameter"
        ) from exc


def row_of(task: m.Task, rows: dict[int, Judge0Language], flavour: languages.Flavour) -> Judge0Language | None:
    """The language of a submission by Judge0's ids: the one that was asked for, else the newest alike."""
    language_id = task.submission.told.get("language_id")
    row = rows.get(language_id) if isinstance(language_id, int) else None
    return row or languages.of_row(flavour, task.submission.language)
