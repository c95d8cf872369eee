"""A package's own submissions judged on the cluster and compared with what the package says of them."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from judge.common.errors import EXIT_FAILED, EXIT_LEFT_OUT, UsageError
from judge.common.text import decimal, several
from judge.ctl import show
from judge.ctl.api import Api
from judge.ctl.problem import exporting, importing, inferring
from judge.ctl.problem.rows import SubmissionRow, table_of
from judge.ctl.problem.trial import Present, Trial, memory_warnings, present
from judge.languages.table import load_table
from judge.model import messages as m
from judge.model.problem import ProblemInfo, Verification, VerifiedRow
from judge.problems import timing
from judge.problems.expectations import LOWER, UPPER, candidates
from judge.problems.folders import folder_of
from judge.problems.importers.draft import ImporterWords
from judge.problems.package import Package
from judge.problems.reading.formats import Dialect

Priority = Literal["high", "normal", "low"]
# Rows and sentences that the cluster keeps of a verification.
_MOST_ROWS = 1000


@dataclass
class VerifyOutcome:
    """The outcome of a verification; `warnings` do not make it fail, `faults` beside the rows' do.

    `left_out`: what no executor could take, by path, with the reason; `skipped` cannot be judged anywhere.
    """

    name: str
    rows: list[SubmissionRow] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    languages: dict[str, str] = field(default_factory=dict)

    @property
    def right(self) -> bool:
        return not self.faults and not any(row.wrong for row in self.rows)

    @property
    def exit_code(self) -> int:
        if not self.right:
            return EXIT_FAILED
        return EXIT_LEFT_OUT if self.left_out else 0

    def as_json(self) -> list[dict[str, Any]]:
        """The rows for programs, those that were left out last."""
        unjudged: dict[str, Any] = {"verdict": None, "right": None, "wrong": ""}
        missing = [
            {"submission": path, "language": self.languages.get(path, ""), **unjudged, "left_out": why}
            for path, why in sorted(self.left_out.items())
        ]
        return [*(row.as_json() for row in self.rows), *missing]


@dataclass(frozen=True)
class VerifyOptions:
    """The options of a verification. `name`: import the package under it, too; `infer`: set the time limit anew."""

    name: str | None = None
    priority: Priority = "low"
    infer: bool = False
    check: bool = True
    time_limit: float | None = None
    dialect: Dialect = ""
    options: ImporterWords | None = None
    quiet: bool = False

    def check_for_problem(self) -> None:
        """UsageError for an option that says how a package is read, which a problem of the cluster has been already."""
        importer = self.options or ImporterWords()
        values = (self.name, self.dialect or None, importer.format, importer.memory)
        for option, value in zip(("--as", "--dialect", "--from", "--memory"), values, strict=True):
            if value is not None:
                raise UsageError(
                    f"{option}: is for packages that are imported; leave it out for a problem of the cluster"
                )


def verify(api: Api, target: str, options: VerifyOptions) -> VerifyOutcome:
    """Judge a package's own submissions, every test of them, and compare with what the package says.

    `target` is a directory or archive, which is judged without being registered (unless `options.name` says as what),
    or the name of a problem, which is judged at its present content. A limit inferred anew becomes the problem's.
    """
    path = Path(target)
    if path.exists():
        reading = importing.Reading(options.name, options.time_limit, options.dialect, options.options)
        with reading.whole(api, path, quiet=options.quiet) as package:
            return _verify_trial(api, package, options, check=options.check, register=options.name is not None)
    options.check_for_problem()
    with tempfile.TemporaryDirectory(prefix="judge-verify-") as directory:
        folder = Path(directory) / "package"
        info = exporting.find(api, target)
        exporting.export(api, target, folder)
        manifest = exporting.manifest_of(api, info)
        # As it was read at import: what somebody said of its dialect cannot be detected in its files.
        with importing.Reading(target, dialect=manifest.dialect).read(folder) as package:
            package.manifest, package.infer = manifest, False
            if options.time_limit is not None:
                package.manifest = inferring.by_hand(package.manifest, options.time_limit)
            if options.time_limit is not None or options.infer:  # the new limit is the problem's own from then on
                return _verify_trial(api, package, options, check=False, register=True)
            verified = _verify(api, package, options)
            _keep(api, verified, info)
            return verified


def _verify_trial(api: Api, package: Package, options: VerifyOptions, *, check: bool, register: bool) -> VerifyOutcome:
    """Upload a package as an import would, verify it, and let its name stand for it if it is to be registered."""
    trial = importing.try_out(api, package, check=check, infer=options.infer, quiet=options.quiet)
    verified = _verify(api, package, options)
    verified.warnings[:0] = [warning for warning in trial.warnings if warning not in verified.warnings]
    verified.left_out = {**trial.left_out, **verified.left_out}
    verified.notes += trial.notes
    if origin := inferring.origin_words(trial.manifest):
        verified.notes.append(f"time limit {decimal(trial.manifest.limits.cpu)} s, {origin}")
    if register:
        _keep(api, verified, importing.register(api, package.manifest, labels=package.yaml.labels))
    return verified


def _keep(api: Api, verified: VerifyOutcome, info: ProblemInfo) -> None:
    """Have the cluster keep what came of it, for the problem's page; a problem that has changed meanwhile has none."""
    body = Verification(
        problem=info.name,
        hash=info.hash,
        rows=[_stored_row(row) for row in verified.rows[:_MOST_ROWS]],
        left_out=[f"{path}: {why}"[:300] for path, why in sorted(verified.left_out.items())][:_MOST_ROWS],
        warnings=[line[:1000] for line in verified.warnings[:_MOST_ROWS]],
        faults=[line[:1000] for line in verified.faults[:_MOST_ROWS]],
    )
    with contextlib.suppress(UsageError):
        api.call(m.Empty, "POST", f"/problems/{info.name}/verification", body=body)


