"""How many examples a property is tried with."""

from hypothesis import settings


def at_least(count: int) -> int:
    """So many, or what the profile asks for (`--hypothesis-profile search`) if that is more."""
    return max(count, settings.default.max_examples)
