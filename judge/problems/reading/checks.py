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

from judge.errors import PackageError
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
from judge.problems.reading.reader import PROBLEM_YAML, Given, Reader
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
_ALIKE = 0.75
# Words by which a plan says that generators make tests (judge.problems.importers.making).
_INPUTS = re.compile(r"[0-9]+ inputs? made at import by ")
# Longer outputs of samples are shown to nobody whole.
_SAMPLE_BYTES = 1024**2
# So many of one kind are named one by one.
_NAMED = 5


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
    asked: ImporterWords | None = None,
) -> Checked:
    """Everything about the package at `path` that can be said without running anything; nothing is raised for it."""
    with contextlib.ExitStack() as stack:
        content = _Content()
        try:
            reader = open_reader(stack, path, Given(name, time_limit, dialect), asked, content.look)
        except UnmadeError as unmade:
            # Everything else is looked at with empty files in their place.
            there = replace(asked or ImporterWords(), made=unmade.plan.stand_ins())
            checked = check_package(path, name=name, time_limit=time_limit, dialect=dialect, asked=there)
            checked.findings.note(str(unmade))
            if checked.package is not None:
                checked.package.close()
            return Checked(checked.name, checked.findings, plan=unmade.plan)
        except PackageError as exc:
            findings = Findings()
            findings.error(str(exc))
            return Checked(name or path.name, findings)
        package = reader.read()
        for note in reader.notes:
            reader.findings.note(note)
        made = asked.made.notes if asked is not None and asked.made is not None else ()
        about = _AboutPackage(
            reader, package, content, generated=any(carried and _INPUTS.match(line) for carried, line in made)
        )
        # Checks of what only describes a package are for those who wrote it in this format.
        left_out = _OF_AUTHORS if reader.notes else ()
        if asked is not None and asked.made is not None and asked.made.stand_ins:
            left_out = (*left_out, _contents)
        for check in [one for one in _CHECKS if one not in left_out]:
            with reader.findings.caught():
                check(about)
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

    def several(self, paths: list[str], sentence: str) -> None:
        """A warning about each of some files, or about all of them when there are many."""
        for path in paths[:_NAMED]:
            self.findings.warning(f"{self.tree.where(path)}: {sentence}")
        if len(paths) > _NAMED:
            self.findings.warning(f"{self.tree.where('data')}: {len(paths) - _NAMED} more files: {sentence}")


def _description(about: _AboutPackage) -> None:
    """License, owner, uuid: nobody may use a problem of which they are unknown. DOMjudge's have no place for them."""
    if PROBLEM_YAML not in about.tree.files:
        return
    yaml, said = about.yaml, about.yaml.settings
    license_ = str(said.license or "unknown")
    if license_ not in LICENSES:
        known = ", ".join(LICENSES)
        about.findings.warning(f"{yaml.at('license')}: license: '{clean(license_, 40)}' is not one of {known}")
    elif license_ == "unknown":
        about.findings.warning(f"{yaml.at('license')}: license: is unknown; nobody may use the problem then")
    owners = [one for one in (said.rights_owner, said.author, said.credits, said.source) if one]
    if license_ == "public domain" and said.rights_owner:
        about.findings.warning(f"{yaml.at('rights_owner')}: rights_owner: there is none in the public domain")
    elif license_ not in {"unknown", "public domain"} and not owners:
        about.findings.warning(f"{yaml.at('license')}: license: says '{license_}', but nobody owns the rights")
    if not said.legacy and not said.uuid:
        about.findings.warning(f"{yaml.at('uuid')}: key 'uuid' is missing; format {said.format.name} requires it")


def _statements(about: _AboutPackage) -> None:
    """A statement in every language that the problem has a name in, and the other way round."""
    said = about.yaml.settings
    found = statements.find(about.tree.files, legacy=said.legacy)
    languages = {one.language for one in found.statements}
    if not languages:
        where = about.tree.where(said.format.statements[0])
        about.findings.warning(f"{where}: there is no statement; expected problem.LANGUAGE.tex, .md or .pdf in it")
    names = {statements.language_of(code) for code in said.name} if isinstance(said.name, dict) else set()
    for code in sorted(names - languages) if languages else ():
        about.findings.warning(f"{about.yaml.at('name')}: name.{code}: there is no statement in this language")
    for code in sorted(languages - names) if names else ():
        about.findings.warning(f"{about.yaml.at('name')}: name: is missing in '{code}', which has a statement")


def _pages(about: _AboutPackage) -> None:
    """Statements that would lack something on their page: a picture, or a name that stands for nothing."""
    said, tree = about.yaml.settings, about.tree
    found = statements.find(tree.files, legacy=said.legacy)
    pictures = sorted({path for one in found.statements for name, path in one.files.items() if name != one.main})
    for path in pictures:
        head = next(tree.chunks(path), b"")[: looks.HEAD_BYTES]
        if not looks.is_picture(path, head):
            about.findings.warning(f"{tree.where(path)}: is no picture; the page does not show it")
    for one in found.statements:
        if one.kind in {"pdf", "txt"}:
            continue
        waiting, seen = [one.main], set[str]()
        while waiting:
            name = waiting.pop(0)
            path = one.files[name]
            if name in seen or tree.files[path] > looks.MOST_BYTES:
                continue
            seen.add(name)
            data = statements.with_constants(tree.read(path, looks.MOST_BYTES), said.constants)
            text = data.decode("utf-8", "replace")
            if one.kind == "tex":
                waiting += [file for it in looks.included(text) for file in (it, f"{it}.tex") if file in one.files]
            _text(about, one, tree.where(path), text)


