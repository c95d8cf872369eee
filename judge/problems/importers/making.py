"""Files of a package that its own programs have yet to make: inputs by generators, answers by its main solution.

An importer only says what is to be made, and how: a `Plan`, which UnmadeError carries. `judge/ctl/problem/making.py`
has it done in the sandbox of an executor, and converts again with what was made in the tree (`Asked.made`).
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from judge.common.errors import PackageError
from judge.common.text import several
from judge.languages import table
from judge.problems.importers import ioi, testlib
from judge.problems.importers.draft import Content, Draft, MadeFiles, Ref, read
from judge.problems.tree import CHUNK, Tree, clean

# So many tests are made for one package, and so many arguments has one program.
MOST = 5000
_MOST_ARGUMENTS, _WORD_BYTES = 200, 4096
# The key of the program that makes answers.
SOLUTION = "solution"
_CPP = (".cpp", ".cc", ".cxx", ".c++")
# The memory that programs are told of whose languages want to know it: less than making has.
_MEMORY = 1024**3


@dataclass(frozen=True)
class PackageProgram:
    """A program of the package: its files, the shell command that builds it in their folder ("": nothing is built).

    `run` are the words that start it; `{}/` at the beginning of one is the folder. `name` is for people. `compile` are
    the words of another command that builds it; in them, and in those of `run`, `/box` is the folder wherever it is.
    `language` is its row of the table, and `needs` are files that this one needs beyond what every executor has.
    """

    name: str
    files: Mapping[str, Content]
    build: str
    run: tuple[str, ...]
    compile: tuple[str, ...] = ()
    language: str = ""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class MakingStep:
    """One run. `program` is a key of the plan's programs, `output` the file of the package that it makes.

    The file `input` of the package is its standard input (`""`: nothing is), or lies in its working directory as
    `input_name`. What it makes is its standard output, or the file `output_name` there; `errors` is made of its
    standard error. `stem`: a file of that name with `.in` takes the place of what it prints, and `answer` is made of
    one with `.ans`; where it leaves none, `unmade_reason` says what becomes of it. `spare`: it only makes what is
    not there by then. `talks_to`: a program that it talks to in place of that, called `PROGRAM INPUT RECORD ANSWER`;
    its record is the output. `before` and `after` are files of the package around what it makes, in which every CR LF
    becomes LF where `unix` says so. `two_steps`: it runs twice side by side, with the arguments `0 PIPE` and `1 PIPE`;
    the first has the input, the second what the first writes into the pipe, and what that one prints is the output.
    """

    program: str
    output: str
    args: tuple[str, ...] = ()
    input: str = ""
    input_name: str = ""
    output_name: str = ""
    errors: str = ""
    stem: str = ""
    answer: str = ""
    unmade_reason: Literal["later", "empty", "refused"] = "later"
    spare: bool = False
    talks_to: str = ""
    two_steps: bool = False
    before: str = ""
    after: str = ""
    unix: bool = False

    @property
    def products(self) -> tuple[str, ...]:
        """The files that it makes."""
        return tuple(path for path in (self.output, self.errors, self.answer) if path)


@dataclass
class Plan:
    """The plan of what is to be made. Each of `tests` has one test's steps, in order; no test needs what others make.

    `copies` are files of the package under other names, or several one behind the other with every CR LF as LF;
    `texts` are small files, which go before copies of their names. Neither needs a program. `notes` are told with the
    conversion (True: carried over).
    """

    tree: Tree
    programs: dict[str, PackageProgram] = field(default_factory=dict)
    tests: list[tuple[MakingStep, ...]] = field(default_factory=list)
    copies: dict[str, str | tuple[str, ...]] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)
    notes: list[tuple[bool, str]] = field(default_factory=list)

    def program(self, draft: Draft, key: str, source: testlib.ProgramSource) -> str:
        """Have a program, once for each key, which is returned; PackageError for a language that is not known here."""
        if key not in self.programs:
            before = len(draft.report.losses)
            self.programs[key] = program(draft, source)
            self.notes += [(False, line) for line in draft.report.losses[before:]]
        return key

    def solution(self, draft: Draft, source: testlib.ProgramSource) -> str:
        """Have the program that makes the answers, with the graders that the draft has for it; its key."""
        suffix = posixpath.splitext(source.ref.path)[1].lower()
        language = "c" if suffix == ".c" else table.guess(source.ref.path, table.load_table()) or ""
        companions = sorted(path for path in draft.files if path.startswith(f"include/{language}/"))
        companion_refs = tuple(content for path in companions if isinstance(content := draft.files[path], Ref))
        if companion_refs and language not in {"c", "cpp"}:
            msg = "is to make answers beside a grader, which is only done in C and C++; make them first"
            raise PackageError(f"{source.ref.where}: {msg}")
        return self.program(draft, SOLUTION, replace(source, more=(*source.more, *companion_refs)))

    def add(self, *steps: MakingStep) -> None:
        """Have one more test; PackageError when there are too many."""
        if steps:
            self.tests.append(steps)
        if len(self.tests) > MOST:
            raise PackageError(f"{self.tree.label}: has more than {MOST} tests to be generated; remove some")

    def size(self, path: str) -> int:
        """Bytes of a file that no program makes, under the name that it will have; 0 for one that is to be made."""
        return (
            len(self.texts[path])
            if path in self.texts
            else sum(self.tree.files.get(part, 0) for part in self._of(path))
        )

    def read(self, path: str) -> bytes:
        """The content of such a file."""
        if path in self.texts:
            return self.texts[path]
        joined = isinstance(self.copies.get(path), tuple)
        data = b"".join(chunk for part in self._of(path) for chunk in self.tree.chunks(part))
        return data.replace(b"\r\n", b"\n") if joined else data

    def _of(self, path: str) -> tuple[str, ...]:
        """The files of the package that a file is made of."""
        source = self.copies.get(path, path)
        return (source,) if isinstance(source, str) else source

    def refuse(self, message: str) -> UnmadeError:
        """The error to raise: `message` says what is missing."""
        steps = [step for test in self.tests for step in test]
        for half, matches in (
            ("input", [step for step in steps if step.program != SOLUTION]),
            ("answer", [step for step in steps if step.program == SOLUTION]),
        ):
            names = ", ".join(sorted({self.programs[step.program].name for step in matches}))
            if matches:
                self.notes.append((True, f"{several(len(matches), half)} made at import by {clean(names, 200)}"))
        return UnmadeError(message, self)

    def close(self) -> None:
        """Close the package's tree, which a plan keeps open."""
        self.tree.close()

    def stand_ins(self) -> MadeFiles:
        """Empty files in place of all that is to be made: for looking at everything else in the package."""
        empty = {path: b"" for test in self.tests for step in test for path in step.products}
        return MadeFiles({**empty, **self.copies, **self.texts}, tuple(self.notes), stand_ins=True)

    def products(self, files: Mapping[str, Path]) -> MadeFiles:
        """The outcome, with all that needs no program."""
        return MadeFiles({**files, **self.copies, **self.texts}, tuple(self.notes))


