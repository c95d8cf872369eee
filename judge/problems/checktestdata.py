"""Checktestdata, a language for what a test's input looks like, as DOMjudge's tool of that name reads it.

A description (`*.ctd`) among a package's input validators becomes a program in Python: this module goes with it into
the sandbox, so it imports nothing else of ours. It ends with 42 for an input that is as described, with 43 for one that
is not, and with 1 where the description is at fault. A description's commands become Python functions, so that a
million numbers take seconds only.
"""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation, getcontext
from pathlib import Path
from typing import Any, TypeVar

SUFFIX, LANGUAGE, MAIN = ".ctd", "python3", "check_by_description.py"
_ACCEPTED, _REJECTED, _FAULT = 42, 43, 1

_TOKEN = re.compile(
    r"""\s+|\#[^\n]*|(?P<string>"(?:[^"\\]|\\.)*")|(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"""
    r"""|(?P<name>[A-Za-z][A-Za-z0-9_]*)|(?P<sign>&&|\|\||[<>=!]=|[-+*/%^<>!(),\[\]=])""",
    re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", '"': '"', "\\": "\\", "\n": ""}
_INT = re.compile(r"-?[0-9]+")
_PLAIN_INT = re.compile(r"0|-?[1-9][0-9]*")
_FIXED = r"-?(?:0|[1-9][0-9]*)(?:\.(?P<digits>[0-9]+))?"
_FLOATS = {
    "": re.compile(rf"{_FIXED}(?:[eE][+-]?[0-9]+)?"),
    "FIXED": re.compile(_FIXED),
    "SCIENTIFIC": re.compile(rf"{_FIXED}[eE][+-]?[0-9]+"),
}
# Classes of letters in brackets, which Python does not know.
_CLASSES = {
    "alpha": "A-Za-z", "digit": "0-9", "alnum": "A-Za-z0-9", "lower": "a-z", "upper": "A-Z", "xdigit": "0-9A-Fa-f",
    "space": r"\s", "blank": r" \t", "punct": r"!-/:-@\[-`{-~", "word": r"\w", "print": " -~", "graph": "!-~",
}  # fmt: skip
_CLASS = re.compile(rf"\[:({'|'.join(_CLASSES)}):\]")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_LEVELS = (("+", "-"), ("*", "/", "%"))
_LITERALS = {"SPACE": " ", "NEWLINE": "\n"}
_LOOPS = frozenset({"REP", "REPI", "WHILE", "WHILEI"})
_MOST_POWER = 100_000

T = TypeVar("T")
Value = Any  # int, Decimal or str


def program() -> Mapping[str, bytes]:
    """The files that go with a description: their names beside it, and their contents."""
    return {MAIN: Path(__file__).read_bytes()}


class DescriptionError(Exception):
    """The description makes no sense."""


class MismatchError(Exception):
    """The input is not as described."""


class CheckedInput:
    """One input that is looked at: how far it was read, and the variables."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        # A variable's values by its indices; a plain one has none of them.
        self.values: dict[str, dict[tuple[Value, ...], Value]] = {}

    def reject(self, expected: str) -> MismatchError:
        """The error that something else is expected here; the sentence says where."""
        line = self.text.count("\n", 0, self.at) + 1
        column = self.at - (self.text.rfind("\n", 0, self.at) + 1) + 1
        actual = repr(self.text[self.at : self.at + 20]) if self.at < len(self.text) else "the end"
        return MismatchError(f"line {line}, character {column}: expected {expected}, found {actual}")

    def literal(self, text: str) -> None:
        if not self.text.startswith(text, self.at):
            raise self.reject(repr(text))
        self.at += len(text)


Act = Callable[[CheckedInput], None]
Get = Callable[[CheckedInput], Value]
Store = Callable[[CheckedInput, Value], None]


class Parser:
    """The functions of a description; DescriptionError."""

    def __init__(self, source: str) -> None:
        self._tokens = list(_words(source))
        self._next = 0

    def program(self) -> Act:
        """Parse all of it. The input must end where the description ends."""
        acts = self._commands()
        if self._peek() != ("", ""):
            raise DescriptionError(f"'{self._peek()[1]}' closes nothing")
        return _sequence([*acts, _eof])

    # --- words ------------------------------------------------------------------------------------------------------

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._next] if self._next < len(self._tokens) else ("", "")

    def _take(self) -> tuple[str, str]:
        token = self._peek()
        self._next += 1
        return token

    def _is(self, *signs: str) -> bool:
        kind, text = self._peek()
        return kind == "sign" and text in signs

    def _sign(self, sign: str) -> None:
        kind, text = self._take()
        if (kind, text) != ("sign", sign):
            raise DescriptionError(f"expected '{sign}', found '{text or 'the end'}'")

    def _and(self, sign: str = ",") -> bool:
        """Take this sign if it comes next; returns whether it did."""
        comes_next = self._is(sign)
        self._next += comes_next
        return comes_next

    def _separated(self, item: Callable[[], T], sign: str = ",") -> list[T]:
        items = [item()]
        while self._and(sign):
            items.append(item())
        return items

    def _name(self) -> str:
        kind, text = self._take()
        if kind != "name":
            raise DescriptionError(f"expected a name, found '{text or 'the end'}'")
        return text

    # --- commands ---------------------------------------------------------------------------------------------------

    def _commands(self) -> list[Act]:
        acts: list[Act] = []
        while self._peek()[0] == "name" and self._peek()[1] not in {"END", "ELSE"}:
            acts.append(self._command())
        return acts

    def _command(self) -> Act:
        name = self._name()
        if name in _LITERALS:
            return lambda run: run.literal(_LITERALS[name])
        if name == "EOF":
            return _eof
        if name == "IF":
            return self._if()
        if name in _LOOPS:
            return self._loop(name)
        make = {
            "INT": self._int, "FLOAT": self._float, "FLOATP": lambda: self._float(counted=True), "STRING": self._string,
            "REGEX": self._regex, "ASSERT": self._assert, "SET": self._set, "UNSET": self._unset,
        }.get(name)  # fmt: skip
        if make is None:
            raise DescriptionError(f"'{name[:40]}' is no command")
        self._sign("(")
        act = make()
        self._sign(")")
        return act

    def _int(self) -> Act:
        least, most = self._two()
        store = self._store() if self._and() else None

        def act(run: CheckedInput) -> None:
            match = _INT.match(run.text, run.at)
            if match is None or not _PLAIN_INT.fullmatch(match[0]):
                raise run.reject("a whole number")
            value, low, high = int(match[0]), least(run), most(run)
            if not low <= value <= high:
                raise run.reject(f"a whole number from {low} to {high}")
            run.at = match.end()
            if store is not None:
                store(run, value)

        return act

    def _float(self, *, counted: bool = False) -> Act:
        """FLOAT and, with bounds for the number of decimals, FLOATP."""
        least, most = self._two()
        digits: tuple[Get, Get] | None = None
        if counted:
            self._sign(",")
            digits = self._two()
        store, format_name = None, ""
        while self._and():
            if self._peek()[1] in _FLOATS and self._peek()[0] == "name":
                format_name = self._name()
            else:
                store = self._store()
        pattern = _FLOATS[format_name]

        def act(run: CheckedInput) -> None:
            match = pattern.match(run.text, run.at)
            if match is None:
                raise run.reject("a number")
            count = len(match["digits"] or "")
            if digits is not None and not digits[0](run) <= count <= digits[1](run):
                raise run.reject(f"a number with {digits[0](run)} to {digits[1](run)} decimals")
            value, low, high = Decimal(match[0]), least(run), most(run)
            if value == 0 and match[0].startswith("-"):
                raise run.reject("a zero without a sign")
            if not low <= value <= high:
                raise run.reject(f"a number from {low} to {high}")
            run.at = match.end()
            if store is not None:
                store(run, value)

        return act

    def _two(self) -> tuple[Get, Get]:
        first = self._value()
        self._sign(",")
        return first, self._value()

    def _string(self) -> Act:
        text = self._value()
        return lambda run: run.literal(str(text(run)))

    def _regex(self) -> Act:
        text = self._value()
        store = self._store() if self._and() else None
        compiled: dict[str, re.Pattern[str]] = {}

        def act(run: CheckedInput) -> None:
            source = str(text(run))
            if source not in compiled:
                try:
                    compiled[source] = re.compile(_CLASS.sub(lambda match: _CLASSES[match[1]], source))
                except re.error as exc:
                    raise DescriptionError(f"REGEX: '{source[:60]}' is no regular expression: {exc}") from exc
            match = compiled[source].match(run.text, run.at)
            if match is None:
                raise run.reject(f"what matches {source}")
            run.at = match.end()
            if store is not None:
                store(run, match[0])

        return act

    def _assert(self) -> Act:
        begin = self._next
        test = self._test()
        condition = " ".join(text for _, text in self._tokens[begin : self._next])

        def act(run: CheckedInput) -> None:
            if not test(run):
                raise run.reject(f"that {condition}")

        return act

    def _set(self) -> Act:
        return _sequence(self._separated(self._assignment))

    def _assignment(self) -> Act:
        store = self._store()
        self._sign("=")
        value = self._value()
        return lambda run: store(run, value(run))

    def _unset(self) -> Act:
        names = self._separated(self._name)

        def act(run: CheckedInput) -> None:
            for name in names:
                run.values.pop(name, None)

        return act

    def _loop(self, name: str) -> Act:
        """REP, REPI, WHILE and WHILEI; between two rounds stands the separator, if there is one."""
        self._sign("(")
        counter = self._store() if name.endswith("I") else None
        if counter is not None:
            self._sign(",")
        is_counted = name.startswith("REP")
        condition = self._value() if is_counted else self._test()
        between = self._command() if self._and() else None
        self._sign(")")
        body = _sequence(self._commands())
        self._end()

        def act(run: CheckedInput) -> None:
            rounds = 0
            most = condition(run) if is_counted else 0
            while rounds < most if is_counted else condition(run):
                if counter is not None:
                    counter(run, rounds)
                if rounds and between is not None:
                    between(run)
                body(run)
                rounds += 1

        return act

    def _if(self) -> Act:
        self._sign("(")
        test = self._test()
        self._sign(")")
        body = _sequence(self._commands())
        otherwise = _sequence([])
        if self._peek() == ("name", "ELSE"):
            self._next += 1
            otherwise = _sequence(self._commands())
        self._end()
        return lambda run: body(run) if test(run) else otherwise(run)

    def _end(self) -> None:
        if self._take() != ("name", "END"):
            raise DescriptionError("a block has no END")

    # --- values -----------------------------------------------------------------------------------------------------

    def _place(self) -> tuple[str, list[Get]]:
        name = self._name()
        indices: list[Get] = []
        if self._and("["):
            indices = self._separated(self._value)
            self._sign("]")
        return name, indices

    def _store(self) -> Store:
        name, indices = self._place()

        def store(run: CheckedInput, value: Value) -> None:
            run.values.setdefault(name, {})[tuple(index(run) for index in indices)] = value

        return store

    def _lookup(self) -> Get:
        name, indices = self._place()

        def get(run: CheckedInput) -> Value:
            try:
                return run.values[name][tuple(index(run) for index in indices)]
            except KeyError as exc:
                raise DescriptionError(f"'{name}' has no value here") from exc

        return get

    def _value(self, level: int = 0) -> Get:
        if level == len(_LEVELS):
            return self._unary()
        operand = self._value(level + 1)
        while self._is(*_LEVELS[level]):
            operand = _arithmetic(self._take()[1], operand, self._value(level + 1))
        return operand

    def _unary(self) -> Get:
        if self._and("-"):
            return _arithmetic("-", lambda _: 0, self._unary())
        operand = self._atom()
        while self._and("^"):
            operand = _arithmetic("^", operand, self._atom())
        return operand

    def _atom(self) -> Get:
        kind, text = self._peek()
        if kind in {"string", "number"}:
            self._next += 1
            constant = _unquoted(text) if kind == "string" else int(text) if text.isdecimal() else Decimal(text)
            return lambda _: constant
        if self._and("("):
            value = self._value()
            self._sign(")")
            return value
        if (kind, text) == ("name", "STRLEN"):
            self._next += 1
            self._sign("(")
            inner = self._value()
            self._sign(")")
            return lambda run: len(str(inner(run)))
        return self._lookup()

    # --- tests ------------------------------------------------------------------------------------------------------

    def _test(self) -> Get:
        conditions = self._separated(self._conjunction, "||")
        return conditions[0] if len(conditions) == 1 else lambda run: any(test(run) for test in conditions)

    def _conjunction(self) -> Get:
        conditions = self._separated(self._single, "&&")
        return conditions[0] if len(conditions) == 1 else lambda run: all(test(run) for test in conditions)

    def _single(self) -> Get:
        if self._and("!"):
            inner = self._single()
            return lambda run: not inner(run)
        kind, text = self._peek()
        if kind == "name" and text in {"ISEOF", "MATCH", "UNIQUE", "INARRAY"}:
            self._next += 1
            return self._built_in(text)
        if self._is("("):
            # A bracket is of a test, or of a value that is compared.
            begin = self._next
            try:
                return self._comparison()
            except DescriptionError:
                self._next = begin
            self._sign("(")
            condition = self._test()
            self._sign(")")
            return condition
        return self._comparison()

    def _comparison(self) -> Get:
        left = self._value()
        kind, sign = self._take()
        if kind != "sign" or sign not in _COMPARE:
            raise DescriptionError(f"expected a comparison, found '{sign or 'the end'}'")
        right, compare = self._value(), _COMPARE[sign]

        def test(run: CheckedInput) -> bool:
            try:
                return compare(left(run), right(run))
            except TypeError as exc:
                raise DescriptionError("a text and a number are compared") from exc

        return test

    def _built_in(self, name: str) -> Get:
        if name == "ISEOF":
            return lambda run: run.at >= len(run.text)
        self._sign("(")
        function: Get
        if name == "MATCH":
            letters = self._value()
            function = lambda run: run.at < len(run.text) and run.text[run.at] in str(letters(run))  # noqa: E731
        elif name == "UNIQUE":
            names = self._separated(self._name)
            function = lambda run: _unique(run, names)  # noqa: E731
        else:
            value = self._value()
            self._sign(",")
            array = self._name()
            function = lambda run: value(run) in run.values.get(array, {}).values()  # noqa: E731
        self._sign(")")
        return function


def _words(source: str) -> Iterator[tuple[str, str]]:
    """The words of a description with their kinds; DescriptionError."""
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            line = source.count("\n", 0, at) + 1
            raise DescriptionError(f"line {line}: '{source[at : at + 10]}' cannot be read")
        at = match.end()
        if match.lastgroup is not None:
            yield match.lastgroup, match[0]


def _unquoted(text: str) -> str:
    def letter(match: re.Match[str]) -> str:
        return chr(int(match[1], 8)) if match[1][0] in "01234567" else _ESCAPES.get(match[1], match[0])

    return re.sub(r"\\([0-7]{1,3}|.)", letter, text[1:-1], flags=re.DOTALL)


def _eof(run: CheckedInput) -> None:
    if run.at < len(run.text):
        raise run.reject("the end")


def _sequence(acts: list[Act]) -> Act:
    if len(acts) == 1:
        return acts[0]

    def act(run: CheckedInput) -> None:
        for command in acts:
            command(run)

    return act


def _unique(run: CheckedInput, names: list[str]) -> bool:
    """Return whether no two places of these arrays have the same values in all of them."""
    arrays = [run.values.get(name, {}) for name in names]
    if any(array.keys() != arrays[0].keys() for array in arrays):
        raise DescriptionError(f"UNIQUE: {', '.join(names)} have not the same places")
    rows = [tuple(array[place] for array in arrays) for place in arrays[0]]
    return len(set(rows)) == len(rows)


def _arithmetic(sign: str, left: Get, right: Get) -> Get:
    return lambda run: _calculated(sign, left(run), right(run))


def _calculated(sign: str, left: Value, right: Value) -> Value:
    """The result of an operator on two values; whole numbers stay whole. DescriptionError."""
    if isinstance(left, str) or isinstance(right, str):
        raise DescriptionError(f"'{sign}' is not for texts")
    if isinstance(left, Decimal) != isinstance(right, Decimal):
        left, right = Decimal(left), Decimal(right)
    if sign in "+-*":
        return {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign](left, right)
    if sign == "^":
        if not isinstance(right, int) or not 0 <= right <= _MOST_POWER:
            raise DescriptionError(f"'^' takes whole numbers from 0 to {_MOST_POWER}")
        return left**right
    if not right:
        raise DescriptionError("a division by 0")
    if isinstance(left, Decimal):
        return left / right if sign == "/" else left % right
    # Whole numbers are divided towards 0.
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if sign == "/" else left - quotient * right


def check(source: str, text: str) -> str:
    """The reason why an input is not as described, "" where it is. DescriptionError."""
    getcontext().prec = 60
    try:
        Parser(source).program()(CheckedInput(text))
    except MismatchError as exc:
        return str(exc)
    except (InvalidOperation, OverflowError) as exc:
        raise DescriptionError(f"a number is too large: {type(exc).__name__}") from exc
    except RecursionError as exc:
        raise DescriptionError("is nested too deeply") from exc
    return ""


def main(path: Path) -> int:
    """Check standard input; a reason goes to standard error. Returns the exit code."""
    sys.set_int_max_str_digits(0)
    try:
        message = check(path.read_bytes().decode("latin-1"), sys.stdin.buffer.read().decode("latin-1"))
    except DescriptionError as exc:
        sys.stderr.write(f"{path.name}: {exc}\n")
        return _FAULT
    if message:
        sys.stderr.write(f"{path.name}: {message}\n")
    return _REJECTED if message else _ACCEPTED


if __name__ == "__main__":
    sys.exit(main(next(Path(__file__).parent.glob(f"*{SUFFIX}"))))
