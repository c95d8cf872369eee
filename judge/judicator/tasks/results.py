"""Results as they are reported and as they are stored, which is never big; pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from judge.judicator.documents import Dumped, HistoryEntry
from judge.model.messages import Completed, Result, Status

# Documents stay small (docs/protocol.md). Texts beyond these many bytes are for people only, and are cut.
LOG_BYTES: Final = 64 * 1024
TEXT_BYTES: Final = 4 * 1024
STDOUT_BYTES: Final = 256 * 1024
LEFT_BYTES: Final = 384 * 1024
RESULT_BYTES: Final = 2 * 1024**2
_CUTS: Final = (TEXT_BYTES, 256, 0)
_TEST_TEXTS: Final = ("reason", "output", "error", "message", "feedback")


def texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text inside a dumped message, with its dotted place."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from texts(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from texts(inner, f"{path}.{index}")


def cut(text: str, limit: int) -> str:
    """The first `limit` bytes of a text, ending on a whole character; what cannot be encoded is replaced."""
    data = text.encode(errors="replace")
    return data.decode() if len(data) <= limit else data[:limit].decode(errors="ignore")


def fit(result: Result) -> Dumped:
    """A result as it is stored: texts for people are cut so that the document stays small whatever was reported."""
    stored: Dumped = {}
    for limit in _CUTS:
        brief = result.model_copy(
            update={
                "compile_log": cut(result.compile_log, LOG_BYTES),
                "reason": cut(result.reason, TEXT_BYTES),
                "stdout": None if result.stdout is None else cut(result.stdout, STDOUT_BYTES),
                "stderr": None if result.stderr is None else cut(result.stderr, STDOUT_BYTES),
                # Half an archive is none.
                "left": None if result.left is None or len(result.left) > LEFT_BYTES else result.left,
                "tests": [
                    test.model_copy(update={name: cut(getattr(test, name), limit) for name in _TEST_TEXTS})
                    for test in result.tests
                ],
            }
        )
        stored = brief.model_dump(mode="json")
        if sum(len(text.encode("utf-8", "replace")) for _, text in texts(stored)) <= RESULT_BYTES:
            break
    return stored


def flaw(completed: Completed) -> str | None:
    """The reason why a reported completion cannot be committed; None when it can (or asks to be retried)."""
    if completed.retry:
        return None
    if not completed.status.done or completed.status is Status.CANCELLED:
        return f"the executor reported status '{completed.status}', which is no end of a judging"
    if completed.verdict is None:
        return f"the executor reported status '{completed.status}' without a verdict"
    return None


def gave_up(history: Iterable[HistoryEntry]) -> Dumped:
    """The result of a task that no executor could finish: the evidence as one text."""
    attempts = "; ".join(f"attempt {entry['attempt']} on {entry['executor']}: {entry['reason']}" for entry in history)
    return Result(reason=cut(f"given up: {attempts}", TEXT_BYTES)).model_dump(mode="json")
