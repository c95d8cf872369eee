"""The drafts that importers make: files of a package of format 2025-09, as bytes or as references to read files.

A conversion is a pure function from a tree to a draft. Test data is never read by it: a draft refers to it, so that a
package of many GiB takes no memory, and on a disk none of it is copied.
"""

from __future__ import annotations

import contextlib
import difflib
import posixpath
import re
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from judge.common.errors import PackageError
from judge.common.text import singular
from judge.common.yamltext import Fields, Items, SpelledFloat, SpelledInt, StrangersLoader, text_of
from judge.problems.archives import open_tree
from judge.problems.pointers import refuse_pointers
from judge.problems.tree import CHUNK, Tree, clean

# A settings file or a source that an importer reads as a whole.
TEXT_BYTES = 16 * 1024**2
# So much is looked at of a file that is called as the settings of some system, and may be data of any size.
STARTS = 64 * 1024
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_UUIDS = uuid.UUID("6f1c1f0e-6a1b-5b0e-9a55-3f0f2f1f7a11")


@dataclass(frozen=True)
class Ref:
    """A file of a tree that is carried over as it is."""

    tree: Tree
    path: str

    @property
    def size(self) -> int:
        return self.tree.files[self.path]

    @property
    def where(self) -> str:
        return self.tree.where(self.path)


Content = bytes | Ref


@dataclass
class Report:
    """A report on the import of a package of another format (`origin`), in sentences for the person who imports it."""

    origin: str
    carried: list[str] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    _lines: set[str] = field(default_factory=set, repr=False, compare=False)

    def took(self, line: str) -> None:
        self.carried.append(clean(singular(line), 400))

    def dropped(self, line: str) -> None:
        """Note something that was not carried over, or not as it was; said once."""
        sentence = clean(singular(line), 400)
        if sentence not in self._lines:
            self._lines.add(sentence)
            self.losses.append(sentence)

    def lines(self) -> list[str]:
        """All of it, what was carried over first; `problem import` and `problem check` print them."""
        return [f"carried over: {line}" for line in self.carried] + [
            f"not carried over: {line}" for line in self.losses
        ]


@dataclass(frozen=True)
class ImporterWords:
    """The importer's own words beside the package. `memory` (MiB) is for packages of other formats.

    `time_limit` (seconds) takes the place of the package's whatever its format; importers need not find one then.

    `products`: what has been made of the plan that an earlier conversion of the same package gave (making.py).
    """

    format: str | None = None
    memory: int | None = None
    time_limit: float | None = None
    products: MadeFiles | None = None


@dataclass(frozen=True)
class MadeFiles:
    """Files that are in a package's tree beside its own: on this disk, as bytes, or (str) one of its own again.

    A tuple: several of its own one behind the other, with every CR LF as LF.

    `notes` are told with the conversion, with whether they were carried over. `stand_ins`: nothing was made yet, and
    the files are empty.
    """

    files: Mapping[str, Path | bytes | str | tuple[str, ...]]
    notes: tuple[tuple[bool, str], ...] = ()
    stand_ins: bool = False


