"""Fragments of statements for the pages and the API: made in a process of their own, one at a time, and remembered."""

from __future__ import annotations

import hashlib
import logging
import signal
import subprocess
import sys
import threading
from collections import OrderedDict
from pathlib import Path

from pydantic import ValidationError

from judge.errors import PackageError, UnavailableError
from judge.gateway.statements.child import CPU_SECONDS
from judge.gateway.statements.fragment import Fragment, StatementText
from judge.model.messages import ErrorBody

SOURCE_BYTES = 256 * 1024
_WALL_SECONDS = 3.0 * CPU_SECONDS
_KEPT_BYTES = 64 * 1024**2
_TOO_MUCH = f"the statement takes too long or too much memory to be shown (more than {CPU_SECONDS} s); read its source"

_BUSY = "the statement could not be made ready at the moment; try again in a few seconds"
_REFUSED = 2
# Deaths that the text alone brings about: by its limit of CPU time, or in a library that gets no memory.
_BY_CONTENT = frozenset({signal.SIGXCPU, signal.SIGABRT, signal.SIGSEGV})
log = logging.getLogger(__name__)


class Renderer:
    """One per worker process of the gateway, used by all its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._making = threading.Lock()
        self._known: OrderedDict[str, Fragment | str] = OrderedDict()
        self._bytes = 0

    def render(self, statement: StatementText) -> Fragment:
        """The fragment of a statement, at once when it has been made before; so is a refusal.

        PackageError: it cannot be shown. UnavailableError: it cannot be made just now; that is not remembered.
        """
        asked = statement.model_dump_json().encode()
        if len(statement.text) > SOURCE_BYTES:
            raise PackageError(f"the statement has more than {SOURCE_BYTES // 1024} KiB; read its source")
        key = hashlib.sha256(asked).hexdigest()
        found = self._find(key)
        if found is None:
            # One at a time: whoever asks for many statements that are slow to make holds up no other work.
            if not self._making.acquire(timeout=2 * _WALL_SECONDS):
                raise UnavailableError("other statements are being made ready; try again in a few seconds")
            try:
                found = self._find(key) or self._keep(key, _made(asked))
            finally:
                self._making.release()
        if isinstance(found, str):
            raise PackageError(found)
        return found

    def _find(self, key: str) -> Fragment | str | None:
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
            return found

    def _keep(self, key: str, made: Fragment | str) -> Fragment | str:
        with self._lock:
            self._known[key] = made
            self._bytes += _size(made)
            while self._bytes > _KEPT_BYTES and len(self._known) > 1:
                self._bytes -= _size(self._known.popitem(last=False)[1])
        return made


def _size(made: Fragment | str) -> int:
    return 1024 + (len(made) if isinstance(made, str) else sum(len(piece) for piece in made.pieces))


def _made(asked: bytes) -> Fragment | str:
    """A fragment, or why the text has none. UnavailableError for what another try may not meet."""
    # In uWSGI `sys.executable` is uWSGI.
    python = Path(sys.prefix) / "bin" / "python3"
    try:
        done = subprocess.run(
            [python, "-P", "-m", "judge.gateway.statements.child"],
            input=asked,
            capture_output=True,
            timeout=_WALL_SECONDS,
            check=False,
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        )
    except (subprocess.TimeoutExpired, OSError) as exc:
        log.warning("no statement could be made ready: %s", exc)
        raise UnavailableError(_BUSY) from None
    if -done.returncode in _BY_CONTENT:
        return _TOO_MUCH
    try:
        if done.returncode == 0:
            return Fragment.model_validate_json(done.stdout)
        if done.returncode == _REFUSED:
            return ErrorBody.model_validate_json(done.stdout).error
    except ValidationError:
        pass
    said = done.stderr[-300:].decode("utf-8", "replace")
    log.warning("the process that makes statements ended with %d: %s", done.returncode, said)
    raise UnavailableError(_BUSY)
