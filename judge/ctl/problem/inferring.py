"""A time limit inferred on the cluster: the package's submissions are judged, `judge.problems.timing` does the sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from judge.common.errors import PackageError, UsageError
from judge.common.text import decimal
from judge.ctl.api import Api
from judge.ctl.problem.rows import SubmissionRow, table_of
from judge.ctl.problem.trial import Present, Trial
from judge.languages.table import load_table
from judge.model import messages as m
from judge.model.problem import LimitOrigin, ProblemManifest
from judge.problems import timing
from judge.problems.examples import example_of
from judge.problems.expectations import LOWER, UPPER, Candidate, candidates
from judge.problems.package import Package


@dataclass
class InferOutcome:
    """The manifest with its limit and where that comes from, and what is to be said.

    `left_out`: those that do not count, with the reason; `incomplete`: some of them for want of an executor.
    """

    manifest: ProblemManifest
    warnings: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    incomplete: bool = False


def origin_words(manifest: ProblemManifest) -> str:
    """The origin of a problem's time limit, in one line; empty when nobody said."""
    origin = manifest.limit_origin
    if origin is None:
        return ""
    if origin.how != "inferred":
        return {"package": "the package says so", "hand": "set by hand"}[origin.how]
    return (
        f"inferred: {decimal(origin.multiplier)} times the {origin.slowest_cpu:.3f} s of {origin.slowest}, "
        f"rounded up to a multiple of {decimal(origin.resolution)} s"
    )


def with_limit(manifest: ProblemManifest, cpu: float, origin: LimitOrigin | None = None) -> ProblemManifest:
    """The manifest with another CPU limit (seconds), the highest there is at most."""
    limits = manifest.limits.model_copy(update={"cpu": min(cpu, timing.MOST)})
    return manifest.model_copy(update={"limits": limits, "limit_origin": origin or manifest.limit_origin})


def by_hand(manifest: ProblemManifest, seconds: float) -> ProblemManifest:
    return with_limit(manifest, seconds, LimitOrigin(how="hand"))


def infer(api: Api, package: Package, available: Present, *, quiet: bool) -> InferOutcome:
    """Judge the submissions that bound the limit from below, set it, and check those that must be too slow.

    The package's blobs are uploaded. PackageError when there is nothing to infer from, or no limit fits; nothing is
    registered. What is under way is cancelled when it ends early.
    """
    if not package.manifest.traits.has_program:  # nothing of what is handed in runs
        return InferOutcome(with_limit(package.manifest, 1.0))
    runnable = [candidate for candidate in candidates(package, load_table()) if not candidate.skipped]
    name, margins = package.manifest.name, timing.margins(package.yaml)
    lower = [candidate for candidate in runnable if candidate.bound == LOWER]
    if not lower:
        msg = f"{name}: has no time limit, and no accepted submission to infer one from; give it with --time-limit"
        raise PackageError(msg)
    inferred = InferOutcome(package.manifest)
    with Trial.of(api, with_limit(package.manifest, timing.PROVISIONAL)) as trial:
        rows = trial.follow(hand_in(package, trial, lower, available), table_of, quiet=quiet)
        inferred.left_out |= trial.left_out
        inferred.incomplete = bool(trial.left_out)
    for path, why in trial.refused.items():
        inferred.warnings.append(f"{path}: does not count for the time limit: {why}")
        inferred.left_out[path] = why
    times = _times(rows, inferred)
    if not times:
        why = "; ".join(f"{path}: {reason}" for path, reason in [*inferred.left_out.items()][:3])
        raise PackageError(f"{name}: has no time limit, and none can be inferred ({why}); give it with --time-limit")
    slowest, cpu = timing.slowest(times)
    limit = margins.limit(cpu)
    if limit > timing.MOST:
        raise PackageError(
            f"{name}: {slowest} used {cpu:.1f} s, so the limit would be {decimal(limit)} s; "
            f"{decimal(timing.MOST)} s is the most"
        )
    origin = LimitOrigin(
        how="inferred",
        slowest=slowest,
        slowest_cpu=round(cpu, 6),
        multiplier=margins.to_limit,
        resolution=margins.resolution,
    )
    inferred.manifest = with_limit(package.manifest, limit, origin)
    slow_candidates = [candidate for candidate in runnable if candidate.bound == UPPER]
    if slow_candidates:
        rows, missing = over_limit(api, package, inferred.manifest, slow_candidates, available, quiet=quiet)
        inferred.left_out |= missing
        inferred.incomplete |= bool(missing)
        origin.too_slow = {row.label: round((row.task.result or m.Result()).cpu, 6) for row in rows}
        inferred.warnings += [warning for row in rows for warning in slow_warnings(row, margins)]
    origin.left_out = sorted(inferred.left_out)
    return inferred


