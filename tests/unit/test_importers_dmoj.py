"""Problems of DMOJ: each shape of init.yml that its documentation and public problems have."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from judge.common.errors import PackageError
from judge.model.problem import ProblemProgram, ProblemType
from judge.problems import answers
from judge.problems.importers import ImporterWords, open_package_tree
from judge.problems.importers.dmoj import programs
from judge.problems.package import Package, read_package
from tests.support.packages import ByteFiles, archive, folder, refused

CASES = "test_cases:\n- {in: 1.in, out: 1.out, points: 40}\n- {in: 2.in, out: 2.out, points: 60}\n"
CHECKER = b'#include "testlib.h"\nint main(int c, char** v) { registerTestlibCmd(c, v); quitf(_ok, ""); }\n'


def data(*names: str) -> ByteFiles:
    return {name: f"{name}\n".encode() for name in names}


PLAIN = data("1.in", "1.out", "2.in", "2.out")


def packed(files: ByteFiles) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in files.items():
            file.writestr(name, content)
    return buffer.getvalue()


def dmoj(init: str, files: ByteFiles | None = None) -> ByteFiles:
    return {"init.yml": init.encode(), **(PLAIN if files is None else files)}


def load(tmp_path: Path, init: str, files: ByteFiles | None = None, **options: Any) -> Package:
    return read_package(folder(tmp_path, dmoj(init, files), "aplusb"), options=ImporterWords(**options))


def groups_of(package: Package) -> list[tuple[str, float | None, str, list[str]]]:
    return [(group.name, group.max_score, group.aggregation, group.require_pass) for group in package.manifest.groups]


def validator_of(package: Package) -> ProblemProgram:
    return package.manifest.validators[0]


def inputs(package: Package) -> dict[str, str]:
    return {test.name: package.read(test.input).decode().strip() for test in package.manifest.tests}


# --- tests -------------------------------------------------------------------------------------------------------


def test_cases_with_points(tmp_path: Path) -> None:
    package = load(tmp_path, CASES)
    assert package.manifest.name == "aplusb" and package.manifest.validator_flags == ["case_sensitive"]
    assert groups_of(package) == [
        ("secret", 100, "sum", []), ("secret/1_01", 40, "sum", []), ("secret/2_02", 60, "sum", []),
    ]  # fmt: skip
    assert package.infer and any(note.startswith("not carried over: time and memory limit") for note in package.notes)


def test_names_that_yaml_has_as_truth_values(tmp_path: Path) -> None:
    """`no`, `on` and `yes` are names of files here."""
    init = "file_io: {input: no, output: yes}\ntest_cases:\n- {in: on, out: off, points: 1}\n"
    with load(tmp_path, init, data("on", "off")) as package:
        assert list(inputs(package).values()) == ["on"]
        assert package.manifest.task is not None
        assert (package.manifest.task.input_file, package.manifest.task.output_file) == ("no", "yes")


def test_cases_of_the_same_worth_share_a_group(tmp_path: Path) -> None:
    init = "points: 20\ntest_cases:\n" + "".join(f"- {{in: {n}.in, out: {n}.out}}\n" for n in range(1, 6))
    files = data(*(f"{n}.{end}" for n in range(1, 6) for end in ("in", "out")))
    package = load(tmp_path, init, files)
    assert groups_of(package) == [("secret", 100, "sum", []), ("secret/1_01", 100, "sum", [])]
    assert list(inputs(package).values()) == ["1.in", "2.in", "3.in", "4.in", "5.in"]


def test_without_any_points_it_is_pass_fail(tmp_path: Path) -> None:
    package = load(tmp_path, "test_cases:\n- {in: 1.in, out: 1.out}\n- {in: 2.in, out: 2.out}\n")
    assert package.manifest.type == [ProblemType.PASS_FAIL] and len(package.manifest.tests) == 2


BATCHES = """
archive: tests.zip
test_cases:
- {points: 0, in: p0.in, out: p0.out}
- {points: 10, in: p1.in, out: p1.out}
- points: 30
  batched:
  - {in: b1.in, out: b1.out}
  - {in: b2.in, out: b2.out}
- points: 60
  batched:
  - {in: c1.in, out: c1.out}
  dependencies: [1]
