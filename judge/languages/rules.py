"""The rules for the text of a program that is handed in: one function and one sentence each.

judgectl, the form, both APIs and judicators check by these; `field` is what the sentence begins with.
"""

from __future__ import annotations

from judge.common.errors import FieldError, TooLargeError
from judge.common.text import size

SOURCE = "source"


def check_size(length: int, limit: int, field: str = SOURCE, name: str = "") -> None:
    """TooLargeError for more bytes than the limit; `name` is the one of several files."""
    if length > limit:
        label = f"'{name}' " if name else ""
        raise TooLargeError(f"{field}: {label}is too large, {size(length)}; at most {size(limit)} are accepted", field)


def check_not_empty(text: str, field: str = SOURCE) -> None:
    if not text.strip():
        raise FieldError(field, "is empty; hand in the text of a program")


def check_no_nul(text: str | bytes, field: str = SOURCE, name: str = "") -> None:
    """FieldError for a NUL byte, which is in binary files only; `name` as in `check_size`."""
    if ("\0" if isinstance(text, str) else b"\0") in text:  # type: ignore[operator]
        label = f"'{name}' " if name else ""
        raise FieldError(field, f"{label}contains a NUL byte, so it is not text")


def check_source(source: str, limit: int | None, field: str = SOURCE) -> None:
    """All rules for one source; a judge's limit is not known everywhere."""
    if limit is not None:
        check_size(len(source.encode()), limit, field)
    check_not_empty(source, field)
    check_no_nul(source, field)


def decoded(data: bytes, field: str = SOURCE) -> str:
    """The text of a file; FieldError if it is none."""
    check_no_nul(data, field)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise FieldError(field, f"is not UTF-8 text (line {line}); save the file as UTF-8") from exc