def hand_in(
    package: Package, trial: Trial, judged_candidates: Sequence[Candidate], available: Present, mode: str = "full"
) -> list[SubmissionRow]:
    """Rows of the submissions that some executor takes; the trial knows which were left out and which refused."""
    table, rows = load_table(), []
    for candidate in judged_candidates:
        if not available.takes(candidate.language):
            trial.left_out[candidate.path] = available.why(candidate.language)
            continue
        limit = package.manifest.limits.cpu
        if candidate.language:  # an example without one may consist of outputs
            limit = table[candidate.language].limits(package.manifest.limits).cpu
        try:
            example = example_of(package, candidate)
            rows.append(SubmissionRow(example, trial.hand_in(example.submission, mode=mode), limit))
        except UsageError as exc:
            trial.refused[candidate.path] = str(exc)
    return rows


def _times(rows: Sequence[SubmissionRow], inferred: InferOutcome) -> dict[str, float]:
    """CPU seconds, as the problem's own limit counts them, of those that did what is expected; warns of others."""
    table, times = load_table(), {}
    for row in rows:
        candidate, result = row.example.candidate, row.task.result or m.Result()
        if row.too_slow:
            fault = f"{candidate.path}: needs more than {decimal(timing.PROVISIONAL)} s on a test"
            raise PackageError(f"{inferred.manifest.name}: {fault}; give the limit with --time-limit")
        if row.wrong:
            inferred.warnings.append(f"{candidate.path}: does not count for the time limit: {row.wrong}")
            inferred.left_out[candidate.path] = row.wrong
            continue
        times[candidate.path] = candidate.slowest(result) / table[candidate.language].cpu_multiplier
    return times


def over_limit(
    api: Api,
    package: Package,
    manifest: ProblemManifest,
    slow_candidates: Sequence[Candidate],
    available: Present,
    *,
    quiet: bool,
) -> tuple[list[SubmissionRow], dict[str, str]]:
    """Judge submissions under the limit times `to_slow`, each up to the test that decides; rows, and what was left out.

    A row's task is its `beyond`, too.
    """
    raised = timing.margins(package.yaml).slow(manifest.limits.cpu)
    table = load_table()
    with Trial.of(api, with_limit(manifest, raised)) as trial:
        rows = hand_in(package, trial, slow_candidates, available, mode="lazy")
        for row in rows:
            language = table[row.example.candidate.language]
            row.limit = language.limits(manifest.limits).cpu
            row.raised = language.limits(with_limit(manifest, raised).limits).cpu
        rows = trial.follow(rows, table_of, quiet=quiet)
        for row in rows:
            row.beyond = row.task
        return rows, trial.left_out


def slow_warnings(row: SubmissionRow, margins: timing.Margins) -> list[str]:
    """The warning that a too slow submission is not slow enough; none when it is, or another verdict ended it."""
    if row.beyond is None or row.excess is None or row.beyond.verdict is m.Verdict.TLE:
        return []
    seconds = row.excess * row.limit
    comparison = "within the time limit" if seconds <= row.limit else f"only {row.excess:.2f} times the time limit"
    demand = f"the package wants more than {decimal(margins.to_slow)} times it ({margins.slow_by})"
    return [f"{row.label}: takes {seconds:.2f} s at most, {comparison}; {demand}"]