"""
BATCHED = {"tests.zip": packed(data(*(f"{n}.{end}" for n in ("p0", "p1", "b1", "b2", "c1") for end in ("in", "out"))))}


def test_batches_in_an_archive(tmp_path: Path) -> None:
    package = load(tmp_path, BATCHES, BATCHED)
    assert groups_of(package) == [
        ("secret", 100, "sum", []),
        ("secret/1_01", 0, "pass-fail", []),
        ("secret/2_02", 10, "sum", ["secret/1_01"]),
        ("secret/3_03", 30, "pass-fail", ["secret/1_01"]),
        ("secret/4_04", 60, "pass-fail", ["secret/1_01", "secret/3_03"]),
    ]
    assert inputs(package)["secret/3_03/03_02"] == "b2.in"
    assert "carried over: 5 cases, 2 batches, 0 pretests" in package.notes, "a batch of one case is a batch"
    nested = archive(tmp_path, dmoj(BATCHES, BATCHED), "aplusb/", "aplusb.zip")
    with read_package(nested) as zipped:
        assert inputs(zipped) == inputs(package), "an archive in an archive is read as well"


@pytest.mark.parametrize("prefix", ["", "tests/"])
def test_an_archive_that_was_unpacked(prefix: str, tmp_path: Path) -> None:
    files = {prefix + name: content for name, content in PLAIN.items()}
    package = load(tmp_path, "archive: tests.zip\n" + CASES, files)
    with package:
        assert list(inputs(package).values()) == ["1.in", "2.in"]
        assert any("as the archive tests.zip is not there" in note for note in package.notes)


def test_a_batch_depends_on_one_that_gives_parts_of_its_points(tmp_path: Path) -> None:
    files = {**BATCHED, "checker.cpp": CHECKER, "testlib.h": b"// testlib\n"}
    init = BRIDGED.replace("TYPE", "coci") + BATCHES.replace("- {points: 0, in: p0.in, out: p0.out}\n", "")
    package = load(tmp_path, init, files)
    assert groups_of(package)[-2:] == [
        ("secret/2_02", 30, "min", []),
        ("secret/3_03", 60, "min", ["secret/2_02"]),
    ]
    assert any("also with a part of their points" in note for note in package.notes)


def test_dependencies_by_their_older_name(tmp_path: Path) -> None:
    older = load(tmp_path / "older", BATCHES.replace("dependencies", "requirements"), BATCHED)
    assert groups_of(older) == groups_of(load(tmp_path / "newer", BATCHES, BATCHED))


def test_keys_that_nobody_knows_are_said(tmp_path: Path) -> None:
    package = load(tmp_path, "authors: [x]\n" + CASES.replace("points: 40", "points: 40, colour: red"))
    notes = "\n".join(package.notes)
    assert "authors: nothing is known of this key" in notes and "test_cases: colour: nothing is known" in notes


PRETEST = "pretest_test_cases:\n- {in: 2.in, out: 2.out, points: 5}\n"


@pytest.mark.parametrize(
    ("init", "groups"),
    [
        (PRETEST + "- {in: 1.in, out: 1.out, points: 7}\n", [(12, "sum", []), (5, "sum", []), (7, "sum", [])]),
        (
            PRETEST + CASES[: CASES.index("- {in: 2")],
            [(40, "sum", []), (0, "pass-fail", []), (40, "sum", ["secret/1_01"])],
        ),
    ],
)
def test_pretests_come_first_or_alone(init: str, groups: list[object], tmp_path: Path) -> None:
    assert [group[1:] for group in groups_of(load(tmp_path, init))] == groups


PATTERN = """
archive: t.zip
test_cases:
  input_format: '^in(?P<case>\\d+)$'
  output_format: '^out(?P<case>\\d+)$'
  case_points: [20, 80]
