"""A folder of examples: problem packages with their own submissions, and plain command tasks, each with its verdicts.

Layout: `problems/NAME/` are packages; `commands/NAME.yml` are tasks of the seed's kind. `make demo` judges all of them
and compares (docs/problems.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from judge import config
from judge.errors import PackageError, UsageError
from judge.languages.table import Language, load_table
from judge.model.messages import Submission, Verdict
from judge.problems.package import Package, list_submissions, read_package

COMMAND = "command"


@dataclass(frozen=True)
class Example:
    """One thing to judge. `submission` is ready to be sent; `problem` is empty for a command task.

    The verdict must be one of `expected`; `says` is the same for people, in a word.
    """

    problem: str
    file: str
    language: str
    expected: frozenset[Verdict]
    says: str
    submission: Submission


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


def load_examples(directory: Path, table: Mapping[str, Language] | None = None) -> ExampleSet:
    """Read a folder of examples, as `judgectl examples` judges them.

    Raises PackageError for a package, ConfigError for a task that cannot be used, UsageError when there is nothing.
    """
    languages = load_table() if table is None else table
    packages = [read_package(path) for path in _entries(directory / "problems") if path.is_dir()]
    examples = [example for package in packages for example in package_examples(package, languages)]
    for path in _entries(directory / "commands"):
        if path.suffix in (".yml", ".yaml"):
            task = config.parse_text(CommandTask, _text(path), str(path))
            name = path.relative_to(directory).as_posix()
            says = " or ".join(task.expected)
            examples.append(Example("", name, COMMAND, frozenset(task.expected), says, task.submission))
    if not examples:
        msg = f"{directory}: has nothing to judge; expected problems/NAME/ packages or commands/NAME.yml tasks"
        raise UsageError(msg)
    return ExampleSet(packages, examples)


def package_examples(package: Package, table: Mapping[str, Language] | None = None) -> list[Example]:
    """A package's own submissions, ready to be sent; PackageError for one in no known language, or not UTF-8."""
    problem = package.manifest.name
    found = []
    for item in list_submissions(package, table):
        if item.language is None:
            raise PackageError(f"{problem}/{item.path}: no language of the table has this suffix")
        try:
            source = item.source.decode("utf-8")
        except UnicodeDecodeError:
            raise PackageError(f"{problem}/{item.path}: is not UTF-8 text") from None
        filename = Path(item.path).name
        submission = Submission(language=item.language, source=source, filename=filename, problem=problem)
        name = f"{problem}/{item.path}"
        found.append(Example(problem, name, item.language, item.expected, item.says, submission))
    return found


def _entries(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.name[0] != ".") if directory.is_dir() else []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        msg = f"{path}: cannot be read as UTF-8 text: {exc}"
        raise UsageError(msg) from None
