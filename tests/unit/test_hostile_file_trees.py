"""Submissions choose names, sizes and numbers of files: every choice is a program, or one sentence that refuses it."""

import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.common.errors import UnfitError
from judge.executor.slot.program import Program, plan
from judge.languages.table import load_table
from judge.model.messages import Limits, RunOptions, SourceFile, Submission
from judge.model.names import name_fault
from judge.model.problem import IoiTask
from judge.sandbox.agent import MAX_PACKET, encoded_command
from judge.sandbox.types import Command

TABLE = load_table()
LIMITS = Limits()
SUFFIXES = sorted({suffix for row in TABLE.values() for suffix in [*row.suffixes, *row.sources]})
# Names of packages, compilers and validators among them.
STEMS = ["a", "b", "lib", "run", "Main", "Main.class", "steps.h", "grader", "include", "answers", "judge", "out", "é"]
PART = st.builds(str.__add__, st.sampled_from(STEMS), st.sampled_from(["", *SUFFIXES, ".class", ".h"]))
NAME = st.lists(PART, min_size=1, max_size=3).map("/".join).filter(lambda name: not name_fault(name))
TREE = st.dictionaries(NAME, st.binary(max_size=20), min_size=1, max_size=6)
TASKS = [
    None,
    IoiTask(kind="two-steps", processes=2, entry="grader"),
    IoiTask(kind="batch", source="a", before="#define X"),
]


def submission(files: dict[str, bytes], **fields: object) -> Submission:
    return Submission(files=[SourceFile.of(name, data) for name, data in files.items()], **fields)


def planned(upload: Submission, include=None, task: IoiTask | None = None) -> tuple[Program | None, str]:
    try:
        return plan(upload, LIMITS, TABLE, include, task), ""
    except UnfitError as exc:
        return None, str(exc)


def lay(names) -> None:
    """What file systems say: FileExistsError for a file at the place of a folder or the other way round."""
    folders, files = set(), set()
    for name in names:
        parts = name.split("/")
        above = {"/".join(parts[:count]) for count in range(1, len(parts))}
        if above & files or name in folders | files:
            raise FileExistsError(name)
        folders |= above
        files.add(name)


@settings(max_examples=400, deadline=None)
@given(
    language=st.sampled_from([*sorted(TABLE), None]),
    own=TREE,
    include=st.one_of(st.just({}), TREE),
    task=st.sampled_from(TASKS),
    entry=st.sampled_from(["", "first", "a", "Main"]),
    alone=st.booleans(),
)
def test_every_tree_is_a_program_or_a_refusal(language, own, include, task, entry, alone):
    entry_name = {"": None, "first": next(iter(own))}.get(entry, entry)
    fields = {"language": language} if language else {"command": "./run", "compile": "make"}
    upload = submission(own, entry=entry_name, options=RunOptions(alone=alone), **fields)
    program, refusal = planned(upload, include, task)
    if program is None:
        assert "rename your" in refusal
        if task is None and not (len(own) == 1 and language):  # else the judge has renamed files
            with pytest.raises(FileExistsError):
                lay({**own, **include})
        return
    lay(program.files)
    for argv in (program.compile, program.run):
        if argv:
            encoded_command(Command(argv, LIMITS, program.env, cwd=program.cwd))


@pytest.mark.parametrize(
    ("own", "include"),
    [
        (["steps.h/a.cpp", "b.cpp"], ["steps.h"]),
        (["lib", "b.cpp"], ["lib/x.h"]),
        (["x/y/z/a.cpp", "b.cpp"], ["x/y"]),
        (["x", "b.cpp"], ["x/y/z.h"]),
        (["a.cpp", "a.cpp/b.cpp"], []),
    ],
)
@pytest.mark.parametrize("language", ["cpp", "java", "python3", "rust", None])
def test_a_name_that_is_a_file_and_a_folder_is_refused_by_name(own, include, language):
    if language is None:  # a command goes with no files of a package
        program, refusal = planned(submission(dict.fromkeys([*own, *include], b"x"), command="true"))
    else:
        program, refusal = planned(
            submission(dict.fromkeys(own, b"x"), language=language), dict.fromkeys(include, b"y")
        )
    assert program is None
    assert refusal.endswith(("rename your file", "rename your folder"))


@functools.cache
def long_names(count: int, suffix: str) -> dict[str, bytes]:
    return {f"{'d' * 120}/{number:04}{'n' * 120}{suffix}": b"" for number in range(count)}


@pytest.mark.parametrize("language", sorted(TABLE))
def test_a_thousand_long_names_are_a_program_or_a_sentence(language):
    row = TABLE[language]
    suffix = (row.suffixes or row.sources or [".txt"])[0]
    program, refusal = planned(submission(long_names(1000, suffix), language=language))
    if program is None:
        assert "use fewer files, or shorter names" in refusal
        return
    for argv in (program.compile or [], program.run):
        assert len(encoded_command(Command(argv or ["x"], LIMITS, program.env))) < MAX_PACKET - 30_000


@given(st.text(max_size=300))
def test_a_source_beside_a_command_has_a_plain_name(filename):
    upload = Submission(command="true", source="x", filename=filename[:255])
    (name,) = plan(upload, LIMITS, TABLE).files
    assert "/" not in name
    assert not name_fault(name)
