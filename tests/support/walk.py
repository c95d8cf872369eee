"""The steps of docs/walk.md: the functions through which a submission goes."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_STEP = re.compile(r"^\| (\d+) \| \[(.+?)\]\(.+?\) `([\w.]+)` \| (.*) \|$", re.MULTILINE)
# Calls that a step makes in turn, as its sentence names them.
_INNER = re.compile(r"`(\w+)` of \[[^\]]+\]\(\.\./([^)]+)\)")


@dataclass(frozen=True)
class Step:
    """A step: its own function, and those that it names with their files, all as (file, name)."""

    number: int
    file: str
    name: str
    inner: tuple[tuple[str, str], ...]


def steps() -> list[Step]:
    text = (ROOT / "docs/walk.md").read_text(encoding="utf-8")
    return [
        Step(int(number), file, name, tuple((path, inner) for inner, path in _INNER.findall(sentence)))
        for number, file, name, sentence in _STEP.findall(text)
    ]


def line_of(file: str, name: str) -> int:
    """The line at which the code of a function or `Class.method` begins, its decorators among it; LookupError."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    owner, _, function = name.rpartition(".")
    body = next((node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == owner), None)
    # A step's sentence names a method without its class.
    inside = body if body is not None else [node for node in ast.walk(tree) if not owner]
    for node in inside:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function:
            return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    raise LookupError(f"{file} has no {name}")
