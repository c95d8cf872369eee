"""Programs that are made with testlib, as programs of format 2025-09.

A checker is called `checker INPUT OUTPUT ANSWER` and says by its exit code what it found; an interactor is called
`interactor INPUT RECORD ANSWER`, talks to the submission, and its record is what the checker then looks at; a
validator reads an input file and ends with 0 when it is well-formed. The package gets their sources, testlib.h, a
`build` script, and for checkers and interactors wrapper.c, which is what the format calls an output validator.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources

from judge.common.errors import PackageError
from judge.problems.importers.draft import Content, Draft, Ref, decode, read, slug

HEADER = "testlib.h"
_VALIDATOR = "output_validator"
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]{1,200})[">]', re.MULTILINE)
_ABOVE = re.compile(rb'(?<=["<])(?:\.\./)+(?:[\w.-]+/)*([\w.-]+(?=[">]))')
# Imports of a program in Python: several modules, or one.
_IMPORT = re.compile(
    rb"^[ \t]*(?:import[ \t]+([\w.,\t ]{1,500})|from[ \t]+(\w[\w.]{0,100})[ \t]+import\b)", re.MULTILINE
)
_PARTIAL = re.compile(rb"\bquitp\w*\s*\(|\b_points\b|\b_pc\s*\(|\bquitpi\s*\(")
# The beginning of messages that the Contest Management System translates.
TRANSLATES = b"translate:"
# Signs of a testlib.h for checkers that print an outcome and end with 0, as the Contest Management System and TPS want
# it: messages that are translated there, the system's name, one exit code for all, the answer before the output.
_OUTCOMES = re.compile(
    rb"translate:|\bCMS\b|Contest Management System"
    rb"|\bresultExitCode\s{0,99}\([^)]{0,200}\)\s{0,99}\{\s{0,99}"
    rb"(?:if\s{0,99}\(\s{0,99}testlibMode\s{0,99}==\s{0,99}_checker\s{0,99}\)\s{0,99}\{?\s{0,99})?"
    rb"return\s{1,99}(?:0|OK_EXIT_CODE)\s{0,99};"
    rb"|\bans\s{0,99}\.\s{0,99}(?:init|open)\s{0,99}\(\s{0,99}(?:std::string\s{0,99}\(\s{0,99})?argv\s{0,99}\[\s{0,99}2\s{0,99}\]"
)
# Functions that only the testlib.h of TPS has.
_OF_TPS = re.compile(rb"\b(?:registerChecker|readBothSecrets|readBothGraderResults|readSecret|readGraderResult)\s*\(")
_CHECKS = re.compile(rb"\bregisterTestlibCmd\s*\(")
CPP = (".cpp", ".cc", ".cxx", ".c++")
_STANDARDS = {
    "98": "14",
    "03": "14",
    "11": "14",
    "14": "14",
    "17": "17",
    "20": "20",
    "22": "20",
    "23": "23",
    "26": "23",
}
# Makes a program of a script; `{0}` is its name without the suffix.
PYTHON = "printf '#!/bin/sh\\nexec python3 \"%s/{0}.py\" \"$@\"\\n' '${{0%/*}}' > {0} && chmod 755 {0}"
_COMPILE = "c++ -std=gnu++{standard} -O2 -w -fpermissive -DPC_BASE_EXIT_CODE=16 -o {program} {source}"
# Checkers of testlib's collection that the default validator agrees with on every well-formed answer. Those of reals
# compare absolutely (r), or absolutely or relatively, whichever is kinder.
CHECKERS = {
    "wcmp": ["case_sensitive"],
    "ncmp": [],
    "icmp": [],
    "hcmp": [],
    "yesno": [],
    "nyesno": [],
    "acmp": ["float_absolute_tolerance", "1.5e-6"],
    "rcmp": ["float_absolute_tolerance", "1.5e-6"],
    "rncmp": ["float_absolute_tolerance", "1.5e-5"],
    "dcmp": ["float_tolerance", "1e-6"],
    "rcmp4": ["float_tolerance", "1e-4"],
    "rcmp6": ["float_tolerance", "1e-6"],
    "rcmp9": ["float_tolerance", "1e-9"],
}
# Those that come close, when the source is not there to ask.
CLOSE_CHECKERS = {"lcmp": ["case_sensitive"], "fcmp": ["case_sensitive", "space_change_sensitive"]}


@dataclass(frozen=True)
class ProgramSource:
    """A program's source; `kind` is what the package calls its language ('cpp.g++17', 'CPP17'), `more` other files."""

    ref: Ref
    kind: str = ""
    more: tuple[Ref, ...] = ()

    @property
    def standard(self) -> str:
        match = re.search(r"(?:\+\+|cpp|cxx|msvc|ms20)[^0-9]*(98|03|11|14|17|20|22|23|26)", self.kind.lower())
        return _STANDARDS[match[1]] if match else "17"


