"""The fields of a submission as Judge0 takes them: their types, defaults and bounds, as one table. Pure functions.

Judge0 is lenient about types (a number may come as a text) and answers all faults of a submission at once, each under
its field, in the sentences of its framework, which its clients show.
"""

from __future__ import annotations

import base64 as b64
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from judge.judge0 import languages
from judge.judge0.languages import Judge0Language

# What is not of the alphabet of Base64.
_FOREIGN = re.compile(rb"[^A-Za-z0-9+/]")
_BASE64_LINE: Final = 45  # bytes, which make 60 characters
Value = str | int | float | bool
BLANK, NO_NUMBER = "can't be blank", "is not a number"


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    # JSON can say half of a surrogate pair, which no message and no answer can.
    return str(value).encode("utf-8", "replace").decode() if isinstance(value, str | int | float) else None


def _number(value: Any) -> float:
    """A number; NaN for what is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return math.nan
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


_NO = frozenset({"false", "0", "f", "off", "F", "FALSE", "OFF"})


def _switch(value: Any) -> bool:
    return _text(value) not in _NO


@dataclass(frozen=True)
class Number:
    """A number with its default and bounds.

    `integer` numbers lose what is behind the point, and what is left is to keep the bounds as well. `above`: `least`
    itself is not taken.
    """

    default: float
    least: float
    most: float
    integer: bool = True
    above: bool = False

    def read(self, value: Any, faults: list[str]) -> Value:
        """The value, or the default for nothing; every fault is added to the list."""
        number = self.default if value is None or value == "" else _number(value)
        if math.isnan(number):
            faults.append(NO_NUMBER)
            return self.default
        # Half a run would be none, and judge nothing.
        low = math.floor(number) if self.integer else number
        if low < self.least or (self.above and low == self.least):
            faults.append(f"must be greater than {'' if self.above else 'or equal to '}{self._bound_text(self.least)}")
        if number > self.most:
            faults.append(f"must be less than or equal to {self._bound_text(self.most)}")
        return int(number) if self.integer else number

    def _bound_text(self, bound: float) -> str:
        return str(int(bound) if self.integer or bound == self.least else float(bound))


NUMBERS: Final[dict[str, Number]] = {
    "number_of_runs": Number(1, 0, 20, above=True),
    "cpu_time_limit": Number(5.0, 0, 15, integer=False),
    "cpu_extra_time": Number(1.0, 0, 5, integer=False),
    "wall_time_limit": Number(10.0, 1, 20, integer=False),
    "memory_limit": Number(128_000, 2048, 512_000),
    "stack_limit": Number(64_000, 0, 128_000),
    "max_processes_and_or_threads": Number(60, 0, 120, above=True),
    "max_file_size": Number(1024, 0, 4096),
}
# With their defaults.
SWITCHES: Final[dict[str, bool]] = {
    "enable_per_process_and_thread_time_limit": False,
    "enable_per_process_and_thread_memory_limit": False,
    "redirect_stderr_to_stdout": False,
    "enable_network": False,
}
SHORT_TEXTS: Final[dict[str, int]] = {"compiler_options": 512, "command_line_arguments": 512, "callback_url": 2048}
# These come as Base64 when the caller says so.
CONTENTS: Final = ("source_code", "stdin", "expected_output")
TESTS: Final = 100
PROJECT = "project"


@dataclass
class Fields:
    """One submission as it was asked for. `faults` are empty when it can be handed in; else nothing else is to be used.

    `contents` are those of CONTENTS that were given, as bytes; `values` are the other fields with their defaults.
    `archive` is the ZIP of additional files. `problem` and `tests` are what we have beside Judge0: a problem's name,
    and pairs of input and answer.
    """

    row: Judge0Language | None = None
    contents: dict[str, bytes] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    archive: bytes | None = None
    problem: str | None = None
    tests: list[tuple[bytes | None, bytes | None]] = field(default_factory=list)
    faults: dict[str, list[str]] = field(default_factory=dict)

    def fault(self, name: str, text: str) -> None:
        self.faults.setdefault(name, []).append(text)


def read(
    raw: Mapping[str, Any],
    rows: Mapping[int, Judge0Language],
    judged: Callable[[Judge0Language], bool],
    *,
    base64: bool,
    callbacks: bool = True,
) -> Fields:
    """A submission out of what a caller sent, with every fault that it has.

    `rows` are the languages by their ids, `judged` says whether one can be used now; `base64` is the caller's word on
    CONTENTS; `callbacks` says whether an address for the result may be given.
    """
    fields = Fields()
    # Judge0 passes over what is no single value.
    raw = {name: value for name, value in raw.items() if name == "tests" or isinstance(value, str | int | float)}
    _contents(fields, raw, base64=base64)
    _language(fields, raw.get("language_id"), rows, judged)
    _program(fields)
    for name, number in NUMBERS.items():
        faults: list[str] = []
        fields.values[name] = number.read(raw.get(name), faults)
        for fault in faults:
            fields.fault(name, fault)
    for name, default in SWITCHES.items():
        value = raw.get(name)
        fields.values[name] = default if value is None or value == "" else _switch(value)
    for name, most in SHORT_TEXTS.items():
        text = _text(raw.get(name))
        if text is None:
            continue
        fields.values[name] = text
        if len(text) > most:
            fields.fault(name, f"is too long (maximum is {most} characters)")
    _allowed(fields, callbacks=callbacks)
    _additions(fields, raw, base64=base64)
    return fields


def encode_base64(data: bytes) -> str:
    """Base64 as Ruby writes it: lines of 60 characters, each with its line feed; nothing for nothing."""
    lines = (data[at : at + _BASE64_LINE] for at in range(0, len(data), _BASE64_LINE))
    return "".join(b64.b64encode(line).decode() + "\n" for line in lines)


def decode_base64(text: str) -> bytes:
    """Whatever is Base64 in a text, as Ruby reads it: all else is passed over, and missing padding."""
    data = _FOREIGN.sub(b"", text.encode("utf-8", "replace").partition(b"=")[0])
    length = len(data) - (1 if len(data) % 4 == 1 else 0)
    return b64.b64decode(data[:length] + b"=" * (-length % 4))


def _content(value: Any, *, base64: bool) -> bytes | None:
    text = _text(value)
    if text is None:
        return None
    return decode_base64(text) if base64 else text.encode()


def _contents(fields: Fields, raw: Mapping[str, Any], *, base64: bool) -> None:
    for name in CONTENTS:
        data = _content(raw.get(name), base64=base64)
        if data is not None:
            fields.contents[name] = data
    archive = _text(raw.get("additional_files"))
    if archive:
        fields.archive = decode_base64(archive) or None


def _language(
    fields: Fields, value: Any, rows: Mapping[int, Judge0Language], judged: Callable[[Judge0Language], bool]
) -> None:
    number = _number(value)
    if value is None or value == "":
        fields.fault("language_id", BLANK)
    row = rows.get(int(number)) if not math.isnan(number) else None
    if row is None:
        fields.fault("language_id", f"language with id {(_text(value) or '')[:40]} doesn't exist")
    elif row.row is None and row.kind is None:
        fields.fault("language_id", f"language with id {row.id} is archived and cannot be used anymore")
    elif not judged(row):
        text = f"language with id {row.id} ({row.name}) is on no live executor; GET /languages lists those that are"
        fields.fault("language_id", text)
    else:
        fields.values["language_id"] = row.id
    fields.row = row


def _program(fields: Fields) -> None:
    blank = not fields.contents.get("source_code", b"").strip()
    if fields.row is not None and fields.row.kind == PROJECT:
        if not blank:
            fields.fault("source_code", "must be blank")
        if fields.archive is None:
            fields.fault("additional_files", BLANK)
    elif blank:
        fields.fault("source_code", BLANK)


def _allowed(fields: Fields, *, callbacks: bool) -> None:
    values, row = fields.values, fields.row
    if str(values.get("compiler_options", "")).strip() and row is not None and not languages.options_allowed(row):
        languages_text = "some" if languages.compiled(row) else "compiled"
        fields.fault("compiler_options", f"setting compiler options is only allowed for {languages_text} languages")
    if values["enable_network"]:
        fields.fault("enable_network", "enabling network is not allowed")
    if str(values.get("callback_url", "")).strip() and not callbacks:
        fields.fault("callback_url", "setting callback is not allowed")


def _additions(fields: Fields, raw: Mapping[str, Any], *, base64: bool) -> None:
    """The fields that Judge0 does not have: a problem of this cluster, several tests."""
    fields.problem = _text(raw.get("problem")) or None
    tests = raw.get("tests")
    if tests is None:
        return
    if not isinstance(tests, list) or not all(isinstance(test, dict) for test in tests):
        fields.fault("tests", "must be a list of objects with 'stdin' and 'expected_output'")
        return
    if len(tests) > TESTS:
        fields.fault("tests", f"is too long (maximum is {TESTS} tests)")
        return
    fields.tests = [
        (_content(test.get("stdin"), base64=base64), _content(test.get("expected_output"), base64=base64))
        for test in tests
    ]
