"""Test cases for a package's validators themselves (data/invalid_input and the like), tried on an executor.

Each folder is the tests of a manifest of its own. Inputs and answers are looked at as those of tests are
(`judge.ctl.problem.checking`), outputs are judged as if somebody had handed them in to a submit-answer problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ValidationError

from judge.common.errors import UsageError
from judge.common.text import several
from judge.ctl import show
from judge.ctl.api import Api
from judge.ctl.problem.checking import CheckOutcome, show_line
from judge.ctl.problem.trial import Present, Trial
from judge.model import messages as m
from judge.model.problem import FileIndex, ProblemManifest, ProblemProgram, ProblemTest, ProblemType
from judge.problems.package import Package

# So many outputs are handed in together, and so many bytes of them: what every cluster takes.
_BATCH_CASES, _BYTES = 50, 128 * 1024
# A line is said of so many cases of a folder.
_NAMES_SHOWN = 20


@dataclass(frozen=True)
class CaseKind:
    """A kind of folder: what a case has, who looks at it, and whether it must be accepted."""

    files: tuple[str, ...]
    subject: Literal["inputs", "answers", "outputs"]
    right: bool = False


_INPUT, _ANSWER = CaseKind(("in",), "inputs"), CaseKind(("in", "ans"), "answers")
_WRONG, _RIGHT = CaseKind(("in", "ans", "out"), "outputs"), CaseKind(("in", "ans", "out"), "outputs", right=True)
_KINDS = {
    "invalid_input": _INPUT, "invalid_inputs": _INPUT, "invalid_answer": _ANSWER, "invalid_answers": _ANSWER,
    "invalid_output": _WRONG, "invalid_outputs": _WRONG, "valid_output": _RIGHT, "valid_outputs": _RIGHT,
}  # fmt: skip


@dataclass
class Cases:
    """The whole cases of one folder: the files of each by their suffixes, as blobs, by the case's name in data/.

    `settings`: the folder has some of its own, which are not read here.
    """

    folder: str
    kind: CaseKind
    files: dict[str, dict[str, str]] = field(default_factory=dict)
    settings: bool = False


@dataclass
class CaseRow:
    label: str
    task: m.Task
    cases: Cases
    names: list[str]


def found_in(package: Package) -> list[Cases]:
    """The folders of such cases that a package has, in name order."""
    if package.manifest.package is None:
        return []
    index = FileIndex.model_validate_json(package.read(package.manifest.package)).files
    folders = []
    for folder, kind in sorted(_KINDS.items()):
        paths = sorted(path for path in index if path.startswith(f"data/{folder}/"))
        cases = Cases(folder, kind, settings=any(path.endswith(".yaml") for path in paths))
        for base in (path.removesuffix(".in") for path in paths if path.endswith(".in")):
            if all(f"{base}.{suffix}" in index for suffix in kind.files):
                cases.files[base.removeprefix("data/")] = {suffix: index[f"{base}.{suffix}"] for suffix in kind.files}
        if cases.files:
            folders.append(cases)
    return folders


def run(api: Api, package: Package, folders: Sequence[Cases], available: Present, *, quiet: bool) -> CheckOutcome:
    """Try the cases on the cluster; the package's blobs are uploaded. `refused` has what is not as it must be."""
    outcome = CheckOutcome()
    for cases in folders:
        why, programs = _not_run(package.manifest, cases)
        if why:
            verb = "is" if len(cases.files) == 1 else "are"
            outcome.notes.append(
                f"{several(len(cases.files), 'case')} of data/{cases.folder} {verb} kept and not run: {why}"
            )
            continue
        if why := available.lacks(programs):
            outcome.left_out[f"cases of data/{cases.folder}"] = why
            continue
        for names in _groups(package, cases):
            _try(api, package, cases, names, outcome, quiet=quiet)
    return outcome


def _not_run(manifest: ProblemManifest, cases: Cases) -> tuple[str, list[ProblemProgram]]:
    """The reason why cases cannot be tried (empty: they can), and the package's programs that look at them."""
    subject = cases.kind.subject
    speaks = manifest.traits.needs_validator
    programs = list(manifest.input_validators)
    if subject == "answers":
        programs = [*manifest.answer_validators, *([] if speaks else manifest.validators)]
    elif subject == "outputs":
        programs = list(manifest.validators)
    if subject == "outputs" and speaks:
        return "the output validator speaks with programs here", programs
    if subject != "outputs" and not programs:
        return "no validator looks at them", programs
    if cases.settings:
        return "settings of their own are not read", programs
    if len({_flags(test, subject) for test in manifest.tests}) > 1:
        return "the validators' flags are not the same for all tests", programs
    return "", programs


