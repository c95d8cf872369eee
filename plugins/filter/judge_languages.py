"""Names the Debian packages that languages need: from judge's own table, without what the daemons import."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleFilterError

TABLE = Path(__file__).resolve().parents[2] / "judge/languages/languages.yml"
ALL = "all"
RELEASES = ["bookworm", "trixie"]


@functools.cache
def _rows() -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Packages and releases of each row; a row that is like another has that one's, unless it has its own."""
    rows = yaml.safe_load(TABLE.read_text(encoding="utf-8"))["languages"]
    merged = {name: {**rows.get(row.get("like"), {}), **row} for name, row in rows.items()}
    return {name: (tuple(row["packages"]), tuple(row.get("releases", RELEASES))) for name, row in merged.items()}


def judge_language_packages(names: str | Iterable[str], release: str = "", *, partly: bool = False) -> list[str]:
    """The Debian packages of the rows with these names, or of all rows for `all`; sorted. AnsibleFilterError.

    With `release` those of that release. Without: those that every release has, or with `partly` only the others.
    """
    languages = [names] if isinstance(names, str) else list(names)
    for name in languages:
        if name != ALL and name not in _rows():
            rows = ", ".join(_rows())
            msg = f"judge_languages: '{name}' is no row of the table of languages; choose all, or some of {rows}"
            raise AnsibleFilterError(msg)
    collected: set[str] = set()
    for name, (packages, releases) in _rows().items():
        if name not in languages and ALL not in languages:
            continue
        if release in releases if release else partly == (len(releases) < len(RELEASES)):
            collected.update(packages)
    return sorted(collected)


def judge_program(programs: Iterable[dict[str, Any]], present: Iterable[str]) -> dict[str, Any]:
    """The first of the programs whose language is present; one without a language needs none."""
    languages = set(present)
    return next(program for program in programs if program.get("language") is None or program["language"] in languages)


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"judge_language_packages": judge_language_packages, "judge_program": judge_program}
