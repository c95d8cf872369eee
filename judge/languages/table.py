"""The table of languages: how each is compiled, run, limited and found on a machine (docs/languages.md).

`languages.yml` beside this module is the built-in table; an executor's `languages:` names a site's own, whose rows are
added to it. Everything a row says is data, so that a new language needs no code.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import signal
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from judge import config
from judge.common.errors import ConfigError
from judge.languages.entry import find_entry
from judge.languages.sources import EntryRules, choose
from judge.model.messages import LANGUAGES, Identifier, Limits, RunOptions
from judge.model.verdicts import Verdict

log = logging.getLogger(__name__)

BOX = "/box"
PATH = "/usr/local/bin:/usr/bin:/bin"
MIB = 1024**2

_BUILTIN = Path(__file__).with_name("languages.yml")
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_PLACEHOLDERS = frozenset({"source", "directory", "stem", "entry", "memory_mb", "limit_mb"})
# These are names that the submitter has chosen: in a text that a shell or an interpreter reads they would be code.
_NAMES = re.compile(r"\{(source|sources|directory|stem|entry)\}")
_CODE = re.compile(r"""[\s'"();|&<>$`\[\]]""")
_CODE_OPTION = re.compile(r"-[A-Za-z]*[ce]|--?(eval|exec|execute|command|run|print)")
# Programs whose `-c` is no code: they check or compile the file behind it.
_CHECKERS = re.compile(r".*/(perl|ruby|raku|gcc|g\+\+|clang|clang\+\+|swipl)[0-9.-]*")
# An argument of its own, which stands for several: the source that is started, and the others.
_SOURCES = "{sources}"
_BOX_FILE = re.compile(rf"{BOX}/([A-Za-z0-9_.+-]+)")
# Paths in the sandbox: a program whose real path lies elsewhere (a home directory, pyenv) could not be run there.
_VISIBLE = ("/usr/", "/bin/", "/lib/", "/lib64/")

Arguments = Annotated[list[str], Field(min_length=1)]
AbsolutePath = Annotated[str, StringConstraints(pattern=r"^/.*$")]
Alias = Annotated[str, StringConstraints(pattern=r"^\S(.{0,62}\S)?$")]
DebianPackage = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9+.-]+$")]
# Keys that a row that is like another has of its own; all else is the other's unless it is given.
_ROW_KEYS = ("name", "title", "aliases", "suffixes", "like", "words", "never")


