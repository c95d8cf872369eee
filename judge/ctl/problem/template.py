"""`judgectl problem new`: a small problem that passes every check, to be edited into one's own."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from judge.common.errors import ConflictError, UsageError
from judge.problems.package import check_name

_SETTINGS = """problem_format_version: 2025-09
name: {title}
type: {type}
uuid: {uuid}
license: unknown  # such as cc by-sa, with a line 'credits: NAME'
limits:
  time_limit: 1  # in seconds; without it import infers one
"""
_SUM = {
    "statement/problem.en.md": """Two numbers stand on the blackboard. Add them.

## Input

One line with two integers $a$ and $b$ ($-1000 \\le a, b \\le 1000$).

## Output

Print $a + b$.
""",
    "input_validators/numbers.ctd": "INT(-1000, 1000) SPACE INT(-1000, 1000) NEWLINE\n",
    "submissions/accepted/sum.py": "a, b = map(int, input().split())\nprint(a + b)\n",
    "submissions/wrong_answer/absolute.py": "a, b = map(int, input().split())\nprint(abs(a) + abs(b))\n",
    "data/sample/1.in": "2 3\n",
    "data/sample/1.ans": "5\n",
}
_TYPES: dict[str, dict[str, str]] = {
    "pass-fail": {
        **_SUM,
        "data/secret/1_largest.in": "1000 1000\n",
        "data/secret/1_largest.ans": "2000\n",
        "data/secret/2_negative.in": "-7 3\n",
        "data/secret/2_negative.ans": "-4\n",
    },
    "scoring": {
        **_SUM,
        "data/secret/test_group.yaml": "max_score: 100\n",
        "data/secret/1_positive/test_group.yaml": "max_score: 40\nscore_aggregation: min\n",
        "data/secret/1_positive/1.in": "1000 1000\n",
        "data/secret/1_positive/1.ans": "2000\n",
        "data/secret/2_all/test_group.yaml": "max_score: 60\nscore_aggregation: min\n",
        "data/secret/2_all/1.in": "-7 3\n",
        "data/secret/2_all/1.ans": "-4\n",
    },
    "interactive": {
        "statement/problem.en.md": """I think of an integer from 1 to 1000. Guess it: print a number on a line, flush,
and read my answer, which is `lower`, `higher` or `correct`. You have ten guesses.
""",
        "input_validators/number.ctd": "INT(1, 1000) NEWLINE\n",
        "output_validator/guess.py": """import sys


def main() -> int:
    with open(sys.argv[1]) as file:
        secret = int(file.read())
    for _ in range(10):
        line = sys.stdin.buffer.readline(100)
        if not line.strip().isdigit():
            return refuse("expected a number")
        guess = int(line)
        if guess == secret:
            print("correct", flush=True)
            return 42
        print("lower" if secret < guess else "higher", flush=True)
    return refuse("ten guesses were not enough")


def refuse(why: str) -> int:
    with open(sys.argv[3] + "judgemessage.txt", "w") as file:
        file.write(why + "\\n")
    return 43


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # the submission has ended
        sys.stderr.close()
        sys.exit(43)
""",
        "submissions/accepted/halving.py": """low, high = 1, 1000
while True:
    middle = (low + high) // 2
    print(middle, flush=True)
    answer = input()
    if answer == "correct":
        break
    if answer == "lower":
        high = middle - 1
    else:
        low = middle + 1
""",
        "submissions/wrong_answer/counting.py": """guess = 1
while True:
    print(guess, flush=True)
    if input() == "correct":
        break
    guess += 1
""",
        "data/sample/1.in": "17\n",
        "data/sample/1.ans": "",
        "data/sample/1.interaction": ">500\n<lower\n>17\n<correct\n",
        "data/secret/1_low.in": "1\n",
        "data/secret/1_low.ans": "",
        "data/secret/2_high.in": "1000\n",
        "data/secret/2_high.ans": "",
    },
}
TYPES = tuple(_TYPES)


def create(folder: Path, problem_type: str) -> list[str]:
    """Write a new package; returns its files. UsageError, ConflictError, PackageError; then nothing is written."""
    name = folder.resolve().name
    check_name(folder, name)
    if folder.exists():
        raise ConflictError(f"{folder}: exists already; name a new directory")
    title = name.replace("-", " ").replace("_", " ").capitalize()
    settings = _SETTINGS.format(title=title, type=problem_type, uuid=uuid.uuid4())
    files = {"problem.yaml": settings, **_TYPES[problem_type]}
    try:
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    except OSError as exc:
        shutil.rmtree(folder, ignore_errors=True)
        raise UsageError(f"{exc.filename or folder}: cannot be written: {exc.strerror}") from None
    return sorted(files)
