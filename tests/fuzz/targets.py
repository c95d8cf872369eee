"""What is fuzzed: functions of bytes that may refuse, with the error that people are meant to see, and nothing else."""

import contextlib
import io
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from judge import config
from judge.boot.embedded.cluster import ClusterFile
from judge.common.errors import ConfigError, JudgeError, PackageError, UsageError
from judge.config import SubmissionLimits
from judge.ctl.context import ClientConfig
from judge.ctl.fleet import inventory
from judge.ctl.problem import making
from judge.executor.storage.data import read_manifest
from judge.gateway.auth import TokenFile
from judge.judicator.tasks import intake
from judge.judicator.tasks.results import fit
from judge.languages import handed
from judge.languages.entry import find_entry
from judge.languages.table import guess, load_table
from judge.model.messages import Completed, Result, Submission, Verdict
from judge.model.problem import ProblemManifest
from judge.problems import expectations
from judge.problems.importers import FORMATS
from judge.problems.importers.draft import ImporterWords, MadeFiles
from judge.problems.importers.making import Plan, UnmadeError
from judge.problems.package import Package, manifest_bytes, read_package
from judge.problems.reading.checks import check_package
from judge.problems.scoring import Judged, standing
from judge.problems.validator import number, validate
from tests.fuzz import agent
from tests.fuzz.foreign import BASES

CORPUS = Path(__file__).with_name("corpus")
# Between the files of a package in one string of bytes, and between a file's name and its content.
FILE, NAME = b"\n%%%% ", b"\n"

BASE = {
    "problem.yaml": b"name: X\nlimits: {time_limit: 1}\n",
    "data/sample/1.in": b"1\n",
    "data/sample/1.ans": b"1\n",
    "data/secret/1.in": b"2\n",
    "data/secret/1.ans": b"2\n",
    "submissions/accepted/a.py": b"print(input())\n",
}


def _file(directory: str, name: str, data: bytes) -> Path:
    path = Path(directory) / name
    path.write_bytes(data)
    return path


def _archive(data: bytes, base: Mapping[str, bytes] = BASE) -> bytes | None:
    """A ZIP archive as it is, or one of a small package some of whose files are replaced; None where none can be."""
    if data[:2] == b"PK":
        return data
    files = dict(base)
    for part in data.split(FILE)[1:]:
        name, _, content = part.partition(NAME)
        files[name.decode("utf-8", "replace").split("\0")[0] or "x"] = content
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            try:
                archive.writestr(name, content)
            except (ValueError, UnicodeEncodeError):
                return None  # a name that no archive can have
    return buffer.getvalue()


def _base(data: bytes) -> Mapping[str, bytes]:
    """The package that is named before the first of the files that are replaced; the small one of the format itself."""
    name = data.partition(FILE)[0].decode("utf-8", "replace").strip()
    return BASES.get(name, BASE)


def check(data: bytes) -> None:
    """`judgectl problem check`, which reads on behind every fault; it and import agree on what can be judged.

    The package is of any format: the data begin with the name of one of BASES.
    """
    archive = _archive(data, _base(data))
    if archive is None:
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        path = _file(directory, "x.zip", archive)
        checked = check_package(path)
        for finding in checked.findings.all:
            assert finding.text.strip() and finding.text.isprintable() and len(finding.text) < 4000, finding.text
        if checked.package is not None:
            assert not checked.findings.errors
            _use(checked.package)
            checked.package.close()
        if checked.plan is not None:
            checked.plan.close()
        refused = False
        try:
            read_package(path).close()
        except UnmadeError as unmade:
            unmade.plan.close()
        except PackageError:
            refused = True
        assert checked.findings.errors or not refused


def _importer(name: str) -> Callable[[bytes], None]:
    """A package as import reads it, of the format that the target names; `package`: of ours."""
    insisted = name.partition("-")[0]
    options = ImporterWords(format=insisted if insisted in FORMATS else None)

    def read(data: bytes) -> None:
        archive = _archive(data, BASES.get(name, BASE))
        if archive is None:
            return
        with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
            path = _file(directory, "x.zip", archive)
            try:
                try:
                    package = read_package(path, options=options)
                except UnmadeError as unmade:
                    _sentence(unmade)
                    package = read_package(path, options=replace(options, products=_stand_ins(unmade.plan)))
                with package:
                    _use(package)
                    for note in package.notes:
                        assert note.strip() and note.isprintable() and len(note) < 4000, note
            except PackageError as exc:
                _sentence(exc)

    return read


def _stand_ins(plan: Plan) -> MadeFiles:
    """What import has an executor do, as far as that: the script and the files that it gets."""
    with contextlib.closing(plan):
        for batch in making.batches(plan):
            with io.BytesIO() as file:
                making.pack(plan, batch, file)
        return plan.stand_ins()


