"""Judges hostile programs exactly as a slot of the executor does, in this process or as a worker of its own.

As a worker (`python -m tests.hostile.runner DIRECTORY CORE PLACES`) it reads one name per line and answers each with a
line of JSON; the name `close` ends its pool and tells what is left in its process.
"""

import ctypes
import gc
import hashlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from judge.common.errors import SandboxError
from judge.executor.channel import Data, Finished, Job
from judge.executor.slot.pipeline import Pipeline
from judge.languages.table import extra_paths, load_table
from judge.model.messages import Assignment, Submission
from judge.model.problem import ProblemManifest, ProblemTest
from judge.sandbox import Sandbox, SandboxPool
from judge.sandbox.container import uid_window
from tests.hostile.cases import BY_NAME, Case
from tests.hostile.host import CGROUP, Traces

PROGRAMS = Path(__file__).with_name("programs")
TABLE = load_table()


@dataclass(frozen=True)
class Report:
    """What became of one program. `text` is all that anybody will ever see of it."""

    name: str
    verdict: str
    reason: str
    log: str
    text: str

    def faults(self, token: str) -> list[str]:
        """Why this is not what the table says; one sentence each."""
        case = BY_NAME[self.name]
        sentences = []
        if self.verdict not in case.verdicts.split():
            sentences.append(f"verdict {self.verdict} instead of {case.verdicts}: {self.reason}; {self.text[:2000]}")
        if case.says and case.says not in f"{self.reason}\n{self.log}":
            sentences.append(f"'{case.says}' is not in the reason '{self.reason}' nor in the log:\n{self.log[:1000]}")
        if token in self.text:
            sentences.append("the secret is in the result")
        if len(self.text) > 200_000:
            sentences.append(f"the result has {len(self.text)} characters")
        return sentences


class Judge:
    """A pipeline with a pool of its own; notes the users of the containers it had."""

    def __init__(
        self, name: str, directory: Path, places: dict[str, str], core: int | None = None, makers: Sequence[int] = ()
    ) -> None:
        """`directory`: for outputs and test data; `places`: what stands for the placeholders in the programs.

        With a `core` it works as a slot does: pinned there, the next container made on the makers' cores while
        the compiler runs.
        """
        self._blobs = directory / "blobs"
        self.outputs = directory / "outputs"
        self._blobs.mkdir(parents=True, exist_ok=True)
        self.outputs.mkdir(exist_ok=True)
        self._places = places
        self.users: set[int] = set()
        self.cgroup = f"{CGROUP}-{name}"
        self._pool = SandboxPool(name, self.cgroup, core=core, makers=makers, paths=extra_paths(TABLE.values()))
        self._pipeline = Pipeline(
            take=self._take,
            tell=lambda _: None,
            table=TABLE,
            outputs=self.outputs,
            prepare=(lambda: None) if core is None else self._pool.prepare,
        )

    def _take(self) -> Sandbox:
        sandbox = self._pool.take()
        first, pairs = uid_window(Path("/proc/self/uid_map").read_text())
        user = first + 2 * (sandbox._container.pid % pairs)
        self.users |= {user, user + 1}
        return sandbox

    def close(self) -> None:
        self._pool.close()

    def _fill(self, text: str) -> str:
        for key, value in self._places.items():
            text = text.replace(key, value)
        return text

    def _blob(self, data: bytes) -> str:
        sha = hashlib.sha256(data).hexdigest()
        (self._blobs / sha).write_bytes(data)
        return sha

    def job(self, case: Case) -> Job:
        """What an executor gets for this program: a submission to a problem whose tests are files on its disk."""
        text = (PROGRAMS / case.program).read_text() if case.program else ""
        text = self._fill(text.replace('#include "hostile.h"', (PROGRAMS / "hostile.h").read_text()))
        if case.language is None:
            fields = {"command": text, "source": case.source, "filename": case.filename}
            fields["compile"] = self._fill(case.compile) if case.compile else None
        else:
            source = case.source if case.source is not None else text
            fields = {"language": case.language, "source": source, "filename": case.filename}
        tests = [
            ProblemTest(name=f"{number:03}", input=self._blob(data), answer=self._blob(answer), sample=False)
            for number, (data, answer) in enumerate(case.tests)
        ]
        manifest = ProblemManifest(
            name="hostile", tests=tests, limits=case.run_limits, validator_flags=list(case.flags)
        )
        files = {sha: str(self._blobs / sha) for test in tests for sha in (test.input, test.answer)}
        assignment = Assignment(id="1" * 24, attempt=1, claim="c1", submission=Submission.model_validate(fields))
        return Job(assignment=assignment, data=Data(manifest=manifest, files=files), language_version="v1")

    def run(self, name: str) -> Report:
        """Judge one program; a sandbox that fails is a verdict of its own here, which no table expects."""
        case = BY_NAME[name]
        with patch("judge.executor.slot.builds.COMPILE_LIMITS", case.build):
            try:
                finished = self._pipeline.execute(self.job(case))
            except SandboxError as exc:
                return Report(name, "BROKEN", str(exc), "", "")
        return self._report(name, finished)

    def _report(self, name: str, finished: Finished) -> Report:
        completed = finished.completed
        assert completed is not None
        verdict = "RETRY" if completed.retry or completed.verdict is None else str(completed.verdict)
        result = completed.result
        return Report(name, verdict, result.reason, result.compile_log, completed.model_dump_json())


def _rss() -> int:
    """Bytes of memory of this process's own; pages of files come and go with what else the machine needs.

    The allocator first gives back what it keeps for later: 3 % more or less, as the order of the programs has it.
    """
    ctypes.CDLL(None).malloc_trim(0)
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon:"))


def main(directory: Path, core: int, places: dict[str, str]) -> None:
    number = directory.name
    before: Traces | None = None
    judge: Judge | None = None
    makers = sorted(os.sched_getaffinity(0) - {core})  # before the first pool pins this process
    for line in sys.stdin:
        name = line.strip()
        if judge is None:
            judge = Judge(number, directory, places, core, makers)
            judge.run("11_name_none")  # this opens and imports all that is opened and imported once per process
            judge.close()
            before = before or Traces.now(judge.outputs, cgroup=judge.cgroup)
            judge = Judge(number, directory, places, core, makers)
        if name == "close":
            judge.close()
            gc.collect()
            assert before is not None
            leftovers = Traces.now(judge.outputs, cgroup=judge.cgroup).new(before)
            answer = {"left": leftovers, "users": sorted(judge.users), "rss": _rss()}
            judge = None
        else:
            answer = judge.run(name).__dict__
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
