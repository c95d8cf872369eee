"""Checks of a submission that is handed in, and its big texts made into blobs; pure functions."""

from __future__ import annotations

import base64
import binascii
import difflib
import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from judge.common.errors import FieldError, ForbiddenError, TooLargeError
from judge.common.webhooks.addresses import Network, url_fault
from judge.config import SubmissionLimits
from judge.judge0 import callbacks
from judge.languages import rules
from judge.languages.sources import entry_fault, is_source, name_conflict
from judge.languages.table import Language, allows, include_folder, load_table
from judge.model.messages import LimitsOverride, RunOptions, Submission, Test
from judge.model.problem import ProblemManifest

# A document holds a submission's texts up to the first figure; above it, each text over the second becomes a blob.
INLINE_BYTES: Final = 256 * 1024
SMALL_BYTES: Final = 1024
STDIN_BYTES: Final = 1024**2

# Bytes of a name that Linux's file systems take.
_NAME_BYTES: Final = 255
_OPTIONS_BYTES: Final = 8192
# The limit of a problem whose package asks for none. One source is held to it; of several files the cluster's is.
_DEFAULT_BYTES = ProblemManifest.model_fields["source_bytes"].default
_NO_NUL: Final = ("source", "filename", "entry", "compile", "command", "user")


def check(
    submission: Submission,
    limits: SubmissionLimits,
    *,
    languages: Collection[str],
    source_bytes: int,
    allowed: Collection[str] = (),
    own_tests: bool = True,
    answers: bool = False,
    include: Mapping[str, Collection[str]] | None = None,
) -> None:
    """Refuse what cannot be judged, naming the field; raises FieldError or TooLargeError.

    ForbiddenError where `own_tests` is false and it is more than a program for a problem.

    `languages` are the known ones, `source_bytes` is the problem's own limit of the source, `allowed` are the only
    languages in which the problem may be solved, and versions of these (empty: all). `answers`: what is handed in are
    the outputs of the problem's tests, which are in no language. `include` are the names of the package's files that go
    with submissions, by folder of include/.
    """
    check_trial(submission)
    if not own_tests:
        _check_modest(submission)
    if submission.check is not None:
        _check_check(submission, languages)
        return
    outputs = answers and submission.command is None and submission.language is None
    if not allows(allowed, submission.language, load_table()) and not outputs:
        kind = f"'{submission.language}'" if submission.language else "a command"
        choices = ", ".join(sorted(allowed))
        raise FieldError("language", f"problem '{submission.problem}' takes {choices} only, not {kind}")
    for name in _NO_NUL:
        rules.check_no_nul(getattr(submission, name) or "", name)
    if not outputs:
        _check_program(submission, languages)
        _check_source(submission, min(source_bytes, limits.source_bytes))
    table, folders = load_table(None), include or {}
    beside = folders.get(include_folder(folders, submission.language, table), ()) if submission.language else ()
    _check_files(submission, limits, None if outputs else source_bytes, table, beside)
    _check_input(submission, limits)
    if submission.options is not None:
        _check_options(submission, submission.options)


def check_callback(submission: Submission, allowed: Iterable[Network]) -> None:
    """FieldError for an address to which no result may be sent; `allowed` are private networks that may be called."""
    url = callbacks.url_of(submission)
    if url and (fault := url_fault(url, allowed, "webhooks.callback_networks")):
        raise FieldError("callback_url", fault)


def check_trial(submission: Submission) -> None:
    """Refuse what tries a problem out and does not come from an admin, or comes without the problem."""
    for name in ("problem_hash", "check", "tool", "cause"):
        if getattr(submission, name) is None:
            continue
        if submission.role == "user":
            raise ForbiddenError(f"{name}: requires a token of role judge; leave it out")
        if submission.problem is None and name not in {"tool", "cause"}:
            raise FieldError("problem", f"is missing; '{name}' goes with the name of a problem")


def _check_check(submission: Submission, languages: Collection[str]) -> None:
    """A check has no program of its own; its language says which executors may have it, for the validators' sake."""
    for name in ("source", "filename", "compile", "command", "stdin", "tests"):
        if getattr(submission, name):
            raise FieldError(
                name, "is given together with 'check', which runs the problem's own programs; leave it out"
            )
    if submission.language is not None and submission.language not in languages:
        raise FieldError("language", f"'{submission.language}' is unknown here")


def _check_modest(submission: Submission) -> None:
    kind = "a command" if submission.command is not None else "tests of one's own"
    if submission.command is None and not submission.tests:
        kind = "a run without a problem"
    if submission.command is not None or submission.problem is None:
        msg = f"user: '{submission.user}' may hand in programs to problems only, not {kind} (own_tests is false)"
        raise ForbiddenError(msg)


