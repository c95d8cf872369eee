"""The memory that a slot gives: limits that fit into its share, so that all slots together never want too much.

A limit that nobody asked for shrinks to what there is; one that was asked for is kept or the task given back, since
another executor may have it. Pure; called by the pipeline and by slots that help.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from judge.common.errors import UnfitError, UsageError
from judge.common.text import size
from judge.executor.channel import Job, limits_of
from judge.executor.slot.builds import compile_limits
from judge.languages.table import MIB, Language
from judge.model.messages import Limits
from judge.model.problem import VALIDATION, IoiTask
from judge.problems.memory import LEAST, OUTPUT

# Bytes that what was built for one job may take in /box beside the share, in all its sandboxes together, and at most in
# one sandbox.
BUILT = 64 * MIB
BUILT_MOST = 256 * MIB


@dataclass(frozen=True)
class JobLimits:
    """The limits of everything that is run for one job, before languages add to them (`Language.limits`)."""

    run: Limits
    compile: Limits
    validation: Limits


@dataclass(frozen=True)
class _MemoryDemand:
    """The memory that a kind of run wants. `explicit`: a person asked for it; `extra`: the language needs it beside."""

    who: str
    limits: Limits
    explicit: bool
    extra: int = 0

    def least(self, most: int) -> int:
        """The bytes to leave for this demand: at most `most` if the package does not ask for them."""
        return self.extra + (self.limits.memory if self.explicit else min(self.limits.memory, most))

    def within(self, share: int, beside: str = "", used: int = 0) -> Limits:
        """The limits in what a share leaves when `used` bytes of it are for `beside`."""
        room = share - used - self.extra
        if self.limits.memory <= room:
            return self.limits
        if self.explicit or room < LEAST:
            needs = size(self.extra + (self.limits.memory if self.explicit else LEAST))
            text = f", beside {size(used)} for {beside}" if used else ""
            raise UsageError(f"{self.who} needs {needs} of memory{text}; a slot of this executor has {size(share)}")
        return self.limits.model_copy(update={"memory": room})


def job_limits(job: Job, share: int | None, table: Mapping[str, Language]) -> JobLimits:
    """The limits as a slot can keep them that has `share` bytes of memory; None: as many as it likes.

    An interactive problem's validator runs beside the submission: together they fit. UsageError, which says who needs
    how much, when that is not to be had.
    """
    run, compiling, validation = _demands(job, table)
    submission = job.assignment.submission
    if share is None:
        return JobLimits(run.limits, compiling.limits, validation.limits)
    manifest = job.data.manifest if job.data is not None else None
    if manifest is not None and manifest.task is not None and manifest.task.kind != "batch":
        return _several(run, compiling, validation, share, manifest.task)
    if manifest is None or not manifest.traits.interactive:
        has_validator = manifest is not None and bool(manifest.programs(submission.check))
        validator_limits = validation.within(share) if has_validator else validation.limits
        return JobLimits(run.within(share), compiling.within(share), validator_limits)
    # The validator may have a quarter of the slot. It gets less where the submission's own need leaves less.
    remaining = share - run.least(LEAST) - validation.extra
    run_limits = run.within(share, validation.who, validation.least(max(LEAST, min(share // 4, remaining))))
    validator_limits = validation.within(share, run.who, run_limits.memory + run.extra)
    return JobLimits(run_limits, compiling.within(share), validator_limits)


def beside_builds(
    limits: JobLimits, job: Job, share: int | None, table: Mapping[str, Language], size_built: int
) -> JobLimits:
    """The same limits where `size_built` bytes in each /box of the submission take their part of the share.

    UnfitError when that is too much.
    """
    if size_built > BUILT_MOST:
        raise UnfitError(f"the compiler left {size(size_built)} in /box, the limit is {size(BUILT_MOST)}")
    task = job.data.manifest.task if job.data is not None else None
    size_built *= task.processes if task is not None and task.kind != "batch" else 1
    if share is None or size_built <= BUILT:
        return limits
    try:
        return job_limits(job, share - (size_built - BUILT), table)
    except UsageError as exc:
        raise UnfitError(
            f"the compiler left {size(size_built)} in /box, which count for the slot's memory: {exc}"
        ) from exc


def _several(
    run: _MemoryDemand, compiling: _MemoryDemand, validation: _MemoryDemand, share: int, task: IoiTask
) -> JobLimits:
    """The limits of processes that run side by side, each with as much, and of their manager, if they have one."""
    count = task.processes
    reserved = 0
    if task.manager is not None:
        remaining = share - count * run.least(LEAST) - validation.extra
        reserved = validation.least(max(LEAST, min(share // 4, remaining)))
    process_demand = replace(run, who=f"each of {count} processes of the submission, which share a slot,")
    run_limits = process_demand.within((share - reserved) // count)
    validator_limits = validation.limits
    if task.manager is not None:
        validator_limits = validation.within(share, run.who, count * (run_limits.memory + run.extra))
    return JobLimits(run_limits, compiling.within(share), validator_limits)


def _demands(job: Job, table: Mapping[str, Language]) -> tuple[_MemoryDemand, _MemoryDemand, _MemoryDemand]:
    """The demands of the submission's runs, of compilers, and of the problem's validator."""
    submission, limits = job.assignment.submission, limits_of(job)
    # The slot keeps both outputs of a run, in memory that is not the run's; those of the default size have room.
    extra = _extra(submission.language, table) + max(0, 2 * (limits.output - OUTPUT))
    if job.data is None:
        run = _MemoryDemand("the submission", limits, submission.limits.memory is not None, extra)
        return (
            run,
            _MemoryDemand("compiling", compile_limits(), explicit=False),
            _MemoryDemand("", VALIDATION, explicit=False),
        )
    manifest = job.data.manifest
    compiling_limits = compile_limits(manifest.compile_seconds, manifest.compile_memory)
    extras = [_extra(program.language, table) for program in manifest.programs(submission.check)]
    return (
        _MemoryDemand("the problem", limits, not manifest.memory_is_default, extra),
        _MemoryDemand("compiling for the problem", compiling_limits, manifest.compile_memory is not None),
        _MemoryDemand(
            "the problem's validator",
            manifest.validation,
            not manifest.validation_memory_is_default,
            max(extras, default=0),
        ),
    )


def _extra(language: str | None, table: Mapping[str, Language]) -> int:
    """The bytes that a language's runtime needs beside the limit."""
    row = table.get(language or "")
    return row.memory_extra * MIB if row is not None else 0
