"""Tokens and the people they belong to, and the CSRF tokens of forms; identity.py tells whose a request is."""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import re
import secrets
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flask import Flask, Request, current_app, session
from flask.sessions import SecureCookieSession, SecureCookieSessionInterface
from pydantic import Field

from judge.common import files
from judge.common.errors import ConfigError, ForbiddenError, UnauthorizedError
from judge.config import GatewayConfig, Model, parse_text
from judge.config.allowance import Role
from judge.model.messages import Sha256
from judge.model.people import SCOPES, Person, UserName, role_within

log = logging.getLogger(__name__)

# What a role includes of others; "none" is for everybody.
RANK: Final = {"none": 0, "user": 1, "judge": 2, "admin": 3}
EVERY_SCOPE: Final = frozenset(SCOPES)
# Each includes what those before it allow; `account` stands for itself.
_LADDER: Final = ("read", "submit", "judge", "admin")
# The tokens of accounts begin so, for those who look for secrets in what is published.
MARK: Final = "judge_"
_SHAPE: Final = re.compile(rf"{MARK}[A-Za-z0-9_-]{{43}}")
_KEY_BYTES = 32
_TOKEN_CHARS = 512


class Token(Model):
    """One token that was given to somebody. The file holds its SHA-256 only."""

    user: UserName
    role: Role = "user"
    sha256: Sha256


class TokenFile(Model):
    tokens: list[Token] = Field(min_length=1)


@dataclass(frozen=True)
class Principal:
    """A known person. `fingerprint` names the token they came with, without giving it away.

    `role` is the one they act in: that of a token may be less than their own. `account`: of the database, else of
    tokens.yml; `token` is the id of the account's token that they came with. `arrival` tells accounts apart that
    had one name, one after another.
    """

    user: str
    role: Role
    fingerprint: str
    scopes: frozenset[str] = EVERY_SCOPE
    account: bool = False
    token: str | None = None
    arrival: str = ""

    @property
    def admin(self) -> bool:
        return self.role == "admin"

    @property
    def judges(self) -> bool:
        """Return whether this person looks after problems, and sees all submissions."""
        return self.role in {"admin", "judge"}

    def may(self, scope: str) -> None:
        """ForbiddenError unless what they came with is good for this."""
        if scope not in self.scopes:
            raise ForbiddenError(f"scope: this token does not have scope '{scope}'; make one that has it")


NOBODY = Principal("", "user", "")


