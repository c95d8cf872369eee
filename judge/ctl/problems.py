"""`judgectl problem`: import, export and verify packages; what commands do, without the command line."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from pydantic import ValidationError
from rich.table import Table
from rich.text import Text

from judge.ctl import examples, show, submit
from judge.ctl.api import Api
from judge.errors import ConflictError, NotFoundError, PackageError, UnavailableError, UsageError
from judge.languages.table import load_table
from judge.model import messages as m
from judge.model.problem import FileIndex, ProblemInfo, ProblemManifest, ProblemsReply
from judge.problems import expectations
from judge.problems.examples import example_of
from judge.problems.package import Package, read_package

# A ZIP archive's oldest date: archives of the same package are the same bytes.
_DATE = (1980, 1, 1, 0, 0, 0)


def read_checked(path: Path, name: str | None = None) -> Package:
    """A package with its submissions.yaml checked as well; PackageError."""
    package = read_package(path, name=name)
    expectations.read_rules(package)
    return package


def find(api: Api, name: str) -> ProblemInfo:
    """One problem of the cluster; NotFoundError."""
    for one in api.call(ProblemsReply, "GET", "/problems").problems:
        if one.name == name:
            return one
    raise NotFoundError(f"problem '{name}' does not exist; see 'judgectl problem list'")


def manifest_of(api: Api, info: ProblemInfo) -> ProblemManifest:
    """The manifest that a problem is judged by."""
    try:
        return ProblemManifest.model_validate_json(api.get_content(info.hash))
    except ValidationError:
        msg = f"problem '{info.name}' has a manifest that this judgectl does not understand; use one of its version"
        raise UnavailableError(msg) from None


def _files(api: Api, name: str) -> dict[str, str]:
    """All files of a problem's package: path to blob."""
    manifest = manifest_of(api, find(api, name))
    if manifest.package is None:
        raise NotFoundError(f"problem '{name}' was imported without its files; import its package again to keep them")
    files = FileIndex.model_validate_json(api.get_content(manifest.package)).files
    for path in files:
        parts = PurePosixPath(path).parts
        if path.startswith("/") or "\\" in path or ".." in parts or not parts:
            raise PackageError(
                f"problem '{name}': its file '{path[:80]}' would be written elsewhere; nothing is written"
            )
    return files


def export(api: Api, name: str, target: Path) -> int:
    """Write a problem's package, as it was imported, to a new directory or (by its suffix) a ZIP archive.

    Returns the number of files. ConflictError when the target exists, NotFoundError when there is nothing to write.
    """
    if target.exists():
        raise ConflictError(f"{target}: exists already; name a new directory or archive")
    files = _files(api, name)
    try:
        if target.suffix.lower() in {".zip", ".kpp"}:
            with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
                for path in sorted(files):
                    with tempfile.TemporaryFile() as file:
                        api.get_blob(files[path], file)
                        entry = zipfile.ZipInfo(f"{name}/{path}", _DATE)
                        entry.compress_type = zipfile.ZIP_DEFLATED
                        entry.external_attr = (0o100755 if _executable(path, file) else 0o100644) << 16
                        with archive.open(entry, "w") as packed:
                            shutil.copyfileobj(file, packed)
        else:
            _write_folder(api, files, target)
    except OSError as exc:
        raise UsageError(f"{exc.filename or target}: cannot be written: {exc.strerror}") from None
    return len(files)


def _write_folder(api: Api, files: dict[str, str], target: Path) -> None:
    for path in sorted(files):
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("w+b") as file:
            api.get_blob(files[path], file)
            if _executable(path, file):
                place.chmod(0o755)


def _executable(path: str, file: IO[bytes]) -> bool:
    """Packages do not say what may be executed: scripts may. The file is at its beginning, before and after."""
    start = file.read(2)
    file.seek(0)
    return start == b"#!" or PurePosixPath(path).name in {"build", "run"}


@dataclass
class Row(examples.ExampleRow):
    """One submission of a package and its task; `limit` is the CPU limit in its language, in seconds."""

    limit: float

    @property
    def margin(self) -> float | None:
        """How many times its CPU time the limit is; None when it did not run or ran into the limit."""
        result = self.task.result
        if result is None or not result.cpu or any(test.verdict is m.Verdict.TLE for test in result.tests):
            return None
        return self.limit / result.cpu

    def as_json(self) -> dict[str, Any]:
        """The row for programs."""
        result = self.task.result or m.Result()
        return {
            "id": self.task.id,
            "submission": self.example.candidate.path,
            "language": self.example.candidate.language,
            "verdict": self.task.verdict,
            "score": result.score,
            "expected": self.example.candidate.says,
            "right": self.right,
            "wrong": self.wrong,
            "cpu": result.cpu,
            "limit": self.limit,
            "margin": self.margin,
        }


@dataclass
class Verified:
    """The outcome of a verification; `warnings` do not make it fail, `faults` beside the rows' do."""

    name: str
    rows: list[Row]
    skipped: list[str]
    warnings: list[str]
    faults: list[str]

    @property
    def right(self) -> bool:
        """Whether everything is as the package says."""
        return not self.faults and not any(row.wrong for row in self.rows)


def verify(api: Api, target: str, *, name: str | None, priority: str, quiet: bool) -> Verified:
    """Judge a package's own submissions on the cluster, every test of them, and compare with what the package says.

    `target` is a directory or archive, which is imported first (as `name` when given), or the name of a problem.
    """
    path = Path(target)
    if path.exists():
        with read_checked(path, name) as package:
            examples.import_package(api, package)
            return _verify(api, package, priority=priority, quiet=quiet)
    with tempfile.TemporaryDirectory(prefix="judge-verify-") as directory:
        folder = Path(directory) / "package"
        export(api, target, folder)
        if name is not None:
            raise UsageError("--as: is for packages that are imported; leave it out for a problem of the cluster")
        with read_checked(folder, target) as package:
            return _verify(api, package, priority=priority, quiet=quiet)


