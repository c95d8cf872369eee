"""Problems of omegaUp: tests in cases/, points by the lines of testplan, and tests/tests.json on its solutions."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import Any

from judge.errors import PackageError
from judge.problems.importers.cases import ImportedCase, ImportedSubtask, points, write_scored
from judge.problems.importers.draft import Draft
from judge.problems.importers.pairs import Pair
from judge.problems.tree import Tree, clean
from judge.yamltext import from_json

_PLAN = "testplan"
_SETTINGS = "settings.json"
_EXPECTED = "tests/tests.json"
_JSON_BYTES = 1024**2
# Folders of solutions by the verdict that tests.json asks of them.
_FOLDERS = {
    "AC": "accepted", "PA": "rejected", "WA": "wrong_answer", "TLE": "time_limit_exceeded", "RTE": "run_time_error",
    "MLE": "run_time_error", "OLE": "rejected",
}  # fmt: skip
# Folders in which that system looks for tests; what lies elsewhere (tests/) is to try the problem itself.
_TESTS = ("cases/", "examples/")
# Its validators that the default one stands for, by their names.
_VALIDATORS = {"token": ["case_sensitive"], "token-caseless": [], "token-numeric": ["float_tolerance"]}


def is_one(tree: Tree) -> bool:
    """Says whether it is a problem of omegaUp."""
    said = tree.files.keys() & {_PLAN, _SETTINGS} or any(
        re.fullmatch(r"statements/[a-z]{2}\.markdown", path) for path in tree.files
    )
    return bool(said) and any(path.startswith("cases/") for path in tree.files)


def leave_out(tree: Tree) -> list[str]:
    """Takes what is no test there out of the tree, and says what that is; PackageError for libinteractive."""
    if not is_one(tree):
        return []
    spoken = next((path for path in sorted(tree.files) if path.endswith(".idl")), None)
    if spoken is not None:
        raise PackageError(
            f"{tree.where(spoken)}: is an interface of libinteractive, by which omegaUp builds submissions; "
            "it cannot be judged here"
        )
    dropped = set(tree.below("tests")) - {_EXPECTED}
    tree.files = {path: size for path, size in tree.files.items() if path not in dropped}
    return ["tests/: is what omegaUp tries the problem itself with"] if dropped else []


def lacks_answers(tree: Tree, pairs: Sequence[Pair]) -> bool:
    """Says whether it is such a problem, and none of the inputs in cases/ has an output."""
    cases = [pair for pair in pairs if pair.input.startswith("cases/")]
    return is_one(tree) and bool(cases) and all(pair.answer is None for pair in cases)


def may_be_tests(tree: Tree) -> list[str]:
    """The files that may be of a test: in problems of omegaUp those of its folders, elsewhere all."""
    return [path for path in tree.files if path.startswith(_TESTS)] if is_one(tree) else list(tree.files)


def write_tests(draft: Draft, pairs: Sequence[Pair], cases: Sequence[ImportedCase]) -> bool:
    """Writes tests with the points of testplan; False where there are none. Sets how outputs are compared."""
    if not is_one(draft.tree):
        return False
    _compare(draft)
    if _PLAN not in draft.tree.files:
        return False
    named: dict[str, ImportedCase] = {}
    for pair, case in zip(pairs, cases, strict=True):
        if pair.input.startswith("cases/") and named.setdefault(_name(pair.input), case) is not case:
            raise PackageError(
                f"{draft.tree.where(pair.input)}: is called as another test of cases/, so {_PLAN} cannot tell them "
                "apart; rename one of them"
            )
    shown = [case for pair, case in zip(pairs, cases, strict=True) if not pair.input.startswith("cases/")]
    subtasks: dict[str, ImportedSubtask] = {}
    for name, value in _plan(draft, named.keys()).items():
        # Tests with the same name up to its first dot are won together.
        one = subtasks.setdefault(name.partition(".")[0], ImportedSubtask(name.partition(".")[0], []))
        one.cases.append(named[name])
        one.points += value
    for one in subtasks.values():
        for case in one.cases:
            case.sample = case.sample and not one.points
    if not sum(one.points for one in subtasks.values()):
        return False
    write_scored(draft, list(subtasks.values()), samples=shown or None)
    unseen = [case for one in subtasks.values() for case in one.cases if shown and case.sample]
    if unseen:
        draft.report.dropped(f"{len(unseen)} samples of cases/ without points: those of examples/ are shown")
    draft.report.took(f"points of {_PLAN}: {len(subtasks)} groups, each won as a whole")
    return True


def is_read(draft: Draft, path: str) -> bool:
    """Says whether nothing of a file of settings is lost: its points, and how outputs are compared."""
    if path not in {_PLAN, _SETTINGS, _EXPECTED} or not is_one(draft.tree):
        return False
    if path != _SETTINGS:
        return path == _PLAN or _json(draft, path) is not None
    # Beside testplan, or in place of it, the points of its tests may stand there, too.
    points_there = settings(draft).get("cases") and _PLAN not in draft.tree.files
    return _validator(draft) in _VALIDATORS and not points_there


def solutions(draft: Draft) -> dict[str, str]:
    """Solutions and their folders, as tests.json asks of them: a verdict, or a score from 0 to 1; "" for any."""
    said = _json(draft, _EXPECTED) if is_one(draft.tree) else None
    listed = said.get("solutions") if isinstance(said, dict) else None
    found: dict[str, str] = {}
    for one in listed if isinstance(listed, list) else []:
        name = one.get("filename") if isinstance(one, dict) else None
        path = posixpath.normpath(posixpath.join("tests", name)) if isinstance(name, str) else ""
        span = one.get("score_range") if isinstance(one, dict) else None
        folder = _FOLDERS.get(str(one.get("verdict"))) if path in draft.tree.files else None
        if folder is None and path in draft.tree.files and isinstance(span, list) and len(span) == 2:
            least, most = (isinstance(end, int | float) and end >= 1 for end in span)
            folder = "accepted" if least else None if most else "rejected"
        if path in draft.tree.files:
            found[path] = folder or ""
    return found


def _name(path: str) -> str:
    return posixpath.basename(path).removesuffix(".in")


def _plan(draft: Draft, names: Collection[str]) -> dict[str, Fraction]:
    """The points of each test, in the order given; PackageError where they are not those of the tests."""
    where = draft.tree.where(_PLAN)
    known = set(names)
    plan: dict[str, Fraction] = {}
    for number, line in enumerate(draft.text(_PLAN).splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or words[0] in plan or words[0] not in known:
            raise PackageError(
                f"{where}:{number}: '{clean(line.strip(), 60)}' is not the name of a test of cases/ and its points, "
                "each once; correct the line"
            )
        plan[words[0]] = points(words[1], f"{where}:{number}")
    lacking = sorted(known - plan.keys())
    if lacking:
        raise PackageError(f"{where}: says no points of '{clean(lacking[0], 60)}', which is in cases/; add them")
    return plan


def _compare(draft: Draft) -> None:
    """The title, and how outputs are compared; a program that does so is found by its name (directory.py)."""
    said = settings(draft)
    if isinstance(said.get("title"), str) and said["title"].strip():
        draft.problem["name"] = clean(said["title"].strip())
    name = _validator(draft)
    flags = _VALIDATORS.get(name)
    if flags is None:
        return
    if name == "token-numeric":
        flags = [*flags, _tolerance(draft)]
    for folder in ("data/sample", "data/secret") if flags else ():
        draft.group(folder, {"output_validator_args": flags})
    draft.report.took(f"validator {name} as the default validator {' '.join(flags)}".rstrip())


def _json(draft: Draft, path: str) -> Any:
    """The value of a file of JSON; None where there is none that can be read, or that is data by its size."""
    if draft.tree.files.get(path, _JSON_BYTES + 1) > _JSON_BYTES:
        return None
    try:
        return from_json(draft.text(path))
    except (ValueError, RecursionError):
        return None


def settings(draft: Draft) -> dict[str, Any]:
    """All of settings.json, its keys in small letters: older problems have `Limits` and `Validator`."""
    said = _json(draft, _SETTINGS)
    return _lower(said) if isinstance(said, dict) else {}


def _lower(said: dict[str, Any]) -> dict[str, Any]:
    return {key.lower(): value for key, value in said.items()}


def _said(draft: Draft) -> dict[str, Any]:
    validator = settings(draft).get("validator")
    return _lower(validator) if isinstance(validator, dict) else {}


def _validator(draft: Draft) -> str:
    return str(_said(draft).get("name"))


def _tolerance(draft: Draft) -> str:
    value = _said(draft).get("tolerance", 1e-9)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise PackageError(
            f"{draft.tree.where(_SETTINGS)}: tolerance: '{clean(str(value), 40)}' is not a number from 0 to 1"
        )
    return str(value)
