"""Says which ways in are in force: each gateway asks every second for all who listen there, so for many at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pymongo.asynchronous.collection import AsyncCollection

from judge import clock
from judge.allowance import Role
from judge.judicator.database import D, Database
from judge.judicator.documents import SessionDocument, TokenDocument, UserDocument
from judge.model.people import WaysIn, WaysState, role_within


class Ways:
    """The ways in of one cluster."""

    def __init__(self, database: Database) -> None:
        """Nothing is sent before the first call."""
        self._db = database

    async def state(self, request: WaysIn) -> WaysState:
        """The role that each of them gives now. It costs a few searches, however many are asked about."""
        found = await self._found(request)
        by_digest = {one["digest"]: one for one in found.tokens.values()}
        return WaysState(
            tokens=[found.of_token(by_digest.get(one)) for one in request.tokens],
            sessions=[found.of_session(found.sessions.get(one)) for one in request.sessions],
            names=["" if found.disabled(one) else "listed" for one in request.names],
        )

    async def _found(self, request: WaysIn) -> KnownWays:
        tokens = {one["_id"]: one for one in await _all(self._db.tokens, request.tokens, by="digest")}
        sessions = {one["_id"]: one for one in await _all(self._db.sessions, request.sessions)}
        with_tokens = {token for one in sessions.values() if (token := one.get("token")) is not None}
        tokens |= {one["_id"]: one for one in await _all(self._db.tokens, with_tokens - set(tokens))}
        makers = {maker for one in tokens.values() for maker in one.get("line", [])}
        alive = {one["_id"] for one in await _all(self._db.tokens, makers - set(tokens))} | set(tokens)
        names = {one["user"] for one in (*tokens.values(), *sessions.values())} | set(request.names)
        users = {one["_id"]: one for one in await _all(self._db.users, names)}
        return KnownWays(tokens, sessions, users, frozenset(alive))


async def _all(collection: AsyncCollection[D], names: Iterable[str], by: str = "_id") -> list[D]:
    wanted = list(names)
    return await collection.find({by: {"$in": wanted}}).to_list() if wanted else []


@dataclass(frozen=True)
class KnownWays:
    """The ways that the database has, by their ids; and the ids of all tokens among them and their makers."""

    tokens: Mapping[str, TokenDocument]
    sessions: Mapping[str, SessionDocument]
    users: Mapping[str, UserDocument]
    alive: frozenset[str] = field(default_factory=frozenset)

    def disabled(self, name: str) -> bool:
        """Says whether an account shuts this name out."""
        user = self.users.get(name)
        return user is not None and user["disabled"]

    def of_token(self, doc: TokenDocument | None) -> Role | Literal[""]:
        """The role that a token gives, as `Tokens.owner` has it."""
        if doc is None or (doc["expires"] is not None and doc["expires"] <= clock.wall()):
            return ""
        user = self.users.get(doc["user"])
        if user is None or user["disabled"] or not self.alive.issuperset(doc.get("line", [])):
            return ""
        return role_within(user["role"], frozenset(doc["scopes"]))

    def of_session(self, doc: SessionDocument | None) -> Role | Literal["", "listed"]:
        """The same of a session, as `Sessions.live` has it."""
        if doc is None or self.disabled(doc["user"]):
            return ""
        if not doc.get("account"):
            return "listed"
        user, token = self.users.get(doc["user"]), doc.get("token")
        if user is None:
            return ""
        if token is None:
            return user["role"]
        made = self.tokens.get(token)
        return self.of_token(made) if made is not None and made["user"] == doc["user"] else ""
