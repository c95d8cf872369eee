"""The editor of source texts: the files of CodeMirror, its modes by language, and guesses at the language of a text."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Final

from judge.languages.table import load_table

HOME: Final = Path("/usr/share/javascript/codemirror")

_ADDONS: Final = (
    "addon/mode/simple", "addon/edit/matchbrackets", "addon/edit/closebrackets", "addon/comment/comment",
    "addon/display/autorefresh",
)  # fmt: skip

# The mode of CodeMirror that colours a language, by its name or the suffix of its `source_name`, and its media type.
MODES: Final[dict[str, tuple[str, str]]] = {
    ".c": ("clike", "text/x-csrc"), ".cpp": ("clike", "text/x-c++src"), ".java": ("clike", "text/x-java"),
    ".cs": ("clike", "text/x-csharp"), ".kt": ("clike", "text/x-kotlin"), ".scala": ("clike", "text/x-scala"),
    ".py": ("python", "text/x-python"), ".go": ("go", "text/x-go"),
    ".rs": ("rust", "text/x-rustsrc"), ".js": ("javascript", "text/javascript"),
    ".ts": ("javascript", "text/typescript"), ".coffee": ("coffeescript", "text/x-coffeescript"),
    ".pas": ("pascal", "text/x-pascal"), ".hs": ("haskell", "text/x-haskell"), ".rb": ("ruby", "text/x-ruby"),
    ".php": ("php", "application/x-httpd-php"), ".pl": ("perl", "text/x-perl"), ".lua": ("lua", "text/x-lua"),
    ".ml": ("mllike", "text/x-ocaml"), ".sml": ("mllike", "text/x-sml"), ".sh": ("shell", "text/x-sh"),
    ".tcl": ("tcl", "text/x-tcl"), ".d": ("d", "text/x-d"), ".f90": ("fortran", "text/x-fortran"),
    ".f": ("fortran", "text/x-fortran"), ".S": ("gas", "text/x-gas"), ".bf": ("brainfuck", "text/x-brainfuck"),
    ".cob": ("cobol", "text/x-cobol"), ".fth": ("forth", "text/x-forth"), ".lisp": ("commonlisp", "text/x-common-lisp"),
    ".scm": ("scheme", "text/x-scheme"), ".rkt": ("scheme", "text/x-scheme"), ".erl": ("erlang", "text/x-erlang"),
    ".clj": ("clojure", "text/x-clojure"), ".groovy": ("groovy", "text/x-groovy"), ".R": ("r", "text/x-rsrc"),
    ".swift": ("swift", "text/x-swift"),
    # Two rows whose sources are both called main.m.
    "objectivec": ("clike", "text/x-objectivec"), "octave": ("octave", "text/x-octave"),
}  # fmt: skip

# Modes that another one stands on.
_UNDER: Final = {"php": ("xml", "javascript", "css", "htmlmixed", "clike")}

# Lines that only one language begins with, tried from the top; for a text that was pasted before a language was chosen.
GUESSES: Final[tuple[tuple[str, str], ...]] = (
    (r"^#!.*\bpython", "python3"),
    (r"^#!.*\b(?:ba|da)?sh\b", "bash"),
    (r"^#!.*\bperl", "perl"),
    (r"^#!.*\bnode", "javascript"),
    (r"^#!.*\bruby", "ruby"),
    (r"^<\?php", "php"),
    (
        (
            r"^\s*#\s*include\s*<(?:bits/stdc\+\+\.h|iostream|vector|string|algorithm|map|set|c[a-z]+)>"
            r"|^\s*using namespace std\b"
        ),
        "cpp",
    ),
    (r"^\s*#\s*include\s*[<\"]", "c"),
    (r"^\s*(?:import java\.|public (?:final )?class \w+)", "java"),
    (r"^\s*package main\s*$", "go"),
    (r"^\s*using System\s*;", "csharp"),
    (r"^\s*fn main\s*\(", "rust"),
    (r"^\s*fun main\s*\(", "kotlin"),
    (r"^\s*program \w+\s*(?:\([^)]*\))?;", "pascal"),
    (r"^\s*(?:main\s*::\s*IO|import (?:qualified )?Data\.)", "haskell"),
    (r"^\s*(?:def \w+\(.*\)(?:\s*->.*)?:|import \w+\s*$|from \w[\w.]* import |print\(|if __name__ ==)", "python3"),
    (r"require\(['\"](?:fs|readline)['\"]\)|console\.log\(", "javascript"),
)


def mode_of(name: str) -> tuple[str, str]:
    """The mode that colours a language and its media type; both are empty if there is none."""
    language = load_table(None).get(name)
    suffix = PurePosixPath(language.source_name).suffix if language else ""
    return MODES.get(name) or MODES.get(suffix) or ("", "")


def files() -> dict[str, bytes]:
    """The editor, its style sheet, and each mode with those that it stands on, by the name of the file.

    Empty without the package; a file that this release of the package does not have is left out.
    """
    if not available():
        return {}
    scripts = {"codemirror": ["lib/codemirror", *_ADDONS]}
    for name in sorted({mode for mode, _ in MODES.values()}):
        scripts[f"mode-{name}"] = [f"mode/{part}/{part}" for part in (*_UNDER.get(name, ()), name)]
    bundles = {f"{name}.js": _joined(paths) for name, paths in scripts.items()}
    bundles["codemirror.css"] = (HOME / "lib/codemirror.css").read_bytes()
    return {name: content for name, content in bundles.items() if content}


def _joined(names: Iterable[str]) -> bytes:
    paths = [HOME / f"{name}.js" for name in names]
    return b"\n;\n".join(path.read_bytes() for path in paths if path.is_file())


def available() -> bool:
    return (HOME / "lib/codemirror.js").is_file()