def _use(package: Package) -> None:
    """What import, export and verify make of a package that was taken."""
    manifest = ProblemManifest.model_validate_json(manifest_bytes(package.manifest))
    assert manifest == package.manifest, "what travels is what was read"
    assert manifest.blobs() <= set(package.blobs)
    names = [test.name for test in manifest.tests]
    assert len(names) == len(set(names)), "every test has a name of its own"
    for verdict in (Verdict.AC, Verdict.WA):
        verdicts = standing(manifest, dict.fromkeys(names, Judged(verdict)))
        assert not verdicts.missing
    for candidate in expectations.candidates(package, load_table()):
        for rule in candidate.rules:
            expectations.check(rule, Verdict.WA, Result())


def languages(data: bytes) -> None:
    """A site's table of languages, and a source in a language whose file name is found in the source."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        try:
            table = load_table(_file(directory, "languages.yml", data))
        except ConfigError as exc:
            _sentence(exc)
            table = load_table()
    text = data.decode("utf-8", "replace")
    find_entry(text, text[:40])
    guess(text[:200], table)
    for language in table.values():
        language.plan_files({language.own_name(text, text[:60]): data}, 64 << 20)


def handed_in(data: bytes) -> None:
    """A submission of several files: a ZIP archive, or names and contents cut apart as those of a package are."""
    uploads = [("x.zip", data)]
    if data[:2] != b"PK":
        parts = [part.partition(NAME) for part in data.split(FILE)]
        uploads = [(name.decode("utf-8", "replace"), content) for name, _, content in parts]
    table = load_table()
    try:
        files = handed.gather(uploads, handed.Bounds(100, 256 * 1024))
        assert all((Path("/box") / name).is_relative_to("/box") and ".." not in name.split("/") for name in files)
        submission = Submission(**handed.program(files, table))
        assert list(handed.contents(submission).values()) == list(files.values())
        intake.check(submission, SubmissionLimits(), languages=set(table), source_bytes=128 * 1024)
    except JudgeError as exc:
        _sentence(exc)
        return
    assert submission.language is not None
    plan = table[submission.language].plan_files(files, 64 << 20)
    assert plan.source_name in files


def validator(data: bytes) -> None:
    """Flags, output and answer for the default validator, cut apart at the first lines' ends."""
    flags, _, answer_data = data.partition(b"\n")
    middle = answer_data.find(b"\n\n") + 1 or len(answer_data) // 2
    output, answer = answer_data[:middle], answer_data[middle:]
    try:
        outcome = validate(output, answer, flags.decode("utf-8", "replace").split())
    except PackageError as exc:
        _sentence(exc)
        return
    assert outcome.accepted == (outcome.detail == "") == (outcome.message == "")
    assert validate(answer, answer).accepted
    number(output[:100])


def results(data: bytes) -> None:
    try:
        completed = Completed.model_validate_json(data)
    except ValidationError:
        pass
    else:
        try:
            stored = fit(completed.result)
        except UnicodeEncodeError as exc:
            raise AssertionError("a result cannot be stored") from exc
        Result.model_validate(stored)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        try:
            read_manifest(_file(directory, "manifest", data))
        except PackageError as exc:
            _sentence(exc)


def settings(data: bytes) -> None:
    """YAML that people write: configs, tokens, contexts; and what a program says that an inventory has."""
    text = data.decode("utf-8", "replace")
    for model in (*config.MODELS.values(), TokenFile, ClientConfig, ClusterFile):
        try:
            config.parse_text(model, text, "file.yml")
        except ConfigError as exc:
            _sentence(exc, "file.yml:")
    try:
        inventory.parse_list(text, "an inventory", "/").select([])
    except (ConfigError, UsageError) as exc:
        _sentence(exc)


def _sentence(exc: JudgeError, start: str = "") -> None:
    text = str(exc)
    assert text.startswith(start), text
    assert text.strip(), "a refusal says why"
    assert text.isprintable() and len(text) < 4000, "in one sentence"


TARGETS: dict[str, Callable[[bytes], None]] = {
    **{name: _importer(name) for name in BASES},
    "package": _importer("package"),
    "check": check,
    "languages": languages,
    "handed": handed_in,
    "validator": validator,
    "results": results,
    "settings": settings,
    "answers": agent.answers,
}
# These need root.
ROOT: dict[str, Callable[[bytes], None]] = {"requests": agent.requests}
ALL = TARGETS | ROOT


def seeds(target: str) -> list[bytes]:
    """The corpus of one target; packages of every format are for `check`, too."""
    inputs = [path.read_bytes() for path in sorted((CORPUS / target).iterdir())]
    if target == "check":
        for base in BASES:
            packages = [item if item.startswith(b"PK") else base.encode() + item for item in seeds(base)]
            inputs += [base.encode(), *packages]
    return inputs
