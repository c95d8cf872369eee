"""The program in the sandbox: checks standard input against a description."""

from __future__ import annotations

import sys
from pathlib import Path

from .language import check
from .values import DescriptionError

ACCEPTED, REJECTED, FAULT = 42, 43, 1


def main(path: Path) -> int:
    """Check standard input; what is said goes to standard error. Returns the exit code."""
    sys.set_int_max_str_digits(0)
    try:
        said = check(path.read_bytes().decode("latin-1"), sys.stdin.buffer.read().decode("latin-1"))
    except DescriptionError as exc:
        sys.stderr.write(f"{path.name}: {exc}\n")
        return FAULT
    if said:
        sys.stderr.write(f"{path.name}: {said}\n")
    return REJECTED if said else ACCEPTED
