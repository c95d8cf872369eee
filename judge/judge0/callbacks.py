"""The body of a callback, and when the callback is over. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from judge.judge0 import answers, languages
from judge.judge0.answers import SeenTask
from judge.model import messages as m

# 2 s, 4 s … 9 min: some 17 min in all. Judge0 makes three, one right after another.
TRIES: Final = 10
_RETRIED: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})


def is_retried(status: int) -> bool:
    """Say whether another try may help; `status` is the answer's, 0 for none."""
    return status == 0 or status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _RETRIED


def is_final(status: int, count: int) -> bool:
    """Say whether try number `count` was the last one; `status` is the answer's, 0 for none."""
    return not is_retried(status) or count >= TRIES


def host_of(url: str) -> str:
    """The host and port of an address; empty if it has none that can be read."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return ""
    return f"{parts.hostname or ''}:{port}"


def url_of(submission: m.Submission) -> str:
    """The address that a submission names for its result; empty for none."""
    return str(submission.told.get("callback_url", "")).strip()


def body(task: m.Task, output: bytes) -> bytes:
    """A finished submission as Judge0 sends it: the usual fields, contents in Base64. `output` is its output's blob.

    Of how a problem's tests went it tells the status alone: who may see more, asks for it.
    """
    if task.submission.problem is not None:
        task = task.model_copy(update={"result": None})
    row = answers.row_of(task, {**languages.table("extra"), **languages.table("ce")}, "ce")
    read: Callable[[str], bytes] = lambda _: output  # noqa: E731 - its one blob
    fields = answers.shown(SeenTask(task, row, read), answers.DEFAULT, base64=True)
    return json.dumps(fields).encode()
