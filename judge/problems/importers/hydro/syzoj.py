"""Problems of SYZOJ: data.yml beside the tests, whose names it gives as patterns."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from judge.common.errors import PackageError
from judge.problems import metadata
from judge.problems.importers import directory, ioi
from judge.problems.importers.cases import ImportedCase, points
from judge.problems.importers.draft import Draft, ImporterWords, Ref, decode, file_name, read
from judge.problems.importers.hydro import settings_at
from judge.problems.importers.hydro.conversion import LANGUAGES
from judge.problems.importers.making import MOST
from judge.problems.tree import Tree, clean

_NAMES = ("data.yml", "data.yaml")
_BEGIN = re.compile(r"^(?:inputFile|outputFile|userOutput|specialJudge) *:", re.MULTILINE)
_KEYS = frozenset({
    "subtasks", "inputFile", "outputFile", "userOutput", "specialJudge", "interactor", "extraSourceFiles", "fullScore",
})  # fmt: skip
_NAME = 255
_RULES: dict[str, ioi.Rule] = {"sum": "sum", "min": "min", "mul": "mul"}
# A checker there may look at the submission itself.
_ASKS_CODE = re.compile(rb"[\"']code[\"']")


def matches(tree: Tree) -> bool:
    path = settings_at(tree, _NAMES)
    return bool(path) and _BEGIN.search(decode(next(tree.chunks(path), b"")[: metadata.YAML_BYTES])) is not None


def convert(tree: Tree, options: ImporterWords) -> Draft:
    draft, path = Draft(tree, "syzoj"), settings_at(tree, _NAMES)
    base, where = posixpath.dirname(path), tree.where(path)
    conf: Mapping[str, Any] = metadata.read(tree.read(path, metadata.YAML_BYTES), where).value
    draft.check_keys(conf, _KEYS, where, strict=True)
    draft.problem["name"] = clean(tree.label)
    if conf.get("interactor"):
        raise PackageError(f"{where}: interactor: it speaks as only that system's do; make a package of it")
    if options.memory is not None:
        draft.limits["memory"] = options.memory
    _put_checker(draft, conf.get("specialJudge"), base, where)
    _put_sources(draft, conf.get("extraSourceFiles"), base, where)
    cases: dict[str, ImportedCase] = {}
    titles: set[str] = set()
    subtasks = [
        _subtask(draft, conf, entry, number, cases, titles, base, where)
        for number, entry in enumerate(_entries(conf.get("subtasks"), f"{where}: subtasks"), 1)
    ]
    if conf.get("userOutput"):
        draft.problem["type"] = ["scoring", "submit-answer"]
    ioi.write_tests(draft, list(cases.values()), subtasks)
    draft.report.dropped("the time and memory limit: that system has them elsewhere; see --time-limit and --memory")
    directory.put_beside(draft, {*draft.used(), path, posixpath.join(base, _file_name(conf.get("specialJudge")))})
    return draft


def _entries(raw: Any, where: str) -> list[Mapping[str, Any]]:
    if not isinstance(raw, list) or not raw or not all(isinstance(entry, dict) for entry in raw):
        raise PackageError(f"{where}: expected a list of mappings")
    return raw


def _file_name(raw: Any) -> str:
    return str(raw.get("fileName") or "") if isinstance(raw, dict) else ""


def _ref(draft: Draft, base: str, name: Any, where: str) -> Ref:
    path = posixpath.normpath(posixpath.join(base, str(name)))
    if path not in draft.tree.files:
        raise PackageError(f"{where}: '{clean(str(name), 60)}' is not in the package")
    return draft.ref(path)


def _subtask(
    draft: Draft,
    conf: Mapping[str, Any],
    settings: Mapping[str, Any],
    number: int,
    cases: dict[str, ImportedCase],
    titles: set[str],
    base: str,
    where: str,
) -> ioi.Scored:
    """One subtask; its tests go to `cases` by their names there, and what they are called here to `titles`."""
    where = f"{where}: subtasks.{number}"
    kind, case_names = str(settings.get("type")), settings.get("cases")
    if kind not in _RULES:
        raise PackageError(f"{where}: type: '{clean(kind, 40)}' is none of {', '.join(_RULES)}")
    if not isinstance(case_names, list) or not case_names or len(case_names) + len(cases) > MOST:
        raise PackageError(f"{where}: cases: expected a list of up to {MOST} tests")
    names = list(dict.fromkeys(str(name) for name in case_names))
    for name in names:
        input_ref, answer = (
            _ref(draft, base, str(conf[key]).replace("#", name, 1), f"{where}: {key}")
            if conf.get(key) not in (None, "", "-")
            else b""
            for key in ("inputFile", "outputFile")
        )
        if name in cases:
            continue
        submitted = str(conf.get("userOutput") or "").replace("#", name, 1)
        if len(submitted) > _NAME:
            raise PackageError(f"{where}: userOutput: '{clean(submitted, 40)}' is longer than the name of a file")
        title = posixpath.splitext(submitted)[0] or name
        cases[name] = ImportedCase(title if title not in titles else name, input_ref, answer)
        titles.add(cases[name].name)
    value = points(settings.get("score"), f"{where}: score")
    return ioi.Scored(str(number), Fraction(value), [cases[name].name for name in names], _RULES[kind])


def _put_checker(draft: Draft, settings: Any, base: str, where: str) -> None:
    if settings is None:
        return
    source = _ref(draft, base, _file_name(settings), f"{where}: specialJudge")
    if _ASKS_CODE.search(read(source)):
        raise PackageError(f"{source.where}: asks for the submission's code, which checkers do not get here")
    ioi.put_asked(draft, source, "syzoj_wrapper.sh")
    draft.report.took(f"specialJudge {source.path}, asked as that system does")


def _put_sources(draft: Draft, settings: Any, base: str, where: str) -> None:
    for entry in _entries(settings, f"{where}: extraSourceFiles") if settings else ():
        language = next(_languages(str(entry.get("language"))), None)
        for file in _entries(entry.get("files"), f"{where}: extraSourceFiles: files") if language else ():
            name = file_name(str(file.get("dest")), f"{where}: extraSourceFiles")
            if (path := f"include/{language}/{name}") not in draft.files:
                draft.put(path, _ref(draft, base, file.get("name"), f"{where}: extraSourceFiles"))


def _languages(name: str) -> Iterator[str]:
    """Our language for that system's name of one: cpp11-noilinux is C++."""
    stem = re.split(r"[0-9-]", name)[0]
    if stem == "cpp":
        yield "cpp"
    yield from (row for row in LANGUAGES.values() if row.rstrip("0123456789") == stem)
