"""An output validator: asks a checker that was written for DMOJ's judge. Goes into converted packages.

__main__.py INPUT ANSWER FEEDBACK/ [--points MOST [--times SCALE] | --any] < output
"""

import inspect
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import dmoj_checker  # type: ignore[import-not-found]
from arguments import ARGUMENTS  # type: ignore[import-not-found]

RIGHT, WRONG = 42, 43


def plain(data: bytes) -> bytes:
    """The test data as the site has it: with its own line ends, and one at the end."""
    data = data.replace(b"\r\n", b"\r").replace(b"\r", b"\n")
    return data if not data or data.endswith(b"\n") else data + b"\n"


def main() -> int:
    """Ask, and say what came of it; a checker that fails is the judge's fault, as is the exit code 1.

    One that stumbles over text that is none says no. With points, those decide, whether the checker says yes or no.
    """
    given, answer, feedback = (Path(name) for name in sys.argv[1:4])
    flags = sys.argv[4:]
    scored = flags[:1] == ["--points"]
    scale = float(flags[3]) if flags[2:3] == ["--times"] else 1.0
    most = float(flags[1]) / scale if scored else 1.0
    told = {**ARGUMENTS, "judge_input": plain(given.read_bytes()), "point_value": most}
    # What it names and never looks at, as the importer has seen to.
    for name, wanted in list(inspect.signature(dmoj_checker.check).parameters.items())[2:]:
        if wanted.kind in {wanted.POSITIONAL_OR_KEYWORD, wanted.KEYWORD_ONLY} and wanted.default is wanted.empty:
            told.setdefault(name, b"")
    try:
        said = dmoj_checker.check(sys.stdin.buffer.read(), plain(answer.read_bytes()), **told)
    except UnicodeDecodeError:
        said = False
    passed, points = bool(getattr(said, "passed", said)), getattr(said, "points", None)
    message = f"{getattr(said, 'feedback', '') or ''}\n"
    feedback.joinpath("judgemessage.txt").write_text(message, encoding="utf-8", errors="replace")
    part = (most if passed else 0.0) if points is None else float(points)
    if part >= most and (passed or scored):
        return RIGHT
    if part <= 0 or not flags or not (passed or scored):
        return WRONG
    if scored:
        feedback.joinpath("score.txt").write_text(f"{part * scale:.10g}\n")
    return RIGHT


if __name__ == "__main__":
    sys.exit(main())