class Draft:
    """A package in the making. `problem` becomes problem.yaml; `name` is what the package calls itself, if it does."""

    def __init__(self, tree: Tree, origin: str) -> None:
        self.tree = tree
        self.name = ""
        self.report = Report(origin)
        self.files: dict[str, Content] = {}
        self.limits: dict[str, Any] = {}
        self.problem: dict[str, Any] = {}
        # Folders below data/ and what becomes their test_group.yaml.
        self.groups: dict[str, dict[str, Any]] = {}
        # The content of judge.yaml, our own extension of the format.
        self.judge: dict[str, Any] = {}
        self._counts: Counter[str] = Counter()

    def put(self, path: str, content: Content | str) -> None:
        """Have a file in the package; a path that is taken already is a fault of the input."""
        if path in self.files:
            raise PackageError(f"{self.tree.label}: two of its files would become {clean(path)}; rename one")
        self.files[path] = content.encode() if isinstance(content, str) else content

    def below(self, *folders: str) -> list[str]:
        """All files of the input below these folders."""
        return [path for folder in folders for path in self.tree.below(folder)]

    def free(self, path: str) -> str:
        """The path, with a number before its ending where it is taken."""
        stem, ending = posixpath.splitext(path)
        candidate = path
        while candidate in self.files:
            # One source may be listed thousands of times: counting goes on where it ended.
            self._counts[path] += 1
            candidate = f"{stem}_{self._counts[path] + 1}{ending}"
        return candidate

    def put_yaml(self, path: str, value: Mapping[str, Any]) -> None:
        self.put(path, dump(value))

    def kind(self, *names: str) -> None:
        """Have types of problem beside those that it has already."""
        if names:
            self.problem["type"] = list(dict.fromkeys([*self.problem.get("type", []), *names]))

    def group(self, folder: str, settings: Mapping[str, Any]) -> None:
        """Have settings of a folder of tests, beside those that it has already."""
        self.groups.setdefault(folder, {}).update(settings)

    def ref(self, path: str) -> Ref:
        """A file of the input; PackageError when there is none of that name."""
        if path not in self.tree.files:
            raise PackageError(f"{self.tree.where(path)}: is named by the package, but is not in it")
        return Ref(self.tree, path)

    def used(self) -> set[str]:
        return {content.path for content in self.files.values() if isinstance(content, Ref)}

    def text(self, path: str, limit: int = TEXT_BYTES) -> str:
        """A text of the input, whatever it is encoded in."""
        return decode(read(self.ref(path), limit))

    def start(self, path: str) -> str:
        """The beginning of a text of the input: all of any settings that people write, whatever else it may be."""
        return decode(next(self.tree.chunks(path), b"")[:STARTS])

    def nested(self, path: str) -> Tree:
        """An archive inside the input as a tree of its own, which lives as long as this draft."""
        local = self.ref(path).tree.local(path)
        if local is None:
            file = self.tree.resources.enter_context(tempfile.NamedTemporaryFile(prefix="judge-archive-"))  # noqa: SIM115
            try:
                for chunk in self.tree.chunks(path):
                    file.write(chunk)
                file.flush()
            except OSError as exc:
                raise PackageError(f"{self.tree.where(path)}: cannot be unpacked: {exc.strerror}") from exc
            local = Path(file.name)
        try:
            archive = open_tree(local)
        except PackageError as exc:
            message = str(exc).removeprefix(f"{local}: ").removeprefix(f"{local.name}/")
            raise PackageError(f"{self.tree.where(path)}: {message}") from exc
        archive.label = self.tree.where(path)
        self.tree.resources.callback(archive.close)
        refuse_pointers(archive)
        return archive

    def check_keys(
        self, keys: Mapping[Any, Any], allowed: Collection[str], where: str, *, strict: bool = False
    ) -> None:
        """Say which keys nothing is known of. `strict`: PackageError for one that looks like a slip of a known one."""
        for key in map(str, keys):
            if key in allowed:
                continue
            suggestions = difflib.get_close_matches(key, allowed, 1, 0.8)
            if strict and suggestions and suggestions[0] not in keys:
                raise PackageError(f"{where}: unknown key '{clean(key, 40)}'; did you mean '{suggestions[0]}'?")
            hint = f"; did you mean '{suggestions[0]}'?" if suggestions else ""
            self.report.dropped(f"{where}: {clean(key, 40)}: nothing is known of this key{hint}")

    def unused(self, folders: Iterable[str] | None = None, exempt: Collection[str] = ()) -> None:
        """Say which files of these folders, or of all, are not in the package. `exempt`: those that are in part."""
        used_paths = self.used().union(exempt)
        paths = sorted(self.tree.files) if folders is None else self.below(*folders)
        unused_paths = [path for path in paths if path not in used_paths]
        if unused_paths:
            suffix = f" and {len(unused_paths) - 5} more" if len(unused_paths) > 5 else ""
            self.report.dropped(f"{', '.join(unused_paths[:5])}{suffix}: nothing says what they are for")

    def finish(self) -> ConvertedTree:
        """The package's tree; closing it closes the input as well."""
        if self.limits:
            self.problem["limits"] = self.limits
        # Every test may be a group of its own, so the folders are gathered once.
        folders = {path[:at] for path in self.files for at, char in enumerate(path) if char == "/"}
        for folder, settings in self.groups.items():
            if settings and folder in folders:
                self.put_yaml(f"{folder}/test_group.yaml", settings)
        if self.judge:
            self.put_yaml("judge.yaml", self.judge)
        title = self.problem.pop("name", None) or self.name or self.tree.label
        head = {
            "problem_format_version": "2025-09",
            "name": title,
            "uuid": str(uuid.uuid5(_UUIDS, f"{self.report.origin} {self.name or self.tree.label} {title}")),
        }
        self.files["problem.yaml"] = dump({**head, **self.problem})
        return ConvertedTree(self)


class ConvertedTree(Tree):
    """The tree of a draft. Faults in what was carried over name the file that it was."""

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft.tree.label)
        self._draft = draft
        for path, content in sorted(draft.files.items()):
            self._take(path, len(content) if isinstance(content, bytes) else content.size)

    def where(self, path: str) -> str:
        content = self._draft.files.get(path)
        return content.where if isinstance(content, Ref) else super().where(path)

    def chunks(self, path: str) -> Iterator[bytes]:
        content = self._draft.files[path]
        if isinstance(content, Ref):
            yield from content.tree.chunks(content.path)
            return
        for start in range(0, len(content), CHUNK):
            yield content[start : start + CHUNK]

    def local(self, path: str) -> Path | None:
        content = self._draft.files[path]
        return content.tree.local(content.path) if isinstance(content, Ref) else None

    def close(self) -> None:
        super().close()
        self._draft.tree.close()


