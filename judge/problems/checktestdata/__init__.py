"""Checktestdata, a language for what a test's input looks like, as DOMjudge's tool of that name reads it.

A description (`*.ctd`) among a package's input validators becomes a program in Python: the modules of this package go
with it into the sandbox, so they import nothing else of ours. It ends with 42 for an input that is as described, with
43 for one that is not, and with 1 where the description is at fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

SUFFIX, LANGUAGE, MAIN = ".ctd", "python3", "check_by_description.py"
_MODULES = ("values.py", "language.py", "running.py")
_START = b"""import sys
from pathlib import Path

from checktestdata.running import main

sys.exit(main(next(Path(__file__).parent.glob("*.ctd"))))
"""


def program() -> Mapping[str, bytes]:
    """The files that go with a description: their names beside it, and their contents."""
    folder = resources.files(__package__)
    modules = {f"checktestdata/{name}": folder.joinpath(name).read_bytes() for name in _MODULES}
    return {MAIN: _START, "checktestdata/__init__.py": b"", **modules}
