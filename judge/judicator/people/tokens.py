"""The tokens of accounts: made, listed, revoked; and whose one is. The database has their digests only."""

from __future__ import annotations

import contextlib
import datetime
import logging
from typing import Any, Final

from pymongo.errors import DuplicateKeyError

from judge.common import clock
from judge.common.errors import ConflictError, FieldError, ForbiddenError, NotFoundError
from judge.judicator.database import Database
from judge.judicator.documents import TokenDocument, iso, iso_or_none
from judge.judicator.people.credentials import CredentialReader
from judge.model import people as p
from judge.model.messages import Empty
from judge.mongodb.store import Bson
from judge.rpc.server import Peer

log = logging.getLogger(__name__)

# Tokens of one user: more than people keep apart, and few for the database.
MOST: Final = 100
_ID: Final = 16


class Tokens:
    def __init__(self, database: Database, credentials: CredentialReader) -> None:
        self._db = database
        self._col = database.tokens
        self._credentials = credentials

    async def create(self, request: p.TokenNew) -> p.TokenInfo:
        """Store a new token's digest. NotFoundError: no such user; ConflictError: they have too many.

        One that was made with another ends with that at the latest; ForbiddenError when that is not in force. Repeating
        it changes nothing.
        """
        if request.expires is not None and request.expires <= clock.wall():
            raise FieldError("expires", "is over already; give a time to come")
        missing = NotFoundError(
            f"there is no user '{request.user}' in the database to give a token to; "
            f"`judgectl user add {request.user}` makes one"
        )
        user = await self._db.get(self._db.users, {"_id": request.user}, missing, {"arrival": 1})
        doc: TokenDocument = {
            "_id": request.digest[:_ID],
            "digest": request.digest,
            "user": request.user,
            "label": request.label,
            "scopes": list(dict.fromkeys(request.scopes)),
            "created": clock.wall(),
            "expires": request.expires,
        }
        if "arrival" in user:
            doc["arrival"] = user["arrival"]
        if request.maker is not None:
            doc |= await self._bound(request.maker, request)
        if await self._col.count_documents({"user": request.user}, limit=MOST) >= MOST:
            await self._make_room(request.user)
        try:
            await self._col.insert_one(doc)
        except DuplicateKeyError:
            existing = await self._db.latest(self._col, {"_id": doc["_id"]})
            if existing is None or existing["digest"] != request.digest or existing["user"] != request.user:
                raise ConflictError("this token cannot be used; make another one") from None
            return to_info(existing)
        log.info("user '%s' has a new token %s", request.user, doc["_id"])
        return to_info(doc)

    async def _bound(self, maker: str, request: p.TokenNew) -> Any:
        """The fields of a token that is made with another: else a stolen token would outlive its end."""
        made_with = await self._db.find(self._col, {"_id": maker, "user": request.user})
        if made_with is None or not await self._credentials.token_valid(made_with):
            raise ForbiddenError("the token that you came with is not in force any more; come in with another")
        ends = [end for end in (request.expires, made_with["expires"]) if end is not None]
        return {"line": [*made_with.get("line", []), maker], "expires": min(ends, default=None)}

    async def _make_room(self, user: str) -> None:
        """Forget tokens that have expired; ConflictError when that does not make room."""
        done = await self._col.delete_many({"user": user, "expires": {"$lte": clock.wall()}})
        if not done.deleted_count:
            raise ConflictError(f"user '{user}' has {MOST} tokens, and no more are given; revoke some")

    async def all(self, request: p.TokensQuery) -> p.TokensReply:
        query: Bson = {} if request.user is None else {"user": request.user}
        if request.after is not None:
            created, token = await self._place(request.after)
            query["$or"] = [{"created": {"$lt": created}}, {"created": created, "_id": {"$lt": token}}]
        newest = [("created", -1), ("_id", -1)]
        docs = await self._col.find(query, sort=newest, limit=request.limit + 1).to_list()
        more = len(docs) > request.limit
        tokens = [to_info(doc) for doc in docs[: request.limit]]
        last = f"{round(docs[request.limit - 1]['created'].timestamp() * 1000)}-{tokens[-1].id}" if more else None
        return p.TokensReply(tokens=tokens, next=last)

    async def _place(self, after: str) -> tuple[datetime.datetime, str]:
        """The time when the last token of the page before was made, and its id; FieldError."""
        moment, _, token = after.rpartition("-")
        if moment:
            with contextlib.suppress(OverflowError, ValueError):
                return datetime.datetime.fromtimestamp(int(moment) / 1000, datetime.UTC), token
        last = None if moment else await self._col.find_one({"_id": token}, {"created": 1})
        if last is None:
            raise FieldError("after", "names no place in this list; begin again without it")
        return last["created"], token

    async def revoke(self, request: p.TokenEnd, peer: Peer) -> Empty:
        """Forget a token, its sessions and the tokens made with it. NotFoundError: none such, or another's."""
        owner: Bson = {} if request.user is None else {"user": request.user}
        doc = await self._db.find(self._col, {"_id": request.id, **owner}, {"user": 1})
        if doc is None:
            if peer.again:
                return Empty()
            raise NotFoundError(f"there is no token '{request.id}'")
        tokens = [token["_id"] async for token in self._col.find({"user": doc["user"], "line": request.id}, {"_id": 1})]
        tokens.append(request.id)
        await self._db.sessions.delete_many({"user": doc["user"], "token": {"$in": tokens}})
        # The token itself last: a call that ends half-way finds the others again.
        for token in tokens:
            await self._col.delete_one({"_id": token})
        log.info("token %s revoked, with %d made with it", request.id, len(tokens) - 1)
        return Empty()

    # --- for gateways ------------------------------------------------------------------------------------------

    async def used(self, request: p.TokenUsed) -> Empty:
        """Note a use; a hint for people, so no majority is waited for."""
        fields = {"used": clock.wall(), "used_from": request.origin}
        await self._col.update_one({"_id": request.id}, {"$set": fields})
        return Empty()


def to_info(doc: TokenDocument) -> p.TokenInfo:
    return p.TokenInfo.stored(
        {
            **doc,
            "id": doc["_id"],
            "created": iso(doc["created"]),
            "expires": iso_or_none(doc["expires"]),
            "used": iso_or_none(doc.get("used")),
            "expired": doc["expires"] is not None and doc["expires"] <= clock.wall(),
        }
    )