def uses_testlib(source: Ref) -> bool:
    return any(posixpath.basename(name) == HEADER.encode() for name in _INCLUDE.findall(read(source)))


def prints_outcome(draft: Draft, source: Ref) -> bool:
    """Return whether a checker's testlib.h has it print an outcome from 0 to 1 and end with 0, whatever that is.

    The usual testlib.h says it by exit codes. PackageError for a checker that needs such a header, and has none.
    """
    if not source.path.lower().endswith((*CPP, ".c")):
        return False
    header = dict(included(draft, source)).get(HEADER)
    if isinstance(header, Ref):
        return _OUTCOMES.search(read(header)) is not None
    match = _OF_TPS.search(read(source)) if header is not None else None
    if match is not None:
        name = match[0].decode().rstrip("( \t")
        raise PackageError(
            f"{source.where}: calls {name}, which only the testlib.h of TPS has; add that header beside it"
        )
    return False


def is_checker(source: Ref) -> bool:
    """Return whether a source has testlib take it for a checker, whatever it is called."""
    return _CHECKS.search(read(source)) is not None


def gives_points(source: Ref) -> bool:
    return _PARTIAL.search(read(source)) is not None


@dataclass(frozen=True)
class Style:
    """The way in which checkers and interactors are called, and what their end means: how wrapper.c is compiled."""

    checker: str = "ioa"
    interactor: str = "ioa"
    defines: tuple[str, ...] = ()


TESTLIB = Style()
# 0 is right, 1 is wrong.
PLAIN = Style(interactor="ia", defines=("PLAIN",))
# A number of points is a share of them, from 0 to 1, or one above that in percent.
SHARE = Style(defines=("SHARE",))
# A number of points is one in percent.
PERCENT = Style(defines=("PERCENT",))
# testlib's exit codes, and `partial X/Y`.
COCI = Style(defines=("COCI",))
PEG = Style(checker="oai", interactor="ia", defines=("PLAIN", "PEG"))
# Two of the sites in Vietnam that are made from DMOJ's.
LQDOJ = Style(interactor="ia", defines=("PLAIN", "LQDOJ"))
THEMIS = Style(defines=("THEMIS",))
# A checker of testlib in a task of the Contest Management System: a part is an outcome.
CMS = Style(defines=("CMS",))
# A checker that prints its outcome, by a testlib.h that was made for that system.
OUTCOME = Style(checker="iao", defines=("OUTCOME",))


def put_checker(
    draft: Draft, checker: ProgramSource | None, interactor: ProgramSource | None = None, style: Style = TESTLIB
) -> None:
    if checker is not None and prints_outcome(draft, checker.ref):
        if any(define.startswith("RUNS") for define in style.defines):
            raise PackageError(
                f"{checker.ref.where}: is a checker between two runs whose testlib.h is that of another system; "
                "put the usual testlib.h beside it"
            )
        style = Style(OUTCOME.checker, style.interactor, OUTCOME.defines)
        draft.report.took(f"checker {checker.ref.where}: prints an outcome from 0 to 1, as its testlib.h has it")
    defines = [f"-D{name}" for name in style.defines]
    if checker is not None:
        defines.append(f"-DCHECKER='\"{style.checker}\"'")
    if interactor is not None:
        defines.append(f"-DINTERACTOR='\"{style.interactor}\"'")
    lines = [f"cc -O2 -w {' '.join(defines)} -o run wrapper.c"]
    for name, source in (("checker", checker), ("interactor", interactor)):
        if source is not None:
            lines.append(_put_program(draft, _VALIDATOR, name, source))
    draft.put(f"{_VALIDATOR}/wrapper.c", resources.files(__package__).joinpath("wrapper.c").read_bytes())
    draft.put(f"{_VALIDATOR}/build", _script(lines))


def put_input_validator(draft: Draft, name: str, source: ProgramSource) -> None:
    folder = f"input_validators/{slug(name, 'validator')}"
    draft.put(f"{folder}/build", _script([_put_program(draft, folder, "validator", source)]))
    run = '"$(dirname "$0")/validator" "$@" && exit 42\nexit 43\n'
    draft.put(f"{folder}/run", "#!/bin/sh\n# testlib's validators end with 0 where the format says 42.\n" + run)


