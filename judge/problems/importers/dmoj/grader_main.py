"""An interactive output validator: a grader that was written for DMOJ's judge talks. Goes into converted packages.

__main__.py INPUT ANSWER FEEDBACK/ [--points MOST [--times SCALE] | --any] < output > input
"""

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from dmoj.graders.interactive import Interactor, WrongAnswer  # type: ignore[import-not-found]
from dmoj.problem import TestCase  # type: ignore[import-not-found]
from dmoj.result import CheckerResult  # type: ignore[import-not-found]
from said import plain, verdict, worth  # type: ignore[import-not-found]


def main() -> Any:
    """Talk, and say what came of it; a grader that fails is the judge's fault, as is the exit code 1.

    A submission that has gone, or says what it must not, is wrong. What the grader prints itself is no part of it.
    """
    input_path, answer, feedback = (Path(name) for name in sys.argv[1:4])
    flags = sys.argv[4:]
    # Some look at their arguments to know whether they were started by hand.
    del sys.argv[1:]
    to = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    import dmoj_grader  # type: ignore[import-not-found] # noqa: PLC0415 - what it prints must go elsewhere by now

    case = TestCase(plain(input_path.read_bytes()), plain(answer.read_bytes()), worth(flags))
    interactor = Interactor(sys.stdin.buffer, to)
    result: Any = False
    try:
        result = dmoj_grader.Grader().interact(case, interactor)
        interactor.close()
    except WrongAnswer as wrong:
        result = CheckerResult(False, 0, str(wrong))
    except OSError:
        pass
    return verdict(result, feedback, flags)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Without a look back at a pipe that nobody reads any more.
    os._exit(code)
