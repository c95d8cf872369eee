"""People in the HTTP API: accounts for admins, one's own tokens and password for everybody."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pydantic import TypeAdapter

from judge.common import clock
from judge.common.errors import FieldError, ForbiddenError, JudgeError
from judge.gateway import asking, auth
from judge.gateway.api import models
from judge.gateway.api.routes import Call, Reply, Route, named
from judge.gateway.auth import Principal
from judge.gateway.cluster import Cluster
from judge.model import messages as m
from judge.model import people as p
from judge.model.people import SessionEnd

log = logging.getLogger(__name__)

_NAME, _TOKEN = TypeAdapter(p.UserName), TypeAdapter(p.TokenId)
_NO_SESSION = "0" * 64
# Seconds for the passwords of many accounts; each judicator that may be asked has its part of them.
_ADDING = 120.0


# --- what pages use as well ------------------------------------------------------------------------------------


def user_name(text: str) -> str:
    """The name of an account in an address; NotFoundError when none can be called so."""
    return named(_NAME, "user", text)


def change(cluster: Cluster, principal: Principal, name: str, fields: p.UserFields) -> p.User:
    """Change an account; ForbiddenError for admins who would shut themselves out."""
    if name == principal.user and (fields.disabled or fields.role not in {None, principal.role}):
        raise ForbiddenError(f"user '{name}' is you; another admin can disable the account or change its role")
    return cluster.call("user_change", p.UserChange(name=name, **dict(fields)), p.User)


def add_all(cluster: Cluster, principal: Principal, request: p.UsersAdd) -> p.UsersAdded:
    """Make many accounts, or none."""
    added = cluster.call("users_add", request, p.UsersAdded, timeout=_ADDING)
    log.info("%s added %d users", principal.user, added.added)
    return added


def display_names(cluster: Cluster, principal: Principal, users: Iterable[str]) -> dict[str, str]:
    """The display names of these users, for judges and admins; a page can be shown without them."""
    names = sorted({*users} - {""})
    if not principal.judges or not names:
        return {}
    try:
        return cluster.call("names", p.NamesQuery(users=names), p.NamesReply).names
    except JudgeError as exc:
        log.warning("the page has no display names: %s", exc)
        return {}


def givable(principal: Principal) -> list[p.Scope]:
    """The scopes that a token of this person may have: never one that would only count under a later role. Pure."""
    roles = {"judge": principal.judges, "admin": principal.admin}
    return [scope for scope in p.SCOPES if scope in principal.scopes and roles.get(scope, True)]


def make_token(cluster: Cluster, principal: Principal, form: p.TokenWanted) -> p.TokenMade:
    """A new token, one's own or as an admin somebody's; it may do no more than its maker, with what they came with.

    Unless that is of an admin, it ends with the token that it was made with.

    ForbiddenError, FieldError; NotFoundError: there is no such account.
    """
    user = form.user or principal.user
    if user != principal.user and not principal.admin:
        raise ForbiddenError(f"user: '{principal.user}' may only make their own tokens; leave the field out")
    surplus = set(form.scopes) - principal.scopes
    if surplus:
        raise ForbiddenError(f"scopes: the token of this request does not have '{min(surplus)}'; leave it out")
    if beyond := set(form.scopes) - set(givable(principal)):
        raise ForbiddenError(f"scopes: '{min(beyond)}' requires an account of role {min(beyond)}; leave it out")
    if form.expires is not None and form.days is not None:
        raise FieldError("days", "is given together with 'expires'; give one of the two")
    token = auth.new_account_token()
    new = p.TokenNew(
        digest=auth.token_digest(token),
        user=user,
        label=form.label,
        scopes=form.scopes,
        expires=form.end(clock.wall()),
        maker=None if principal.admin else principal.token,
    )
    info = cluster.call("token_create", new, p.TokenInfo)
    return p.TokenMade(**dict(info), token=token)


def tokens(cluster: Cluster, principal: Principal, query: p.TokensQuery) -> p.TokensReply:
    """One's own tokens, or as an admin anybody's."""
    if query.user not in {None, principal.user} and not principal.admin:
        raise ForbiddenError(f"user: '{principal.user}' may only list their own tokens; leave the field out")
    owner = query.user if principal.admin else principal.user
    return cluster.call("tokens", query.model_copy(update={"user": owner}), p.TokensReply)


def revoke(cluster: Cluster, principal: Principal, token: str) -> m.Empty:
    """Revoke one's own token, or as an admin any. Another's is answered like one that does not exist."""
    owner = None if principal.admin else principal.user
    return cluster.call("token_revoke", p.TokenEnd(id=named(_TOKEN, "token", token), user=owner), m.Empty)


def own_password(
    cluster: Cluster, principal: Principal, *, old: str, password: str, origin: str, keep: str | None = None
) -> m.Empty:
    """Change one's own password by the old one; UnauthorizedError when it is wrong. `keep`: the session that stays."""
    change = p.PasswordSet(name=principal.user, password=password, old=old, own=True, origin=origin, keep=keep)
    return cluster.call("user_password", change, m.Empty)


