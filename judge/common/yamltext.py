"""Reading YAML and JSON that anybody may have written: a value, or one sentence with its place, in linear time.

The library's own loader raises whatever a conversion happens to raise, and aliases let a few lines stand for billions
of values; both end here.
"""

from __future__ import annotations

import codecs
import json
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import yaml

from judge.common.errors import ConfigError

# So many levels a plain file may have.
DEPTH: Final = 32
# So many values a file may stand for, with its aliases written out.
_MOST: Final = 200_000
_QUOTED: Final = 80
# Longer integers become no text and no float, and nobody means them.
_BITS: Final = 256
# Characters that an escape in quotes can put into a text.
_NO_TEXT: Final = re.compile("[\0\ud800-\udfff]")
# One character as JSON writes it, by the escapes of its two halves.
_HALVES: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class UnreadableError(yaml.constructor.ConstructorError):
    """A value that its own tag, or the form that it has, does not allow."""


class Loader(yaml.SafeLoader):
    """The safe loader, all of whose refusals are yaml.YAMLError with a place.

    `plain`: refuses aliases, and more than DEPTH levels: in a small file they are a mistake or an attack.
    """

    plain = False
    _level = 0

    def scan_to_next_token(self) -> None:
        """Past blanks and comments. Between brackets tabs are blanks, too: JSON is often indented by them."""
        super().scan_to_next_token()
        while self.flow_level and self.peek() == "\t":
            self.forward()
            super().scan_to_next_token()

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        mark: Any = event.start_mark
        deeper = isinstance(event, yaml.CollectionStartEvent)
        if self.plain and isinstance(event, yaml.AliasEvent):
            raise UnreadableError(None, None, "uses a YAML alias; write the value out", mark)
        if self.plain and deeper and self._level == DEPTH:
            raise UnreadableError(None, None, f"is nested deeper than {DEPTH} levels", mark)
        self._level += deeper
        node = super().compose_node(parent, index)
        self._level -= deeper
        if isinstance(node, yaml.ScalarNode):
            node.value = _HALVES.sub(_joined, node.value)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
        except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError) as exc:
            # A date that does not exist, a number of a million digits, a tag on what it does not fit.
            kind = node.tag.rpartition(":")[2]
            problem = f"has a value that cannot be read as {kind}: {str(exc) or type(exc).__name__}"
            raise UnreadableError(None, None, problem, node.start_mark) from exc
        if isinstance(value, int) and value.bit_length() > _BITS:
            problem = f"has a value that cannot be read as int: it has more than {_BITS} bits"
            raise UnreadableError(None, None, problem, node.start_mark)
        if isinstance(value, str) and _NO_TEXT.search(value):
            problem = "has a NUL or half a character, which no file, program or database takes; write it without"
            raise UnreadableError(None, None, problem, node.start_mark)
        return value


class Fields(dict[Any, Any]):
    """A mapping of a stranger's file. `written` has the text of each value that is no text, by its key."""

    written: Mapping[Any, str] = MappingProxyType({})

    def text(self, *keys: str) -> str:
        """The text of the first of these keys that has a value, as the file writes it; empty without one."""
        texts = (text_of(self, key) for key in keys if key in self)
        return next((text for text in texts if text), "")


class Items(list[Any]):
    """A list of a stranger's file. `written` has the text of each item that is no text, by its index."""

    written: Mapping[Any, str] = MappingProxyType({})


def kind_of(value: Any) -> str:
    """The kind of a value for people."""
    kinds = ("list", list), ("mapping", dict), ("text", str), ("truth value", bool), ("number", int | float)
    return next((name for name, kind in kinds if isinstance(value, kind)), "nothing" if value is None else "other")


def text_of(container: Any, key: Any) -> str:
    """The text of a value as the file writes it; empty where nothing is written, or where it is a list or a mapping."""
    written: Mapping[Any, str] = getattr(container, "written", {})
    value = container[key]
    if isinstance(value, str):
        return value
    if key in written:
        return written[key]
    return str(value) if isinstance(value, int | float) else ""


def merged(*parts: Mapping[Any, Any]) -> Fields:
    """Several mappings as one, of which the later ones count; with what the files write of each value."""
    result = Fields()
    written: dict[Any, str] = {}
    for part in parts:
        result.update(part)
        for key in part:
            written.pop(key, None)
        written |= {key: text for key, text in getattr(part, "written", {}).items() if key in part}
    result.written = written
    return result


def optional_text(container: Any, key: Any) -> str | None:
    """The text of a value as the file writes it, None without a value; of a list or a mapping what a refusal shows."""
    value = container.get(key)
    if value is None:
        return None
    return str(value) if isinstance(value, list | dict) else text_of(container, key)


