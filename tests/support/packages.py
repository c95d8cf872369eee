"""Problem packages, manifests and programs that tests judge."""

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from judge.common.errors import PackageError
from judge.config.allowance import Allowance
from judge.executor.channel import Data, Job
from judge.executor.slot.pipeline import Pipeline
from judge.languages.table import Language
from judge.model.messages import Assignment, Completed, Limits, SourceFile, Submission
from judge.model.problem import ProblemManifest, ProblemProgram, ProblemTest, TestGroup
from judge.problems.package import Package, manifest_bytes, read_package

ByteFiles = dict[str, bytes]
SHA = "0" * 64


def tutorial() -> str:
    """The commands of the tutorial in docs/problems.md."""
    return (Path(__file__).parents[2] / "docs/problems.md").read_text().partition("```sh\n")[2].partition("```")[0]


def with_judgectl() -> dict[str, str]:
    """An environment whose shell finds judgectl."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def folder(parent: Path, files: ByteFiles, name: str = "sum") -> Path:
    """The files below a new directory."""
    root = parent / name
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


def archive(parent: Path, files: ByteFiles, prefix: str = "", name: str = "sum.zip") -> Path:
    """The files in a new ZIP archive."""
    with zipfile.ZipFile(parent / name, "w", zipfile.ZIP_DEFLATED) as file:
        for path, data in files.items():
            file.writestr(prefix + path, data)
    return parent / name


Files = Mapping[str, bytes | str]


def write(root: Path, files: Files) -> Path:
    """A package as a directory."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def cases(*names: str, data: bytes = b"1\n") -> ByteFiles:
    """Inputs and answers of tests of a package."""
    return {f"data/{name}.{kind}": data for name in names for kind in ("in", "ans")}


def manifest_of(*names: str, **fields: Any) -> ProblemManifest:
    """A manifest with tests of these names; nothing is in them."""
    tests = [ProblemTest(name=name, input=SHA, answer=SHA, sample=name.startswith("sample")) for name in names]
    return ProblemManifest(name="p", tests=tests, **fields)


def refused(read: Callable[..., object], *args: object, **options: object) -> str:
    """The sentence with which a call refuses a package."""
    with pytest.raises(PackageError) as caught:
        read(*args, **options)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def refusal(root: Path, **options: object) -> str:
    """The sentence with which a package is refused."""
    return refused(read_package, root, **options)


def run_wrapper(root: Path, wrapper: bytes, checker: str) -> tuple[int, dict[str, str]]:
    """The exit code and the feedback of a wrapper beside a checker, a script of the shell."""
    (root / "feedback").mkdir()
    files = {"run": wrapper, "checker": f"#!/bin/sh\n{checker}\n".encode(), "in": b"in\n", "ans": b"ans\n"}
    for name, content in files.items():
        (root / name).write_bytes(content)
        (root / name).chmod(0o755)
    command = [root / "run", root / "in", root / "ans", f"{root}/feedback/"]
    process = subprocess.run(command, input=b"out\n", check=False, capture_output=True)
    return process.returncode, {path.name: path.read_text().strip() for path in (root / "feedback").iterdir()}


def subgroups(manifest: ProblemManifest) -> list[TestGroup]:
    """The groups below `secret`."""
    return [group for group in manifest.groups if "/" in group.name]


def data_of(package: Package, store: Path) -> Data:
    """What a slot gets of a package, its blobs in `store`; the manifest travels as it does in a cluster."""
    store.mkdir(exist_ok=True)
    for sha in package.blobs:
        data = package.read(sha)
        assert hashlib.sha256(data).hexdigest() == sha
        (store / sha).write_bytes(data)
    manifest = ProblemManifest.model_validate_json(manifest_bytes(package.manifest))
    assert manifest == package.manifest
    return Data(manifest=manifest, files={sha: str(store / sha) for sha in package.blobs})


def load(root: Path, store: Path) -> Data:
    """A package's directory as a slot gets it."""
    with read_package(root) as package:
        return data_of(package, store)


def assigned(submission: Submission, **fields: Any) -> Job:
    return Job(assignment=Assignment(id="1" * 24, attempt=1, claim="c1", submission=submission), **fields)


def job(data: Data, language: str, source: str, mode: str = "lazy") -> Job:
    """A submission to it."""
    return assigned(Submission(language=language, source=source, mode=mode), data=data)


def judged(pipeline: Pipeline, job: Job) -> Completed:
    """What comes of it; nothing about it is to be tried again."""
    completed = pipeline.execute(job).completed
    assert completed is not None
    assert not completed.retry, completed.result.reason
    return completed


LIMITS = Limits(cpu=2, memory=256 * 1024**2)
VALIDATION = Limits(cpu=2, wall=10, memory=256 * 1024**2)


