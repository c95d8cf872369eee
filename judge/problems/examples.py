"""A folder of examples: problem packages with their own submissions, and plain command tasks, each with its verdicts.

Layout: `problems/NAME/` are packages; `commands/NAME.yml` are tasks of the seed's kind. `make demo` judges all of them
and compares (docs/problems.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from judge import config
from judge.common.errors import PackageError, UsageError
from judge.languages.table import Language, load_table
from judge.model.base import first_fault
from judge.model.messages import Result, SourceFile, Submission, Verdict
from judge.model.problem import ProblemManifest
from judge.problems import expectations
from judge.problems.expectations import Candidate
from judge.problems.package import Package, read_package
from judge.problems.tree import clean

COMMAND = "command"


@dataclass(frozen=True)
class Example:
    """One thing to judge. `submission` is ready to be sent; `problem` is empty for a command task.

    `most` is the highest score that the problem gives, where that is known.
    """

    problem: str
    candidate: Candidate
    submission: Submission
    most: float | None = None

    @property
    def file(self) -> str:
        return f"{self.problem}/submissions/{self.candidate.path}" if self.problem else self.candidate.path

    def wrong(self, verdict: Verdict | None, result: Result) -> str:
        """The reason why a judged submission is not what it should be; empty when it is."""
        faults = (expectations.check(rule, verdict, result, self.most) for rule in self.candidate.rules)
        return next((fault for fault in faults if fault), "")


@dataclass(frozen=True)
class ExampleSet:
    """All of a folder: the packages to import first, and what to judge, in the order of their names."""

    packages: list[Package]
    examples: list[Example]


class CommandTask(config.Model):
    """`commands/NAME.yml`: a submission as the API takes it, and the verdicts that it may have."""

    title: str = ""
    expected: list[Verdict] = Field(min_length=1)
    submission: Submission


def load_examples(directory: Path) -> ExampleSet:
    """Read a folder of examples, as `judgectl examples` judges them.

    Raises PackageError for a package, ConfigError for a task that cannot be used, UsageError when there is nothing.
    """
    languages = load_table()
    packages = [read_package(path) for path in _entries(directory / "problems") if path.is_dir()]
    examples = [example for package in packages for example in package_examples(package, languages)]
    for path in _entries(directory / "commands"):
        if path.suffix in (".yml", ".yaml"):
            task = config.parse_text(CommandTask, _text(path), str(path))
            name = path.relative_to(directory).as_posix()
            rule = expectations.Rule(name, exact=frozenset(task.expected), description=" or ".join(task.expected))
            examples.append(Example("", Candidate(name, b"", COMMAND, [rule]), task.submission))
    if not examples:
        msg = f"{directory}: has nothing to judge; expected problems/NAME/ packages or commands/NAME.yml tasks"
        raise UsageError(msg)
    return ExampleSet(packages, examples)


def package_examples(package: Package, table: Mapping[str, Language]) -> list[Example]:
    """A package's own submissions, ready to be sent, every test of them to be judged; `judgectl examples` needs all.

    PackageError for a program in no known language; folders that stand for nothing are left out.
    """
    candidates = [candidate for candidate in expectations.candidates(package, table) if candidate.rules]
    for candidate in candidates:
        if candidate.skipped:
            raise PackageError(f"{package.manifest.name}/submissions/{candidate.path}: {candidate.skipped}")
    return [example_of(package, candidate) for candidate in candidates]


def example_of(package: Package, candidate: Candidate) -> Example:
    """One of a package's submissions, ready to be sent; PackageError when its files have names that may not be."""
    problem, name = package.manifest.name, Path(candidate.path).name
    program: dict[str, Any] = {"filename": name, "entry": candidate.entry}
    try:
        if candidate.files:
            program["files"] = [SourceFile.of(file, data) for file, data in sorted(candidate.files.items())]
        else:
            program["source"] = candidate.source.decode("utf-8")
    except UnicodeDecodeError:
        program["files"] = [SourceFile.of(name, candidate.source)]  # comments in some older encoding
    except ValidationError as exc:
        reason = clean(first_fault(exc).text, 200)
        raise PackageError(f"{problem}/submissions/{candidate.path}: the name of a file {reason}") from None
    submission = Submission(language=candidate.language or None, problem=problem, mode="full", **program)
    return Example(problem, candidate, submission, _most(package.manifest))


def _most(manifest: ProblemManifest) -> float | None:
    for group in manifest.groups:
        if group.name == "secret":
            return group.max_score
    return next((group.high for group in manifest.graders if not group.name), None)


def _entries(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.name[0] != ".") if directory.is_dir() else []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"{path}: cannot be read as UTF-8 text: {exc}") from exc
