"""Checks of a submission's files; pure functions. The executor lays them below `/box` under the names checked here."""

from __future__ import annotations

import binascii
from collections.abc import Collection, Mapping

from judge.common.errors import FieldError, TooLargeError
from judge.config import SubmissionLimits
from judge.languages import rules
from judge.languages.sources import entry_fault, is_source, name_conflict
from judge.languages.table import Language
from judge.model.messages import Submission
from judge.model.problem import ProblemManifest

# The limit of a problem whose package asks for none. One source is held to it; of several files the cluster's is.
_DEFAULT_BYTES = ProblemManifest.model_fields["source_bytes"].default


def check_files(
    submission: Submission,
    limits: SubmissionLimits,
    source_bytes: int | None,
    table: Mapping[str, Language],
    include: Collection[str] = (),
) -> None:
    """Refuse files that cannot be judged, naming the field; FieldError or TooLargeError.

    `include` are the names of the problem's files that lie beside the submission's own.
    `source_bytes` is the problem's limit, of all files together; None: they are outputs, which may be larger than
    programs. `table` has the rows that are known here.
    """
    if not submission.files:
        if source_bytes is None:
            _check_output(submission.source, limits)
        _check_entry(submission, [submission.filename or ""], table)
        return
    if submission.source is not None:
        raise FieldError("files", "are given together with 'source'; give one of the two")
    if len(submission.files) > limits.files:
        raise FieldError("files", f"there are {len(submission.files)}, the limit is {limits.files}; hand in fewer")
    contents = _contents(submission)
    total = sum(map(len, contents.values()))
    most = _most(submission, limits, source_bytes)
    if total > most:
        what = "shorter outputs" if source_bytes is None else "a shorter program"
        raise TooLargeError(f"files: have {total} bytes together, the limit is {most}; hand in {what}", "files")
    if not any(data.strip() for data in contents.values()):
        raise FieldError("files", "are all empty; hand in the text of a program")
    # A single file gets the judge's name, unless it is started under its own.
    _check_names(list(contents), include if len(contents) > 1 or submission.entry in contents else ())
    _check_entry(submission, list(contents), table)
    row = table.get(submission.language or "")
    if row is not None:
        _check_sources(contents, submission, row)


def _check_output(source: str | None, limits: SubmissionLimits) -> None:
    """An output that came as one text."""
    if source is None:
        raise FieldError("files", "are missing; hand in the outputs of the tests, each called after its test")
    rules.check_size(len(source.encode()), limits.outputs_bytes)


def _most(submission: Submission, limits: SubmissionLimits, source_bytes: int | None) -> int:
    if source_bytes is None:
        return limits.outputs_bytes
    if submission.told and submission.problem is None:
        return limits.judge0_bytes
    return limits.files_bytes if source_bytes == _DEFAULT_BYTES else min(source_bytes, limits.files_bytes)


def _contents(submission: Submission) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    for index, file in enumerate(submission.files):
        if (file.text is None) == (file.base64 is None):
            raise FieldError(f"files.{index}", f"'{file.name}' needs one of 'text' and 'base64', which holds all of it")
        if file.name in contents:
            raise FieldError(f"files.{index}.name", f"'{file.name}' is the name of two files; give each its own")
        try:
            contents[file.name] = file.data
        except (binascii.Error, ValueError):
            raise FieldError(
                f"files.{index}.base64", f"of '{file.name}' is not Base64 (RFC 4648, with padding)"
            ) from None
    return contents


def _check_names(names: list[str], include: Collection[str]) -> None:
    conflict = name_conflict(names, include)
    if conflict is not None:
        name, reason = conflict
        raise FieldError(f"files.{names.index(name)}.name", f"'{name}' {reason}")


def _check_entry(submission: Submission, names: list[str], table: Mapping[str, Language]) -> None:
    if submission.entry is None:
        return
    if submission.command is not None:
        raise FieldError("entry", "is given together with a command, which says itself what is started; leave it out")
    row = table.get(submission.language or "")
    fault = entry_fault(names, row, submission.entry) if row is not None else ""
    if fault:
        raise FieldError("entry", fault)


def _check_sources(contents: Mapping[str, bytes], submission: Submission, row: Language) -> None:
    outputs = row.outputs()
    for index, (name, data) in enumerate(contents.items()):
        top = name.split("/")[0]
        if top in outputs and not is_source(top, row) and len(contents) > 1:
            raise FieldError(
                f"files.{index}.name", f"'{name}' is where {row.title} puts what it compiles; rename it or leave it out"
            )
        if is_source(name, row) or len(contents) == 1:
            rules.check_no_nul(data, f"files.{index}", name)
    suffixes = [*row.suffixes, *row.sources]
    unnamed = len(contents) > 1 and submission.entry is None
    if unnamed and suffixes and not any(is_source(name, row) for name in contents):
        suffix_list = " ".join(suffixes)
        raise FieldError(
            "files", f"have no source in {row.title} ({suffix_list}); rename one, or name another language"
        )
