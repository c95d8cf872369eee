"""Reading problem packages: both formats, and mutated packages that are each refused with the right sentence."""

import gc
import os
import stat
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judge.common.errors import PackageError
from judge.model.problem import ProblemManifest, ProblemType
from judge.problems import metadata, testdata
from judge.problems import tree as tree_module
from judge.problems.archives import open_tree
from judge.problems.package import Package, manifest_bytes, read_package
from judge.problems.reading import held as held_module
from judge.problems.scoring import standing
from tests.support.examples import at_least
from tests.support.packages import archive, folder

Files = dict[str, bytes]

LEGACY: Files = {
    "problem.yaml": b"name: Sum\nlimits:\n  time_limit: 2\nvalidator_flags: float_tolerance 1e-6\n",
    "problem_statement/problem.en.md": b"Add.\n",
    "data/sample/1.in": b"1 2\n",
    "data/sample/1.ans": b"3\n",
    "data/secret/1.in": b"2 2\n",
    "data/secret/1.ans": b"4\n",
    "data/secret/2.in": b"5 5\n",
    "data/secret/2.ans": b"10\n",
    "submissions/accepted/sum.py": b"print(sum(map(int, input().split())))\n",
}
CURRENT: Files = {
    "problem.yaml": b"problem_format_version: 2025-09\nname: {de: Summe, en: Sum}\nuuid: 1\n"
    b"limits: {time_limit: 0.5, memory: 64, output: 2, code: 10, time_multipliers: {ac_to_time_limit: 3}}\n",
    "statement/problem.en.md": b"Add.\n",
    "data/sample/1.in": b"1 2\n",
    "data/sample/1.ans": b"3\n",
    "data/sample/test_group.yaml": b"output_validator_args: [float_tolerance, 1e-6]\n",
    "data/secret/test_group.yaml": b"output_validator_args: [float_tolerance, 1e-6]\n",
    "data/secret/a/1.in": b"2 2\n",
    "data/secret/a/1.ans": b"4\n",
    "data/secret/a/1.yaml": b"description: an easy one\n",
}


SCORING: Files = {**CURRENT, "problem.yaml": CURRENT["problem.yaml"] + b"type: scoring\n",
                  "data/secret/a/test_group.yaml": b"max_score: 5\n"}  # fmt: skip


def changed(base: Files, changes: Mapping[str, bytes | None]) -> Files:
    """The package with some files added or replaced, or (None) removed."""
    merged = {**base, **changes}
    return {name: data for name, data in merged.items() if data is not None}


def yaml_plus(base: Files, extra: bytes) -> Files:
    """The package with lines added to its problem.yaml."""
    return changed(base, {"problem.yaml": base["problem.yaml"] + extra})


def only(text: bytes) -> Files:
    """The legacy package with this problem.yaml."""
    return changed(LEGACY, {"problem.yaml": text})


def refusal(path: Path) -> str:
    with pytest.raises(PackageError) as caught:
        read_package(path)
    text = str(caught.value)
    assert "\n" not in text and len(text) < 500, "one sentence"
    return text


# --- what is read ----------------------------------------------------------------------------------------------


def test_legacy(tmp_path: Path):
    package = read_package(folder(tmp_path, LEGACY))
    manifest = package.manifest
    assert (manifest.name, manifest.title, manifest.limits.cpu) == ("sum", "Sum", 2.0)
    assert manifest.validator_flags == ["float_tolerance", "1e-6"]
    assert [(test.name, test.sample) for test in manifest.tests] == [
        ("sample/1", True), ("secret/1", False), ("secret/2", False),
    ]  # fmt: skip
    assert package.read(manifest.tests[2].answer) == b"10\n"
    assert manifest.blobs() <= set(package.blobs) and len(manifest.blobs()) == 6
    assert manifest.source_bytes == 128 * 1024 and manifest.limits.memory == 2048 * 1024**2
    assert manifest.memory_is_default and manifest.validation_memory_is_default


def test_current(tmp_path: Path):
    manifest = read_package(folder(tmp_path, CURRENT)).manifest
    limits = manifest.limits
    assert (manifest.title, limits.cpu, limits.memory, limits.output) == ("Sum", 0.5, 64 * 1024**2, 2 * 1024**2)
    assert manifest.source_bytes == 10 * 1024
    assert manifest.validator_flags == ["float_tolerance", "1e-6"]
    assert [test.name for test in manifest.tests] == ["sample/1", "secret/a/1"]


@pytest.mark.parametrize(("limit", "own"), [(b"validation_memory: 32", True), (b"validation_time: 5", False)])
def test_memory_that_an_author_asks_for_is_no_default(tmp_path: Path, limit: bytes, own: bool):
    yaml = CURRENT["problem.yaml"].replace(b"code: 10", limit + b", compilation_memory: 512")
    manifest = read_package(folder(tmp_path, changed(CURRENT, {"problem.yaml": yaml}))).manifest
    assert manifest.compile_memory == 512 * 1024**2
    assert manifest.validation.memory == (32 if own else 2048) * 1024**2
    assert manifest.validation_memory_is_default is not own
    assert not manifest.memory_is_default


