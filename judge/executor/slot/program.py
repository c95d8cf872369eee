"""Builds and starts programs inside a sandbox: submissions, plain commands, and a package's own programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from judge.common.errors import UnfitError, UsageError
from judge.languages.sources import is_source, name_conflict, with_own_name
from judge.languages.table import BOX, PATH, CommandPlan, HeapSign, Language, include_folder
from judge.model.messages import Limits, RunOptions, Submission
from judge.model.names import name_fault
from judge.model.problem import IoiTask, ProblemManifest, ProblemProgram
from judge.problems.task import entry_of
from judge.sandbox.agent import MAX_PACKET, MAX_STRINGS, encoded
from judge.sandbox.types import RunOutcome

COMMAND_SOURCE = "source"
# The directory that a program may write to if it looks for a home; a language's row may name another place.
HOME = "/tmp"  # noqa: S108 - the sandbox's own
NAME_BYTES = 255
_DEFINED = "ONLINE_JUDGE"
# The languages in whose sources `IoiTask.before` stands.
_PRECEDED = frozenset({"c", "cpp"})
_HANDED = "Submission"
_BOM = b"\xef\xbb\xbf"
# Bytes and words that a program's command leaves for a test's arguments and a validator's flags.
_SPARE_BYTES, _SPARE_WORDS = 32 * 1024, 1024
_MERGED = ("/bin/sh", "-c", 'exec "$@" 2>&1', "sh")


def shorter(limits: Limits, seconds: float) -> Limits:
    """The limits of a run that is to end after `seconds` at the latest."""
    return limits if limits.wall_seconds <= seconds else limits.model_copy(update={"wall": max(seconds, 0.01)})


@dataclass(frozen=True)
class Program:
    """The commands that build and start one program inside the sandbox, whatever kind it is.

    `products` are the files below /box that compiling must make; `needs_main`: some source must have a `main`.
    `renamed`: the name of the only source there, and its author's for it.
    """

    files: Mapping[str, bytes]
    compile: Sequence[str] | None
    run: Sequence[str]
    env: Mapping[str, str]
    limits: Limits
    cwd: str = "/scratch"
    heap: HeapSign | None = None
    executables: frozenset[str] = field(default_factory=frozenset)
    products: tuple[str, ...] = ()
    needs_main: bool = False
    renamed: tuple[str, str] | None = None

    def named(self, log: str) -> str:
        """What a compiler says, with the author's name of the only source."""
        return log if self.renamed is None else with_own_name(log, *self.renamed)

    def heap_full(self, outcome: RunOutcome) -> bool:
        """Return whether this program's runtime reports that it found no more memory; its outputs are still open."""
        sign = self.heap
        return sign is not None and sign.seen(outcome.exit_code, outcome.memory, outcome.stdout, outcome.stderr)


def plan(
    submission: Submission,
    limits: Limits,
    table: Mapping[str, Language],
    include: Mapping[str, bytes] | None = None,
    task: IoiTask | None = None,
) -> Program:
    """The program of a submission: by its language, or its own shell commands (the seed's plain task).

    `include` are the package's files that go with it; they take the place of the submission's own of the same name, as
    the format says. With graders (`task.entry`) one of them is started. Raises UsageError for a language that is not in
    the table, UnfitError for files that cannot lie in one directory and for a command that no sandbox takes.
    """
    program = _plan(submission, limits, table, include or {}, task)
    conflict = name_conflict(program.files, include or {})
    if conflict is not None:
        raise UnfitError(f"'{conflict[0]}' {conflict[1]}")
    _check_command(program)
    return program


def _plan(
    submission: Submission,
    limits: Limits,
    table: Mapping[str, Language],
    include: Mapping[str, bytes],
    task: IoiTask | None,
) -> Program:
    options = submission.options or RunOptions()
    if submission.command is not None:
        return Program(
            files=_files_beside_command(submission),
            compile=["/bin/sh", "-c", submission.compile] if submission.compile else None,
            run=_started(["/bin/sh", "-c", submission.command], options),
            env={"PATH": PATH, "HOME": HOME},
            limits=limits,
            cwd="/box",
        )
    language = _language(submission.language or "", table)
    own_files, entry = _own_files(submission, language)
    if task is not None:
        own_files, entry = _graded(own_files, entry, include, language, task)
    name = submission.files[0].name if submission.files else submission.filename
    renamed = (next(iter(own_files)), name) if len(own_files) == 1 and name and not name_fault(name) else None
    files = {**own_files, **include}
    commands = language.plan_files(files, limits.memory, entry, options)
    return Program(
        files=files,
        compile=_with_word(commands.compile, task.define if task is not None else ""),
        run=_started(commands.run, options),
        env={"PATH": PATH, "HOME": HOME, **commands.env},
        limits=language.limits(limits),
        heap=language.heap_sign(limits.memory),
        products=_products(language, commands, files),
        needs_main=language.entry != "file",
        renamed=renamed,
    )


def _products(language: Language, commands: CommandPlan, files: Mapping[str, bytes]) -> tuple[str, ...]:
    """The files below /box that the command of a run names and only compiling can make."""
    if commands.compile is None:
        return ()
    paths = [word.removeprefix(f"{BOX}/") for word in commands.run if word.startswith(f"{BOX}/")]
    if language.entry == "class" and commands.run[-1:] == [commands.entry] and BOX in commands.run:
        paths.append(f"{commands.entry.replace('.', '/')}.class")
    folders = {str(folder) for name in files for folder in PurePosixPath(name).parents}
    return tuple(name for name in paths if name not in files and name not in folders)