def _verify(api: Api, package: Package, *, priority: str, quiet: bool) -> Verified:
    table = load_table()
    found = expectations.candidates(package, table)
    rows = []
    for one in (example_of(package, candidate) for candidate in found if not candidate.skipped):
        handed = m.Submission.model_validate(one.submission.model_dump() | {"priority": priority})
        limit = table[one.candidate.language].limits(package.manifest.limits).cpu
        rows.append(Row(one, api.submit(submit.keyed(handed)), limit))
    examples.judge_rows(api, rows, table_of, quiet=quiet)
    skipped = [f"{one.path}: {one.skipped}" for one in found if one.skipped]
    verified = Verified(package.manifest.name, rows, skipped, [], [])
    if not any(row.example.candidate.path.startswith("accepted/") for row in rows):
        verified.faults.append("the package has no accepted submission that can be judged here")
    _check_margins(package, verified)
    return verified


def _check_margins(package: Package, verified: Verified) -> None:
    """The format's safety margin: accepted submissions must stay well below the limit. Warned of, as hosts differ."""
    wanted = package.yaml.limits.time_multipliers.ac_to_time_limit
    for row in verified.rows:
        if row.example.candidate.path.startswith("accepted/") and row.margin is not None and row.margin < wanted:
            verified.warnings.append(
                f"{row.example.candidate.path}: the time limit is only {row.margin:.2f} times its CPU time; "
                f"the package wants {wanted:g} (time_multipliers.ac_to_time_limit)"
            )


def table_of(rows: Sequence[Row]) -> Table:
    """Submission, language, verdict, score, expected, CPU, margin, and what is wrong."""
    scored = any(row.task.result is not None and row.task.result.score is not None for row in rows)
    score = ["score>"] if scored else []
    grid = show.grid(
        "submission", "language", "verdict", *score, "expected", "", "max cpu>", "limit>", "margin>", "wrong…"
    )
    for row in rows:
        result = row.task.result
        mark = Text("")
        if row.task.done:
            mark = Text("✗", style="bold red") if row.wrong else Text("✓", style="green")
        points = [show.points(result.score) if result else ""] if scored else []
        grid.add_row(
            row.example.candidate.path,
            row.example.candidate.language,
            show.verdict_text(row.task),
            *points,
            row.example.candidate.says,
            mark,
            show.seconds(result.cpu) if result else "",
            f"{row.limit:g} s",
            f"{row.margin:.1f}x" if row.margin is not None else "",
            Text(row.wrong, style="red"),
        )
    return grid


def print_verified(verified: Verified) -> None:
    """The table, and what else there is to say."""
    show.out.print(table_of(verified.rows))
    for line in verified.skipped:
        show.out.say(f"skipped {line}", "dim")
    for line in verified.warnings:
        show.out.say(f"! {line}", "yellow")
    for line in verified.faults:
        show.out.say(f"✗ {line}", "red")
    wrong = sum(bool(row.wrong) for row in verified.rows)
    total = f"{verified.name}: {len(verified.rows)} submissions, "
    show.out.say(
        total + ("all as expected" if verified.right else f"{wrong} not as expected"),
        "bold green" if verified.right else "bold red",
    )


def print_problem(info: ProblemInfo, manifest: ProblemManifest) -> None:
    """Everything that decides how a problem is judged."""
    limits = manifest.limits
    validator = "the default one"
    if manifest.validators:
        validator = "; ".join(
            f"{program.name} ({program.language or 'its own build and run'}, {len(program.files)} files)"
            for program in manifest.validators
        )
    samples = sum(test.sample for test in manifest.tests)
    rows = [
        ("problem", info.name),
        ("title", info.title),
        ("kind", info.kind),
        ("content", info.hash),
        ("imported (UTC)", info.imported[:19].replace("T", " ")),
        ("tests", f"{len(manifest.tests)}, {samples} of them samples"),
        ("limits", f"{limits.cpu:g} s CPU, {limits.wall_seconds:g} s wall, {show.size(limits.memory)} memory"),
        ("", f"{show.size(limits.output)} output, {show.size(manifest.source_bytes)} source"),
        ("validator", validator),
        ("validator's flags", " ".join(manifest.validator_flags)),
        ("passes", str(manifest.passes) if manifest.passes > 1 else ""),
        ("languages", ", ".join(manifest.languages) or "all"),
        ("included files", ", ".join(f"{name}: {len(files)}" for name, files in manifest.include.items())),
    ]  # fmt: skip
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for key, value in rows:
        if value:
            table.add_row(Text(key, style="bold"), Text(value))
    show.out.print(table)
    if manifest.groups:
        groups = show.grid("group", "aggregation", "max score>", "requires")
        for group in manifest.groups:
            most = "unbounded" if group.max_score is None else f"{group.max_score:g}"
            groups.add_row(group.name, group.aggregation, most, ", ".join(group.require_pass))
        show.out.print(groups)
    if manifest.graders:
        graders = show.grid("group", "on reject", "verdict", "score", "range")
        for one in manifest.graders:
            low, high = (
                ("-inf" if one.low is None else f"{one.low:g}"),
                ("inf" if one.high is None else f"{one.high:g}"),
            )
            graders.add_row(one.name or "data", one.on_reject, one.verdict, one.score, f"{low} to {high}")
        show.out.print(graders)
