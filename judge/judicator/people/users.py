"""The accounts of the database: added, listed, changed, deleted by admins; and what one user may take."""

from __future__ import annotations

import itertools
import logging
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from bson import Timestamp
from pymongo import ReturnDocument
from pymongo.errors import BulkWriteError, DuplicateKeyError
from pymongo.read_concern import ReadConcern

from judge.common import clock
from judge.common.errors import ConflictError, FieldError, NotFoundError, UnauthorizedError, UsageError
from judge.common.text import listed
from judge.config.allowance import Quota
from judge.judicator.batching import Batcher
from judge.judicator.database import MAJORITY, Database, aggregate
from judge.judicator.documents import UserDocument, iso
from judge.judicator.events import removal
from judge.judicator.people.passwords import Passwords, check_new
from judge.judicator.people.rates import acts
from judge.judicator.people.throttle import Throttle
from judge.model import people as p
from judge.model.messages import Empty
from judge.mongodb.store import Bson
from judge.rpc.server import Peer

log = logging.getLogger(__name__)

# Seconds for which a judicator believes what one user may take, and which groups the user is in.
_QUOTA_AGE: Final = 2.0
_QUOTAS: Final = 10_000
# Users whose figures are read by one command; those who have handed in within so many seconds are among them.
_READS: Final = 500
_LATELY: Final = 30.0
# Tokens of each user that are counted; nobody has more.
_TOKENS: Final = 100


@dataclass
class _OwnFigures:
    """The quota and groups of one user, until when they count, and when they were last asked for."""

    quota: Quota | None
    groups: frozenset[str]
    until: float
    seen: float


