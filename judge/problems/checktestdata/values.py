"""The state of a check: the description's words, its variables, and the input as far as it was read."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

_TOKEN = re.compile(
    r"""\s+|\#[^\n]*|(?P<string>"(?:[^"\\]|\\.)*")|(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"""
    r"""|(?P<name>[A-Za-z][A-Za-z0-9_]*)|(?P<sign>&&|\|\||[<>=!]=|[-+*/%^<>!(),\[\]=])""",
    re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", '"': '"', "\\": "\\", "\n": ""}
_MOST_POWER = 100_000

Value = Any  # int, Decimal or str


class DescriptionError(Exception):
    """The description makes no sense."""


class MismatchError(Exception):
    """The input is not as described."""


class CheckedInput:
    """One input that is looked at: how far it was read, and the variables."""

    def __init__(self, text: str) -> None:
        """Begin at the front."""
        self.text = text
        self.at = 0
        # A variable's values by its indices; a plain one has none of them.
        self.values: dict[str, dict[tuple[Value, ...], Value]] = {}

    def reject(self, expected: str) -> MismatchError:
        """Raise that something else is expected here; the sentence says where."""
        line = self.text.count("\n", 0, self.at) + 1
        column = self.at - (self.text.rfind("\n", 0, self.at) + 1) + 1
        actual = repr(self.text[self.at : self.at + 20]) if self.at < len(self.text) else "the end"
        return MismatchError(f"line {line}, character {column}: expected {expected}, found {actual}")

    def literal(self, text: str) -> None:
        """Read exactly this."""
        if not self.text.startswith(text, self.at):
            raise self.reject(repr(text))
        self.at += len(text)


def tokens(source: str) -> Iterator[tuple[str, str]]:
    """The words of a description with their kinds; DescriptionError."""
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            line = source.count("\n", 0, at) + 1
            raise DescriptionError(f"line {line}: '{source[at : at + 10]}' cannot be read")
        at = match.end()
        if match.lastgroup is not None:
            yield match.lastgroup, match[0]


def unquoted(text: str) -> str:
    """The text that a string in quotes stands for."""

    def letter(match: re.Match[str]) -> str:
        return chr(int(match[1], 8)) if match[1][0] in "01234567" else _ESCAPES.get(match[1], match[0])

    return re.sub(r"\\([0-7]{1,3}|.)", letter, text[1:-1], flags=re.DOTALL)


def number(text: str) -> Value:
    """A number as a description writes it."""
    return int(text) if text.isdecimal() else Decimal(text)


def calculated(sign: str, left: Value, right: Value) -> Value:
    """The result of an operator on two values; whole numbers stay whole. DescriptionError."""
    if isinstance(left, str) or isinstance(right, str):
        raise DescriptionError(f"'{sign}' is not for texts")
    if isinstance(left, Decimal) != isinstance(right, Decimal):
        left, right = Decimal(left), Decimal(right)
    if sign in "+-*":
        return {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign](left, right)
    if sign == "^":
        if not isinstance(right, int) or not 0 <= right <= _MOST_POWER:
            raise DescriptionError(f"'^' takes whole numbers from 0 to {_MOST_POWER}")
        return left**right
    if not right:
        raise DescriptionError("a division by 0")
    if isinstance(left, Decimal):
        return left / right if sign == "/" else left % right
    # Whole numbers are divided towards 0.
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if sign == "/" else left - quotient * right