@pytest.mark.parametrize("base", [LEGACY, CURRENT], ids=["legacy", "2025-09"])
@pytest.mark.parametrize("prefix", ["", "inner/"])
def test_an_archive_reads_as_its_directory(tmp_path: Path, base: Files, prefix: str):
    expected = read_package(folder(tmp_path, base)).manifest
    package = read_package(archive(tmp_path, base, prefix))
    assert package.manifest.name == ("inner" if prefix else "sum")
    assert package.manifest.model_copy(update={"name": "sum"}) == expected
    for test in expected.tests:
        assert package.read(test.input)
    nested = folder(tmp_path / "outer", base, "inner")
    assert read_package(nested.parent).manifest.name == "inner"


def test_tests_and_groups_in_name_order(tmp_path: Path):
    names = ["b", "a/2", "a/1", "a/x/9", "a-b", "10", "9", "c/1"]
    files = {f"data/secret/{name}.{end}": f"{name}{end}".encode() for name in names for end in ("in", "ans")}
    manifest = read_package(folder(tmp_path, changed(LEGACY, files))).manifest
    assert [test.name.removeprefix("secret/") for test in manifest.tests if not test.sample] == [
        "1", "10", "2", "9", "a/1", "a/2", "a/x/9", "a-b", "b", "c/1",
    ]  # fmt: skip


def test_equal_files_are_one_blob(tmp_path: Path):
    package = read_package(
        folder(tmp_path, changed(LEGACY, {"data/secret/2.in": b"2 2\n", "data/secret/2.ans": b"4\n"}))
    )
    assert len(package.manifest.blobs()) == 4


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({"problem.yaml": b"name: Sum\n", ".timelimit": b" 3\n"}, 3.0),
        ({"problem.yaml": b"name: Sum\n", "domjudge-problem.ini": b"timelimit='1.5'\ncolor=#ff0000\n"}, 1.5),
        ({"problem.yaml": b"name: Sum\nlimits: {time_limit: 4}\n", ".timelimit": b"3\n"}, 4.0),
        # As PHP reads it: sections count for nothing, nor do blanks before a key, and the last value counts.
        ({"problem.yaml": b"name: Sum\n", "domjudge-problem.ini": b"[DOMJudge]\nprobid = a\ntimelimit = 2\n"}, 2.0),
        ({"problem.yaml": b"name: Sum\n", "domjudge-problem.ini": b"probid='a'\n  timelimit='2'\r\n"}, 2.0),
        ({"problem.yaml": b"name: Sum\n", "domjudge-problem.ini": b"[a]\ntimelimit=1\n[b]\ntimelimit=2\n"}, 2.0),
        ({"problem.yaml": b"name: Sum\n", "domjudge-problem.ini": b"name=x\n[b] ; all\ntimelimit=2\n"}, 2.0),
        # Nothing says it, and there is nothing to infer it from.
        ({"problem.yaml": b"name: Sum\n", "submissions/accepted/sum.py": None}, 10.0),
    ],
)
def test_time_limits(tmp_path: Path, changes: Files, seconds: float):
    assert read_package(folder(tmp_path, changed(LEGACY, changes))).manifest.limits.cpu == seconds
    assert read_package(tmp_path / "sum", time_limit=7).manifest.limits.cpu == 7


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (b"name: Plain\n", "Plain"),
        (b"name: {sv: Svenska, en: English}\n", "English"),
        (b"name: {sv: Svenska, de: Deutsch}\n", "Deutsch"),
        (b"name: {}\n", "sum"),
        (b'name: "Bell \\a and \\u202e turned"\n', "Bell   and   turned"),
        (b"\xef\xbb\xbfname: With a mark\n", "With a mark"),
        (b"", "sum"),
        (b"# only a comment\n", "sum"),
    ],
)
def test_titles(tmp_path: Path, text: bytes, title: str):
    assert (
        read_package(folder(tmp_path, changed(LEGACY, {"problem.yaml": text, ".timelimit": b"1"}))).manifest.title
        == title
    )


@pytest.mark.parametrize(
    ("ini", "sentence"),
    [
        (b"[sum]\ntime = 2\n", "domjudge-problem.ini: has none of the keys of DOMjudge (time)"),
        (b"[sum]x\ntimelimit = 2\n", "domjudge-problem.ini: is not a list of 'key = value' lines: '[sum]x'"),
    ],
)
def test_an_ini_that_says_nothing_known(tmp_path: Path, ini: bytes, sentence: str):
    package = read_package(
        folder(tmp_path, changed(LEGACY, {"problem.yaml": b"name: Sum\n", "domjudge-problem.ini": ini}))
    )
    assert package.infer
    assert any(sentence in note for note in package.notes)


@pytest.mark.parametrize("key", ["memory", "output"])
def test_a_limit_of_nothing_is_the_usual_one(tmp_path: Path, key: str):
    usual = read_package(folder(tmp_path / "usual", changed(LEGACY, {}))).manifest.limits
    files = changed(LEGACY, {"problem.yaml": b"name: Sum\nlimits: {%s: 0}\n" % key.encode(), ".timelimit": b"1\n"})
    package = read_package(folder(tmp_path / "none", files))
    assert getattr(package.manifest.limits, key) == getattr(usual, key)
    assert any(f"limits.{key}: is 0; the usual limit counts" in note for note in package.notes)


SCORING_THERE: Files = {"problem.yaml": b"type: scoring\n", "domjudge-problem.ini": b"timelimit=1\n"}
GROUP = b"accept_score: 10\ngrader_flags: min\n"


