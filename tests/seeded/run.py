"""Seed one bug at a time into a checkout, and run the tests that should fail: `python -m tests.seeded.run [NAME …]`.

Each patch beside this file is a bug of one line. Its text says what is wrong then, and which test files it affects. A
bug that no test notices is a gap in the tests: the run ends with exit code 1.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@dataclasses.dataclass(frozen=True)
class Bug:
    """A patch, the sentence about it, and the test files that it affects."""

    patch: Path
    sentence: str
    tests: tuple[str, ...]

    @classmethod
    def read(cls, patch: Path) -> Bug:
        """Read a patch; the text above its diff has the sentence and a line `Tests: FILE …`."""
        text, _, _ = patch.read_text(encoding="utf-8").partition("\n--- ")
        tests = re.search(r"^Tests: (.+)$", text, re.MULTILINE)
        if tests is None:
            raise SystemExit(f"{patch}: the line 'Tests: FILE …' is missing")
        return cls(patch, text.splitlines()[0], tuple(tests[1].split()))


def bugs(names: list[str]) -> list[Bug]:
    """The bugs of these names, or all."""
    unknown = sorted(name for name in names if not (HERE / f"{name}.patch").exists())
    if unknown:
        raise SystemExit(f"there is no bug '{unknown[0]}' in {HERE}")
    return [Bug.read(path) for path in sorted(HERE.glob("*.patch")) if not names or path.stem in names]


def git_apply(tree: Path, bug: Bug, *options: str) -> None:
    """Apply a patch to a checkout. SystemExit when it does not fit: its line has changed."""
    command = ["git", "apply", *options, str(bug.patch)]
    result = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise SystemExit(f"{bug.patch.name} does not fit: {result.stderr.strip()}; write it anew for the code of today")


def failing(tree: Path, bug: Bug) -> str:
    """The first test that fails with the bug in the checkout; empty if all pass."""
    files = [name for name in bug.tests if (tree / name).exists()]
    command = [str(tree / ".venv/bin/pytest"), "-q", "-x", "-n", "0", "--tb=no", "-p", "no:cacheprovider", *files]
    git_apply(tree, bug)
    try:
        result = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    finally:
        git_apply(tree, bug, "--reverse")
    if result.returncode == 0:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", result.stdout, re.MULTILINE)
    if failed is None:
        raise SystemExit(f"{bug.patch.stem}: pytest ended with {result.returncode}\n{result.stdout}{result.stderr}")
    return failed[1].removeprefix("tests/")


def main() -> int:
    """Run; returns 1 if a bug was missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.seeded.run", description=__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*", help="a patch in tests/seeded, without .patch; all if none")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout to seed; it needs a .venv of its own")
    arguments = parser.parse_args()
    missed = 0
    for bug in bugs(arguments.names):
        begin = time.monotonic()
        test = failing(arguments.tree.resolve(), bug)
        missed += not test
        seconds = time.monotonic() - begin
        print(f"| {bug.patch.stem} | {bug.sentence} | {test or 'MISSED'} | {seconds:.0f} s |", flush=True)
    print(f"{missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
