"""Finds the inputs of tests among a directory's files, and their answers, by nothing but their names.

In a file's path the words that stand for input or output are found (`in`, `output`, `ans`, …) and replaced by one mark:
an input and an answer that are then called the same are a pair. So `1.in` goes with `1.ans`, `input/input00.txt` with
`output/output00.txt`, `coci.in.1` with `coci.out.1`, `I.1` with `O.1`. What has no such word can be the input of an
answer with the same stem: `01` of `01.a`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

# Words between any separators, and words that only mean it after a dot (or before a number: `i1a`, `o1a`).
_IN = frozenset({
    "in", "inp", "input", "inputs", "stdin", "entrada", "entradas", "eingabe", "eingaben", "ulaz", "ulazi", "wejscie",
    "vstup", "vstupy", "bemenet", "giris", "invoer",
})  # fmt: skip
_OUT = frozenset({
    "out", "outp", "output", "outputs", "ans", "answer", "answers", "expected", "stdout", "salida", "salidas", "saida",
    "saidas", "ausgabe", "ausgaben", "izlaz", "izlazi", "wyjscie", "vystup", "vystupy", "kimenet", "cikis", "uitvoer",
})  # fmt: skip
# Words that may stand beside those in the name of a folder: `test_input`, `expected_output`.
_NEUTRAL_WORDS = frozenset(
    {"test", "tests", "testcase", "testcases", "case", "cases", "data", "file", "files", "expected"}
)
_DOTTED_IN = frozenset({"i", "dat", "data"})
_DOTTED_OUT = frozenset({
    "a", "o", "ok", "ou", "sol", "res", "ref", "cor", "key", "std", "gold", "oup", "expect", "exp", "diff", "correct",
    "solution",
})  # fmt: skip
_FOLDER_OUT = frozenset({"sol", "correct", "solution", "solutions"})
_WORD = re.compile(r"[A-Za-z]+|[0-9]+|[^A-Za-z0-9]+")
_MARK = "\0"
_SUFFIXES = (".txt", ".dat", ".data", ".t", ".tst", ".test")
_SAMPLE = re.compile(
    r"(?:^|/)(?:\d+[_.-])?(?:samples?|examples?|sam|ex|eg|demos?)(?=[\d_.\-/]|$)"
    # Behind the problem's name: `s3.sample.in`, and COCI's `task.dummy.in.1`.
    r"|(?:^|/)[\w-]+\.(?:samples?|dummy)(?=[\d_.\-]|$)",
    re.IGNORECASE,
)
# Folders of tests, whose names say nothing about the problem.
NAMELESS = frozenset({"data", "test", "tests", "testcase", "testcases", "testdata", "test_data", "cases", "io"})
# Endings of what is no test data, whatever it is called.
# fmt: off
_OTHER_ENDINGS = frozenset([
    "c", "cc", "cpp", "cxx", "c++", "h", "hh", "hpp", "py", "java", "kt", "pas",
    "dpr", "rs", "go", "cs", "js", "ts", "rb", "sh", "bat", "cmd", "exe", "jar",
    "class", "o", "obj", "pdf", "md", "html", "htm", "tex", "doc", "docx", "png", "jpg",
    "jpeg", "gif", "svg", "zip", "rar", "7z", "gz", "tar", "json", "yml", "yaml", "xml",
    "ini", "cfg", "conf", "log", "toml", "lock", "bak", "pyc", "makefile", "markdown",
    "rst", "rtf", "odt", "ps", "ppt", "pptx", "ipynb", "mjs", "cjs", "php", "pl", "lua", "hs",
    "swift", "scala", "kts", "nim", "f90", "vb", "fs", "ml", "clj", "erl", "dart", "zig",
    "jl", "idl", "xz", "bz2", "lzma", "zst", "zstd", "z", "lz", "lz4", "br", "tgz", "tbz2", "txz", "tzst",
])
# fmt: on


# What build systems make of `NAME.in`: by the whole name, and by its ending. Letters alone (`1.c.in`) are tests.
_BUILD = frozenset({
    "makefile", "gnumakefile", "makefile.am", "configure", "cmakelists", "cmakelists.txt", "config", "doxyfile",
    "manifest", "requirements", "requirements-dev", "dev-requirements", "meson.build", "build", "version", "aclocal",
})  # fmt: skip
_TEMPLATES = (_OTHER_ENDINGS - {"c", "h", "o", "d"}) | {
    "cmake",
    "am",
    "ac",
    "mk",
    "pc",
    "m4",
    "env",
    "service",
    "desktop",
}


@dataclass(frozen=True)
class Pair:
    """One test: its name for people, its files, and whether its name says that contestants may see it."""

    name: str
    input: str
    answer: str | None
    sample: bool


def is_data(path: str) -> bool:
    name = path.rpartition("/")[2].lower()
    return name.rpartition(".")[2] not in _OTHER_ENDINGS


def find_pairs(paths: Iterable[str]) -> tuple[list[Pair], list[str]]:
    """The tests among these files in natural order, and answers without an input. An input may lack its answer."""
    inputs: dict[str, str] = {}
    answers: dict[str, str] = {}
    plain: dict[str, str] = {}
    for path in sorted(path for path in paths if is_data(path)):
        role, key = _role(path)
        (plain if role is None else inputs if role else answers).setdefault(key, path)
    pairs = [_pair(key, path, answers.pop(key, None)) for key, path in inputs.items()]
    # Files in folders called input and output need not be called alike: 1.txt and 1.ans.
    loose = {_loose(key): key for key in answers}
    for place, (key, entry) in enumerate(zip(inputs, pairs, strict=True)):
        found_key = loose.get(_loose(key) or _MARK) if entry.answer is None else None
        if found_key is not None and found_key in answers:
            pairs[place] = _pair(found_key, entry.input, answers.pop(found_key))
    for key in list(answers):
        stem = key.rpartition("." + _MARK)[0]
        answer = next((plain.pop(name) for name in (stem, *(stem + end for end in _SUFFIXES)) if name in plain), None)
        if stem and answer is not None:
            pairs.append(_pair(stem, answer, answers.pop(key)))
    pairs = [pair for pair in pairs if pair.answer is not None or not _is_template(pair.input)]
    return sorted(pairs, key=lambda pair: natural(pair.name)), sorted(answers.values())


def _is_template(path: str) -> bool:
    """Return whether a file is what a build is configured by: `makefile.in`, `CMakeLists.txt.in`, `config.h.in`."""
    name = path.rpartition("/")[2].lower()
    stem = name.removesuffix(".in")
    ending = stem.rpartition(".")[2] if "." in stem else ""
    source = ending in {"c", "h"} and re.fullmatch(r"[a-z_-]{2,}\.[ch]", stem) is not None
    return stem != name and (stem in _BUILD or ending in _TEMPLATES or source)


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts numbers in names by their value."""
    return [
        (0, int(part), part) if part.isdecimal() and part.isascii() else (1, 0, part) for part in _WORD.findall(name)
    ]


