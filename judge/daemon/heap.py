"""Spares the garbage collector what a long-lived process keeps in memory for good."""

from __future__ import annotations

import gc
from typing import Final

# New objects, less those that have gone by themselves, at which the collector looks for circles. Python's 700 are
# made by a few requests that are under way together: a thirtieth of a judicator's time went there. Not many more:
# a circle may hold what a large request has sent.
_NEW: Final = 2_000


def keep_loaded() -> None:
    """Have the garbage collector never look again at what is there by now; called once all modules are loaded.

    It lives as long as the process does, and a look at it takes a tenth of a second, in which nothing else goes on.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW)
