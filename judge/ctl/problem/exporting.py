"""A problem's manifest and package out of the cluster again."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO

from pydantic import ValidationError

from judge.common.errors import ConflictError, NotFoundError, PackageError, UnavailableError, UsageError
from judge.common.text import suggestion
from judge.ctl.api import Api
from judge.model.problem import FileIndex, ProblemInfo, ProblemManifest, ProblemsReply

# A ZIP archive's oldest date: archives of the same package are the same bytes.
_DATE = (1980, 1, 1, 0, 0, 0)


def find(api: Api, name: str) -> ProblemInfo:
    """One problem of the cluster; NotFoundError."""
    infos = {info.name: info for info in api.call(ProblemsReply, "GET", "/problems").problems}
    if name not in infos:
        raise NotFoundError(f"problem '{name}' does not exist; {suggestion(name, infos, 'see judgectl problem list')}")
    return infos[name]


def manifest_of(api: Api, info: ProblemInfo) -> ProblemManifest:
    try:
        return ProblemManifest.model_validate_json(api.get_content(info.hash))
    except ValidationError:
        msg = f"problem '{info.name}' has a manifest that this judgectl does not understand; use one of its version"
        raise UnavailableError(msg) from None


def _files(api: Api, name: str) -> dict[str, str]:
    """All files of a problem's package: path to blob."""
    manifest = manifest_of(api, find(api, name))
    if manifest.package is None:
        raise NotFoundError(f"problem '{name}' was imported without its files; import its package again to keep them")
    files = FileIndex.model_validate_json(api.get_content(manifest.package)).files
    for path in files:
        parts = PurePosixPath(path).parts
        if path.startswith("/") or "\\" in path or ".." in parts or not parts:
            raise PackageError(
                f"problem '{name}': its file '{path[:80]}' would be written elsewhere; nothing is written"
            )
    return files


def export(api: Api, name: str, target: Path) -> int:
    """Write a problem's package, as it was imported, to a new directory or (by its suffix) a ZIP archive.

    Returns the number of files. ConflictError when the target exists, NotFoundError when there is nothing to write.
    """
    if target.exists():
        raise ConflictError(f"{target}: exists already; name a new directory or archive")
    files = _files(api, name)
    with contextlib.ExitStack() as partial:
        partial.callback(_remove, target)
        _write(api, name, files, target)
        partial.pop_all()
    return len(files)


def _write(api: Api, name: str, files: dict[str, str], target: Path) -> None:
    try:
        if target.suffix.lower() in {".zip", ".kpp"}:
            with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
                for path in sorted(files):
                    with tempfile.TemporaryFile() as file:
                        api.get_blob(files[path], file)
                        entry = zipfile.ZipInfo(f"{name}/{path}", _DATE)
                        entry.compress_type = zipfile.ZIP_DEFLATED
                        entry.external_attr = (0o100755 if _executable(path, file) else 0o100644) << 16
                        with archive.open(entry, "w") as packed:
                            shutil.copyfileobj(file, packed)
        else:
            _write_folder(api, files, target)
    except OSError as exc:
        raise UsageError(f"{exc.filename or target}: cannot be written: {exc.strerror}") from exc


def _remove(target: Path) -> None:
    """Leave nothing half written."""
    if target.is_dir():
        shutil.rmtree(target, ignore_errors=True)
    else:
        target.unlink(missing_ok=True)


def _write_folder(api: Api, files: dict[str, str], target: Path) -> None:
    for path in sorted(files):
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("w+b") as file:
            api.get_blob(files[path], file)
            if _executable(path, file):
                place.chmod(0o755)


def _executable(path: str, file: IO[bytes]) -> bool:
    """Packages do not say what may be executed: scripts may. The file is at its beginning, before and after."""
    start = file.read(2)
    file.seek(0)
    return start == b"#!" or PurePosixPath(path).name in {"build", "run"}