def is_sample(path: str) -> bool:
    """Return whether a name says sample: `sample1`, `samples/1`, `ex2`. A leading 0 does not: many count from 0."""
    return _SAMPLE.search(path) is not None


def _pair(key: str, input_path: str, answer: str | None) -> Pair:
    # Words that stand for input or output say nothing in a test's name; a folder of that name neither.
    bare = re.sub(r"\.(?:txt|dat|data)$", "", key.replace(_MARK + "/", ""))
    name = re.sub(r"[._-]*\0[._-]*", "_", bare).strip("_./-") or "1"
    return Pair(re.sub(r"[/_]*_[/_]*", "_", name), input_path, answer, is_sample(input_path))


def _loose(key: str) -> str:
    """A key without what may differ between a folder of inputs and one of outputs; empty when there is no folder."""
    folder, _, name = key.rpartition("/")
    if _MARK not in folder:
        return ""
    return folder + "/" + name.partition(".")[0].replace(_MARK, "").strip("_-")


def _role(path: str) -> tuple[bool | None, str]:
    """The role of a path: an input's (True), an answer's (False) or none; and the path with marks for its words."""
    role: bool | None = None
    parts = path.split("/")
    for number, part in enumerate(parts[:-1]):
        word = _folder_word(part)
        if word in _IN or word in _OUT or word in _FOLDER_OUT:
            role, parts[number] = word in _IN, _MARK
    pieces = _WORD.findall(parts[-1])
    # Before `in` or `out` a letter is a part of the test's name: `1.a.in` and `1.o.in` are two tests.
    plain = max((number for number, piece in enumerate(pieces) if piece.lower() in _IN | _OUT), default=-1)
    for number, piece in enumerate(pieces):
        word = piece.lower()
        before = pieces[number - 1] if number else ""
        after = pieces[number + 1] if number + 1 < len(pieces) else ""
        dotted = before.endswith(".") or (not before and after.startswith("."))
        # `a.in` is an input and no answer: a letter before the dot counts only before a number (`I.1`, `O.1`).
        if not before and len(word) == 1:
            dotted = after == "." and pieces[-1].isdecimal() and len(pieces) == 3
        elif not before and word not in _IN | _OUT:
            dotted = False
        dotted = dotted and number > plain
        if word in _IN or (dotted and word in _DOTTED_IN):
            role, pieces[number] = True, _MARK
        elif word in _OUT or (dotted and word in _DOTTED_OUT):
            role, pieces[number] = False, _MARK
    # Two words for one thing are one: `1.expected_output`.
    return role, "/".join([*parts[:-1], re.sub(f"{_MARK}(?:[_-]{_MARK})+", _MARK, "".join(pieces))])


def _folder_word(part: str) -> str:
    """The word for input or output in a folder's name that says nothing else; else the name."""
    parts = re.split(r"[_-]", part.lower())
    matches = [word for word in parts if word in _IN or word in _OUT]
    is_clear = len(parts) > 1 and {word in _IN for word in matches} in ({True}, {False})
    return (
        matches[-1] if is_clear and all(word in matches or word in _NEUTRAL_WORDS for word in parts) else part.lower()
    )
