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
from judge.problems.metadata import YAML_BYTES
from judge.problems.package import open_reader
from judge.problems.reading import formats, looks
from judge.problems.reading.findings import Findings
from judge.problems.reading.formats import Dialect
from judge.problems.reading.held import Package
from judge.problems.reading.reader import PROBLEM_YAML, Overrides, Reader
from judge.problems.task import MANAGER
from judge.problems.tree import clean
from judge.problems.validator import validate

LICENSES = ("unknown", "public domain", "cc0", "cc by", "cc by-sa", "educational", "permission")
FOLDERS = frozenset({
    "attachments", "data", "generators", "graders", "include", "input_visualizer", "output_visualizer", "solution",
    "statement", "problem_statement", "static_validator", "submissions", "output_validator", "output_validators",
    *formats.INPUT_VALIDATORS, *formats.ANSWER_VALIDATORS, "visualizers", MANAGER,
})  # fmt: skip
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
        generated = any(carried and _INPUTS.match(line) for carried, line in notes)
        checks = _Checks(reader, package, content, generated=generated)
        has_stand_ins = options is not None and options.products is not None and options.products.stand_ins
        for check, wanted_of_others in checks.all().items():
            if (wanted_of_others or not reader.notes) and not (has_stand_ins and check == checks.contents):
                with reader.findings.caught():
                    check()
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


