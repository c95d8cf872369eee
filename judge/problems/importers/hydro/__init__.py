"""Problems of Hydro: as it exports them, with problem.yaml beside testdata/, and its settings beside tests alone."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection

from judge.common.errors import PackageError
from judge.problems import metadata
from judge.problems.importers.draft import Draft, ImporterWords, decode
from judge.problems.importers.hydro.conversion import INI, KEYS, PROBLEM, STATEMENT, HydroConversion
from judge.problems.importers.pairs import NAMELESS
from judge.problems.tree import Tree

_DATA = "testdata"
_CONFIGS = ("config.yaml", "config.yml", INI)
_PID = re.compile(rb"^(?:pid|owner|nSubmit|tag) *:", re.MULTILINE)
# Keys that others have as well.
_COMMON = frozenset({"time", "memory", "score", "count", "detail", "key"})
_INI_BEGIN = re.compile(r"\s*[0-9]{1,5}\s*\n[^|\n]+\|[^|\n]+\|[^|\n]+\|")


def matches(tree: Tree) -> bool:
    """Whether tests lie in testdata/, beside a problem.yaml without data/; or beside settings that are Hydro's."""
    below = [path.partition("/")[0] for path in tree.files]
    if PROBLEM in tree.files:
        return _DATA in below and "data" not in below
    return bool(_data_folder(tree))


def lacks_tests(tree: Tree) -> bool:
    """Return whether it is a problem.yaml as Hydro writes it, beside statements, without tests of any kind."""
    if PROBLEM not in tree.files or any(path.startswith((f"{_DATA}/", "data/")) for path in tree.files):
        return False
    has_statement = any(STATEMENT.fullmatch(path) for path in tree.files)
    return has_statement and _PID.search(tree.read(PROBLEM, metadata.YAML_BYTES)) is not None


def convert(tree: Tree, options: ImporterWords) -> Draft:
    if PROBLEM in tree.files:
        names = {path.lower(): path for path in sorted(tree.files, reverse=True)}
        path = next((names[f"{_DATA}/{name}"] for name in _CONFIGS if f"{_DATA}/{name}" in names), "")
        return HydroConversion(tree, options, path, _DATA).convert()
    path = _data_folder(tree)
    return HydroConversion(tree, options, path, posixpath.dirname(path)).convert()


def settings_at(tree: Tree, names: Collection[str]) -> str:
    """The file of one of these names, in any capitals, at the root or in a folder of tests; "" for none."""
    paths = [path for path in tree.files if posixpath.basename(path).lower() in names]
    near_paths = [path for path in sorted(paths) if "/" not in path or posixpath.dirname(path).lower() in NAMELESS]
    return min(near_paths, key=lambda path: path.count("/"), default="")


def _data_folder(tree: Tree) -> str:
    """Settings of Hydro beside tests, where nothing else says whose they are; "" for none."""
    path = settings_at(tree, _CONFIGS)
    if not path or tree.files[path] > metadata.YAML_BYTES:
        return ""
    data = tree.read(path, metadata.YAML_BYTES)
    if path.lower().endswith(INI):
        return path if _INI_BEGIN.match(decode(data).replace("\r\n", "\n")) else ""
    try:
        keys = set(map(str, metadata.read(data, path).value))
    except PackageError:
        return ""
    return path if keys <= KEYS and keys - _COMMON else ""
