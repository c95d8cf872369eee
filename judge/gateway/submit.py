"""The checks of a submission before a judicator sees it, for the API and the form alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judge.common.errors import FieldError, ForbiddenError
from judge.config import SubmissionLimits
from judge.gateway.auth import Principal
from judge.languages import handed, rules
from judge.model import messages as m


@dataclass(frozen=True)
class Upload:
    """A chosen file: its name, its length in bytes, and its first bytes (all of them unless it is too long)."""

    name: str
    length: int
    data: bytes


def check_whole(uploads: Sequence[Upload]) -> None:
    """TooLargeError for a file of which not all was read, as nobody may hand in so much."""
    for upload in uploads:
        rules.check_size(upload.length, len(upload.data), "files", upload.name[-60:])


def is_text(data: bytes) -> bool:
    """Return whether a file goes in as the form's text: UTF-8, or a binary, which is then refused with a sentence."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return b"\0" in data
    return True


def decode_source(upload: Upload, limits: SubmissionLimits) -> str:
    """An uploaded file as source text; FieldError when it is binary or not UTF-8, TooLargeError when too large."""
    rules.check_size(upload.length, limits.source_bytes)
    return rules.decoded(upload.data)


def admit(
    submission: m.Submission, principal: Principal, limits: SubmissionLimits, key: str | None, trace: str = ""
) -> m.Submission:
    """The submission as it goes to the judicators: with its user and idempotency key, and allowed to this person.

    `key` is the Idempotency-Key header, `trace` the request's id. Whether language, problem and tests fit together is
    the judicators' to say. `told` and `contents` go, which callers do not set.
    """
    if submission.user and submission.user != principal.user and not principal.admin:
        raise ForbiddenError(f"user: '{principal.user}' may not hand in for '{submission.user}'; leave the field out")
    if not principal.judges:
        _check_user_rights(submission)
    if submission.source is not None:
        outputs = submission.problem is not None and submission.language is None and submission.command is None
        if outputs:  # judicators know whether it is one
            rules.check_size(len(submission.source.encode()), limits.outputs_bytes)
            rules.check_no_nul(submission.source)
        else:
            rules.check_source(submission.source, limits.source_bytes)
    submission = handed.composed(submission)
    if key is not None and not 1 <= len(key) <= 128:
        raise FieldError("Idempotency-Key", f"has {len(key)} characters; send 1 to 128")
    if key and submission.idempotency_key and key != submission.idempotency_key:
        raise FieldError("idempotency_key", "differs from the header Idempotency-Key; send one of them")
    return submission.keyed(key).model_copy(
        update={
            "user": submission.user or principal.user,
            "role": principal.role,
            "trace": trace,
            "told": {},
            "contents": {},
        }
    )


def _check_user_rights(submission: m.Submission) -> None:
    for name in ("problem_hash", "check", "tool", "cause"):
        if getattr(submission, name) is not None:
            raise ForbiddenError(f"{name}: requires a token of role judge; leave it out")
    if submission.priority == "high":
        raise ForbiddenError("priority: 'high' requires a token of role judge; use 'normal' or 'low'")
    for index, test in enumerate(submission.tests):
        # A person who can name a blob as a test's input can print it: hidden test data would be one `cat` away.
        if test.input_blob or test.answer_blob:
            error = ForbiddenError(
                f"tests.{index}: blobs require a token of role judge; send 'input' and 'answer' as text"
            )
            error.field = f"tests.{index}"
            raise error
