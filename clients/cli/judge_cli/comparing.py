"""An output beside its answer: whether they agree as the default validator has it, and where they differ."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

_TOLERANCE = 1e-6
_LINES, _CHARACTERS, _CONTEXT, _SHOWN = 300, 200, 3, 40


def agrees(output: str, answer: str) -> bool:
    """Whether the words are the same, numbers with a point nearly so; a problem's own validator may say otherwise."""
    tokens, answers = output.split(), answer.split()
    return len(tokens) == len(answers) and all(map(_same, tokens, answers))


def _same(token: str, answer: str) -> bool:
    if token == answer or "." not in answer:
        return token == answer
    try:
        return math.isclose(float(token), float(answer), rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    except ValueError:
        return False


def difference(output: str, answer: str) -> Iterator[str]:
    """Lines of a unified diff from the answer to the output, from the first line that differs."""
    import difflib  # noqa: PLC0415 - most commands start without it

    texts = [[line.rstrip() for line in text.rstrip().split("\n")] for text in (answer, output)]
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False)))
    begin = max(0, same - _CONTEXT)
    before, after = ([line[:_CHARACTERS] for line in text[begin : begin + _LINES]] for text in texts)
    lines = list(difflib.unified_diff(before, after, "answer", "output", n=_CONTEXT, lineterm=""))
    yield from [line for line in lines if not line.startswith("@@")][:_SHOWN]
    if begin:
        yield f"(from line {begin + 1} on)"
    if not lines:
        yield "(they differ in blanks, or after the lines that are compared here)"
