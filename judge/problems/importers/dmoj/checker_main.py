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
    input_path, answer, feedback = (Path(name) for name in sys.argv[1:4])
    flags = sys.argv[4:]
    arguments = {**ARGUMENTS, "judge_input": plain(input_path.read_bytes()), "point_value": worth(flags)}
    if SOURCE:
        arguments["submission_source"] = Path(__file__).parent.joinpath("judge", "submission").read_bytes()
    # Arguments that it names and never looks at, as the importer has seen to.
    for name, parameter in list(inspect.signature(dmoj_checker.check).parameters.items())[2:]:
        if (
            parameter.kind in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}
            and parameter.default is parameter.empty
        ):
            arguments.setdefault(name, b"")
    try:
        result = dmoj_checker.check(sys.stdin.buffer.read(), plain(answer.read_bytes()), **arguments)
    except UnicodeDecodeError:
        result = False
    return verdict(result, feedback, flags)


if __name__ == "__main__":
    sys.exit(main())
