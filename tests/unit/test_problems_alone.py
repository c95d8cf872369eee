"""Nothing that reads packages starts a process: strangers' programs run in the sandbox of an executor only.

Those in Python are read by judge.languages.python alone, which prints none of the compiler's warnings.
"""

import ast
from pathlib import Path

PROBLEMS = Path(__file__).resolve().parents[2] / "judge/problems"
# Modules that start processes, and functions of `os` that do.
STARTERS = {"subprocess", "multiprocessing", "concurrent.futures", "asyncio", "pty", "runpy"}
OF_OS = ("system", "popen", "fork", "exec", "spawn", "posix_spawn", "startfile")
# Patterns of DMOJ's test cases are strangers' regular expressions, which may take for ever: they are matched by an
# interpreter of ours that is ended after a while. No code of the package is in what it runs.
EXCEPTION = PROBLEMS / "importers/dmoj/tests.py"


def starts(path: Path) -> set[str]:
    """What a module imports, or calls, to start processes, and to read strangers' programs by itself."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names.add(f"{node.value.id}.{node.attr}")
    of_os = {word for word in names if word.startswith(tuple(f"os.{name}" for name in OF_OS))}
    reads = names & {"ast.parse", "ast.literal_eval"}
    return {word for word in names if word in STARTERS or word.partition(".")[0] in STARTERS} | of_os | reads


def test_no_module_of_problems_starts_a_process() -> None:
    modules = {path: starts(path) for path in PROBLEMS.rglob("*.py")}
    allowed = {EXCEPTION: {"subprocess", "subprocess.run", "subprocess.TimeoutExpired"}}
    assert {path: names for path, names in modules.items() if names} == allowed