@pytest.mark.parametrize(
    ("places", "counting"),
    [
        (["secret/a"], ["secret/a/1"]),
        (["secret/a", "secret/b/c"], ["secret/a/1", "secret/b/c/1"]),
        (["", "secret", "secret/a"], ["secret/a/1"]),
        (["sample", "secret/a"], ["sample/1", "secret/a/1"]),
    ],
)
def test_domjudges_groups_need_no_settings_above_them(tmp_path: Path, places: list[str], counting: list[str]):
    tests = {f"data/secret/{group}/1.{kind}": b"1\n" for group in ("a", "b/c") for kind in ("in", "ans")}
    data = {name: data for name, data in LEGACY.items() if "secret" not in name}
    files = {f"data/{group}/testdata.yaml".replace("//", "/"): GROUP if group else b"" for group in places}
    manifest = read_package(folder(tmp_path, changed(data, SCORING_THERE | tests | files))).manifest
    assert manifest.dialect == "domjudge"
    assert standing(manifest, {}).used_tests == counting


def test_a_package_none_of_whose_tests_counts_is_refused(tmp_path: Path):
    tests = {f"data/secret/a/1.{kind}": b"1\n" for kind in ("in", "ans")}
    data = {name: data for name, data in LEGACY.items() if "secret" not in name}
    with pytest.raises(PackageError, match="data/secret: none of its tests counts as DOMjudge reads the groups"):
        read_package(folder(tmp_path, changed(data, SCORING_THERE | tests)))


def test_a_name_in_an_old_ini_may_be_in_a_western_encoding(tmp_path: Path):
    ini = "name='Caf\u00e9 \u2013 Zoo'\ntimelimit=1\n".encode("cp1252")
    files = changed(LEGACY, {"problem.yaml": b"", "domjudge-problem.ini": ini})
    assert read_package(folder(tmp_path, files)).manifest.title == "Caf\u00e9 \u2013 Zoo"


def test_ini_name_and_a_given_name(tmp_path: Path):
    files = changed(LEGACY, {"problem.yaml": b"", "domjudge-problem.ini": b"name = 'From DOMjudge'\ntimelimit = 1\n"})
    manifest = read_package(folder(tmp_path, files), name="other").manifest
    assert (manifest.name, manifest.title) == ("other", "From DOMjudge")


def test_rubbish_of_tools_is_ignored(tmp_path: Path):
    junk = {
        ".git/config": b"x", "data/secret/.DS_Store": b"x", "data/secret/._1.in": b"x", "__MACOSX/data/1.in": b"x",
        "data/secret/1.in~": b"x", "data/secret/1.desc": b"x", "data/secret/1.hint": b"x", "data/secret/1.png": b"x",
        "data/invalid_input/1.in": b"x", "submissions/accepted/__pycache__/a.pyc": b"x", "Thumbs.db": b"x",
    }  # fmt: skip
    package = read_package(folder(tmp_path, changed(LEGACY, junk)))
    assert not [path for path in package.submissions if "pycache" in path]
    manifest = package.manifest
    clean = read_package(folder(tmp_path / "clean", LEGACY)).manifest
    assert manifest.model_copy(update={"package": clean.package}) == clean


def test_links_inside_the_package_are_followed(tmp_path: Path):
    root = folder(tmp_path, changed(LEGACY, {"data/secret/2.ans": None}))
    (root / "data/secret/2.ans").symlink_to("../secret/1.ans")
    package = read_package(root)
    assert package.read(package.manifest.tests[2].answer) == b"4\n"
    outer = read_package(_wrapped(root))
    assert outer.manifest == package.manifest


def _wrapped(root: Path) -> Path:
    """The same package, one folder deeper."""
    root.rename(root.with_name("kept"))
    root.mkdir()
    root.with_name("kept").rename(root / "sum")
    return root


def test_flags_of_groups(tmp_path: Path):
    flags = {"problem.yaml": b"name: Sum\nlimits: {time_limit: 1}\nvalidator_flags: case_sensitive\n"}
    deeper = {**flags, "data/testdata.yaml": b"on_reject: continue\noutput_validator_flags: float_tolerance 1e-3\n"}
    manifest = read_package(folder(tmp_path, changed(LEGACY, deeper))).manifest
    assert manifest.validator_flags == ["case_sensitive", "float_tolerance", "1e-3"]
    single = {"data/secret/a/1.yaml": b"output_validator_args: [float_tolerance, 1e-6]\n",
              "data/secret/test_group.yaml": b"full_feedback: true\n"}  # fmt: skip
    manifest = read_package(folder(tmp_path / "one", changed(CURRENT, single))).manifest
    assert manifest.validator_flags == ["float_tolerance", "1e-6"]


