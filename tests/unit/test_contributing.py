"""The rows of docs/contributing.md are whole: what fails in a tree that has one thing more is named there."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Directories that the tests that are run below read.
COPIED = ("judge", "docs", "plugins", "clients", "scripts", "tests/unit", "tests/support")
VERDICT = '    ZZ = "ZZ", About("Fell asleep", "fell asleep", 9, "RTE", "drowsy", "pillow", "bold cyan", 19, "", "")\n'
METHOD = '    "nap": Method(m.Empty, m.Pong, _PEOPLE, reads=False),\n'
# Plugins of pytest that these tests want: the others take longer to begin than all of the tests.
BARE = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
PLUGINS = ("-p", "pytest_timeout", "-p", "pytest_asyncio.plugin")

Run = Callable[..., set[str]]


def linked(source: str, target: str) -> str:
    """A copy that takes no room and no time, where both are on one file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Add each (file, mark, text before it) to a copy, run tests there; returns the modules of those that fail."""
    for name in COPIED:
        ignored = shutil.ignore_patterns("__pycache__", "pictures")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored, copy_function=linked)
    for name in ("pyproject.toml", "README.md", "tests/__init__.py", "tests/conftest.py", "tests/tiers.py"):
        shutil.copy(ROOT / name, tmp_path / name)

    def do(additions: Iterable[tuple[str, str, str]], *modules: str) -> set[str]:
        for file, mark, text in additions:
            path = tmp_path / file
            before, separator, after = path.read_text().partition(mark)
            assert separator
            path.unlink()  # it may be a link to the original
            path.write_text(before + text + separator + after)
        command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-rfE", "-p", "no:cacheprovider", *PLUGINS]
        names = [f"tests/unit/test_{name}.py" for name in modules]
        ended = subprocess.run(
            [*command, *names], cwd=tmp_path, env=BARE, capture_output=True, text=True, timeout=280, check=False
        )
        assert ended.returncode in {0, 1}, ended.stdout + ended.stderr
        return set(re.findall(r"^(?:FAILED|ERROR) (tests/unit/\w+\.py)", ended.stdout, re.MULTILINE))

    return do


def named_for(row: str) -> set[str]:
    """The unit tests that the row names."""
    (cells,) = re.findall(rf"^\| {row} \|.*", (ROOT / "docs/contributing.md").read_text(), re.MULTILINE)
    return set(re.findall(r"`(tests/unit/\w+\.py)", cells))


def test_the_rows_of_a_verdict_and_a_call_name_each_test_that_fails(run: Run) -> None:
    additions = [
        ("judge/model/verdicts.py", "    JE = ", VERDICT),
        ("judge/rpc/methods.py", '    "report": ', METHOD),
    ]
    failed = run(additions, "verdicts", "clients", "judge0", "calls", "rpc_faults")
    calls = "tests/unit/test_calls.py"
    assert {calls, "tests/unit/test_verdicts.py"} <= failed
    assert failed - {calls} <= named_for("a verdict")
    assert calls in named_for("a call between hosts")


# They name a language, and do not change with the table.
OF_ONE_LANGUAGE = {
    "judge/gateway/pages/reference.py": "an example of a submission",
    "judge/problems/checktestdata.py": "what descriptions of inputs are turned into",
    "judge/problems/expectations.py": "C is judged as C++ where a package's folder says both",
}


def test_the_row_of_languages_names_modules_that_name_a_language() -> None:
    """Importers read other judges' names of languages, and Judge0's are a table of its own."""
    (row,) = re.findall(r"^\| a language \|.*", (ROOT / "docs/contributing.md").read_text(), re.MULTILINE)
    asking = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "judge").rglob("*.py")
        if re.search(r'"(?:cpp|python3|pypy3|java)"', path.read_text())
        and not {"importers", "judge0"} & set(path.relative_to(ROOT).parts)
    }
    assert {path for path in asking if f"`{path}" not in row} == set(OF_ONE_LANGUAGE)
