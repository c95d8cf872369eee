"""Files of a package that its own programs have yet to make: inputs by generators, answers by its main solution.

An importer only says what is to be made, and how: a `Plan`, which UnmadeError carries. `judge/ctl/problem/making.py`
has it done in the sandbox of an executor, and converts again with what was made in the tree (`ImporterWords.products`).
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
from judge.problems.importers import ioi, line_ends, testlib
from judge.problems.importers.draft import Content, Draft, MadeFiles, Overlay, Ref, read
from judge.problems.tree import Tree, clean

# So many tests are made for one package, and so many arguments has one program.
MOST = 5000
_MOST_ARGUMENTS, _WORD_BYTES = 200, 4096
# The key of the program that makes answers.
SOLUTION = "solution"
# Languages whose programs run as they are, and the words that start one.
_INTERPRETERS = {
    ".py": ("python3", "python3"), ".java": ("java", "java", "-Xmx1g", "-Xss64m"), ".sh": ("sh", "sh"),
}  # fmt: skip
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
        return tuple(path for path in (self.output, self.errors, self.answer) if path)


@dataclass
class Plan:
    """The plan of what is to be made. Each of `tests` has one test's steps, in order; no test needs what others make.

    `copies` are files of the package under other names, or several one behind the other with every CR LF as LF;
    `texts` are small files, which go before copies of their names. Neither needs a program. `repeats` are further
    names of files that programs make. `notes` are told with the conversion (True: carried over).
    """

    tree: Tree
    programs: dict[str, PackageProgram] = field(default_factory=dict)
    tests: list[tuple[MakingStep, ...]] = field(default_factory=list)
    copies: dict[str, str | tuple[str, ...]] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)
    repeats: dict[str, str] = field(default_factory=dict)
    notes: list[tuple[bool, str]] = field(default_factory=list)

    def program(self, draft: Draft, key: str, source: testlib.ProgramSource) -> str:
        """Have a program, once for each key, which is returned; PackageError for a language that is not known here."""
        if key not in self.programs:
            before = len(draft.report.losses)
            self.programs[key] = program(draft, source)
            self.notes += [(False, line) for line in draft.report.losses[before:]]
        return key

    def solution(self, draft: Draft, source: testlib.ProgramSource, key: str = SOLUTION) -> str:
        """Have a program that makes answers, with the graders that the draft has for it; its key."""
        suffix = posixpath.splitext(source.ref.path)[1].lower()
        language = "c" if suffix == ".c" else table.guess(source.ref.path, table.load_table()) or ""
        companions = sorted(path for path in draft.files if path.startswith(f"include/{language}/"))
        companion_refs = tuple(content for path in companions if isinstance(content := draft.files[path], Ref))
        if companion_refs and language not in {"c", "cpp"}:
            msg = "is to make answers beside a grader, which is only done in C and C++; make them first"
            raise PackageError(f"{source.ref.where}: {msg}")
        return self.program(draft, key, replace(source, more=(*source.more, *companion_refs)))

    def add(self, *steps: MakingStep) -> None:
        """Have one more test; PackageError when there are too many."""
        if steps:
            self.tests.append(steps)
        if len(self.tests) > MOST:
            raise PackageError(f"{self.tree.label}: has more than {MOST} tests to be generated; remove some")

    def size(self, path: str) -> int:
        """Bytes of a file that no program makes, under the name that it will have; 0 for one that is to be made."""
        if path in self.texts:
            return len(self.texts[path])
        return sum(self.tree.files.get(part, 0) for part in self._of(path))

    def read(self, path: str) -> bytes:
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
        for half in ("input", "answer"):
            # The key of a further solution begins with the same word.
            matches = [step for step in steps if (step.program.split(" ")[0] == SOLUTION) == (half == "answer")]
            names = ", ".join(sorted({self.programs[step.program].name for step in matches}))
            if matches:
                self.notes.append((True, f"{several(len(matches), half)} made at import by {clean(names, 200)}"))
        return UnmadeError(message, self)

    def close(self) -> None:
        self.tree.close()

    def stand_ins(self) -> MadeFiles:
        """Empty files in place of all that is to be made: for looking at everything else in the package."""
        products = [path for test in self.tests for step in test for path in step.products]
        empty = dict.fromkeys([*products, *self.repeats], b"")
        return MadeFiles({**empty, **self.copies, **self.texts}, tuple(self.notes), stand_ins=True)

    def products(self, files: Mapping[str, Path]) -> MadeFiles:
        """The outcome, with all that needs no program."""
        repeats = {path: files[product] for path, product in self.repeats.items()}
        return MadeFiles({**repeats, **files, **self.copies, **self.texts}, tuple(self.notes))


class UnmadeError(PackageError):
    """A package whose tests are still to be made, as the plan says; who catches this closes the plan."""

    def __init__(self, message: str, plan: Plan) -> None:
        """`message` says which and by what; what can be done about it is added."""
        super().__init__(f"{message}; 'judgectl problem import' has them made by an executor")
        self.plan = plan
        self.message = message


class MadeTree(Overlay):
    """A tree with files that were made for it, which take its own files' place. PackageError beyond a tree's limits."""

    def __init__(self, base: Tree, products: MadeFiles) -> None:
        super().__init__(base)
        self._joined = {path: content for path, content in products.files.items() if isinstance(content, tuple)}
        for path, size in base.files.items():
            if path not in products.files:
                self._take(path, size)
        for path, content in products.files.items():
            if isinstance(content, str):
                if content not in base.files:
                    raise PackageError(f"{base.where(content)}: is to be {clean(path, 60)}, but is not in the package")
                self._contents[path] = Ref(base, content)
            elif not isinstance(content, tuple):
                self._contents[path] = content
            self._take(path, self._size(path))

    def _size(self, path: str) -> int:
        if path in self._joined:
            return sum(map(len, self.chunks(path)))
        content = self._contents[path]
        if isinstance(content, Path):
            return content.stat().st_size
        return content.size if isinstance(content, Ref) else len(content)

    def chunks(self, path: str) -> Iterator[bytes]:
        if path not in self._joined:
            return super().chunks(path)
        return line_ends.unix(chunk for part in self._joined[path] for chunk in self._base.chunks(part))

    def local(self, path: str) -> Path | None:
        return None if path in self._joined else super().local(path)


def answer_step(
    draft: Draft, program: str, input_path: str, answer: str, *, talks_to: str = "", two_steps: bool = False
) -> MakingStep:
    """The step of a solution, which has files for input and output where submissions to the problem have them."""
    input_name, output_name = (draft.judge.get(key, "") for key in ("input_file", "output_file"))
    return MakingStep(program, answer, (), input_path, input_name, output_name, talks_to=talks_to, two_steps=two_steps)


def arguments_of(command: str, where: str) -> list[str]:
    """The words of a command line, as a shell has them; nothing in it is done by one. PackageError."""
    try:
        parts = shlex.split(command)
    except ValueError as exc:
        raise PackageError(f"{where}: '{clean(command, 60)}' is no command: {exc}") from exc
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
    if suffix in (*testlib.CPP, ".c"):
        return _compiled(draft, source, suffix)
    companions = {posixpath.basename(file.path): file for file in source.more}
    files: dict[str, Content] = {**dict(testlib.modules(ref)), **companions, plain: ref}
    quoted, target = shlex.quote(plain), "{}/" + plain
    if suffix in _INTERPRETERS:
        language, *words = _INTERPRETERS[suffix]
        return PackageProgram(ref.path, files, "", (*words, target), language=language)
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
    name = "program" + suffix
    files: dict[str, Content] = {name: testlib.flat(source.ref)}
    units = [name]
    for ref in source.more:
        plain = posixpath.basename(ref.path)
        if plain.lower().endswith((*testlib.CPP, ".c")):
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
