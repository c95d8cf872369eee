"""The sessions of the pages: begun and ended here; people/credentials.py tells gateways which are valid."""

from __future__ import annotations

import logging

from judge.common import clock
from judge.judicator.audit import Act
from judge.judicator.database import Database
from judge.model.messages import Empty
from judge.mongodb.store import Bson
from judge.rpc.server import Peer
from judge.rpc.session import SessionBegin, SessionEnd

log = logging.getLogger(__name__)

# Sessions of one person, and of one of their tokens: more than the browsers in use, and few for the database.
MOST = 50
MOST_OF_TOKEN = 10


class Sessions:
    """One document for each session; the database itself removes it when its lifetime is over."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def begin(self, request: SessionBegin) -> Empty:
        """Note a log-in; a majority has it on return. Repeating it changes nothing.

        A person has so many sessions at most, and each token so many: the oldest of the same way in end, so that a
        token that may do little ends no session that may do more.
        """
        fields: Bson = {"user": request.user, "begun": clock.wall()}
        if request.account:
            fields |= {"account": True, "token": request.token, "arrival": request.arrival}
        await self._db.sessions.update_one({"_id": request.id}, {"$setOnInsert": fields}, upsert=True)
        most = MOST if request.token is None else MOST_OF_TOKEN
        same = {"user": request.user, "account": request.account or None, "token": request.token}
        cursor = self._db.sessions.find(same, {"_id": 1}, sort=[("begun", -1), ("_id", 1)], skip=most)
        if old := [session["_id"] async for session in cursor]:
            await self._db.sessions.delete_many({"_id": {"$in": old}})
            way = f"token {request.token}" if request.token else "password, provider or tokens.yml"
            log.info(
                "user '%s' has more than %d sessions by %s, the oldest ended: %d", request.user, most, way, len(old)
            )
        return Empty()

    async def end(self, request: SessionEnd) -> Empty:
        """Forget one session, or all of its user; from now on no gateway takes it."""
        query = {"user": request.user} if request.everywhere else {"_id": request.id, "user": request.user}
        done = await self._db.sessions.delete_many(query)
        log.info("user '%s' logged out, %d sessions ended", request.user, done.deleted_count)
        return Empty()


async def ended(request: SessionEnd, _: Peer) -> Act | None:
    """For the trail where it ends all that a person has; of a single log-out the gateway tells, as of log-ins."""
    return Act("logout", request.user, {"everywhere": True}) if request.everywhere else None