def _script(lines: Sequence[str]) -> str:
    return "\n".join(["#!/bin/sh", "set -e", *lines, ""])


def _put_program(draft: Draft, folder: str, program: str, source: ProgramSource) -> str:
    """The source and what it includes, under names of their own; returns the command that compiles it."""
    if source.ref.path.endswith(".py"):
        draft.put(f"{folder}/{program}.py", source.ref)
        for ref in source.more:
            draft.put(f"{folder}/{posixpath.basename(ref.path)}", ref)
        return PYTHON.format(program)
    if not source.ref.path.lower().endswith((*CPP, ".c")):
        fault = "in another language than C++ and Python; only those can be used"
        raise PackageError(f"{source.ref.where}: is a {program} {fault}")
    name = f"{program}.cpp"
    draft.put(f"{folder}/{name}", flat(source.ref))
    sources = [name]
    for ref in source.more:
        plain = posixpath.basename(ref.path)
        if plain.lower().endswith(CPP):
            plain = f"{program}_{slug(plain)}"
            sources.append(plain)
        draft.files.setdefault(f"{folder}/{plain}", ref)
    for part in (source.ref, *source.more):
        for include, content in included(draft, part):
            draft.files.setdefault(f"{folder}/{include}", content)
    return _COMPILE.format(standard=source.standard, program=program, source=" ".join(sources))


def flat(ref: Ref) -> Content:
    """A source whose inclusions from folders above it are found beside it instead."""
    data = read(ref)
    changed = _ABOVE.sub(rb"\1", data)
    return ref if changed == data else changed


def included(draft: Draft, source: Ref) -> Iterable[tuple[str, Content]]:
    """The files of the package that a source in C or C++ includes, directly or not, by the names that it has for them.

    Where it includes testlib.h, and the package has none, ours takes its place.
    """
    contents: dict[str, Content] = {}
    waiting = [source]
    while waiting:
        part = waiting.pop()
        for raw in _INCLUDE.findall(read(part)):
            name = posixpath.normpath(decode(raw).replace("\\", "/"))
            above = posixpath.normpath(posixpath.join(posixpath.dirname(part.path), name))
            if name.startswith(("/", "..")) or name in contents:
                name = posixpath.basename(name)
            header: Ref | None = None
            if name not in contents:
                header = Ref(part.tree, above) if above in part.tree.files else _find(draft, part, name)
            if header is not None:
                contents[name] = header
                waiting.append(header)
            elif name == HEADER and HEADER not in contents:
                contents[name] = resources.files(__package__).joinpath(HEADER).read_bytes()
                draft.report.dropped(
                    f"{part.where}: includes testlib.h, which the package does not have; ours takes its place, with "
                    "what such programs usually call, and other random numbers"
                )
    return contents.items()


def modules(source: Ref) -> Iterable[tuple[str, Ref]]:
    """The modules and packages beside a program in Python that it imports, directly or not, by their names there."""
    folder = posixpath.dirname(source.path)
    by_name: dict[str, list[str]] = {}
    for path in source.tree.files if source.path.endswith(".py") else ():
        name = path.removeprefix(f"{folder}/") if folder else path
        if name.endswith(".py") and path != source.path and (name != path or not folder):
            by_name.setdefault(name.removesuffix(".py").partition("/")[0], []).append(name)
    refs: dict[str, Ref] = {}
    waiting = [source] if by_name else []
    while waiting:
        for plain_import, from_import in _IMPORT.findall(read(waiting.pop())):
            for part in (plain_import or from_import).decode().split(","):
                module = part.strip().partition(" ")[0].partition(".")[0]
                for name in by_name.pop(module, ()):
                    refs[name] = Ref(source.tree, posixpath.join(folder, name))
                    waiting.append(refs[name])
    return refs.items()


def _find(draft: Draft, source: Ref, name: str) -> Ref | None:
    """A header beside the source, else in Polygon's `files`, else testlib.h wherever the package has it."""
    tree = source.tree
    for folder in (posixpath.dirname(source.path), "files", ""):
        path = posixpath.join(folder, name)
        if path in tree.files:
            return Ref(tree, path)
    if posixpath.basename(name) != HEADER:
        return None
    trees = dict.fromkeys((tree, draft.tree))
    headers = [Ref(base, path) for base in trees for path in base.files if posixpath.basename(path) == HEADER]
    return min(headers, key=lambda ref: (ref.path.count("/"), ref.path), default=None)
