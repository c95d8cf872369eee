"""Coming in and going out, and one's own account: what one may take, password, tokens. They work without JavaScript."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

from flask import flash, g, redirect, render_template, request, url_for

from judge.common.errors import JudgeError, LimitError, NotFoundError, UnauthorizedError
from judge.gateway import asking, auth, devices
from judge.gateway.api import handlers as api
from judge.gateway.api import people
from judge.gateway.api.answers import paced
from judge.gateway.api.routes import validated
from judge.gateway.auth import Principal
from judge.gateway.pages import views
from judge.gateway.pages.table import page, reason, services
from judge.model import people as p
from judge.model.base import rate_of

log = logging.getLogger(__name__)


@page("/login", "GET", "POST", role="none")
def login() -> Any:
    asking.begin(auth.NOBODY)
    target = local(request.values.get("next", ""))
    if request.method in {"GET", "HEAD"}:
        return redirect(target, 303) if services.identities.by_session() else _login_page(target)
    if not auth.csrf_valid(request):
        return _login_page(
            target, "This page was too old, or your browser does not accept cookies. Please try again.", 400
        )
    try:
        principal, method = _proved()
    except UnauthorizedError as exc:
        log.warning("a log-in was refused (from %s)", request.remote_addr)
        services.notes.refused("page")
        return _login_page(target, str(exc), 401)
    except LimitError as exc:
        return *_login_page(target, f"{exc}.", 429), paced(rate_of(exc), refused=True)
    response = _enter(principal, target, method)
    if method == "password":
        devices.remember(request, response, principal.user)
    return response


def _proved() -> tuple[Principal, str]:
    """(who this is, by what); UnauthorizedError says what is wrong, LimitError that it was too often."""
    name, password = request.form.get("user", "").strip(), request.form.get("password", "")
    token = request.form.get("token", "").strip()
    if token:
        principal = services.identities.by_token(token, asking.origin())
        if principal is None:
            raise UnauthorizedError("This token is unknown. Check that you have copied all of it.")
        return principal, "token"
    mismatch = UnauthorizedError("The name or the password is wrong. Check both.")
    if not name or len(name) > 64 or len(password) > p.PASSWORD_MOST:
        raise mismatch
    device = devices.device_of(request, name)
    credentials = p.Login(name=name, password=password, origin=asking.origin(), device=device)
    try:
        return auth.principal_of(services.cluster.call("login", credentials, p.Person)), "password"
    except UnauthorizedError as exc:
        raise mismatch from exc


def _enter(principal: Principal, target: str, method: str) -> Any:
    asking.begin(principal)
    services.notes.logged_in(principal.user)
    services.identities.begin_session(principal)
    log.info("%s (%s) logged in by %s", principal.user, principal.role, method)
    return redirect(target, 303)


def _login_page(target: str, error: str = "", status: int = 200) -> tuple[str, int]:
    name = request.form.get("user", "")[:64]
    providers = services.providers.titles()
    return render_template("login.html", next=target, error=error, name=name, providers=providers), status


@page("/login/with/<provider>", role="none")
def login_with(provider: str) -> Any:
    """To the provider, who sends the browser back."""
    asking.begin(auth.NOBODY)
    return redirect(services.providers.get(provider).begin(local(request.args.get("next", ""))), 303)


@page("/login/with/<provider>/back", role="none")
def login_back(provider: str) -> Any:
    """What the provider says of who was sent there."""
    asking.begin(auth.NOBODY)
    source = services.providers.get(provider)
    try:
        identity, target = source.finish(request.args)
        if identity.name is not None and services.identities.listed(identity.name):
            # Else a provider's user with a name of tokens.yml would have that person's submissions.
            identity = identity.model_copy(update={"name": None})
        person = services.cluster.call("identity_login", identity, p.Person)
    except JudgeError as exc:
        sentence = views.capitalize_first(reason(exc))
        log.warning("a log-in with '%s' was refused (from %s): %s", provider, request.remote_addr, exc)
        services.notes.refused("provider")
        return _login_page("/", f"{sentence}.", exc.http_status)
    return _enter(auth.principal_of(person), target, f"provider '{provider}'")


@page("/logout", "POST", scope="none")
def logout() -> Any:
    """End this session, or all of this person's, at every gateway.

    ForbiddenError for all of them, as by the API, with a token that is not for what is the account's.
    """
    everywhere = request.form.get("everywhere", "") == "yes"
    if everywhere:
        g.principal.may("account")
    services.identities.end_session(g.principal, everywhere=everywhere)
    if not everywhere:  # the cluster notes that
        services.notes.logged_out(g.principal.user)
    log.info("%s logged out%s", g.principal.user, " everywhere" if everywhere else "")
    return redirect(url_for("login"), 303)


@page("/me")
def me() -> Any:
    """What one may take of the cluster, and takes now; tokens and password of an account."""
    return _me()


def _me(new_token: p.TokenMade | None = None, error: str = "", about: str = "") -> str:
    account, tokens = None, p.TokensReply(tokens=[])
    if "account" in g.principal.scopes:
        with contextlib.suppress(NotFoundError):  # who is in tokens.yml may have no account
            account = services.cluster.call("user", p.UserRef(name=g.principal.user), p.User)
    if account is not None:
        tokens = services.cluster.call("tokens", p.TokensQuery(user=account.name, limit=200), p.TokensReply)
    person = api.whoami(services.cluster, g.principal)
    return render_template(
        "me.html", who=person, account=account, tokens=tokens.tokens, new_token=new_token, error=error, about=about,
        scopes=people.givable(g.principal), usual=p.USUAL,
    )  # fmt: skip


@page("/me/tokens", "POST", name="token_make", scope="account")
def make_token() -> Any:
    """The page with the new token, which is shown only once."""
    try:
        new_token = people.make_token(services.cluster, g.principal, token_wanted())
    except JudgeError as exc:
        return _me(error=reason(exc), about="token"), exc.http_status
    log.info("%s made token %s", g.principal.user, new_token.id)
    return _me(new_token=new_token)


@page("/me/tokens/<token>/revoke", "POST", name="token_revoke", scope="account")
def revoke(token: str) -> Any:
    """Back to the page; who has come in with this token is out."""
    people.revoke(services.cluster, g.principal, token)
    flash("Revoked. Programs with this token are refused from now on.", "good")
    return redirect(url_for("me"), 303)


@page("/me/password", "POST", scope="account")
def password() -> Any:
    """Back to the page; other sessions end."""
    passwords = {name: request.form.get(name, "")[: p.PASSWORD_MOST + 1] for name in ("old", "password", "again")}
    if passwords["password"] != passwords["again"]:
        return _me(error="the two entries of the new password differ", about="password"), 400
    if max(map(len, passwords.values())) > p.PASSWORD_MOST:
        return _me(error=f"a password may have at most {p.PASSWORD_MOST} characters", about="password"), 400
    try:
        people.own_password(
            services.cluster, g.principal, old=passwords["old"], password=passwords["password"],
            origin=asking.origin(), keep=services.identities.session_id,
        )  # fmt: skip
    except JudgeError as exc:
        return _me(error=reason(exc), about="password"), exc.http_status
    flash("Your password is changed. Your other sessions have ended; your tokens stay valid.", "good")
    return redirect(url_for("me"), 303)


def token_wanted(user: str | None = None) -> p.TokenWanted:
    """The token that a form asks for; UsageError."""
    fields = {
        "label": request.form.get("label", "").strip(),
        "scopes": request.form.getlist("scopes"),
        "days": request.form.get("days", "").strip() or None,
        "user": user,
    }
    return validated(p.TokenWanted, fields, "the form")


def local(target: str) -> str:
    """The path to go to after the log-in: one on this site, or the overview."""
    within_site = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return target if within_site and len(target) <= 1000 else "/"
