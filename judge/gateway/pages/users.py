"""The pages about accounts, for admins. They work without JavaScript."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from flask import flash, g, redirect, render_template, request, url_for
from pydantic import ValidationError

from judge.common.errors import JudgeError, UnavailableError, UsageError
from judge.gateway import auth
from judge.gateway.api import people
from judge.gateway.api.routes import Services, field_error
from judge.gateway.pages.account import Table, token_wanted
from judge.model import messages as m
from judge.model import people as p

_PER_PAGE = 50
_QUOTAS = ("per_minute", "waiting", "slot_share", "stored_bytes")


class UserPages:
    """The views; every one takes a session of role admin."""

    def __init__(self, services: Services) -> None:
        self._cluster = services.cluster

    # --- all of them -------------------------------------------------------------------------------------------

    def users(self) -> Any:
        """GET /users: search and paging, and a form for a new one."""
        auth.admins_only(g.principal, "this page")
        return self._users()

    def _users(self, error: str = "", new: dict[str, str] | None = None, status: int = 200) -> Any:
        names = ("prefix", "group", "role", "disabled", "after")
        conditions = {name: request.args.get(name, "").strip() for name in names}
        fields: dict[str, Any] = {name: value for name, value in conditions.items() if value}
        fault, reply = "", p.UsersReply(users=[])
        try:
            query = p.UsersQuery.model_validate({**fields, "limit": _PER_PAGE})
            reply = self._cluster.call("users", query, p.UsersReply)
        except ValidationError as exc:
            fault, status = str(field_error(exc, "the search")), 400
        next_page = urlencode({**fields, "after": reply.next}) if reply.next else ""
        page = render_template(
            "users.html", users=reply.users, given=conditions, wrong=fault, more=next_page, error=error, new=new or {}
        )
        return page, status

    def add(self) -> Any:
        """POST /users: a new account, or the page with what is wrong."""
        auth.admins_only(g.principal, "this page")
        new = {name: request.form.get(name, "").strip() for name in ("name", "role", "groups")}
        password = request.form.get("password", "")
        try:
            fields = {"name": new["name"], "role": new["role"], "groups": _groups(new["groups"])}
            message = p.UserAdd.model_validate({**fields, **({"password": password} if password else {})})
            user = self._cluster.call("user_add", message, p.User)
        except ValidationError as exc:
            return self._users(str(field_error(exc, "the form")), new, 400)
        except UnavailableError:
            raise
        except JudgeError as exc:
            return self._users(str(exc), new, exc.http_status)
        flash(f"{user.name} is added.", "good")
        return redirect(url_for("user", name=user.name), 303)

    # --- one of them -------------------------------------------------------------------------------------------

    def user(self, name: str) -> Any:
        """GET /users/NAME."""
        auth.admins_only(g.principal, "this page")
        return self._user(name)

    def _user(self, name: str, error: str = "", new_token: p.TokenMade | None = None) -> str:
        user = self._cluster.call("user", p.UserRef(name=people.user_name(name)), p.User)
        tokens = self._cluster.call("tokens", p.TokensQuery(user=user.name, limit=200), p.TokensReply).tokens
        return render_template(
            "user.html", one=user, tokens=tokens, error=error, made=new_token, usual=p.USUAL,
            scopes=people.givable(g.principal),
        )  # fmt: skip

    def change(self, name: str) -> Any:
        """POST /users/NAME: what the pressed button says."""
        auth.admins_only(g.principal, "this page")
        action = request.form.get("do", "")
        act = {
            "save": self._save,
            "disable": self._disable,
            "enable": self._enable,
            "password": self._password,
            "delete": self._delete,
        }.get(action)
        if act is None:
            raise UsageError("do: says nothing that can be done; load the page again")
        try:
            sentence = act(people.user_name(name))
        except ValidationError as exc:
            return self._user(name, str(field_error(exc, "the form"))), 400
        except UnavailableError:
            raise
        except JudgeError as exc:
            if exc.http_status == 404:
                raise
            return self._user(name, str(exc)), exc.http_status
        flash(sentence, "good")
        return redirect(url_for("users") if action == "delete" else url_for("user", name=name), 303)

    def _save(self, name: str) -> str:
        quota = {field: value for field in _QUOTAS if (value := request.form.get(field, "").strip())}
        fields = p.UserFields.model_validate(
            {"role": request.form.get("role"), "groups": _groups(request.form.get("groups", "")), "quota": quota}
        )
        people.change(self._cluster, g.principal, name, fields)
        return f"{name} is changed."

    def _disable(self, name: str) -> str:
        people.change(self._cluster, g.principal, name, p.UserFields(disabled=True))
        return f"{name} is disabled: no log-in, no token, no session."

    def _enable(self, name: str) -> str:
        people.change(self._cluster, g.principal, name, p.UserFields(disabled=False))
        return f"{name} may come in again."

    def _password(self, name: str) -> str:
        message = p.PasswordSet(name=name, password=request.form.get("password", ""))
        self._cluster.call("user_password", message, m.Empty)
        return f"{name} has a new password; their sessions have ended."

    def _delete(self, name: str) -> str:
        if name == g.principal.user:
            raise UsageError(f"user '{name}' is you; another admin can delete the account")
        self._cluster.call("user_delete", p.UserRef(name=name), m.Empty)
        return f"{name} is deleted."

    def make_token(self, name: str) -> Any:
        """POST /users/NAME/tokens: the page with the new token, which is shown this once."""
        auth.admins_only(g.principal, "this page")
        try:
            new_token = people.make_token(self._cluster, g.principal, token_wanted(people.user_name(name)))
        except UnavailableError:
            raise
        except JudgeError as exc:
            return self._user(name, str(exc)), exc.http_status
        return self._user(name, new_token=new_token)

    def revoke(self, name: str, token: str) -> Any:
        """POST /users/NAME/tokens/ID/revoke."""
        auth.admins_only(g.principal, "this page")
        people.revoke(self._cluster, g.principal, token)
        flash("Revoked.", "good")
        return redirect(url_for("user", name=name), 303)


def _groups(text: str) -> list[str]:
    return text.replace(",", " ").split()


def table(services: Services) -> Table:
    """Address, name, view and methods of each page; `pages.register` serves them behind its log-in."""
    pages = UserPages(services)
    return [
        ("/users", "users", pages.users, ["GET"]),
        ("/users", "user_add", pages.add, ["POST"]),
        ("/users/<name>", "user", pages.user, ["GET"]),
        ("/users/<name>", "user_change", pages.change, ["POST"]),
        ("/users/<name>/tokens", "user_token", pages.make_token, ["POST"]),
        ("/users/<name>/tokens/<token>/revoke", "user_revoke", pages.revoke, ["POST"]),
    ]
