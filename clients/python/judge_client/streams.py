"""Server-sent events out of the lines of an answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Event:
    """Something that happened: `id` to go on after it, the kind of event, and what is told of it."""

    id: str = ""
    event: str = "message"
    data: dict[str, Any] = field(default_factory=dict)


class Parser:
    def __init__(self) -> None:
        self._id = ""
        self._kind = ""
        self._data: list[str] = []

    def line(self, text: str) -> Event | None:
        """The event that ends with this line, if one does."""
        if text:
            name, _, value = text.partition(":")
            value = value.removeprefix(" ")
            if name == "id":
                self._id = value
            elif name == "event":
                self._kind = value
            elif name == "data":
                self._data.append(value)
            return None
        data, kind = "\n".join(self._data), self._kind or "message"
        self._data, self._kind = [], ""
        if not data:
            return None
        try:
            content = json.loads(data)
        except ValueError:
            content = {"text": data}
        return Event(self._id, kind, content if isinstance(content, dict) else {"value": content})
