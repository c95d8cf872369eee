"""The program that renders one statement in a sandbox: from a JSON object on stdin to one on stdout.

It reads the fields of `StatementText` and prints those of `judge.model.statements.Page`.
"""

from __future__ import annotations

import dataclasses
import json
import sys

from judge.common.errors import PackageError
from judge.problems.rendering.fragment import StatementText, render


def main() -> None:
    """One statement; a text that cannot be shown is no failure, its page says why."""
    try:
        page = dataclasses.asdict(render(StatementText(**json.load(sys.stdin))))
    except PackageError as exc:
        page = {"why": str(exc)}
    except (MemoryError, RecursionError):
        page = {"why": "the statement takes too much memory to be rendered; read its source"}
    json.dump(page, sys.stdout)


if __name__ == "__main__":
    main()
