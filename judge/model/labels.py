"""Tags and difficulty of a problem (docs/problems.md, Tags, difficulty and order)."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints

from judge.model.base import Message

TAGS: Final = 20
_LONGEST: Final = 30
ORDER: Final = 10**6

Tag = Annotated[str, StringConstraints(to_lower=True, max_length=_LONGEST, pattern=r"^[^\s,\x00-\x1f\x7f]+$")]
Difficulty = Annotated[
    str,
    StringConstraints(strip_whitespace=True, max_length=_LONGEST, pattern=r"^[^\x00-\x1f\x7f]*$"),
    Field(coerce_numbers_to_str=True),
]
Order = Annotated[int, Field(ge=-ORDER, le=ORDER)]


class Labels(Message):
    """What a package says of its problem; lists show it until somebody sets other values."""

    tags: list[Tag] = Field(default_factory=list, max_length=TAGS)
    difficulty: Difficulty = ""


def labels_of(keywords: Any, difficulty: Any) -> Labels:
    """The labels by `keywords` and `difficulty` of a stranger's problem.yaml; what cannot be one is left out."""
    if isinstance(keywords, str):
        keywords = keywords.split("," if "," in keywords else None)
    texts = [item for item in keywords if isinstance(item, str)] if isinstance(keywords, list) else []
    tags = [re.sub("[ ,]+", "-", _printable(text.lower()))[:_LONGEST] for text in texts]
    text = str(difficulty) if isinstance(difficulty, str | int | float) else ""
    return Labels(tags=list(dict.fromkeys(filter(None, tags)))[:TAGS], difficulty=_printable(text)[:_LONGEST])


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text).strip()
