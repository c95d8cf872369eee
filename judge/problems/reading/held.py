"""A package that has been read, and where the content of its files can be had from until they are uploaded."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from judge.common.errors import PackageError
from judge.model.problem import ProblemManifest
from judge.problems.metadata import ProblemYaml
from judge.problems.reading.findings import Findings
from judge.problems.tree import Tree

# Files of an archive up to this size stay in memory while there are not many; others wait in a temporary directory.
_IN_MEMORY = 64 * 1024
_ALL_IN_MEMORY = 32 * 1024**2

Look = Callable[[str, bytes], None]


@dataclass
class Package:
    """A package that has been read. `blobs` holds every test file once, as bytes or as a file to read from.

    `submissions` are the files below submissions/, by their paths, `expectations` is submissions.yaml and its name for
    people, `entries` what submissions.json (DOMjudge's) says is started, by the same paths. `notes` are sentences for
    its importer, the warnings among its `findings`. `infer`: the package has no time limit, and the manifest's is
    `timing.PROVISIONAL` until one is inferred. `held` has the files of an archive.
    """

    manifest: ProblemManifest
    blobs: dict[str, Path | bytes]
    submissions: dict[str, bytes] = field(default_factory=dict)
    yaml: ProblemYaml = field(default_factory=ProblemYaml)
    expectations: tuple[bytes, str] | None = None
    entries: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)
    infer: bool = False
    held: TreeBlobs | None = None

    def read(self, sha: str) -> bytes:
        with self.open(sha) as file:
            return file.read()

    def open(self, sha: str) -> IO[bytes]:
        """A blob's content, checked against its name; PackageError when its file has changed since it was read."""
        blob = self.blobs[sha]
        if isinstance(blob, bytes):
            return io.BytesIO(blob)
        try:
            file = blob.open("rb")
        except OSError as exc:
            raise PackageError(f"{blob}: cannot be read: {exc.strerror}") from exc
        if hashlib.file_digest(file, "sha256").hexdigest() != sha:
            file.close()
            raise PackageError(f"{blob}: changed while the package was imported; import it again")
        file.seek(0)
        return file

    def close(self) -> None:
        """Remove the temporary files of an archive; blobs that are paths into it are gone then."""
        if self.held is not None:
            self.held.close()

    def __enter__(self) -> Package:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class TreeBlobs:
    """The files of a tree by their hashes, each read once and in pieces, so that a package of GiB takes little memory.

    `look` is shown every piece of every file as it is hashed. Files of an archive that are unpacked go away with this
    object, or with `close`.
    """

    def __init__(self, tree: Tree, look: Look | None = None) -> None:
        self.contents: dict[str, Path | bytes] = {}
        self._unpacked: Path | None = None
        self._cleanup: Callable[[], object] = lambda: None
        self._tree = tree
        self._look = look
        self._shas: dict[str, str] = {}
        self._in_memory = 0

    def of(self, path: str) -> str:
        """The hash of a file, whose content is then held; an empty path is an empty file. PackageError."""
        if not path:
            return self.add_bytes(b"")
        if path not in self._shas:
            self._shas[path] = self._file(path)
        return self._shas[path]

    def add_bytes(self, data: bytes) -> str:
        """The hash of content that is no file of the tree as it is."""
        return self._note(hashlib.sha256(data).hexdigest(), data)

    def close(self) -> None:
        """Remove what was unpacked."""
        self._cleanup()

    def _file(self, path: str) -> str:
        digest = hashlib.sha256()
        local = self._tree.local(path)
        if local is not None:
            for chunk in self._tree.chunks(path):
                digest.update(chunk)
                self._observe(path, chunk)
            return self._note(digest.hexdigest(), local)
        size = self._tree.files[path]
        if size <= _IN_MEMORY and self._in_memory + size <= _ALL_IN_MEMORY:
            data = self._tree.read(path, _IN_MEMORY)
            self._observe(path, data)
            self._in_memory += size
            return self.add_bytes(data)
        if self._unpacked is None:
            self._unpacked = Path(tempfile.mkdtemp(prefix="judge-package-"))
            self._cleanup = weakref.finalize(self, shutil.rmtree, self._unpacked, ignore_errors=True)
        handle, name = tempfile.mkstemp(dir=self._unpacked)
        try:
            with os.fdopen(handle, "wb") as file:
                for chunk in self._tree.chunks(path):
                    digest.update(chunk)
                    self._observe(path, chunk)
                    file.write(chunk)
        except OSError as exc:
            raise PackageError(f"{self._tree.where(path)}: cannot be unpacked: {exc.strerror}") from exc
        if digest.hexdigest() in self.contents:
            Path(name).unlink()
        return self._note(digest.hexdigest(), Path(name))

    def _observe(self, path: str, chunk: bytes) -> None:
        if self._look is not None:
            self._look(path, chunk)

    def _note(self, sha: str, blob: Path | bytes) -> str:
        self.contents.setdefault(sha, blob)
        return sha