def _text(about: _AboutPackage, statement: statements.FoundStatement, where: str, text: str) -> None:
    """One text of a statement: missing pictures, names that stand for nothing, cells that the page leaves out."""
    for picture in looks.missing_pictures(statement.kind, text, statement.files):
        name = clean(picture, 80)
        about.findings.warning(f"{where}: there is no picture '{name}'; put it beside the statement")
    for word in looks.unknown_placeholders(statement.kind, text):
        about.findings.warning(f"{where}: '{word}' is none of the constants, and stays as it is")
    rows = looks.wide_rows(text) if statement.kind == "md" else iter(())
    for line, cells, columns in itertools.islice(rows, _NAMED):
        about.findings.warning(
            f"{where}:{line}: this row of a table has {cells} cells and the head has {columns}; the page leaves out "
            r"the rest; write \| for a bar inside a cell"
        )


def _folders(about: _AboutPackage) -> None:
    """Folders that no version of the format has, above all misspelt ones."""
    for top in sorted({path.split("/")[0] for path in about.tree.files if "/" in path} - FOLDERS):
        near = difflib.get_close_matches(top, FOLDERS, n=1, cutoff=_ALIKE)
        hint = f"; did you mean {near[0]}/?" if near else ""
        about.findings.warning(f"{about.tree.where(top)}: is no folder of the format, and is left alone{hint}")
    for path in about.tree.below("data"):
        folder = path.split("/")[1]
        if path.count("/") > 1 and folder not in _DATA_FOLDERS:
            about.findings.warning(
                f"{about.tree.where(f'data/{folder}')}: is no folder of the format; it is left alone"
            )
    generators = about.tree.below("generators")
    if generators and not about.generated:
        names = ", ".join(PurePosixPath(path).name for path in generators[:_NAMED])
        more = f" and {len(generators) - _NAMED} more" if len(generators) > _NAMED else ""
        where = about.tree.where("generators")
        about.findings.note(f"{where}: {names}{more}: kept with the package, and not run; its tests must be in data/")


def _programs(about: _AboutPackage) -> None:
    """The format wants inputs to be validated."""
    if not any(about.tree.below(folder) for folder in formats.INPUT_VALIDATORS):
        where = about.tree.where(formats.INPUT_VALIDATORS[0])
        about.findings.warning(f"{where}: there is no input validator; the format requires one")
    if about.tree.below("input_format_validators"):
        where = about.tree.where("input_format_validators")
        about.findings.warning(f"{where}: is an old name; call the folder input_validators")


def _samples(about: _AboutPackage) -> None:
    """Files that say what is shown of a sample, against each other."""
    tree = about.tree
    found = statements.find(tree.files, legacy=about.yaml.settings.legacy).samples
    talks = about.yaml.settings.traits.needs_validator
    for name, files in sorted(found.items()):
        where = tree.where(f"data/{name}")
        if "out" in files and "ans.statement" in files:
            about.findings.error(f"{where}: has both .out and .ans.statement; keep one, as only one can be shown")
        beside = sorted(files.keys() - {"interaction"})
        if "interaction" in files and beside:
            about.findings.error(f"{where}: has .interaction, so .{beside[0]} is never shown; remove one of the two")
        for kind in ("in", "ans"):
            if (f"{kind}.statement" in files) != (f"{kind}.download" in files) and not about.yaml.settings.legacy:
                pair = f".{kind}.statement and .{kind}.download"
                about.findings.warning(f"{where}: has only one of {pair}; format 2025-09 wants both or none")
        if "interaction" in files:
            if not talks:
                about.findings.warning(f"{where}.interaction: belongs to interactive and multi-pass problems")
            _interaction(about, files["interaction"])
    samples = {name.rpartition(".")[0] for name in tree.below("data/sample") if name.endswith(".in")}
    for sample in sorted(samples) if talks else ():
        if f"{sample}.interaction" not in tree.files and about.yaml.settings.legacy:
            about.findings.warning(
                f"{tree.where(sample + '.in')}: has no {sample}.interaction, which shows how to talk"
            )


def _outputs(about: _AboutPackage) -> None:
    """The output that a sample shows, against its answer, where the default validator compares the two."""
    manifest = about.package.manifest if about.package is not None else None
    if manifest is None or manifest.validators or manifest.traits.needs_validator:
        return
    say = about.findings.warning if about.yaml.settings.legacy else about.findings.error
    for test in manifest.tests:
        shown, answer = (f"data/{test.name}.{suffix}" for suffix in ("out", "ans"))
        sizes = [about.tree.files.get(path, _SAMPLE_BYTES + 1) for path in (shown, answer)]
        if not test.sample or max(sizes) > _SAMPLE_BYTES:
            continue
        flags = manifest.validator_flags if test.flags is None else test.flags
        found = validate(about.tree.read(shown, _SAMPLE_BYTES), about.tree.read(answer, _SAMPLE_BYTES), flags)
        if not found.accepted:
            why = clean(found.message)
            say(f"{about.tree.where(shown)}: is shown as an output, and is not accepted beside its answer: {why}")


