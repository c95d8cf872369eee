"""The versions of the package format side by side, and the two ways in which legacy packages are read.

`legacy` and `legacy-icpc` are one format; `2023-07-draft` is what led to `2025-09`. Two big judges read the legacy one
differently where its text leaves room: Kattis (and its problemtools), and DOMjudge. Sources: the specification of each
version, problemtools, BAPCtools, and DOMjudge's importer (docs/problems-format.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from judge.model.problem import ProblemManifest

LEGACY: Final = "legacy"
LEGACY_ICPC: Final = "legacy-icpc"
DRAFT: Final = "2023-07-draft"
CURRENT: Final = "2025-09"

Dialect = Literal["", "kattis", "domjudge"]
KATTIS: Final = "kattis"
DOMJUDGE: Final = "domjudge"
DIALECTS: Final = (KATTIS, DOMJUDGE)


@dataclass(frozen=True)
class Format:
    """One version.

    `validators` and `statements` are folders by their own name, and then by the name that other versions have, which
    is read, too; `groups` are the files that configure a group, in the same way.
    """

    name: str
    legacy: bool
    validators: tuple[str, ...]
    statements: tuple[str, ...]
    groups: tuple[str, ...]


_OLD_FOLDERS = (
    ("output_validators", "output_validator"),
    ("problem_statement", "statement"),
    ("testdata.yaml", "test_group.yaml"),
)
_NEW_FOLDERS = (
    ("output_validator", "output_validators"),
    ("statement", "problem_statement"),
    ("test_group.yaml", "testdata.yaml"),
)
FORMATS: Final = {
    package_format.name: package_format
    for package_format in (
        Format(LEGACY, True, *_OLD_FOLDERS),
        Format(LEGACY_ICPC, True, *_OLD_FOLDERS),
        Format(DRAFT, False, *_NEW_FOLDERS),
        Format(CURRENT, False, *_NEW_FOLDERS),
    )
}
# Other words for the same versions.
SPELLINGS: Final = {"2023-07": DRAFT, "draft": CURRENT, "2025-09-draft": CURRENT}

# Every version's folders of input and answer validators; the last of the former is an old name.
INPUT_VALIDATORS: Final = ("input_validators", "input_validator", "input_format_validators")
ANSWER_VALIDATORS: Final = ("answer_validators", "answer_validator")
# Keys of testdata.yaml that only the legacy graders know.
GRADER_KEYS: Final = frozenset(
    {"on_reject", "grading", "grader_flags", "accept_score", "reject_score", "range", "input_validator_flags"}
)
# Flags of the default grader that DOMjudge knows; it has no others.
_SHARED_FLAGS = frozenset({"sum", "avg", "min", "max", "ignore_sample"})


@dataclass(frozen=True)
class SignsSeen:
    """Signs in a legacy package of the judge that it was written for.

    `paths` are its files, `yaml` its problem.yaml and `groups` its testdata.yaml files, as they are, `sources` texts of
    its submissions, `validators` the number of folders among its output validators.
    """

    paths: Sequence[str]
    yaml: Mapping[Any, Any]
    groups: Sequence[Mapping[Any, Any]] = ()
    sources: Sequence[bytes] = ()
    validators: int = 0

    def below(self, *folders: str) -> bool:
        return any(path.startswith(tuple(f"{folder}/" for folder in folders)) for path in self.paths)

    def words(self, key: str) -> list[str]:
        value = self.yaml.get(key)
        return value.split() if isinstance(value, str) else []


@dataclass(frozen=True)
class Sign:
    """Something that only one of the judges reads; `description` says it for people."""

    dialect: Dialect
    description: str
    applies: Callable[[SignsSeen], bool]


def _values_of(signs: SignsSeen, key: str) -> list[str]:
    return [str(group[key]) for group in signs.groups if group.get(key) is not None]


def _other_flags(signs: SignsSeen) -> bool:
    return bool({flag for text in _values_of(signs, "grader_flags") for flag in text.split()} - _SHARED_FLAGS)


def _other_scores(signs: SignsSeen) -> bool:
    return bool(_values_of(signs, "reject_score")) or any(
        re.search("inf|-", text) for text in _values_of(signs, "range")
    )


def _other_types(signs: SignsSeen) -> bool:
    return len(signs.words("type")) > 1 or bool({"interactive", "multi-pass"} & set(signs.words("type")))


def _quoted(signs: SignsSeen) -> bool:
    texts = [*_values_of(signs, "output_validator_flags"), str(signs.yaml.get("validator_flags") or "")]
    return any('"' in text or "'" in text for text in texts)


def _at_root(signs: SignsSeen) -> bool:
    return bool({"problem.pdf", "problem.html", "problem.txt"} & set(signs.paths))


def _new_groups(signs: SignsSeen) -> bool:
    return any(path.startswith("data/") and path.endswith("/test_group.yaml") for path in signs.paths)


# The first that is found decides. Those that only one of the judges can read at all come first.
SIGNS: Final = (
    Sign("kattis", "testdata.yaml asks for a custom grader", lambda signs: "custom" in _values_of(signs, "grading")),
    Sign("kattis", "grader_flags are some that DOMjudge does not have", _other_flags),
    Sign("kattis", "testdata.yaml has a reject_score, or a range that is negative or endless", _other_scores),
    Sign("kattis", "problem.yaml has 'grading'", lambda signs: bool(signs.yaml.get("grading"))),
    Sign("kattis", "there are several output validators", lambda signs: signs.validators > 1),
    Sign("domjudge", "validation says multi-pass", lambda signs: "multi-pass" in signs.words("validation")),
    Sign("domjudge", "type has several words, or one that Kattis does not have in this format", _other_types),
    Sign(
        "domjudge", "the validator's folder is called output_validator", lambda signs: signs.below("output_validator")
    ),
    Sign(
        "domjudge",
        "other validators are in input_validator or answer_validator",
        lambda signs: signs.below("input_validator", "answer_validator"),
    ),
    Sign("domjudge", "there is domjudge-problem.ini", lambda signs: "domjudge-problem.ini" in signs.paths),
    Sign("domjudge", "there is submissions.json", lambda signs: "submissions.json" in signs.paths),
    Sign("domjudge", "the statement is problem.pdf, problem.html or problem.txt at the root", _at_root),
    Sign("domjudge", "there is test_group.yaml", _new_groups),
    Sign("domjudge", "flags of the validator have quoted parts", _quoted),
    Sign(
        "domjudge",
        "a submission has @EXPECTED_RESULTS@",
        lambda signs: any(b"@EXPECTED_RESULTS@" in text for text in signs.sources),
    ),
)


def detect(signs: SignsSeen) -> tuple[Dialect, str]:
    """The dialect of a legacy package, and by what it is known; Kattis's with an empty reason when nothing says.

    Kattis is the format's own home, so its reading is the one of the format's text.
    """
    for sign in SIGNS:
        if sign.applies(signs):
            return sign.dialect, sign.description
    return "kattis", ""


# The INPUT of a validator in the later passes of a multi-pass problem, by dialect, else by format; the test's own where
# neither says it. DOMjudge (judgedaemon, runTestcase) and BAPCtools (Run._prepare_nextpass) hand the validator what the
# program has just read; the format's drafts are used with these tools. Kattis' legacy format has the `.in`. An executor
# of a release before the table refuses manifests that say `dialect` or `format`, so it judges none of these otherwise.
_NEXT_INPUT: Final = {DOMJUDGE: True, KATTIS: False}


def later_input_is_next(manifest: ProblemManifest) -> bool:
    """Return whether a validator finds the earlier pass's `nextpass.in` as its INPUT, not the test's; executors ask."""
    return _NEXT_INPUT.get(manifest.dialect, manifest.format in {DRAFT, CURRENT})
