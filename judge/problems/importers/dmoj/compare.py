"""An output validator: DMOJ's checkers that the default validator cannot stand for. Goes into converted packages.

compare.py INPUT ANSWER FEEDBACK/ HOW [--points MOST [--times SCALE] | --any] < output
"""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

RIGHT, WRONG = 42, 43


def plain(data: bytes) -> bytes:
    """Line ends of any system as those of this one, and one at the end of what has any text."""
    data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data if not data or data.endswith(b"\n") else data + b"\n"


def lines(data: bytes) -> list[bytes]:
    """The lines that are not blank, as their words."""
    return [b" ".join(line.split()) for line in data.split(b"\n") if line.strip()]


def rstripped(data: bytes) -> list[bytes]:
    """The lines without the blanks at their ends, without empty ones at the end."""
    return [line.rstrip() for line in data.rstrip().split(b"\n")]


def linecount(output: bytes, answer: bytes) -> float:
    """The part of the answer's lines that are right, one by one; more lines than it has are wrong."""
    expected, actual = ([line.strip() for line in data.split(b"\n") if line] for data in (answer, output))
    if len(actual) > len(expected):
        return 0.0
    if not expected:
        return 1.0
    return sum(left == right for left, right in zip(expected, actual, strict=False)) / len(expected)


COMPARISONS: dict[str, Callable[[bytes, bytes], float]] = {
    "identical": lambda output, answer: output.replace(b"\r\n", b"\n") == plain(answer),
    "rstripped": lambda output, answer: rstripped(plain(output)) == rstripped(plain(answer)),
    "sorted": lambda output, answer: sorted(lines(plain(output))) == sorted(lines(plain(answer))),
    "unordered": lambda output, answer: sorted(output.split()) == sorted(answer.split()),
    "easy": lambda output, answer: (
        Counter(b"".join(output.split()).lower()) == Counter(b"".join(answer.split()).lower())
    ),
    "linecount": lambda output, answer: linecount(plain(output), plain(answer)),
}


def main() -> int:
    """Compare, and say how much of the points there is."""
    answer, feedback = Path(sys.argv[2]).read_bytes(), Path(sys.argv[3])
    comparison, flags = sys.argv[4], sys.argv[5:]
    part = float(COMPARISONS[comparison](sys.stdin.buffer.read(), answer))
    feedback.joinpath("judgemessage.txt").write_text(f"{comparison}: {part:.4g} of it is right\n")
    if part >= 1:
        return RIGHT
    if part <= 0 or not flags:
        return WRONG
    if flags[0] == "--points":
        feedback.joinpath("score.txt").write_text(f"{part * float(flags[1]):.17g}\n")
    return RIGHT


if __name__ == "__main__":
    sys.exit(main())
