"""Text that others wrote, made fit for a line of a log, a table or a refusal, or for a page; sizes for people."""

from __future__ import annotations

import difflib
import itertools
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

# Letters and marks by their category, that show nothing all the same: fillers, joiners, selectors of variants.
_HIDDEN = re.compile(
    "[\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u2800\\u3164\\ufe00-\\ufe0f\\uffa0\\U000e0100-\\U000e01ef]"
)


# Embeddings, overrides and isolates of direction.
_DIRECTING = re.compile("[\u202a-\u202e\u2066-\u2069]")


def shows(text: str) -> bool:
    """Return whether every character of a text is one that people can see, or a plain space."""
    return text.isprintable() and not _HIDDEN.search(text)


def one_line(text: str) -> str:
    """One line that forges no other and steers no terminal: what does not show stands as its code, blanks as blanks.

    Used by refusals (`judge.common.errors`), logs and judgectl's screen.
    """
    if shows(text):
        return text
    return "".join(char if shows(char) else _escaped(char) for char in text)


def lines(text: str) -> str:
    """Any text as a page shows it: what does not show, or turns the direction of what follows, stands as `⟨U+202E⟩`.

    Ends of lines, tabs and blanks of any width stay.
    """
    if shows(text):
        return text
    return "\n".join(
        line if shows(line) else "".join(char if shows(char) else _marked(char) for char in line)
        for line in text.replace("\r\n", "\n").split("\n")
    )


def undirected(text: str) -> str:
    """A text whose words stand in the order of its characters: `⟨U+202E⟩` stands for what would turn it.

    Marks of direction (U+200E, U+200F, U+061C), which Arabic and Hebrew texts need, turn no letters and stay.
    """
    return _DIRECTING.sub(lambda match: _marked(match[0]), text)


def size(count: int) -> str:
    """Bytes for people: `512 MiB`, `1.5 KiB`, `12 bytes`."""
    for unit, factor in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if count >= factor:
            return f"{count / factor:.1f}".removesuffix(".0") + f" {unit}"
    return f"{count} byte{'s' if count != 1 else ''}"


def decimal(value: float, digits: int = 9) -> str:
    """A score or a limit in full: up to nine decimals, no trailing zeros, no exponent."""
    if not math.isfinite(value):
        return repr(value)
    text = f"{Decimal(repr(value)):.{digits}f}"
    text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def unequal(*values: float) -> list[str]:
    """Numbers with nine decimals, or in full where nine show two different numbers as equal."""
    texts = [decimal(value) for value in values]
    return texts if len(set(texts)) == len(set(values)) else [repr(value) for value in values]


def _escaped(char: str) -> str:
    if char == "\t":
        return "    "
    if unicodedata.category(char) == "Zs":
        return " "
    return char.encode("unicode_escape").decode()


def _marked(char: str) -> str:
    if char == "\t" or unicodedata.category(char) == "Zs":
        return char
    return f"⟨U+{ord(char):04X}⟩"


_LISTED = 20


def listed(sentences: Sequence[str]) -> str:
    """Sentences as one text: the first twenty, and how many more there are."""
    unlisted = len(sentences) - _LISTED
    return "; ".join([*sentences[:_LISTED], *([f"and {unlisted} more"] if unlisted > 0 else [])])


# Words that are counted; those that get more than an s are written with it.
_COUNTED = re.compile(
    r"(?<![\w.,-])1 (compressed )?(tests|groups|cases|pretests|subtasks|samples|files|inputs|outputs|answers|pictures"
    r"|attachments|submissions|headers|batches|solutions|points|tests|characters|items)\b"
)


# What is wrong with a value, by pydantic's name of the fault, as the end of a sentence after the field's name.
_EXPECTED: Final = {
    "greater_than": "expected more than {gt}",
    "greater_than_equal": "expected at least {ge}",
    "less_than": "expected less than {lt}",
    "less_than_equal": "expected at most {le}",
    "string_type": "expected a text",
    "string_pattern_mismatch": "expected a text like {pattern}",
    "string_too_short": "expected at least {min_length} characters",
    "string_too_long": "expected at most {max_length} characters",
    "too_short": "expected at least {min_length} items",
    "too_long": "expected at most {max_length} items",
    "literal_error": "expected {expected}",
    "enum": "expected {expected}",
    "finite_number": "expected a finite number",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), "expected an integer"),
    **dict.fromkeys(("float_type", "float_parsing"), "expected a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "expected true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), "expected a list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "expected an object with fields"),
}


# Patterns of fields, and what they mean to a person.
_PATTERNS: Final = {
    r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,62})$": "expected a name of letters, digits, '.', '_' and '-'",
    r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,62}$": "expected a name of letters, digits and . _ + -",
    r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,62}$": "expected a name of letters, digits and . _ @ + -",
    r"^[^\s\x00](?:[^\n\r\x00]{0,78}[^\s\x00])?$": "expected the name of a language, of at most 80 characters",
    r"^[^\s,\x00-\x1f\x7f]+$": "expected a word without blanks and commas",
    r"^[^\x00-\x1f\x7f]*$": "expected one line of text",
    r"^[0-9a-f]{24}$": "expected an id of 24 hexadecimal digits",
    r"^[0-9a-f]{64}$": "expected a SHA-256 of 64 hexadecimal digits",
}


def expected(error: Mapping[str, Any]) -> str:
    """An error of pydantic in the words of this project, without what was given; `ctx` is used where it is there."""
    text = str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    bounds = error.get("ctx", {})
    context = {name: f"{bound:g}" if isinstance(bound, float) else bound for name, bound in bounds.items()}
    if context.get("pattern") in _PATTERNS:
        return _PATTERNS[context["pattern"]]
    try:
        return singular(_EXPECTED[error["type"]].format_map(context))
    except KeyError:
        return re.sub(r"^\w+ should (?:be|have|match) ", "expected ", text)


def suggestion(name: str, names: Iterable[str], otherwise: str) -> str:
    """`did you mean 'hello'?`, by the most similar of the first 500 names; without one `otherwise`."""
    near = difflib.get_close_matches(name[:64], itertools.islice(names, 500), n=1)
    return f"did you mean '{near[0]}'?" if near else otherwise


def several(count: int, noun: str) -> str:
    """`1 test`, `2 tests`."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def singular(line: str) -> str:
    """A sentence with `1 test` for `1 tests`."""
    return _COUNTED.sub(
        lambda match: f"1 {match[1] or ''}" + match[2].removesuffix("es" if match[2] == "batches" else "s"), line
    )
