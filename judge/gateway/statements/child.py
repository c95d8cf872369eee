"""A process that makes one fragment of one statement and ends: `python -m judge.gateway.statements.child`.

A stranger's text may be built to use up memory or time, in libraries that nobody can interrupt. Here that ends a
process of its own. It reads the statement from stdin and prints the fragment, or an error's body, as JSON.
"""

from __future__ import annotations

import resource
import sys

from judge.errors import JudgeError, PackageError
from judge.gateway.statements.fragment import StatementText, render
from judge.model.messages import ErrorBody

CPU_SECONDS = 4
MEMORY = 768 * 1024**2


def main() -> int:
    """One statement; exit code 0 with a fragment on stdout, 2 with an error's body."""
    # The first limit ends it by SIGXCPU, which nothing else does.
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    try:
        made = render(StatementText.model_validate_json(sys.stdin.buffer.read()))
    except JudgeError as exc:
        return _refuse(exc)
    except (MemoryError, RecursionError):
        return _refuse(PackageError("the statement takes too much memory to be shown; read its source"))
    sys.stdout.write(made.model_dump_json())
    return 0


def _refuse(error: JudgeError) -> int:
    sys.stdout.write(ErrorBody(code=error.code, error=str(error), field=None).model_dump_json())
    return 2


if __name__ == "__main__":
    sys.exit(main())
