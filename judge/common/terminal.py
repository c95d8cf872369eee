"""Standard output and error of a command: whatever the terminal, pipe or file behind them, there is no traceback.

A character that the terminal's encoding lacks is replaced. If the reader of a pipe has gone, the command ends in
silence. Any other failure to write is one sentence, and EXIT_OUTPUT.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Callable
from typing import Any

from judge.common.errors import EXIT_FAILED, EXIT_OUTPUT, EXIT_USAGE, JudgeError

EXIT_INTERRUPTED = 130  # as shells report SIGINT
# Bytes of arguments and file names that are no UTF-8 are surrogates; what Python and Pydantic say where text is wanted.
_SURROGATE = re.compile("[\ud800-\udfff]")
_NO_TEXT = ("surrogates not allowed", "string_unicode")


class OutputError(JudgeError):
    """Standard output cannot be written."""

    exit_code = EXIT_OUTPUT


class ClosedError(OutputError):
    """The reader of standard output has gone."""

    exit_code = EXIT_FAILED


class _Raw(io.RawIOBase):
    """A descriptor. After the first failure all that is written is dropped; `error` says what is raised for it.

    `forgiving`: nothing is raised.
    """

    def __init__(self, descriptor: int, error: Callable[[OSError], Exception | None]) -> None:
        super().__init__()
        self._descriptor, self._error, self._broken = descriptor, error, False
        self.forgiving = False

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if not self._broken:
            try:
                return os.write(self._descriptor, data)
            except OSError as exc:
                if isinstance(exc, BlockingIOError) and not self.forgiving:
                    raise
                self._broken = True
                error = None if self.forgiving else self._error(exc)
                if error is not None:
                    raise error from exc
        return len(data)


_settled: list[int] = []  # the exit code of a command whose answer is known before it is printed


def settle(code: int) -> None:
    """Note the exit code of the command; it is the same if nobody reads the output."""
    _settled[:] = [code]


def guard(name: str, command: Callable[[], Any], say: Callable[[str], object] | None = None) -> int:
    """Run a command with its output made safe, and return its exit code; `name` begins what is said of an error."""
    say = say or (lambda sentence: sys.stderr.write(f"{name}: {sentence}\n"))
    prepare()
    code = EXIT_FAILED
    try:
        try:
            code = _code(command())
        except SystemExit as exc:
            code = _code(exc.code)
            if isinstance(exc.code, str):
                say(exc.code)
        sys.stdout.flush()
    except ClosedError as exc:
        code = _settled[0] if _settled else exc.exit_code
    except JudgeError as exc:
        say(str(exc))
        code = exc.exit_code
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except Exception as exc:  # the last place to catch: a traceback is not for people
        if os.environ.get("JUDGE_TRACEBACK"):
            raise
        message = _no_text(exc)
        if message:
            code = EXIT_USAGE
        unexpected = f"unexpected error: {type(exc).__name__}: {exc}"
        say(message or f"{unexpected}; with JUDGE_TRACEBACK=1 in the environment it shows where")
    with contextlib.suppress(JudgeError):
        sys.stdout.flush()
    return code


def _no_text(exc: Exception) -> str:
    """What to say where a name is no UTF-8 and has to be, an argument's if one is such; empty for any other error."""
    if not any(text in str(exc) for text in _NO_TEXT):
        return ""
    name = next((word for word in sys.argv[1:] if _SURROGATE.search(word)), "")
    return f"'{name}' is not UTF-8; rename it, or correct it" if name else "a name is not UTF-8; rename it"


def prepare() -> None:
    """Have `sys.stdout` and `sys.stderr` replace what they cannot show, and fail as this module says."""
    sys.stdout = _stream(sys.stdout, 1, _output_error)
    sys.stderr = _stream(sys.stderr, 2, lambda _: None)


def forgive() -> None:
    """From now on what standard output does not take is lost without an error, for a program that has to go on."""
    prepare()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, _Raw):
        raw.forgiving = True


def _output_error(exc: OSError) -> Exception:
    if isinstance(exc, BrokenPipeError):
        return ClosedError("the reader of standard output has gone")
    return OutputError(f"standard output cannot be written: {exc.strerror}; what it has is not all")


def _stream(stream: Any, descriptor: int, error: Callable[[OSError], Exception | None]) -> Any:
    if stream is None:  # closed before the start
        return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - for as long as the program runs
    try:
        if stream.fileno() != descriptor or isinstance(getattr(stream.buffer, "raw", None), _Raw):
            return stream
    except (OSError, ValueError, AttributeError):
        return stream  # not the process's own
    stream.flush()
    buffer = io.BufferedWriter(_Raw(descriptor, error))
    return io.TextIOWrapper(
        buffer, stream.encoding, "replace", line_buffering=stream.line_buffering or descriptor == 2, write_through=False
    )


def _code(result: Any) -> int:
    if result is None:
        return 0
    return result if isinstance(result, int) else EXIT_FAILED
