"""judge.yaml: what IOI tasks need beside the package format, an extension of ours (docs/problems-programs.md).

It stands beside problem.yaml of a package of format 2025-09; other judges ignore the file.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from judge import config
from judge.common.errors import PackageError
from judge.languages.table import Language
from judge.model.problem import PROCESSES, IoiTask, ProblemProgram, ProblemType, Subtask, together
from judge.problems import metadata
from judge.problems.tree import Tree

JUDGE_YAML = "judge.yaml"
MANAGER = "manager"
LEGACY = ("legacy", "legacy-icpc")
SUBTASKS = 500
# Of all subtasks together: each is a name in the manifest.
MEMBERS = 100_000
PATTERNS = 1000

Plain = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.+-]*)?$", max_length=100)]
Stem = Annotated[str, StringConstraints(pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$", max_length=100)]


class _TaskSection(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SubtaskSection(_TaskSection):
    """One of `subtasks`; `tests` are names as judgectl shows them, with `*` and `?`."""

    name: str = Field(default="", max_length=100)
    points: float = Field(ge=0, le=1e9, allow_inf_nan=False)
    rule: Literal["sum", "min", "mul", "threshold"] = "min"
    threshold: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    tests: list[Annotated[str, StringConstraints(max_length=255)]] = Field(min_length=1, max_length=5000)

    @model_validator(mode="after")
    def _threshold(self) -> Self:
        if (self.rule == "threshold") != (self.threshold is not None):
            raise config.fault("threshold: belongs to rule 'threshold', and to no other", "threshold")
        return self


class JudgeYaml(_TaskSection):
    kind: Literal["batch", "communication", "two-steps"] = "batch"
    input_file: Plain = ""
    output_file: Plain = ""
    source: Stem = ""
    entry: Stem = ""
    processes: int | None = Field(default=None, ge=1, le=PROCESSES)
    io: Literal["fifo", "std"] | None = None
    writes_first: bool = False
    define: Stem = ""
    before: str = Field(default="", max_length=2000, pattern=r"^[^\x00]*$")
    show_source: bool = False
    subtasks: list[SubtaskSection] = Field(default_factory=list, max_length=SUBTASKS)

    @model_validator(mode="after")
    def _belongs(self) -> Self:
        talks = self.kind == "communication"
        for key, kind, misplaced in (
            ("processes", "communication", not talks and self.processes is not None),
            ("io", "communication", not talks and self.io is not None),
            ("writes_first", "communication", not talks and self.writes_first),
            ("input_file", "batch", self.kind != "batch" and bool(self.input_file)),
            ("output_file", "batch", self.kind != "batch" and bool(self.output_file)),
        ):
            if misplaced:
                raise config.fault(f"{key}: belongs to kind '{kind}'; this task is of kind '{self.kind}'", key)
        if self.input_file and self.input_file == self.output_file:
            raise config.fault("output_file: is the input_file as well; a program needs two names", "output_file")
        return self


def read_task(
    tree: Tree,
    fields: Mapping[str, Any],
    table: Mapping[str, Language],
    manager: Callable[[], ProblemProgram | None],
) -> IoiTask | None:
    """Read judge.yaml; None when there is none. PackageError with one sentence.

    `fields` are those of the manifest that have been read, `manager` reads the program of the folder of that name.
    """
    has_manager = tree.below(MANAGER)
    if JUDGE_YAML not in tree.files:
        if has_manager:
            msg = f"is a manager, but there is no {JUDGE_YAML} that says what it does"
            raise PackageError(f"{tree.where(has_manager[0])}: {msg}")
        return None
    where = tree.where(JUDGE_YAML)
    if fields.get("format") in LEGACY:
        raise PackageError(f"{where}: belongs to packages of format 2025-09; this one says {fields['format']}")
    task = metadata.parse(JudgeYaml, tree.read(JUDGE_YAML, metadata.YAML_BYTES), where)
    _check_types(task, fields["type"], where, validated=bool(fields["validators"]))
    _check_entry(task, fields["include"], table, where)
    talks = task.kind == "communication"
    if has_manager and not talks:
        msg = f"is a manager, but {JUDGE_YAML} says kind: {task.kind}; say communication, or remove it"
        raise PackageError(f"{tree.where(has_manager[0])}: {msg}")
    program = manager() if talks else None
    if talks and program is None:
        raise PackageError(f"{where}: kind: communication needs a manager; expected a program in the folder {MANAGER}/")
    return IoiTask(
        **task.model_dump(exclude={"processes", "io", "subtasks"}),
        processes={"batch": 1, "two-steps": 2}.get(task.kind, task.processes or 1),
        io=task.io or "fifo",
        manager=program,
        subtasks=_subtasks(task, [test.name for test in fields["tests"]], where),
    )


def _check_types(task: JudgeYaml, types: Collection[ProblemType], where: str, *, validated: bool) -> None:
    unsuitable = [kind for kind in types if kind.traits.needs_validator or not kind.traits.has_program]
    if unsuitable and (task.kind != "batch" or task.input_file or task.output_file):
        key = "kind" if task.kind != "batch" else ("input_file" if task.input_file else "output_file")
        raise PackageError(f"{where}: {key}: a problem of type {unsuitable[0]} cannot have it")
    if task.kind == "communication" and validated:
        raise PackageError(f"{where}: kind: a communication task's manager decides; remove the output validator")
    if task.show_source and not validated:
        msg = "show_source: is for an output validator; add one in output_validator/, or leave it out"
        raise PackageError(f"{where}: {msg}")
    if task.subtasks and not together(types).has_score:
        raise PackageError(f"{where}: subtasks: are for scoring problems; say type: scoring in problem.yaml")


def _check_entry(
    task: JudgeYaml, include: Mapping[str, Collection[str]], table: Mapping[str, Language], where: str
) -> None:
    if task.entry and not any(entry_of(task.entry, files, table.get(language)) for language, files in include.items()):
        msg = f"entry: no language's folder in include/ has a file '{task.entry}' with a suffix of that language"
        raise PackageError(f"{where}: {msg}")


def entry_of(stem: str, files: Collection[str], language: Language | None) -> str | None:
    """The included file that starts a program in this language, None when it has none."""
    suffixes = [*language.suffixes, *language.sources] if language is not None else []
    return next((name for name in sorted(files) if name in {stem + suffix for suffix in suffixes}), None)


def _subtasks(task: JudgeYaml, tests: Sequence[str], where: str) -> list[Subtask]:
    subtasks: list[Subtask] = []
    members = patterns = 0
    known_tests = frozenset(tests)
    for number, subtask in enumerate(task.subtasks):
        selected: dict[str, None] = {}
        for pattern in subtask.tests:
            wild = any(mark in pattern for mark in "*?[")
            patterns += wild
            if patterns > PATTERNS:
                raise PackageError(f"{where}: subtasks: have more than {PATTERNS} names with * or ?; join some")
            matching = fnmatch.filter(tests, pattern) if wild else [pattern] * (pattern in known_tests)
            if not matching:
                raise PackageError(f"{where}: subtasks.{number}.tests: no test is called '{pattern[:80]}'")
            selected.update(dict.fromkeys(matching))
        members += len(selected)
        if members > MEMBERS:
            raise PackageError(f"{where}: subtasks: have more than {MEMBERS} tests together; join some")
        name = subtask.name or f"subtask {number + 1}"
        if any(name == previous.name for previous in subtasks):
            raise PackageError(f"{where}: subtasks.{number}.name: '{name}' is the name of two subtasks; rename one")
        order = [test for test in tests if test in selected]
        subtasks.append(Subtask(**subtask.model_dump(exclude={"name", "tests"}), name=name, tests=order))
    return subtasks
