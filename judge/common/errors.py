"""The one exception tree. Every error a person can cause or must see descends from JudgeError.

`exit_code` is what a command ends with, `http_status` what the API and the RPC answer with,
`code` is the stable name that travels in JSON bodies and is turned back into the class by the RPC client.
"""

from __future__ import annotations

from judge.common.text import one_line

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_REFUSED = 3
# All that was judged is as expected, and something could not be judged for want of an executor.
EXIT_LEFT_OUT = 4
# Standard output cannot be written, as on a full disk.
EXIT_OUTPUT = 5
# No executor takes submissions: `judgectl status`.
EXIT_STANDSTILL = 6


class JudgeError(Exception):
    """Anything that goes wrong on purpose; its text is one sentence for the person who reads it."""

    exit_code = EXIT_FAILED
    http_status = 500
    code = "error"
    field: str | None = None  # the request's field at fault, where one is


class UsageError(JudgeError):
    """Bad input: a flag, a field, a file. The text says what, where, what was expected and what to do."""

    exit_code = EXIT_USAGE
    http_status = 400
    code = "usage"


class ConfigError(UsageError):
    """A config file that cannot be used; the text starts with file:line."""

    code = "config"

    def __init__(self, message: str) -> None:
        """See `one_line`: what is quoted from a file breaks no line."""
        super().__init__(one_line(message))


class FieldError(UsageError):
    """One field of a request or submission is wrong."""

    code = "field"
    field: str

    def __init__(self, field: str, message: str) -> None:
        """Keep the field's dotted name beside the sentence, for forms and JSON bodies."""
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class PackageError(UsageError):
    """A problem package that cannot be judged as its author meant; the text names file and field."""

    code = "package"

    def __init__(self, message: str) -> None:
        """See `one_line`: what is quoted from a file breaks no line."""
        super().__init__(one_line(message))


class TooLargeError(UsageError):
    """A body, source or blob over its limit."""

    http_status = 413
    code = "too_large"

    def __init__(self, message: str, field: str | None = None) -> None:
        """`field` is the one that is too large, by its dotted name, where it is one of several."""
        super().__init__(message)
        self.field = field


class NotFoundError(UsageError):
    """An id or name that does not exist."""

    http_status = 404
    code = "not_found"


class UnauthorizedError(UsageError):
    """No token, or one that nobody was given."""

    http_status = 401
    code = "unauthorized"


class ForbiddenError(UsageError):
    """The token's owner may not do this."""

    http_status = 403
    code = "forbidden"


class ConflictError(UsageError):
    """The state has moved on: an idempotency key with another body, a name taken by another."""

    http_status = 409
    code = "conflict"


class LimitError(UsageError):
    """One person or one address has all that it may have at once, or has asked too often; the text says what to do.

    `rate`: of a limit by time, how often within how many seconds: (limit, left, seconds until it starts again).
    """

    http_status = 429
    code = "limit"
    rate: tuple[int, int, int] | None = None


class EmptyError(UsageError):
    """A request that is well-formed and meets nothing it could act on."""

    http_status = 422
    code = "empty"


class StaleError(ConflictError):
    """An older incarnation, sequence number, claim or epoch spoke; what it said was not done."""

    code = "stale"


class UnavailableError(JudgeError):
    """A server does not answer; the same call may succeed later. Nothing was done."""

    http_status = 503
    code = "unavailable"


class OutcomeUnknownError(UnavailableError):
    """The call may or may not have taken effect: read the state again before deciding."""

    code = "outcome_unknown"


class DeadlineError(UnavailableError):
    """The time for this call has run out."""

    http_status = 504
    code = "deadline"


class UnfitError(UsageError):
    """Files or words do not fit into a sandbox by their names, sizes or number. The sandbox works.

    Every executor would answer the same, so another attempt is of no use.
    """


class SandboxError(JudgeError):
    """The sandbox itself failed; says nothing about the submission."""

    code = "sandbox"


class RefusedError(JudgeError):
    """A daemon must not run as things are (another cluster's data, a refused version).

    boot does not restart a service that ends with this exit code: a person has to act first.
    """

    exit_code = EXIT_REFUSED
    code = "refused"


def all_errors() -> dict[str, type[JudgeError]]:
    """Every class of the tree by its `code`; the RPC client turns answers back into exceptions with it.

    A class that shares the code of the one above it is not among them: it never travels, and may need more than words.
    """
    result: dict[str, type[JudgeError]] = {}
    pending: list[type[JudgeError]] = [JudgeError]
    while pending:
        cls = pending.pop()
        if "code" in vars(cls):
            result[cls.code] = cls
        pending.extend(cls.__subclasses__())
    return result
