"""bubblewrap, cgroups, seccomp and rlimits behind one call (docs/sandbox.md)."""

from judge.sandbox.box import Sandbox
from judge.sandbox.check import Finding, Level, available, check_machine
from judge.sandbox.pair import run_pair
from judge.sandbox.pool import SandboxPool
from judge.sandbox.types import Command, Killed, Outcome

__all__ = [
    "Command",
    "Finding",
    "Killed",
    "Level",
    "Outcome",
    "Sandbox",
    "SandboxPool",
    "available",
    "check_machine",
    "run_pair",
]
