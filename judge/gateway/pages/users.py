"""The pages about accounts, for admins. They work without JavaScript."""

from __future__ import annotations

import base64
from typing import Any

from flask import flash, g, redirect, render_template, request, url_for

from judge.common.errors import JudgeError, NotFoundError, UsageError
from judge.common.text import one_line
from judge.gateway import auth
from judge.gateway.api import people
from judge.gateway.api.routes import validated
from judge.gateway.pages.account import token_wanted
from judge.gateway.pages.table import listing, page, reason, services
from judge.model import messages as m
from judge.model import newcomers
from judge.model import people as p

_CONDITIONS = ("prefix", "group", "role", "disabled", "after")
_QUOTAS = ("per_minute", "waiting", "slot_share", "stored_bytes")


@page("/users", role="admin")
def users() -> Any:
    return _users()


def _users(error: str = "", new: dict[str, str] | None = None, status: int = 200, import_error: str = "") -> Any:
    accounts = listing("users", p.UsersQuery, p.UsersReply(users=[]), _CONDITIONS)
    text = render_template("users.html", listing=accounts, error=error, new=new or {}, import_error=import_error)
    return text, 400 if accounts.error else status


@page("/users", "POST", name="user_add", role="admin")
def add() -> Any:
    """A new account, or the page with what is wrong."""
    new = {name: request.form.get(name, "").strip() for name in ("name", "display_name", "email", "role", "groups")}
    password = request.form.get("password", "")
    fields = {**new, "groups": _groups(new["groups"]), **({"password": password} if password else {})}
    try:
        account = services.cluster.call("user_add", validated(p.UserAdd, fields, "the form"), p.User)
    except JudgeError as exc:
        return _users(reason(exc), new, exc.http_status)
    flash(f"{account.name} is added.", "good")
    return redirect(url_for("user", name=account.name), 303)


@page("/users/import", "POST", name="users_import", role="admin")
def import_users() -> Any:
    """The page with the new passwords, which are shown only once; or what is wrong with the list."""
    file = request.files.get("file")
    try:
        if file is None or not file.filename:
            raise UsageError("no file is chosen; choose a table in CSV")
        data = file.stream.read(newcomers.BYTES + 1)
        # The page begins each sentence with a capital letter, which the name of the file may not have.
        name = f"the table {one_line(file.filename[:100])}"
        call = newcomers.adding(data, name, auth.derived_secret("passwords of accounts"))
        people.add_all(services.cluster, g.principal, call)
    except JudgeError as exc:
        return _users(import_error=reason(exc), status=exc.http_status)
    table = base64.b64encode(newcomers.written(call.users).encode("utf-8-sig")).decode()
    address = (services.config.public_url or request.host_url).rstrip("/")
    return render_template("users_added.html", accounts=call.users, table=table, address=address)


@page("/users/<name>", role="admin")
def user(name: str) -> Any:
    return _user(name)


def _user(name: str, error: str = "", new_token: p.TokenMade | None = None) -> str:
    account = services.cluster.call("user", p.UserRef(name=people.user_name(name)), p.User)
    tokens = services.cluster.call("tokens", p.TokensQuery(user=account.name, limit=200), p.TokensReply).tokens
    return render_template(
        "user.html", account=account, tokens=tokens, error=error, new_token=new_token, usual=p.USUAL,
        scopes=people.givable(g.principal), confirming=request.form.get("do") == "delete",
    )  # fmt: skip


@page("/users/<name>", "POST", name="user_change", role="admin")
def change(name: str) -> Any:
    """What the pressed button says."""
    action = request.form.get("do", "")
    if action not in _ACTIONS:
        raise UsageError("do: unknown action; load the page again")
    try:
        sentence = _ACTIONS[action](people.user_name(name))
    except NotFoundError:
        raise
    except JudgeError as exc:
        return _user(name, reason(exc)), exc.http_status
    flash(sentence, "good")
    return redirect(url_for("users") if action == "delete" else url_for("user", name=name), 303)


def _save(name: str) -> str:
    quota = {field: value for field in _QUOTAS if (value := request.form.get(field, "").strip())}
    personal = {field: request.form.get(field, "") for field in ("display_name", "email")}
    fields = {
        **personal,
        "role": request.form.get("role"),
        "groups": _groups(request.form.get("groups", "")),
        "quota": quota,
    }
    people.change(services.cluster, g.principal, name, validated(p.UserFields, fields, "the form"))
    return f"{name} is changed."


def _disable(name: str) -> str:
    people.change(services.cluster, g.principal, name, p.UserFields(disabled=True))
    return f"{name} is disabled: no log-in, no token, no session."


def _enable(name: str) -> str:
    people.change(services.cluster, g.principal, name, p.UserFields(disabled=False))
    return f"{name} may log in again."


def _password(name: str) -> str:
    fields = {"name": name, "password": request.form.get("password", "")}
    services.cluster.call("user_password", validated(p.PasswordSet, fields, "the form"), m.Empty)
    return f"{name} has a new password; their sessions have ended."


def _delete(name: str) -> str:
    if name == g.principal.user:
        raise UsageError(f"user '{name}' is you; another admin can delete the account")
    if request.form.get("confirm", "").strip() != name:
        raise UsageError(f"the account is not deleted; type its name, {name}, to confirm")
    services.cluster.call("user_delete", p.UserRef(name=name), m.Empty)
    return f"{name} is deleted."


_ACTIONS = {"save": _save, "disable": _disable, "enable": _enable, "password": _password, "delete": _delete}


@page("/users/<name>/tokens", "POST", name="user_token", role="admin")
def make_token(name: str) -> Any:
    """The page with the new token, which is shown only once."""
    try:
        new_token = people.make_token(services.cluster, g.principal, token_wanted(people.user_name(name)))
    except JudgeError as exc:
        return _user(name, reason(exc)), exc.http_status
    return _user(name, new_token=new_token)


@page("/users/<name>/tokens/<token>/revoke", "POST", name="user_revoke", role="admin")
def revoke(name: str, token: str) -> Any:
    people.revoke(services.cluster, g.principal, token)
    flash("Revoked.", "good")
    return redirect(url_for("user", name=name), 303)


def _groups(text: str) -> list[str]:
    return text.replace(",", " ").split()
