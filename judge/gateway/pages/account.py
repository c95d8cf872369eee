"""Coming in and going out, and one's own account: what one may take, password, tokens. They work without JavaScript."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from flask import Response, flash, g, redirect, render_template, request, url_for
from pydantic import ValidationError

from judge.common.errors import JudgeError, LimitError, NotFoundError, UnauthorizedError, UnavailableError
from judge.gateway import asking, auth, devices
from judge.gateway.api import handlers as api
from judge.gateway.api import people
from judge.gateway.api.routes import Services, field_error
from judge.gateway.auth import Principal
from judge.gateway.pacing import paced
from judge.model import people as p
from judge.model.rate import rate_of

log = logging.getLogger(__name__)

Table = list[tuple[str, str, Callable[..., Any], list[str]]]
_OPEN = {"GET", "HEAD"}
_PASSWORD_CHARS = p.PASSWORD_MOST


class Doors:
    """The views that take no session."""

    def __init__(self, services: Services) -> None:
        self._cluster = services.cluster
        self._identities = services.identities
        self._notes = services.notes
        self._providers = services.providers

    def login(self) -> Any:
        """GET and POST /login: by name and password, or by token."""
        asking.begin(request, auth.NOBODY)
        target = local(request.values.get("next", ""))
        if request.method in _OPEN:
            return redirect(target, 303) if self._identities.by_session() else self._page(target)
        if not auth.csrf_valid(request):
            return self._page(target, "This page was too old, or your browser keeps no cookies. Please try again.", 400)
        try:
            principal, method = self._proved()
        except UnauthorizedError as exc:
            log.warning("a log-in was refused (from %s)", request.remote_addr)
            self._notes.refused("page")
            return self._page(target, str(exc), 401)
        except LimitError as exc:
            answer = Response(*self._page(target, f"{exc}.", 429))
            answer.headers.update(paced(rate_of(exc), refused=True))
            return answer
        response = self._enter(principal, target, method)
        if method == "password":
            devices.remember(request, response, principal.user)
        return response

    def _proved(self) -> tuple[Principal, str]:
        """(who this is, by what); UnauthorizedError says what is wrong, LimitError that it was too often."""
        origin = (request.remote_addr or "")[:64]
        name, password = request.form.get("user", "").strip(), request.form.get("password", "")
        token = request.form.get("token", "").strip()
        if not token:
            if not name or len(name) > 64 or len(password) > _PASSWORD_CHARS:
                raise UnauthorizedError("This name and password do not belong together. Check both.")
            try:
                device = devices.device_of(request, name)
                credentials = p.Login(name=name, password=password, origin=origin, device=device)
                person = self._cluster.call("login", credentials, p.Person)
            except UnauthorizedError:
                raise UnauthorizedError("This name and password do not belong together. Check both.") from None
            return auth.principal_of(person), "password"
        principal = self._identities.by_token(token, origin)
        if principal is None:
            raise UnauthorizedError("This token is not known here. Check that you have copied all of it.")
        return principal, "token"

    def _enter(self, principal: Principal, target: str, method: str) -> Any:
        asking.begin(request, principal)
        self._notes.logged_in(principal.user)
        self._identities.begin_session(principal)
        log.info("%s (%s) logged in by %s", principal.user, principal.role, method)
        return redirect(target, 303)

    def _page(self, target: str, error: str = "", status: int = 200) -> tuple[str, int]:
        name = request.form.get("user", "")[:64]
        providers = self._providers.titles()
        return render_template("login.html", next=target, error=error, name=name, providers=providers), status

    def leave_for(self, provider: str) -> Any:
        """GET /login/with/NAME: to the provider, who sends the browser back."""
        asking.begin(request, auth.NOBODY)
        return redirect(self._providers.get(provider).begin(local(request.args.get("next", ""))), 303)

    def back(self, provider: str) -> Any:
        """GET /login/with/NAME/back: what the provider says of who was sent there."""
        asking.begin(request, auth.NOBODY)
        source = self._providers.get(provider)
        try:
            identity, target = source.finish(request.args)
            if identity.name is not None and self._identities.listed(identity.name):
                # Else a provider's user with a name of tokens.yml would have that person's submissions.
                identity = identity.model_copy(update={"name": None})
            person = self._cluster.call("identity_login", identity, p.Person)
        except UnavailableError:
            raise
        except JudgeError as exc:
            log.warning("a log-in with '%s' was refused (from %s): %s", provider, request.remote_addr, exc)
            self._notes.refused("provider")
            return self._page("/", f"{str(exc)[:1].upper()}{str(exc)[1:]}.", exc.http_status)
        return self._enter(auth.principal_of(person), target, f"provider '{provider}'")


class AccountPages:
    """The views for who is logged in."""

    def __init__(self, services: Services) -> None:
        self._cluster = services.cluster
        self._identities = services.identities
        self._notes = services.notes

    def logout(self) -> Any:
        """POST /logout: end this session, or all of this person's, at every gateway.

        ForbiddenError for all of them, as by the API, with a token that is not for what is the account's.
        """
        everywhere = request.form.get("everywhere", "") == "yes"
        if everywhere:
            g.principal.may("account")
        self._identities.end_session(g.principal, everywhere=everywhere)
        if not everywhere:  # the cluster notes that
            self._notes.logged_out(g.principal.user)
        log.info("%s logged out%s", g.principal.user, " everywhere" if everywhere else "")
        return redirect(url_for("login"), 303)

    def me(self) -> Any:
        """GET /me: what one may take of the cluster, and takes now; tokens and password of an account."""
        return self._me()

    def _me(self, new_token: p.TokenMade | None = None, error: str = "", about: str = "") -> str:
        account = self._account() if "account" in g.principal.scopes else None
        tokens = p.TokensReply(tokens=[])
        if account is not None:
            tokens = self._cluster.call("tokens", p.TokensQuery(user=account.name, limit=200), p.TokensReply)
        person = api.whoami(self._cluster, g.principal)
        return render_template(
            "me.html", who=person, account=account, tokens=tokens.tokens, made=new_token, error=error, about=about,
            scopes=people.givable(g.principal), usual=p.USUAL,
        )  # fmt: skip

    def _account(self) -> p.User | None:
        """One's own; who is in tokens.yml may have none."""
        try:
            return self._cluster.call("user", p.UserRef(name=g.principal.user), p.User)
        except NotFoundError:
            return None

    def make_token(self) -> Any:
        """POST /me/tokens: the page with the new token, which is shown this once."""
        try:
            form = token_wanted()
            new_token = people.make_token(self._cluster, g.principal, form)
        except UnavailableError:
            raise
        except JudgeError as exc:
            return self._me(error=str(exc), about="token"), exc.http_status
        log.info("%s made token %s", g.principal.user, new_token.id)
        return self._me(new_token=new_token)

    def revoke(self, token: str) -> Any:
        """POST /me/tokens/ID/revoke."""
        people.revoke(self._cluster, g.principal, token)
        flash("Revoked. What used this token is refused from now on.", "good")
        # Everybody who has come in with it is out by this.
        return redirect(url_for("me"), 303)

    def password(self) -> Any:
        """POST /me/password."""
        passwords = {name: request.form.get(name, "")[: _PASSWORD_CHARS + 1] for name in ("old", "password", "again")}
        if passwords["password"] != passwords["again"]:
            return self._me(error="the two entries of the new password differ", about="password"), 400
        if max(map(len, passwords.values())) > _PASSWORD_CHARS:
            return self._me(error=f"a password has {_PASSWORD_CHARS} characters at most", about="password"), 400
        try:
            people.own_password(
                self._cluster, g.principal, old=passwords["old"], password=passwords["password"],
                origin=(request.remote_addr or "")[:64], keep=self._identities.session_id,
            )  # fmt: skip
        except UnavailableError:
            raise
        except JudgeError as exc:
            return self._me(error=str(exc), about="password"), exc.http_status
        flash("Your password is changed. Your other sessions have ended; tokens stay.", "good")
        return redirect(url_for("me"), 303)


