"""A callback for Ansible that says at the end of each playbook how long it and its longest plays took."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ansible import context
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: durations
type: aggregate
short_description: Say how long a playbook and each of its plays took
description:
  - One line at the end of the run. Molecule runs each of its steps as one playbook.
"""


class CallbackModule(CallbackBase):
    """Measures on the monotonic clock, in seconds."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "durations"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        """Start the clock: Ansible loads callbacks first."""
        super().__init__()
        self._start = time.monotonic()
        self._playbook = ""
        self._plays: list[tuple[str, float]] = []

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Remember whose duration it is."""
        self._playbook = Path(playbook._file_name).stem  # the only name that it has
        if context.CLIARGS.get("check"):
            self._playbook += " (check mode)"

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Note when each play began."""
        self._plays.append((play.get_name().strip(), time.monotonic()))

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Tell."""
        end = time.monotonic()
        ends = [begin for _, begin in self._plays[1:]] + [end]
        lasted = [(until - begin, name) for (name, begin), until in zip(self._plays, ends, strict=True)]
        for seconds, name in lasted:
            if len(lasted) > 1:
                self._display.display(f"{seconds:7.1f} s  {name}")
        self._display.display(f"{end - self._start:7.1f} s  playbook {self._playbook}\n")