class MemoryFull(config.Model):
    """A runtime's sign that it found no more memory, before the sandbox could see it: MLE in place of RTE.

    All that is given must hold of a run that failed: the exit code, the words at the end of standard output or standard
    error, and that the run has used at least this part of the problem's memory. Words alone are anybody's.
    """

    exit: int | None = Field(default=None, ge=1, le=255)
    words: str = Field(default="", max_length=200)
    near: float = Field(default=0.5, ge=0, le=1)

    @field_validator("words")
    @classmethod
    def _pattern(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as exc:
            raise ValueError(f"words: '{value[:60]}' is no regular expression: {exc}") from exc
        return value


class Language(EntryRules):
    """One row of the table. Memory in MiB, as in the file; times are factors; commands are argument lists."""

    name: str = ""
    title: str
    aliases: list[Alias] = Field(default_factory=list)
    family: str = ""
    packages: list[DebianPackage] = Field(default_factory=list)
    releases: list[Literal["bookworm", "trixie"]] = Field(default=["bookworm", "trixie"], min_length=1)
    like: Identifier | None = None
    words: dict[str, str] = Field(default_factory=dict)
    source_name: str = Field(default="", pattern=r"^((\{entry\}|[A-Za-z0-9_])[A-Za-z0-9._+-]*)?$")
    compile: Arguments | None = None
    compile_checks: bool = Field(
        default=False, description="compiling only checks the source; a run needs nothing of it"
    )
    compile_executes: bool = Field(
        default=True, description="compiling may execute code of the submission (macros, BEGIN, configuration files)"
    )
    compiler_options: bool = Field(default=False, description="people may give the compiler more arguments")
    run: list[str] = Field(default_factory=list)
    version_command: list[str] = Field(default_factory=list)
    requires: list[AbsolutePath] = Field(default_factory=list)
    cpu_multiplier: float = Field(default=1.0, gt=0, le=100)
    memory_extra: int = Field(default=0, ge=0, le=65536)
    processes_extra: int = Field(default=0, ge=0, le=4096)
    output_extra: int = Field(default=0, ge=0, le=1024)
    memory_full: MemoryFull | None = None
    env: dict[str, str] = Field(default_factory=dict)
    paths: list[AbsolutePath] = Field(default_factory=list)
    never: dict[Verdict, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        for field in ("source_name", "run", "version_command"):
            if self.like is None and not getattr(self, field):
                raise config.fault(f"{field}: is missing; only a row with 'like' has it from another", field)
        if self.words and self.like is None:
            raise config.fault("words: replace those of another row; say which with 'like'", "words")
        return self

    @model_validator(mode="after")
    def _placeholders(self) -> Self:
        for field in ("compile", "run"):
            for argument in getattr(self, field) or ():
                _check_placeholders(field, argument)
            _check_names(field, getattr(self, field) or [])
        for name, value in self.env.items():
            _check_placeholders(f"env.{name}", value)
        try:
            re.compile(self.entry_pattern)
        except re.error as exc:
            raise config.fault(f"entry_pattern: is no regular expression: {exc}", "entry_pattern") from exc
        if re.search(r"\\[snDSW]", self.entry_pattern):
            raise config.fault("entry_pattern: must stay within a line; write '[ \\t]' for blanks", "entry_pattern")
        if "{entry}" in self.source_name and self.entry != "class":
            raise config.fault("source_name: '{entry}' needs 'entry: class'", "source_name")
        return self

    def named(self, name: str, rows: Mapping[str, Language], source: str) -> Language:
        """The row under its name, with what it has from the row that it is like; ConfigError when there is none."""
        if self.like is None:
            return self.model_copy(update={"name": name, "family": self.family or name})
        base = rows.get(self.like)
        if base is None:
            raise ConfigError(f"{source}:1: '{name}' is like '{self.like}', which is no row before it")
        fields = {field: getattr(self, field) for field in (*_ROW_KEYS, *self.model_fields_set)}
        # Its files are called as the other's are, but for who has a suffix of its own.
        fields["sources"] = list(
            dict.fromkeys([*fields.get("sources", base.sources), *([] if self.suffixes else base.suffixes)])
        )
        row = base.model_copy(update={**fields, "name": name, "family": self.family or base.family})
        commands = {
            field: [self.words.get(word, word) for word in getattr(row, field) or ()] or None
            for field in ("compile", "run", "version_command")
        }
        return row.model_copy(update=commands)

    def own_name(self, source: str, filename: str | None) -> str:
        """The name in `/box` of the file of a program that has only one.

        `filename` is what the submitter called it; it never decides a path by itself.
        """
        stem = find_entry(source, filename)[0] if self.entry == "class" else ""
        return self.source_name.replace("{entry}", stem)

    def plan_files(
        self,
        files: Mapping[str, bytes],
        memory: int,
        entry: str | None = None,
        options: RunOptions | None = None,
    ) -> CommandPlan:
        """The commands that build and start a program of these files, which lie in `/box`.

        `memory` is the problem's limit in bytes, for runs, `entry` the file or class to start, where somebody has said,
        `options` what else a person wants of the compiler. The executor calls this once per submission, and takes its
        commands to the sandbox as they are.
        """
        options = options or RunOptions()
        choice = choose(files, self, entry)
        values = {
            "source": f"{BOX}/{choice.main}",
            "directory": f"{BOX}/{choice.main}".rpartition("/")[0],
            "stem": PurePosixPath(choice.main).stem,
            "entry": choice.entry,
            "memory_mb": str(max(1, memory // MIB)),
            "limit_mb": str(max(1, memory // MIB) + self.memory_extra),
        }
        sources = [f"{BOX}/{name}" for name in (choice.sources if not options.alone else [choice.main])]
        more = options.compiler if self.compiler_options else []
        command = None if options.unchecked and self.compile_checks else self.compile
        return CommandPlan(
            source_name=choice.main,
            entry=choice.entry,
            compile=_with_options(command, _fill(command, values, sources), more) if command else None,
            run=_fill(self.run, values, sources),
            env={name: _replace(value, values) for name, value in self.env.items()},
        )

    def outputs(self) -> set[str]:
        """The names in `/box` that its commands write: what a compiler makes. No file of a submission may have one."""
        return {match[1] for word in [*(self.compile or []), *self.run] for match in _BOX_FILE.finditer(word)}

    def limits(self, limits: Limits) -> Limits:
        """A problem's limits as this language gets them: more CPU time, memory and processes where its row says so."""
        return limits.model_copy(
            update={
                "cpu": limits.cpu * self.cpu_multiplier,
                "wall": limits.wall_seconds * self.cpu_multiplier,
                "memory": limits.memory + self.memory_extra * MIB,
                "processes": limits.processes + self.processes_extra,
                "output": limits.output + self.output_extra * MIB,
            }
        )

    def programs(self) -> list[str]:
        """The programs of the machine that compiling, running and asking for the version start."""
        heads = [command[0] for command in (self.compile, self.run, self.version_command) if command]
        return [head for head in dict.fromkeys([*heads, *self.requires]) if not head.startswith(BOX + "/")]

    def heap_sign(self, memory: int) -> HeapSign | None:
        """The sign of a full heap in runs whose problem allows `memory` bytes, without `memory_extra`."""
        full = self.memory_full
        if full is None:
            return None
        return HeapSign(full.exit, re.compile(full.words.encode()), round(memory * full.near))


@dataclass(frozen=True)
class CommandPlan:
    """One submission's commands inside the sandbox: the source that is started lies in `/box/<source_name>`.

    `entry` is the class that is started, or the source's name without suffix.
    """

    source_name: str
    entry: str
    compile: list[str] | None
    run: list[str]
    env: dict[str, str]


# So much of the end of standard output and standard error is looked at.
_LAST_WORDS = 4096


@dataclass(frozen=True)
class HeapSign:
    """The sign of one program's runtime that its heap is full (`MemoryFull`); `least` bytes must have been used."""

    exit: int | None
    words: re.Pattern[bytes]
    least: int

    def seen(self, exit_code: int | None, memory: int, *outputs: int) -> bool:
        """Return whether a run shows it: by exit code (None: a signal), peak memory, and descriptors of its outputs."""
        if exit_code == 0 or (self.exit is not None and exit_code != self.exit) or memory < self.least:
            return False
        tails = (os.pread(fd, _LAST_WORDS, max(0, os.fstat(fd).st_size - _LAST_WORDS)) for fd in outputs)
        return any(self.words.search(tail) for tail in tails)


class Names:
    """All names of one table: the rows' names, titles, suffixes, and the names that other judges have for them.

    A name is looked up without regard to case and spaces. An alias may hold a version: `*` stands for letters, digits
    and `. _ -`, and `(*)` for anything in parentheses; `GNU G++17 * (*)` is also `GNU G++17 9.2.0 (64 bit, msys 2)`.
    What is exact counts before what has a version, and a row's own name before all. ConfigError when two rows have the
    same; `source` is the table's file.
    """

    def __init__(self, table: Mapping[str, Language], source: str) -> None:
        self._exact: dict[str, str] = {}
        self._versions: dict[str, tuple[re.Pattern[str], str]] = {}
        self._add([(name, name) for name in table], source)
        self._add([(alias, name) for name, row in table.items() for alias in (row.title, *row.aliases)], source)
        # A suffix is the last that counts: `sh` is the POSIX shell, although files called .sh are Bash's.
        for name, row in table.items():
            for suffix in row.suffixes:
                self._exact.setdefault(_exact(suffix[1:]), name)

    def find(self, text: str) -> str | None:
        exact = self._exact.get(_exact(text))
        matching = (name for pattern, name in self._versions.values() if pattern.fullmatch(_spaced(text)))
        return exact if exact is not None else next(matching, None)

    def _add(self, names: Iterable[tuple[str, str]], source: str) -> None:
        for alias, name in names:
            if "*" in alias:
                spaced = _spaced(alias)
                owner = self._versions.setdefault(spaced, (_pattern(spaced), name))[1]
            else:
                owner = self._exact.setdefault(_exact(alias), name)
            if owner != name:
                raise ConfigError(
                    f"{source}:1: '{alias}' is a name of both '{owner}' and '{name}'; leave it in one row"
                )


def _spaced(text: str) -> str:
    return " ".join(text.casefold().split())


def _exact(text: str) -> str:
    return _spaced(text).replace(" ", "").replace("_", "")


def _pattern(spaced: str) -> re.Pattern[str]:
    """A name with a version in it; no part of it repeats a part, so that matching is linear."""
    any_text, version = re.escape("(*)"), re.escape("*")
    text = re.escape(spaced).replace(any_text, r"\([^()]{0,60}\)").replace(version, r"[\w.-]{1,40}")
    return re.compile(text, re.ASCII)


class _LanguageTable(config.Model):
    """The file's shape. A site's table may switch a built-in row off with `name: null`."""

    languages: dict[Identifier, Language | None]


def load_table(path: Path | None = None) -> dict[str, Language]:
    """The built-in table, with the rows of a site's own file added to it or put in place of its rows.

    Raises ConfigError with file and line. The table's order is the order in which languages are shown.
    The built-in table alone is read and checked once in a process: every submission asks for it several times.
    """
    return dict(_builtin()) if path is None else _read(path, _builtin())


def _read(path: Path, builtin: Mapping[str, Language]) -> dict[str, Language]:
    """A table of a file; ConfigError where two rows have one suffix or name, or no executor may have so many."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read: {exc.strerror}; name an existing languages table") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path}: is not UTF-8 text; expected a YAML file") from exc
    table = dict(builtin)
    for name, row in config.parse_text(_LanguageTable, text, str(path)).languages.items():
        if row is None:
            table.pop(name, None)
        else:
            table[name] = row.named(name, table, str(path))
    if len(table) > LANGUAGES:
        raise ConfigError(f"{path}:1: the table has {len(table)} rows with the built-in ones, the limit is {LANGUAGES}")
    owners: dict[str, str] = {}
    for name, language in table.items():
        for suffix in language.suffixes:
            if suffix in owners:
                raise ConfigError(
                    f"{path}:1: suffix '{suffix}' belongs to both '{owners[suffix]}' and '{name}'; "
                    "leave it in one row, the other is then chosen by name"
                )
            owners[suffix] = name
    Names(table, str(path))
    return table


def find(text: str, table: Mapping[str, Language]) -> str | None:
    """The row that a name stands for: its own, its title, one of other judges' names, or a suffix; None for no row.

    The API, judgectl, the page and packages all ask here; case and spaces do not count.
    """
    if text in table:
        return text
    return (_builtin_names() if table == _builtin() else Names(table, "")).find(text)


def row_of(text: str) -> str:
    """The built-in row that a name stands for, or else the name itself, which may be that of a site's own row."""
    return find(text, load_table()) or text


def family(name: str, table: Mapping[str, Language]) -> str:
    """The row that this one is a version of (`cpp` for `cpp17`), or itself: what is said of it holds for all."""
    row = table.get(name)
    return row.family if row is not None else name


def include_folder(folders: Collection[str], language: str | None, table: Mapping[str, Language]) -> str:
    """The folder of include/ whose files go with a submission in this language; empty if there is none.

    Files for a language go with all its versions (`cpp17` is `cpp`), unless a version has its own.
    """
    name = language or ""
    return next((folder for folder in (name, family(name, table), "default") if folder in folders), "")


def more_than(limits: Limits, names: Iterable[str], table: Mapping[str, Language]) -> list[tuple[str, Limits]]:
    """The languages of these, by title, whose programs get more CPU time or memory than a problem's limits say."""
    rows = [table[name] for name in names if name in table]
    limits_by_title = [(row.title, row.limits(limits)) for row in rows]
    return [(title, more) for title, more in limits_by_title if (more.cpu, more.memory) != (limits.cpu, limits.memory)]


def allows(allowed: Iterable[str], name: str | None, table: Mapping[str, Language]) -> bool:
    """Return whether a problem takes this row; `allowed` (empty: all) has its name or its family's."""
    names = set(allowed)
    return not names or (name is not None and bool(names & {name, family(name, table)}))


@dataclass(frozen=True)
class Survey:
    """The languages that a machine can judge, with versions; and why it cannot judge the others, a sentence each."""

    found: dict[str, str]
    missing: dict[str, str]


def survey(table: Mapping[str, Language], timeout: float = 10.0) -> Survey:
    """Find the languages of this machine, each with its version (first line of its version command).

    Only programs that the sandbox can see count. `timeout` in seconds is for each version command,
    of which a few run side by side; a command that fails or hangs hides its row. Nothing is raised: it is a reason.
    An executor calls this once at its start, in a thread.
    """
    with ThreadPoolExecutor(max_workers=4, thread_name_prefix="languages") as pool:
        answers = dict(zip(table, pool.map(lambda row: _examine(row, timeout), table.values()), strict=True))
    return Survey(
        {name: version for name, (version, reason) in answers.items() if not reason},
        {name: reason for name, (_, reason) in answers.items() if reason},
    )


def detect(table: Mapping[str, Language], timeout: float = 10.0) -> dict[str, str]:
    """The languages that this machine has, each with its version; see survey(), whose reasons go to the log.

    An executor advertises the keys and records the versions with its verdicts.
    """
    surveyed = survey(table, timeout)
    for name, reason in surveyed.missing.items():
        log.info("language %s is not offered: %s", name, reason)
    return surveyed.found


def guess(filename: str, table: Mapping[str, Language]) -> str | None:
    """The language that a file's suffix says, or None. Case counts first (`.C` is C++), then does not (`.PY`)."""
    suffix = PurePosixPath(filename).suffix
    rows = (name for spelling in (suffix, suffix.lower()) for name, row in table.items() if spelling in row.suffixes)
    return next(rows, None)


def extra_paths(table: Iterable[Language]) -> list[str]:
    """The paths that these rows need beside /usr and /bin, globs resolved; the sandbox mounts them read-only."""
    patterns = (pattern.lstrip("/") for language in table for pattern in language.paths)
    return list(dict.fromkeys(str(path) for pattern in patterns for path in sorted(Path("/").glob(pattern))))


@functools.cache
def _builtin() -> dict[str, Language]:
    return _read(_BUILTIN, {})


@functools.cache
def _builtin_names() -> Names:
    return Names(_builtin(), str(_BUILTIN))


def _with_options(command: list[str], filled: list[str], options: Iterable[str]) -> list[str]:
    """A compiler's command with more arguments, which nothing is replaced in: after its own, before the sources."""
    place = next((index for index, word in enumerate(command) if _NAMES.search(word)), len(command))
    return [*filled[:place], *options, *filled[place:]]


def _fill(command: Iterable[str], values: Mapping[str, str], sources: list[str]) -> list[str]:
    return [part for word in command for part in (sources if word == _SOURCES else [_replace(word, values)])]


def _replace(text: str, values: Mapping[str, str]) -> str:
    """A text with its placeholders replaced; what replaces them is never looked at again."""
    return _PLACEHOLDER.sub(lambda match: values[match[1]], text)


def _check_placeholders(field: str, text: str) -> None:
    if text == _SOURCES and not field.startswith("env"):
        return
    unknown = set(_PLACEHOLDER.findall(text)) - _PLACEHOLDERS
    if unknown:
        names = ", ".join(f"{{{name}}}" for name in sorted(_PLACEHOLDERS))
        raise config.fault(f"{field}: unknown placeholder '{{{min(unknown)}}}'; known are {names}", field)


def _check_names(field: str, command: Sequence[str]) -> None:
    """Refuse a command in which a submission's file names would be read as code."""
    for before, word in zip(["", *command], command, strict=False):
        match = _NAMES.search(word)
        checks = before == "-c" and _CHECKERS.fullmatch(command[0])
        if match and (_CODE.search(word) or (_CODE_OPTION.fullmatch(before) and not checks)):
            raise config.fault(
                f"{field}: '{match[0]}' would be code in '{word[:60]}'; give it as an argument of its own ($1 of sh -c),"  # noqa: E501
                " or in env",
                field,
            )


def _examine(language: Language, timeout: float) -> tuple[str, str]:
    """A language's version and "", or "" and why this machine does not have it."""
    for program in language.programs():
        reason = _unusable(program, language.paths, program not in language.requires)
        if reason:
            return "", reason
    return _version(language.version_command, timeout)


def _unusable(program: str, extra: Iterable[str], started: bool) -> str:
    """The reason why a path is no file (`started`: that may be executed) visible inside the sandbox, or ""."""
    if not program.startswith("/"):
        return f"'{program}' is not an absolute path; write the program's full path into the row"
    real = os.path.realpath(program)
    if not Path(real).is_file():
        return f"{program} is not installed"
    if started and not os.access(real, os.X_OK):
        return f"{program} may not be executed by this user"
    if not real.startswith(_VISIBLE) and not any(Path(real).match(pattern + "/*") for pattern in extra):
        return f"{program} leads to {real}, which sandboxes do not show; add its directory to the row's 'paths'"
    return ""


def _version(command: list[str], timeout: float) -> tuple[str, str]:
    """The first line that a version command prints and "", or "" and what went wrong with it."""
    command_text = " ".join(command)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PATH": PATH, "LANG": "C.UTF-8"},
            cwd="/",
            start_new_session=True,  # some commands are scripts: what they started ends with them
        )
    except (OSError, ValueError) as exc:
        return "", f"'{command_text}' could not be started: {exc}"
    with process:
        try:
            output = process.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return "", f"'{command_text}' did not end within {timeout:g} s"
    lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines()]
    first = next((line for line in lines if line), "")
    if process.returncode != 0:
        return "", f"'{command_text}' ended with {process.returncode}: {first[:200]}"
    return (first[:200], "") if first else ("", f"'{command_text}' printed nothing")