def token_wanted(user: str | None = None) -> p.TokenWanted:
    """The token that a form asks for; UsageError."""
    days = request.form.get("days", "").strip()
    fields = {
        "label": request.form.get("label", "").strip(),
        "scopes": request.form.getlist("scopes"),
        "days": days or None,
        "user": user,
    }
    try:
        return p.TokenWanted.model_validate(fields)
    except ValidationError as exc:
        raise field_error(exc, "the form") from None


def local(target: str) -> str:
    """The path to go to after the log-in: one on this site, or the overview."""
    within_site = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return target if within_site and len(target) <= 1000 else "/"


def doors(services: Services) -> Table:
    """Address, name, view and methods of each page that is served without a session."""
    pages = Doors(services)
    return [
        ("/login", "login", pages.login, ["GET", "POST"]),
        ("/login/with/<provider>", "login_with", pages.leave_for, ["GET"]),
        ("/login/with/<provider>/back", "login_back", pages.back, ["GET"]),
    ]


def table(services: Services) -> Table:
    """The same of each page behind the log-in; `pages.register` serves them."""
    pages = AccountPages(services)
    return [
        ("/me", "me", pages.me, ["GET"]),
        ("/me/password", "password", pages.password, ["POST"]),
        ("/me/tokens", "token_make", pages.make_token, ["POST"]),
        ("/me/tokens/<token>/revoke", "token_revoke", pages.revoke, ["POST"]),
        ("/logout", "logout", pages.logout, ["POST"]),
    ]