def test_big_files_of_an_archive_wait_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(held_module.tempfile, "tempdir", None)
    big = b"0123456789" * 100_000
    path = archive(tmp_path, changed(LEGACY, {"data/secret/2.in": big}))

    def temporary() -> list[Path]:
        return list(tmp_path.glob("judge-package-*"))

    with read_package(path) as package:
        blob = package.blobs[package.manifest.tests[2].input]
        assert isinstance(blob, Path) and package.read(package.manifest.tests[2].input) == big
        assert len(temporary()) == 1
        blob.write_bytes(b"changed")
        with pytest.raises(PackageError, match="changed while the package was imported"):
            package.read(package.manifest.tests[2].input)
        blob.unlink()
        with pytest.raises(PackageError, match="cannot be read"):
            package.read(package.manifest.tests[2].input)
    assert temporary() == []
    package = read_package(path)
    del package
    gc.collect()
    assert temporary() == [], "also without close"
    bad = archive(tmp_path, changed(LEGACY, {"data/secret/1.in": big, "data/secret/2.ans": None}), name="bad.zip")
    assert "2.in: has no answer" in refusal(bad)
    assert temporary() == [], "also when refused"
    monkeypatch.setattr(held_module.tempfile, "mkstemp", _full)
    assert "cannot be unpacked: No space left" in refusal(path)


def _full(**_: object) -> tuple[int, str]:
    handle = os.open("/dev/full", os.O_WRONLY)
    return handle, "/dev/full"