def _interaction(about: _AboutPackage, path: str) -> None:
    """The lines of a sample interaction."""
    multi = about.yaml.settings.traits.passes > 1
    data = about.tree.read(path, YAML_BYTES)
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if line and line[0] not in "<>" and not (multi and line.strip() == "---"):
            where = about.tree.where(path)
            about.findings.warning(f"{where}:{number}: must start with < (to the program) or > (from it)")
            return


def _cases(about: _AboutPackage) -> None:
    """Test cases for the validators themselves: whole, and of known kinds."""
    for folder, needs in _DATA_FOLDERS.items():
        for path in about.tree.below(f"data/{folder}"):
            base = path.removesuffix(".in")
            if base == path:
                continue
            for suffix in needs:
                if f"{base}.{suffix}" not in about.tree.files:
                    about.findings.warning(
                        f"{about.tree.where(path)}: has no {PurePosixPath(base).name}.{suffix} beside it"
                    )


def _contents(about: _AboutPackage) -> None:
    """Tests that are twice there, that are no plain text, or whose answer is as long as an output may be."""
    content = about.content
    about.several(sorted(content.returns), "has Windows line ends (CR LF); programs read the CR, too")
    about.several(sorted(content.broken), "is not UTF-8 text")
    unfinished = sorted(path for path, last in content.last.items() if last != ord("\n") and path not in content.broken)
    about.several(unfinished, "does not end with a newline")
    if about.package is None:
        return
    manifest = about.package.manifest
    same = defaultdict(list)
    for test in manifest.tests:
        # Links, and tests that one group has of another under the same name, are meant to be the same.
        if f"data/{test.name}.in" not in about.tree.followed:
            same[(test.input, tuple(test.args), tuple(sorted(test.files.items())))].append(test.name)
    for names in same.values():
        if len({name.rpartition("/")[2] for name in names}) > 1:
            where = about.tree.where("data")
            about.findings.warning(f"{where}: {', '.join(names[:_NAMED])} have the same input")
    if not manifest.traits.needs_validator:
        most = manifest.limits.output
        about.several(
            sorted(path for path, size in content.sizes.items() if path.endswith(".ans") and 2 * size > most),
            f"is longer than half of the output limit ({most // 1024**2} MiB); raise limits.output",
        )


def _submissions(about: _AboutPackage) -> None:
    """Submissions that say nothing, or that nobody can judge; submissions.yaml against the files."""
    package = about.package
    inner = [path.removeprefix("submissions/") for path in about.tree.below("submissions") if path.count("/") > 1]
    if "accepted" not in {folder_of(path) for path in inner}:
        limitless = package and package.infer and package.manifest.traits.has_program
        text = (
            "has no accepted submission, so the time limit cannot be inferred; give it with --time-limit"
            if limitless
            else ""
        )
        say = about.findings.error if text else about.findings.warning
        say(f"{about.tree.where('submissions')}: {text or 'has no accepted submission; the format requires one'}")
    if package is None:
        return
    rules = expectations.read_rules(package)
    found = expectations.candidates(package, load_table())
    for one in found:
        if one.skipped:
            about.findings.warning(f"{about.tree.where('submissions/' + one.path)}: {one.skipped}; it is not judged")
        elif fault := _entry_fault(one):
            about.findings.error(f"{about.tree.where('submissions/' + one.path)}: its entry point {fault}")
    standard = {rule.glob for rule in (*expectations.LEGACY, *expectations.CURRENT)}
    for glob in dict.fromkeys(rule.glob for rule in rules if rule.glob not in standard):
        if not any(expectations.matches(glob, one.path) for one in found):
            where = about.tree.where("submissions/submissions.yaml")
            about.findings.warning(f"{where}: '{clean(glob, 80)}' matches no submission")


def _entry_fault(one: expectations.Candidate) -> str:
    """The reason why a submission cannot be started as the package says, to end a sentence; empty when it can."""
    if one.entry is None or not one.language:
        return ""
    files, row = one.files or {PurePosixPath(one.path).name: one.source}, load_table()[one.language]
    fault = sources.entry_fault(files, row, clean(one.entry, 80))
    if fault or row.entry == "file" or sources.file_named(files, one.entry) is not None:
        return fault
    # Kotlin makes a class `NameKt` of a file.
    name = one.entry.rpartition(".")[2].removesuffix("Kt" if row.entry == "kotlin" else "").lower()
    named = {PurePosixPath(file).stem.lower() for file in files}
    if name in named or any(name.encode() in data.lower() for data in files.values()):
        return ""
    return f"'{clean(one.entry, 80)}' is in none of the files; name the class with main"


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