"""
PATTERNS: dict[str, tuple[str, list[str], list[str]]] = {
    "by default": ("archive: t.zip\n", ["a.1.in", "a.1.out", "a.10.in", "a.10.out", "a.2.in", "a.2.out"],
                   ["a.1.in", "a.2.in", "a.10.in"]),
    "batches": ("archive: t.zip\npoints: 5\n", ["b-1-case-2.in", "b-1-case-2.out", "b-1-case-1.in", "b-1-case-1.out"],
                ["b-1-case-1.in", "b-1-case-2.in"]),
    "mixed": ("archive: t.zip\n", ["1.in", "1.out", "2.1.in", "2.1.out", "2.2.in", "2.2.out", "3.in", "3.out"],
              ["1.in", "2.1.in", "2.2.in", "3.in"]),
    "patterns": (PATTERN, ["in1", "out1", "in2", "out2"], ["in1", "in2"]),
}  # fmt: skip


@pytest.mark.parametrize("shape", PATTERNS)
def test_cases_by_the_names_of_files(shape: str, tmp_path: Path) -> None:
    init, names, expected = PATTERNS[shape]
    package = load(tmp_path, init, {"t.zip": packed(data(*names))})
    assert list(inputs(package).values()) == expected


def test_a_pattern_that_takes_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judge.problems.importers.dmoj.tests._SECONDS", 1.0)
    init = "archive: t.zip\ntest_cases: {input_format: '^((a+)+)+(?P<case>x)$'}\n"
    assert "takes longer than 1 s" in refused(load, tmp_path, init, {"t.zip": packed(data("a" * 60))})


# --- programs ----------------------------------------------------------------------------------------------------

FLAGS = {
    "checker: floats\n": ["case_sensitive", "float_tolerance", "1e-6"],
    "checker: {name: floats, args: {precision: 4, error_mode: relative}}\n": [
        "case_sensitive", "float_relative_tolerance", "1e-4"],
    "checker: floatsabs\nchecker_args: {precision: 2}\n": ["case_sensitive", "float_absolute_tolerance", "1e-2"],
    "checker: standard\n": ["case_sensitive"],
    "checker: {name: floats, args: {precision: '4'}}\n": ["case_sensitive", "float_tolerance", "1e-4"],
    "checker: {name: sorted, args: {split_on: whitespace}}\n": ["unordered"],
}  # fmt: skip


@pytest.mark.parametrize("checker", FLAGS)
def test_checkers_that_are_the_default_validator(checker: str, tmp_path: Path) -> None:
    package = load(tmp_path, checker + CASES)
    assert package.manifest.validator_flags == FLAGS[checker]


COMPARISONS = [
    ("identical", b"a b\n", b"a b", 42), ("identical", b"a  b\n", b"a b\n", 43),
    ("rstripped", b"a \nb\n\n", b"a\nb\n", 42), ("rstripped", b" a\n", b"a\n", 43),
    ("sorted", b"b 1\na\n", b"a\nb  1\n", 42), ("sorted", b"1 b\na\n", b"a\nb 1\n", 43),
    ("unordered", b"2\n1 3", b"1 2 3\n", 42), ("unordered", b"1 2", b"1 2 2\n", 43),
    ("easy", b"ab C", b"cb\na\n", 42), ("easy", b"ab", b"abb\n", 43),
    ("linecount", b"1\n2\n", b"1\n2\n", 42), ("linecount", b"1\n3\n", b"1\n2\n", 43), ("linecount", b"", b"1\n", 43),
    ("linecount", b"1\n2\n3\n", b"1\n2\n", 43), ("linecount", b"1\n", b"", 43), ("linecount", b"", b"\n", 42),
    ("linecount", b"a b garbage\n", b"a b\n", 43), ("linecount", b"a  b\n", b"a b\n", 43),
    ("linecount", b"\n a \n\nb", b"a\nb\n", 42),
]  # fmt: skip


def ask(directory: Path, output: bytes, answer: bytes, *flags: str) -> tuple[int, str]:
    """The exit code and score of a package's validator in Python."""
    (directory / "feedback").mkdir(exist_ok=True)
    (directory / "answer").write_bytes(answer)
    (directory / "input").write_bytes(b"7\n")
    files = [str(directory / name) for name in ("input", "answer", "feedback")]
    main = next(
        path for name in ("__main__.py", "compare.py") if (path := directory / "output_validator" / name).exists()
    )
    process = subprocess.run(
        [sys.executable, str(main), *files, *flags], input=output, capture_output=True, check=False
    )
    score = directory / "feedback/score.txt"
    return process.returncode, score.read_text().strip() if score.exists() else process.stderr.decode()