class Users:
    def __init__(self, database: Database, passwords: Passwords, throttle: Throttle) -> None:
        self._db = database
        self._col = database.users
        self._passwords = passwords
        self._throttle = throttle
        self._quotas: dict[str, _OwnFigures] = {}
        self._figure_reads: Batcher[str, _OwnFigures] = Batcher(self._read_figures, _READS)

    # --- what one user may take --------------------------------------------------------------------------------

    async def quota(self, user: str) -> Quota | None:
        """The user's own figures, up to two seconds old; None without any."""
        return (await self._own(user)).quota

    async def groups(self, user: str) -> frozenset[str]:
        """The groups that the user is in, up to two seconds old."""
        return (await self._own(user)).groups

    async def _own(self, user: str) -> _OwnFigures:
        now = clock.monotonic()
        cached = self._quotas.get(user)
        if cached is not None:
            cached.seen = now
            if cached.until > now:
                return cached
        return await self._figure_reads.ask(user)

    async def _read_figures(self, names: Sequence[str]) -> list[_OwnFigures]:
        """The figures of these users, and with them of those who have handed in lately, before they are too old."""
        now = clock.monotonic()
        soon = (
            name
            for name, cached in self._quotas.items()
            if cached.until - now < _QUOTA_AGE / 2 and now - cached.seen < _LATELY
        )
        users = {*names, *itertools.islice(soon, _READS)}
        docs = {
            doc["_id"]: doc async for doc in self._col.find({"_id": {"$in": sorted(users)}}, {"quota": 1, "groups": 1})
        }
        if len(self._quotas) >= _QUOTAS:
            self._quotas.clear()
        for name in users:
            doc, before = docs.get(name), self._quotas.get(name)
            if before is None and name not in names:  # changed meanwhile
                continue
            quota = Quota.model_validate(doc["quota"]) if doc is not None and doc.get("quota") else None
            groups = frozenset(doc["groups"] if doc is not None else ())
            self._quotas[name] = _OwnFigures(
                quota, groups, now + _QUOTA_AGE, before.seen if before is not None else now
            )
        return [self._quotas[name] for name in names]

    # --- for admins --------------------------------------------------------------------------------------------

    async def add(self, request: p.UserAdd, peer: Peer) -> p.User:
        """Make an account; ConflictError when the name, however it is capitalised, or the identity is taken."""
        doc = new_user(request, peer)
        if request.password is not None:
            check_new(request.password, request.name)
            doc["password"] = await self._passwords.digest(request.password)
        account = await self.insert(doc)
        log.info("user '%s' added with role %s", account["_id"], account["role"])
        return to_user(account)

    async def add_all(self, request: p.UsersAdd, peer: Peer) -> p.UsersAdded:
        """Make all of these accounts, or none; ConflictError, UsageError with a sentence for each that cannot be."""
        call = f"key {request.idempotency_key}" if request.idempotency_key else peer.by.call
        added = p.UsersAdded(added=len(request.users))
        if await self._added_before(request, call):
            return added
        digests = await self._passwords.digests([newcomer.password for newcomer in request.users])
        docs = []
        for newcomer, digest in zip(request.users, digests, strict=True):
            doc = new_user(p.UserAdd(**dict(newcomer)), peer)
            doc["call"] = call
            if digest is not None:
                doc["password"] = digest
            docs.append(doc)
        try:
            async with self._db.client.start_session() as session:
                await session.with_transaction(
                    lambda session: self._col.insert_many(docs, session=session),
                    read_concern=ReadConcern("local"),
                    write_concern=MAJORITY,
                )
        except BulkWriteError:  # another call has made some of them meanwhile
            if not await self._added_before(request, call):
                raise
        log.info("%d users added", len(docs))
        return added

    async def _added_before(self, request: p.UsersAdd, call: str) -> bool:
        """Whether an earlier try of this call has made the accounts; the errors of `add_all`."""
        await self._db.catch_up()
        folds = [newcomer.name.lower() for newcomer in request.users]
        projection = {"fold": 1, "call": 1}
        existing = {doc["fold"]: doc async for doc in self._col.find({"fold": {"$in": folds}}, projection)}
        if set(existing) == set(folds) and all(doc["call"] == call for doc in existing.values()):
            return True
        faults = []
        earlier: dict[str, str] = {}
        for index, (newcomer, fold) in enumerate(zip(request.users, folds, strict=True)):
            place = f"users.{index}" if newcomer.line is None else f"line {newcomer.line}"
            if fold in existing:
                faults.append(f"{place}: there is a user '{existing[fold]['_id']}' already")
            if fold in earlier:
                faults.append(f"{place}: '{newcomer.name}' is in {earlier[fold]} already")
            earlier[fold] = place
            if newcomer.password is not None:
                try:
                    check_new(newcomer.password, newcomer.name)
                except FieldError as exc:
                    faults.append(f"{place}: {exc}")
        if faults:
            raise (ConflictError if existing else UsageError)(f"no account is added; {listed(faults)}")
        return False

    async def names(self, request: p.NamesQuery) -> p.NamesReply:
        query = {"_id": {"$in": request.users}, "display_name": {"$gt": ""}}
        docs = self._col.find(query, {"display_name": 1})
        return p.NamesReply(names={doc["_id"]: doc["display_name"] async for doc in docs})

    async def insert(self, doc: UserDocument) -> UserDocument:
        """Store a new account; when an earlier try of the same call has stored it, that one is answered."""
        try:
            await self._col.insert_one(doc)
        except DuplicateKeyError as exc:
            existing = await self._db.latest(self._col, {"fold": doc["fold"]})
            if existing is not None and existing["call"] == doc["call"]:
                return existing
            if existing is not None:
                raise ConflictError(f"there is a user '{existing['_id']}' already; choose another name") from exc
            raise ConflictError("this identity belongs to another user already") from exc
        return doc

    async def get(self, request: p.UserRef) -> p.User:
        """One account; NotFoundError."""
        doc = await self._db.get(self._col, {"_id": request.name}, _unknown(request.name))
        return to_user(doc, (await self._tokens(doc["_id"]))[doc["_id"]])

    async def all(self, request: p.UsersQuery) -> p.UsersReply:
        """Accounts by name, those that meet the conditions."""
        query: Bson = {}
        if request.group is not None:
            query["groups"] = request.group
        for name in ("role", "disabled"):
            if (value := getattr(request, name)) is not None:
                query[name] = value
        names: Bson = {}
        if request.prefix:
            names["$regex"] = f"^{re.escape(request.prefix)}"
        if request.after is not None:
            names["$gt"] = request.after
        if names:
            query["_id"] = names
        docs = await self._col.find(query, sort=[("_id", 1)], limit=request.limit + 1).to_list()
        more = len(docs) > request.limit
        docs = docs[: request.limit]
        tokens = await self._tokens(*(doc["_id"] for doc in docs))
        users = [to_user(doc, tokens[doc["_id"]]) for doc in docs]
        return p.UsersReply(users=users, next=users[-1].name if more else None)

    async def _tokens(self, *users: str) -> Counter[str]:
        """The numbers of these users' tokens that are in force, by one command."""
        alive: Bson = {"user": {"$in": users}, "$or": [{"expires": None}, {"expires": {"$gt": clock.wall()}}]}
        group: Bson = {"_id": "$user", "count": {"$sum": 1}}
        pipeline: list[Bson] = [{"$match": alive}, {"$limit": _TOKENS * max(1, len(users))}, {"$group": group}]
        return Counter({row["_id"]: row["count"] for row in await aggregate(self._db.tokens, pipeline)})

    async def change(self, request: p.UserChange) -> p.User:
        """Change an account; who is disabled has no session any more. NotFoundError, ConflictError (identity)."""
        fields = request.model_dump(mode="json", exclude_none=True, exclude={"name", "unlink"})
        if "quota" in fields:
            fields["quota"] = request.quota.model_dump(exclude_none=True) if request.quota else {}
        update: Bson = {"$set": fields} if fields else {}
        if request.unlink and request.identity is None:
            update["$unset"] = {"identity": ""}
        if not update:
            return await self.get(p.UserRef(name=request.name))
        try:
            doc = await self._col.find_one_and_update(
                {"_id": request.name}, update, return_document=ReturnDocument.AFTER
            )
        except DuplicateKeyError as exc:
            raise ConflictError("this identity belongs to another user already") from exc
        if doc is None:
            raise _unknown(request.name)
        if doc["disabled"]:
            await self._db.sessions.delete_many({"user": request.name})
        self._quotas.pop(request.name, None)
        log.info("user '%s' changed: %s", request.name, ", ".join(sorted({*fields, *update.get("$unset", ())})))
        return to_user(doc, (await self._tokens(request.name))[request.name])

    async def password(self, request: p.PasswordSet) -> Empty:
        """Set a password; all sessions of the user end, but the one to `keep`.

        `own`: by who knows the old one, else UnauthorizedError; that is throttled as log-ins are. NotFoundError.
        """
        doc = await self._db.get(self._col, {"_id": request.name}, _unknown(request.name))
        check_new(request.password, request.name)
        if request.own and not await self._proved(doc, request):
            raise UnauthorizedError("old: is not the present password")
        fields: Bson = {"password": await self._passwords.digest(request.password)}
        # Not if an admin has changed it meanwhile.
        query: Bson = {"_id": request.name}
        if request.own:
            query["password"] = doc.get("password")
        done = await self._col.update_one(query, {"$set": fields})
        if not done.matched_count:
            raise ConflictError(f"the password of '{request.name}' has just been changed by somebody else")
        await self._db.sessions.delete_many({"user": request.name, "_id": {"$ne": request.keep}})
        log.info("user '%s' has a new password", request.name)
        return Empty()

    async def _proved(self, doc: UserDocument, request: p.PasswordSet) -> bool:
        async with self._throttle.trying(doc["_id"], request.origin) as attempt:
            stored = doc.get("password")
            attempt.right = await self._passwords.verify(stored, request.old or "")
            if not attempt.right:  # an earlier try of this very call may have set it
                attempt.right = await self._passwords.verify(stored, request.password)
        return attempt.right

    async def delete(self, request: p.UserRef, peer: Peer) -> Empty:
        """Forget an account with its tokens, sessions and the webhooks about it alone; NotFoundError.

        ConflictError while submissions of it are stored: the next user of that name would own them.
        """
        if await self._db.tasks.find_one({"user": request.name}, {"_id": 1}) is not None:
            raise ConflictError(
                f"submissions of user '{request.name}' are stored, and would be those of the next one of this name; "
                f"disable the account, or delete its data first: `judgectl purge --user {request.name}`"
            )
        account = await self._db.find(self._col, {"_id": request.name}, {"_id": 1})
        if account is None and not peer.again:  # people of tokens.yml have sessions and webhooks, too
            raise _unknown(request.name)
        # The account after them: a call that ends half-way is found again.
        await self._end_all(request.name)
        done = await self._col.delete_one({"_id": request.name})
        # Things begun meanwhile would be of the next one of this name.
        await self._end_all(request.name)
        if not done.deleted_count and not peer.again:
            raise _unknown(request.name)
        log.info("user '%s' deleted", request.name)
        return Empty()

    async def _end(self, name: str) -> None:
        for collection in (self._db.tokens, self._db.sessions):
            await collection.delete_many({"user": name})

    async def _disown(self, name: str) -> None:
        await self._db.problems.update_many({"owners": name}, {"$pull": {"owners": name}})

    async def _end_all(self, name: str) -> None:
        """Delete what the next person of this name must not inherit."""
        await self._end(name)
        await self._disown(name)
        await removal.remove(self._db, await removal.of_user(self._db, name))
        await self._db.deliveries.delete_many({"user": name})
        await self._db.rates.delete_many({"_id": {"$in": _counts(name)}})

    async def shut_out(self, name: str, until: Timestamp) -> None:
        """Take all ways in from an account that is not younger than `until`, for a purge; may be repeated."""
        done = await self._col.update_one({"_id": name, "arrival": {"$lte": until}}, {"$set": {"disabled": True}})
        if done.matched_count:
            await self._end(name)

    async def forget(self, name: str, until: Timestamp) -> None:
        """Delete what is left of an account that is `shut_out`, and the counts of what the person does."""
        done = await self._col.delete_one({"_id": name, "disabled": True, "arrival": {"$lte": until}})
        if done.deleted_count:
            await self._end(name)
            log.info("user '%s' deleted with their data", name)
        await self._disown(name)
        await self._db.rates.delete_many({"_id": {"$in": _counts(name)}})