# --- what is refused -------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Files, str]] = {
    "no problem.yaml": (changed(LEGACY, {"problem.yaml": None}), "sum: has no problem.yaml"),
    "no answer": (
        changed(LEGACY, {"data/secret/2.ans": None}),
        "sum/data/secret/2.in: has no answer; expected data/secret/2.ans beside it",
    ),
    "answer without input": (
        changed(LEGACY, {"data/secret/2.in": None}),
        "sum/data/secret/2.ans: is an answer without input; expected data/secret/2.in",
    ),
    "sample without answer": (changed(LEGACY, {"data/sample/1.ans": None}), "sum/data/sample/1.in: has no answer"),
    "no secret tests": (
        {name: data for name, data in LEGACY.items() if "secret" not in name},
        "sum/data/secret: has no tests",
    ),
    "samples only where they have no points": (
        {name: data for name, data in LEGACY.items() if "secret" not in name}
        | {"problem.yaml": b"type: scoring\n", "domjudge-problem.ini": b"timelimit=1\n"},
        "sum/data/secret: has no tests",
    ),
    "no tests at all": (
        {name: data for name, data in LEGACY.items() if "data" not in name},
        "sum/data/secret: has no tests",
    ),
    "bad YAML": (yaml_plus(LEGACY, b"grading: [\n"), "sum/problem.yaml:6: not YAML"),
    "a tab": (yaml_plus(LEGACY, b"\tgrading: 1\n"), "sum/problem.yaml:5: not YAML: there is a tab"),
    "not a mapping": (changed(LEGACY, {"problem.yaml": b"- a\n"}), "sum/problem.yaml:1: expected a mapping"),
    "not UTF-8": (yaml_plus(LEGACY, b"source: \xff\n"), "sum/problem.yaml:5: is not UTF-8 text"),
    "control character": (yaml_plus(LEGACY, b"source: \x01\n"), "sum/problem.yaml:5: not YAML"),
    "unknown key": (yaml_plus(LEGACY, b"validator_flag: x\n"), "sum/problem.yaml:5: unknown key 'validator_flag'; did"),
    "key twice": (yaml_plus(LEGACY, b"name: Again\n"), "sum/problem.yaml:5: key 'name' occurs twice"),
    "key that is a list": (yaml_plus(LEGACY, b"? [a]\n: b\n"), "sum/problem.yaml:5: a key must be a word"),
    "alias": (yaml_plus(LEGACY, b"author: &a x\nsource: *a\n"), "sum/problem.yaml:6: uses a YAML alias"),
    "laughs": (
        yaml_plus(LEGACY, b"keywords:\n- &a [x, x]\n" + b"".join(b"- &%c [*%c, *%c]\n" % (98 + i, 97 + i, 97 + i)
                                                                for i in range(20))),
        "uses a YAML alias",
    ),
    "deep": (yaml_plus(LEGACY, b"keywords: " + b"[" * 5000 + b"]" * 5000 + b"\n"), "problem.yaml:5: is nested deeper"),
    "tag": (yaml_plus(LEGACY, b"source: !!python/object/apply:os.getcwd []\n"), "sum/problem.yaml:5: not YAML"),
    "no such date": (yaml_plus(LEGACY, b"version: !!timestamp 2025-13-45\n"), "5: has a value that cannot be read"),
    "huge integer": (yaml_plus(LEGACY, b"source: " + b"9" * 9999 + b"\n"), "has a value that cannot be read"),
    "huge file": (yaml_plus(LEGACY, b"# " + b"x" * 300_000), "problem.yaml: has 300074 bytes; at most 262144"),
    "huge time limit": (
        changed(LEGACY, {"problem.yaml": b"limits:\n  time_limit: 1e30\n"}),
        "sum/problem.yaml:2: limits.time_limit",
    ),
    "negative time limit": (only(b"limits: {time_limit: -1}\n"), "sum/problem.yaml:1: limits.time_limit"),
    "infinite time limit": (only(b"limits: {time_limit: .inf}\n"), "limits.time_limit"),
    "NaN memory": (only(b"limits: {time_limit: 1, memory: .nan}\n"), "limits.memory"),
    "huge memory": (only(b"limits: {time_limit: 1, memory: 10000000}\n"), "limits.memory"),
    "huge output": (only(b"limits: {time_limit: 1, output: 5000}\n"), "limits.output"),
    "text for a number": (only(b"limits: {time_limit: long}\n"), "limits.time_limit"),
    "more time to compile": (only(b"limits: {compilation_time: 601}\n"), "sum/problem.yaml:1: limits.compilation_time"),
    "bad .timelimit": (
        changed(LEGACY, {"problem.yaml": b"name: Sum\n", ".timelimit": b"soon\n"}),
        "sum/.timelimit: the time limit must be a number of seconds from 0 to 600, found 'soon'",
    ),
    "infinite .timelimit": (changed(LEGACY, {"problem.yaml": b"", ".timelimit": b"inf"}), "sum/.timelimit: the time"),
    "NaN ini": (
        changed(LEGACY, {"problem.yaml": b"", "domjudge-problem.ini": b"timelimit=nan\n"}),
        "sum/domjudge-problem.ini: timelimit: the time limit must be",
    ),
    "DOMjudge's validator": (
        changed(LEGACY, {"domjudge-problem.ini": b"special_compare=x\n"}),
        "sum/domjudge-problem.ini: special_compare: programs outside the package cannot be run here",
    ),
    "unknown type": (yaml_plus(LEGACY, b"type: guessing\n"), "yaml:5: type: 'guessing' is not a type of problem"),
    "empty type": (yaml_plus(LEGACY, b"type: []\n"), "yaml:5: type: '' is not a type"),
    "pass-fail and scoring": (yaml_plus(LEGACY, b"type: [scoring, pass-fail]\n"), "yaml:5: type: 'scoring, pass-fail'"),
    "outputs that run": (yaml_plus(CURRENT, b"type: [submit-answer, interactive]\n"), "interactive' contradicts"),
    "outputs that run, by validation": (
        yaml_plus(LEGACY, b"validation: custom multi-pass\ntype: submit-answer\n"),
        "type: pass-fail, multi-pass, submit-answer contradict each other",
    ),
    "interactive": (yaml_plus(CURRENT, b"type: [pass-fail, interactive]\n"), "type: interactive problems need a"),
    "multi-pass": (yaml_plus(CURRENT, b"type: multi-pass\n"), "sum/problem.yaml:5: type: multi-pass problems need a"),
    "custom validation": (
        yaml_plus(LEGACY, b"validation: custom interactive\n"),
        "sum/problem.yaml:5: validation: is custom, but output_validators has no program",
    ),
    "unknown validation": (yaml_plus(LEGACY, b"validation: custom fast\n"), "yaml:5: validation: 'custom fast' is not"),
    "validation in 2025-09": (
        yaml_plus(CURRENT, b"validation: custom\n"), "validation: is custom, but output_validator has no program",
    ),
    "validator that is none": (
        changed(CURRENT, {"output_validator/README": b"x"}),
        "sum/output_validator/README: no language of the table has this suffix",
    ),
    "validator in several languages": (
        changed(CURRENT, {"output_validator/a.py": b"x", "output_validator/b.c": b"x"}),
        "sum/output_validator: is in several languages",
    ),
    "Python validator without a start": (
        changed(CURRENT, {"output_validator/a.py": b"x", "output_validator/b.py": b"x"}),
        "sum/output_validator: has several Python files and no __main__.py",
    ),
    "validator's name": (
        changed(CURRENT, {"output_validator/a b.py": b"x"}),
        "sum/output_validator/a b.py: a program's file must be named with",
    ),
    "languages": (yaml_plus(CURRENT, b"languages: [klingon]\n"), "yaml:5: languages: none of 'klingon' is judged here"),
    "all and some languages": (yaml_plus(CURRENT, b"languages: [all, c]\n"), "yaml:5: languages: must be 'all', or"),
    "constants": (yaml_plus(CURRENT, b"constants: {a-b: 1}\n"), "constants: 'a-b' cannot be a constant's name"),
    "multiplier": (only(b"limits: {time_limit: 1, time_multipliers: {ac_to_time_limit: 0.5}}\n"), "ac_to_time_limit"),
    "format version": (
        yaml_plus(LEGACY, b"problem_format_version: 2042-01\n"),
        "yaml:5: problem_format_version: '2042-01' is not known; expected one of legacy, legacy-icpc, 2023-07-draft",
    ),
    "name of a wrong type": (only(b"name: [a]\n"), "sum/problem.yaml:1: name"),
    "bad flag": (
        changed(LEGACY, {"problem.yaml": b"limits: {time_limit: 1}\nvalidator_flags: case-sensitive\n"}),
        "sum/problem.yaml: validator_flags: the default validator has no flag 'case-sensitive'",
    ),
    "bad tolerance": (
        changed(LEGACY, {"problem.yaml": b"limits: {time_limit: 1}\nvalidator_flags: float_tolerance\n"}),
        "validator_flags: flag float_tolerance needs a tolerance",
    ),
    "flags of a wrong type": (only(b"validator_flags: {a: b}\n"), "sum/problem.yaml:1: validator_flags"),
    "tolerance twice": (
        changed(CURRENT, dict.fromkeys(("data/sample/test_group.yaml", "data/secret/test_group.yaml"),
                                       b"output_validator_args: [float_tolerance, 1, float_tolerance, 2]\n")),
        "output_validator_args: flag float_tolerance contradicts",
    ),
    "flags of one test": (
        changed(CURRENT, {"data/secret/a/1.yaml": b"output_validator_args: [case-sensitive]\n"}),
        "sum/data/secret/a/1.yaml: output_validator_args: the default validator has no flag 'case-sensitive'",
    ),
    "score without scoring": (
        changed(CURRENT, {"data/secret/a/test_group.yaml": b"max_score: 5\n"}),
        "sum/data/secret/a/test_group.yaml:1: max_score: is for scoring problems",
    ),
    "legacy score without scoring": (
        changed(LEGACY, {"data/testdata.yaml": b"range: 0 100\n"}),
        "sum/data/testdata.yaml:1: range: is for scoring problems",
    ),
    "score of a test": (
        changed(SCORING, {"data/secret/a/1.yaml": b"max_score: 5\n"}), "1.yaml:1: max_score: belongs to a group's",
    ),
    "score of samples": (changed(SCORING, {"data/sample/test_group.yaml": b"max_score: 5\n"}), "samples give no score"),
    "negative score": (changed(SCORING, {"data/secret/a/test_group.yaml": b"max_score: -1\n"}), "'-1' is no score"),
    "fractional score": (
        changed(SCORING, {"data/secret/a/test_group.yaml": b"max_score: 1.5\n"}),
        "max_score: '1.5' is no score; expected a whole number of 0 or more, or 'unbounded'",
    ),
    "no score": (
        changed(SCORING, {"data/secret/a/test_group.yaml": b"max_score: [1]\n"}),
        "max_score: '[1]' is no score; expected a whole number of 0 or more, or 'unbounded'",
    ),
    "unbounded pass-fail": (
        changed(SCORING, {"data/secret/a/test_group.yaml": b"max_score: unbounded\n"}),
        "sum/data/secret/a/test_group.yaml: max_score: a group with aggregation pass-fail needs a maximum",
    ),
    "unbounded group": (
        changed(SCORING, {"data/secret/a/test_group.yaml": b"score_aggregation: sum\n"}),
        "sum/data/secret/a/test_group.yaml: max_score: is unbounded, but that of secret is 100",
    ),
    "aggregation": (
        changed(SCORING, {"data/secret/test_group.yaml": b"score_aggregation: pass-fail\n",
                          "data/secret/a/test_group.yaml": b"max_score: 5\nscore_aggregation: sum\n"}),
        "sum/data/secret/a/test_group.yaml: score_aggregation: must be pass-fail, as it is for secret",
    ),
    "required group": (
        changed(SCORING, {"data/secret/a/test_group.yaml": b"max_score: 5\nrequire_pass: secret/b\n"}),
        "require_pass: 'secret/b' is no group that comes before this one",
    ),
    "range": (
        changed(yaml_plus(LEGACY, b"type: scoring\n"), {"data/testdata.yaml": b"range: 5 1\n"}),
        "sum/data/testdata.yaml:1: range: '5 1' is not two numbers, the smaller first",
    ),
    "accept_score": (
        changed(yaml_plus(LEGACY, b"type: scoring\n"), {"data/testdata.yaml": b"accept_score: many\n"}),
        "sum/data/testdata.yaml:1: accept_score: 'many' is not a number",
    ),
    "group in a group": (
        changed(SCORING, {"data/secret/a/b/test_group.yaml": b"max_score: 1\n", "data/secret/a/b/1.in": b"",
                          "data/secret/a/b/1.ans": b""}),
        "sum/data/secret/a/b/test_group.yaml:1: is a group inside a group",
    ),
    "test and folder": (
        changed(SCORING, {"data/secret/a/1/2.in": b"", "data/secret/a/1/2.ans": b""}),
        "sum/data/secret/a/1: is both a test and a folder",
    ),
    "static test": (changed(CURRENT, {"data/secret/test_group.yaml": b"static_validation_score: 1\n"}),
                    "sum/data/secret/test_group.yaml:1: static_validation_score: no score is given here"),
    "tests and groups": (
        changed(SCORING, {"data/secret/1.in": b"", "data/secret/1.ans": b""}),
        "sum/data/secret: has both tests and groups",
    ),
    "grading": (
        changed(LEGACY, {"data/testdata.yaml": b"grading: custom\n"}),
        "sum/graders: has no program, but testdata.yaml says grading: custom",
    ),
    "flags for one validator": (
        changed(LEGACY, {"data/testdata.yaml": b"output_validator_flags: {name: a, flags: b}\n"}),
        "sum/data/testdata.yaml: output_validator_flags: the default validator has no flag 'b'",
    ),
    "on_reject": (changed(LEGACY, {"data/testdata.yaml": b"on_reject: maybe\n"}), "data/testdata.yaml:1: on_reject"),
    "deep folders": (changed(LEGACY, {"data/secret/" + "a/" * 20 + "1.in": b""}), "nested deeper than 16 folders"),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(REFUSED))
