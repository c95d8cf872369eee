"""bubblewrap, cgroups, seccomp and rlimits behind one call (docs/sandbox.md)."""

from judge.sandbox.box import Sandbox
from judge.sandbox.check import CheckedItem, CheckLevel, available, check_machine
from judge.sandbox.pool import SandboxPool
from judge.sandbox.types import Command, Killed, RunOutcome

__all__ = [
    "CheckLevel",
    "CheckedItem",
    "Command",
    "Killed",
    "RunOutcome",
    "Sandbox",
    "SandboxPool",
    "available",
    "check_machine",
]
