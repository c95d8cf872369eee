"""Problems of the Universal OJ and what was made from it (S2OJ, QOJ): problem.conf beside the tests that it numbers."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from judge.common.errors import PackageError
from judge.problems import metadata
from judge.problems.importers import ioi, line_ends
from judge.problems.importers.cases import ImportedCase, ImportedSubtask, points
from judge.problems.importers.draft import Draft, ImporterWords, decode
from judge.problems.importers.hydro import settings_at
from judge.problems.importers.hydro.conversion import HydroConversion, scored
from judge.problems.importers.making import MOST
from judge.problems.tree import Tree, clean

_CONF = ("problem.conf",)
_BEGIN = re.compile(r"^[ \t]*(?:n_tests|n_subtasks|use_builtin_judger|input_pre)[ \t]+\S", re.MULTILINE)
_BYTES = 65536
# Settings by which a submission is judged in another way than by running it and looking at its output.
_REFUSED = {
    "interaction_mode": "its interactor judges as well, which only that system's do",
    "token": "it is to stand in the first line of outputs",
    "polygon_runtwice": "submissions run twice",
}
# Without the numbers of tests and subtasks behind them.
_KEYS = _REFUSED.keys() | {
    "n_tests", "n_ex_tests", "n_sample_tests", "input_pre", "input_suf", "output_pre", "output_suf", "time_limit",
    "memory_limit", "output_limit", "use_builtin_judger", "use_builtin_checker", "submit_answer", "with_implementer",
    "dont_use_formatter", "point_score", "n_subtasks", "subtask_end", "subtask_score", "subtask_type",
    "subtask_dependence",
}  # fmt: skip
# The programs that are compiled with submissions, by the language of those.
_IMPLEMENTERS = {"c": "implementer.c", "cpp": "implementer.cpp"}
_SOURCES = (".c", ".cpp", ".cc", ".cxx")
_OFF = frozenset({"", "off", "0", "false", "no"})
_STANDARDS = ("", "11", "14", "17", "20", "23")


def matches(tree: Tree) -> bool:
    path = settings_at(tree, _CONF)
    return bool(path) and _BEGIN.search(decode(next(tree.chunks(path), b"")[:_BYTES])) is not None


def convert(tree: Tree, options: ImporterWords) -> Draft:
    path = settings_at(tree, _CONF)
    return _UojConversion(tree, options, path, posixpath.dirname(path)).convert()


class _UojConversion(HydroConversion):
    origin = "uoj"

    def _settings(self) -> Mapping[str, Any]:
        """The settings in Hydro's words; its own are kept for the tests."""
        self._raw_conf: dict[str, str] = {}
        for line in self._draft.text(self._path, limit=metadata.YAML_BYTES).splitlines():
            # Anything behind a value is a comment there.
            key, value, *_ = [*line.split(), "", ""]
            if key and not key.startswith("#"):
                self._raw_conf[key] = value if not value.startswith("#") else ""
        conf = self._raw_conf
        self._draft.check_keys(dict.fromkeys(re.sub(r"(?:_[0-9]+)+$", "", key) for key in conf), _KEYS, self._where)
        judger = next((name for name in ("judger.cpp", "Makefile") if self._base + name in self._tree.files), "")
        if conf.get("use_builtin_judger", "" if judger else "on") in _OFF:
            raise PackageError(f"{self._where}: use_builtin_judger: a judger of its own judges there, and not here")
        for key, reason in _REFUSED.items():
            if conf.get(key, "") not in _OFF:
                raise PackageError(f"{self._where}: {key}: {reason}; make a package of it")
        for key, value in conf.items():
            match = re.fullmatch(r"((?:time|memory)_limit)_[0-9]+", key)
            if match is None or value == conf.get(match[1]):
                continue
            option, override = ("--time-limit", self._options.time_limit)
            if match[1] == "memory_limit":
                option, override = ("--memory", self._options.memory)
            if override is None:
                msg = f"a test has no limit of its own here; give one for all ({option})"
                raise PackageError(f"{self._where}: {key}: {msg}")
            self._draft.report.dropped(f"{match[1]} of single tests: {option} is for all")
        self._draft.limits["output"] = self._number("output_limit", 64, 1024)
        return {
            "type": "submit_answer" if conf.get("submit_answer", "") not in _OFF else "default",
            "time": f"{conf.get('time_limit') or 1}s",
            "memory": f"{conf.get('memory_limit') or 256}m",
            "checker": conf.get("use_builtin_checker") or self._program("chk") or self._no_checker(),
            "validator": self._program("val"),
        }

    def _program(self, stem: str) -> dict[str, str] | None:
        """A program by its name, which ends in the standard that it is written in."""
        names = (f"{stem}{standard}.cpp" for standard in _STANDARDS)
        source = next((name for name in names if self._base + name in self._tree.files), None)
        return {"file": source, "lang": f"cpp{source[len(stem) : -4] or '14'}"} if source is not None else None

    def _no_checker(self) -> str:
        raise PackageError(f"{self._where}: has no use_builtin_checker, and there is no chk.cpp, which judges then")

    def _number(self, key: str, usual: int, most: int) -> int:
        text = self._raw_conf.get(key) or str(usual)
        if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) > most:
            raise PackageError(f"{self._where}: {key}: '{clean(text, 40)}' is not a whole number up to {most}")
        return int(text)

    def _case(self, number: int, extra: str = "") -> ImportedCase:
        names = []
        for key in ("input", "output"):
            before, after = self._raw_conf.get(f"{key}_pre"), self._raw_conf.get(f"{key}_suf") or "txt"
            candidates = [f"{extra}{prefix}{number}.{after}" for prefix in ((key, "") if before is None else (before,))]
            names.append(next((name for name in candidates if self._base + name in self._tree.files), candidates[0]))
        input_ref, answer = (self._file(name, f"{self._where}: test {number}") or b"" for name in names)
        stem = posixpath.splitext(names[self._conf["type"] == "submit_answer"])[0]
        value = self._raw_conf.get(f"point_score_{number}")
        case_points = points(value, f"{self._where}: point_score_{number}") if value and not extra else None
        return ImportedCase(stem, input_ref, answer, sample=bool(extra), points=case_points)

    def _subtasks(self, *, partial: bool) -> list[ImportedSubtask]:
        self._note(self._conf, self._where)
        conf, count = self._raw_conf, self._number("n_tests", 10, MOST)
        cases = [self._case(number) for number in range(1, count + 1)]
        extra, sample_count = self._number("n_ex_tests", 0, MOST), self._number("n_sample_tests", 0, MOST)
        self._samples = [self._case(number, "ex_") for number in range(1, min(sample_count, extra) + 1)]
        if conf.get("dont_use_formatter", "") in _OFF:
            files = [*cases, *self._samples]
            line_ends.change(self._draft, files, line_ends.uoj, "UOJ's formatter does it")
        if extra > sample_count:
            self._draft.report.dropped(
                f"{extra - sample_count} extra tests, which take 3 points away there when they fail"
            )
        if not cases:
            raise PackageError(f"{self._where}: n_tests: there are no tests; expected some")
        subtask_count = self._number("n_subtasks", 0, count)
        if not subtask_count:
            return scored([ImportedSubtask("all", cases, rule="each")])
        subtasks, begin, requires = [], 0, self._requires(subtask_count)
        for number in range(1, subtask_count + 1):
            where = f"{self._where}: subtask_%s_{number}"
            kind = conf.get(f"subtask_type_{number}") or "packed"
            end = self._number(f"subtask_end_{number}", 0, count)
            if kind not in {"packed", "min"}:
                raise PackageError(f"{where % 'type'}: '{clean(kind, 40)}' is neither packed nor min, which are here")
            if end <= begin or (number == subtask_count and end < count):
                raise PackageError(f"{where % 'end'}: {end} leaves tests out, or the subtask empty")
            value = conf.get(f"subtask_score_{number}") or "0"
            subtasks.append(
                ImportedSubtask(
                    str(number),
                    cases[begin:end],
                    points(value, where % "score") if value else Fraction(0),
                    "min" if kind == "min" and partial else "all",
                    requires.get(number, []),
                )
            )
            begin = end
        return scored(subtasks)

    def _requires(self, count: int) -> dict[int, list[str]]:
        """The subtasks that each requires, by their numbers; there are `count`."""
        requires: dict[int, list[str]] = {}
        names = frozenset(map(str, range(1, count + 1)))
        for key, value in self._raw_conf.items():
            match = re.fullmatch(r"subtask_dependence_([1-9][0-9]{0,8})(?:_[0-9]+)?", key)
            if match is None or value in {"", "many"}:
                continue
            if value not in names:
                raise PackageError(f"{self._where}: {key}: '{clean(value, 40)}' is no subtask; there are {count}")
            if value not in requires.setdefault(int(match[1]), []):
                requires[int(match[1])].append(value)
        return requires

    def _drop_unused(self) -> None:
        ioi.put_attachments(self._draft, f"{self._base}download")
        implemented = self._raw_conf.get("with_implementer", "") not in _OFF
        self._put_beside(self._put_implementers() if implemented else ["c", "cpp", "default"], implemented=implemented)
        super()._drop_unused()

    def _put_implementers(self) -> list[str]:
        draft, implementers = self._draft, {}
        for language, name in _IMPLEMENTERS.items():
            paths = (f"{self._base}{folder}{name}" for folder in ("", "require/"))
            path = next((candidate for candidate in paths if candidate in self._tree.files), None)
            if path is not None:
                implementers[language] = path
                draft.put(f"include/{language}/{name}", draft.ref(path))
        if not implementers:
            names = " or ".join(_IMPLEMENTERS.values())
            raise PackageError(f"{self._where}: with_implementer: there is no {names}; add what submissions call")
        draft.judge["entry"] = "implementer"
        draft.problem["languages"] = sorted(implementers)
        draft.report.took(f"with_implementer: {', '.join(implementers.values())}, compiled with submissions")
        draft.report.dropped("submissions in other languages: there is no implementer for them here")
        return sorted(implementers)

    def _put_beside(self, languages: list[str], *, implemented: bool) -> None:
        """The files of require/, which lie beside submissions in these languages when they are compiled."""
        folder = f"{self._base}require/"
        for path in self._tree.below(folder.removesuffix("/")):
            name = path.removeprefix(folder)
            if implemented and posixpath.splitext(name)[0] == "implementer":
                continue
            if implemented and name.endswith(_SOURCES):
                reason = "would be compiled by itself here, and is not there; call it .h, and include it so"
                raise PackageError(f"{self._tree.where(path)}: {reason}")
            if "/" in name or name.endswith(_SOURCES):
                self._draft.report.dropped(f"require/{name}: only headers and other files go with submissions")
                continue
            for language in languages:
                self._draft.put(f"include/{language}/{name}", self._draft.ref(path))