# --- handlers --------------------------------------------------------------------------------------------------


def _password(call: Call) -> m.Message:
    name = user_name(call.params["name"])
    return call.cluster.call("user_password", p.PasswordSet(name=name, password=call.body.password), m.Empty)


def _delete(call: Call) -> m.Message:
    name = user_name(call.params["name"])
    if name == call.principal.user:
        raise ForbiddenError(f"user '{name}' is you; another admin can delete the account")
    return call.cluster.call("user_delete", p.UserRef(name=name), m.Empty)


def _make_token(call: Call) -> m.Message:
    token = make_token(call.cluster, call.principal, call.body)
    log.info("%s made token %s of %s", call.principal.user, token.id, token.user)
    return token


def _own_password(call: Call) -> m.Message:
    body: models.OwnPasswordBody = call.body
    return own_password(call.cluster, call.principal, old=body.old, password=body.password, origin=asking.origin())


def _end_sessions(call: Call) -> Reply:
    end = SessionEnd(id=_NO_SESSION, user=call.principal.user, everywhere=True)
    return Reply(call.cluster.call("session_end", end, m.Empty))


ROUTES: list[Route] = [
    Route("GET", "/users", "users", "The accounts, by name", None, "admin", p.UsersReply, query=p.UsersQuery,
          calls=("users",)),
    Route("POST", "/users", "add_user", "Make an account", None, "admin", p.User, 201, body=p.UserAdd,
          calls=("user_add",)),
    Route("POST", "/users/batch", "add_users", "Make many accounts of role user; all or none",
          lambda call: add_all(call.cluster, call.principal, call.body), "admin", p.UsersAdded, 201, body=p.UsersAdd,
          calls=("users_add",)),
    Route("GET", "/users/<name>", "user", "One account",
          lambda call: call.cluster.call("user", p.UserRef(name=user_name(call.params["name"])), p.User), "admin",
          p.User, calls=("user",)),
    Route("PUT", "/users/<name>", "change_user", "Change an account, or disable it; what is left out stays",
          lambda call: change(call.cluster, call.principal, user_name(call.params["name"]), call.body), "admin",
          p.User, body=p.UserFields, calls=("user_change",)),
    Route("PUT", "/users/<name>/password", "set_password", "Set a password; sessions of the user end", _password,
          "admin", m.Empty, body=models.PasswordBody, calls=("user_password",)),
    Route("DELETE", "/users/<name>", "delete_user", "Delete an account whose data has "
                                                    "been deleted", _delete, "admin", m.Empty,
          calls=("user_delete",)),
    Route("GET", "/tokens", "tokens", "The caller's tokens, newest first; admins may list anybody's",
          lambda call: tokens(call.cluster, call.principal, call.query), "user", p.TokensReply, query=p.TokensQuery,
          calls=("tokens",), scope="account"),
    Route("POST", "/tokens", "make_token", "Make a token; it is shown only once", _make_token, "user", p.TokenMade,
          201, body=p.TokenWanted, calls=("token_create",), scope="account"),
    Route("DELETE", "/tokens/<id>", "revoke_token", "Revoke a token",
          lambda call: revoke(call.cluster, call.principal, call.params["id"]), "user", m.Empty,
          calls=("token_revoke",), scope="account"),
    Route("PUT", "/password", "own_password", "Change the caller's password; other sessions end", _own_password, "user",
          m.Empty, body=models.OwnPasswordBody, calls=("user_password",), scope="account"),
    Route("DELETE", "/sessions", "end_sessions", "Log out everywhere: all sessions of the pages end", _end_sessions,
          "user", m.Empty, calls=("session_end",), scope="account"),
]  # fmt: skip
