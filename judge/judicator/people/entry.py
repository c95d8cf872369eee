"""The ways in: by password, or by an OpenID Connect provider that vouches; and the sessions of the pages."""

from __future__ import annotations

import logging
from typing import Any, Final

from judge.common import clock
from judge.common.errors import ConflictError, ForbiddenError, UnauthorizedError
from judge.common.text import several
from judge.judicator.audit import Act
from judge.judicator.database import Database
from judge.judicator.documents import UserDocument, arrival_of
from judge.judicator.events import removal
from judge.judicator.people.credentials import CredentialReader
from judge.judicator.people.passwords import Passwords
from judge.judicator.people.rates import Rates
from judge.judicator.people.throttle import Throttle
from judge.judicator.people.tokens import Tokens
from judge.judicator.people.users import Users, new_user
from judge.model.messages import Empty
from judge.model.people import IdentityLogin, Login, Person, SessionBegin, SessionEnd, UserAdd, UserRef, UsersAdd
from judge.mongodb.store import Bson
from judge.rpc.server import Peer

log = logging.getLogger(__name__)

# Sessions of one person, and of one of their tokens: more than the browsers in use, and few for the database.
MOST_SESSIONS: Final = 50
MOST_SESSIONS_OF_TOKEN: Final = 10
# What a purge is to delete is not in the trail, which stays.
_PERSONAL: Final = frozenset({"display_name", "email"})
_LISTED: Final = 40


class People:
    def __init__(self, database: Database) -> None:
        self._db = database
        self.rates = Rates(database)
        self._throttle = Throttle(self.rates)
        self._passwords = Passwords()
        self.users = Users(database, self._passwords, self._throttle)
        self.credentials = CredentialReader(database)
        self.tokens = Tokens(database, self.credentials)

    def close(self) -> None:
        self._passwords.close()

    async def login(self, request: Login) -> Person:
        """The person with this name and password; UnauthorizedError says only that both do not fit. LimitError.

        It takes as long for a name that nobody has, and for one without a password.
        """
        async with self._throttle.trying(request.name, request.origin, request.device) as attempt:
            doc = await self._db.users.find_one({"fold": request.name.lower()})
            stored = None if doc is None or doc["disabled"] else doc.get("password")
            attempt.right = await self._passwords.verify(stored, request.password)
        if doc is None or not attempt.right:
            raise UnauthorizedError("the name or the password is wrong; check both")
        if stored is not None and self._passwords.outdated(stored):
            digest = await self._passwords.digest(request.password)
            await self._db.users.update_one({"_id": doc["_id"], "password": stored}, {"$set": {"password": digest}})
        return to_person(doc)

    async def identity_login(self, request: IdentityLogin, peer: Peer) -> Person:
        """The person with this identity, with a new account where there is none and one may be made.

        Only issuer and subject say who somebody is: names and addresses can be chosen. ForbiddenError: no account, or a
        disabled one; ConflictError: the name for a new one is taken, or its submissions are there already.
        """
        doc = await self._by_identity(request)
        if doc is None:
            doc = await self._create(request, peer)
        if doc["disabled"]:
            raise ForbiddenError(f"the account '{doc['_id']}' is disabled; ask an admin of this judge")
        fields: Bson = {
            name: value
            for name in ("role", "groups")
            if (value := getattr(request, name)) is not None and doc.get(name) != value
        }
        if fields:
            await self._db.users.update_one({"_id": doc["_id"]}, {"$set": fields})
            log.info("user '%s' changed by their provider: %s", doc["_id"], ", ".join(sorted(fields)))
            return await self.identity_login(request, peer)
        return to_person(doc)

    async def _by_identity(self, request: IdentityLogin) -> UserDocument | None:
        query = {f"identity.{name}": value for name, value in request.identity}
        return await self._db.find(self._db.users, query)

    async def _create(self, request: IdentityLogin, peer: Peer) -> UserDocument:
        if not request.create or request.name is None:
            raise ForbiddenError(
                "this identity belongs to no account here; an admin can add one: `judgectl user add NAME --issuer "
                f"{request.identity.issuer} --subject {request.identity.subject}`"
            )
        # Somebody of tokens.yml, or of an account that is gone: the newcomer would see what is theirs.
        task = await self._db.tasks.find_one({"user": request.name}, {"_id": 1})
        if task is not None:
            raise ConflictError(f"the name '{request.name}' has submissions here already; ask an admin")
        account = UserAdd(
            name=request.name, role=request.role or "user", groups=request.groups or [], identity=request.identity
        )
        doc = await self._users_insert(account, peer)
        log.info("user '%s' added, as their provider vouches for them", doc["_id"])
        # Its arrival is the database's.
        stored = await self._db.latest(self._db.users, {"_id": doc["_id"]})
        if stored is None:
            raise ForbiddenError(f"the account '{doc['_id']}' was deleted just now; log in again")
        return stored

    async def _users_insert(self, account: UserAdd, peer: Peer) -> UserDocument:
        try:
            return await self.users.insert(new_user(account, peer))
        except ConflictError:
            # Two log-ins of the same person at once.
            existing = await self._db.latest(self._db.users, {"_id": account.name})
            if (
                existing is not None
                and account.identity is not None
                and existing.get("identity") == dict(account.identity)
            ):
                return existing
            raise

    # --- sessions of the pages; credentials.py tells gateways which are valid ------------------------------------

    async def session_begin(self, request: SessionBegin) -> Empty:
        """Note a log-in; a majority has it on return. Repeating it changes nothing.

        A person has so many sessions at most, and each token so many: the oldest of the same way in end, so that a
        token that may do little ends no session that may do more.
        """
        fields: Bson = {"user": request.user, "begun": clock.wall()}
        if request.account:
            fields |= {"account": True, "token": request.token, "arrival": request.arrival}
        await self._db.sessions.update_one({"_id": request.id}, {"$setOnInsert": fields}, upsert=True)
        limit = MOST_SESSIONS if request.token is None else MOST_SESSIONS_OF_TOKEN
        same = {"user": request.user, "account": request.account or None, "token": request.token}
        cursor = self._db.sessions.find(same, {"_id": 1}, sort=[("begun", -1), ("_id", 1)], skip=limit)
        if old := [session["_id"] async for session in cursor]:
            await self._db.sessions.delete_many({"_id": {"$in": old}})
            way = f"token {request.token}" if request.token else "password, provider or tokens.yml"
            log.info(
                "user '%s' has more than %d sessions by %s, the oldest ended: %d", request.user, limit, way, len(old)
            )
        return Empty()

    async def session_end(self, request: SessionEnd) -> Empty:
        """Forget one session, or all of its user; from now on no gateway takes it."""
        query = {"user": request.user} if request.everywhere else {"_id": request.id, "user": request.user}
        done = await self._db.sessions.delete_many(query)
        log.info("user '%s' logged out, %d sessions ended", request.user, done.deleted_count)
        return Empty()

    # --- what they are for the trail -----------------------------------------------------------------------------

    async def describe_identity_login(self, request: IdentityLogin, _: Peer) -> Act | None:
        """For the trail only where it makes an account, or changes one."""
        doc = await self._by_identity(request)
        fields = {name: getattr(request, name) for name in ("role", "groups") if getattr(request, name) is not None}
        if doc is None:
            return Act("user.add", request.name or "", {"issuer": request.identity.issuer, **fields})
        changes = {name: value for name, value in fields.items() if doc.get(name) != value}
        return Act("user.change", doc["_id"], {**changes, "issuer": request.identity.issuer}) if changes else None

    async def describe_delete(self, request: UserRef, _: Peer) -> Act:
        return Act("user.delete", request.name, {"webhooks": await removal.of_user(self._db, request.name) or None})