def texts_of(container: Any, key: Any) -> list[str]:
    """The texts of a list, or of one value in its place, as the file writes them; empty where there is none."""
    value = container.get(key)
    if isinstance(value, list):
        return [text_of(value, index) for index in range(len(value))]
    return [] if value is None else [text_of(container, key)]


class SpelledInt(int):
    """A whole number that the file writes in another way than `str` does, such as 007 or 0x1F."""

    spelling = ""

    def __str__(self) -> str:
        return self.spelling


class SpelledFloat(float):
    """A number that the file writes in another way than `str` does, such as 3.10 or 1e3."""

    spelling = ""

    def __str__(self) -> str:
        return self.spelling


def number(text: str) -> int | float | None:
    """The number that a text is by YAML 1.2's core schema, else None. ValueError for more digits than Python reads."""
    if _INT.fullmatch(text):
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        integer = int(text, base)
        if str(integer) == text:
            return integer
        spelled: SpelledInt | SpelledFloat = SpelledInt(integer)
    elif _FLOAT.fullmatch(text):
        part = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        if str(part) == text:
            return part
        spelled = SpelledFloat(part)
    else:
        return None
    spelled.spelling = text
    return spelled


_INT: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_FLOAT: Final = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII
)


class StrangersLoader(Loader):
    """The loader of packages: numbers as YAML 1.2 has them, no dates, and what is written of each value is kept.

    12:30, 1_000 and 2024-01-01 are text. The words of YAML 1.1 for truth values (`yes`, `off`) are truth values for
    keys that have one, and text for keys that have text: see `Fields.written`.
    """

    plain = True

    def fields(self, node: yaml.MappingNode) -> Iterator[Fields]:
        """A mapping. A key that is a truth value is text."""
        value = Fields()
        yield value
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag == _BOOL:
                key.tag = _STR
        self._check_keys(node)
        value.update(self.construct_mapping(node))
        value.written = {self.construct_object(key): item.value for key, item in node.value if _is_spelled(item)}

    def _check_keys(self, node: yaml.MappingNode) -> None:
        """Refuse a number that is a key twice, in two spellings; `compose` sees the same spelling."""
        spellings: dict[Any, str] = {}
        for key, _ in node.value:
            if key.tag == _MERGE:
                continue
            if spellings.setdefault(self.construct_object(key), key.value) != key.value:
                problem = f"key '{key.value[:_QUOTED]}' occurs twice, in two spellings; keep one"
                raise UnreadableError(None, None, problem, key.start_mark)

    def items(self, node: yaml.SequenceNode) -> Iterator[Items]:
        value = Items()
        yield value
        value.extend(self.construct_sequence(node))
        value.written = {index: item.value for index, item in enumerate(node.value) if _is_spelled(item)}

    def number(self, node: yaml.ScalarNode) -> int | float:
        result = number(node.value)
        if result is None:
            raise ValueError(f"'{node.value[:_QUOTED]}' is no number")
        return result


_STR: Final = "tag:yaml.org,2002:str"
_MERGE: Final = "tag:yaml.org,2002:merge"
_BOOL: Final = "tag:yaml.org,2002:bool"
_OTHERS: Final = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "timestamp", "value"))


def _is_spelled(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag != _STR


StrangersLoader.yaml_implicit_resolvers = {
    first: rules_kept
    for first, rules in Loader.yaml_implicit_resolvers.items()
    if (rules_kept := [(tag, rule) for tag, rule in rules if tag not in _OTHERS])
}
StrangersLoader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(f"(?:{_INT.pattern})$"), list("-+0123456789"))
StrangersLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(f"(?:{_FLOAT.pattern})$"), list("-+.0123456789")
)
StrangersLoader.add_constructor("tag:yaml.org,2002:map", StrangersLoader.fields)
StrangersLoader.add_constructor("tag:yaml.org,2002:seq", StrangersLoader.items)
for _kind in ("int", "float"):
    StrangersLoader.add_constructor(f"tag:yaml.org,2002:{_kind}", StrangersLoader.number)


