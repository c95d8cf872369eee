"""The static files of the pages, under names that change with their content. nginx serves them, compressed.

The editor is CodeMirror 5 as Debian packages it: a script, a style sheet and a script for each mode. A gateway without
the package `libjs-codemirror` has no editor: pages show plain fields, and nothing else changes.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
from pathlib import Path
from typing import Final

from judge.gateway import editor

PREFIX: Final = "/static/"
_STATIC: Final = Path(__file__).parent / "static"


@functools.cache
def assets() -> dict[str, tuple[str, bytes]]:
    """Each file by its plain name: the name under which it is served, and its content."""
    contents = {path.name: path.read_bytes() for path in sorted(_STATIC.iterdir())}
    contents |= editor.files()
    return {name: (_served_name(name, content), content) for name, content in contents.items()}


def address(name: str) -> str:
    """The path of a file, by its plain name; browsers may keep what is there for ever."""
    return PREFIX + assets()[name][0]


def write(directory: Path) -> None:
    """Write all files, and each of them compressed, for nginx. Raises OSError."""
    directory.mkdir(exist_ok=True)
    for name, content in assets().values():
        (directory / name).write_bytes(content)
        (directory / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))


def _served_name(name: str, content: bytes) -> str:
    stem, _, suffix = name.rpartition(".")
    return f"{stem}.{hashlib.sha256(content).hexdigest()[:12]}.{suffix}"
