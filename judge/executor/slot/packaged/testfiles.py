"""The files of a test (`NAME.files/`) in a sandbox, and those of the test before away again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from judge.errors import SandboxError
from judge.executor.slot import truncation
from judge.executor.slot.program import Box
from judge.languages.table import PATH
from judge.model.messages import Limits
from judge.sandbox.types import Command, Outcome

# Below /box; a submission's own files cannot be called so.
FOLDER = ".files"
# A run that has these begins with links to them in its current directory: they cost the same whatever is in the files.
LINKING = ("/bin/sh", "-c", f'/bin/ln -s /box/{FOLDER}/* . && exec "$@"', "run")
_LIMITS = Limits(cpu=30, wall=60)


class TestFiles:
    """The files of the test whose turn it is, in one sandbox."""

    __test__ = False  # not a pytest class

    def __init__(self, box: Box, run: Callable[[Box, Command], Outcome]) -> None:
        """`run` runs a command in the sandbox."""
        self._box = box
        self._run = run
        self._there: dict[str, Path] = {}

    def place(self, files: Mapping[str, Path]) -> None:
        """Have these files there and no others; called between runs."""
        if files == self._there:
            return
        if self._there:
            command = Command(["/bin/rm", "-rf", f"/box/{FOLDER}"], _LIMITS, {"PATH": PATH}, writable=True)
            with self._run(self._box, command) as outcome:
                if outcome.exit_code != 0:
                    said = truncation.text(outcome.read_stderr(200)).strip()
                    raise SandboxError(f"the files of a test cannot be removed from the sandbox: {said}")
        self._there = dict(files)
        for name, path in files.items():
            self._box.put(f"{FOLDER}/{name}", path.read_bytes())
