"""The files of a submission out of what people hand in: files, a directory, a ZIP archive. Nothing of it is trusted.

Nothing is unpacked onto a disk, sizes are bounded before anything is read, and every refusal is a FieldError (or
TooLargeError) of `files` that names the file. Contents are kept byte by byte; names are put into the composed form of
Unicode (NFC), in which people write them in their sources, and which a Mac's archives do not have.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from judge.common import zips
from judge.common.errors import FieldError, TooLargeError
from judge.config import SubmissionLimits
from judge.languages.sources import file_named
from judge.languages.table import Language, guess, row_of
from judge.model.messages import FILES, SourceFile, Submission
from judge.model.names import NAME_BYTES, name_fault

# An archive may be larger than sources, as all else in it is left out; its entries are so bounded, too.
ARCHIVE_BYTES: Final = 1024**2
# An archive of outputs may be larger than all of them by so much.
_SPARE_BYTES: Final = 1024**2
_ENTRIES: Final = 10_000
# Of all files that a run leaves, when they are kept.
LEFT_BYTES: Final = 2 * 1024**2
_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_MAGIC: Final = (b"PK\x03\x04", b"PK\x05\x06")
_LEFT_BEHIND: Final = frozenset({"__MACOSX", "__pycache__", "Thumbs.db", "desktop.ini"})
_UTF8_NAME: Final = 0x800
# Languages whose programs with the line ends of Windows do not run.
_UNIX_LINES: Final = frozenset({"bash", "sh"})
# Errors that reading a damaged archive raises.
_DAMAGED: Final = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, struct.error),
    *(NotImplementedError, EOFError, OSError, OverflowError, ValueError, RuntimeError),
)
_ENCRYPTED: Final = 0x1
# No form of a name that may be has more characters: one of Unicode is at most four in its decomposed form. What is
# longer is refused as it is, since composing takes the square of its length.
_COMPOSABLE: Final = 4 * NAME_BYTES


@dataclass(frozen=True)
class Bounds:
    """The bounds of what is taken: how many files, bytes of all of them, and bytes of an archive that they come in."""

    files: int = FILES
    bytes: int = 4 * 1024**2
    archive: int = ARCHIVE_BYTES

    @property
    def largest(self) -> int:
        """Bytes of the largest thing that is looked at: a file, or an archive."""
        return max(self.bytes, self.archive)


def bounds(limits: SubmissionLimits, *, outputs: bool) -> Bounds:
    if outputs:
        return Bounds(limits.files, limits.outputs_bytes, limits.outputs_bytes + _SPARE_BYTES)
    return Bounds(limits.files, limits.files_bytes)


def is_archive(name: str, data: bytes) -> bool:
    """Return whether this is a ZIP archive of files, not one of them."""
    return name.lower().endswith(".zip") and data.startswith(_MAGIC)


def gather(
    named: Iterable[tuple[str, bytes]], bounds: Bounds | None = None, *, whole: bool = False
) -> dict[str, bytes]:
    """Files by their names, those of archives among them unpacked; in the order in which they were given.

    `whole`: of an archive all is kept but what is hidden, which has no name that may be: archives in it, and what tools
    leave behind, too.
    """
    gathered = _Gathered(bounds or Bounds())
    for name, data in named:
        if is_archive(name, data):
            _unpack(name, data, gathered, whole=whole)
        elif name.lower().endswith(".zip"):
            raise FieldError("files", f"'{_quoted(name)}' is no ZIP archive, though its name says so; pack it again")
        else:
            gathered.files[gathered.checked(name, len(data))] = data
    return gathered.files


def read_directory(directory: Path) -> dict[str, bytes]:
    """The files below a directory by their names in it, in name order; what tools leave behind is left out."""
    gathered = _Gathered(Bounds())
    root = directory.resolve()
    for path in _below(directory):
        name = path.relative_to(directory).as_posix()
        if not path.resolve().is_relative_to(root) or not path.is_file():
            raise FieldError("files", f"'{name}' is a link that leads out, or no file; copy the file into {directory}")
        gathered.files[gathered.checked(name, path.stat().st_size)] = path.read_bytes()
    return gathered.files


def left_out(name: str) -> bool:
    """Return whether tools left this behind, by its name in an archive or directory, so that nobody hands it in."""
    return _hidden(name) or not _LEFT_BEHIND.isdisjoint(name.split("/")) or name.endswith(("~", ".pyc"))


def _hidden(name: str) -> bool:
    return any(part[:1] == "." and part not in {".", ".."} for part in name.split("/"))


def program(
    files: Mapping[str, bytes],
    table: Mapping[str, Language],
    *,
    language: str | None = None,
    entry: str | None = None,
    filename: str | None = None,
    answers: bool = False,
) -> dict[str, Any]:
    """The fields of a `Submission` that say what the program is: one UTF-8 text as `source`, all else as `files`.

    The language is that of the entry's suffix, or of all files', unless it is given; `filename` is what the directory
    or archive is called. `answers`: these may be no program, but outputs, so no suffix need tell a language.
    FieldError when it cannot be told.
    """
    if not files:
        raise FieldError("files", "are none, or only such as tools leave behind; hand in the source of a program")
    outputs = answers and entry is None and not any(guess(PurePosixPath(name).name, table) for name in files)
    if language is None and not outputs:
        language = guess_language(list(files), table, entry)
    single = _as_source(files, entry, outputs=outputs)
    if single is not None:
        return {"language": language, **single}
    sources = [SourceFile.of(name, data) for name, data in files.items()]
    return {"language": language, "files": sources, "entry": entry, "filename": filename}


def _as_source(files: Mapping[str, bytes], entry: str | None, *, outputs: bool) -> dict[str, Any] | None:
    """The fields of what is one text, or None. An output's folders say which test it is for."""
    name, data = next(iter(files.items()))
    last = PurePosixPath(name).name
    if len(files) > 1 or entry not in {None, name, last} or b"\0" in data or (outputs and last != name):
        return None
    try:
        return {"source": data.decode("utf-8"), "filename": last}
    except UnicodeDecodeError:
        return None