def to_person(doc: UserDocument) -> Person:
    return Person(user=doc["_id"], role=doc["role"], groups=doc["groups"], arrival=arrival_of(doc))


# --- what they are for the trail ---------------------------------------------------------------------------------


async def describe_add(request: UserAdd, _: Peer) -> Act:
    details = request.model_dump(mode="json", exclude_defaults=True, exclude={"name", "password", "line", *_PERSONAL})
    return Act("user.add", request.name, {"role": request.role, **details})


async def describe_import(request: UsersAdd, _: Peer) -> Act:
    """All names are in the trail; a list in it has at most forty entries."""
    names = [newcomer.name for newcomer in request.users]
    details = {f"from {start + 1}": names[start : start + _LISTED] for start in range(0, len(names), _LISTED)}
    return Act("user.import", several(len(names), "account"), details)


async def describe_change(request: Any, _: Peer) -> Act:
    details = request.model_dump(mode="json", exclude_none=True, exclude={"name", "disabled", *_PERSONAL})
    details |= {name: "changed" for name in sorted(_PERSONAL) if getattr(request, name) is not None}
    if request.disabled is None:
        return Act("user.change", request.name, details)
    return Act("user.disable" if request.disabled else "user.enable", request.name, details)


async def describe_token(request: Any, _: Peer) -> Act:
    details = {"scopes": request.scopes, "label": request.label, "user": request.user}
    return Act("token.create", request.digest[:16], {**details, "expires": str(request.expires or "never")})


async def describe_session_end(request: SessionEnd, _: Peer) -> Act | None:
    """For the trail where it ends all that a person has; of a single log-out the gateway tells, as of log-ins."""
    return Act("logout", request.user, {"everywhere": True}) if request.everywhere else None
