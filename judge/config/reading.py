"""From the text of a config to its model, or to one sentence that says file, line, key and what was expected."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from judge.common import yamltext
from judge.common.errors import ConfigError
from judge.common.text import expected

T = TypeVar("T", bound=BaseModel)


# So many keys are too many for a sentence.
_LISTED = 12


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models that a field's annotation names, inside lists, unions and the like."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def _known_keys(model: type[BaseModel], path: Sequence[Any]) -> list[str]:
    """The keys that may stand where `path` ends."""
    models = [model]
    for part in path[:-1]:
        if isinstance(part, str):
            fields = [model.model_fields[part] for model in models if part in model.model_fields]
            models = [model for field in fields for model in _models_in(field.annotation)]
    return sorted({key for model in models for key in model.model_fields})


def _sentence(error: Any, model: type[BaseModel], path: tuple[Any, ...]) -> str:
    """One pydantic error as a sentence for an operator; `path` is where its value is in the file."""
    if error["type"] == "extra_forbidden":
        path = path or tuple(error["loc"])
        keys = _known_keys(model, path)
        near = difflib.get_close_matches(str(path[-1]), keys, n=1)
        hint = (
            f"; did you mean '{near[0]}'?" if near else f"; expected {', '.join(keys)}" if len(keys) < _LISTED else ""
        )
        return f"unknown key '{'.'.join(map(str, path))}'{hint}"
    if error["type"] == "missing":
        return f"key '{'.'.join(map(str, error['loc']))}' is missing"
    if error["type"] in {"value_error", "fault"}:  # of our own validators, whose sentences name the keys
        return expected(error)
    text = f"{expected(error)}, got {yamltext.quoted(error['input'])}"
    return f"{'.'.join(map(str, path))}: {text}" if path else text


Override = tuple[tuple[str, ...], Any]


def override(data: dict[Any, Any], path: tuple[str, ...], value: Any, source: str) -> None:
    """Set the key at `path` of parsed YAML, making sections on the way; ConfigError when a part is no section."""
    here: Any = data
    for depth, part in enumerate(path[:-1]):
        if here.get(part) is None:
            here[part] = {}
        here = here[part]
        if not isinstance(here, dict):
            msg = f"{source}: '{'.'.join(path[: depth + 1])}' is not a section, so '{'.'.join(path)}' cannot be set"
            raise ConfigError(msg)
    here[path[-1]] = value


def _path(error: Any, lines: dict[tuple[Any, ...], int], overrides: Sequence[Override]) -> tuple[Any, ...]:
    """The key that an error is about; of several that are wrong together the first one that is set."""
    path = tuple(error["loc"])
    known_keys = lines.keys() | {key[:depth] for key, _ in overrides for depth in range(1, len(key) + 1)}
    while path and path not in known_keys:
        path = path[:-1]
    named = [(*path, *key.split(".")) for key in error.get("ctx", {}).get("keys", ())]
    return next((key for key in named if key in known_keys), path)


def _place(source: str, path: tuple[Any, ...], lines: dict[tuple[Any, ...], int], overrides: Sequence[Override]) -> str:
    """The origin of the value at `path`: an override, or a line of the file."""
    for key, _ in overrides:
        if path[: len(key)] == key:
            return f"{source}: --set {'.'.join(key)}"
    return f"{source}:{lines.get(path, 1)}"


def parse_text(model: type[T], text: str, source: str, overrides: Sequence[Override] = ()) -> T:
    """Check YAML text against a model; ConfigError says `source:line: sentence` for the first fault.

    `overrides` are (key path, value) pairs from the command line that win over the text (seed: `load_args`).
    """
    return check(model, yamltext.read(text, source), overrides)


def check(model: type[T], document: yamltext.Document, overrides: Sequence[Override] = ()) -> T:
    """The same for a file that has been read. Its value is changed by the overrides."""
    source, data = document.source, document.value
    if not isinstance(data, dict):
        raise ConfigError(f"{source}:1: expected a mapping of settings, found {type(data).__name__}")
    for key, value in overrides:
        override(data, key, value, source)
    try:
        return model.model_validate(data)
    except ValidationError as exc:
        first, *further_faults = explain(exc, model, document, overrides)
        further = len({fault.place for fault in further_faults} - {first.place})
        raise ConfigError(f"{first.place}: {first.sentence}" + (f" (and {further} more)" if further else "")) from None


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong in a file: the key at `path`, `file:line` for people, and what is wrong."""

    path: tuple[Any, ...]
    place: str
    sentence: str


def explain(
    exc: ValidationError, model: type[BaseModel], document: yamltext.Document, overrides: Sequence[Override] = ()
) -> list[Fault]:
    """Everything that a model finds wrong in a file, in the order of its lines; what is missing comes last."""
    lines = document.lines()
    faults = []
    for error in exc.errors(include_url=False):
        path = _path(error, lines, overrides)
        place = _place(document.source, path, lines, overrides)
        line = place.rpartition(":")[2]
        # A key that is there and wrong says more than one that is missing: it is often the same one, misspelt.
        rank = (error["type"] == "missing", int(line) if line.isdigit() else 0)
        faults.append((rank, place, _sentence(error, model, path), path))
    return [Fault(path, place, sentence) for _, place, sentence, path in sorted(faults, key=lambda row: row[:3])]


def read(path: Path) -> str:
    """The text of a config file; ConfigError says why it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as exc:
        msg = f"{path}: cannot be read: {exc.strerror}; name an existing file that this user may read"
        raise ConfigError(msg) from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path}: is not UTF-8 text; expected a YAML file") from exc


def load(model: type[T], path: Path, overrides: Sequence[Override] = ()) -> T:
    return parse_text(model, read(path), str(path), overrides)


def print_origins(model: type[T], path: Path) -> str:
    """One line for each setting of a config: its key, its value, and the file and line, or `default`, that set it."""
    document = yamltext.read(read(path), str(path))
    lines = document.lines()
    config = check(model, document)
    return "".join(
        f"{'.'.join(map(str, key))}: {json.dumps(value)}  # {f'{path}:{lines[key]}' if key in lines else 'default'}\n"
        for key, value in _leaves(config.model_dump(mode="json"), ())
    )


def _leaves(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every value that is no section, by its key."""
    if isinstance(value, dict) and value:
        parts: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        parts = enumerate(value)
    else:
        yield path, value
        return
    for name, part in parts:
        yield from _leaves(part, (*path, name))


def dump(config: BaseModel) -> str:
    """A config as YAML, with every default filled in; what `judge config print` shows."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