class _Checks:
    """Each of its `all` looks at one side of a package. `generated`: its generators make inputs, at import."""

    def __init__(self, reader: Reader, package: Package | None, content: _Content, *, generated: bool) -> None:
        self.tree = reader.tree
        self.yaml = reader.yaml
        self.settings = reader.yaml.settings
        self.findings = reader.findings
        self.package = package
        self.content = content
        self.generated = generated

    def all(self) -> dict[Callable[[], None], bool]:
        """The checks, and whether those who wrote a package in another format want to hear of it."""
        return {
            self.description: False,
            self.translations: False,
            self.pages: True,
            self.folders: True,
            self.programs: False,
            self.samples: True,
            self.outputs: True,
            self.cases: True,
            self.contents: True,
            self.submissions: True,
        }

    def warn(self, path: str, sentence: str) -> None:
        self.findings.warning(f"{self.tree.where(path)}: {sentence}")

    def warn_of_paths(self, paths: list[str], sentence: str) -> None:
        """A warning about each of some files, or about all of them when there are many."""
        for path in paths[:_EXAMPLES]:
            self.warn(path, sentence)
        if len(paths) > _EXAMPLES:
            self.warn("data", f"{len(paths) - _EXAMPLES} more files: {sentence}")

    def warn_of_key(self, key: str, sentence: str) -> None:
        self.findings.warning(f"{self.yaml.at(key)}: {sentence}")

    def description(self) -> None:
        """License, owner, uuid: nobody may use a problem without them. DOMjudge's have no place for them."""
        if PROBLEM_YAML not in self.tree.files:
            return
        settings = self.settings
        license_ = str(settings.license or "unknown")
        if license_ not in LICENSES:
            self.warn_of_key("license", f"license: '{clean(license_, 40)}' is not one of {', '.join(LICENSES)}")
        elif license_ == "unknown":
            self.warn_of_key("license", "license: is unknown; nobody may use the problem then")
        owners = [settings.rights_owner, settings.author, settings.credits, settings.source]
        if license_ == "public domain" and settings.rights_owner:
            self.warn_of_key("rights_owner", "rights_owner: there is none in the public domain")
        elif license_ not in {"unknown", "public domain"} and not any(owners):
            self.warn_of_key("license", f"license: says '{license_}', but nobody owns the rights")
        if not settings.legacy and not settings.uuid:
            self.warn_of_key("uuid", f"key 'uuid' is missing; format {settings.format.name} requires it")

    def translations(self) -> None:
        """A statement in every language that the problem has a name in, and the other way round."""
        settings = self.settings
        parts = statements.find(self.tree.files, legacy=settings.legacy)
        languages = {statement.language for statement in parts.statements}
        if not languages:
            self.warn(
                settings.format.statements[0], "there is no statement; expected problem.LANGUAGE.tex, .md or .pdf in it"
            )
        names = {statements.language_of(code) for code in settings.name} if isinstance(settings.name, dict) else set()
        for code in sorted(names - languages) if languages else ():
            self.warn_of_key("name", f"name.{code}: there is no statement in this language")
        for code in sorted(languages - names) if names else ():
            self.warn_of_key("name", f"name: is missing in '{code}', which has a statement")

    def pages(self) -> None:
        """Statements that would lack something on their page: a picture, or a name that stands for nothing."""
        tree = self.tree
        parts = statements.find(tree.files, legacy=self.settings.legacy)
        pictures = sorted(
            {path for statement in parts.statements for name, path in statement.files.items() if name != statement.main}
        )
        for path in pictures:
            if not looks.is_picture(path, next(tree.chunks(path), b"")[: looks.HEAD_BYTES]):
                self.warn(path, "is no picture; the page does not show it")
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
                data = statements.with_constants(tree.read(path, looks.MOST_BYTES), self.settings.constants)
                text = data.decode("utf-8", "replace")
                if statement.kind == "tex":
                    includes = [file for include in looks.included(text) for file in (include, f"{include}.tex")]
                    waiting += [file for file in includes if file in statement.files]
                self._text(statement, path, text)

    def _text(self, statement: statements.FoundStatement, path: str, text: str) -> None:
        """One text of a statement: missing pictures, names that stand for nothing, cells that the page leaves out."""
        for picture in looks.missing_pictures(statement.kind, text, statement.files):
            self.warn(path, f"there is no picture '{clean(picture, 80)}'; put it beside the statement")
        for word in looks.unknown_placeholders(statement.kind, text):
            self.warn(path, f"'{word}' is none of the constants, and stays as it is")
        rows = looks.wide_rows(text) if statement.kind == "md" else iter(())
        for line, cells, columns in itertools.islice(rows, _EXAMPLES):
            self.findings.warning(
                f"{self.tree.where(path)}:{line}: this row of a table has {cells} cells and the head has {columns}; "
                r"the page leaves out the rest; write \| for a bar inside a cell"
            )

    def folders(self) -> None:
        """Folders that no version of the format has, above all misspelt ones."""
        for top in sorted({path.split("/")[0] for path in self.tree.files if "/" in path} - FOLDERS):
            suggestions = difflib.get_close_matches(top, FOLDERS, n=1, cutoff=_SIMILARITY)
            hint = f"; did you mean {suggestions[0]}/?" if suggestions else ""
            self.warn(top, f"is no folder of the format, and is left alone{hint}")
        for path in self.tree.below("data"):
            folder = path.split("/")[1]
            if path.count("/") > 1 and folder not in _DATA_FOLDERS:
                self.warn(f"data/{folder}", "is no folder of the format; it is left alone")
        generators = self.tree.below("generators")
        if generators and not self.generated:
            names = ", ".join(PurePosixPath(path).name for path in generators[:_EXAMPLES])
            other_count = f" and {len(generators) - _EXAMPLES} more" if len(generators) > _EXAMPLES else ""
            sentence = f"{names}{other_count}: kept with the package, and not run; its tests must be in data/"
            self.findings.note(f"{self.tree.where('generators')}: {sentence}")

    def programs(self) -> None:
        """The format wants inputs to be validated."""
        if not any(self.tree.below(folder) for folder in formats.INPUT_VALIDATORS):
            self.warn(formats.INPUT_VALIDATORS[0], "there is no input validator; the format requires one")
        if self.tree.below("input_format_validators"):
            self.warn("input_format_validators", "is an old name; call the folder input_validators")

    def samples(self) -> None:
        """Files that say what is shown of a sample, against each other."""
        tree, legacy = self.tree, self.settings.legacy
        talks = self.settings.traits.needs_validator
        for name, files in sorted(statements.find(tree.files, legacy=legacy).samples.items()):
            where = tree.where(f"data/{name}")
            if "out" in files and "ans.statement" in files:
                self.findings.error(f"{where}: has both .out and .ans.statement; keep one, as only one can be shown")
            other_files = sorted(files.keys() - {"interaction"})
            if "interaction" in files and other_files:
                sentence = f"has .interaction, so .{other_files[0]} is never shown; remove one of the two"
                self.findings.error(f"{where}: {sentence}")
            for kind in ("in", "ans"):
                if (f"{kind}.statement" in files) != (f"{kind}.download" in files) and not legacy:
                    pair = f".{kind}.statement and .{kind}.download"
                    self.findings.warning(f"{where}: has only one of {pair}; format 2025-09 wants both or none")
            if "interaction" in files:
                if not talks:
                    self.findings.warning(f"{where}.interaction: belongs to interactive and multi-pass problems")
                self._interaction(files["interaction"])
        samples = {name.rpartition(".")[0] for name in tree.below("data/sample") if name.endswith(".in")}
        for sample in sorted(samples) if talks and legacy else ():
            if f"{sample}.interaction" not in tree.files:
                self.warn(f"{sample}.in", f"has no {sample}.interaction, which shows how to talk")

    def _interaction(self, path: str) -> None:
        multi = self.settings.traits.passes > 1
        data = self.tree.read(path, YAML_BYTES)
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            if line and line[0] not in "<>" and not (multi and line.strip() == "---"):
                where = self.tree.where(path)
                self.findings.warning(f"{where}:{number}: must start with < (to the program) or > (from it)")
                return

    def outputs(self) -> None:
        """The output that a sample shows, against its answer, where the default validator compares the two."""
        manifest = self.package.manifest if self.package is not None else None
        if manifest is None or manifest.validators or manifest.traits.needs_validator:
            return
        report = self.findings.warning if self.settings.legacy else self.findings.error
        for test in manifest.tests:
            output, answer = (f"data/{test.name}.{suffix}" for suffix in ("out", "ans"))
            sizes = [self.tree.files.get(path, _SAMPLE_BYTES + 1) for path in (output, answer)]
            if not test.sample or max(sizes) > _SAMPLE_BYTES:
                continue
            flags = manifest.validator_flags if test.flags is None else test.flags
            validation = validate(self.tree.read(output, _SAMPLE_BYTES), self.tree.read(answer, _SAMPLE_BYTES), flags)
            if not validation.accepted:
                sentence = f"is shown as an output, and is not accepted beside its answer: {clean(validation.message)}"
                report(f"{self.tree.where(output)}: {sentence}")

    def cases(self) -> None:
        """Test cases for the validators themselves: whole, and of known kinds."""
        for folder, needs in _DATA_FOLDERS.items():
            for path in self.tree.below(f"data/{folder}"):
                base = path.removesuffix(".in")
                for suffix in needs if base != path else ():
                    if f"{base}.{suffix}" not in self.tree.files:
                        self.warn(path, f"has no {PurePosixPath(base).name}.{suffix} beside it")

    def contents(self) -> None:
        """Tests that are twice there, that are no plain text, or whose answer is as long as an output may be."""
        content = self.content
        self.warn_of_paths(sorted(content.returns), "has Windows line ends (CR LF); programs read the CR, too")
        self.warn_of_paths(sorted(content.broken), "is not UTF-8 text")
        cut_off = {path for path, last in content.last.items() if last != ord("\n")}
        self.warn_of_paths(sorted(cut_off - content.broken), "does not end with a newline")
        if self.package is None:
            return
        manifest = self.package.manifest
        tests_by_input = defaultdict(list)
        for test in manifest.tests:
            # Links, and tests that one group has of another under the same name, are meant to be the same.
            if f"data/{test.name}.in" not in self.tree.linked_paths:
                tests_by_input[(test.input, tuple(test.args), tuple(sorted(test.files.items())))].append(test.name)
        for names in tests_by_input.values():
            if len({name.rpartition("/")[2] for name in names}) > 1:
                self.warn("data", f"{', '.join(names[:_EXAMPLES])} have the same input")
        if not manifest.traits.needs_validator:
            limit = manifest.limits.output
            self.warn_of_paths(
                sorted(path for path, size in content.sizes.items() if path.endswith(".ans") and 2 * size > limit),
                f"is longer than half of the output limit ({limit // 1024**2} MiB); raise limits.output",
            )

    def submissions(self) -> None:
        """Submissions that say nothing, or that nobody can judge; submissions.yaml against the files."""
        package = self.package
        inner = [path.removeprefix("submissions/") for path in self.tree.below("submissions") if path.count("/") > 1]
        if "accepted" not in {folder_of(path) for path in inner}:
            where = self.tree.where("submissions")
            if package and package.infer and package.manifest.traits.has_program:
                sentence = "has no accepted submission, so the time limit cannot be inferred; give it with --time-limit"
                self.findings.error(f"{where}: {sentence}")
            else:
                self.findings.warning(f"{where}: has no accepted submission; the format requires one")
        if package is None:
            return
        rules = expectations.read_rules(package)
        candidates = expectations.candidates(package, load_table())
        for candidate in candidates:
            path = f"submissions/{candidate.path}"
            if candidate.skipped:
                self.warn(path, f"{candidate.skipped}; it is not judged")
            elif fault := _entry_fault(candidate):
                self.findings.error(f"{self.tree.where(path)}: its entry point {fault}")
        standard = {rule.glob for rule in (*expectations.LEGACY, *expectations.CURRENT)}
        for glob in dict.fromkeys(rule.glob for rule in rules if rule.glob not in standard):
            if not any(expectations.matches(glob, candidate.path) for candidate in candidates):
                self.warn("submissions/submissions.yaml", f"'{clean(glob, 80)}' matches no submission")


def _entry_fault(candidate: expectations.Candidate) -> str:
    """The reason why a submission cannot be started as the package says, to end a sentence; empty when it can."""
    if candidate.entry is None or not candidate.language:
        return ""
    files = candidate.files or {PurePosixPath(candidate.path).name: candidate.source}
    row, entry = load_table()[candidate.language], clean(candidate.entry, 80)
    fault = sources.entry_fault(files, row, entry)
    if fault or row.entry == "file" or sources.file_named(files, candidate.entry) is not None:
        return fault
    # Kotlin makes a class `NameKt` of a file.
    name = candidate.entry.rpartition(".")[2].removesuffix("Kt" if row.entry == "kotlin" else "").lower()
    stems = {PurePosixPath(file).stem.lower() for file in files}
    if name in stems or any(name.encode() in data.lower() for data in files.values()):
        return ""
    return f"'{entry}' is in none of the files; name the class with main"
