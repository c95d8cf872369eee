"""Limits that other systems keep beside their tests, each in the units of its own system."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from judge.problems.importers.draft import Draft, as_number
from judge.problems.importers.neighbours import boca, omegaup, tcframe
from judge.problems.tree import Tree

# A limit, its value in seconds or MiB, and how and in which file it is written.
_Said = tuple[str, float, str, str]
_TIME, _MEMORY = "time_limit", "memory"
# With their units they mean the same wherever they stand: `time: 2s`, `memory_limit: 512MiB`.
_WITH_UNIT = re.compile(
    r"(time|memory)(?:_limit)?: *([0-9]{1,5}(?:\.[0-9]{1,3})?) ?(s|ms|m|mb|mib|g|gb|gib)", re.IGNORECASE
)
_SECONDS = {"s": 1.0, "ms": 0.001}
_MIB = {"m": 1.0, "mb": 1.0, "mib": 1.0, "g": 1024.0, "gb": 1024.0, "gib": 1024.0}
# The limits that there can be here; others are left to whoever imports.
_POSSIBLE = {_TIME: (0.01, 600.0), _MEMORY: (4.0, 65536.0)}
# Each says one number a line by `echo`: seconds, runs, MB of memory, KB of output.
_ECHO = re.compile(r"^[ \t]*echo[ \t]+\"?([0-9]{1,6}(?:\.[0-9]{1,3})?)\"?[ \t\r]*(?:[;#][^\n]*)?$", re.MULTILINE)
_FIRST = ("cpp", "cc", "c")
_RIME_TIME = re.compile(r"^[^#\n]*\btime_limit\s*=\s*([0-9]{1,4}(?:\.[0-9]{1,3})?)\b", re.MULTILINE)
_TCFRAME = {
    _TIME: re.compile(r"\bTimeLimit\(\s{0,99}([0-9]{1,4})\s{0,99}\)"),
    _MEMORY: re.compile(r"\bMemoryLimit\(\s{0,99}([0-9]{1,6})\s{0,99}\)"),
}
_OMEGAUP_SIZES = {"B": 1.0, "KiB": 1024.0, "MiB": 1024.0**2, "GiB": 1024.0**3}


def take(draft: Draft, path: str) -> bool:
    """Puts the limits that a file of settings says into the draft. Whether there were any."""
    found = False
    reader = _READERS.get(path.lower(), _with_units)
    for key, value, said, where in reader(draft, path):
        least, most = _POSSIBLE[key]
        if key not in draft.limits and least <= value <= most:
            draft.limits[key] = as_number(value)
            draft.report.took(f"{said} of {where}")
            found = True
    return found


def used_by(tree: Tree) -> set[str]:
    """The files that say nothing but limits, and are no settings by their names."""
    return set(tree.below("limits")) if boca.INFO in tree.files else set()


def _with_units(draft: Draft, path: str) -> Iterator[_Said]:
    for line in draft.start(path).splitlines():
        said = _WITH_UNIT.fullmatch(line.rstrip())
        if said is None:
            continue
        what, unit = said[1].lower(), said[3].lower()
        if (unit in _SECONDS) == (what == "time"):
            key = _TIME if what == "time" else _MEMORY
            yield key, float(said[2]) * (_SECONDS | _MIB)[unit], f"{what} limit {said[2]}{said[3]}", path


def _boca(draft: Draft, _path: str) -> Iterator[_Said]:
    """The limits of C++ or C, as there is one set of them here; languages that have others are named."""
    numbers: dict[str, list[str]] = {}
    for path in draft.tree.below("limits"):
        found = _ECHO.findall(draft.start(path)) if path.count("/") == 1 else []
        if len(found) >= 3:
            numbers[path.partition("/")[2]] = found
    chosen = next((one for one in (*_FIRST, *sorted(numbers)) if one in numbers), None)
    if chosen is None:
        return
    seconds, runs, mib = numbers[chosen][:3]
    yield _TIME, float(seconds), f"time limit {seconds} s", f"limits/{chosen}"
    yield _MEMORY, float(mib), f"memory limit {mib} MiB", f"limits/{chosen}"
    others = sorted(one for one, found in numbers.items() if (found[0], found[2]) != (seconds, mib))
    if others:
        draft.report.dropped(f"limits of {', '.join(others)}, which differ: there is one set of limits here")
    if runs != "1":
        draft.report.dropped(f"limits/{chosen}: says that each test runs {runs} times; it runs once here")


def _rime(draft: Draft, path: str) -> Iterator[_Said]:
    found = _RIME_TIME.search(draft.start(path))
    if found is not None:
        yield _TIME, float(found[1]), f"time limit {found[1]} s", path


def _tcframe(draft: Draft, path: str) -> Iterator[_Said]:
    text = tcframe.without_comments(draft.start(path))
    for key, pattern, unit in ((_TIME, _TCFRAME[_TIME], "s"), (_MEMORY, _TCFRAME[_MEMORY], "MiB")):
        found = pattern.search(text)
        if found is not None:
            yield key, float(found[1]), f"{key.partition('_')[0]} limit {found[1]} {unit}", path


def _omegaup(draft: Draft, path: str) -> Iterator[_Said]:
    """Milliseconds and bytes as whole numbers, or texts with units, as `1s` and `64MiB`."""
    limits = omegaup.settings(draft).get("limits")
    if not isinstance(limits, dict):
        return
    time, memory = limits.get("TimeLimit"), limits.get("MemoryLimit")
    found = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(s|ms)", str(time))
    if found is None and re.fullmatch(r"[0-9]{1,6}", str(time)):
        found = re.fullmatch(r"([0-9]+)(ms)", f"{time}ms")
    if found is not None:
        yield _TIME, float(found[1]) * _SECONDS[found[2]], f"time limit {found[1]} {found[2]}", path
    found = re.fullmatch(r"([0-9]{1,12})(B|KiB|MiB|GiB)?", str(memory))
    if found is not None:
        unit = found[2] or "B"
        yield _MEMORY, float(found[1]) * _OMEGAUP_SIZES[unit] / 1024**2, f"memory limit {found[1]} {unit}", path


_READERS: dict[str, Callable[[Draft, str], Iterator[_Said]]] = {
    boca.INFO: _boca,
    "problem": _rime,
    "settings.json": _omegaup,
    "spec.cpp": _tcframe,
}
