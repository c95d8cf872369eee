"""Connections to the replica set that keep what they acknowledge, and what the driver's errors mean for a caller."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any, Literal, overload

import pymongo
import pymongo.lock
from bson.errors import BSONError
from pymongo import errors

from judge.common.errors import JudgeError, OutcomeUnknownError, RefusedError, TooLargeError, UnavailableError
from judge.config import MongodbClient, Tls
from judge.daemon.tlsfiles import joined

# Documents that MongoDB takes and gives without a fixed shape: filters, updates, commands, rows of aggregations.
Bson = dict[str, Any]
Client = pymongo.MongoClient[Bson]
AsyncClient = pymongo.AsyncMongoClient[Bson]

# A powered-off primary sends no FIN: the driver's monitor sees it after one heartbeat and one connect timeout.
_HEARTBEAT_MS = 2000
_CONNECT_MS = 2000

DUPLICATE = 11000
_AUTHENTICATION = frozenset({13, 18, 8000})
# Errors that a read meets when its server stops being the primary, or has just become it: a cursor or plan that is
# gone, no majority or quorum known yet, no snapshot. The same call succeeds a moment later.
_PASSING = frozenset({43, 134, 136, 175, 246})

# Exceptions that the driver raises: of the server and the network, and for documents that it will not send.
DRIVER_ERRORS = (errors.PyMongoError, BSONError)


async def _wait_for(work: Awaitable[bool], seconds: float | None) -> bool:
    async with asyncio.timeout(seconds):
        return await work


if sys.version_info < (3, 12):
    # Until 3.12 asyncio.wait_for may end before what it has cancelled (cpython issue 86766). A cancelled operation of
    # the driver then gave back a lock that it did not have, and its half that was left behind took it for good: no
    # operation of that client ever ended again (docs/decisions/013-cancelled-in-the-driver.md).
    pymongo.lock.wait_for = _wait_for  # type: ignore[attr-defined, assignment]

WANTED_DEFAULTS: Bson = {"read": "majority", "w": "majority", "j": True}


@contextlib.contextmanager
def tls_options(tls: Tls | None) -> Iterator[Bson]:
    """The driver's options for mutual TLS, to be used while a client is being constructed (and not afterwards)."""
    if tls is None:
        yield {}
        return
    with joined(read_file(tls.cert, "tls.cert"), read_file(tls.key, "tls.key")) as path:
        yield {"tls": True, "tlsCAFile": str(tls.ca), "tlsCertificateKeyFile": path}


def read_file(path: Path, setting: str) -> bytes:
    """The contents of a file that a config names under `setting`; RefusedError when it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as exc:
        msg = f"{setting}: {path} cannot be read: {exc.strerror}; name a file that this user may read"
        raise RefusedError(msg) from exc


def logins(username: str | None, password_file: Path | None) -> list[Bson]:
    """The driver's options for each user of the database `admin` whose password a file holds; none without a username.

    One line for each, and the first is the one to log in with: two passwords are in force while one takes the other's
    place. A line is the password of `username`, or `username.X PASSWORD` for a user of that name, as a user of MongoDB
    has one password only. RefusedError when the file holds no password that anybody could log in with.
    """
    if username is None:
        return []
    if password_file is None:
        raise RefusedError(f"username '{username}' has no password; name the file that holds it under 'password_file'")
    try:
        lines = [line.strip() for line in read_file(password_file, "password_file").decode().splitlines()]
    except UnicodeDecodeError:
        lines = []
    result = [_login(username, line) for line in lines if line]
    if not result:
        raise RefusedError(f"password_file: {password_file} holds no password; put one into it, as text")
    return result


def _login(username: str, line: str) -> Bson:
    first_word, space, secret = line.partition(" ")
    has_user = bool(space) and first_word.startswith(f"{username}.") and bool(secret.strip())
    user, password = (first_word, secret.strip()) if has_user else (username, line)
    # Named, or the driver tries SCRAM-SHA-1 for a user that is not there yet, which is no mechanism of our servers.
    return {"username": user, "password": password, "authSource": "admin", "authMechanism": "SCRAM-SHA-256"}


@overload
def connect(config: MongodbClient, *, asynchronous: Literal[False]) -> Client: ...
@overload
def connect(config: MongodbClient, *, asynchronous: Literal[True]) -> AsyncClient: ...
def connect(config: MongodbClient, *, asynchronous: bool) -> Client | AsyncClient:
    """A client of the replica set for the judicator: majority writes with journal, majority reads, every call bounded.

    `config.timeout` seconds bound a whole call: finding the primary, the one retry of a retryable write, and the wait
    for the majority. Nothing is sent before the first call, so this succeeds while MongoDB is away. Datetimes come
    back in UTC with their zone. RefusedError when a certificate or the password file cannot be read.
    """
    milliseconds = int(config.timeout * 1000)
    options: Bson = {
        "replicaSet": config.replica_set,
        "appname": "judge",
        "w": "majority",
        "journal": True,
        "readConcernLevel": "majority",
        "readPreference": "primary",
        "retryWrites": True,
        "retryReads": True,
        "timeoutMS": milliseconds,
        "serverSelectionTimeoutMS": milliseconds,
        "connectTimeoutMS": min(milliseconds, _CONNECT_MS),
        "heartbeatFrequencyMS": _HEARTBEAT_MS,
        "tz_aware": True,
        "uuidRepresentation": "standard",
        **next(iter(logins(config.username, config.password_file)), {}),
    }
    with tls_options(config.tls) as tls:
        if asynchronous:
            return pymongo.AsyncMongoClient(list(config.seeds), **options, **tls)
        return pymongo.MongoClient(list(config.seeds), **options, **tls)


def _text(exc: errors.PyMongoError) -> str:
    """The driver's message without the reply and topology dumps that it appends."""
    text = str(exc)
    for marker in (", full error:", ", Timeout:", " (configured timeouts:"):
        text = text.partition(marker)[0]
    return text[:300]


