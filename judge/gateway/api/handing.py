"""Submissions that come as a form with files, or as a ZIP archive, instead of JSON.

A form's fields are those of a Submission, its files any that people's tools send: `files`, and the names that other
judges give them. An archive's fields are in the query.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from flask import request
from pydantic import ValidationError

from judge.common.errors import FieldError, TooLargeError
from judge.config import SubmissionLimits
from judge.gateway.api.routes import field_error
from judge.languages import handed
from judge.languages.table import load_table
from judge.model import messages as m

ZIP: Final = "application/zip"
FORM: Final = "multipart/form-data"
MEDIA: Final[dict[str, dict[str, Any]]] = {
    FORM: {
        "type": "object",
        "description": "fields of a Submission that are texts or numbers, and files; a ZIP archive counts as its files",
        "properties": {
            **{name: {"type": "string"} for name in ("language", "problem", "entry", "limits.cpu")},
            "files": {"type": "array", "items": {"type": "string", "format": "binary"}},
        },
    },
    ZIP: {"type": "string", "format": "binary", "description": "fields of a Submission in the query"},
}
# The names under which other judges' clients send files, and what they call the fields.
_FILES: Final = frozenset({"files", "files[]", "file", "code", "code[]", "sub_file", "sub_file[]", "source"})
_NAMES: Final = {"entry_point": "entry", "mainclass": "entry", "language_id": "language", "problem_id": "problem"}
_MOST: Final = 256  # fields of one form or query


def submission(limits: SubmissionLimits) -> m.Submission:
    """The submission in the body of this request; FieldError, or TooLargeError, for what cannot be one."""
    form = request.mimetype == FORM
    fields = _fields((request.form if form else request.args).items(multi=True))
    if not form:
        fields.pop("wait", None)  # it is the call's own
    # The judicators know whether a problem takes outputs; a client that names a language or a command hands in none.
    outputs = "problem" in fields and not {"language", "command"} & set(fields)
    bounds = handed.bounds(limits, outputs=outputs)
    if form:
        return _submission(fields, _sent(bounds), bounds)
    if (request.content_length or 0) > bounds.archive:
        msg = f"the archive has {request.content_length} bytes; at most {bounds.archive} are accepted"
        raise TooLargeError(msg, "files")
    body = request.get_data(cache=False)
    if not handed.is_archive("body.zip", body):
        raise FieldError(
            "files", "are not a ZIP archive, though the Content-Type says so; send one, or send the files as a form"
        )
    return _submission(fields, [("body.zip", body)], bounds)


def _sent(bounds: handed.Bounds) -> list[tuple[str, bytes]]:
    """The files of the form; each is read as far as anybody may send."""
    parts: list[tuple[str, bytes]] = []
    for part, file in request.files.items(multi=True):
        _check_name(part)
        if part not in _FILES:
            raise FieldError(part[:60], "does not take a file; send the sources as 'files'")
        if not file.filename:
            continue
        if len(parts) >= bounds.files:
            raise FieldError("files", f"there are more than {bounds.files}; hand in fewer")
        name = file.filename.replace("\\", "/")
        data = file.stream.read(bounds.largest + 1)
        if len(data) > bounds.largest:
            msg = f"files: '{name[-60:]}' has more than {bounds.largest} bytes; hand in a shorter one"
            raise TooLargeError(msg, "files")
        parts.append((name, data))
    return parts


def _check_name(name: str | None) -> None:
    """FieldError for a part of a form without a name: werkzeug calls it None, whatever its types say."""
    if name is None:
        raise FieldError("form", "has a part without a name, or with one whose quotes do not end; name each part")


def _fields(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The fields of a submission; a dot leads into an inner one, as in `limits.cpu`."""
    fields: dict[str, Any] = {}
    for count, (key, text) in enumerate(pairs):
        _check_name(key)
        name = _NAMES.get(key, key)
        if count >= _MOST:
            raise FieldError(name[:60], f"is one field too many; at most {_MOST} are accepted")
        if text == "":
            continue  # as forms send what was left out
        outer, _, inner = name.partition(".")
        if inner and outer != "limits":
            raise FieldError(name[:60], "is not a known field")
        place = fields.setdefault(outer, {}) if inner else fields
        if not isinstance(place, dict) or (inner or outer) in place:
            raise FieldError(name[:60], "is given more than once")
        place[inner or outer] = text
    return fields


def _submission(fields: dict[str, Any], sent: list[tuple[str, bytes]], bounds: handed.Bounds) -> m.Submission:
    command = fields.get("command") is not None
    if sent:
        files = handed.gather(sent, bounds)
        if command:
            fields["files"] = [m.SourceFile.of(name, data) for name, data in files.items()]
        else:
            table = load_table(None)
            archive = sent[0][0] if len(sent) == 1 and handed.is_archive(*sent[0]) else None
            program_fields = {name: fields.get(name) for name in ("language", "entry")}
            program = handed.program(files, table, **program_fields, answers="problem" in fields)
            # The name of an archive is taken for several files only.
            name = fields.get("filename") or (archive if archive != "body.zip" and "files" in program else None)
            if "source" in program:
                fields.pop("entry", None)
            fields |= {key: value for key, value in program.items() if value is not None}
            if name is not None:
                fields["filename"] = name.rpartition("/")[2]
    try:
        return m.Submission.model_validate(fields)
    except ValidationError as exc:
        raise field_error(exc, "the form") from None
