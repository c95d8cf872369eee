"""The memory that a slot must have to judge a problem. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from judge.languages.table import MIB, Language
from judge.model.messages import Limits
from judge.model.problem import ProblemManifest

# No program gets less memory than this.
LEAST = 16 * MIB
# A slot keeps both outputs of a run. Outputs of the default size have room beside the slot's memory.
OUTPUT = Limits().output


def required_memory(manifest: ProblemManifest, table: Mapping[str, Language]) -> int:
    """The bytes that a slot must have to judge submissions to a problem.

    Limits that the package does not set may shrink to LEAST. What the runtime of a submission's language needs beside
    the limit is left out.
    """
    outputs = 2 * max(0, manifest.limits.output - OUTPUT)
    run = _least(manifest.limits.memory, may_shrink=manifest.memory_is_default) + outputs
    programs = manifest.programs()
    rows = [table.get(program.language or "") for program in programs]
    runtimes = [row.memory_extra * MIB for row in rows if row is not None]
    check = _least(manifest.validation.memory, may_shrink=manifest.validation_memory_is_default)
    check += max(runtimes, default=0)
    task = manifest.task
    if task is not None and task.kind != "batch":
        judging = task.processes * run + (check if task.manager is not None else 0)
    elif manifest.traits.interactive:
        judging = run + check
    else:
        judging = max(run, check if programs else 0)
    return max(judging, manifest.compile_memory or 0)


def _least(limit: int, *, may_shrink: bool) -> int:
    return min(limit, LEAST) if may_shrink else limit