class Overlay(Tree):
    """Another tree in which some files have other contents; closing it closes that tree."""

    def __init__(self, base: Tree) -> None:
        """Files and their contents are still to be noted."""
        super().__init__(base.label)
        self._base = base
        self._contents: dict[str, Content | Path] = {}
        self.resources, self.links, self.linked_paths = base.resources, base.links, base.linked_paths
        self.left_out = base.left_out

    def where(self, path: str) -> str:
        """The file's name for people, which is the one that it has there."""
        return self._base.where(path)

    def chunks(self, path: str) -> Iterator[bytes]:
        content = self._contents.get(path, Ref(self._base, path))
        if isinstance(content, Ref):
            yield from content.tree.chunks(content.path)
        elif isinstance(content, Path):
            with content.open("rb") as file:
                while chunk := file.read(CHUNK):
                    yield chunk
        else:
            yield content

    def local(self, path: str) -> Path | None:
        """The place of the file on this machine, if it is there."""
        content = self._contents.get(path, Ref(self._base, path))
        if isinstance(content, Ref):
            return content.tree.local(content.path)
        return content if isinstance(content, Path) else None

    def close(self) -> None:
        self._base.close()


def read(content: Content, limit: int = TEXT_BYTES) -> bytes:
    """All of a file, which may have at most `limit` bytes."""
    return content if isinstance(content, bytes) else content.tree.read(content.path, limit)


def decode(data: bytes) -> str:
    """Text of unknown encoding: UTF-8, else Windows' Cyrillic, in which many old packages are written."""
    for encoding in ("utf-8-sig", "cp1251"):
        with contextlib.suppress(UnicodeDecodeError):
            return data.decode(encoding)
    return data.decode("latin-1")


class _Dumper(yaml.SafeDumper):
    """YAML without aliases: the package reader takes none."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the interface
        return True


def _as_written(dumper: yaml.SafeDumper, value: Fields | Items) -> yaml.Node:
    """A part of a file that was read: what another spelling stands for is text, for keys that have text."""
    pairs = value.items() if isinstance(value, Fields) else enumerate(value)
    written = {key: text_of(value, key) if _is_spelled(value, key, item) else item for key, item in pairs}
    return dumper.represent_data(written if isinstance(value, Fields) else list(written.values()))


def _is_spelled(value: Fields | Items, key: Any, part: Any) -> bool:
    if isinstance(part, bool):
        return value.written.get(key) not in {None, "true", "false"}
    return isinstance(part, SpelledInt | SpelledFloat)


_Dumper.add_representer(Fields, _as_written)
_Dumper.add_representer(Items, _as_written)
for _kind in (SpelledInt, SpelledFloat):
    _Dumper.add_representer(_kind, lambda dumper, value: dumper.represent_data(value + 0))
for _first, _rules in StrangersLoader.yaml_implicit_resolvers.items():
    for _tag, _rule in _rules:
        # A text such as 1e3 is a number for readers of YAML 1.2.
        _Dumper.add_implicit_resolver(_tag, _rule, [_first])


def dump(value: Mapping[str, Any]) -> bytes:
    text: str = yaml.dump(dict(value), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return text.encode("utf-8", "replace")


def slug(name: str, fallback: str = "x") -> str:
    """A name as the package format takes it: letters, digits and `_ . -`, beginning with a letter, digit or `_`."""
    return _UNSAFE.sub("_", name).strip("._-")[:80] or fallback


def unique(names: Iterable[str], key: Callable[[str], str] = slug) -> dict[str, str]:
    """A slug for each name, no two alike whatever the case of their letters; the first keeps the plain one."""
    lowered: set[str] = set()
    keys: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for name in names:
        if name in keys:
            continue
        plain = candidate = key(name)
        while candidate.lower() in lowered:
            # Thousands may have the same slug: counting goes on where it ended.
            counts[plain] += 1
            candidate = f"{plain}_{counts[plain] + 1}"
        lowered.add(candidate.lower())
        keys[name] = candidate
    return keys


def file_name(name: str, where: str) -> str:
    """The name of a file beside a program; PackageError for what is none."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}", name):
        raise PackageError(f"{where}: '{clean(name, 40)}' is not the name of a file; correct it")
    return name


def as_number(value: float) -> int | float:
    """A number as people write it in YAML: whole where it is."""
    return int(value) if float(value).is_integer() else float(value)
