"""Manifests made by hand, with their blobs in a directory: for features by themselves, whatever reads packages."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from judge.executor.channel import Data, Job
from judge.model.messages import Assignment, Limits, SourceFile, Submission
from judge.model.problem import ProblemManifest, ProblemProgram, ProblemTest
from judge.problems.package import manifest_bytes

LIMITS = Limits(cpu=2, memory=256 * 1024**2)
VALIDATION = Limits(cpu=2, wall=10, memory=256 * 1024**2)


class Problem:
    """A problem that grows: blobs lie in `store`."""

    def __init__(self, store: Path) -> None:
        """`store` is made."""
        store.mkdir(exist_ok=True)
        self._store = store
        self._files: dict[str, str] = {}

    def blob(self, content: str | bytes) -> str:
        """Keep a content; its name."""
        data = content.encode() if isinstance(content, str) else content
        sha = hashlib.sha256(data).hexdigest()
        (self._store / sha).write_bytes(data)
        self._files[sha] = str(self._store / sha)
        return sha

    def program(self, name: str, source: str, file: str = "", **more: str) -> ProblemProgram:
        """A program of one file, in Python unless the file's name says otherwise, or of `more` files as well."""
        main = file or f"{name}.py"
        language = {"py": "python3", "c": "c", "cpp": "cpp", "java": "java"}.get(main.rpartition(".")[2])
        files = {main: self.blob(source), **{key: self.blob(text) for key, text in more.items()}}
        return ProblemProgram(name=name, language=language, main=main, files=files)

    def test(self, name: str, given: str = "", answer: str = "", **more: object) -> ProblemTest:
        """One test; `files` of `more` are contents by name."""
        files = more.pop("files", {})
        assert isinstance(files, Mapping)
        return ProblemTest.model_validate(
            {
                "name": name,
                "input": self.blob(given),
                "answer": self.blob(answer),
                "sample": name.startswith("sample/"),
                "files": {key: self.blob(text) for key, text in files.items()},
                **more,
            }
        )

    def data(self, *tests: ProblemTest, **more: object) -> Data:
        """What a slot gets; the manifest travels as it does in a cluster."""
        fields = {"name": "p", "limits": LIMITS, "validation": VALIDATION, "tests": list(tests), **more}
        manifest = ProblemManifest.model_validate(fields)
        read = ProblemManifest.model_validate_json(manifest_bytes(manifest))
        assert read == manifest
        assert read.blobs() <= self._files.keys()
        return Data(manifest=read, files=self._files)


def job(data: Data, submission: Mapping[str, object]) -> Job:
    """A submission to a problem."""
    handed_in = Submission.model_validate(submission)
    return Job(assignment=Assignment(id="1" * 24, attempt=1, claim="c1", submission=handed_in), data=data)


def source(text: str, language: str = "python3", mode: str = "lazy") -> dict[str, object]:
    """A submission of one file."""
    return {"language": language, "source": text, "mode": mode}


def several(files: Mapping[str, str | bytes], **more: object) -> dict[str, object]:
    """A submission of several files."""
    made = [SourceFile.of(name, one.encode() if isinstance(one, str) else one) for name, one in files.items()]
    return {"files": made, **more}