def test_refused(tmp_path: Path, kind: str):
    files, sentence = REFUSED[kind]
    message = refusal(folder(tmp_path, files))
    assert sentence in message
    zipped = refusal(archive(tmp_path, files))
    assert sentence.replace("sum/", "").replace("sum:", "") in zipped.replace("sum.zip/", ""), (
        "an archive is no way around"
    )


@pytest.mark.parametrize("name", ["", "-x", "a b", "ü", "x" * 64])
def test_names_that_cannot_be(tmp_path: Path, name: str):
    with pytest.raises(PackageError, match="cannot be a problem's name"):
        read_package(folder(tmp_path, LEGACY, "bad name"), name=name or None)


def test_no_package_at_all(tmp_path: Path):
    assert "there is no such directory or ZIP archive" in refusal(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    assert "has no problem.yaml" in refusal(tmp_path / "empty")
    (tmp_path / "text.zip").write_text("not a zip")
    assert "is not a ZIP archive that can be read" in refusal(tmp_path / "text.zip")
    os.mkfifo(tmp_path / "pipe")
    assert "there is no such" in refusal(tmp_path / "pipe")


# --- hostile directories ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "/proc/self/environ", "/"])
def test_links_that_lead_out(tmp_path: Path, target: str):
    (tmp_path / "outside").write_text("secret")
    root = folder(tmp_path, LEGACY)
    (root / "data/secret/3.in").symlink_to(target)
    assert "sum/data/secret/3.in: links to " in refusal(root)
    assert target != "/" or "links to something outside" in refusal(root)


@pytest.mark.parametrize("target", [".", "nowhere", "link", ".."])
def test_links_to_folders_and_nowhere(tmp_path: Path, target: str):
    root = folder(tmp_path, LEGACY)
    (root / "data/secret/link").symlink_to(target)
    assert "links to what is not a file of the package" in refusal(root)


def test_special_files(tmp_path: Path):
    root = folder(tmp_path, LEGACY)
    os.mkfifo(root / "data/secret/3.in")
    assert "sum/data/secret/3.in: is neither a file nor a folder" in refusal(root)


def test_names_that_are_not_utf8(tmp_path: Path):
    root = folder(tmp_path, LEGACY)
    Path(os.fsdecode(os.fsencode(root) + b"/data/secret/\xff.in")).write_text("x")
    assert "the file name is not UTF-8; rename it" in refusal(root)


def test_an_unreadable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    root = folder(tmp_path, LEGACY)
    real = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("secret"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert "data/secret: cannot be read: Permission denied" in refusal(root)


def test_a_file_that_changes_while_it_is_read(tmp_path: Path):
    root = folder(tmp_path, LEGACY)
    for data in (b"1", b"12345678"):
        tree = open_tree(root)
        (root / "data/secret/1.in").write_bytes(data)
        with pytest.raises(PackageError, match="changed while it was read"):
            list(tree.chunks("data/secret/1.in"))
    (root / "data/secret/1.in").unlink()
    with pytest.raises(PackageError, match="cannot be read"):
        list(tree.chunks("data/secret/1.in"))


@pytest.mark.parametrize(
    ("module", "limit", "value", "sentence"),
    [
        (tree_module, "MAX_FILES", 8, "has more than 8 files"),
        (tree_module, "MAX_TOTAL_BYTES", 100, "has more than 100 bytes when unpacked"),
        (tree_module, "MAX_FILE_BYTES", 30, "a file may have at most 30"),
        (tree_module, "MAX_NAME_BYTES", 5, "the name is too long"),
        (testdata, "MAX_TESTS", 2, "/data: has more than 2 tests"),
    ],
)
def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: object, limit: str, value: int, sentence: str):
    monkeypatch.setattr(module, limit, value)
    assert sentence in refusal(folder(tmp_path, LEGACY))
    assert sentence in refusal(archive(tmp_path, LEGACY))


# --- hostile archives ------------------------------------------------------------------------------------------


def entry(
    name: str, data: bytes = b"x", mode: int = stat.S_IFREG | 0o644, **fields: int
) -> tuple[zipfile.ZipInfo, bytes]:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


@pytest.mark.parametrize(
    ("name", "mode", "sentence"),
    [
        ("../evil.in", stat.S_IFREG, "leads out of the archive"),
        ("data/../../evil", stat.S_IFREG, "leads out of the archive"),
        ("/etc/passwd", stat.S_IFREG, "leads out of the archive"),
        ("C:/evil", stat.S_IFREG, "leads out of the archive"),
        ("data\\secret\\1.in", stat.S_IFREG, "is in the archive twice"),
        ("data\\..\\..\\evil.in", stat.S_IFREG, "leads out of the archive"),
        ("\\evil.in", stat.S_IFREG, "leads out of the archive"),
        ("C:\\evil.in", stat.S_IFREG, "leads out of the archive"),
        ("data//secret/3.in", stat.S_IFREG, "leads out of the archive"),
        ("data/secret/3.in", stat.S_IFLNK, "is a link or a special file"),
        ("data/secret/3.in", stat.S_IFIFO, "is a link or a special file"),
        ("data/secret/3.in", stat.S_IFCHR, "is a link or a special file"),
        ("data/secret/" + "x" * 300 + ".in", stat.S_IFREG, "the name is too long"),
        ("data/secret/1.in", stat.S_IFREG, "is in the archive twice"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_hostile_entries(tmp_path: Path, name: str, mode: int, sentence: str):
    path = archive(tmp_path, LEGACY)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(*entry(name, mode=mode | 0o644))
    assert sentence in refusal(path)
    assert sorted(item.name for item in tmp_path.iterdir()) == ["sum.zip"], "nothing is unpacked"


def patched(path: Path, old: bytes, new: bytes) -> Path:
    """The archive with some bytes replaced everywhere (of its local headers and its directory)."""
    data = path.read_bytes()
    assert old in data and len(old) == len(new)
    path.write_bytes(data.replace(old, new))
    return path


def test_entry_names_that_are_not_utf8(tmp_path: Path):
    path = patched(archive(tmp_path, changed(LEGACY, {"data/secret/QQ.in": b""})), b"QQ", b"\xff\xfe")
    assert "the file name is not UTF-8" in refusal(path)
    flagged = archive(tmp_path, changed(LEGACY, {"data/secret/ä.in": b""}), name="flagged.zip")
    assert "is not a ZIP archive that can be read" in refusal(patched(flagged, "ä".encode(), b"\xff\xfe"))


def test_encrypted_entries(tmp_path: Path):
    path = archive(tmp_path, LEGACY)
    data = bytearray(path.read_bytes())
    place = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 1)
    data[place + 8] |= 1
    path.write_bytes(data)
    assert "is encrypted; pack it without a password" in refusal(path)


def test_a_zip_bomb_is_refused_before_it_is_read(tmp_path: Path):
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in LEGACY.items():
            file.writestr(name, data)
        with file.open("data/secret/9.in", "w") as big:
            for _ in range(300):
                big.write(bytes(1024**2))
    assert path.stat().st_size < 1024**2
    assert "data/secret/9.in: has 314572800 bytes; a file may have at most" in refusal(path)


@pytest.mark.parametrize("claimed", [1, 100])
def test_sizes_that_lie(tmp_path: Path, claimed: int):
    path = archive(tmp_path, LEGACY)
    data = bytearray(path.read_bytes())
    place = data.index(b"data/secret/1.in", data.index(b"PK\x01\x02")) - 46
    assert data[place : place + 4] == b"PK\x01\x02"
    data[place + 24 : place + 28] = struct.pack("<I", claimed)
    path.write_bytes(data)
    message = refusal(path)
    assert "data/secret/1.in: is damaged in the archive" in message or "is not as long as" in message


def test_damaged_content(tmp_path: Path):
    path = archive(tmp_path, changed(LEGACY, {"data/secret/1.in": bytes(range(256)) * 20}))
    data = bytearray(path.read_bytes())
    place = data.index(b"data/secret/1.in") + 40
    data[place : place + 20] = bytes(20)
    path.write_bytes(data)
    assert "data/secret/1.in: is damaged in the archive" in refusal(path)
    unknown = bytearray(archive(tmp_path, LEGACY, name="unknown.zip").read_bytes())
    place = unknown.index(b"data/secret/1.in", unknown.index(b"PK\x01\x02")) - 46
    unknown[place + 10] = 77  # a compression method that nobody knows
    (tmp_path / "unknown.zip").write_bytes(unknown)
    assert "is damaged in the archive" in refusal(tmp_path / "unknown.zip")


# --- anything at all -------------------------------------------------------------------------------------------

FUZZ = settings(max_examples=at_least(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
WORDS = st.sampled_from(
    ["name", "type", "limits", "time_limit", "memory", "validation", "validator_flags", "pass-fail", "scoring",
     "custom", "problem_format_version", "2025-09", "legacy", "1e309", "0", ".nan", "1", "2.5", "null", "en", "~"]
)  # fmt: skip
VALUES = st.recursive(
    WORDS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4), max_leaves=10
)


def judged_or_refused(read: Callable[[], Package]) -> None:
    """Whatever comes, it is a package or one sentence."""
    try:
        package = read()
    except PackageError as exc:
        message = str(exc)
    else:
        message = ""
        assert package.manifest.tests
        package.close()
    assert message.isprintable() and len(message) < 600


@FUZZ
@given(st.dictionaries(WORDS, VALUES, max_size=6))
def test_any_problem_yaml(tmp_path: Path, value: dict[str, object]):
    import json

    text = json.dumps(value).replace('"', "").encode()
    root = folder(tmp_path, changed(LEGACY, {"problem.yaml": text, ".timelimit": b"1"}))
    judged_or_refused(lambda: read_package(root))


@pytest.mark.parametrize(
    ("extra", "types", "kind"),
    [
        ("", ["pass-fail"], "pass-fail"),
        ("type: scoring\n", ["scoring"], "scoring"),
        ("type: [multi-pass, interactive, scoring]\n", ["scoring", "interactive", "multi-pass"],
         "scoring, interactive, multi-pass"),
        ("validation: custom interactive\n", ["pass-fail", "interactive"], "pass-fail, interactive"),
        ("validation: custom score multi-pass\ntype: [pass-fail]\n", ["pass-fail", "multi-pass"],
         "pass-fail, multi-pass"),
    ],
)  # fmt: skip
def test_type_and_validation_give_one_list_of_types(extra, types, kind):
    yaml = metadata.parse(metadata.ProblemYaml, f"name: X\n{extra}".encode(), "problem.yaml")
    assert yaml.types == types
    manifest = ProblemManifest(name="x", tests=[], type=yaml.types)
    assert manifest.kind == kind
    assert ProblemManifest.received(manifest_bytes(manifest)) == manifest


def test_every_type_of_problem_is_documented():
    page = (Path(__file__).parents[2] / "docs/problems-format.md").read_text()
    assert [kind for kind in ProblemType if f"`{kind}`" not in page] == []