def composed(submission: Submission) -> Submission:
    """The submission as it is kept: names in the composed form of Unicode, files that are UTF-8 as text.

    FieldError for a file that cannot be read.
    """
    files = []
    for index, file in enumerate(submission.files):
        try:
            data = file.data if file.text is None and file.base64 is not None else None
        except ValueError as exc:
            reason = f"of '{file.name}' is not Base64 (RFC 4648, with padding)"
            raise FieldError(f"files.{index}.base64", reason) from exc
        name = _composed(file.name)
        files.append(SourceFile.of(name, data) if data is not None else file.model_copy(update={"name": name}))
    names = {name: _composed(value) for name in ("filename", "entry") if (value := getattr(submission, name))}
    source = submission.source
    if submission.language is not None and row_of(submission.language) in _UNIX_LINES:
        # A shell takes the carriage return of Windows' line ends for a part of the last word.
        files = [file if file.text is None else file.model_copy(update={"text": _unix(file.text)}) for file in files]
        source = None if source is None else _unix(source)
    return submission.model_copy(update={"files": files, "source": source, **names})


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n")


def comparable(submission: Submission) -> Submission:
    """A form of the submission that is the same for the same one, however it came; an idempotency key compares it.

    The order of files is nothing, one file is the same as its text as `source`, and what an archive or directory was
    called is left out, as a form or JSON does not say it. FieldError as `composed`.
    """
    submission = composed(submission)
    update: dict[str, Any] = {}
    if submission.language is not None:
        update["language"] = row_of(submission.language)
    if submission.files and submission.source is None:
        files = sorted(submission.files, key=lambda file: file.name)
        update |= {"files": files, "filename": None}
        outputs = submission.language is None and submission.command is None
        bytes_by_name = {file.name: file.data for file in files if None in {file.text, file.base64}}
        is_single = len(bytes_by_name) == len(files) == 1
        single = _as_source(bytes_by_name, submission.entry, outputs=outputs) if is_single else None
        if single is not None:
            update |= {"files": [], "entry": None, **single}
    elif submission.entry == submission.filename:
        update["entry"] = None
    return submission.model_copy(update=update)


def contents(submission: Submission) -> dict[str, bytes]:
    """The files of a submission by their names, byte by byte; a source without a name is called `source`."""
    if submission.files:
        return {file.name: file.data for file in submission.files}
    if submission.source is None:
        return {}
    return {submission.filename or "source": submission.source.encode("utf-8", "replace")}


