"""The part of the programs' output that goes into a result: short, readable, and bounded for any number of tests."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

from judge.common.files import ALL_SEALS, copy, in_memory
from judge.model.messages import TestResult, Verdict
from judge.sandbox.types import RunOutcome

SHOWN = 1024
LOG = 24 * 1024
MESSAGE = 1024
INLINE = 64 * 1024
# Bytes of JSON that the excerpts of passing and of failing tests may take in one result. There may be thousands of
# either, and a result that no report can carry would stand in the way of all others.
BUDGET, FAILING = 640 * 1024, 4 * 1024**2

_PIECE = 1 << 20


def text(data: bytes) -> str:
    """Bytes as text for people; what is not UTF-8 becomes U+FFFD."""
    return data.decode("utf-8", "replace")


def clip(value: str, limit: int) -> str:
    return value if len(value) <= limit else value[: limit - 1] + "…"


def json_size(value: str) -> int:
    """Bytes that a text takes inside JSON: control characters grow to six."""
    return len(json.dumps(value, ensure_ascii=False).encode())


class OutputBudget:
    """The excerpts of one result, within BUDGET and FAILING together."""

    def __init__(self, passing: int = BUDGET, failing: int = FAILING) -> None:
        self._remaining = {True: passing, False: failing}

    def trim(self, test: TestResult) -> None:
        """Leave away what there is no room for; passing tests take none from others. Called in the order of judging."""
        kind = test.verdict is Verdict.AC
        for names in (("output", "error"), ("message",), ("feedback",)):
            need = sum(json_size(getattr(test, name)) for name in names)
            if need <= self._remaining[kind]:
                self._remaining[kind] -= need
                continue
            for name in names:
                setattr(test, name, "")


def printed(outcome: RunOutcome) -> tuple[str, str]:
    """The first SHOWN bytes of stdout and of stderr."""
    return text(outcome.read_stdout(SHOWN)), text(outcome.read_stderr(SHOWN))


def build_log(outcome: RunOutcome, named: Callable[[str], str]) -> str:
    """The compiler's output, errors first, at most LOG characters; `named` puts in the author's names of files."""
    parts = (outcome.read_stderr(4 * LOG), outcome.read_stdout(4 * LOG))
    joined = named("\n".join(text(data) for data in parts if data))
    if len(joined) <= LOG:
        return joined
    return joined[:LOG] + f"\n… cut after {LOG} characters\n"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest(fd: int, count: int) -> str:
    """SHA-256 of the first `count` bytes of a file, piece by piece."""
    sha = hashlib.sha256()
    offset = 0
    while offset < count:
        part = os.pread(fd, min(_PIECE, count - offset), offset)
        if not part:
            break
        sha.update(part)
        offset += len(part)
    return sha.hexdigest()


def sealed(source: bytes | Path) -> int:
    """A descriptor of a memory file with these contents, at its start, that nobody can change any more.

    A test's input: a submission that opens its own stdin for writing gets an error, and the blob on disk is never
    within its reach. The caller closes it.
    """
    fd = in_memory("input", seals=True)
    try:
        if isinstance(source, bytes):
            with open(fd, "wb", closefd=False) as memory:
                memory.write(source)
        else:
            with source.open("rb") as file:
                copy(file.fileno(), fd)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, ALL_SEALS)
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd
