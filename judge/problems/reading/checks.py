"""Checks for the author of a package, beside whether it can be judged (`judgectl problem check`).

Nothing here is needed to judge; all of it is what the format asks for, or what tools of other judges warn of.
"""

from __future__ import annotations

import codecs
import contextlib
import difflib
import itertools
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from judge.common.errors import PackageError
from judge.languages import sources
from judge.languages.table import load_table
from judge.problems import expectations, statements
from judge.problems.folders import folder_of
from judge.problems.importers.draft import ImporterWords
from judge.problems.importers.making import Plan, UnmadeError
from judge.problems.metadata import YAML_BYTES, ProblemYaml, SettingsSource
from judge.problems.package import open_reader
from judge.problems.reading import formats, looks
from judge.problems.reading.findings import Findings
from judge.problems.reading.formats import Dialect
from judge.problems.reading.held import Package
from judge.problems.reading.reader import PROBLEM_YAML, Overrides, Reader
from judge.problems.tree import Tree, clean
from judge.problems.validator import validate

LICENSES = ("unknown", "public domain", "cc0", "cc by", "cc by-sa", "educational", "permission")
FOLDERS = frozenset(
    {
        *(
            "attachments",
            "data",
            "generators",
            "graders",
            "include",
            "input_visualizer",
            "output_visualizer",
            "solution",
        ),
        *("statement", "problem_statement", "static_validator", "submissions", "output_validator", "output_validators"),
        *formats.INPUT_VALIDATORS,
        *formats.ANSWER_VALIDATORS,
        "visualizers",
        "manager",  # of judge.yaml
    }
)
_DATA_FOLDERS = {
    "sample": (), "secret": (), "invalid_input": (), "invalid_inputs": (), "invalid_answer": ("ans",),
    "invalid_answers": ("ans",), "invalid_output": ("ans", "out"), "invalid_outputs": ("ans", "out"),
    "valid_output": ("ans", "out"), "valid_outputs": ("ans", "out"),
}  # fmt: skip
_SIMILARITY = 0.75
# Words by which a plan says that generators make tests (judge.problems.importers.making).
_INPUTS = re.compile(r"[0-9]+ inputs? made at import by ")
# Longer outputs of samples are shown to nobody whole.
_SAMPLE_BYTES = 1024**2
# So many of one kind are named one by one.
_EXAMPLES = 5


@dataclass
class Checked:
    """The result of a check. There is a package where it can be judged; the caller closes it.

    `plan`: in place of the package, of one whose tests are still to be made; the caller closes it as well.
    """

    name: str
    findings: Findings
    package: Package | None = None
    plan: Plan | None = None


def check_package(
    path: Path,
    *,
    name: str | None = None,
    time_limit: float | None = None,
    dialect: Dialect = "",
    options: ImporterWords | None = None,
) -> Checked:
    """Everything about the package at `path` that can be said without running anything; nothing is raised for it."""
    with contextlib.ExitStack() as stack:
        content = _Content()
        try:
            reader = open_reader(stack, path, Overrides(name, time_limit, dialect), options, content.look)
        except UnmadeError as unmade:
            # Everything else is looked at with empty files in their place.
            stand_in_options = replace(options or ImporterWords(), products=unmade.plan.stand_ins())
            result = check_package(path, name=name, time_limit=time_limit, dialect=dialect, options=stand_in_options)
            result.findings.note(str(unmade))
            if result.package is not None:
                result.package.close()
            return Checked(result.name, result.findings, plan=unmade.plan)
        except PackageError as exc:
            findings = Findings()
            findings.error(str(exc))
            return Checked(name or path.name, findings)
        package = reader.read()
        for note in reader.notes:
            reader.findings.note(note)
        notes = options.products.notes if options is not None and options.products is not None else ()
        context = _AboutPackage(
            reader, package, content, generated=any(carried and _INPUTS.match(line) for carried, line in notes)
        )
        # Checks of what only describes a package are for those who wrote it in this format.
        left_out = _OF_AUTHORS if reader.notes else ()
        if options is not None and options.products is not None and options.products.stand_ins:
            left_out = (*left_out, _contents)
        for check in [candidate for candidate in _CHECKS if candidate not in left_out]:
            with reader.findings.caught():
                check(context)
        if package is not None and reader.findings.errors:
            package.close()
            package = None
        return Checked(reader.name, reader.findings, package)


@dataclass
class _Content:
    """The unusual things in the bytes of the tests' files, by file."""

    sizes: dict[str, int] = field(default_factory=dict)
    returns: set[str] = field(default_factory=set)
    last: dict[str, int] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    _decoders: dict[str, Any] = field(default_factory=dict)

    def look(self, path: str, chunk: bytes) -> None:
        """One piece of a file, in order; of others than tests nothing is kept."""
        if not path.startswith("data/") or not path.endswith((".in", ".ans")) or not chunk:
            return
        if self.sizes.get(path) is None:
            self._decoders = {path: codecs.getincrementaldecoder("utf-8")()}
        self.sizes[path] = self.sizes.get(path, 0) + len(chunk)
        self.last[path] = chunk[-1]
        if b"\r" in chunk:
            self.returns.add(path)
        try:
            self._decoders[path].decode(chunk)
        except (UnicodeDecodeError, KeyError):
            self.broken.add(path)


@dataclass
class _AboutPackage:
    """All that a check looks at. `generated`: its generators make inputs, at import."""

    reader: Reader
    package: Package | None
    content: _Content
    generated: bool = False

    @property
    def tree(self) -> Tree:
        """The files."""
        return self.reader.tree

    @property
    def yaml(self) -> SettingsSource[ProblemYaml]:
        """problem.yaml."""
        return self.reader.yaml

    @property
    def findings(self) -> Findings:
        """The findings to add to."""
        return self.reader.findings

    def warn_of_paths(self, paths: list[str], sentence: str) -> None:
        """A warning about each of some files, or about all of them when there are many."""
        for path in paths[:_EXAMPLES]:
            self.findings.warning(f"{self.tree.where(path)}: {sentence}")
        if len(paths) > _EXAMPLES:
            self.findings.warning(f"{self.tree.where('data')}: {len(paths) - _EXAMPLES} more files: {sentence}")


def _description(context: _AboutPackage) -> None:
    """License, owner, uuid: nobody may use a problem of which they are unknown. DOMjudge's have no place for them."""
    if PROBLEM_YAML not in context.tree.files:
        return
    yaml, settings = context.yaml, context.yaml.settings
    license_ = str(settings.license or "unknown")
    if license_ not in LICENSES:
        licenses = ", ".join(LICENSES)
        context.findings.warning(f"{yaml.at('license')}: license: '{clean(license_, 40)}' is not one of {licenses}")
    elif license_ == "unknown":
        context.findings.warning(f"{yaml.at('license')}: license: is unknown; nobody may use the problem then")
    owners = [owner for owner in (settings.rights_owner, settings.author, settings.credits, settings.source) if owner]
    if license_ == "public domain" and settings.rights_owner:
        context.findings.warning(f"{yaml.at('rights_owner')}: rights_owner: there is none in the public domain")
    elif license_ not in {"unknown", "public domain"} and not owners:
        context.findings.warning(f"{yaml.at('license')}: license: says '{license_}', but nobody owns the rights")
    if not settings.legacy and not settings.uuid:
        context.findings.warning(f"{yaml.at('uuid')}: key 'uuid' is missing; format {settings.format.name} requires it")


def _statements(context: _AboutPackage) -> None:
    """A statement in every language that the problem has a name in, and the other way round."""
    settings = context.yaml.settings
    parts = statements.find(context.tree.files, legacy=settings.legacy)
    languages = {statement.language for statement in parts.statements}
    if not languages:
        where = context.tree.where(settings.format.statements[0])
        context.findings.warning(f"{where}: there is no statement; expected problem.LANGUAGE.tex, .md or .pdf in it")
    names = {statements.language_of(code) for code in settings.name} if isinstance(settings.name, dict) else set()
    for code in sorted(names - languages) if languages else ():
        context.findings.warning(f"{context.yaml.at('name')}: name.{code}: there is no statement in this language")
    for code in sorted(languages - names) if names else ():
        context.findings.warning(f"{context.yaml.at('name')}: name: is missing in '{code}', which has a statement")


def _pages(context: _AboutPackage) -> None:
    """Statements that would lack something on their page: a picture, or a name that stands for nothing."""
    settings, tree = context.yaml.settings, context.tree
    parts = statements.find(tree.files, legacy=settings.legacy)
    pictures = sorted(
        {path for statement in parts.statements for name, path in statement.files.items() if name != statement.main}
    )
    for path in pictures:
        head = next(tree.chunks(path), b"")[: looks.HEAD_BYTES]
        if not looks.is_picture(path, head):
            context.findings.warning(f"{tree.where(path)}: is no picture; the page does not show it")
    for statement in parts.statements:
        if statement.kind in {"pdf", "txt"}:
            continue
        waiting, visited = [statement.main], set[str]()
        while waiting:
            name = waiting.pop(0)
            path = statement.files[name]
            if name in visited or tree.files[path] > looks.MOST_BYTES:
                continue
            visited.add(name)
            data = statements.with_constants(tree.read(path, looks.MOST_BYTES), settings.constants)
            text = data.decode("utf-8", "replace")
            if statement.kind == "tex":
                waiting += [
                    file
                    for include in looks.included(text)
                    for file in (include, f"{include}.tex")
                    if file in statement.files
                ]
            _text(context, statement, tree.where(path), text)


def _text(context: _AboutPackage, statement: statements.FoundStatement, where: str, text: str) -> None:
    """One text of a statement: missing pictures, names that stand for nothing, cells that the page leaves out."""
    for picture in looks.missing_pictures(statement.kind, text, statement.files):
        name = clean(picture, 80)
        context.findings.warning(f"{where}: there is no picture '{name}'; put it beside the statement")
    for word in looks.unknown_placeholders(statement.kind, text):
        context.findings.warning(f"{where}: '{word}' is none of the constants, and stays as it is")
    rows = looks.wide_rows(text) if statement.kind == "md" else iter(())
    for line, cells, columns in itertools.islice(rows, _EXAMPLES):
        context.findings.warning(
            f"{where}:{line}: this row of a table has {cells} cells and the head has {columns}; the page leaves out "
            r"the rest; write \| for a bar inside a cell"
        )


def _folders(context: _AboutPackage) -> None:
    """Folders that no version of the format has, above all misspelt ones."""
    for top in sorted({path.split("/")[0] for path in context.tree.files if "/" in path} - FOLDERS):
        suggestions = difflib.get_close_matches(top, FOLDERS, n=1, cutoff=_SIMILARITY)
        hint = f"; did you mean {suggestions[0]}/?" if suggestions else ""
        context.findings.warning(f"{context.tree.where(top)}: is no folder of the format, and is left alone{hint}")
    for path in context.tree.below("data"):
        folder = path.split("/")[1]
        if path.count("/") > 1 and folder not in _DATA_FOLDERS:
            context.findings.warning(
                f"{context.tree.where(f'data/{folder}')}: is no folder of the format; it is left alone"
            )
    generators = context.tree.below("generators")
    if generators and not context.generated:
        names = ", ".join(PurePosixPath(path).name for path in generators[:_EXAMPLES])
        more = f" and {len(generators) - _EXAMPLES} more" if len(generators) > _EXAMPLES else ""
        where = context.tree.where("generators")
        context.findings.note(f"{where}: {names}{more}: kept with the package, and not run; its tests must be in data/")


def _programs(context: _AboutPackage) -> None:
    """The format wants inputs to be validated."""
    if not any(context.tree.below(folder) for folder in formats.INPUT_VALIDATORS):
        where = context.tree.where(formats.INPUT_VALIDATORS[0])
        context.findings.warning(f"{where}: there is no input validator; the format requires one")
    if context.tree.below("input_format_validators"):
        where = context.tree.where("input_format_validators")
        context.findings.warning(f"{where}: is an old name; call the folder input_validators")


def _samples(context: _AboutPackage) -> None:
    """Files that say what is shown of a sample, against each other."""
    tree = context.tree
    shown_samples = statements.find(tree.files, legacy=context.yaml.settings.legacy).samples
    talks = context.yaml.settings.traits.needs_validator
    for name, files in sorted(shown_samples.items()):
        where = tree.where(f"data/{name}")
        if "out" in files and "ans.statement" in files:
            context.findings.error(f"{where}: has both .out and .ans.statement; keep one, as only one can be shown")
        other_files = sorted(files.keys() - {"interaction"})
        if "interaction" in files and other_files:
            context.findings.error(
                f"{where}: has .interaction, so .{other_files[0]} is never shown; remove one of the two"
            )
        for kind in ("in", "ans"):
            if (f"{kind}.statement" in files) != (f"{kind}.download" in files) and not context.yaml.settings.legacy:
                pair = f".{kind}.statement and .{kind}.download"
                context.findings.warning(f"{where}: has only one of {pair}; format 2025-09 wants both or none")
        if "interaction" in files:
            if not talks:
                context.findings.warning(f"{where}.interaction: belongs to interactive and multi-pass problems")
            _interaction(context, files["interaction"])
    samples = {name.rpartition(".")[0] for name in tree.below("data/sample") if name.endswith(".in")}
    for sample in sorted(samples) if talks else ():
        if f"{sample}.interaction" not in tree.files and context.yaml.settings.legacy:
            context.findings.warning(
                f"{tree.where(sample + '.in')}: has no {sample}.interaction, which shows how to talk"
            )


def _outputs(context: _AboutPackage) -> None:
    """The output that a sample shows, against its answer, where the default validator compares the two."""
    manifest = context.package.manifest if context.package is not None else None
    if manifest is None or manifest.validators or manifest.traits.needs_validator:
        return
    report = context.findings.warning if context.yaml.settings.legacy else context.findings.error
    for test in manifest.tests:
        output, answer = (f"data/{test.name}.{suffix}" for suffix in ("out", "ans"))
        sizes = [context.tree.files.get(path, _SAMPLE_BYTES + 1) for path in (output, answer)]
        if not test.sample or max(sizes) > _SAMPLE_BYTES:
            continue
        flags = manifest.validator_flags if test.flags is None else test.flags
        validation = validate(context.tree.read(output, _SAMPLE_BYTES), context.tree.read(answer, _SAMPLE_BYTES), flags)
        if not validation.accepted:
            why = clean(validation.message)
            report(f"{context.tree.where(output)}: is shown as an output, and is not accepted beside its answer: {why}")


def _interaction(context: _AboutPackage, path: str) -> None:
    """The lines of a sample interaction."""
    multi = context.yaml.settings.traits.passes > 1
    data = context.tree.read(path, YAML_BYTES)
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if line and line[0] not in "<>" and not (multi and line.strip() == "---"):
            where = context.tree.where(path)
            context.findings.warning(f"{where}:{number}: must start with < (to the program) or > (from it)")
            return


def _cases(context: _AboutPackage) -> None:
    """Test cases for the validators themselves: whole, and of known kinds."""
    for folder, needs in _DATA_FOLDERS.items():
        for path in context.tree.below(f"data/{folder}"):
            base = path.removesuffix(".in")
            if base == path:
                continue
            for suffix in needs:
                if f"{base}.{suffix}" not in context.tree.files:
                    context.findings.warning(
                        f"{context.tree.where(path)}: has no {PurePosixPath(base).name}.{suffix} beside it"
                    )


def _contents(context: _AboutPackage) -> None:
    """Tests that are twice there, that are no plain text, or whose answer is as long as an output may be."""
    content = context.content
    context.warn_of_paths(sorted(content.returns), "has Windows line ends (CR LF); programs read the CR, too")
    context.warn_of_paths(sorted(content.broken), "is not UTF-8 text")
    unfinished = sorted(path for path, last in content.last.items() if last != ord("\n") and path not in content.broken)
    context.warn_of_paths(unfinished, "does not end with a newline")
    if context.package is None:
        return
    manifest = context.package.manifest
    tests_by_input = defaultdict(list)
    for test in manifest.tests:
        # Links, and tests that one group has of another under the same name, are meant to be the same.
        if f"data/{test.name}.in" not in context.tree.linked_paths:
            tests_by_input[(test.input, tuple(test.args), tuple(sorted(test.files.items())))].append(test.name)
    for names in tests_by_input.values():
        if len({name.rpartition("/")[2] for name in names}) > 1:
            where = context.tree.where("data")
            context.findings.warning(f"{where}: {', '.join(names[:_EXAMPLES])} have the same input")
    if not manifest.traits.needs_validator:
        most = manifest.limits.output
        context.warn_of_paths(
            sorted(path for path, size in content.sizes.items() if path.endswith(".ans") and 2 * size > most),
            f"is longer than half of the output limit ({most // 1024**2} MiB); raise limits.output",
        )


def _submissions(context: _AboutPackage) -> None:
    """Submissions that say nothing, or that nobody can judge; submissions.yaml against the files."""
    package = context.package
    inner = [path.removeprefix("submissions/") for path in context.tree.below("submissions") if path.count("/") > 1]
    if "accepted" not in {folder_of(path) for path in inner}:
        limitless = package and package.infer and package.manifest.traits.has_program
        text = (
            "has no accepted submission, so the time limit cannot be inferred; give it with --time-limit"
            if limitless
            else ""
        )
        report = context.findings.error if text else context.findings.warning
        report(f"{context.tree.where('submissions')}: {text or 'has no accepted submission; the format requires one'}")
    if package is None:
        return
    rules = expectations.read_rules(package)
    candidates = expectations.candidates(package, load_table())
    for candidate in candidates:
        if candidate.skipped:
            context.findings.warning(
                f"{context.tree.where('submissions/' + candidate.path)}: {candidate.skipped}; it is not judged"
            )
        elif fault := _entry_fault(candidate):
            context.findings.error(f"{context.tree.where('submissions/' + candidate.path)}: its entry point {fault}")
    standard = {rule.glob for rule in (*expectations.LEGACY, *expectations.CURRENT)}
    for glob in dict.fromkeys(rule.glob for rule in rules if rule.glob not in standard):
        if not any(expectations.matches(glob, candidate.path) for candidate in candidates):
            where = context.tree.where("submissions/submissions.yaml")
            context.findings.warning(f"{where}: '{clean(glob, 80)}' matches no submission")


def _entry_fault(candidate: expectations.Candidate) -> str:
    """The reason why a submission cannot be started as the package says, to end a sentence; empty when it can."""
    if candidate.entry is None or not candidate.language:
        return ""
    files, row = (
        candidate.files or {PurePosixPath(candidate.path).name: candidate.source},
        load_table()[candidate.language],
    )
    fault = sources.entry_fault(files, row, clean(candidate.entry, 80))
    if fault or row.entry == "file" or sources.file_named(files, candidate.entry) is not None:
        return fault
    # Kotlin makes a class `NameKt` of a file.
    name = candidate.entry.rpartition(".")[2].removesuffix("Kt" if row.entry == "kotlin" else "").lower()
    stems = {PurePosixPath(file).stem.lower() for file in files}
    if name in stems or any(name.encode() in data.lower() for data in files.values()):
        return ""
    return f"'{clean(candidate.entry, 80)}' is in none of the files; name the class with main"


_CHECKS: tuple[Callable[[_AboutPackage], None], ...] = (
    _description,
    _statements,
    _pages,
    _folders,
    _programs,
    _samples,
    _outputs,
    _cases,
    _contents,
    _submissions,
)
_OF_AUTHORS = frozenset({_description, _statements, _programs})
