"""The table of pages, in which each view enters itself with its address and role, and what all views share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast
from urllib.parse import urlencode

from flask import current_app, request
from werkzeug.local import LocalProxy

from judge.common.errors import JudgeError, UnavailableError, UsageError
from judge.gateway.api.routes import Role, Services, validated
from judge.gateway.pages import views
from judge.model.messages import Message

R = TypeVar("R", bound=Message)
View = Callable[..., Any]
_PER_PAGE: Final = 50
# The parts of the gateway that answers this request.
services = cast("Services", LocalProxy(lambda: current_app.extensions["judge"]))


@dataclass(frozen=True)
class Page:
    """One row.

    `role`: who may look, "none" also without a session; `subject` is what takes the role, for a refusal. `scope`: what
    a session by token must be for, if that does not follow from the method; "none" also for who may not even read.
    """

    path: str
    name: str
    view: View
    methods: tuple[str, ...]
    role: Role
    subject: str
    scope: str


PAGES: Final[list[Page]] = []


def page(
    path: str, *methods: str, name: str = "", role: Role = "user", subject: str = "this page", scope: str = ""
) -> Callable[[View], View]:
    """Enter a view, for GET unless `methods` are given; `name` is its endpoint if that is not the function's name."""

    def enter(view: View) -> View:
        PAGES.append(Page(path, name or view.__name__, view, methods or ("GET",), role, subject, scope))
        return view

    return enter


def reason(error: JudgeError) -> str:
    """The sentence to show beside the form that is refused. Raises the error if no form is to blame for it."""
    if isinstance(error, UnavailableError):
        raise error
    return str(error)


@dataclass(frozen=True)
class Listing(Generic[R]):
    """One page of a list: the conditions, what meets them, what is wrong with them, the queries of other pages."""

    conditions: dict[str, str]
    reply: R
    error: str
    older: str
    newest: str


def listing(method: str, query: type[Message], empty: R, names: Sequence[str], times: Sequence[str] = ()) -> Listing[R]:
    """The page of a list that the request asks for.

    `names` are those of conditions, the last of them of the place where the page begins; `times` are those that are
    times. `empty` is the reply to show if the conditions are wrong.
    """
    conditions = {name: request.args.get(name, "").strip() for name in names}
    fields = {name: value for name, value in conditions.items() if value}
    values = {name: views.utc_time(value) if name in times else value for name, value in fields.items()}
    error, reply = "", empty
    try:
        message = validated(query, {**values, "limit": _PER_PAGE}, "the search")
    except UsageError as exc:
        error = str(exc)
    else:
        reply = services.cluster.call(method, message, type(empty))
    fields.pop(names[-1], None)
    place = getattr(reply, "next", None)
    older = urlencode({**fields, names[-1]: place}) if place else ""
    return Listing(conditions, reply, error, older, newest=urlencode(fields))
