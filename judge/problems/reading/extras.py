"""The rest of a package beside its tests and validators: a title, what people see, its own submissions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from judge.common.yamltext import from_json
from judge.problems import statements
from judge.problems.metadata import YAML_BYTES, ProblemYaml
from judge.problems.programs import substitute
from judge.problems.reading.findings import Findings
from judge.problems.reading.held import TreeBlobs
from judge.problems.tree import Tree, clean

MAX_SOURCE_BYTES = 16 * 1024**2
# Of all files below submissions/ together: they are held in memory.
MAX_SUBMISSIONS_BYTES = 64 * 1024**2
ENTRIES = "submissions.json"
_TITLE = re.compile(rb"^[^%\n]*\\problemname\{([^{}\n$\\]+)\}|^%+\s*plainproblemname:\s*(.+)$", re.MULTILINE)


def title(tree: Tree, yaml: ProblemYaml, ini: Mapping[str, str]) -> str:
    """The problem's name for people: of problem.yaml, DOMjudge's file, a LaTeX statement; empty when none says it."""
    text = yaml.title() or clean(ini.get("name", ""))
    if text:
        return text
    for folder in yaml.format.statements:
        for path in tree.below(folder):
            if path.endswith(".tex") and "/problem." in path and tree.files[path] <= YAML_BYTES:
                match = _TITLE.search(tree.read(path, YAML_BYTES))
                if match is not None:
                    return clean((match[1] or match[2]).decode("utf-8", "replace"))
    return ""


def public_fields(tree: Tree, yaml: ProblemYaml, blobs: TreeBlobs, findings: Findings) -> dict[str, Any]:
    """The manifest's fields about what people see of the problem."""
    titles = yaml.name if isinstance(yaml.name, dict) else {}
    only = next(iter(titles)) if len(titles) == 1 else None
    parts = statements.find(tree.files, legacy=yaml.legacy, only=only)
    for note in parts.notes:
        findings.warning(f"{tree.label}/{note}")

    def text(path: str) -> tuple[bytes, str]:
        data = statements.with_constants(tree.read(path, MAX_SOURCE_BYTES), yaml.constants)
        return data, blobs.add_bytes(data)

    names = {statements.language_of(code): clean(name) for code, name in titles.items()}
    return statements.fields(parts, names, blobs.of, text)


def submissions(tree: Tree, constants: Mapping[str, str | int | float] | None, findings: Findings) -> dict[str, bytes]:
    """The files below `submissions/FOLDER/`, constants put in; they are small, so they are kept in memory."""
    paths = [path for path in tree.below("submissions") if path.count("/") > 1]
    if sum(tree.files[path] for path in paths) > MAX_SUBMISSIONS_BYTES:
        where = tree.where("submissions")
        findings.error(f"{where}: has more than {MAX_SUBMISSIONS_BYTES} bytes; remove what is no source")
        return {}
    sources = {}
    for path in paths:
        with findings.caught():
            sources[path] = substitute(tree.read(path, MAX_SOURCE_BYTES), constants)
    return sources


def entries(tree: Tree, sources: Mapping[str, bytes], findings: Findings) -> dict[str, str]:
    """The entry points by DOMjudge's submissions.json, by the path of the submission (`submissions/FOLDER/NAME`)."""
    if ENTRIES not in tree.files:
        return {}
    try:
        value = from_json(tree.read(ENTRIES, YAML_BYTES))
    except (ValueError, RecursionError):
        findings.warning(f"{tree.where(ENTRIES)}: is no JSON, or has no plain texts; it is left alone")
        return {}
    folders = {"/".join(PurePosixPath(path).parts[:3]) for path in sources}
    entry_points = {}
    for path, settings in value.items() if isinstance(value, dict) else ():
        entry = settings.get("entry_point") if isinstance(settings, dict) else None
        if isinstance(entry, str) and path.rstrip("/") in folders:
            entry_points[path.rstrip("/")] = entry[:255]
    return entry_points