def from_json(text: str | bytes) -> Any:
    """A value of JSON, with or without a byte order mark.

    ValueError for what is none, or has NaN, an infinity, or a NUL or half of a character in a text; RecursionError.
    """
    text = text.removeprefix("\ufeff") if isinstance(text, str) else text.removeprefix(codecs.BOM_UTF8)

    def checked(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for pair in pairs:
            _check_texts(pair)
        return dict(pairs)

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is no number of JSON")

    value = json.loads(text, object_pairs_hook=checked, parse_float=number, parse_constant=refuse)
    _check_texts([value])
    return value


def _check_texts(values: Iterable[Any]) -> None:
    for value in values:
        if isinstance(value, str) and _NO_TEXT.search(value):
            raise ValueError("a text has a NUL or half of a character in it")
        if isinstance(value, list):
            _check_texts(value)


def _joined(halves: re.Match[str]) -> str:
    return halves[0].encode("utf-16", "surrogatepass").decode("utf-16")


@dataclass(frozen=True)
class Document:
    """A file's value (None when it is empty), and where each part of it stands."""

    source: str
    value: Any
    node: yaml.Node | None

    def lines(self) -> dict[tuple[Any, ...], int]:
        """The line (from 1) of every key and item, by its path. Merged keys (`<<`) are on the lines where they are."""
        return _lines(self.node, ())


def _lines(node: yaml.Node | None, path: tuple[Any, ...]) -> dict[tuple[Any, ...], int]:
    parts: list[tuple[Any, yaml.Node, yaml.Node]] = []
    if isinstance(node, yaml.MappingNode):
        parts = [(key.value, key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        parts = [(index, value, value) for index, value in enumerate(node.value)]
    result = {}
    for name, place, value in parts:
        inner_path = (*path, name)
        result[inner_path] = place.start_mark.line + 1
        result.update(_lines(value, inner_path))
    return result


def read(text: str, source: str, *, plain: bool = False, repeats: list[str] | None = None) -> Document:
    """A whole file, read once; ConfigError says `source:line: sentence`. `plain`: it is a stranger's.

    `repeats` gets a sentence for each key that occurs again, whose last value counts; without it they are refused.
    """
    try:
        loader = (StrangersLoader if plain else Loader)(text)
        node: yaml.Node | None = loader.get_single_node()
        if node is not None:
            _check(node, {}, set(), source, repeats)
        return Document(source, None if node is None else loader.construct_document(node), node)
    except yaml.YAMLError as exc:
        raise _refusal(exc, text, source) from None
    except RecursionError as exc:
        raise ConfigError(f"{source}:1: is nested too deeply to be read") from exc


def _refusal(exc: yaml.YAMLError, text: str, source: str) -> ConfigError:
    """The library's refusal, as a sentence with file and line."""
    mark = getattr(exc, "problem_mark", None) or getattr(exc, "context_mark", None)
    line = mark.line + 1 if mark else text.count("\n", 0, getattr(exc, "position", 0)) + 1
    if isinstance(exc, yaml.reader.ReaderError):
        return ConfigError(f"{source}:{line}: not YAML: has a control character")
    message = str(getattr(exc, "problem", None) or exc or type(exc).__name__)
    if "'\\t' that cannot start" in message:
        message = "there is a tab where YAML takes blanks alone"
    kind = "" if isinstance(exc, UnreadableError) else "not YAML: "
    return ConfigError(f"{source}:{line}: {kind}{message.splitlines()[0][:200]}")


def quoted(value: Any) -> str:
    """A value as a refusal quotes it: short, whatever it is."""
    try:
        text = _SHORT.repr(value)
    except ValueError:
        return "a very long number"
    return text if len(text) <= _QUOTED else text[: _QUOTED - 1] + "…"


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = _QUOTED


def _check(node: yaml.Node, sizes: dict[int, int], above: set[int], source: str, repeats: list[str] | None) -> int:
    """Count the values that a node stands for; ConfigError: too many, one inside itself, or repeated keys."""
    line = node.start_mark.line + 1
    if id(node) in above:
        raise ConfigError(f"{source}:{line}: a value contains itself by a YAML alias; write it out")
    size = sizes.get(id(node))
    if size is not None:
        return size
    above.add(id(node))
    count = 1
    for child in _children(node, source, repeats):
        count += _check(child, sizes, above, source, repeats)
        if count > _MOST:
            raise ConfigError(f"{source}:{line}: YAML aliases stand for more than {_MOST} values; write them out")
    above.discard(id(node))
    sizes[id(node)] = count
    return count


def _children(node: yaml.Node, source: str, repeats: list[str] | None) -> list[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        return list(node.value)
    if not isinstance(node, yaml.MappingNode):
        return []
    keys = set()
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"{source}:{line}: a key must be a word")
        if (key.tag, key.value) in keys:
            message = f"{source}:{line}: key '{key.value[:_QUOTED]}' occurs twice"
            if repeats is None:
                raise ConfigError(f"{message}; keep one")
            repeats.append(message)
        keys.add((key.tag, key.value))
    return [part for pair in node.value for part in pair]
