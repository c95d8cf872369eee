"""Renders a problem's statements for pages, in place of judging a submission (`Submission.check` is `statements`).

The texts are strangers', and the libraries that read them cannot be interrupted: each text is read by a run of its own
in a sandbox, which has nothing but `judge.problems.rendering` and these libraries.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from judge.common.errors import UsageError
from judge.executor.slot import truncation
from judge.executor.slot.attempt import PreparedJob
from judge.languages.table import PATH
from judge.model.messages import Limits
from judge.model.problem import ProblemManifest, Statement
from judge.model.statements import Page, Pages
from judge.problems.statements import question, text_of
from judge.sandbox.box import Sandbox
from judge.sandbox.types import Command, Killed, RunOutcome

SOURCE_BYTES: Final = 256 * 1024
LIMITS: Final = Limits(cpu=5, wall=15, memory=768 * 1024**2, output=16 * 1024**2, processes=1)
_LONG: Final = f"the statement has more than {SOURCE_BYTES // 1024} KiB; read its source"
_SLOW: Final = f"the statement takes more than {LIMITS.cpu:g} s to be rendered; read its source"
_BIG: Final = "the statement takes too much memory to be rendered; read its source"
_RUN: Final = ["/usr/bin/python3", "-I", "-S", "-c", "import runpy; runpy.run_path('/box', run_name='__main__')"]
_PACKAGES: Final = ("judge.problems.rendering", "nh3", "markdown_it", "mdurl", "mdit_py_plugins", "latex2mathml")
_MODULES: Final = ("judge", "judge.common", "judge.common.errors", "judge.common.text", "judge.problems")
# It asks for its own version.
_METADATA: Final = "latex2mathml"


class Rendering:
    def __init__(self, attempt: PreparedJob) -> None:
        """The attempt's sandbox is used, and the time of its account is not: the limits are those of each run."""
        self._attempt = attempt

    def pages(self, manifest: ProblemManifest) -> Pages:
        """The page of each statement that has a text; UsageError when this host cannot run the program."""
        statements = [statement for statement in manifest.statements if text_of(statement) is not None]
        with self._attempt.create_files(renderer()) as box:
            return Pages(pages={statement.main: self._page(box, manifest, statement) for statement in statements})

    def _page(self, box: Sandbox, manifest: ProblemManifest, statement: Statement) -> Page:
        files = self._attempt.job.data.files if self._attempt.job.data is not None else {}
        data = Path(files[text_of(statement) or ""]).read_bytes()
        if len(data) > SOURCE_BYTES:
            return Page(why=_LONG)
        memory = min(LIMITS.memory, self._attempt.means.memory or LIMITS.memory)
        stdin = truncation.sealed(question(manifest, statement, data))
        try:
            command = Command(
                argv=_RUN, limits=LIMITS.model_copy(update={"memory": memory}), env={"PATH": PATH}, stdin=stdin
            )
            with self._attempt.runner.run(box, command) as outcome:
                if outcome.killed & {Killed.CPU, Killed.WALL}:
                    return Page(why=_SLOW)
                if outcome.killed or outcome.signal is not None:
                    return Page(why=_BIG)
                if outcome.exit_code != 0:
                    raise UsageError(f"the program that renders statements failed: {_last_line(outcome)}")
                try:
                    return Page.model_validate_json(outcome.read_stdout())
                except ValidationError as exc:
                    raise UsageError("the program that renders statements has printed no page") from exc
        finally:
            os.close(stdin)


def _last_line(outcome: RunOutcome) -> str:
    lines = truncation.text(outcome.read_stderr(4096)).strip().splitlines()
    return truncation.clip(lines[-1], 200) if lines else f"exit code {outcome.exit_code}"


@functools.cache
def renderer() -> dict[str, bytes]:
    """The files of the program that renders, by name below /box: some modules of this installation."""
    files = {"__main__.py": b"from judge.problems.rendering.fragment import main\nmain()\n"}
    for module in _MODULES:
        place = _place(module)
        name = module.replace(".", "/") + ("/__init__.py" if place.name == "__init__.py" else ".py")
        files[name] = place.read_bytes()
    for package in _PACKAGES:
        folder = _place(package).parent
        for path in folder.rglob("*"):
            if path.suffix in {".py", ".so", ".txt"}:
                files["/".join([*package.split("."), *path.relative_to(folder).parts])] = path.read_bytes()
    metadata = distribution(_METADATA)
    files[f"{_METADATA}-{metadata.version}.dist-info/METADATA"] = (metadata.read_text("METADATA") or "").encode()
    return files


def _place(module: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"the module {module} is not installed here")
    return Path(spec.origin)