def own(*, claim: str = "c1", allowance: Allowance | None = None, **submission: object) -> Job:
    """What a slot gets of a submission without a problem."""
    parsed = Submission.model_validate(submission)
    assignment = Assignment(id="1" * 24, attempt=1, claim=claim, submission=parsed)
    if allowance is not None:
        assignment.allowance = allowance
    return Job(assignment=assignment, language_version="v1")


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

    def program(self, name: str, source: str, file: str = "", **sources: str) -> ProblemProgram:
        """A program of one file, in Python unless the file's name says otherwise, or of `more` files as well."""
        main = file or f"{name}.py"
        language = {"py": "python3", "c": "c", "cpp": "cpp", "java": "java"}.get(main.rpartition(".")[2])
        files = {main: self.blob(source), **{key: self.blob(text) for key, text in sources.items()}}
        return ProblemProgram(name=name, language=language, main=main, files=files)

    def test(self, name: str, stdin: str = "", answer: str = "", **fields: object) -> ProblemTest:
        """One test; `files` of `more` are contents by name."""
        files = fields.pop("files", {})
        assert isinstance(files, Mapping)
        return ProblemTest.model_validate(
            {
                "name": name,
                "input": self.blob(stdin),
                "answer": self.blob(answer),
                "sample": name.startswith("sample/"),
                "files": {key: self.blob(text) for key, text in files.items()},
                **fields,
            }
        )

    def data(self, *tests: ProblemTest, **overrides: object) -> Data:
        """What a slot gets; the manifest travels as it does in a cluster."""
        fields = {"name": "p", "limits": LIMITS, "validation": VALIDATION, "tests": list(tests), **overrides}
        manifest = ProblemManifest.model_validate(fields)
        read = ProblemManifest.model_validate_json(manifest_bytes(manifest))
        assert read == manifest
        assert read.blobs() <= self._files.keys()
        return Data(manifest=read, files=self._files)


def job_of_manifest(data: Data, submission: Mapping[str, object]) -> Job:
    """A submission to a problem."""
    handed_in = Submission.model_validate(submission)
    return Job(assignment=Assignment(id="1" * 24, attempt=1, claim="c1", submission=handed_in), data=data)


def source(text: str, language: str = "python3", mode: str = "lazy") -> dict[str, object]:
    """A submission of one file."""
    return {"language": language, "source": text, "mode": mode}


def several(files: Mapping[str, str | bytes], **fields: object) -> dict[str, object]:
    """A submission of several files."""
    sources = [
        SourceFile.of(name, content.encode() if isinstance(content, str) else content)
        for name, content in files.items()
    ]
    return {"files": sources, **fields}


ROOT = Path(__file__).parents[1] / "languages"


def _programs() -> dict[str, dict[str, bytes]]:
    table: dict[str, dict[str, bytes]] = {}
    for program in (ROOT / "several-files.txt").read_text(encoding="utf-8").removeprefix("== ").split("\n== "):
        name, _, files = program.partition("\n")
        parts = [part.partition("\n") for part in files.removeprefix("-- ").split("\n-- ")]
        table[name] = {file: (text.rstrip("\n") + "\n").encode() if text else b"" for file, _, text in parts}
    return table


PROGRAMS = _programs()


NUMBERS = [7, 3, 999, 3, 0, 7, 12]
SMALL = ("{}\n{}\n".format(len(NUMBERS), " ".join(map(str, NUMBERS))), "1031\n0 3 7 12 999\n")
MANY = [n * n % 1000 for n in range(5000)]
BIG = (f"{len(MANY)}\n" + "\n".join(map(str, MANY)) + "\n", f"{sum(MANY)}\n{' '.join(map(str, sorted(set(MANY))))}\n")

_HEAD = re.compile(r"^=== (right|input|answer|broken|crash|loop|hungry)(?: says (.+))?\n", re.MULTILINE)


@dataclass(frozen=True)
class Programs:
    """Sources by what they do. `says`: words of the compiler's message; `tests`: what `right` is judged on."""

    sources: dict[str, str]
    says: str

    @property
    def tests(self) -> list[tuple[str, str]]:
        """Pairs of input and answer."""
        own = self.sources.get("input"), self.sources.get("answer")
        return [SMALL, BIG] if own[0] is None or own[1] is None else [(own[0], own[1])]


def programs(row: Language) -> Programs:
    """The programs of one row; FileNotFoundError when nobody has written any."""
    names = [name for name in (row.name, row.like) if name]
    path = next((path for name in names if (path := ROOT / f"{name}.txt").is_file()), ROOT / f"{row.name}.txt")
    _, *parts = _HEAD.split(path.read_text(encoding="utf-8"))
    sources = dict(zip(parts[::3], parts[2::3], strict=True))
    says = next((words for words in parts[1::3] if words), "")
    return Programs(sources, says)
