"""Turns the commands of a description into Python functions, so that a million numbers take seconds only."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation, getcontext
from typing import Any

from .values import CheckedInput, DescriptionError, MismatchError, Value, calculated, number, tokens, unquoted

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
_BLOCKS = frozenset({"REP", "REPI", "WHILE", "WHILEI", "IF"})

Act = Callable[[CheckedInput], None]
Get = Callable[[CheckedInput], Value]


class Parser:
    """The functions of a description; DescriptionError."""

    def __init__(self, source: str) -> None:
        """Cut the description into words."""
        self._tokens = list(tokens(source))
        self._next = 0

    def program(self) -> Act:
        """Parse all of it. The input must end where the description ends."""
        acts = self._commands(())
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
        if not self._is(sign):
            return False
        self._next += 1
        return True

    def _name(self) -> str:
        kind, text = self._take()
        if kind != "name":
            raise DescriptionError(f"expected a name, found '{text or 'the end'}'")
        return text

    # --- commands ---------------------------------------------------------------------------------------------------

    def _commands(self, ends: tuple[str, ...]) -> list[Act]:
        acts: list[Act] = []
        while self._peek()[0] == "name" and self._peek()[1] not in (*ends, "END", "ELSE"):
            acts.append(self._command())
        return acts

    def _command(self) -> Act:
        name = self._name()
        if name in {"SPACE", "NEWLINE"}:
            text = " " if name == "SPACE" else "\n"
            return lambda run: run.literal(text)
        if name == "EOF":
            return _eof
        if name in _BLOCKS:
            return self._loop(name) if name != "IF" else self._if()
        make = {
            "INT": self._int, "FLOAT": self._float, "FLOATP": self._float, "STRING": self._string, "REGEX": self._regex,
            "ASSERT": self._assert, "SET": self._set, "UNSET": self._unset,
        }.get(name)  # fmt: skip
        if make is None:
            raise DescriptionError(f"'{name[:40]}' is no command")
        self._sign("(")
        act = make(name)
        self._sign(")")
        return act

    def _int(self, _: str) -> Act:
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

    def _float(self, name: str) -> Act:
        least, most = self._two()
        digits: tuple[Get, Get] | None = None
        if name == "FLOATP":
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

    def _string(self, _: str) -> Act:
        text = self._value()
        return lambda run: run.literal(str(text(run)))

    def _regex(self, _: str) -> Act:
        text = self._value()
        store = self._store() if self._and() else None
        compiled: dict[str, re.Pattern[str]] = {}

        def act(run: CheckedInput) -> None:
            source = str(text(run))
            if source not in compiled:
                try:
                    compiled[source] = re.compile(_CLASS.sub(lambda match: _CLASSES[match[1]], source))
                except re.error as exc:
                    raise DescriptionError(f"REGEX: '{source[:60]}' is no regular expression: {exc}") from None
            match = compiled[source].match(run.text, run.at)
            if match is None:
                raise run.reject(f"what matches {source}")
            run.at = match.end()
            if store is not None:
                store(run, match[0])

        return act

    def _assert(self, _: str) -> Act:
        begin = self._next
        test = self._test()
        condition = " ".join(text for _, text in self._tokens[begin : self._next])

        def act(run: CheckedInput) -> None:
            if not test(run):
                raise run.reject(f"that {condition}")

        return act

    def _set(self, _: str) -> Act:
        acts: list[Act] = []
        while not acts or self._and():
            store = self._store()
            self._sign("=")
            acts.append(_assign(store, self._value()))
        return _sequence(acts)

    def _unset(self, _: str) -> Act:
        names = [self._name()]
        while self._and():
            names.append(self._name())

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
        condition: Get = self._value() if name.startswith("REP") else self._test()
        between = self._command() if self._and() else None
        self._sign(")")
        body = _sequence(self._commands(()))
        self._end()
        is_counted = name.startswith("REP")

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
        body = _sequence(self._commands(()))
        otherwise: Act | None = None
        if self._peek() == ("name", "ELSE"):
            self._next += 1
            otherwise = _sequence(self._commands(()))
        self._end()

        def act(run: CheckedInput) -> None:
            if test(run):
                body(run)
            elif otherwise is not None:
                otherwise(run)

        return act

    def _end(self) -> None:
        if self._take() != ("name", "END"):
            raise DescriptionError("a block has no END")

    # --- values -----------------------------------------------------------------------------------------------------

    def _place(self) -> tuple[str, list[Get]]:
        """A variable and its indices."""
        name = self._name()
        indices: list[Get] = []
        if self._and("["):
            indices.append(self._value())
            while self._and():
                indices.append(self._value())
            self._sign("]")
        return name, indices

    def _store(self) -> Callable[[CheckedInput, Value], None]:
        name, indices = self._place()

        def store(run: CheckedInput, value: Value) -> None:
            run.values.setdefault(name, {})[tuple(index(run) for index in indices)] = value

        return store

    def _value(self, level: int = 0) -> Get:
        if level == len(_LEVELS):
            return self._unary()
        operand = self._value(level + 1)
        while self._is(*_LEVELS[level]):
            operand = _arithmetic(self._take()[1], operand, self._value(level + 1))
        return operand

    def _unary(self) -> Get:
        if self._and("-"):
            inner = self._unary()
            return _arithmetic("-", lambda _: 0, inner)
        operand = self._atom()
        while self._and("^"):
            operand = _arithmetic("^", operand, self._atom())
        return operand

    def _atom(self) -> Get:
        kind, text = self._peek()
        if kind in {"string", "number"}:
            self._next += 1
            constant: Value = unquoted(text) if kind == "string" else number(text)
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
        return _lookup(*self._place())

    # --- tests ------------------------------------------------------------------------------------------------------

    def _test(self) -> Get:
        condition = self._conjunction()
        while self._and("||"):
            condition = _either(condition, self._conjunction())
        return condition

    def _conjunction(self) -> Get:
        condition = self._single()
        while self._and("&&"):
            condition = _conjoin(condition, self._single())
        return condition

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
            except TypeError:
                raise DescriptionError("a text and a number are compared") from None

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
            names = [self._name()]
            while self._and():
                names.append(self._name())
            function = lambda run: _unique(run, names)  # noqa: E731
        else:
            value = self._value()
            self._sign(",")
            array = self._name()
            function = lambda run: value(run) in run.values.get(array, {}).values()  # noqa: E731
        self._sign(")")
        return function


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


def _assign(store: Callable[[CheckedInput, Value], None], value: Get) -> Act:
    return lambda run: store(run, value(run))


def _either(left: Get, right: Get) -> Get:
    return lambda run: left(run) or right(run)


def _conjoin(left: Get, right: Get) -> Get:
    return lambda run: left(run) and right(run)


def _lookup(name: str, indices: list[Get]) -> Get:
    def get(run: CheckedInput) -> Value:
        try:
            return run.values[name][tuple(index(run) for index in indices)]
        except KeyError:
            raise DescriptionError(f"'{name}' has no value here") from None

    return get


def _unique(run: CheckedInput, names: list[str]) -> bool:
    """Return whether no two places of these arrays have the same values in all of them."""
    arrays = [run.values.get(name, {}) for name in names]
    if any(array.keys() != arrays[0].keys() for array in arrays):
        raise DescriptionError(f"UNIQUE: {', '.join(names)} have not the same places")
    rows = [tuple(array[place] for array in arrays) for place in arrays[0]]
    return len(set(rows)) == len(rows)


def _arithmetic(sign: str, left: Get, right: Get) -> Get:
    def get(run: CheckedInput) -> Value:
        return calculated(sign, left(run), right(run))

    return get


def check(source: str, text: str) -> str:
    """The reason why an input is not as described, "" where it is. DescriptionError."""
    getcontext().prec = 60
    try:
        Parser(source).program()(CheckedInput(text))
    except MismatchError as exc:
        return str(exc)
    except (InvalidOperation, OverflowError) as exc:
        raise DescriptionError(f"a number is too large: {type(exc).__name__}") from None
    except RecursionError:
        raise DescriptionError("is nested too deeply") from None
    return ""
