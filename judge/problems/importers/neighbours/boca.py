"""Problems of BOCA: description/problem.info beside input/, output/ and limits/ (whose limits are in limits.py)."""

from __future__ import annotations

import re

from judge.problems.importers.draft import Draft
from judge.problems.tree import clean

INFO = "description/problem.info"
_TITLE = re.compile(r"^fullname=[ \t]*(\"?)([^\n]{1,200}?)\1[ \t\r]*$", re.MULTILINE)


def take_title(draft: Draft) -> None:
    """The problem's title."""
    if INFO not in draft.tree.files:
        return
    # The system is of Brazil: what is no UTF-8 there is Latin-1.
    found = _TITLE.search(draft.start(INFO, "latin-1"))
    if found is not None and clean(found[2]):
        draft.problem["name"] = clean(found[2])
        draft.report.took(f"title of {INFO}")
