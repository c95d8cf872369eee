"""The default output validator of the Kattis problem package format, as a pure function (docs/judging.md).

Output and answer are compared token by token; blank space only separates tokens unless `space_change_sensitive` is set,
and ASCII case does not count unless `case_sensitive` is. With a tolerance, tokens of the answer that are decimal
numbers are compared as numbers. Outputs are hostile: time and memory are linear in their size, and memory beside the
two inputs is bounded by a window, whatever is in them (docs/problems-programs.md has the figures).
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from judge.common.errors import PackageError

_WINDOW = 64 * 1024
_EXCERPT = 40
_SPACE = re.compile(rb"[ \t\n\r\v\f]")
_WORD = re.compile(rb"[^ \t\n\r\v\f]+")
# The format's own grammar of numbers: decimal, no hexadecimal, no infinities, no NaN.
_NUMBER = re.compile(rb"[+-]?(?:[0-9]*\.[0-9]+|[0-9]+\.?)(?:[eE][+-]?[0-9]+)?")
# Past this length a token is text: the format asks for 30 digits on either side of the point, this is 100 times that.
_NUMBER_BYTES = 6000

_TOLERANCES = ("float_tolerance", "float_relative_tolerance", "float_absolute_tolerance")
_SWITCHES = ("case_sensitive", "space_change_sensitive")


@dataclass(frozen=True)
class Flags:
    """The validator's flags, checked. A tolerance of None is not set."""

    case_sensitive: bool = False
    space_change_sensitive: bool = False
    relative: float | None = None
    absolute: float | None = None

    @property
    def numbers(self) -> bool:
        return self.relative is not None or self.absolute is not None


@dataclass(frozen=True)
class Validation:
    """The validator's judgement.

    `message` says where the output differs and quotes that, so it is for judges alone: a program can print its secret
    input. `detail` also quotes the answer; where the test is no secret, anyone may see it. Both are empty for accepted
    output.
    """

    accepted: bool
    message: str = ""
    detail: str = ""


_ACCEPTED = Validation(accepted=True)


def parse_flags(flags: Sequence[str], *, strict: bool = False) -> Flags:
    """Check a problem's validator flags; PackageError with one sentence for the first that cannot be.

    `strict` adds the rules of format 2025-09: no tolerance twice, none beside `float_tolerance`. Where tolerances
    overlap, as only the legacy format lets them, the later one holds.
    """
    return _parse_flags(tuple(flags), strict)


def validate(output: bytes, answer: bytes, flags: Sequence[str] = ()) -> Validation:
    """Compare one test's output with its answer; the executor calls this for each test that ran to its end.

    Raises PackageError for flags that `parse_flags` refuses; never fails on any output or answer.
    """
    rules = parse_flags(flags)
    if output == answer:
        return _ACCEPTED
    difference = _compare(output, answer, rules)
    if difference is not None:
        return difference
    if rules.space_change_sensitive and _skeleton(output) != _skeleton(answer):
        return _space_difference(output, answer)
    return _ACCEPTED


def number(token: bytes) -> float | None:
    """A token as the finite decimal number that it spells, else None."""
    if len(token) > _NUMBER_BYTES or not _NUMBER.fullmatch(token):
        return None
    value = float(token)
    return value if math.isfinite(value) else None


@functools.lru_cache(maxsize=256)
def _parse_flags(flags: tuple[str, ...], strict: bool) -> Flags:
    switches: set[str] = set()
    tolerances: dict[str, float] = {}
    relative = absolute = None
    items = iter(flags)
    for flag in items:
        if flag in _SWITCHES:
            switches.add(flag)
        elif flag in _TOLERANCES:
            value = next(items, None)
            epsilon = None if value is None else number(value.encode("utf-8", "surrogateescape"))
            if epsilon is None or epsilon < 0:
                value_text = "nothing" if value is None else f"'{value[:_EXCERPT]}'"
                raise PackageError(f"flag {flag} needs a tolerance such as 1e-6 after it, found {value_text}")
            if strict and (flag in tolerances or (tolerances and "float_tolerance" in {flag, *tolerances})):
                raise PackageError(f"flag {flag} contradicts a tolerance given before it; give each tolerance once")
            tolerances[flag] = epsilon
        else:
            flag_names = ", ".join((*_SWITCHES, *_TOLERANCES))
            raise PackageError(f"the default validator has no flag '{flag[:_EXCERPT]}'; it has {flag_names}")
    for flag, epsilon in tolerances.items():
        relative = epsilon if flag != "float_absolute_tolerance" else relative
        absolute = epsilon if flag != "float_relative_tolerance" else absolute
    return Flags("case_sensitive" in switches, "space_change_sensitive" in switches, relative, absolute)