def pack(files: Mapping[str, bytes]) -> bytes:
    """A ZIP archive of files; the same bytes for the same files."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return target.getvalue()


def unpack(data: bytes, most: int) -> dict[str, bytes]:
    """The files of an archive that another host has packed; none of a broken one, or of more than `most` bytes."""
    with contextlib.suppress(*_DAMAGED), zips.opened(io.BytesIO(data), _ENTRIES) as archive:
        entries = archive.infolist()
        if sum(entry.file_size for entry in entries) <= most:
            return {entry.filename: archive.read(entry) for entry in entries}
    return {}


def guess_language(names: Sequence[str], table: Mapping[str, Language], entry: str | None = None) -> str:
    """The language by the suffix of the entry, or of all files that have one; FieldError when they do not agree."""
    main = None if entry is None else file_named(names, entry)
    kinds_by_name = {
        name: kind_of_name
        for name in ([main] if main else names)
        if (kind_of_name := guess(PurePosixPath(name).name, table))
    }
    kinds = list(dict.fromkeys(kinds_by_name.values()))
    # A row that compiles another's sources, too: C++ those of C.
    for kind in kinds:
        if all(candidate == kind or set(table[candidate].suffixes) & set(table[kind].sources) for candidate in kinds):
            return kind
    if not kinds:
        examples = ", ".join(f"'{name[-60:]}'" for name in names[:3])
        raise FieldError("language", f"cannot be told from {examples}; name it")
    raise FieldError(
        "language", f"could be {' or '.join(kinds[:4])} by the files' names; name it, or the file to start"
    )


class _Gathered:
    def __init__(self, bounds: Bounds) -> None:
        self.files: dict[str, bytes] = {}
        self.bounds = bounds
        self._total = 0

    def checked(self, name: str, size: int) -> str:
        """The composed name of a file, which is checked before its content is looked at."""
        name = _composed(name)
        fault = name_fault(name)
        if fault:
            raise FieldError("files", f"a name {fault}" if not name else f"'{_quoted(name)}' {fault}")
        if name in self.files:
            raise FieldError("files", f"'{name}' is the name of two files; give each its own")
        self._total += size
        if len(self.files) >= self.bounds.files:
            raise FieldError("files", f"there are more than {self.bounds.files}; hand in fewer")
        if self._total > self.bounds.bytes:
            msg = f"files: have more than {self.bounds.bytes} bytes together; hand in a shorter program"
            raise TooLargeError(msg, "files")
        return name


def _unpack(label: str, data: bytes, gathered: _Gathered, *, whole: bool) -> None:
    label, most = _quoted(label), gathered.bounds.archive
    if len(data) > most:
        raise TooLargeError(f"files: the archive '{label}' has {len(data)} bytes; at most {most} are accepted", "files")
    try:
        with zips.opened(io.BytesIO(data), _ENTRIES) as archive:
            for entry in archive.infolist():
                name = _entry_name(label, entry)
                if name is None or (_hidden(name) if whole else left_out(name)):
                    continue
                _check_entry(label, name, entry)
                composed_name = gathered.checked(name, entry.file_size)
                with archive.open(entry) as file:
                    content = file.read(entry.file_size + 1)
                if len(content) != entry.file_size:
                    raise FieldError("files", f"'{_quoted(name)}' is not as long as the archive says; pack it again")
                if is_archive(name, content) and not whole:
                    raise FieldError(
                        "files", f"'{name}' is an archive in the archive '{label}'; pack its files instead"
                    )
                gathered.files[composed_name] = content
    except zips.TooManyEntriesError as exc:
        reason = f"has more than {_ENTRIES} entries; pack the sources alone"
        raise FieldError("files", f"the archive '{label}' {reason}") from exc
    except _DAMAGED as exc:
        reason = "".join(char if char.isprintable() else " " for char in str(exc))[:100]
        raise FieldError("files", f"'{label}' is no ZIP archive that can be read: {reason}") from exc


def _entry_name(label: str, entry: zipfile.ZipInfo) -> str | None:
    """The name of an entry, None for a folder; FieldError for what is neither that nor a file."""
    name = entry.filename
    if not entry.flag_bits & _UTF8_NAME and not name.isascii():
        raw = name.encode("cp437", "replace")  # as zipfile has read it; a Mac writes UTF-8 and does not say so
        with contextlib.suppress(UnicodeDecodeError):
            name = raw.decode("utf-8")
    name = name.replace("\\", "/")  # some packers of Windows
    while name.startswith("./"):
        name = name[2:]
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
        raise FieldError("files", f"'{_quoted(name)}' in '{label}' is a link or no plain file; pack the file itself")
    return None if name.endswith("/") else name


def _check_entry(label: str, name: str, entry: zipfile.ZipInfo) -> None:
    """FieldError for a file that cannot be unpacked."""
    if entry.flag_bits & _ENCRYPTED:
        raise FieldError("files", f"'{_quoted(name)}' in '{label}' is encrypted; pack it without a password")
    if entry.compress_type not in _METHODS:
        raise FieldError("files", f"'{_quoted(name)}' in '{label}' is packed by an unusual method; pack a plain ZIP")


def _below(directory: Path) -> list[Path]:
    """All files below a directory, in name order; links to directories are not followed."""
    paths: list[Path] = []
    for folder, folders, names in os.walk(directory, onerror=_unreadable):
        folders[:] = [name for name in folders if not left_out(name)]
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        paths += [Path(folder) / name for name in [*names, *links] if not left_out(name)]
        if len(paths) > _ENTRIES:
            raise FieldError("files", f"{directory} has more than {_ENTRIES} files; hand in fewer")
    return sorted(paths)


def _unreadable(error: OSError) -> None:
    raise FieldError("files", f"{error.filename} cannot be read: {error.strerror}")


def _composed(name: str) -> str:
    return name if len(name) > _COMPOSABLE else unicodedata.normalize("NFC", name)


def _quoted(name: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in name)[-100:]
