"""problem.xml of Polygon: read without entities and without anything from outside, and looked into with sentences."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

from judge.common.errors import PackageError
from judge.problems.importers.draft import Draft, Ref
from judge.problems.importers.testlib import ProgramSource
from judge.problems.tree import Tree

PROBLEM_XML = "problem.xml"
RUN_TWICE = "run-twice"
XML_BYTES = 8 * 1024**2
_PATTERN = re.compile(r"%(?:0?(\d{1,2}))?d")


def parse(tree: Tree) -> Element:
    """The root element of problem.xml; PackageError `file:line: sentence`."""
    where = tree.where(PROBLEM_XML)
    try:
        root: Element = fromstring(tree.read(PROBLEM_XML, XML_BYTES), forbid_dtd=True)
    except ParseError as exc:
        reason = str(exc).partition(":")[0]
        raise PackageError(f"{where}:{exc.position[0]}: is not well-formed XML: {reason}") from exc
    except DefusedXmlException as exc:
        raise PackageError(f"{where}: declares a document type or entities, which Polygon never does") from exc
    except (LookupError, ValueError) as exc:
        raise PackageError(f"{where}: is in an encoding that cannot be read: {str(exc)[:80]}") from exc
    if root.tag != "problem":
        raise PackageError(f"{where}: its root is <{root.tag[:40]}>, not the <problem> of Polygon")
    return root


def path_of(element: Element | None) -> str:
    """The `path` of an element in the package's own notation; empty when there is none."""
    raw = "" if element is None else element.get("path") or element.get("location") or ""
    return raw.strip().replace("\\", "/").removeprefix("./")


def number(text: str | None, where: str, *, most: int, least: int = 0) -> int | None:
    """A whole number, None when nothing is said; PackageError for anything else."""
    digits = (text or "").strip()
    if not digits:
        return None
    if not re.fullmatch(r"\d{1,18}", digits) or not least <= int(digits) <= most:
        raise PackageError(f"{where}: '{digits[:40]}' is not a whole number from {least} to {most}")
    return int(digits)


def expand(pattern: str, index: int) -> str:
    """A path pattern such as `tests/%02d.a` for one test, counted from 1."""
    path = pattern.strip().replace("\\", "/").removeprefix("./")
    return _PATTERN.sub(lambda match: f"{index:0{match[1] or 0}d}", path, count=1)


def source(draft: Draft, element: Element | None, *alternatives: str) -> ProgramSource | None:
    """The program of an element's <source>; else the element's copy, else one of `alternatives`.

    None when there is no such element; PackageError when none of the files is in the package.
    """
    if element is None:
        return None
    source_element = element.find("source")
    kind = "" if source_element is None else source_element.get("type") or ""
    paths = [path_of(source_element), path_of(element.find("copy")), *alternatives]
    for path in paths:
        if path in draft.tree.files:
            return ProgramSource(Ref(draft.tree, path), kind)
    where = draft.tree.where(PROBLEM_XML)
    raise PackageError(f"{where}: {element.tag}: its source '{paths[0][:80]}' is not in the package")


def runs(root: Element, where: str) -> int:
    """The number of a submission's runs on a test: `run-count`, else 2 by the tag run-twice, else 1. PackageError."""
    judging = root.find("judging")
    count = number(None if judging is None else judging.get("run-count"), f"{where}: run-count", most=100)
    tagged = any((tag.get("value") or "") == RUN_TWICE for tag in root.iterfind("tags/tag"))
    return count or (2 if tagged else 1)
