"""The sessions of the pages: which log-ins are in force. A gateway asks; what is not here is no session."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from judge import clock
from judge.judicator.audit import Act, Describe
from judge.judicator.database import Database
from judge.judicator.documents import arrival_of
from judge.judicator.people.entry import People
from judge.model.messages import Empty, Message
from judge.model.people import NameRef
from judge.mongodb.store import Bson
from judge.rpc.server import Handler, Peer
from judge.rpc.session import SessionBegin, SessionEnd, SessionRef, SessionState

log = logging.getLogger(__name__)

# Sessions of one person: more than the browsers in use, and few for the database.
MOST = 50


class Sessions:
    """One document for each session; the database itself removes it when its lifetime is over."""

    def __init__(self, database: Database, people: People) -> None:
        """Nothing is read before the first call."""
        self._db = database
        self._people = people

    def methods(self) -> Mapping[str, Callable[[Any], Awaitable[Message]]]:
        """The RPC methods that are nothing for the trail, by name. The gateway notes log-ins itself."""
        return {"session_begin": self.begin, "session_live": self.live}

    def audited(self) -> dict[str, tuple[Handler, Describe]]:
        """The other one, with what it is for the audit trail."""
        return {"session_end": (self.end, _ended)}

    async def begin(self, request: SessionBegin) -> Empty:
        """Note a log-in; a majority has it on return. Repeating it changes nothing.

        A person has so many sessions at most: the oldest end.
        """
        fields: Bson = {"user": request.user, "begun": clock.wall()}
        if request.account:
            fields |= {"account": True, "token": request.token, "arrival": request.arrival}
        await self._db.sessions.update_one({"_id": request.id}, {"$setOnInsert": fields}, upsert=True)
        mine = self._db.sessions.find({"user": request.user}, {"_id": 1}, sort=[("begun", -1), ("_id", 1)], skip=MOST)
        if old := [one["_id"] async for one in mine]:
            await self._db.sessions.delete_many({"_id": {"$in": old}})
            log.info("user '%s' has more than %d sessions, the %d oldest ended", request.user, MOST, len(old))
        return Empty()

    async def end(self, request: SessionEnd, _: Peer) -> Empty:
        """Forget one session, or all of its user; from now on no gateway takes it."""
        query = {"user": request.user} if request.everywhere else {"_id": request.id, "user": request.user}
        done = await self._db.sessions.delete_many(query)
        log.info("user '%s' logged out, %d sessions ended", request.user, done.deleted_count)
        return Empty()

    async def live(self, request: SessionRef) -> SessionState:
        """Say whether a session of this user is in force, and of an account what it may do now."""
        query = {"_id": request.id, "user": request.user}
        doc = await self._db.find(self._db.sessions, query)
        if doc is None:
            return SessionState(live=False)
        if not doc.get("account"):
            named = await self._people.users.name_state(NameRef(name=request.user))
            return SessionState(live=not named.disabled)
        user = await self._db.users.find_one({"_id": request.user})
        # The account may have been deleted and made anew after the log-in was answered.
        if user is None or user["disabled"] or doc.get("arrival", "") not in {"", arrival_of(user)}:
            return SessionState(live=False)
        token = doc.get("token")
        if token is None:
            return SessionState(live=True, role=user["role"])
        # A person who came in with a token may do what that may, for as long as it is in force.
        made = await self._db.tokens.find_one({"_id": token, "user": request.user})
        if made is None or await self._people.tokens.owner(made) is None:
            return SessionState(live=False)
        return SessionState(live=True, role=user["role"], scopes=made["scopes"], token=token)


async def _ended(request: SessionEnd, _: Peer) -> Act | None:
    """For the trail where it ends all that a person has; of a single log-out the gateway tells, as of log-ins."""
    return Act("logout", request.user, {"everywhere": True}) if request.everywhere else None
