"""Causes of runs: receivers of verdicts hear of a person's runs, and of the system's own on demand."""

from __future__ import annotations

from typing import Final, Literal

# A run of `import` checks a package or measures its time limit, one of `statement` makes a statement's page.
Origin = Literal["import", "verification", "statement"]
Cause = Literal["person", "import", "verification", "statement", "rejudging"]
# Runs that the cluster needs for itself: receivers and listeners get them on demand only.
SYSTEM: Final[frozenset[str]] = frozenset({"import", "statement"})


def cause_of(origin: Origin | None, check: str | None, *, rejudged: bool) -> Cause:
    """The cause of a verdict of a submission with this `cause` and `check`. Pure."""
    if check == "statements":
        return "statement"
    return "rejudging" if rejudged else origin or "person"
