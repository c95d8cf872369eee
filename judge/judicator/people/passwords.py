"""Digests of passwords: Argon2id, in threads of their own, so that the event loop goes on."""

from __future__ import annotations

import asyncio
import functools
import unicodedata
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from judge.common.errors import FieldError, UnavailableError
from judge.model.people import PASSWORD_LEAST

R = TypeVar("R")

# OWASP's figures for Argon2id: 19 MiB and two passes, some 20 ms of one core.
_HASHER: Final = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
_THREADS: Final = 2
_WAITING: Final = 40
_DIFFERENT: Final = 5


def check_new(password: str, name: str) -> None:
    """FieldError for a password that is guessed at once; lengths and repetitions only, as NIST SP 800-63B has it."""
    if len(password) < PASSWORD_LEAST:
        raise FieldError("password", f"has {len(password)} characters; take at least {PASSWORD_LEAST}")
    if len(set(password)) < _DIFFERENT:
        raise FieldError("password", f"has fewer than {_DIFFERENT} different characters; take a longer phrase")
    if name.lower() in password.lower() and len(password) < len(name) + PASSWORD_LEAST:
        raise FieldError("password", "is the user's name with a little added; take another")


class Passwords:
    """Makes the digests of one judicator, a few at once: each takes memory and a core, and strangers ask for them."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="argon2")
        self._under_way = 0
        self._nobody: str | None = None

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def digest(self, password: str) -> str:
        """The digest to store, with its parameters and salt. UnavailableError while too many are asked for."""
        return await self._run(functools.partial(_HASHER.hash, _plain(password)))

    async def digests(self, passwords: Sequence[str | None]) -> list[str | None]:
        """The digests of many passwords; as many at once as there are threads, so that a log-in waits for one only."""
        digests: list[str | None] = []
        for start in range(0, len(passwords), _THREADS):
            digests += await asyncio.gather(*map(self._digest_if_any, passwords[start : start + _THREADS]))
        return digests

    async def _digest_if_any(self, password: str | None) -> str | None:
        return None if password is None else await self.digest(password)

    async def verify(self, digest: str | None, password: str) -> bool:
        """Return whether this is the password; without a digest False, after as long a time. Errors as `digest`."""
        if self._nobody is None:
            self._nobody = await self.digest("a password that nobody has")
        right = await self._run(functools.partial(_right, digest or self._nobody, _plain(password)))
        return right and digest is not None

    @staticmethod
    def outdated(digest: str) -> bool:
        return _HASHER.check_needs_rehash(digest)

    async def _run(self, work: functools.partial[R]) -> R:
        if self._under_way >= _WAITING:
            raise UnavailableError("too many people log in at this moment; try again in a few seconds")
        self._under_way += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._under_way -= 1


def _plain(password: str) -> bytes:
    """The same characters as the same bytes, however a keyboard composes them."""
    return unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")


def _right(digest: str, password: bytes) -> bool:
    try:
        return _HASHER.verify(digest, password)
    except (VerificationError, InvalidHashError):
        return False