def _flags(test: ProblemTest, subject: str) -> str:
    return repr(test.input_flags if subject == "inputs" else test.flags)


def _groups(package: Package, cases: Cases) -> Iterator[list[str]]:
    if cases.kind.subject != "outputs":
        yield list(cases.files)
        return
    group: list[str] = []
    size = 0
    for name, files in cases.files.items():
        more = len(package.read(files["out"]))
        if group and (len(group) >= _BATCH_CASES or size + more > _BYTES):
            yield group
            group, size = [], 0
        group.append(name)
        size += more
    yield group


def _try(api: Api, package: Package, cases: Cases, names: list[str], outcome: CheckOutcome, *, quiet: bool) -> None:
    """Try some cases of a folder; what cannot be handed in is noted."""
    label = f"cases of data/{cases.folder}"
    try:
        submission = _submission(package, cases, names)
        with Trial.of(api, _manifest(package.manifest, cases, names)) as trial:
            judged = trial.follow([CaseRow(label, trial.hand_in(submission), cases, names)], table_of, quiet=quiet)
            outcome.left_out |= trial.left_out
    except (UsageError, ValidationError) as exc:
        outcome.notes.append(f"{len(names)} {label} are kept and not run: {show_line(str(exc))}")
        return
    for row in judged:
        _judge(row, outcome)


def _manifest(manifest: ProblemManifest, cases: Cases, names: Sequence[str]) -> ProblemManifest:
    """The problem with these cases as its only tests, and nothing that scores them."""
    flags: dict[str, Any] = {}
    for first_test in manifest.tests[:1]:  # they are alike in this
        flags = {"flags": first_test.flags, "input_flags": first_test.input_flags}
    tests = []
    for name in names:
        files = cases.files[name]
        tests.append(ProblemTest(name=name, input=files["in"], answer=files.get("ans", files["in"]), **flags))
    update: dict[str, Any] = {
        "tests": tests, "groups": [], "graders": [], "grader": None, "task": None, "static_validator": None,
        "static_tests": [], "languages": [], "statements": [], "package": None,
    }  # fmt: skip
    if cases.kind.subject == "outputs":
        update["type"] = [ProblemType.PASS_FAIL, ProblemType.SUBMIT_ANSWER]
    return manifest.model_copy(update=update)


def _submission(package: Package, cases: Cases, names: Sequence[str]) -> m.Submission:
    if cases.kind.subject != "outputs":
        return m.Submission(check=cases.kind.subject, mode="full")
    files = [m.SourceFile.of(f"{name}.out", package.read(cases.files[name]["out"])) for name in names]
    return m.Submission(files=files, mode="full")


def _judge(row: CaseRow, outcome: CheckOutcome) -> None:
    kind, result = row.cases.kind, row.task.result or m.Result()
    tests = {test.name: test for test in result.tests}
    missing = [name for name in row.names if name not in tests]
    if missing:
        why = show_line(str(result.reason or row.task.verdict or row.task.status))
        outcome.warnings.append(f"{several(len(missing), 'case')} of data/{row.cases.folder} could not be tried: {why}")
    wrong = []
    for name, test in tests.items():
        where, message = f"data/{name}.{kind.files[-1]}", show_line(test.message or test.reason)
        if test.verdict is m.Verdict.JE and kind.subject == "outputs":
            wrong.append(f"{where}: the output validator fails on it: {message}")
        elif kind.right and test.verdict is not m.Verdict.AC:
            wrong.append(f"{where}: is not accepted, as a case of this folder must be: {message}")
        elif not kind.right and test.verdict is m.Verdict.AC:
            wrong.append(f"{where}: is accepted; a case of this folder must be refused by a validator")
    more = (
        [f"data/{row.cases.folder}: … and {len(wrong) - _NAMES_SHOWN} more cases"] if len(wrong) > _NAMES_SHOWN else []
    )
    outcome.refused += [*wrong[:_NAMES_SHOWN], *more]
    if tests:
        outcome.notes.append(f"{several(len(tests), 'case')} of data/{row.cases.folder} tried")


def table_of(rows: Sequence[CaseRow]) -> show.Grid:
    grid = show.grid("cases", "verdict", "tests>")
    for row in rows:
        grid.add_row(row.cases.folder, show.verdict_text(row.task), str(len(row.names)))
    return grid
