"""Messages as JSON and back. Fields and values that a newer gateway has are taken as they are, or passed over."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from typing import Any


@functools.cache
def _hints(model: type) -> dict[str, Any]:
    return typing.get_type_hints(model)


def decode(hint: Any, value: Any) -> Any:
    """A value of JSON as this annotation has it; unknown fields of messages are left out.

    TypeError when a message lacks a field that it must have.
    """
    if value is None:
        return None
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _message(hint, value)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is list and isinstance(value, list):
        return [decode(inner[0], item) for item in value]
    if origin is dict and isinstance(value, dict):
        return {key: decode(inner[1], item) for key, item in value.items()}
    if origin in {typing.Union, types.UnionType}:
        kinds = [kind for kind in inner if kind is not type(None)]
        if len(kinds) == 1 or all(typing.get_origin(kind) is None for kind in kinds[1:]):
            return decode(kinds[0], value)
    return float(value) if hint is float and type(value) is int else value


def _message(model: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        raise TypeError(f"{model.__name__} is not an object")
    hints = _hints(model)
    return model(**{name: decode(hints[name], item) for name, item in value.items() if name in hints})


def encode(value: Any) -> Any:
    """A message as what becomes JSON; fields that are as they are by default are left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: encode(item)
            for field in dataclasses.fields(value)
            if (item := getattr(value, field.name)) != _default(field)
        }
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {key: encode(item) for key, item in value.items()}
    return value


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
