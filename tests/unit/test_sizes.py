"""How large a module, a function and a package may be. Ruff counts branches (`max-branches` in pyproject.toml)."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from tests.support.deployment import ROOT

MODULES = [path for room in ("judge", "plugins", "lab") for path in (ROOT / room).rglob("*.py")]
SCRIPTS = [path for path in (ROOT / "scripts").iterdir() if path.read_text().partition("\n")[0].endswith("python3")]


def long_functions(source: str) -> list[str]:
    """The functions of more than 60 lines with no comment at their head: above, or before the first statement."""
    lines = [line.strip() for line in source.splitlines()]
    found = []
    for one in ast.walk(ast.parse(source)):
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) or (one.end_lineno or 0) - one.lineno < 60:
            continue
        begin = min([one.lineno, *(decorator.lineno for decorator in one.decorator_list)])
        body = one.body[1:] if ast.get_docstring(one) else one.body
        if not any(line.startswith("#") for line in lines[max(begin - 2, 0) : body[0].lineno - 1]):
            found.append(one.name)
    return found


def test_no_module_has_more_than_500_lines() -> None:
    assert len(MODULES) > 250
    assert len(SCRIPTS) >= 4
    assert [str(path) for path in [*MODULES, *SCRIPTS] if len(path.read_text().splitlines()) > 500] == []


def test_no_package_has_more_than_18_modules_of_its_own() -> None:
    modules = Counter[Path](path.parent for path in MODULES if path.name != "__init__.py")
    assert {str(package): count for package, count in modules.items() if count > 18} == {}


def test_a_long_function_says_why() -> None:
    found = {str(path): names for path in [*MODULES, *SCRIPTS] if (names := long_functions(path.read_text()))}
    assert found == {}, "more than 60 lines: make it shorter, or say why in a comment at its head"


def test_what_counts_as_a_reason() -> None:
    body = "    pass\n" * 60
    assert long_functions(f"def f():\n{body}") == ["f"]
    assert long_functions(f"def f():\n{body[:-9]}") == []
    assert long_functions(f"# Why.\n@g\ndef f():\n{body}") == []
    assert long_functions(f'def f():\n    """It is."""\n\n    # Why.\n{body}') == []
    assert long_functions(f"def f():\n{body}    # too late\n    pass\n") == ["f"]
