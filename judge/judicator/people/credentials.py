"""Which credentials are valid: gateways ask about all who make requests or listen there, many at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pymongo.asynchronous.collection import AsyncCollection

from judge.common import clock
from judge.judicator.database import D, Database
from judge.judicator.documents import SessionDocument, TokenDocument, UserDocument, arrival_of
from judge.model.people import Credentials, CredentialState, CredentialStates, Person

_INVALID = CredentialState()


class CredentialReader:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def states(self, request: Credentials) -> CredentialStates:
        """The state of each credential. It costs a few queries, however many are asked about."""
        stored = await self._read(request)
        by_digest = {token["digest"]: token for token in stored.tokens.values()}
        return CredentialStates(
            tokens=[stored.of_token(by_digest.get(digest)) for digest in request.tokens],
            sessions=[stored.of_session(stored.sessions.get(digest)) for digest in request.sessions],
            names=[_INVALID if stored.disabled(name) else CredentialState(user=name) for name in request.names],
        )

    async def token_valid(self, doc: TokenDocument) -> bool:
        states = await self.states(Credentials(tokens=[doc["digest"]]))
        return states.tokens[0].user != ""

    async def _read(self, request: Credentials) -> StoredCredentials:
        await self._db.catch_up()
        tokens = await _find(self._db.tokens, request.tokens, by="digest")
        sessions = await _find(self._db.sessions, request.sessions)
        with_tokens = {token for session in sessions.values() if (token := session.get("token")) is not None}
        tokens |= await _find(self._db.tokens, with_tokens - tokens.keys())
        makers = {maker for token in tokens.values() for maker in token.get("line", [])}
        present = tokens.keys() | await _find(self._db.tokens, makers - tokens.keys())
        names = {doc["user"] for doc in (*tokens.values(), *sessions.values())} | set(request.names)
        users = await _find(self._db.users, names)
        return StoredCredentials(tokens, sessions, users, frozenset(present))


async def _find(collection: AsyncCollection[D], values: Iterable[str], by: str = "_id") -> dict[str, D]:
    """The documents with one of these values, by their ids."""
    unique = list(values)
    docs: list[Any] = await collection.find({by: {"$in": unique}}).to_list() if unique else []
    return {doc["_id"]: doc for doc in docs}


@dataclass(frozen=True)
class StoredCredentials:
    """The credentials as stored, by their ids; `present`: the ids of all tokens and of those they were made with."""

    tokens: Mapping[str, TokenDocument]
    sessions: Mapping[str, SessionDocument]
    users: Mapping[str, UserDocument]
    present: frozenset[str] = frozenset()

    def disabled(self, name: str) -> bool:
        user = self.users.get(name)
        return user is not None and user["disabled"]

    def of_token(self, doc: TokenDocument | None) -> CredentialState:
        """The state of a token: it ends by itself, with its account, and with a token that it was made with."""
        if doc is None or (doc["expires"] is not None and doc["expires"] <= clock.wall()):
            return _INVALID
        user = self._account(doc["user"], arrival_of(doc))
        if user is None or not self.present.issuperset(doc.get("line", [])):
            return _INVALID
        return _state(user, token=doc["_id"], scopes=doc["scopes"])

    def of_session(self, doc: SessionDocument | None) -> CredentialState:
        """The state of a session: it ends with its account, and with the token that it was begun with."""
        if doc is None or self.disabled(doc["user"]):
            return _INVALID
        if not doc.get("account"):
            return CredentialState(user=doc["user"])
        user, token = self._account(doc["user"], doc.get("arrival", "")), doc.get("token")
        if user is None:
            return _INVALID
        if token is None:
            return _state(user)
        begun_with = self.tokens.get(token)
        return self.of_token(begun_with) if begun_with and begun_with["user"] == doc["user"] else _INVALID

    def _account(self, name: str, arrival: str) -> UserDocument | None:
        """The account, unless it is disabled or has been deleted and made anew."""
        user = self.users.get(name)
        if user is None or user["disabled"] or arrival not in {"", arrival_of(user)}:
            return None
        return user


def _state(user: UserDocument, **of_token: Any) -> CredentialState:
    person = Person(user=user["_id"], role=user["role"], groups=user["groups"], arrival=arrival_of(user), **of_token)
    return CredentialState(user=person.user, person=person)
