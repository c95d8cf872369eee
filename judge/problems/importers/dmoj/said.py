"""The meaning of answers of DMOJ's checkers and graders in the package format. Goes into converted packages."""

from pathlib import Path
from typing import Any

RIGHT, WRONG = 42, 43


def plain(data: bytes) -> bytes:
    """Test data as the site makes them: its own line ends, and one at the end."""
    data = data.replace(b"\r\n", b"\r").replace(b"\r", b"\n")
    return data if not data or data.endswith(b"\n") else data + b"\n"


def worth(flags: list[str]) -> float:
    """The points of the test, as the program is told them by `--points MOST [--times SCALE]`; else 1."""
    return float(flags[1]) / _scale(flags) if flags[:1] == ["--points"] else 1.0


def _scale(flags: list[str]) -> float:
    return float(flags[3]) if flags[2:3] == ["--times"] else 1.0


def verdict(result: Any, feedback: Path, flags: list[str]) -> int:
    """The exit code, with what is written for it: `result` is a yes, a no, or a CheckerResult.

    With points, those decide, whether it says yes or no; with `--any` a part is right, too.
    """
    scored, most = flags[:1] == ["--points"], worth(flags)
    passed, points = bool(getattr(result, "passed", result)), getattr(result, "points", None)
    message = f"{getattr(result, 'feedback', '') or ''}\n"
    feedback.joinpath("judgemessage.txt").write_text(message, encoding="utf-8", errors="replace")
    part = (most if passed else 0.0) if points is None else float(points)
    if part >= most and (passed or scored):
        return RIGHT
    if part <= 0 or not flags or not (passed or scored):
        return WRONG
    if scored:
        feedback.joinpath("score.txt").write_text(f"{part * _scale(flags):.17g}\n")
    return RIGHT