def token_digest(token: str) -> str:
    """The SHA-256 of a token or a session's secret in hex, which is all that anybody stores of it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def fingerprint(digest: str) -> str:
    """A name for a token, by its digest, that says nothing of either."""
    return hashlib.sha256(f"judge-session:{digest}".encode()).hexdigest()[:32]


@dataclass(frozen=True)
class _TokenTable:
    """The people of a file of tokens, by what they come with: a request costs the same however many they are."""

    by_digest: dict[str, Principal]
    by_fingerprint: dict[str, Principal]


class FileTokens:
    """The tokens of tokens.yml, read again when the file changes; safe to use from many threads."""

    def __init__(self, path: Path) -> None:
        """Read the file; ConfigError says what is wrong with it and where."""
        self._path = path
        self._lock = threading.Lock()
        self._stamp = self._stat()
        self._tokens = self._read()

    def find(self, token: str) -> Principal | None:
        """The owner of this token, if any. The time that takes tells about digests at most, which nobody can choose."""
        if not token or len(token) > _TOKEN_CHARS:
            return None
        return self._current().by_digest.get(token_digest(token))

    def by_fingerprint(self, fingerprint: str) -> Principal | None:
        """The owner of this session while their token is still listed: taking a token away ends its sessions."""
        return self._current().by_fingerprint.get(fingerprint)

    def listed(self) -> list[Principal]:
        return list(self._current().by_digest.values())

    def _current(self) -> _TokenTable:
        stamp = self._stat()
        if stamp == self._stamp:  # without the lock, which all threads would queue at beside the system call
            return self._tokens
        with self._lock:
            if stamp != self._stamp:
                try:
                    self._tokens = self._read()
                    log.info("the file of tokens has changed; it lists %d tokens now", len(self._tokens.by_digest))
                except (ConfigError, MemoryError) as exc:
                    # A slip in an edit must not lock everybody out; the last good list stays in force.
                    reason = str(exc) or f"{self._path}: is too large to be read"
                    log.warning("%s; the tokens read before stay in force", reason)
                self._stamp = stamp  # last: a thread that sees it also sees its tokens
            return self._tokens

    def _stat(self) -> tuple[int, int, int]:
        try:
            stat = self._path.stat()
        except OSError:
            return (0, 0, 0)
        return (stat.st_ino, stat.st_mtime_ns, stat.st_size)

    def _read(self) -> _TokenTable:
        try:
            text = self._path.read_text(encoding="utf-8")
        except OSError as exc:
            msg = f"{self._path}: cannot be read: {exc.strerror}; make it with at least one token"
            raise ConfigError(msg) from None
        except UnicodeDecodeError:
            raise ConfigError(f"{self._path}: is not UTF-8 text; expected a YAML file") from None
        tokens = parse_text(TokenFile, text, str(self._path)).tokens
        people = {entry.sha256: Principal(entry.user, entry.role, fingerprint(entry.sha256)) for entry in tokens}
        return _TokenTable(people, {person.fingerprint: person for person in people.values()})


def read_session_key(path: Path) -> bytes:
    """The key that signs session cookies; ConfigError when the file is missing or too short to be secret."""
    try:
        key = path.read_bytes().strip()
    except OSError as exc:
        msg = f"{path}: cannot be read: {exc.strerror}; put at least {_KEY_BYTES} random bytes there"
        raise ConfigError(msg) from None
    if len(key) < _KEY_BYTES:
        raise ConfigError(f"{path}: has {len(key)} bytes; a session key needs at least {_KEY_BYTES} random ones")
    return key


def sign_with(app: Flask, key: bytes) -> None:
    """Have an app sign its cookies with the first line of a session key, and take those of the other lines too.

    Two keys are in force while one takes the other's place, so that no gateway refuses what another one has signed. A
    key whose lines are not all long enough to be keys is one key of random bytes.
    """
    lines = [line.strip() for line in key.split(b"\n")]
    keys = lines if all(len(line) >= _KEY_BYTES for line in lines) else [key]
    app.session_interface = _CookieSessions()
    app.secret_key = keys[0]
    app.config["SECRET_KEY_FALLBACKS"] = keys[1:] or None


class _CookieSessions(SecureCookieSessionInterface):
    """Flask's own, which spares requests without a cookie its look at the keys: a twentieth of a call of the API."""

    def open_session(self, app: Flask, request: Request) -> SecureCookieSession | None:
        if self.get_cookie_name(app) not in request.cookies:
            return self.session_class()
        return super().open_session(app, request)


# --- the API ---------------------------------------------------------------------------------------------------


def api_token(header: str | None) -> str | None:
    """The token in a header Authorization of our own API; None without one, UnauthorizedError for another kind."""
    if not header:
        return None
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer":
        msg = f"the Authorization header has scheme '{scheme[:20]}'; send 'Authorization: Bearer TOKEN'"
        raise UnauthorizedError(msg)
    return token.strip()


# The headers in which clients of Judge0 send a token, in the order in which they count. The last ones are those of
# markets that sell access to it.
JUDGE0_HEADERS = ("X-Auth-Token", "Authorization", "X-Auth-User", "X-RapidAPI-Key", "x-apihub-key")
JUDGE0_CHECKS: Final = ("authenticate", "authorize")
# Of calls that Judge0 keeps for its second token, which comes beside the first: so it is the one that counts.
_JUDGE0_SECOND: Final = "X-Auth-User"
# Words that programs send that have no token, but a header for it.
_NO_TOKENS: Final = frozenset({"", "null", "undefined"})
_API: Final = "/api/"
_READING: Final = frozenset({"GET", "HEAD"})

Get = Callable[[str], str | None]


def judge0_token(header: Get, query: Get | None, *, second: bool = False) -> str | None:
    """The token that came with a call of Judge0's API, in the first header that has one; None without any.

    In the address it counts for the two calls that check a token (their rows say so): some clients know no other way.
    `second`: of a call that Judge0 keeps for its second token. The other one is then not looked at, so that it cannot
    be guessed at beside a right one.
    """
    for name in (_JUDGE0_SECOND, *JUDGE0_HEADERS) if second else JUDGE0_HEADERS:
        credential = (header(name) or (query(name) if query is not None else "") or "").strip()
        token = _in_authorization(credential) if name == "Authorization" else credential
        if token.lower() not in _NO_TOKENS:
            return token
    return None


