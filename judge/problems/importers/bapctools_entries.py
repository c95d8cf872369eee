"""Reads entries of BAPCtools' generators.yaml: a test, with its files and how many it stands for, or a group."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judge.common import yamltext
from judge.common.errors import PackageError
from judge.problems.importers.draft import dump
from judge.problems.importers.making import MOST
from judge.problems.tree import clean

# Directories may lie so deep in others.
DEEP = 20
GROUPS = frozenset({"testdata.yaml", "test_group.yaml"})
# Keys of these on which points depend, even without tests.
_POINTS = frozenset({
    "max_score", "static_validation_score", "require_pass", "grading", "grader_flags", "accept_score", "reject_score",
    "range", "on_reject",
})  # fmt: skip
# Files of a test that may stand in the settings, or beside the one that is copied.
SUFFIXES = (
    "in", "ans", "out", "in.statement", "ans.statement", "in.download", "ans.download", "interaction", "yaml", "hint",
    "desc",
)  # fmt: skip
# A mapping with one of the first is a test, any other is a directory.
OF_TEST = frozenset({"generate", "copy", "count", "match", *SUFFIXES})
OF_GROUP = frozenset({"data", "include", *GROUPS})
OF_BOTH = frozenset({"solution", "random_salt", "type", "visualizer"})
OF_ROOT = frozenset({"generators", "version", "gitignore_generated", "parallel"})
# Keys that decide something, and the likeness from which an unknown key is taken for a slip of the pen for one of them.
_DECIDES = sorted({"generate", "copy", "count", "yaml", "solution", "random_salt", *OF_GROUP})
_SIMILARITY = 0.8
_RANGE = re.compile(r"(-?[0-9]{1,9})\.\.=(-?[0-9]{1,9})")


@dataclass(frozen=True)
class DirectorySettings:
    """The settings that tests get from the directories that they are in; the innermost says it.

    `solution` makes the answers: "" is the first accepted one, None says that nothing makes them.
    """

    salt: str = ""
    solution: str | None = ""


@dataclass(frozen=True)
class BapctoolsTest:
    """One test: its path without a suffix, and the command that makes it, what it is copied from, or what it is.

    `links` are files of it that are the same as another one; `at` is where it stands, for people.
    """

    path: str
    at: str
    level: DirectorySettings
    command: str = ""
    copy: str = ""
    texts: Mapping[str, bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)

    def has(self, *suffixes: str) -> bool:
        """Return whether one of its files stands in the settings."""
        return any(suffix in self.texts or suffix in self.links for suffix in suffixes)


def is_test(entry: Any) -> bool:
    """Return whether an entry is a test; of mappings the keys say it."""
    return entry is None or isinstance(entry, str) or (isinstance(entry, dict) and bool(OF_TEST & entry.keys()))


def check_group(entry: Any, at: str) -> None:
    """PackageError for what is neither a test nor a directory, of which it may be a slip of the pen."""
    if not isinstance(entry, dict):
        raise PackageError(f"{at}: expected a command, or a mapping")
    if entry.get("type") == "testcase" or (entry and not entry.keys() & (OF_GROUP | OF_BOTH)):
        raise PackageError(f"{at}: has none of 'generate', 'copy' and 'in' of a test, and is no directory with 'data'")


def has_points(content: Mapping[Any, Any]) -> bool:
    """Return whether the settings of a directory say something of points."""
    return any(key in _POINTS and value for name in GROUPS for key, value in (content.get(name) or {}).items())


def unknown(content: Mapping[Any, Any], allowed_keys: frozenset[str], where: str) -> Iterator[str]:
    """The keys that are not known. PackageError for one that is alike to one that decides something."""
    for key in sorted(str(key)[:40] for key in content.keys() - allowed_keys):
        suggestions = difflib.get_close_matches(key, _DECIDES, n=1, cutoff=_SIMILARITY)
        if suggestions:
            raise PackageError(
                f"{where}: '{clean(key, 40)}' is no key that is known here; did you mean {suggestions[0]}?"
            )
        yield clean(key, 40)


def level_of(content: Mapping[Any, Any], above: DirectorySettings, where: str) -> DirectorySettings:
    """The settings that are inherited, with those of one more directory, or of a test. PackageError."""
    salt, solution = content.get("random_salt"), content.get("solution", above.solution)
    if isinstance(salt, list | dict):
        raise PackageError(f"{where}: random_salt: expected text, on which all seeds depend")
    if salt is not None:
        salt = yamltext.text_of(content, "random_salt")
    if solution is not None and not isinstance(solution, str):
        raise PackageError(f"{where}: solution: expected the path of a submission, such as /submissions/accepted/a.py")
    if "solution" in content and not (solution or "").strip():
        solution = None
    return DirectorySettings(above.salt if salt is None else salt, solution)


def parts_of(data: Any, where: str) -> list[dict[Any, Any]]:
    """The mappings of `data`: one, or those of a list. PackageError."""
    parts = data if isinstance(data, list) else [] if data is None else [data]
    if not all(isinstance(part, dict) for part in parts):
        raise PackageError(f"{where}: data: expected a mapping of tests and directories, or a list of such")
    return parts


def values_of(entry: Any, at: str) -> Sequence[int] | None:
    """The values that `count` gives a test, one for each of several; None without it. PackageError."""
    count = entry.get("count") if isinstance(entry, dict) else None
    if count is None:
        return None
    numbers: Sequence[int] = ()
    if isinstance(count, int) and not isinstance(count, bool):
        numbers = range(1, min(count, MOST + 1) + 1)
    elif isinstance(count, str) and (match := _RANGE.fullmatch(count)):
        numbers = range(int(match[1]), int(match[2]) + 1)
    elif isinstance(count, list) and all(
        isinstance(number, int) and not isinstance(number, bool) and abs(number) < 10**9 for number in count
    ):
        numbers = count
    if not 1 <= len(numbers) <= MOST or len(set(numbers)) < len(numbers):
        raise PackageError(
            f"{at}: count: expected from 1 to {MOST} tests: their number, a list of different numbers, or a range "
            "such as 3..=7"
        )
    return numbers


def numbered(content: Any, deep: int = 0) -> int:
    """The number of tests in lists: these are numbered through all directories, all with as many digits."""
    data = content.get("data") if isinstance(content, dict) and deep <= DEEP + 1 else None
    number = 0
    for part in data if isinstance(data, list) else [data]:
        for entry in part.values() if isinstance(part, dict) else ():
            if not is_test(entry):
                number += numbered(entry, deep + 1)
            elif isinstance(data, list):
                # A fault there is told later, with its name.
                with contextlib.suppress(PackageError):
                    number += len(values_of(entry, "") or [1]) - 1
                number += 1
    return number


def prefixed(number: int, most: int, name: str) -> str:
    """The name of an entry in a list; it may have none of its own."""
    return "-".join(part for part in (f"{number:0{len(str(most))}d}", name) if part)


def text_of(entry: Mapping[Any, Any], key: str, at: str) -> str:
    """A command or path of a test, "" where there is none. PackageError."""
    value = entry.get(key)
    if value is not None and not isinstance(value, str | int | float):
        raise PackageError(f"{at}: {key}: expected text, found {yamltext.kind_of(value)}; put it in quotes")
    return "" if value is None else yamltext.text_of(entry, key).strip()


def files_of(entry: Mapping[Any, Any], at: str) -> tuple[dict[str, bytes], dict[str, str]]:
    """The files of a test that stand in the settings, and those that are the same as another. PackageError."""
    texts: dict[str, bytes] = {}
    links: dict[str, str] = {}
    for key in SUFFIXES:
        value = entry.get(key)
        if isinstance(value, dict) and key == "yaml":
            texts[key] = dump(value)
        elif isinstance(value, dict) and "." in key and value.keys() == {"link"}:
            links[key] = str(value["link"])
            if links[key] not in {suffix for suffix in SUFFIXES if suffix.split(".")[0] == key.split(".")[0]} - {key}:
                raise PackageError(f"{at}: {key}: link: '{clean(links[key], 40)}' is not a file that it may be")
        elif isinstance(value, str | int | float):
            text = yamltext.text_of(entry, key)
            texts[key] = (text if not text or text.endswith("\n") else text + "\n").encode()
        elif value is not None:
            raise PackageError(f"{at}: {key}: expected text, found {yamltext.kind_of(value)}; put it in quotes")
    return texts, links
