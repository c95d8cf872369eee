"""Pointers in place of files: what a clone has that was made without Git LFS, or without git-annex.

Such a pointer is a short text. As a test it would be judged, so every tree is looked through for them first.
"""

from __future__ import annotations

import re

from judge.common.errors import PackageError
from judge.problems.tree import Tree

# A pointer of Git LFS has less than 1024 bytes, and begins with its version; older ones name Hawser.
_LEAST, _MOST = 40, 1024
_LFS = re.compile(
    rb"version https?://(?:git-lfs\.github\.com|hawser\.github\.com|git-media\.io)/spec/[^\r\n]*\r?\n"
    rb"(?:[a-z0-9.-]+ [^\r\n]*\r?\n)*?oid sha256:[0-9a-f]{64}\r?\n(?:[a-z0-9.-]+ [^\r\n]*\r?\n?)*\s*"
)
_ANNEX = re.compile(rb"/annex/objects/[A-Z0-9]+-[^\r\n]+\s*(?:/annex/[^\r\n]*\s*)*")


class PointerError(PackageError):
    """A package in which a file is a pointer."""


def refuse_pointers(tree: Tree) -> None:
    """PackageError for a tree in which a file is a pointer of Git LFS or git-annex; it says how to get the files."""
    pointers: dict[str, list[str]] = {}
    for path in sorted(path for path, size in tree.files.items() if _LEAST <= size <= _MOST):
        kind = kind_of(tree.read(path, _MOST))
        if kind:
            pointers.setdefault(kind, []).append(path)
    for kind, command in (("Git LFS", "git lfs pull"), ("git-annex", "git annex get .")):
        paths = pointers.get(kind)
        if paths:
            more = f" (and {len(paths) - 1} more)" if len(paths) > 1 else ""
            raise PointerError(
                f"{tree.where(paths[0])}: is a pointer of {kind}, and not the file itself{more}; run '{command}' in "
                "the repository, and import the package then"
            )


def kind_of(data: bytes) -> str:
    """The system that a file is a pointer of; empty for any other file."""
    text = data.removeprefix(b"\xef\xbb\xbf")
    if text.startswith(b"version ") and _LFS.fullmatch(text):
        return "Git LFS"
    return "git-annex" if text.startswith(b"/annex/") and _ANNEX.fullmatch(text) else ""
