"""Messages in which every field is marked, so that a test can tell which of them came out, and how.

A mark is unlike anything that a program of ours writes: a word, a hash or a number with a place of its own.
"""

from __future__ import annotations

import enum
import hashlib
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic.fields import FieldInfo

WORD = "Zq7"


@dataclass
class Marks:
    """Fills messages by the types of their fields. `given` has a value for some fields, by message and name.

    `words`, `numbers`: every mark that was set, as it would stand in an answer, with the field that has it.
    """

    draw: Callable[[st.SearchStrategy[Any]], Any]
    given: dict[tuple[type[BaseModel], str], Any]
    words: dict[str, str] = field(default_factory=dict)
    count: int = 0

    def message(self, model: type[BaseModel], **fixed: Any) -> Any:
        """A message of this type, all fields marked but those in `fixed` and in `given`."""
        values = {}
        for name, info in model.model_fields.items():
            if name in fixed:
                values[name] = fixed[name]
            elif (model, name) in self.given:
                value = self.given[model, name]
                values[name] = value() if callable(value) else value
            else:
                values[name] = self._value(info.annotation, info, f"{model.__name__}.{name}")
        return model.model_construct(**values)

    def _value(self, kind: Any, info: FieldInfo | None, place: str) -> Any:
        origin, parts = get_origin(kind), get_args(kind)
        if hasattr(kind, "__metadata__"):
            return self._plain(kind.__origin__, kind.__metadata__, place)
        if origin in {Union, types.UnionType}:
            kind = next(one for one in parts if one is not type(None))
            return self._value(kind, info, place)
        if origin is Literal:
            return self.draw(st.sampled_from(parts))
        if origin is list:
            return [self._value(parts[0], None, place) for _ in range(2)]
        if origin is dict:
            return {self._value(parts[0], None, place): self._value(parts[1], None, place)}
        return self._plain(kind, info.metadata if info is not None else [], place)

    def _plain(self, kind: type[Any], metadata: Iterable[Any], place: str) -> Any:
        if issubclass(kind, BaseModel):
            return self.message(kind)
        if issubclass(kind, enum.Enum):
            return self.draw(st.sampled_from(list(kind)))
        if kind is bool:
            return self.draw(st.booleans())
        # Numbers so large, or so odd, that rounding leaves nothing of them.
        if kind is int:
            return int(self._noted(str(871_000_000_013 + self._next() * 1_234_567), place))
        if kind is float:
            return float(self._noted(repr(0.1357911 + self._next() * 0.0103071), place))
        assert kind is str, f"{place}: nobody has said how to mark {kind}"
        return self._hex(metadata, place) or self.text(place)

    def _hex(self, metadata: Iterable[Any], place: str) -> str | None:
        for pattern in filter(None, (getattr(one, "pattern", None) for one in metadata)):
            if "[0-9a-f]{" in pattern:
                length = int(pattern.split("{")[1].split("}")[0])
                return self._noted(hashlib.sha256(f"{place}{self._next()}".encode()).hexdigest()[:length], place)
        return None

    def _next(self) -> int:
        self.count += 1
        return self.count

    def _noted(self, text: str, place: str) -> str:
        self.words[text] = place
        return text

    def text(self, place: str) -> str:
        """A marked text that is no field's value."""
        return self._noted(f"{WORD}x{self._next()}x", place)

    def found(self, text: str) -> dict[str, str]:
        """The marks that are in a text, with their fields."""
        return {mark: place for mark, place in self.words.items() if mark in text}
