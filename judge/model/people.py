"""Messages about people: users, what they may, their tokens, and how they come in (docs/people.md).

Passwords travel from a gateway to a judicator, inside mutual TLS, and no further: the database has digests only.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from dataclasses import dataclass
from typing import Annotated, Final, Literal, get_args

from pydantic import AfterValidator, Field, StringConstraints

from judge.common.text import shows
from judge.config.allowance import Quota, Role
from judge.model.messages import Message, SearchTime, Sha256

UserName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,62}$")]
GroupName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,62}$")]
DISPLAY_NAME: Final = 100
# Persian and Indic names need these, which show nothing (U+200C, U+200D).
_JOINERS: Final = re.compile("(?<=.)[\u200c\u200d](?=.)")
# Some spreadsheets take semicolons for separators.
_FORMULA: Final = re.compile("(?:^|;)\\s*([=+@\uff1d\uff0b\uff0d\uff20-])")
_EMAIL: Final = re.compile(r"[^\s@\"(),:;<>\[\\\]]{1,64}@[^\s@\"(),:;<>\[\\\]]{1,189}")


def _display_name(text: str) -> str:
    """The name in its composed form; nothing in it hides, turns other text around or is a formula of a spreadsheet."""
    blank = "".join(" " if unicodedata.category(char) == "Zs" else char for char in text)
    name = unicodedata.normalize("NFC", blank.strip())
    if not shows(_JOINERS.sub("", name)):
        raise ValueError("has invisible characters; write the name without them")
    if len(name) > DISPLAY_NAME:  # some characters are several in this form
        raise ValueError(f"has more than {DISPLAY_NAME} characters")
    if formula := _FORMULA.search(name):
        raise ValueError(f"has '{formula[1]}' where a formula of a spreadsheet begins; write a name without it")
    return name


def _email(text: str) -> str:
    address = text.strip()
    if address and not (_EMAIL.fullmatch(address) and shows(address) and address[0] not in "=+-"):
        raise ValueError("is no e-mail address; expected one such as ada@example.org")
    return address


# Names of people in any script; empty: none is known.
DisplayName = Annotated[str, Field(max_length=DISPLAY_NAME), AfterValidator(_display_name)]
Email = Annotated[str, Field(max_length=254), AfterValidator(_email)]
# OpenID Connect Core 2: so many ASCII characters at most.
Subject = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[ -~]+$")]
TokenId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
# The end of a page of tokens, also when the last of them is revoked meanwhile: milliseconds of the epoch, and its id.
TokenPlace = Annotated[str, StringConstraints(pattern=r"^([0-9]{1,15}-)?[0-9a-f]{16}$")]
Scope = Literal["read", "submit", "account", "judge", "admin"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
# The scopes of a token for which nobody says others: nothing that outlives it or that concerns others.
USUAL: Final[tuple[Scope, ...]] = ("read", "submit")
GROUPS: Final = 50
# Accounts of one call: so many passwords are hashed before its deadline on a busy judicator, too.
ACCOUNTS: Final = 1000
# Of each kind in one question.
CREDENTIALS: Final = 1000
# A session that nobody ends is over after so many seconds, on the cookie and in the database.
SESSION_SECONDS: Final = 7 * 86400
PASSWORD_LEAST, PASSWORD_MOST = 10, 200
Password = Annotated[str, Field(max_length=PASSWORD_MOST)]


def every_scope() -> list[str]:
    """The scopes of who came in without a token: no bound beside their role."""
    return list(SCOPES)


def role_within(role: Role, scopes: frozenset[str]) -> Role:
    """The role that somebody acts in who came with a token of these scopes: theirs, or a lesser one."""
    if role == "admin" and "admin" in scopes:
        return "admin"
    return "judge" if role != "user" and {"admin", "judge"} & scopes else "user"


class Identity(Message):
    """A person at an OpenID Connect provider: `subject` is theirs there for good, unlike name and address."""

    issuer: str = Field(min_length=1, max_length=300)
    subject: Subject


class User(Message):
    """One account. `password`: whether there is one."""

    name: str
    display_name: str = ""
    email: str = ""
    role: Role
    groups: list[str] = Field(default_factory=list)
    disabled: bool = False
    password: bool = False
    identity: Identity | None = None
    quota: Quota = Quota()
    created: str = Field(description="UTC, ISO 8601")
    tokens: int = Field(default=0, description="that are in force")


class UserRef(Message):
    """Names an account."""

    name: UserName


class Newcomer(Message):
    """A new account of role user. `line`: of the file that lists it, for refusals."""

    name: UserName
    display_name: DisplayName = ""
    email: Email = ""
    groups: list[GroupName] = Field(default_factory=list, max_length=GROUPS)
    password: Password | None = None
    line: int | None = Field(default=None, ge=1, lt=2**31)


class UserAdd(Newcomer):
    """A new account; without a password or identity, tokens are the only way in."""

    role: Role = "user"
    identity: Identity | None = None
    quota: Quota = Quota()


class UsersAdd(Message):
    """Many new accounts, of which all are made or none."""

    users: list[Newcomer] = Field(min_length=1, max_length=ACCOUNTS)
    idempotency_key: str | None = Field(default=None, min_length=1, max_length=64, description="for the same list only")


class UsersAdded(Message):
    """The number of accounts that are made."""

    added: int


class NamesQuery(Message):
    """The accounts whose display names are wanted."""

    users: list[Annotated[str, Field(max_length=64)]] = Field(max_length=500)


class NamesReply(Message):
    """The display names by account; without those that have none."""

    names: dict[str, str] = Field(default_factory=dict)


class UserFields(Message):
    """The fields to change of an account; what is left out stays."""

    display_name: DisplayName | None = None
    email: Email | None = None
    role: Role | None = None
    groups: list[GroupName] | None = Field(default=None, max_length=GROUPS)
    disabled: bool | None = None
    identity: Identity | None = Field(default=None, description="to log in with an OpenID Connect provider")
    unlink: bool = Field(default=False, description="no log-in with a provider any more")
    quota: Quota | None = None


class UserChange(UserFields):
    """Changes of one account."""

    name: UserName


class UsersQuery(Message):
    """The accounts that are wanted, by name; `after` pages: the `next` of the answer before."""

    group: GroupName | None = None
    role: Role | None = None
    disabled: bool | None = None
    prefix: str | None = Field(default=None, max_length=64, description="of the name")
    limit: int = Field(default=100, ge=1, le=500)
    after: str | None = Field(default=None, max_length=64)


class UsersReply(Message):
    """Accounts by name; `next` is None on the last page."""

    users: list[User]
    next: str | None = None


class PasswordSet(Message):
    """A new password; `old` is what a person knows who changes their own. `keep`: the session that goes on."""

    name: UserName
    password: Password
    old: Password | None = None
    own: bool = False
    origin: str = Field(default="", max_length=64)
    keep: Sha256 | None = None


class Login(Message):
    """A try to log in with a password, from an address. `device`: a browser by which this person has come in before."""

    name: str = Field(min_length=1, max_length=64)
    password: Password
    origin: str = Field(default="", max_length=64)
    device: str = Field(default="", max_length=64)


class IdentityLogin(Message):
    """Somebody whom a provider has vouched for. `name`: for a new account, if `create` allows one.

    `role`, `groups`: what the provider says, where the gateway's config has it decide; None leaves them alone.
    """

    identity: Identity
    name: UserName | None = None
    create: bool = False
    role: Role | None = None
    groups: list[GroupName] | None = Field(default=None, max_length=GROUPS)


class Person(Message):
    """Somebody who has come in: their account, and of a token its id, scopes and end."""

    user: str
    role: Role
    groups: list[str] = Field(default_factory=list)
    token: str | None = None
    arrival: str = Field(default="", description="distinguishes accounts that had the same name one after another")
    scopes: list[str] = Field(default_factory=every_scope)


class TokenUsed(Message):
    """A token has just been used, from an address."""

    id: TokenId
    origin: str = Field(default="", max_length=64)


CredentialKind = Literal["tokens", "sessions", "names"]


@dataclass(frozen=True)
class Credential:
    """What a request comes with: the digest of an account's token, that of a session's secret, or a name of tokens.yml.

    `fingerprint` names the row of tokens.yml, which a session may have, too.
    """

    kind: CredentialKind
    id: str
    fingerprint: str = ""


class Credentials(Message):
    """Asks whether credentials are valid: digests of tokens and of sessions, names of tokens.yml."""

    tokens: list[Sha256] = Field(default_factory=list, max_length=CREDENTIALS)
    sessions: list[Sha256] = Field(default_factory=list, max_length=CREDENTIALS)
    names: list[Annotated[str, Field(min_length=1, max_length=64)]] = Field(
        default_factory=list, max_length=CREDENTIALS
    )


class CredentialState(Message):
    """The user of a credential, empty if it is not valid; and the account, None if the user is one of tokens.yml."""

    user: str = ""
    person: Person | None = None


class CredentialStates(Message):
    """The state of each credential, in the order of the question."""

    tokens: list[CredentialState] = Field(default_factory=list)
    sessions: list[CredentialState] = Field(default_factory=list)
    names: list[CredentialState] = Field(default_factory=list)


class TokenWanted(Message):
    """A token to make. Times are UTC; `days` counts from now, and one of the two may be given."""

    label: str = Field(default="", max_length=100, description="a description for its owner")
    scopes: list[Scope] = Field(default_factory=lambda: list(USUAL), min_length=1, max_length=len(SCOPES))
    expires: SearchTime | None = None
    days: float | None = Field(default=None, gt=0, le=3660)
    user: UserName | None = Field(default=None, description="the owner, for admins only; default: the caller")

    def end(self, now: datetime.datetime) -> datetime.datetime | None:
        """The time when it expires; None: never."""
        return self.expires if self.days is None else now + datetime.timedelta(days=self.days)


class TokenNew(Message):
    """A token as the cluster keeps it: its digest, and what it is good for."""

    digest: Sha256
    user: UserName
    label: str = Field(default="", max_length=100)
    scopes: list[Scope] = Field(min_length=1, max_length=len(SCOPES))
    expires: SearchTime | None = None
    maker: TokenId | None = Field(default=None, description="the token that it was made with, and ends with")


class TokenInfo(Message):
    """One token, without what would give it away."""

    id: str
    user: str
    label: str = ""
    scopes: list[str]
    created: str = Field(description="UTC, ISO 8601")
    expires: str | None = None
    used: str | None = Field(default=None, description="last use, to the minute")
    used_from: str = Field(default="", description="the address of that use")
    expired: bool = False


class TokenMade(TokenInfo):
    """A new token. `token` is shown only once, and is stored nowhere."""

    token: str


class TokensQuery(Message):
    """The owner of the tokens that are wanted; newest first. Nobody named: everybody's."""

    user: UserName | None = None
    limit: int = Field(default=100, ge=1, le=500)
    after: TokenPlace | None = Field(default=None, description="the `next` of the previous page")


class TokensReply(Message):
    """Tokens, newest first; `next` is None on the last page."""

    tokens: list[TokenInfo]
    next: str | None = None


class TokenEnd(Message):
    """A token to revoke; `user`: only if it is theirs."""

    id: TokenId
    user: UserName | None = None


class SessionBegin(Message):
    """A person has logged in. `account`: into one of the database's; `token`: with this token of it."""

    id: Sha256
    user: str = Field(min_length=1, max_length=64)
    account: bool = False
    token: TokenId | None = None
    arrival: str = Field(default="", max_length=64, description="of the account, as the log-in was answered")


class SessionEnd(Message):
    """A person logs out of one session, or with `everywhere` of all that they have."""

    id: Sha256
    user: str = Field(min_length=1, max_length=64)
    everywhere: bool = False