def unpacked(tmp_path: Path, init: str, files: ByteFiles | None = None) -> Path:
    tree = open_package_tree(folder(tmp_path, dmoj(init, files), "aplusb")).tree
    for path in tree.below("output_validator"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(tree.read(path, 1 << 20))
    return tmp_path


@pytest.mark.parametrize(("checker", "output", "answer", "code"), COMPARISONS)
def test_comparisons(checker: str, output: bytes, answer: bytes, code: int, tmp_path: Path) -> None:
    root = unpacked(tmp_path, f"checker: {checker}\n" + CASES)
    assert ask(root, output, answer, checker)[0] == code
    if checker == "linecount" and len(output.split(b"\n")) > len(answer.split(b"\n")) and code == 43:
        assert ask(root, output, answer, checker, "--points", "40")[0] == 43
    if checker == "linecount" and output == b"1\n3\n":
        assert ask(root, output, answer, checker, "--points", "40") == (42, "20")


DROPPED = {
    "checker: {name: linecount, args: {match: 'lambda p, j: True'}}\n": "checker linecount: 'match' cannot be",
    "checker: {name: rstripped, args: {filter_new_line: true}}\n": "checker rstripped: 'filter_new_line' cannot be",
    "checker: {name: sorted, args: {split_on: commas}}\n": "checker sorted: split_on: expected lines or whitespace",
    "checker: standard\nchecker_args: {precision: 3}\n": "checker standard: 'precision' cannot be",
    "checker: {name: bridged, args: {files: c.cpp, flags: [-DX]}}\n": "checker bridged: 'flags' cannot be",
    "checker: {name: bridged, args: {files: c.cpp, args_format_string: x}}\n": "'args_format_string' cannot be",
    "interactive: {files: c.cpp, flags: [-DX]}\n": "interactive: 'flags' cannot be",
    "checker: {name: check.py, args: {a: .inf}}\n": "checker check.py: args: expected texts, numbers",
    "checker: {name: check.py, args: {a: [!!timestamp 2020-01-01]}}\n": "args: expected texts, numbers",
}


@pytest.mark.parametrize("init", DROPPED)
def test_settings_that_conversion_would_lose_are_refused(init: str, tmp_path: Path) -> None:
    files = {**PLAIN, "c.cpp": b"int main() {}\n", "check.py": b"def check(a, b, **c): return True\n"}
    assert DROPPED[init] in refused(load, tmp_path, init + CASES, files)


def test_settings_of_feedback_are_left_out(tmp_path: Path) -> None:
    for number, checker in enumerate(("{name: linecount, args: {feedback: false}}", "{name: standard, args: {x: []}}")):
        load(tmp_path / str(number), f"checker: {checker}\n" + CASES)


@pytest.mark.parametrize(
    ("points", "flags"),
    [
        (("40", "60"), [["--points", "40"], ["--points", "60"]]),
        (("2.5", "5"), [["--points", "5", "--times", "2"], ["--points", "10", "--times", "2"]]),
    ],
)
def test_a_part_of_the_points_beside_the_checkers_own_flags(
    points: tuple[str, str], flags: list[list[str]], tmp_path: Path
) -> None:
    init = "checker: linecount\n" + CASES.replace("40", points[0]).replace("60", points[1])
    tests = load(tmp_path, init).manifest.tests
    assert [test.flags for test in tests] == [["linecount", *words] for words in flags]


BRIDGED = "checker: {name: bridged, args: {files: checker.cpp, lang: CPP17, type: TYPE}}\n"
FLAT = "checker: bridged\nchecker_args: {files: [checker.cpp, extra.h], lang: CPP20, type: TYPE}\n"


@pytest.mark.parametrize(
    ("kind", "defines"),
    [
        ("testlib", ""),
        ("default", "-DPLAIN"),
        ("peg", "-DPEG"),
        ("coci", "-DCOCI"),
        ("lqdoj", "-DLQDOJ"),
        ("themis", "-DTHEMIS"),
    ],
)
@pytest.mark.parametrize("init", [BRIDGED, FLAT])
def test_bridged_checkers(init: str, kind: str, defines: str, tmp_path: Path) -> None:
    files = {**PLAIN, "checker.cpp": CHECKER, "extra.h": b"", "testlib.h": b"// testlib\n"}
    package = load(tmp_path, init.replace("TYPE", kind) + CASES, files)
    build = package.read(validator_of(package).files["build"]).decode()
    assert defines in build and ("-std=gnu++20" if init == FLAT else "-std=gnu++17") in build
    assert ("CHECKER='\"oai\"'" in build) == (kind == "peg")


def test_a_bridged_checker_in_python(tmp_path: Path) -> None:
    files = {**PLAIN, "same.py": b"import sys\nimport rest\nsys.exit(rest.compare(*sys.argv[1:]))\n"}
    files["rest.py"] = b"def compare(given, output, answer):\n    return open(output).read() != open(answer).read()\n"
    init = "checker: {name: bridged, args: {files: [same.py, rest.py], lang: PY3, type: default}}\n" + CASES
    with load(tmp_path, init, files) as package:
        build = tmp_path / "made"
        build.mkdir()
        for name, sha in validator_of(package).files.items():
            (build / name).write_bytes(package.read(sha))
    subprocess.run(["sh", "build"], cwd=build, check=True)
    for output, code in (("1.in", 1), ("1.out", 0)):
        command = [str(build / "checker"), "1.in", output, "1.out"]
        assert subprocess.run(command, cwd=tmp_path / "aplusb", check=False).returncode == code


def test_interactors(tmp_path: Path) -> None:
    files = {"1.in": b"1\n", "inter.cpp": b"int main() {}\n"}
    init = "unbuffered: true\ninteractive: {files: inter.cpp}\ntest_cases:\n- {in: 1.in, points: 20}\n"
    package = load(tmp_path, init, files)
    assert ProblemType.INTERACTIVE in package.manifest.type
    assert "-DPLAIN -DINTERACTOR='\"ia\"'" in package.read(validator_of(package).files["build"]).decode()
    for number, (kind, defines) in enumerate(
        (("coci", "-DCOCI -DINTERACTOR='\"ioa\"'"), ("peg", "INTERACTOR='\"ia\"'"))
    ):
        coci = load(tmp_path / str(number), init.replace("inter.cpp}", f"inter.cpp, type: {kind}}}"), files)
        assert defines in coci.read(validator_of(coci).files["build"]).decode()
    assert any("unbuffered" in note for note in package.notes)
    with pytest.raises(PackageError, match="type: themis is for checkers"):
        load(tmp_path / "themis", init.replace("inter.cpp}", "inter.cpp, type: themis}"), files)


def test_signature_graders(tmp_path: Path) -> None:
    files = {**PLAIN, "handler.c": b"int main(){}", "header.h": b"int f();"}
    tree = open_package_tree(
        folder(tmp_path, dmoj("signature_grader: {entry: handler.c, header: header.h}\n" + CASES, files))
    ).tree
    assert {path for path in tree.files if path.startswith("include/")} == {
        "include/c/handler.c", "include/c/header.h", "include/cpp/handler.c", "include/cpp/header.h",
    }  # fmt: skip
    assert yaml.safe_load(tree.read("problem.yaml", 9999))["languages"] == ["c", "cpp"]


PYTHON = b"""from dmoj.result import CheckerResult
from dmoj.utils.unicode import utf8text

def check(process_output, judge_output, judge_input, point_value, **kwargs):
    got, wanted = utf8text(process_output).split(), utf8text(judge_output).split()
    if len(got) != len(wanted):
        return False
    return CheckerResult(True, point_value * (1 if got == wanted else 0.5), 'nearly')
"""


def test_outputs_that_are_handed_in_are_called_as_the_answers(tmp_path: Path) -> None:
    listed = "".join(f"- {{in: {n}.in, out: out/{n}.out, points: 10}}\n" for n in range(1, 11))
    files = data(*(name for n in range(1, 11) for name in (f"{n}.in", f"out/{n}.out")))
    package = load(tmp_path, f"output_only: true\noutput_size_limit: 5\ntest_cases:\n{listed}", files)
    assert ProblemType.SUBMIT_ANSWER in package.manifest.type and not package.infer
    names = [test.name for test in package.manifest.tests]
    handed_in = [f"{n}.out" for n in range(1, 11)]
    assert sorted(answers.outputs_for(names, handed_in).values()) == sorted(handed_in)
    assert not any("nothing is known" in note for note in package.notes)


def test_a_checker_in_python(tmp_path: Path) -> None:
    root = unpacked(tmp_path, "checker: check.py\n" + CASES, {**PLAIN, "check.py": PYTHON})
    assert ask(root, b"1 2", b"1 2\n")[0] == 42
    assert ask(root, b"1", b"1 2\n")[0] == 43
    assert ask(root, b"1 3", b"1 2\n")[0] == 43, "a part is not all"
    assert ask(root, b"1 3", b"1 2\n", "--points", "40") == (42, "20")
    assert ask(root, b"1 3", b"1 2\n", "--points", "40", "--times", "2") == (42, "20")
    assert (tmp_path / "feedback/judgemessage.txt").read_text().strip() == "nearly"
    assert ask(root, b"\xff", b"1 2\n", "--points", "40")[0] == 43, "text that is none is wrong"


ABSOLUTE = b"""from dmoj.result import CheckerResult

def check(process_output, judge_output, point_value, **kwargs):
    if process_output == b'fail':
        raise ValueError
    result, case, batch = float(process_output), 1, 'batch'
    return CheckerResult(kwargs.get('yes', False), result, 'a' + chr(0xdc80) + 'b')
"""


def test_points_that_a_checker_in_python_gives(tmp_path: Path) -> None:
    root = unpacked(tmp_path, "checker: check.py\n" + CASES, {**PLAIN, "check.py": ABSOLUTE})
    assert ask(root, b"2.5", b"", "--points", "40") == (42, "2.5"), "points count without a yes"
    assert (tmp_path / "feedback/judgemessage.txt").read_text().strip() == "a?b"
    assert ask(root, b"2.5", b"", "--points", "40", "--times", "4") == (42, "10")
    (tmp_path / "feedback/score.txt").unlink()
    assert ask(root, b"10", b"", "--points", "40", "--times", "4") == (42, "")
    assert ask(root, b"0", b"", "--points", "40")[0] == 43
    assert ask(root, b"1", b"")[0] == 43 and ask(root, b"0.5", b"", "--any")[0] == 43, "nothing but the points"
    assert ask(root, b"fail", b"", "--points", "40")[0] == 1, "a checker that fails is the judge's fault"


LOOKS = [
    b"def check(a, b, submission_source, **kwargs): return submission_source.strip() == b'tiny'",
    b"def check(a, b, **kwargs): return kwargs['submission_source'].decode() == 'tiny'",
    b"def check(a, b, *, submission_source, **k): return len(submission_source) < 9",
    b"def f(submission_source, **_): return submission_source[:1] == b't'\ndef check(a, b, **k): return f(**k)",
]


@pytest.mark.parametrize("source", LOOKS)
def test_a_checker_that_looks_at_what_was_handed_in(source: bytes, tmp_path: Path) -> None:
    init, files = "checker: check.py\n" + CASES, {**PLAIN, "check.py": source}
    task = load(tmp_path / "a", init, files).manifest.task
    assert task is not None and task.show_source
    root = unpacked(tmp_path, init, files)
    source_file = root / "output_validator/judge/submission"
    assert ask(root, b"", b"")[0] == 1, "an executor that does not show it is at fault, not the submission"
    source_file.parent.mkdir()
    source_file.write_bytes(b"tiny")
    assert ask(root, b"", b"")[0] == 42
    source_file.write_bytes(b"much longer")
    assert ask(root, b"", b"")[0] == 43


def test_other_checkers_are_shown_nothing(tmp_path: Path) -> None:
    assert load(tmp_path, "checker: check.py\n" + CASES, {**PLAIN, "check.py": PYTHON}).manifest.task is None


@pytest.mark.parametrize(
    "source",
    [
        b"def check(a, b, **kwargs):\n  result = case = batch = kwargs['point_value']\n  return result",
        b"def helper(result): return result\ndef check(a, b, **kwargs): return helper(a == b)",
        b"def check(a, b, **_): return {'result': a == b}['result']",
        b"def check(a, b, **kw):\n  return kw.get('judge_input', b'') and 'result' != 'case'",
        b"def check(a, b, judge_input, point_value, submission_source, *, case, **kwargs): return a == b",
        b"def g(x): return x\ndef check(a, b, submission_source, **kwargs): return g(kwargs)",
        b"import re\ndef check(a, b): return bool(re.match('\\d', a)) == (1is 1)",
        b"import json, html.parser\nfrom unicodedata import normalize\ndef check(a, b): return json.loads(a) == b",
    ],
)
def test_names_that_are_the_checkers_own(source: bytes) -> None:
    assert programs._why_not(source.decode()) == ""


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (b"def check(a, b, *, case_position=0, **kwargs): return case_position", "asks for case_position"),
        (b"def check(a, b, **kw): return kw.get('batch')", "asks for batch"),
        (b"def check(a, b, **kw): return 'result' in kw", "asks for result"),
        (b"def f(result, **k): pass\ndef check(a, b, **kw): return f(**kw)", "asks for result"),
        (b"def check(a, b, **kw):\n  x = kw\n  return x['result']", "asks for result"),
        (b"print 1", "is not written in Python 3"),
        (b"from dmoj.graders import x\ndef check(a, b): pass", "needs the module 'dmoj.graders'"),
        (b"import subprocess\ndef check(a, b): pass", "needs the module 'subprocess'"),
        (b"def check(a, b, submission_source, case): return submission_source + case", "asks for case"),
        (b"def other(): pass", "has no function check"),
        (b"def check(a, b):\n" + b" " * 20 + b"x = " + b"(" * 400 + b")" * 400, "is not written in Python 3"),
    ],
)
def test_a_checker_in_python_that_cannot_be_asked(source: bytes, reason: str, tmp_path: Path) -> None:
    assert programs._why_not(source.decode()) == reason
    assert "rewrite it in C" in refused(load, tmp_path, "checker: check.py\n" + CASES, {**PLAIN, "check.py": source})