def _nothing_was_done(exc: errors.PyMongoError) -> bool:
    """Return whether the server says, or the driver knows, that no attempt of the call has taken effect."""
    never_sent = (errors.ServerSelectionTimeoutError, errors.WaitQueueTimeoutError, errors.ConfigurationError)
    return isinstance(exc, never_sent) or exc.has_error_label("NoWritesPerformed")


def _may_have_happened(exc: errors.PyMongoError) -> bool:
    """Return whether a write that failed like this can be in force, now or later."""
    if isinstance(exc, errors.ConnectionFailure | errors.WTimeoutError | errors.WriteConcernError):
        return True
    if isinstance(exc, errors.OperationFailure) and exc.code in _PASSING:
        return True
    if isinstance(exc, errors.ExecutionTimeout) or exc.timeout or exc.has_error_label("RetryableWriteError"):
        return True
    details = getattr(exc, "details", None) or {}
    return bool(details.get("writeConcernErrors") or details.get("writeConcernError"))


def unconfirmed(exc: errors.BulkWriteError) -> bool:
    """Say whether nobody knows if a majority has what these writes did, also those that report no error."""
    return bool(exc.details.get("writeConcernErrors"))


def only_duplicates(exc: errors.BulkWriteError) -> bool:
    """Say whether an unordered insert failed for nothing but documents that are there already, on a majority."""
    return not unconfirmed(exc) and all(fault["code"] == DUPLICATE for fault in exc.details["writeErrors"])


def translate(exc: errors.PyMongoError | BSONError) -> JudgeError:
    """The meaning of a driver's error: UnavailableError (nothing done), OutcomeUnknownError (read again), or a refusal.

    A write that timed out or lost its connection may be in force, or come into force later: MongoDB undoes nothing
    (`wtimeout` least of all). Called by everything that talks to MongoDB:
    `except store.DRIVER_ERRORS as exc: raise store.translate(exc) from exc`.
    """
    if isinstance(exc, errors.DocumentTooLarge):
        return TooLargeError(f"the document is over MongoDB's limit of 16 MiB: {exc}")
    if isinstance(exc, BSONError):
        return JudgeError(f"MongoDB cannot store this document: {exc}")
    text = _text(exc)
    if _nothing_was_done(exc):
        return UnavailableError(f"MongoDB does not serve this call now: {text}")
    if isinstance(exc, errors.OperationFailure) and exc.code in _AUTHENTICATION:
        return UnavailableError(f"MongoDB refuses this user: {text}; check 'username' and 'password_file'")
    if _may_have_happened(exc):
        return OutcomeUnknownError(f"MongoDB did not confirm this call: {text}")
    return JudgeError(f"MongoDB refused this call: {text}")


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raise what `translate` says for the driver's errors."""
    try:
        yield
    except errors.PyMongoError as exc:
        raise translate(exc) from exc


def ensure_defaults(client: Client) -> bool:
    """Make majority the default of every client that forgets to ask for it; True when it had to be set.

    Called by the primary's member daemon on each pass: the implicit default becomes w:1 once an arbiter joins, and
    the default read concern is `local`, which returns writes that can still be rolled back.
    """
    with translated():
        defaults = client.admin.command("getDefaultRWConcern")
        write = defaults.get("defaultWriteConcern", {})
        now = {"read": defaults.get("defaultReadConcern", {}).get("level"), "w": write.get("w"), "j": write.get("j")}
        if now == WANTED_DEFAULTS:
            return False
        client.admin.command(
            {
                "setDefaultRWConcern": 1,
                "defaultReadConcern": {"level": WANTED_DEFAULTS["read"]},
                "defaultWriteConcern": {"w": WANTED_DEFAULTS["w"], "j": WANTED_DEFAULTS["j"], "wtimeout": 0},
            }
        )
    return True