def _check_program(submission: Submission, languages: Collection[str]) -> None:
    if submission.language is not None:
        if submission.command is not None and not submission.told:  # Judge0 has commands of its own for some
            raise FieldError("command", "is given together with a language; give one of the two")
        if submission.compile is not None:
            raise FieldError("compile", "is given together with a language, which knows its own; leave it out")
        if submission.language not in languages:
            # `languages` has names that executors have sent.
            rows = load_table()
            near = difflib.get_close_matches(submission.language, rows, n=1, cutoff=0.8)
            hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(sorted(rows))}"
            raise FieldError("language", f"'{submission.language}' is unknown here; {hint}")
        if submission.source is None and not submission.files:
            raise FieldError("source", "is missing; hand in the text of the program")
    elif submission.command is None:
        raise FieldError("language", "is missing; give 'language' and 'source' (or 'files'), or a 'command'")
    elif not submission.command.strip():
        raise FieldError("command", "is empty; give a shell command")


def _check_source(submission: Submission, limit: int) -> None:
    source = submission.source
    if source is None:
        _check_filename(submission.filename)
        return
    rules.check_source(source, limit)
    _check_filename(submission.filename)


def _check_filename(name: str | None) -> None:
    if name is not None and ("/" in name or name in {"", ".", ".."}):
        raise FieldError("filename", f"'{name}' is no plain file name; leave directories out")
    if name is not None and len(name.encode()) > _NAME_BYTES:
        raise FieldError("filename", f"is longer than {_NAME_BYTES} bytes; give it a shorter name")


def _check_files(
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
        except (binascii.Error, ValueError) as exc:
            raise FieldError(
                f"files.{index}.base64", f"of '{file.name}' is not Base64 (RFC 4648, with padding)"
            ) from exc
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


def _check_input(submission: Submission, limits: SubmissionLimits) -> None:
    if submission.problem is not None:
        if submission.tests:
            raise FieldError("tests", "are given together with a problem, which has its own; give one of the two")
        if submission.limits != LimitsOverride():
            raise FieldError("limits", "are given together with a problem, which has its own; leave them out")
    if submission.stdin is not None:
        if submission.problem is not None or submission.tests:
            raise FieldError("stdin", "is given together with a problem or tests; give one of them")
        if len(submission.stdin.encode()) > STDIN_BYTES:
            raise TooLargeError(
                f"stdin: is larger than {STDIN_BYTES} bytes; upload it as a blob and give one test with 'input_blob'",
                "stdin",
            )
    if len(submission.tests) > limits.tests:
        raise FieldError("tests", f"there are {len(submission.tests)}, the limit is {limits.tests}")
    names: set[str] = set()
    for index, test in enumerate(submission.tests):
        _check_test(f"tests.{index}", test)
        if test.name in names:
            raise FieldError(f"tests.{index}.name", f"'{test.name}' is the name of two tests; give each its own")
        names.add(test.name)


def _check_options(submission: Submission, options: RunOptions) -> None:
    if submission.problem is not None:
        raise FieldError("options", "are given together with a problem, which says how it is run; leave them out")
    for name in ("compiler", "arguments"):
        words = getattr(options, name)
        if any("\0" in word for word in words):
            raise FieldError(f"options.{name}", "contain a NUL byte, which no program can be given")
        if sum(len(word.encode()) for word in words) > _OPTIONS_BYTES:
            msg = f"options.{name}: have more than {_OPTIONS_BYTES} bytes together; give shorter ones"
            raise TooLargeError(msg, f"options.{name}")
        if words and submission.command is not None:
            raise FieldError(f"options.{name}", "go with a language; write them into the command")
    row = load_table(None).get(submission.language or "")
    if options.compiler and row is not None and not row.compiler_options:
        raise FieldError("options.compiler", f"language '{row.name}' takes none; leave them out")


def _check_test(place: str, test: Test) -> None:
    for text, blob in (("input", "input_blob"), ("answer", "answer_blob")):
        if getattr(test, text) is not None and getattr(test, blob) is not None:
            raise FieldError(f"{place}.{blob}", f"is given together with '{text}'; give one of the two")


def name_texts(submission: Submission) -> tuple[Submission, dict[str, bytes]]:
    """The submission with its big test texts named as blobs, so that its document stays small; these by their names.

    Bytes that came along are among them. FieldError where one is not what its name says.
    """
    blobs = {name: _content(name, text) for name, text in submission.contents.items()}
    submission = submission.model_copy(update={"contents": {}})
    total = sum(len(text.encode()) for test in submission.tests for text in (test.input, test.answer) if text)
    if total <= INLINE_BYTES:
        return submission, blobs
    tests = []
    for test in submission.tests:
        update: dict[str, str | None] = {}
        for text, blob in (("input", "input_blob"), ("answer", "answer_blob")):
            data = (getattr(test, text) or "").encode()
            if len(data) > SMALL_BYTES:
                name = hashlib.sha256(data).hexdigest()
                blobs[name] = data
                update |= {text: None, blob: name}
        tests.append(test.model_copy(update=update))
    return submission.model_copy(update={"tests": tests}), blobs


def _content(name: str, text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as exc:
        raise FieldError(f"contents.{name}", "is not Base64 (RFC 4648, with padding)") from exc
    if hashlib.sha256(data).hexdigest() != name:
        raise FieldError(f"contents.{name}", "has another SHA-256 than its name; send it again")
    return data
