"""The submit form: what was typed and uploaded, as a submission or as messages beside the fields."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from pydantic import ValidationError

from judge.common.errors import FieldError, JudgeError, TooLargeError
from judge.config import SubmissionLimits
from judge.gateway.submit import Upload, check_whole, decode_source, is_text
from judge.languages import handed, rules
from judge.languages.table import guess, load_table
from judge.model import messages as m
from judge.model.base import first_fault

_MIB = 1024**2
FIELDS = ("language", "problem", "source", "entry", "stdin", "cpu", "wall", "memory")
_LABELS = {"cpu": "CPU time", "wall": "wall time", "stdin": "input"}
_VERBS = ("is ", "has ", "contains ", "does ")
_PLACES = {
    "limits.cpu": "cpu",
    "limits.wall": "wall",
    "limits.memory": "memory",
    "filename": "source",
    "files": "source",
}


def new_key() -> str:
    """An idempotency key for one rendering of the form: pressing the button twice hands in once."""
    return secrets.token_urlsafe(18)


@dataclass
class SubmitForm:
    """The form's values, as typed, and its faults by field ('' is for those of no field).

    `earlier` is the id of the submission that it was filled with, `files` are that one's files, and `kept` those of
    them that are to be handed in again. `lost` are chosen files, which a browser does not offer again.
    """

    values: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    key: str = field(default_factory=new_key)
    earlier: str = ""
    files: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    chosen: str = ""
    lost: list[str] = field(default_factory=list)

    def fail(self, error: JudgeError) -> None:
        # Errors of the judicators that are no FieldError still begin with the field they are about.
        name = error.field or next((field for field in FIELDS if str(error).startswith(f"{field}: ")), "")
        place = "source" if name.startswith("files.") else _PLACES.get(name, name)
        text = error.message if isinstance(error, FieldError) else str(error).removeprefix(f"{name}: ")
        if place == "language" and not self.values.get("language") and self.chosen:
            text = _untold(self.chosen)
        elif text.startswith(_VERBS):
            text = f"the {_LABELS.get(place, place)} {text}"
        text = text[:1].upper() + text[1:]
        if place in FIELDS:
            self.errors.setdefault(place, text)
        else:
            self.errors.setdefault("", str(error))

    def submission(self, uploads: Sequence[Upload], limits: SubmissionLimits) -> m.Submission | None:
        """The submission that the form asks for, or None with `errors` set.

        Chosen files count more than the text area; a single text lands in it.
        """
        if len(uploads) > 1 or any(handed.is_archive(upload.name, upload.data) for upload in uploads):
            return self._of_files(uploads, limits)
        upload = next(iter(uploads), None)
        self.chosen = upload.name if upload else ""
        if upload is not None and self._outputs() and guess(PurePosixPath(upload.name).name, load_table(None)) is None:
            return self._of_files(uploads, limits)
        if upload is None or upload.length > limits.source_bytes or is_text(upload.data):
            return self._of_text(upload, limits)
        return self._of_files(uploads, limits)

    def _outputs(self) -> bool:
        return bool(self.values.get("problem")) and not self.values.get("language")

    def _of_files(self, uploads: Sequence[Upload], limits: SubmissionLimits) -> m.Submission | None:
        """Several files, or one that is no UTF-8 text."""
        try:
            check_whole(uploads)
            files = handed.gather(
                ((upload.name.replace("\\", "/"), upload.data) for upload in uploads),
                handed.bounds(limits, outputs=self._outputs()),
            )
            texts = {name: self.values.get(name) or None for name in ("language", "entry")}
            archive = PurePosixPath(uploads[0].name.replace("\\", "/")).name[-255:] if len(uploads) == 1 else None
            program = handed.program(
                files, load_table(None), filename=archive, answers=bool(self.values.get("problem")), **texts
            )
        except (FieldError, TooLargeError) as exc:
            self.fail(exc)
            program = {}
        return self._validated(program)

    def _of_text(self, upload: Upload | None, limits: SubmissionLimits) -> m.Submission | None:
        name = None
        if upload is not None:
            name = PurePosixPath(upload.name.replace("\\", "/")).name[-255:]
            try:
                self.values["source"] = decode_source(upload, limits)
                self.lost = []
            except (FieldError, TooLargeError) as exc:
                self.fail(exc)
        if "source" not in self.errors:
            try:
                rules.check_source(self.values.get("source", ""), limits.source_bytes)
            except (FieldError, TooLargeError) as exc:
                self.fail(exc)
        program = {"language": self._language(name), "source": self.values.get("source"), "filename": name}
        return self._validated(program | {"entry": self.values.get("entry") or None})

    def _validated(self, program: dict[str, Any]) -> m.Submission | None:
        limits = self._limits()
        if self.errors:
            return None
        problem = self.values.get("problem") or None
        try:
            return m.Submission(
                **program,
                problem=problem,
                stdin=None if problem else self.values.get("stdin", ""),
                limits=m.LimitsOverride() if problem else limits,
                idempotency_key=self.key,
            )
        except ValidationError as exc:
            fault = first_fault(exc)
            self.fail(FieldError(fault.field, fault.text))
            return None

    def _language(self, filename: str | None) -> str | None:
        language = self.values.get("language", "")
        if language:
            return language
        name = guess(filename, load_table(None)) if filename else None
        if name is None:
            self.errors["language"] = _untold(filename) if filename else "Choose one"
            return None
        self.values["language"] = name
        return name

    def _limits(self) -> m.LimitsOverride:
        limits: dict[str, float | int] = {}
        for name, factor in (("cpu", 1), ("wall", 1), ("memory", _MIB)):
            text = self.values.get(name, "").strip().replace(",", ".")
            if not text:
                continue
            try:
                number = float(text) * factor
                limits[name] = round(number) if name == "memory" else number
            except (ValueError, OverflowError):
                self.errors[name] = f"'{text[:20]}' is not a number"
        try:
            return m.LimitsOverride.model_validate(limits)
        except ValidationError as exc:
            for fault in exc.errors(include_url=False):
                name = str(fault["loc"][0])
                self.errors[name] = _RANGES[name]
            return m.LimitsOverride()


def _untold(filename: str) -> str:
    return f"The language is not clear from the name '{filename[-60:]}'; choose one"


_RANGES = {
    "cpu": "Enter more than 0 and at most 60 seconds",
    "wall": "Enter more than 0 and at most 120 seconds",
    "memory": "Enter 4 to 4096 MiB",
}


def from_mapping(form: Mapping[str, str], files: Sequence[str] = ()) -> SubmitForm:
    """The form as a browser sent it. Browsers end lines with CR LF; source and input get plain line ends back."""
    values = {name: form.get(name, "") for name in FIELDS}
    for name in ("source", "stdin"):
        values[name] = values[name].replace("\r\n", "\n")
    key = form.get("key", "")
    key = key if 8 <= len(key) <= 64 else new_key()
    return SubmitForm(values, key=key, earlier=form.get("from", ""), files=[*files], kept=[*files])