# --- limits ------------------------------------------------------------------------------------------------------


def test_limits(tmp_path: Path) -> None:
    package = load(tmp_path, "time_limit: 2.5\nmemory_limit: 65536\noutput_limit_length: 67108864\n" + CASES)
    limits = package.manifest.limits
    assert (limits.cpu, limits.memory, limits.output) == (2.5, 64 * 1024**2, 64 * 1024**2)
    assert load(tmp_path / "b", CASES, memory=128).manifest.limits.memory == 128 * 1024**2


@pytest.mark.parametrize(
    ("keys", "files"),
    [
        ("file_io: {input: DATA.in, output: DATA.out}\n", True),
        ("io_redirects: {DATA.in: {fd: 0, mode: r}, DATA.out: {fd: 1, mode: w}}\n", True),
        ("io_mode: file\ninput_file: DATA.in\noutput_file: DATA.out\n", True),
        ("io_mode: std\ninput_file: DATA.in\n", False),
        ("io_redirects: {a: {fd: [0]}}\n", False),
    ],
)
def test_files_in_place_of_standard_input(keys: str, files: bool, tmp_path: Path) -> None:
    tree = open_package_tree(folder(tmp_path, dmoj(keys + CASES), "x")).tree
    assert ("judge.yaml" in tree.files) is files
    if files:
        assert yaml.safe_load(tree.read("judge.yaml", 999)) == {"input_file": "DATA.in", "output_file": "DATA.out"}


