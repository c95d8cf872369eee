"""What plug-ins that run on hosts ask of the release there, which may be an older one than this checkout's.

The list is in release_contract.txt. When this test fails, a gate of this checkout would fail on hosts that still have
the release of before, in the middle of an upgrade. So keep what is listed: a new parameter has a default, a renamed
function stays under its old name as well. A line may go when no release is supported any more that has only that.
"""

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from pydantic import BaseModel

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = Path(__file__).with_name("release_contract.txt")
# Links to, or copies of, files that travel with the plug-ins.
OWN = {"judge_files.py"}


def described(name: str, value: object, used: set[str]) -> Iterator[str]:
    """A line for a function, for a class with those of its methods and fields that the plug-in names, for a value."""
    if isinstance(value, type):
        if issubclass(value, BaseModel):
            yield from (f"{name}.{field}" for field in sorted(used & value.model_fields.keys()))
        elif issubclass(value, Exception):
            yield f"{name}"
        else:
            yield f"{name}{inspect.signature(value)}"
        for method in sorted(used & set(vars(value))):
            if inspect.isfunction(vars(value)[method]):
                yield f"{name}.{method}{inspect.signature(vars(value)[method])}"
    elif callable(value):
        yield f"{name}{inspect.signature(value)}"
    else:
        yield name


def attributes(tree: ast.AST, name: str) -> set[str]:
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name
    }


def used_by(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.level or not str(node.module).startswith("judge"):
            continue
        module = importlib.import_module(str(node.module))
        for alias in node.names:
            name = f"{node.module}.{alias.name}"
            value = getattr(module, alias.name, None) or importlib.import_module(name)
            if not isinstance(value, ModuleType):
                yield from described(name, value, used)
                continue
            # Another function of the plug-in may have a variable of this name, and attributes of that.
            for attribute in sorted(attributes(tree, alias.name) & set(dir(value))):
                yield from described(f"{name}.{attribute}", getattr(value, attribute), used)


def contract() -> list[str]:
    paths = [path for room in ("modules", "module_utils") for path in sorted((ROOT / "plugins" / room).glob("*.py"))]
    return sorted({line for path in paths if path.name not in OWN for line in used_by(path)})


def test_hosts_with_the_release_of_before_can_be_asked() -> None:
    assert contract() == CONTRACT.read_text(encoding="utf-8").splitlines()
