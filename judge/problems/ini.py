"""Reads domjudge-problem.ini of DOMjudge's packages, beside or instead of problem.yaml (docs/problems-format.md)."""

from __future__ import annotations

import configparser
import re
from typing import Final

from judge.common.errors import PackageError
from judge.problems.tree import clean

# Keys that DOMjudge knows there, of this and earlier versions.
_KEYS: Final = frozenset({
    "name", "timelimit", "memlimit", "outputlimit", "probid", "short-name", "externalid", "color", "points", "cid",
    "allow_submit", "allow_judge", "special_run", "special_compare", "special_compare_args", "combined_run_compare",
    "problemtext_type",
})  # fmt: skip
_SECTION: Final = re.compile(r"\[[^\]]*\]\s*(?:[;#].*)?")


def parse_ini(data: bytes, where: str) -> dict[str, str]:
    """DOMjudge's domjudge-problem.ini: `key = value` lines; values may be quoted. PackageError.

    As PHP reads it there: sections count for nothing, nor do blanks before a key, and of a key the last value counts.
    """
    parser = configparser.ConfigParser(
        interpolation=None,
        strict=False,
        default_section="",
        comment_prefixes=(";", "#"),
        inline_comment_prefixes=(";",),
    )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # The Western encoding of the editors of its time: old packages have names of people and places.
        text = data.decode("cp1252", "replace")
    plain_lines = [line.strip() for line in text.splitlines() if not _SECTION.fullmatch(line.strip())]
    if odd := next((line for line in plain_lines if line.startswith("[")), ""):
        raise PackageError(f"{where}: is not a list of 'key = value' lines: '{clean(odd, 40)}'")
    try:
        parser.read_string("[problem]\n" + "\n".join(plain_lines))
    except configparser.Error as exc:
        first = str(exc).splitlines()[0]
        raise PackageError(f"{where}: is not a list of 'key = value' lines: {clean(first)}") from exc
    settings = {key: value.strip().strip("'\"") for key, value in parser["problem"].items()}
    if settings and not settings.keys() & _KEYS:
        examples = ", ".join(clean(key, 40) for key in list(settings)[:3])
        raise PackageError(f"{where}: has none of the keys of DOMjudge ({examples}); expected timelimit and the like")
    return settings
