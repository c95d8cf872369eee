"""Converts Hydro's settings: config.yaml, or the config.ini of its predecessors, and tests by their names alone."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any
from urllib.parse import unquote

from judge.common import yamltext
from judge.common.errors import PackageError
from judge.common.text import decimal
from judge.problems import metadata
from judge.problems.importers import directory, ioi, testlib
from judge.problems.importers.cases import ImportedCase, ImportedSubtask, Rule, points, write_scored
from judge.problems.importers.draft import Draft, ImporterWords, Ref, as_number, file_name, slug, unique
from judge.problems.importers.pairs import find_pairs
from judge.problems.tree import Tree, clean

PROBLEM = "problem.yaml"
INI = "config.ini"
STATEMENT = re.compile(r"problem(?:_([A-Za-z_-]{2,8}))?\.md")
_LIMIT = re.compile(r"([0-9]+(?:\.[0-9]*)?) *([a-z]*)")
_SECONDS = {"": 1, "s": 1, "m": 0.001, "ms": 0.001, "u": 1e-6, "us": 1e-6, "n": 1e-9, "ns": 1e-9}
_MIB = {"": 1, "m": 1, "mb": 1, "k": 1 / 1024, "kb": 1 / 1024, "g": 1024, "gb": 1024}
# The limits that there can be here, in seconds and MiB.
_POSSIBLE = {"time": (0.001, 600), "memory": (4, 65536)}
# A test's name, and in it the number of its subtask.
_NUMBERED = re.compile(r"[\w.-]*?(?:(\d*)[-_])?\d+", re.ASCII)
_FULL_SCORE = 100
# The folder of what a statement refers to as `file://NAME`; a statement may be nothing but a PDF that it shows.
_ADDED = "additional_file"
_FILE = re.compile(r"file://([^\s()<>\"'?#\]\[]{1,255})(?:\?[^\s()<>\"'\]]{0,200})?")
_WHOLE_PDF = re.compile(r"@\[pdf\]\(file://([^\s()?#]{1,255})(?:[?#][^\s()]{0,200})?\)", re.IGNORECASE)
_KINDS = ("default", "interactive", "submit_answer")
_CHECKERS = {"default": ["case_sensitive"], "strict": ["case_sensitive", "space_change_sensitive"]}
# Keys that the top, a subtask and a case may have; some of them are about the site alone.
_CASE_KEYS = frozenset({
    "type", "subType", "time", "memory", "score", "cases", "subtasks", "checker_type", "checker", "interactor",
    "validator", "filename", "user_extra_files", "judge_extra_files", "count", "key", "detail", "langs",
    "answers", "manager", "num_processes",
})  # fmt: skip
# Keys that change a verdict, and what nobody has here.
_REFUSED = {
    "time_limit_rate": "a language has no time limit of its own here",
    "memory_limit_rate": "a language has no memory limit of its own here",
    "template": "no code is put around submissions here",
}
KEYS = _CASE_KEYS | _REFUSED.keys()
# Languages by the first part of Hydro's names for them: cc.cc17o2 is C++.
LANGUAGES = {
    "bash": "bash", "c": "c", "cc": "cpp", "cs": "csharp", "d": "d", "go": "go", "hs": "haskell", "java": "java",
    "js": "javascript", "kt": "kotlin", "lua": "lua", "pas": "pascal", "php": "php", "pl": "perl", "py": "python3",
    "py.py2": "python2", "r": "r", "rb": "ruby", "rs": "rust",
}  # fmt: skip
_OF_SUBTASKS = frozenset({"id", "score", "type", "if", "time", "memory", "cases"})
_OF_CASES = frozenset({"id", "score", "time", "memory", "input", "output"})


def read_ini(text: str, where: str) -> dict[str, Any]:
    """The settings of a config.ini: how many tests, then `INPUT|OUTPUT|SECONDS|POINTS|KIB` of each. PackageError."""
    lines = text.splitlines()
    count = int(lines[0]) if lines and lines[0].strip().isdecimal() and len(lines[0]) < 6 else 0
    rows = [line.split("|") for line in lines[1 : count + 1] if line.strip()]
    if not count or len(rows) < count:
        raise PackageError(f"{where}: expected the number of tests in its first line, and as many lines after it")
    subtasks = []
    for number, parts in enumerate(rows, 2):
        if len(parts) < 4:
            raise PackageError(f"{where}:{number}: expected INPUT|OUTPUT|SECONDS|POINTS, and perhaps |KIB")
        input_name, answer, seconds, score, *memory = (part.strip() for part in parts)
        kib = memory[0] if memory and memory[0].isdecimal() and len(memory[0]) < 12 else ""
        subtasks.append({
            "score": score,
            "time": f"{seconds}s",
            "memory": f"{int(kib) // 1024}m" if kib else "256m",
            "cases": [{"input": input_name, "output": answer}],
        })  # fmt: skip
    return {"subtasks": subtasks}


def scored(subtasks: list[ImportedSubtask]) -> list[ImportedSubtask]:
    """Subtasks whose points are said, or dealt: what is left of 100 to subtasks, what is left of those to cases."""
    for subtask, value in zip(
        subtasks, _distributed([subtask.points for subtask in subtasks], Fraction(_FULL_SCORE)), strict=True
    ):
        subtask.points = value
        if subtask.rule == "each":
            values = _distributed([case.points or Fraction(0) for case in subtask.cases], value)
            for case, case_points in zip(subtask.cases, values, strict=True):
                case.points = case_points
    return subtasks


def _distributed(given_points: Sequence[Fraction], total: Fraction) -> list[Fraction]:
    """Deal what is left of `total` to those that have nothing, as whole numbers, one more to the last of them."""
    remainder, silent = max(total - sum(given_points), Fraction(0)), sum(not value for value in given_points)
    equal_share, extra = divmod(remainder, silent) if silent else (0, Fraction(0))
    shares = iter(Fraction(equal_share + (number >= silent - extra)) for number in range(silent))
    return [value or next(shares) for value in given_points]


class HydroConversion:
    """A problem in the making. `path` are its settings ("": none), `folder` is where its tests lie, "" at the root."""

    origin = "hydro"

    def __init__(self, tree: Tree, options: ImporterWords, path: str, folder: str) -> None:
        """Read the settings; PackageError."""
        self._tree = tree
        self._draft = Draft(tree, self.origin)
        self._problem = self._yaml(PROBLEM) if PROBLEM in tree.files else yamltext.Fields()
        self._path = path
        self._base = f"{folder}/" if folder else ""
        self._where = tree.where(path or folder)
        self._options = options
        self._conf = self._settings()
        self._limits: dict[str, set[float]] = {"time": set(), "memory": set()}
        # Tests that are shown, where the tests' names do not tell it.
        self._samples: list[ImportedCase] | None = None

    def _settings(self) -> Mapping[str, Any]:
        if posixpath.basename(self._path).lower() != INI:
            return self._yaml(self._path) if self._path else {}
        settings = read_ini(self._draft.text(self._path), self._where)
        # It comes from systems where capitals did not count, and files lay in Input/ and Output/.
        names = [path.removeprefix(self._base) for path in sorted(self._tree.files, reverse=True)]
        by_name = {name.lower(): name for name in names}
        for case in (subtask["cases"][0] for subtask in settings["subtasks"]):
            for key, name in case.items():
                if name not in names:
                    case[key] = by_name.get(f"{key}/{name.lower()}") or by_name.get(name.lower(), name)
        return settings

    def _yaml(self, path: str) -> yamltext.Fields:
        fields: yamltext.Fields = metadata.read(
            self._tree.read(path, metadata.YAML_BYTES), self._tree.where(path)
        ).value
        return fields

    def convert(self) -> Draft:
        draft, kind = self._draft, str(self._conf.get("type") or "default")
        if kind not in _KINDS:
            kinds = ", ".join(_KINDS)
            raise PackageError(f"{self._where}: type: '{clean(kind, 40)}' is not one of {kinds}, which are judged here")
        draft.name = clean(self._problem.text("pid"), 60)
        draft.problem["name"] = clean(self._problem.text("title") or draft.name or self._tree.label)
        for key, reason in _REFUSED.items():
            if self._conf.get(key):
                raise PackageError(f"{self._where}: {key}: {reason}; remove it if submissions are right without it")
        draft.check_keys(self._conf, KEYS, self._where)
        flags, partial = self._programs(kind)
        subtasks = self._subtasks(partial=partial)
        for folder in ("data/sample", "data/secret") if flags else ():
            draft.group(folder, {"output_validator_args": list(flags)})
        write_scored(draft, subtasks, partial=partial, samples=self._samples)
        draft.report.took(f"{sum(len(subtask.cases) for subtask in subtasks)} tests in {len(subtasks)} subtasks")
        if kind == "submit_answer":
            draft.problem["type"] = ["scoring", "submit-answer"]
        if name := yamltext.optional_text(self._conf, "filename"):
            file_name(name, f"{self._where}: filename")
            draft.judge |= {"input_file": f"{name}.in", "output_file": f"{name}.out"}
        self._put_limits()
        self._put_languages()
        self._drop_unused()
        return draft

    # --- limits -----------------------------------------------------------------------------------------------------

    def _note(self, settings: Mapping[str, Any], where: str) -> None:
        """The limits of one part; there is one of each for all."""
        for key, units in (("time", _SECONDS), ("memory", _MIB)):
            if settings.get(key) is None:
                continue
            text = str(settings[key]).strip().lower()
            match = _LIMIT.fullmatch(text)
            if match is None or match[2] not in units:
                example = "1s or 1000ms" if key == "time" else "256m"
                raise PackageError(
                    f"{where}: {key}: '{clean(str(settings[key]), 40)}' is no limit; expected such as {example}"
                )
            # A number is one of milliseconds, and so is a text that is a whole number.
            bare = key == "time" and (isinstance(settings[key], int | float) or text.isdecimal())
            value = float(match[1]) * (0.001 if bare else units[match[2]])
            least, most = _POSSIBLE[key]
            if not least <= value <= most:
                unit = "s" if key == "time" else "MiB"
                raise PackageError(
                    f"{where}: {key}: {clean(text, 40)} is {decimal(value)} {unit}; "
                    f"expected from {decimal(least)} to {decimal(most)} {unit}"
                )
            self._limits[key].add(value)

    def _put_limits(self) -> None:
        for key, target, usual in (("time", "time_limit", 1.0), ("memory", "memory", 256.0)):
            values, override = self._limits[key], getattr(self._options, target)
            option = f"--{target.replace('_', '-')}"
            if override is not None:
                self._draft.limits[target] = as_number(override)
                if len(values) > 1:
                    self._draft.report.dropped(f"{key}: there are different ones; {option} is for all")
                continue
            if len(values) > 1:
                reason = "there are different ones, and a test has no limit of its own here"
                raise PackageError(f"{self._where}: {key}: {reason}; give one for all ({option})")
            self._draft.limits[target] = as_number(next(iter(values), usual))
            if not values:
                self._draft.report.took(f"the {key} limit that Hydro has where nothing is said")

    def _put_languages(self) -> None:
        names = self._names("langs")
        if not names:
            return
        rows = {name: LANGUAGES.get(name) or LANGUAGES.get(name.partition(".")[0]) for name in names}
        languages = sorted({row for row in rows.values() if row is not None})
        unknown = clean(", ".join(name for name, row in rows.items() if row is None), 80)
        if not languages:
            raise PackageError(
                f"{self._where}: langs: none of '{unknown}' is known here; remove the key, or name others"
            )
        self._draft.problem["languages"] = languages
        self._draft.report.took(f"langs: submissions may be in {', '.join(languages)}")
        if unknown:
            self._draft.report.dropped(f"langs: {unknown}: not known here")

    # --- tests ------------------------------------------------------------------------------------------------------

    def _subtasks(self, *, partial: bool) -> list[ImportedSubtask]:
        entries, cases = self._conf.get("subtasks"), self._conf.get("cases")
        if cases:  # then there are no subtasks for that system
            self._note(self._conf, self._where)
            return scored([ImportedSubtask("all", self._cases(cases, self._where), rule="each")])
        if not entries:
            self._note(self._conf, self._where)
            return scored(self._subtasks_by_name(partial=partial))
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise PackageError(f"{self._where}: subtasks: expected a list of mappings")
        if all(type(entry.get("id")) is int for entry in entries):
            entries = sorted(entries, key=lambda entry: int(entry["id"]))
        if not any(entry.get("cases") for entry in entries):
            return scored(self._filled(entries, partial=partial))
        return scored([self._subtask(entry, number, partial=partial) for number, entry in enumerate(entries, 1)])

    def _filled(self, entries: Sequence[Mapping[str, Any]], *, partial: bool) -> list[ImportedSubtask]:
        """Subtasks that name no cases: theirs are the files with their numbers, and other files are others."""
        by_name = {subtask.name: subtask for subtask in self._subtasks_by_name(partial=partial)}
        filled = []
        for number, entry in enumerate(entries, 1):
            subtask = by_name.pop(yamltext.optional_text(entry, "id") or "", None)
            if subtask is None:
                where = f"{self._where}: subtasks.{number}: cases"
                raise PackageError(f"{where}: expected a list of mappings with input and output, or files as ID-1.in")
            filled.append(self._subtask(entry, number, partial=partial, cases=subtask.cases))
        if by_name:
            self._note(self._conf, self._where)
        return [*filled, *by_name.values()]

    def _subtask(
        self, settings: Mapping[str, Any], number: int, *, partial: bool, cases: list[ImportedCase] | None = None
    ) -> ImportedSubtask:
        where = f"{self._where}: subtasks.{number}"
        self._draft.check_keys(settings, _OF_SUBTASKS, where)
        usual = {"time": "1s", "memory": "256m", **self._conf}
        self._note({key: settings.get(key) or usual[key] for key in ("time", "memory")}, where)
        kind = str(settings.get("type") or "min")
        if kind not in {"min", "sum"}:
            raise PackageError(f"{where}: type: '{clean(kind, 40)}' is neither min nor sum, which there are here")
        rule: Rule = "each" if kind == "sum" else "min" if partial else "all"
        return ImportedSubtask(
            yamltext.optional_text(settings, "id") or str(number),
            cases or self._cases(settings.get("cases"), where),
            points(settings.get("score") or 0, f"{where}: score"),
            rule,
            yamltext.texts_of(settings, "if"),
        )

    def _cases(self, entries: Any, where: str) -> list[ImportedCase]:
        if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
            raise PackageError(f"{where}: cases: expected a list of mappings with input and output")
        converted = []
        for number, entry in enumerate(entries, 1):
            self._draft.check_keys(entry, _OF_CASES, f"{where}: cases.{number}")
            self._note(entry, f"{where}: cases.{number}")
            input_ref = self._file(yamltext.optional_text(entry, "input"), f"{where}: cases.{number}: input")
            answer = self._file(yamltext.optional_text(entry, "output"), f"{where}: cases.{number}: output")
            value = points(entry["score"], f"{where}: cases.{number}: score") if entry.get("score") else None
            name = posixpath.splitext(posixpath.basename(input_ref.path))[0] if input_ref else str(number)
            converted.append(ImportedCase(name, input_ref or b"", answer or b"", points=value))
        return converted

    def _file(self, name: str | None, where: str) -> Ref | None:
        """A file of testdata/; nothing, or /dev/null, is an empty one."""
        if name is None or name == "/dev/null":
            return None
        path = posixpath.normpath(f"{self._base}{name}")
        if path not in self._tree.files:
            raise PackageError(f"{where}: '{clean(str(name), 60)}' is not in {self._base or 'the package'}")
        return self._draft.ref(path)

    def _subtasks_by_name(self, *, partial: bool) -> list[ImportedSubtask]:
        """Pairs of files by their names, as nothing lists them: 2 of 2-1.in is the number of its subtask."""
        pairs, _ = find_pairs(path for path in self._tree.files if path.startswith(self._base))
        complete_pairs = [(pair, pair.answer) for pair in pairs if pair.answer is not None]
        if not complete_pairs:
            raise PackageError(f"{self._where}: has no tests; expected pairs of files as 1.in and 1.out")
        if len(complete_pairs) < len(pairs):
            self._draft.report.dropped(f"{len(pairs) - len(complete_pairs)} inputs without an answer")
        subtasks: dict[int, ImportedSubtask] = {}
        for pair, answer in complete_pairs:
            stem, suffix = posixpath.splitext(pair.input.removeprefix(self._base))
            match = _NUMBERED.fullmatch(stem) if suffix.lower() in {".in", ".txt"} else None
            number = (match[1] or "") if match is not None else ""
            rule: Rule = "each" if not number else "min" if partial else "all"
            subtask = subtasks.setdefault(int(number or 1), ImportedSubtask(str(int(number or 1)), [], rule=rule))
            subtask.cases.append(ImportedCase(pair.name, self._draft.ref(pair.input), self._draft.ref(answer)))
        if len(subtasks) > 1:
            self._draft.report.took(f"{len(subtasks)} subtasks by the names of files, as 2 in 2-1.in")
        return [subtasks[number] for number in sorted(subtasks)]

    # --- programs ---------------------------------------------------------------------------------------------------

    def _programs(self, kind: str) -> tuple[list[str], bool]:
        """Checker, interactor and validator; the default validator's flags, and whether parts of points are given."""
        draft, flags = self._draft, self._collected(kind)
        checker = self._source("checker") if flags is None else None
        has_checker = checker is not None or flags is not None
        style = str(self._conf.get("checker_type") or ("testlib" if has_checker else "default"))
        interactor = self._source("interactor") if kind == "interactive" else None
        if kind == "interactive" and interactor is None:
            raise PackageError(f"{self._where}: interactor: is missing in a problem of type interactive")
        if style not in (styles := [*_CHECKERS, "testlib"]):
            fault = f"'{clean(style, 40)}' is not one of {', '.join(styles)}, which are here"
            raise PackageError(f"{self._where}: checker_type: {fault}")
        if style == "testlib" and not has_checker and interactor is None:
            raise PackageError(f"{self._where}: checker: is missing, and checker_type is testlib")
        checker = checker if style == "testlib" else None
        sources = [source for source in (checker, interactor) if source is not None]
        if sources:
            testlib.put_checker(draft, checker, interactor, testlib.SHARE)
        if interactor is not None:
            draft.kind("interactive")
        validator = self._source("validator")
        if validator is not None and testlib.uses_testlib(validator.ref):
            testlib.put_input_validator(draft, "validator", validator)
        partial = any(testlib.gives_points(source.ref) for source in sources)
        usual = _CHECKERS[style] if style != "testlib" else flags or []
        return ([] if sources else usual), partial

    def _collected(self, kind: str) -> list[str] | None:
        """The flags that do what a checker of testlib's collection does, which is called by its name there."""
        checker = self._conf.get("checker")
        name = yamltext.optional_text(*((checker, "file") if isinstance(checker, dict) else (self._conf, "checker")))
        collection = {**testlib.CHECKERS, **testlib.CLOSE_CHECKERS}
        if name is None or name not in collection or self._base + name in self._tree.files or kind == "interactive":
            return None
        if self._conf.get("checker_type") in _CHECKERS:  # the type decides then
            return []
        self._draft.report.took(f"checker {name} as the default validator {' '.join(collection[name])}".rstrip())
        return collection[name]

    def _source(self, key: str) -> testlib.ProgramSource | None:
        setting = self._conf.get(key)
        container, name = (setting, "file") if isinstance(setting, dict) else (self._conf, key)
        language = setting.get("lang") if isinstance(setting, dict) else ""
        file = yamltext.optional_text(container, name)
        ref = self._file(file, f"{self._where}: {key}") if file else None
        return testlib.ProgramSource(ref, str(language or "")) if ref is not None else None

    # --- the rest ---------------------------------------------------------------------------------------------------

    def _drop_unused(self) -> None:
        draft = self._draft
        for extra_file in self._names("user_extra_files"):
            ref = self._file(extra_file, f"{self._where}: user_extra_files")
            header = extra_file.endswith(ioi.HEADERS)
            for language in ("c", "cpp") if header else ("default",):
                if ref is not None:
                    draft.put(f"include/{language}/{posixpath.basename(extra_file)}", ref)
        # The one that names its language first: Hydro shows the other where it has none in the reader's.
        for path in sorted(self._tree.files, key=lambda path: (path == "problem.md", path)):
            match = STATEMENT.fullmatch(path)
            if match is not None and not self._put_statement(path, (match[1] or "zh").replace("_", "-")):
                draft.report.dropped(f"{path}: there is a statement in that language already")
        ioi.put_attachments(draft, _ADDED)
        statements = {path for path in self._tree.files if STATEMENT.fullmatch(path)}
        directory.put_beside(draft, {*draft.used(), *statements, *self._put_in_others(), self._path, PROBLEM})

    def _put_statement(self, path: str, language: str) -> bool:
        """A statement with its pictures: `file://one.png` is additional_file/one.png there."""
        draft, text = self._draft, self._draft.text(path)
        pdf_link = _WHOLE_PDF.fullmatch(text.strip())
        pdf = f"{_ADDED}/{unquote(pdf_link[1])}" if pdf_link is not None else ""
        if pdf in self._tree.files:
            return ioi.put_statement(draft, pdf, language)
        target = f"statement/problem.{re.sub(r'[^A-Za-z0-9-]', '-', language)}.md"
        if target in draft.files:
            return False

        paths = [picture for picture in self._tree.below(_ADDED) if picture.lower().endswith(ioi.PICTURES)]
        pictures = unique(paths, lambda picture: slug(posixpath.basename(picture), "picture"))
        changed = _FILE.sub(lambda match: pictures.get(f"{_ADDED}/{unquote(match[1])}", match[0]), text)
        used_pictures = [picture for picture, name in pictures.items() if name in changed and changed != text]
        for picture in used_pictures:
            if (place := f"statement/{pictures[picture]}") not in draft.files:
                draft.put(place, draft.ref(picture))
        draft.put(target, changed if changed != text else draft.ref(path))
        draft.report.took(f"statement ({language}): {self._tree.where(path)}")
        if used_pictures:
            draft.report.took(f"{len(used_pictures)} pictures of {_ADDED}/ beside it")
        return True

    def _put_in_others(self) -> set[str]:
        """Files that are in the package in other words than their own: programs that were put together with others."""
        programs = [self._conf.get(key) for key in ("checker", "interactor", "validator")]
        names = [program.get("file") if isinstance(program, dict) else program for program in programs]
        return {f"{self._base}{name}" for name in (*names, *self._names("judge_extra_files"), "testlib.h")}

    def _names(self, key: str) -> Sequence[str]:
        return yamltext.texts_of(self._conf, key)
