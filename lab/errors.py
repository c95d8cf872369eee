"""The error of a lab that cannot do something: one sentence with what to do."""

from __future__ import annotations

EXIT_FAILED = 1
EXIT_USAGE = 2


class LabError(Exception):
    """Something is missing or did not work; the text is the whole message for the person."""

    exit_code = EXIT_FAILED


class UsageError(LabError):
    """A name, address or size that cannot be meant."""

    exit_code = EXIT_USAGE
