"""An output validator: asks a checker that was written for DMOJ's judge. Goes into converted packages.

__main__.py INPUT ANSWER FEEDBACK/ [--points MOST [--times SCALE] | --any] < output
"""

import inspect
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import dmoj_checker  # type: ignore[import-not-found]
from arguments import ARGUMENTS, SOURCE  # type: ignore[import-not-found]
from said import plain, verdict, worth  # type: ignore[import-not-found]


def main() -> Any:
    """Ask, and say what came of it; a checker that fails is the judge's fault, as is the exit code 1.

    One that stumbles over text that is none says no.
    """
    given, answer, feedback = (Path(name) for name in sys.argv[1:4])
    flags = sys.argv[4:]
    told = {**ARGUMENTS, "judge_input": plain(given.read_bytes()), "point_value": worth(flags)}
    if SOURCE:
        told["submission_source"] = Path(__file__).parent.joinpath("judge", "submission").read_bytes()
    # Arguments that it names and never looks at, as the importer has seen to.
    for name, wanted in list(inspect.signature(dmoj_checker.check).parameters.items())[2:]:
        if wanted.kind in {wanted.POSITIONAL_OR_KEYWORD, wanted.KEYWORD_ONLY} and wanted.default is wanted.empty:
            told.setdefault(name, b"")
    try:
        said = dmoj_checker.check(sys.stdin.buffer.read(), plain(answer.read_bytes()), **told)
    except UnicodeDecodeError:
        said = False
    return verdict(said, feedback, flags)


if __name__ == "__main__":
    sys.exit(main())
