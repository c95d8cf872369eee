"""Whether this machine can run a lab: what every test on lab hosts asks first."""

from __future__ import annotations

from lab import cgroups, shell
from lab.errors import LabError


def cannot_run_lab() -> str | None:
    """One sentence that says what this machine lacks for a lab and what to do about it, or None when it can run one."""
    try:
        shell.prepare()
        cgroups.hierarchies()
    except LabError as exc:
        return f"no lab here: {exc}"
    return None
