"""Tells the age of this host's newest backup: its judicator measures and warns of it, as a timer fails silently.

The controller touches a file beside the backups for each step that it has done, as nothing measures the controller.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from prometheus_client import Gauge

from judge.mongodb.backup_names import newest

NEWEST: Final = Gauge(
    "judge_backup_newest_timestamp_seconds",
    "When the newest backup of this host was begun, 0 before the first",
)
MOST: Final = Gauge("judge_backup_most_seconds", "Age at which this host's newest backup is too old, 0 without a timer")
STEP: Final = Gauge(
    "judge_backup_step_timestamp_seconds", "When the controller last copied or drilled, 0 before the first", ["step"]
)
STEP_MOST: Final = Gauge("judge_backup_step_most_seconds", "Age at which that is too old, 0 without a timer", ["step"])
STEPS: Final = ("copied", "drilled")


def measure(directory: Path | None, hours: float, steps: Mapping[str, float]) -> None:
    """From now on the metrics say how it is with this directory; None: this host has no backups."""

    def read() -> float:
        moment = None if directory is None else newest(directory)
        return moment.timestamp() if moment else 0.0

    MOST.set(hours * 3600)
    for step in STEPS:
        STEP_MOST.labels(step).set(steps.get(step, 0) * 3600)
    if directory is not None:
        NEWEST.set_function(read)
        for step in STEPS:
            STEP.labels(step).set_function(partial(_touched, directory / step))


def _touched(mark: Path) -> float:
    try:
        return mark.stat().st_mtime
    except OSError:
        return 0.0


def steps_of(directory: Path) -> dict[str, datetime.datetime]:
    """When the controller did each step, as far as this host was told."""
    moments = {step: _touched(directory / step) for step in STEPS}
    return {step: datetime.datetime.fromtimestamp(moment, datetime.UTC) for step, moment in moments.items() if moment}


def warnings(name: str, directory: Path | None, hours: float, now: datetime.datetime) -> list[str]:
    """A warning about the backups of the host `name`, whose timer makes them if `hours` is not 0; or none."""
    if directory is None or not hours:
        return []
    moment = newest(directory)
    if moment is None:
        return [f"judicator '{name}' has no backup in {directory} yet, and its timer is on; run playbooks/backup.yml"]
    age = (now - moment).total_seconds() / 3600
    if age <= hours:
        return []
    sentence = f"the newest backup of judicator '{name}' is {age:.0f} hours old, and more than {hours:g} is too old"
    return [f"{sentence}; journalctl -u judge-backup says why"]