# --- what is refused ---------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[str, str]] = {
    "files without names": ("io_mode: file\ninput_file: a.in\n" + CASES, "io_mode: is file, so input_file and output_"),
    "another way": ("io_mode: [file]\n" + CASES, "io_mode: '['file']' is neither std nor file"),
    "a slip": ("test_cases:\n- {in: 1.in, out: 1.out, point: 40}\n", "unknown key 'point'; did you mean 'points'?"),
    "a slip in a batch": (
        "test_cases:\n- {points: 1, batched: [{in: 1.in, outt: 1.out}]}\n", "unknown key 'outt'; did you mean 'out'?",
    ),
    "a slip above": ("test_case:\n- {in: 1.in, out: 1.out}\n", "unknown key 'test_case'; did you mean 'test_cases'?"),
    "a limit of one case": (
        "test_cases:\n- {in: 1.in, out: 1.out, time_limit: 3}\n", "time_limit: a test has no limit of its own here",
    ),
    "a limit of one case in a batch": (
        "test_cases:\n- {points: 1, batched: [{in: 1.in, out: 1.out, memory_limit: 3}]}\n",
        "memory_limit: a test has no limit of its own here",
    ),
    "links to others' files": ("symlinks: {f.txt: /tmp/f.txt}\n" + CASES, "init.yml: symlinks: programs find files"),
    "links of a case": (
        "test_cases:\n- {in: 1.in, out: 1.out, symlinks: {f: 1.in}}\n", "test_cases: symlinks: programs find files",
    ),
    "outputs of a program": (
        "output_only: true\ninteractive: {files: 1.in}\n" + CASES, "output_only: there is no program that interactive",
    ),
    "a generator that is not there": (
        "generator: gen.cpp\ntest_cases:\n- {points: 1, generator_args: [1]}\n",
        "generator: 'gen.cpp' is not in the package",
    ),
    "a generator that is no file": ("test_cases:\n- {generator: 7.5e3, points: 1}\n", "'7.5e3' is not in the package"),
    "a generator of a mapping": ("generator: [{}]\ntest_cases:\n- {points: 1}\n", "expected names of files, and a"),
    "no cases": ("checker: standard\n", "test_cases: is missing; without an archive every case must be listed"),
    "an empty list": ("test_cases: []\n", "test_cases: has no cases"),
    "an absent file": ("test_cases:\n- {in: 9.in, out: 1.out}\n", "in: '9.in' is neither beside init.yml nor"),
    "an absent archive": ("archive: t.zip\n", "archive: 't.zip' is not in the package"),
    "a broken archive": ("archive: 1.in\n" + CASES, "1.in: is not a ZIP archive that can be read"),
    "code": ("test_cases++: 'x'\n" + CASES, "test_cases++: is made by Python code"),
    "a checker that is not": ("checker: nope\n" + CASES, "checker: 'nope' is not known; expected one of"),
    "two checkers": ("test_cases:\n- {in: 1.in, out: 1.out, checker: floats}\n", "a case has a checker of its own"),
    "a later batch": ("test_cases:\n- {points: 1, batched: [{in: 1.in}], dependencies: [1]}\n", "dependencies: e"),
    "negative points": ("test_cases:\n- {in: 1.in, out: 1.out, points: -1}\n", "1: points: '-1' is not a number of"),
    "a list": ("- a\n", "init.yml:1: expected a mapping of settings, found list"),
    "batches in batches": ("test_cases:\n- {batched: [{batched: []}]}\n", "1: batched: expected a list of cases"),
    "aliases": ("a: &x 1\nb: *x\n", "init.yml:"),
    "precision": ("checker: {name: floats, args: {precision: x}}\n" + CASES, "floats: expected a precision"),
    "patterns without an archive": (
        "test_cases: {input_format: '^(?P<case>[0-9]+).in$'}\n",
        "test_cases: has patterns; without an archive every case must be listed",
    ),
    "a list for the type of a checker": (
        CASES + "checker: {name: bridged, args: {files: c.cpp, type: [x]}}\n", "checker: type: '['x']' is not known",
    ),
    "a mapping for the type of an interactor": (
        CASES + "interactive: {files: c.cpp, type: {a: 1}}\n", "interactive: type: '{'a': 1}' is not known",
    ),
    "a list for a word": (
        CASES + "checker: {name: sorted, args: {split_on: [x]}}\n", "split_on: expected lines or whitespace",
    ),
    "a list for the type of a manager": (
        CASES + "communication: {manager: {files: c.cpp}, type: [x]}\n", "type: '['x']' is none of cms, default",
    ),
    "a long time limit": (
        "time_limit: 601\n" + CASES, "init.yml: time_limit: '601' is not a number of seconds above 0, up to 600",
    ),
    "no time limit": ("time_limit: .nan\n" + CASES, "init.yml: time_limit: '.nan' is not a number of seconds"),
    "a huge memory limit": (
        "memory_limit: 1.0e+308\n" + CASES,
        "init.yml: memory_limit: '1.0e+308' is not a number of KiB above 0, up to 67108864",
    ),
    "a path for a file": (
        "file_io: {input: ../x, output: y}\n" + CASES, "init.yml: input file: '../x' is not the name of a file",
    ),
    "a list for a file": (
        "file_io: {output: [x]}\n" + CASES, "init.yml: output file: '['x']' is not the name of a file",
    ),
    "a bad pattern": ("archive: t.zip\ntest_cases: {input_format: '('}\n", "is not a regular expression of Python"),
}  # fmt: skip


