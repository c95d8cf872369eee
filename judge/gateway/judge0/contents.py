"""The contents that one answer of Judge0's API may have: an answer stands in memory whole, several times over."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from flask import g

from judge.common.errors import TooLargeError
from judge.common.text import size
from judge.gateway.cluster import Cluster

# Characters of all texts of one answer, as they are sent. Twenty outputs of Judge0's usual limit, a MiB, in Base64.
MOST: Final = 32 * 1024**2
# Blobs beyond so many bytes are read by one answer at a time.
_SMALL: Final = 1024**2


class Contents:
    """The contents of one answer; leave it once the answer is made."""

    _turn = threading.Lock()

    def __init__(self) -> None:
        self._left = MOST
        self._held = contextlib.ExitStack()
        self._mine = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def read(self, cluster: Cluster, name: str) -> bytes:
        """A blob; TooLargeError, before it is in memory, for one that has no room."""
        with cluster.blob(name) as file:
            length = file.seek(0, 2)
            if length > self._left:
                raise _too_large()
            if length > _SMALL and not self._mine:
                self._held.enter_context(self._turn)
                self._mine = True
            file.seek(0)
            return file.read()

    def take(self, document: Mapping[str, Any], encoded: Iterable[str]) -> None:
        """Count the texts of one submission; those in `encoded` grow no more. TooLargeError when that is too much."""
        encoded_names = frozenset(encoded)
        for name, value in document.items():
            if isinstance(value, str | list):
                self._left -= len(value) if name in encoded_names else len(json.dumps(value, ensure_ascii=False))
        if self._left < 0:
            raise _too_large()


def contents() -> Contents:
    """Those of the answer to this request."""
    budget: Contents = g.judge0_contents
    return budget


def _too_large() -> TooLargeError:
    return TooLargeError(
        f"these submissions have more than {size(MOST)} of contents; ask for fewer at once, or name the fields without "
        "stdout: GET /api/v1/submissions/ID/output has an output of any length"
    )
