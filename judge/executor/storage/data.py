"""Brings a task's test data to this machine, and big outputs away from it; runs in the thread pool.

Slots hold neither certificates nor connections: they get files by path, verified and pinned while the task runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from judge.common.errors import PackageError, UnavailableError
from judge.executor.channel import Data, Job
from judge.executor.machine import for_want_of_space
from judge.executor.storage.blobs import BlobCache
from judge.model.base import first_fault
from judge.model.messages import Assignment
from judge.model.problem import ProblemManifest
from judge.problems.statements import text_of
from judge.rpc.client import RpcClient

# Tries to get a task's data while no judicator answers; after them the task is given back.
TRIES = 3


@dataclass
class Prepared:
    """The data that a slot needs beside the assignment; `pins` keeps the files from eviction until it is closed."""

    data: Data | None = None
    blobs: dict[str, str] = field(default_factory=dict)
    pins: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def job(self, assignment: Assignment, languages: Mapping[str, str]) -> Job:
        """The job for a slot; `languages` are this machine's, with their versions."""
        version = languages.get(assignment.submission.language or "", "")
        return Job(assignment=assignment, data=self.data, blobs=self.blobs, language_version=version)


class BlobClient:
    def __init__(self, cache: BlobCache, rpc: RpcClient) -> None:
        """`rpc` uploads; the cache knows by itself how to fetch."""
        self._cache = cache
        self._rpc = rpc

    def prepare(self, assignment: Assignment, still_needed: Callable[[], bool]) -> Prepared:
        """Fetch, verify and pin everything a task needs; `still_needed` says whether anybody still wants it.

        Raises PackageError when the manifest is none, UnavailableError when the data cannot be had now (no judicator
        answers, the disk is full), and what the judicators say otherwise.
        """
        attempt = 1
        while True:
            try:
                return self._prepare(assignment)
            except UnavailableError as exc:
                if attempt >= TRIES or for_want_of_space(exc) or not still_needed():
                    raise
            attempt += 1

    def _prepare(self, assignment: Assignment) -> Prepared:
        prepared = Prepared()
        with contextlib.ExitStack() as stack:
            if assignment.problem is not None:
                pinned = stack.enter_context(self._cache.pinned([assignment.problem.hash]))
                manifest = read_manifest(pinned[assignment.problem.hash])
                shas = manifest.blobs()
                if assignment.submission.check == "statements":
                    shas = {sha for statement in manifest.statements if (sha := text_of(statement)) is not None}
                files = stack.enter_context(self._cache.pinned(sorted(shas)))
                prepared.data = Data(manifest=manifest, files={sha: str(path) for sha, path in files.items()})
            names = [
                blob
                for test in assignment.submission.tests
                for blob in (test.input_blob, test.answer_blob)
                if blob is not None
            ]
            if names:
                files = stack.enter_context(self._cache.pinned(names))
                prepared.blobs = {sha: str(path) for sha, path in files.items()}
            prepared.pins = stack.pop_all()
        return prepared

    def upload(self, output: Path) -> str:
        """Store a whole output as a blob and return its name; errors as RpcClient.put_blob, OSError for the file."""
        with output.open("rb") as file:
            sha = hashlib.file_digest(file, "sha256").hexdigest()
            self._rpc.put_file(file, sha, file.seek(0, os.SEEK_END))
        return sha


def read_manifest(path: Path) -> ProblemManifest:
    """The manifest in a verified blob; PackageError when it is none."""
    try:
        return ProblemManifest.model_validate_json(path.read_bytes())
    except ValidationError as exc:
        raise PackageError(f"problem data {path.name[:12]} is not a manifest: {first_fault(exc)}") from None