class UnmadeError(PackageError):
    """A package whose tests are still to be made, as the plan says; who catches this closes the plan."""

    def __init__(self, message: str, plan: Plan) -> None:
        """`message` says which and by what; what can be done about it is added."""
        super().__init__(f"{message}; 'judgectl problem import' has them made by an executor")
        self.plan = plan
        self.message = message


class MadeTree(Tree):
    """A tree with files that were made for it."""

    def __init__(self, base: Tree, products: MadeFiles) -> None:
        """Made files take the place of the tree's own; PackageError when all together pass a tree's limits."""
        super().__init__(base.label)
        self._base = base
        self._products = products.files
        self.resources, self.links, self.linked_paths = base.resources, base.links, base.linked_paths
        self.left_out = base.left_out
        for path, size in base.files.items():
            if path not in products.files:
                self._take(path, size)
        for path, content in products.files.items():
            self._take(path, self._size(path, content))

    def _size(self, path: str, content: Path | bytes | str | tuple[str, ...]) -> int:
        if isinstance(content, bytes):
            return len(content)
        if isinstance(content, tuple):
            return sum(map(len, self._joined(content)))
        if isinstance(content, Path):
            return content.stat().st_size
        if content not in self._base.files:
            raise PackageError(f"{self._base.where(content)}: is to be {clean(path, 60)}, but is not in the package")
        return self._base.files[content]

    def chunks(self, path: str) -> Iterator[bytes]:
        """The content in pieces, wherever it is."""
        content = self._products.get(path, path)
        if isinstance(content, str):
            yield from self._base.chunks(content)
            return
        if isinstance(content, tuple):
            yield from self._joined(content)
            return
        if isinstance(content, bytes):
            yield content
            return
        with content.open("rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk

    def _joined(self, paths: tuple[str, ...]) -> Iterator[bytes]:
        """Files of the package one behind the other, with every CR LF as LF."""
        buffer = b""
        for chunk in (chunk for path in paths for chunk in self._base.chunks(path)):
            piece = buffer + chunk
            buffer = b"\r" if piece.endswith(b"\r") else b""
            yield piece.removesuffix(buffer).replace(b"\r\n", b"\n")
        yield buffer

    def local(self, path: str) -> Path | None:
        """The place of the file on this machine, if it is there."""
        content = self._products.get(path, path)
        if isinstance(content, str):
            return self._base.local(content)
        return content if isinstance(content, Path) else None

    def close(self) -> None:
        """Close what it was made of."""
        self._base.close()

    def _enter(self, top: str) -> None:
        raise NotImplementedError


def arguments_of(command: str, where: str) -> list[str]:
    """The words of a command line, as a shell has them; nothing in it is done by one. PackageError."""
    try:
        parts = shlex.split(command)
    except ValueError as exc:
        raise PackageError(f"{where}: '{clean(command, 60)}' is no command: {exc}") from None
    if (
        not parts
        or len(parts) > _MOST_ARGUMENTS
        or any(len(word.encode()) > _WORD_BYTES or "\0" in word for word in parts)
    ):
        raise PackageError(f"{where}: '{clean(command, 60)}' is no command of 1 to {_MOST_ARGUMENTS} words")
    return parts


def program(draft: Draft, source: testlib.ProgramSource) -> PackageProgram:
    """A generator or solution that is run to make tests; PackageError for one in a language that is not known here."""
    ref = source.ref
    suffix = posixpath.splitext(ref.path)[1].lower()
    plain = posixpath.basename(ref.path)
    if suffix in (*_CPP, ".c"):
        return _compiled(draft, source, suffix)
    companions = {posixpath.basename(file.path): file for file in source.more}
    files: dict[str, Content] = {**dict(testlib.modules(ref)), **companions, plain: ref}
    quoted, target = shlex.quote(plain), "{}/" + plain
    if suffix == ".py":
        return PackageProgram(ref.path, files, "", ("python3", target), language="python3")
    if suffix == ".java":
        return PackageProgram(ref.path, files, "", ("java", "-Xmx1g", "-Xss64m", target), language="java")
    if suffix == ".sh":
        return PackageProgram(ref.path, files, "", ("sh", target), language="sh")
    if suffix in {".pas", ".dpr"}:
        word = "-dEVAL " if _asks_eval(draft, files) else ""
        return PackageProgram(
            ref.path, files, f"fpc -l- -v0 -O2 {word}-oprogram {quoted}", ("{}/program",), (), "pascal"
        )
    return _of_table(ref, files)


def _of_table(ref: Ref, files: Mapping[str, Content]) -> PackageProgram:
    """A program in another language of the table, built and run as submissions are, in its folder in place of /box."""
    rows = table.load_table()
    language = table.guess(ref.path, rows)
    if language is None:
        raise PackageError(f"{ref.where}: is to make tests, and in a language that is not known here; make them first")
    row, plain = rows[language], posixpath.basename(ref.path)
    commands = row.plan_files({name: read(content) for name, content in files.items()}, _MEMORY, entry=plain)
    env = ("env", *(f"{name}={value}" for name, value in commands.env.items())) if commands.env else ()
    compiled = (*env, *commands.compile) if commands.compile else ()
    return PackageProgram(ref.path, files, "", (*env, *commands.run), compiled, language, tuple(sorted(row.programs())))


def _compiled(draft: Draft, source: testlib.ProgramSource, suffix: str) -> PackageProgram:
    """A program in C or C++, with what it includes and what is compiled with it."""
    name = "program" + suffix
    files: dict[str, Content] = {name: testlib.flat(source.ref)}
    units = [name]
    for ref in source.more:
        plain = posixpath.basename(ref.path)
        if plain.lower().endswith((*_CPP, ".c")):
            plain = f"with_{plain}"
            units.append(shlex.quote(plain))
        files.setdefault(plain, ref)
    for file in (source.ref, *source.more):
        for include, content in testlib.included(draft, file):
            files.setdefault(include, content)
    word = "-DEVAL " if _asks_eval(draft, files) else ""
    if suffix == ".c":
        build = f"cc -std=gnu11 -O2 -w {word}-o program {' '.join(units)} -lm"
    else:
        build = f"c++ -std=gnu++{source.standard} -O2 -w -fpermissive {word}-o program {' '.join(units)}"
    return PackageProgram(source.ref.path, files, build, ("{}/program",), language="c" if suffix == ".c" else "cpp")


def _asks_eval(draft: Draft, files: Mapping[str, Content]) -> bool:
    """Whether some source is written for the Contest Management System, which defines EVAL, and is from there."""
    return draft.report.origin in ioi.DEFINING and any(
        ioi.asks_eval(read(content)) for name, content in files.items() if name != "testlib.h"
    )
