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
        message = check(path.read_bytes().decode("latin-1"), sys.stdin.buffer.read().decode("latin-1"))
    except DescriptionError as exc:
        sys.stderr.write(f"{path.name}: {exc}\n")
        return FAULT
    if message:
        sys.stderr.write(f"{path.name}: {message}\n")
    return REJECTED if message else ACCEPTED