def token_with(method: str, path: str, judge0: str | None, header: Get, query: Get) -> str | None:
    """The token that counts for a call of this path, whichever others came along; None when none did.

    Admission asks this, and the APIs read tokens by the same functions: so nobody is counted as one person and served
    as another. `judge0` is where Judge0's API is, if anywhere.
    """
    if path.startswith(_API):
        try:
            return api_token(header("Authorization"))
        except UnauthorizedError:
            return ""  # a try that the app refuses
    if judge0 is None or not below(path, judge0):
        return None
    resource = path.removeprefix(judge0).removeprefix("/extra").strip("/").removesuffix(".json")
    listing = method in _READING and resource == "submissions"
    deleting = method == "DELETE" and resource.startswith("submissions/")
    in_address = resource in JUDGE0_CHECKS
    return judge0_token(
        header, query if in_address else None, second=listing or deleting or resource == JUDGE0_CHECKS[1]
    )


def cookie_name(config: GatewayConfig) -> str:
    """The name of the session cookie; browsers take a `__Host-` one from this very host only."""
    return "__Host-judge" if config.secure_cookies else "judge"


def session_counts(method: str, path: str, judge0: str | None) -> bool:
    """Return whether a session's cookie counts for a call without a token; in the API it is good for reading only."""
    if path.startswith(_API):
        return method in _READING
    return judge0 is None or not below(path, judge0)


def below(path: str, prefix: str) -> bool:
    """Return whether `path` is `prefix`, or lies below it."""
    return f"{path}/".startswith(f"{prefix}/")


def _in_authorization(value: str) -> str:
    """The token of a header Authorization: bare, after `Bearer`, or the password of `Basic`.

    Clients that know nothing but an address send what stands before its `@` as `Basic`.
    """
    scheme, _, credential = value.partition(" ")
    if scheme.lower() == "bearer":
        return credential.strip()
    if scheme.lower() != "basic":
        return value
    try:
        name, _, password = base64.b64decode(credential.strip(), validate=True).decode().partition(":")
    except ValueError:
        return ""
    return password or name


# --- pages -----------------------------------------------------------------------------------------------------


def csrf_token() -> str:
    if not isinstance(session.get("csrf"), str):
        session["csrf"] = secrets.token_urlsafe(24)
    return str(session["csrf"])


def csrf_valid(request: Request) -> bool:
    expected = session.get("csrf")
    token = request.form.get("csrf", "")
    return isinstance(expected, str) and hmac.compare_digest(expected.encode(), token.encode("utf-8", "replace"))


def derived_secret(purpose: str) -> bytes:
    """A secret for one purpose, which all gateways have as long as their session key stays."""
    key = current_app.secret_key
    assert isinstance(key, bytes)  # noqa: S101 - `sign_with` has set it
    return hmac.digest(key, purpose.encode(), "sha256")


# --- accounts --------------------------------------------------------------------------------------------------


def new_token() -> str:
    """A fresh token for tokens.yml, as `judge up` makes one."""
    return secrets.token_urlsafe(32)


def new_account_token() -> str:
    """A fresh token of an account: 256 random bits behind a mark."""
    return MARK + secrets.token_urlsafe(32)


def of_account(token: str) -> bool:
    """Return whether a token has the shape of an account's; nothing else is looked up in the database."""
    return _SHAPE.fullmatch(token) is not None


def widened(scopes: Iterable[str]) -> frozenset[str]:
    """Scopes with those that they include; pure."""
    granted = frozenset(scopes)
    top = max((_LADDER.index(scope) for scope in granted if scope in _LADDER), default=-1)
    return granted | frozenset(_LADDER[: top + 1])


def principal_of(person: Person, fingerprint: str = "") -> Principal:
    """Somebody of the database, as what they came with lets them act."""
    scopes = widened(person.scopes)
    role = role_within(person.role, scopes)
    return Principal(person.user, role, fingerprint, scopes, account=True, token=person.token, arrival=person.arrival)


def new_session_key(path: Path) -> None:
    """Make a session key file (0600) unless there is one; what `judge up` calls."""
    if not path.exists():
        files.replace(path, secrets.token_hex(_KEY_BYTES) + "\n", durable=True)