def handing_in(user: str) -> str:
    """Under which the submissions of a minute are counted; pure."""
    return f"submit {user}"


def _counts(user: str) -> list[str]:
    """Under which all that has a person's name is counted: with these, what the audit trail paces; pure."""
    return [handing_in(user), *acts(user)]


def new_user(request: p.UserAdd, peer: Peer) -> UserDocument:
    """The document of a new account, without a password; pure but for the time."""
    doc: UserDocument = {
        "_id": request.name,
        "fold": request.name.lower(),
        "role": request.role,
        "groups": list(dict.fromkeys(request.groups)),
        "disabled": False,
        "created": clock.wall(),
        "arrival": Timestamp(0, 0),  # mongod puts its logical clock in the place of an empty timestamp
        "call": peer.by.call,
    }
    if request.display_name:
        doc["display_name"] = request.display_name
    if request.email:
        doc["email"] = request.email
    if request.identity is not None:
        doc["identity"] = request.identity.model_dump()
    if quota := request.quota.model_dump(exclude_none=True):
        doc["quota"] = quota
    return doc


def to_user(doc: UserDocument, tokens: int = 0) -> p.User:
    identity: dict[str, Any] | None = doc.get("identity")
    return p.User(
        name=doc["_id"],
        display_name=doc.get("display_name", ""),
        email=doc.get("email", ""),
        role=doc["role"],
        groups=doc["groups"],
        disabled=doc["disabled"],
        password="password" in doc,
        identity=p.Identity.stored(identity) if identity else None,
        quota=Quota.model_validate(doc.get("quota") or {}),
        created=iso(doc["created"]),
        tokens=tokens,
    )


def _unknown(name: str) -> NotFoundError:
    return NotFoundError(f"there is no user '{name}' in the database; `judgectl user add {name}` makes one")
