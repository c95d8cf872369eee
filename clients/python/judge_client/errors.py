"""The errors of calls: one class for each reason that a program would act on."""

from __future__ import annotations

from typing import Any


class JudgeError(Exception):
    """A call was refused, or nobody answered. Its text is the gateway's sentence.

    `status` is the HTTP status, 0 when nobody answered. `code` is stable, `field` the field at fault where one is,
    `retry` the seconds after which the same call may succeed, `request` the id under which the cluster's logs have it.
    """

    def __init__(
        self, text: str, *, status: int = 0, code: str = "", field: str | None = None,
        retry: float | None = None, request: str = "", body: Any = None,
    ) -> None:  # fmt: skip
        """`body` is the whole answer, as it came."""
        super().__init__(text)
        self.status, self.code, self.field = status, code, field
        self.retry, self.request, self.body = retry, request, body


class UnauthorizedError(JudgeError):
    """No token, or one that is not known (401)."""


class ForbiddenError(JudgeError):
    """The token's role or scopes do not allow this (403)."""


class NotFoundError(JudgeError):
    """There is no such object, or it belongs to somebody else (404)."""


class ConflictError(JudgeError):
    """The current state does not allow this (409)."""


class LimitError(JudgeError):
    """One has all that one may have, or has asked too often (429)."""


class UnavailableError(JudgeError):
    """The cluster does not answer at the moment, also after several tries (503, 504, no connection)."""


BY_STATUS: dict[int, type[JudgeError]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    429: LimitError,
    503: UnavailableError,
    504: UnavailableError,
}