def _check_command(program: Program) -> None:
    """UnfitError for a command that is too long, as the names of very many files make it."""
    environment = [f"{key}={value}" for key, value in program.env.items()]
    for arguments in (program.compile or (), program.run):
        size = len(encoded([*arguments, *environment]))
        if size > MAX_PACKET - _SPARE_BYTES or len(arguments) + len(environment) > MAX_STRINGS - _SPARE_WORDS:
            raise UnfitError(
                f"the program's command has {size} bytes, the limit is {MAX_PACKET - _SPARE_BYTES}: the names of its "
                "files are in it; use fewer files, or shorter names"
            )


def _with_word(command: Sequence[str] | None, word: str) -> Sequence[str] | None:
    """A compiler's command with a word defined as ONLINE_JUDGE is."""
    if command is None or not word:
        return command
    return [
        part
        for argument in command
        for part in ([argument.replace(_DEFINED, word), argument] if argument.endswith(_DEFINED) else [argument])
    ]


def _started(run: Sequence[str], options: RunOptions) -> Sequence[str]:
    return [*_MERGED, *run] if options.merged else run


def _files_beside_command(submission: Submission) -> dict[str, bytes]:
    if submission.files:
        return {file.name: file.data for file in submission.files}
    name = Path(submission.filename or COMMAND_SOURCE).name
    if name_fault(name):
        name = COMMAND_SOURCE
    source = submission.source
    return {} if source is None else {name: source.encode("utf-8", "replace")}


def _own_files(submission: Submission, language: Language) -> tuple[dict[str, bytes], str | None]:
    """A submission's files by their names in `/box`, and what is to be started.

    A single file gets the judge's name, unless the submission says that it is started under its own.
    """
    files, entry = submission.files, submission.entry
    if len(files) > 1:
        return {file.name: file.data for file in files}, entry
    name = files[0].name if files else submission.filename
    data = files[0].data if files else (submission.source or "").encode("utf-8", "replace")
    if name and entry == name and language.entry == "file" and is_source(name, language) and not name_fault(name):
        return {name: data}, entry
    file_name = language.own_name(data.decode("utf-8", "replace"), name)
    return {file_name: data}, None if entry == name else entry


def _graded(
    own_files: dict[str, bytes], entry: str | None, include: Mapping[str, bytes], language: Language, task: IoiTask
) -> tuple[dict[str, bytes], str | None]:
    """The same beside graders: they know a single file by the task's name, and one of them is started.

    What stands before sources leaves them their line numbers, for what compilers say.
    """
    if task.before and language.family in _PRECEDED:
        head = f"{task.before.rstrip()}\n#line 1\n".encode()
        own_files = {
            name: head + data.removeprefix(_BOM) if is_source(name, language) else data
            for name, data in own_files.items()
        }
    name = next(iter(own_files)) if len(own_files) == 1 else ""
    if language.entry != "file" and name in include:
        # Its class is not public, and called by default as the grader is.
        own_files = {(task.source or _HANDED) + PurePosixPath(name).suffix: own_files[name]}
    elif task.source and name and language.entry == "file":
        data = own_files[name]
        own_files = {task.source + PurePosixPath(name).suffix: data}
        entry = None if entry == name else entry
    return own_files, entry_of(task.entry, include, language) or entry


def included(
    manifest: ProblemManifest, language: str | None, files: Mapping[str, str], table: Mapping[str, Language]
) -> dict[str, bytes]:
    """The files of the package that go with a submission in this language; `files` are the blobs' local paths."""
    names = manifest.include.get(include_folder(manifest.include, language, table), {})
    return {name: Path(files[sha]).read_bytes() for name, sha in names.items()}


def plan_program(
    program: ProblemProgram, contents: Mapping[str, bytes], table: Mapping[str, Language], limits: Limits
) -> Program:
    """The program of a package, to build and start; `contents` are its files, `limits` those of its runs.

    Raises UsageError when this executor lacks what it needs.
    """
    if program.language is None:
        build = ["/bin/sh", "-c", "if [ -e ./build ]; then ./build; fi && test -x ./run"]
        scripts = frozenset(name for name, data in contents.items() if data.startswith(b"#!")) | {"build", "run"}
        return Program(contents, build, [f"{BOX}/run"], {"PATH": PATH}, limits, executables=scripts)
    language = _language(program.language, table)
    missing = [head for head in language.programs() if not Path(head).exists()]
    if missing:
        raise UsageError(f"the problem's {program.name} needs '{missing[0]}', which this executor does not have")
    files, main = dict(contents), program.main
    if language.entry == "class" and sum(is_source(name, language) for name in files) == 1:
        main = language.own_name(files[main].decode("utf-8", "replace"), main)
        files[main] = files.pop(program.main)
    commands = language.plan_files(files, limits.memory, main)
    env = {"PATH": PATH, **commands.env}
    return Program(
        files=files,
        compile=commands.compile,
        run=commands.run,
        env=env,
        limits=language.limits(limits),
        heap=language.heap_sign(limits.memory),
        products=_products(language, commands, files),
        needs_main=language.entry != "file",
    )


def _language(name: str, table: Mapping[str, Language]) -> Language:
    language = table.get(name)
    if language is None:
        raise UsageError(f"language '{name}' is not in this executor's table")
    return language