def _stored_row(row: SubmissionRow) -> VerifiedRow:
    result, candidate = row.task.result or m.Result(), row.example.candidate
    return VerifiedRow(
        submission=candidate.path[:300],
        language=candidate.language[:64],
        verdict=row.task.verdict,
        score=result.score,
        expected=candidate.description[:300],
        wrong=row.wrong[:1000],
        cpu=result.cpu,
        limit=row.limit,
        margin=row.margin,
        task=row.task.id,
    )


def _verify(api: Api, package: Package, options: VerifyOptions) -> VerifyOutcome:
    """Judge at the manifest as it is; its blobs are uploaded."""
    all_candidates, available = candidates(package, load_table()), present(api)
    verified = VerifyOutcome(
        package.manifest.name, languages={candidate.path: candidate.language for candidate in all_candidates}
    )
    verified.warnings += memory_warnings(package.manifest, available)
    verified.skipped = [f"{candidate.path}: {candidate.skipped}" for candidate in all_candidates if candidate.skipped]
    runnable = [candidate for candidate in all_candidates if not candidate.skipped]
    with Trial.of(api, package.manifest, options.priority, "verification") as trial:
        rows = inferring.hand_in(package, trial, runnable, available)
        verified.rows = trial.follow(rows, table_of, quiet=options.quiet)
        verified.left_out |= trial.left_out
    verified.faults += [f"{path}: {why}" for path, why in trial.refused.items()]
    judged = {folder_of(row.example.candidate.path) for row in verified.rows}
    if "accepted" not in judged | {folder_of(path) for path in verified.left_out}:
        verified.faults.append("the package has no accepted submission that can be judged here")
    margins = timing.margins(package.yaml)
    _measure_slow(api, package, verified, available, quiet=options.quiet)
    _check_margins(verified, margins)
    return verified


def _measure_slow(api: Api, package: Package, verified: VerifyOutcome, available: Present, *, quiet: bool) -> None:
    """Measure how far beyond the limit those are that must be too slow, and were: judge them under a raised limit."""
    slow = {
        row.label: row
        for row in verified.rows
        if row.example.candidate.bound == UPPER and row.task.verdict is not None and row.too_slow
    }
    if not slow:
        return
    slow_candidates = [row.example.candidate for row in slow.values()]
    rows, missing = inferring.over_limit(api, package, package.manifest, slow_candidates, available, quiet=quiet)
    verified.left_out |= {path: f"beyond the limit: {why}" for path, why in missing.items()}
    for row in rows:
        slow_row = slow[row.label]
        slow_row.beyond, slow_row.raised = row.beyond, row.raised
        verified.warnings += inferring.slow_warnings(slow_row, timing.margins(package.yaml))


def _check_margins(verified: VerifyOutcome, margins: timing.Margins) -> None:
    """The format's safety margin: accepted submissions must stay well below the limit. Warned of, as hosts differ."""
    for row in verified.rows:
        candidate = row.example.candidate
        if candidate.bound == LOWER and row.margin is not None and row.margin < margins.to_limit:
            verified.warnings.append(
                f"{candidate.path}: the time limit is only {row.margin:.2f} times its CPU time; "
                f"the package wants {decimal(margins.to_limit)} ({margins.limit_by})"
            )


def print_verified(verified: VerifyOutcome) -> None:
    show.out.print(table_of(verified.rows))
    for line in verified.notes:
        show.out.say(line, "dim")
    for line in verified.skipped:
        show.out.say(f"skipped {line}", "dim")
    for path, why in sorted(verified.left_out.items()):
        show.out.say(f"left out {path}: {why}", "yellow")
    for line in verified.warnings:
        show.out.say(f"! {line}", "yellow")
    for line in verified.faults:
        show.out.say(f"✗ {line}", "red")
    wrong = sum(bool(row.wrong) for row in verified.rows)
    total = f"{verified.name}: {several(len(verified.rows), 'submission')}, "
    total += "all as expected" if verified.right else f"{wrong} not as expected"
    total += f"; {len(verified.left_out)} left out" if verified.left_out else ""
    style = "bold red" if not verified.right else "bold yellow" if verified.left_out else "bold green"
    show.out.say(total, style)
