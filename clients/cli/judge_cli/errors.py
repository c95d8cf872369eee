"""The errors of the client: the text is one sentence for the person, the exit code is that of judgectl."""

from __future__ import annotations

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_CANCELLED = 18
EXIT_INTERRUPTED = 130


class ClientError(Exception):
    """The cluster failed or does not answer."""

    exit_code = EXIT_FAILED


class UsageError(ClientError):
    """Bad input: an option, a file, a name, a token."""

    exit_code = EXIT_USAGE
