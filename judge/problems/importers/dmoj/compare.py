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
    wanted, found = ([line.strip() for line in data.split(b"\n") if line] for data in (answer, output))
    if len(found) > len(wanted):
        return 0.0
    if not wanted:
        return 1.0
    return sum(one == other for one, other in zip(wanted, found, strict=False)) / len(wanted)


HOW: dict[str, Callable[[bytes, bytes], float]] = {
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
    how, flags = sys.argv[4], sys.argv[5:]
    part = float(HOW[how](sys.stdin.buffer.read(), answer))
    feedback.joinpath("judgemessage.txt").write_text(f"{how}: {part:.4g} of it is right\n")
    if part >= 1:
        return RIGHT
    if part <= 0 or not flags:
        return WRONG
    if flags[0] == "--points":
        feedback.joinpath("score.txt").write_text(f"{part * float(flags[1]):.17g}\n")
    return RIGHT


if __name__ == "__main__":
    sys.exit(main())
