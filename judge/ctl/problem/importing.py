"""A package brought into the cluster: uploaded, checked, given a time limit, and only then put in its name's place."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from judge.ctl import statements
from judge.ctl.api import Api
from judge.ctl.problem import checking, inferring, making, uploading
from judge.ctl.problem.trial import memory_warnings, present
from judge.ctl.problem.uploading import UploadOutcome
from judge.model.labels import Labels
from judge.model.problem import ProblemImport, ProblemInfo, ProblemManifest
from judge.problems import expectations
from judge.problems.importers.draft import ImporterWords
from judge.problems.importers.making import UnmadeError
from judge.problems.package import Package, manifest_bytes, read_package
from judge.problems.reading.formats import Dialect


@dataclass
class TrialOutcome:
    """A package that is uploaded and ready to be registered: its manifest, and what is to be said of it.

    `left_out`: submissions and checks that no executor could take, or that do not count, with the reason; `lacking`:
    some of them for want of an executor.
    """

    manifest: ProblemManifest
    uploaded: UploadOutcome
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    lacking: bool = False

    def as_json(self, info: ProblemInfo) -> dict[str, Any]:
        return {
            **as_json(info, self.manifest),
            "notes": self.notes,
            "warnings": self.warnings,
            "left_out": self.left_out,
            "uploaded": self.uploaded.as_json(),
        }


def as_json(info: ProblemInfo, manifest: ProblemManifest) -> dict[str, Any]:
    origin = manifest.limit_origin
    return {**info.model_dump(mode="json"), "limit_origin": origin.model_dump(mode="json") if origin else None}


@dataclass(frozen=True)
class Reading:
    """The options with which a package is read; see `read_package`."""

    name: str | None = None
    time_limit: float | None = None
    dialect: Dialect = ""
    options: ImporterWords | None = None

    def read(self, path: Path) -> Package:
        """A package with its submissions.yaml checked as well; errors as `read_package`."""
        package = read_package(
            path, name=self.name, time_limit=self.time_limit, dialect=self.dialect, options=self.options
        )
        expectations.read_rules(package)
        return package

    def look(self, path: Path) -> Package | None:
        """The package, or None where its tests are still to be made; errors as `read`."""
        try:
            return self.read(path)
        except UnmadeError as unmade:
            unmade.plan.close()
            return None

    @contextlib.contextmanager
    def whole(self, api: Api, path: Path, complete: Package | None = None, *, quiet: bool = True) -> Iterator[Package]:
        """The package, with its tests made on the cluster where they are still to be made; it is closed at the end.

        `complete`: the result of `look`.
        """
        with contextlib.ExitStack() as stack:
            try:
                package = complete or self.read(path)
            except UnmadeError as unmade:
                files = stack.enter_context(making.made_files(api, unmade.plan, quiet=quiet))
                package = replace(self, options=replace(self.options or ImporterWords(), products=files)).read(path)
            yield stack.enter_context(package)


def try_out(
    api: Api, package: Package, *, check: bool = True, infer: bool = False, page: bool = False, quiet: bool = True
) -> TrialOutcome:
    """Upload a package, check its tests, and infer its limit when it has none (or `infer` says so); register nothing.

    `page`: make its statements in LaTeX HTML as well. UsageError when its own validators refuse a test, PackageError
    when no limit can be inferred.
    """
    available = present(api)
    notes = statements.convert(api, package) if page and available.any else []
    uploaded = uploading.upload(api, package, [manifest_bytes(package.manifest)], quiet=quiet)
    warnings = memory_warnings(package.manifest, available)
    outcome = TrialOutcome(package.manifest, uploaded, [*package.notes, *notes], warnings)
    if check and checking.programs(package.manifest):
        checks = checking.check(api, package.manifest, available, quiet=quiet)
        checking.refuse(package.manifest.name, checks)
        outcome.warnings += checks.warnings
        outcome.left_out |= checks.left_out
        outcome.lacking |= bool(checks.left_out)
        outcome.notes += [*checks.notes, *filter(None, [checks.words])]
    if infer or package.infer:
        inferred = inferring.infer(api, package, available, quiet=quiet)
        package.manifest, package.infer = inferred.manifest, False
        outcome.manifest = inferred.manifest
        outcome.warnings += inferred.warnings
        outcome.left_out |= inferred.left_out
        outcome.lacking |= inferred.incomplete
    return outcome


def register(
    api: Api, manifest: ProblemManifest, *, visible: bool | None = None, labels: Labels | None = None
) -> ProblemInfo:
    """Make a manifest whose blobs are uploaded what its name stands for, at once or not at all."""
    body = ProblemImport(manifest=api.put_content(manifest_bytes(manifest)), visible=visible, labels=labels)
    return api.call(ProblemInfo, "POST", "/problems", body=body)


def import_package(api: Api, package: Package) -> ProblemInfo:
    """Bring a package into the cluster; errors as `try_out`. Nothing is registered on a failure."""
    return register(api, try_out(api, package, check=False, quiet=True).manifest, labels=package.yaml.labels)