def _compare(output: bytes, answer: bytes, rules: Flags) -> Validation | None:
    """The first difference between the two sequences of tokens, or None.

    Both are walked in windows of whole tokens; equal stretches are compared as lists, at the speed of C.
    """
    output_walk = _TokenWalk(output, rules)
    answer_walk = _TokenWalk(answer, rules)
    while True:
        left, right = output_walk.peek(), answer_walk.peek()
        count = min(len(left), len(right))
        if count == 0:
            break
        if left[:count] != right[:count]:
            for index in range(count):
                if left[index] != right[index] and not _close(left[index], right[index], rules):
                    return _token_difference(output_walk, answer_walk, index, rules)
        output_walk.advance(count)
        answer_walk.advance(count)
    if left:
        place, token = output_walk.locate(0)
        message = f"{place}: unexpected '{excerpt(token)}' after the end of the expected output"
        return Validation(accepted=False, message=message, detail=message)
    if right:
        _, token = answer_walk.locate(0)
        state = f"ends after token {output_walk.index}" if output_walk.index else "has no tokens"
        message = f"the output {state if output else 'is empty'}, more is expected"
        return Validation(accepted=False, message=message, detail=f"{message}: next is '{excerpt(token)}'")
    return None


class _TokenWalk:
    """A walk over the tokens of a byte string, in windows whose size does not depend on the string's content."""

    def __init__(self, data: bytes, rules: Flags) -> None:
        self.index = 0
        self._data = data
        self._fold = not rules.case_sensitive
        self._windows = _windows(data)
        self._window = slice(0, 0)
        self._tokens: list[bytes] = []
        self._position = 0

    def peek(self) -> list[bytes]:
        """The tokens of this window that are not used up; empty only at the end of the data."""
        while self._position == len(self._tokens) and (window := next(self._windows, None)) is not None:
            self._window = window
            text = self._data[window]
            self._tokens = (text.lower() if self._fold else text).split()
            self._position = 0
        return self._tokens[self._position :] if self._position else self._tokens

    def advance(self, count: int) -> None:
        self._position += count
        self.index += count

    def locate(self, ahead: int) -> tuple[str, bytes]:
        """The place of the token `ahead` of the next one ("line 2, token 7"), and the token as it was written."""
        matches = _WORD.finditer(self._data, self._window.start, self._window.stop)
        match = next(itertools.islice(matches, self._position + ahead, None))
        line = self._data.count(b"\n", 0, match.start()) + 1
        return f"line {line}, token {self.index + ahead + 1}", match.group()


def _close(actual_token: bytes, expected_token: bytes, rules: Flags) -> bool:
    """Return whether two different tokens are the same number within the tolerances."""
    if not rules.numbers:
        return False
    expected = number(expected_token)
    actual = number(actual_token) if expected is not None else None
    if expected is None or actual is None:
        return False
    difference = abs(expected - actual)
    return (rules.absolute is not None and difference <= rules.absolute) or (
        rules.relative is not None and difference <= rules.relative * abs(expected)
    )


def _token_difference(output_walk: _TokenWalk, answer_walk: _TokenWalk, ahead: int, rules: Flags) -> Validation:
    place, token = output_walk.locate(ahead)
    _, want = answer_walk.locate(ahead)
    expected = number(want) if rules.numbers else None
    value = number(token) if rules.numbers else None
    if expected is None:
        message = f"{place}: '{excerpt(token)}' is wrong"
    elif value is None:
        message = f"{place}: expected a number, found '{excerpt(token)}'"
    else:
        message = f"{place}: '{excerpt(token)}' is outside the tolerance"
    return Validation(accepted=False, message=message, detail=f"{message}, expected '{excerpt(want)}'")


def _skeleton(data: bytes) -> bytes:
    """The data with every token shortened to one byte: what is left to compare when only blank space matters."""
    parts = bytearray()
    for window in _windows(data):
        parts += _WORD.sub(b"x", data[window])
    return bytes(parts)


def _windows(data: bytes) -> Iterator[slice]:
    """The places at which data is cut into pieces of about the window's size, always after a blank."""
    start = 0
    while start < len(data):
        cut = _SPACE.search(data, min(start + _WINDOW, len(data)))
        end = cut.end() if cut else len(data)
        yield slice(start, end)
        start = end


def _space_difference(output: bytes, answer: bytes) -> Validation:
    """Name the first line whose blank space differs; both have the same tokens."""
    output_skeleton, answer_skeleton = _skeleton(output), _skeleton(answer)
    # The longest common prefix, by halving: comparing slices is fast, looking at bytes one by one is not.
    low, high = 0, min(len(output_skeleton), len(answer_skeleton))
    while low < high:
        middle = (low + high + 1) // 2
        if output_skeleton[low:middle] == answer_skeleton[low:middle]:
            low = middle
        else:
            high = middle - 1
    message = f"line {output_skeleton.count(bytes([10]), 0, low) + 1}: the blank space differs"
    actual, want = (_blank(text[low : low + 1]) for text in (output_skeleton, answer_skeleton))
    return Validation(accepted=False, message=message, detail=f"{message}: expected {want}, found {actual}")


def _blank(byte: bytes) -> str:
    names = {b" ": "a space", b"\n": "the end of the line", b"\t": "a tab", b"\r": "a carriage return"}
    names |= {b"": "the end", b"x": "a token"}
    return names.get(byte, f"byte {byte[0] if byte else 0}")


def excerpt(token: bytes) -> str:
    """The beginning of a token, safe to print: cut, with everything but printable characters escaped."""
    text = token[: _EXCERPT * 4].decode("utf-8", "backslashreplace")[: _EXCERPT + 1]
    safe = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return safe[:_EXCERPT] + "…" if len(safe) > _EXCERPT else safe
