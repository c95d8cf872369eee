"""An output validator: asks a checker that was written for DMOJ's judge. Goes into converted packages.

__main__.py INPUT ANSWER FEEDBACK/ [--points MOST | --any] < output
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import dmoj_checker  # type: ignore[import-not-found]
from arguments import ARGUMENTS  # type: ignore[import-not-found]

RIGHT, WRONG = 42, 43


def plain(data: bytes) -> bytes:
    """What the site makes of test data: its own line ends, and one at the end."""
    data = data.replace(b"\r\n", b"\r").replace(b"\r", b"\n")
    return data if not data or data.endswith(b"\n") else data + b"\n"


def main() -> int:
    """Ask, and say what came of it; a checker that fails is the judge's fault, as is the exit code 1."""
    given, answer, feedback = (Path(name) for name in sys.argv[1:4])
    flags = sys.argv[4:]
    most = float(flags[1]) if flags[:1] == ["--points"] else 1.0
    said = dmoj_checker.check(
        sys.stdin.buffer.read(),
        plain(answer.read_bytes()),
        judge_input=plain(given.read_bytes()),
        point_value=most,
        **ARGUMENTS,
    )
    passed, points = bool(getattr(said, "passed", said)), getattr(said, "points", None)
    feedback.joinpath("judgemessage.txt").write_text(f"{getattr(said, 'feedback', '') or ''}\n")
    part = (most if passed else 0.0) if points is None else float(points)
    if passed and part >= most:
        return RIGHT
    if not passed or part <= 0 or not flags:
        return WRONG
    if flags[0] == "--points":
        feedback.joinpath("score.txt").write_text(f"{part:.10g}\n")
    return RIGHT


if __name__ == "__main__":
    sys.exit(main())
