"""Problem packages for the pipeline: files in a dictionary, read as import reads them, judged without a cluster."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from judge.executor.channel import Data, Job
from judge.model.messages import Assignment, Submission
from judge.model.problem import ProblemManifest
from judge.problems.package import Package, manifest_bytes, read_package

Files = Mapping[str, bytes | str]


def write(root: Path, files: Files) -> Path:
    """A package as a directory."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


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


def job(data: Data, language: str, source: str, mode: str = "lazy") -> Job:
    """A submission to it."""
    submission = Submission(language=language, source=source, mode=mode)
    assignment = Assignment(id="1" * 24, attempt=1, claim="c1", submission=submission)
    return Job(assignment=assignment, data=data)
