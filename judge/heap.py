"""Spares the garbage collector what a long-lived process keeps in memory for good."""

from __future__ import annotations

import gc


def keep_loaded() -> None:
    """Have the garbage collector never look again at what is there by now; called once all modules are loaded.

    It lives as long as the process does, and a look at it takes a tenth of a second, in which nothing else goes on.
    """
    gc.collect()
    gc.freeze()
