"""The names that graders for DMOJ's judge import as dmoj.graders.interactive. Goes into converted packages."""

from typing import Any, BinaryIO

# A number of more digits is none.
_DIGITS = 10_000
_ENDLESS = float("inf")


class WrongAnswer(BaseException):
    """The submission's answer is wrong."""


class Interactor:
    """Both ends of a talk with the submission. OSError when it has gone."""

    def __init__(self, output: BinaryIO, to: BinaryIO) -> None:
        self._output, self._to = output, to
        self._line: bytes | None = None

    def read(self) -> bytes:
        """All that the submission still says."""
        return _some(self._output.read())

    def readln(self, strip_newline: bool = True) -> bytes:
        """A line, without blanks at its end."""
        line = _some(self._output.readline())
        return line.rstrip() if strip_newline else line

    def readtoken(self, delim: Any = None) -> bytes:
        """The next word of the line, or of the next line."""
        if not self._line:
            self._line = self.readln()
        try:
            word, self._line = self._line.split(delim, 1)
        except ValueError:
            word, self._line = self._line, None
        return word

    def readint(self, lo: float = -_ENDLESS, hi: float = _ENDLESS, delim: Any = None) -> int:
        """A whole number within these bounds; WrongAnswer."""
        number: int = self._number(int, lo, hi, delim)
        return number

    def readfloat(self, lo: float = -_ENDLESS, hi: float = _ENDLESS, delim: Any = None) -> float:
        """A number within these bounds; WrongAnswer."""
        number: float = self._number(float, lo, hi, delim)
        return number

    def _number(self, kind: Any, lo: float, hi: float, delim: Any) -> Any:
        word = self.readtoken(delim)
        try:
            value = kind(word) if len(word) <= _DIGITS else None
        except ValueError:
            value = None
        if value is None:
            raise WrongAnswer(f"expected {kind.__name__}, got {word[:5]!r}")
        if not lo <= value <= hi:
            raise WrongAnswer(f"expected {kind.__name__} in range [{lo:.2f}, {hi:.2f}], got {value}")
        return value

    def write(self, val: Any) -> None:
        """Say something, as text."""
        self._to.write(str(val).encode())
        self._to.flush()

    def writeln(self, val: Any) -> None:
        """Say a line."""
        self.write(f"{val}\n")

    def close(self) -> None:
        """Say nothing more."""
        self._to.close()


def _some(data: bytes) -> bytes:
    if not data:
        raise OSError("child stream closed")
    return data


class InteractiveGrader:
    """The class that graders are made of."""

    def interact(self, case: Any, interactor: Interactor) -> Any:
        """Talk; a yes, a no, or a CheckerResult."""
        raise NotImplementedError
