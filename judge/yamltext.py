"""Reading YAML and JSON that anybody may have written: a value, or one sentence with its place, in linear time.

The library's own loader raises whatever a conversion happens to raise, and aliases let a few lines stand for billions
of values; both end here.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import yaml

from judge.errors import ConfigError

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

    A `plain` one refuses aliases, and more than DEPTH levels: in a small file they are a mistake or an attack.
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
        """One node, and all below it."""
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
        """One node's value."""
        try:
            value = super().construct_object(node, deep)
        except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError) as exc:
            # A date that does not exist, a number of a million digits, a tag on what it does not fit.
            kind = node.tag.rpartition(":")[2]
            problem = f"has a value that cannot be read as {kind}: {str(exc) or type(exc).__name__}"
            raise UnreadableError(None, None, problem, node.start_mark) from None
        if isinstance(value, int) and value.bit_length() > _BITS:
            problem = f"has a value that cannot be read as int: it has more than {_BITS} bits"
            raise UnreadableError(None, None, problem, node.start_mark)
        if isinstance(value, str) and _NO_TEXT.search(value):
            problem = "has a NUL or half a character, which no file, program or database takes; write it without"
            raise UnreadableError(None, None, problem, node.start_mark)
        return value


def from_json(text: str | bytes) -> Any:
    """A value of JSON; ValueError for what is none, or has a NUL or half of a character in a text; RecursionError."""

    def checked(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for pair in pairs:
            _check_texts(pair)
        return dict(pairs)

    value = json.loads(text, object_pairs_hook=checked)
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
    found = {}
    for name, place, value in parts:
        here = (*path, name)
        found[here] = place.start_mark.line + 1
        found.update(_lines(value, here))
    return found


def read(text: str, source: str, *, plain: bool = False, repeats: list[str] | None = None) -> Document:
    """A whole file, read once; `plain` as for Loader. ConfigError says `source:line: sentence`.

    `repeats` gets a sentence for each key that occurs again, whose last value counts; without it they are refused.
    """
    try:
        loader = Loader(text)
        loader.plain = plain
        node = compose(loader, source, repeats)
        return Document(source, None if node is None else loader.construct_document(node), node)
    except yaml.YAMLError as exc:
        raise refusal(exc, text, source) from None
    except RecursionError:
        raise _too_deep(source) from None


def compose(loader: yaml.SafeLoader, source: str, repeats: list[str] | None = None) -> yaml.Node | None:
    """The nodes of a loader's only document; yaml.YAMLError, or ConfigError for what stands for too much."""
    try:
        node: yaml.Node | None = loader.get_single_node()
        if node is not None:
            _check(node, {}, set(), source, repeats)
    except RecursionError:
        raise _too_deep(source) from None
    return node


def refusal(exc: yaml.YAMLError, text: str, source: str) -> ConfigError:
    """The library's refusal, as a sentence with file and line."""
    mark = getattr(exc, "problem_mark", None) or getattr(exc, "context_mark", None)
    line = mark.line + 1 if mark else text.count("\n", 0, getattr(exc, "position", 0)) + 1
    if isinstance(exc, yaml.reader.ReaderError):
        return ConfigError(f"{source}:{line}: not YAML: has a control character")
    said = str(getattr(exc, "problem", None) or exc or type(exc).__name__)
    if "'\\t' that cannot start" in said:
        said = "there is a tab where YAML takes blanks alone"
    kind = "" if isinstance(exc, UnreadableError) else "not YAML: "
    return ConfigError(f"{source}:{line}: {kind}{said.splitlines()[0][:200]}")


def quoted(value: Any) -> str:
    """A value as a refusal quotes it: short, whatever it is."""
    try:
        text = _SHORT.repr(value)
    except ValueError:
        return "a very long number"
    return text if len(text) <= _QUOTED else text[: _QUOTED - 1] + "…"


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = _QUOTED


def _too_deep(source: str) -> ConfigError:
    return ConfigError(f"{source}:1: is nested too deeply to be read")


def _check(
    node: yaml.Node, sizes: dict[int, int], above: set[int], source: str, repeats: list[str] | None = None
) -> int:
    """Count the values that a node stands for; ConfigError: too many, one inside itself, or repeated keys."""
    line = node.start_mark.line + 1
    if id(node) in above:
        raise ConfigError(f"{source}:{line}: a value contains itself by a YAML alias; write it out")
    known = sizes.get(id(node))
    if known is not None:
        return known
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
    seen = set()
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"{source}:{line}: a key must be a word")
        if (key.tag, key.value) in seen:
            said = f"{source}:{line}: key '{key.value[:_QUOTED]}' occurs twice"
            if repeats is None:
                raise ConfigError(f"{said}; keep one")
            repeats.append(said)
        seen.add((key.tag, key.value))
    return [part for pair in node.value for part in pair]