@pytest.mark.parametrize("fault", REFUSED)
def test_refused(fault: str, tmp_path: Path) -> None:
    init, sentence = REFUSED[fault]
    files = {**PLAIN, "c.cpp": b"int main() {}\n", **({"t.zip": packed(PLAIN)} if "a bad pattern" in fault else {})}
    assert sentence in refused(load, tmp_path, init, files)


def test_limits_of_single_cases_where_one_is_given_for_all(tmp_path: Path) -> None:
    init = "test_cases:\n- {in: 1.in, out: 1.out, time_limit: 3, memory_limit: 65536}\n"
    for options in ({"time_limit": 2.0}, {"memory": 64}):
        assert "give one for all" in refused(load, tmp_path / next(iter(options)), init, **options)
    with load(tmp_path, init, time_limit=2.0, memory=64) as package:
        assert "not carried over: time_limit of single cases: --time-limit is for all" in package.notes
        assert "not carried over: memory_limit of single cases: --memory is for all" in package.notes


def test_files_that_nothing_is_made_of_are_named(tmp_path: Path) -> None:
    files = {**PLAIN, **data("3.in", "README.md", "wa.cpp", "helper.h"), "checker.cpp": CHECKER}
    init = CASES + "checker: {name: bridged, args: {files: ./checker.cpp, type: testlib, lang: CPP17}}\n"
    with load(tmp_path, init, files) as package:
        unused = "3.in, README.md, helper.h, wa.cpp: nothing says what they are for"
        assert f"not carried over: {unused}" in package.notes
