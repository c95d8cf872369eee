"""The programs under tests/languages, one file for each language (see the README there)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from judge.languages.table import Language

ROOT = Path(__file__).parents[1] / "languages"
NUMBERS = [7, 3, 999, 3, 0, 7, 12]
SMALL = ("{}\n{}\n".format(len(NUMBERS), " ".join(map(str, NUMBERS))), "1031\n0 3 7 12 999\n")
MANY = [n * n % 1000 for n in range(5000)]
BIG = (f"{len(MANY)}\n" + "\n".join(map(str, MANY)) + "\n", f"{sum(MANY)}\n{' '.join(map(str, sorted(set(MANY))))}\n")

_HEAD = re.compile(r"^=== (right|input|answer|broken|crash|loop|hungry)(?: says (.+))?\n", re.MULTILINE)


@dataclass(frozen=True)
class Programs:
    """Sources by what they do. `says`: words of the compiler's message; `tests`: what `right` is judged on."""

    sources: dict[str, str]
    says: str

    @property
    def tests(self) -> list[tuple[str, str]]:
        """Pairs of input and answer."""
        own = self.sources.get("input"), self.sources.get("answer")
        return [SMALL, BIG] if own[0] is None or own[1] is None else [(own[0], own[1])]


def programs(row: Language) -> Programs:
    """The programs of one row; FileNotFoundError when nobody has written any."""
    names = [name for name in (row.name, row.like) if name]
    path = next((path for name in names if (path := ROOT / f"{name}.txt").is_file()), ROOT / f"{row.name}.txt")
    _, *parts = _HEAD.split(path.read_text(encoding="utf-8"))
    found = dict(zip(parts[::3], parts[2::3], strict=True))
    says = next((words for words in parts[1::3] if words), "")
    return Programs(found, says)
