"""`judgectl problem check`: all findings at once, with file and line; the exit code says whether one is an error."""

import json
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from judge.common.errors import PackageError
from judge.ctl.main import app
from judge.ctl.problem import preview, template
from judge.problems.package import read_package
from judge.problems.reading.checks import check_package
from tests.support import packages

BAD = {
    "problem.yaml": "problem_format_version: 2025-09\nname: {en: A, sv: B}\nlicense: mine\ntype: guess\n"
    "validator_flag: x\nmore: 1\nlimits:\n  memory: -1\n  time_limt: 3\n",
    "statement/problem.en.md": "x",
    "data/sample/1.in": "1\r\n",
    "data/sample/1.ans": "1",
    "data/sample/1.interaction": "<1\n?2\n",
    "data/sample/1.out": "1",
    "data/sample/1.ans.statement": "1",
    "data/secret/1.in": "1\r\n",
    "data/secret/2.ans": "2\n",
    "data/secret/3.in": b"\xff\n",
    "data/secret/3.ans": "3\n",
    "data/invalid_output/1.in": "1\n",
    "statment/x": "",
    "submissions/submissions.yaml": "acepted/*:\n  language: python3\n",
    "generators/gen.py": "",
}
WANTED = [
    "error: sum/problem.yaml:4: type: 'guess' is not a type of problem",
    "error: sum/problem.yaml:5: unknown key 'validator_flag'; did you mean 'validator_flags'?",
    "warning: sum/problem.yaml:6: unknown key 'more'; it is left alone",
    "error: sum/problem.yaml:8: limits.memory: expected at least 0",
    "error: sum/problem.yaml:9: unknown key 'limits.time_limt'; did you mean 'time_limit'?",
    "warning: sum/problem.yaml:3: license: 'mine' is not one of",
    "warning: sum/problem.yaml:1: key 'uuid' is missing",
    "warning: sum/problem.yaml:2: name.sv: there is no statement in this language",
    "error: sum/data/sample/1: has both .out and .ans.statement",
    "error: sum/data/sample/1: has .interaction, so .ans.statement is never shown",
    "warning: sum/data/sample/1.interaction:2: must start with <",
    "error: sum/data/secret/1.in: has no answer",
    "error: sum/data/secret/2.ans: is an answer without input",
    "warning: sum/data/sample/1.in: has Windows line ends",
    "warning: sum/data/secret/3.in: is not UTF-8 text",
    "warning: sum/data/sample/1.ans: does not end with a newline",
    "warning: sum/data/invalid_output/1.in: has no 1.out beside it",
    "warning: sum/statment: is no folder of the format, and is left alone; did you mean statement/?",
    "warning: sum/submissions: has no accepted submission",
    "warning: sum/input_validators: there is no input validator",
    "note: sum/generators: gen.py: kept with the package, and not run",
]


WHOLE: dict[str, str] = {
    "problem.yaml": "problem_format_version: 2025-09\nname: A\nuuid: x\nlicense: cc0\ncredits: A\n"
    "limits: {time_limit: 1}\nconstants: {most: 5}\n",
    "statement/problem.en.md": "Up to {{most}}.\n\n{{nextsample}}\n",
    "data/secret/1.in": "1\n",
    "data/secret/1.ans": "1\n",
    "data/sample/1.in": "2\n",
    "data/sample/1.ans": "0.5 yes\n",
    "input_validators/a.py": "import sys\nsys.exit(42)\n",
    "submissions/accepted/a.py": "print(1)\n",
}


def findings(path: Path) -> list[str]:
    return [f"{finding.level}: {finding.text}" for finding in check_package(path).findings.all]


@pytest.mark.parametrize("sentence", WANTED)
def test_all_findings_come_at_once(tmp_path: Path, sentence: str) -> None:
    lines = findings(packages.write(tmp_path / "sum", BAD))
    assert any(line.startswith(sentence) for line in lines), lines


def test_import_says_the_first_error_and_how_many_follow(tmp_path: Path) -> None:
    with pytest.raises(
        PackageError, match=r"validator_flag'; did you mean.*\(and \d more: see 'judgectl problem check'\)"
    ):
        read_package(packages.write(tmp_path / "sum", BAD))


def test_findings_of_a_complete_package(tmp_path: Path) -> None:
    complete = {**WHOLE, "problem.yaml": WHOLE["problem.yaml"].replace("limits: {time_limit: 1}\n", "")}
    assert findings(packages.write(tmp_path / "sum", complete)) == []
    twice = {
        **complete,
        "data/secret/2.in": "1\n",
        "data/secret/2.ans": "x" * 5 * 1024**2,
        "submissions/accepted/b.klingon": "",
        "submissions/submissions.yaml": "gone/*: {permitted: [AC]}\n",
    }
    lines = "\n".join(findings(packages.write(tmp_path / "twice", twice)))
    assert "secret/1, secret/2 have the same input" in lines
    assert "2.ans: is longer than half of the output limit (8 MiB)" in lines
    assert "b.klingon: no language of the table has this suffix; it is not judged" in lines
    assert "'gone/*' matches no submission" in lines


def test_a_limit_that_cannot_be_inferred_is_an_error(tmp_path: Path) -> None:
    # A package that DOMjudge alone reads has ten seconds, as there.
    yaml = "name: A\nproblem_format_version: 2025-09\nuuid: 1\n"
    files = {"problem.yaml": yaml, "data/secret/1.in": "", "data/secret/1.ans": ""}
    assert any(
        "error" in line and "the time limit cannot be inferred" in line
        for line in findings(packages.write(tmp_path / "a", files))
    )
    assert not any(
        line.startswith("error") for line in findings(packages.write(tmp_path / "b", {**files, ".timelimit": "1"}))
    )


def test_the_command(tmp_path: Path) -> None:
    bad = packages.write(tmp_path / "sum", BAD)
    good = Path(__file__).parents[2] / "examples/packages/countdown"
    runner = CliRunner()
    result = runner.invoke(app, ["problem", "check", str(good)])
    assert (result.exit_code, result.output.splitlines()[-1]) == (0, "countdown: 0 errors, 0 warnings")
    result = runner.invoke(app, ["problem", "check", str(bad), str(good), "-o", "json"])
    assert result.exit_code == 1
    rows = json.loads(result.output)
    assert {row["package"] for row in rows} >= {"sum"} and {row["level"] for row in rows} == {
        "error",
        "warning",
        "note",
    }
    for wrong, reason in ((str(tmp_path / "none"), "there is no such"), (f"--dialect=kattiss {good}", "is not known")):
        assert reason in str(runner.invoke(app, ["problem", "check", *wrong.split()]).exception)


def test_a_conversion_is_told_and_its_author_not_asked_for_what_only_the_format_has(tmp_path: Path) -> None:
    files = {"1.in": "1\n", "1.out": "1\n", "sol.py": "print(input())\n", "notes.txt": "x"}
    lines = findings(packages.write(tmp_path / "sum", files))
    assert "note: carried over: solution sol.py as accepted" in lines
    assert "note: not carried over: notes.txt: nothing says what it is for" in lines
    assert not any("license" in line or "statement" in line or "input validator" in line for line in lines), lines


def test_a_time_limit_may_be_given(tmp_path: Path) -> None:
    path = packages.write(tmp_path / "sum", {"1.in": "1\n", "1.out": "1\n"})
    lacking = check_package(path)
    assert any("cannot be inferred" in error for error in lacking.findings.errors) and lacking.package is None
    runner = CliRunner()
    assert runner.invoke(app, ["problem", "check", str(path)]).exit_code == 1
    result = runner.invoke(app, ["problem", "check", "--time-limit", "2.5", str(path)])
    assert (result.exit_code, result.output.splitlines()[-1]) == (0, "sum: 0 errors, 1 warning"), result.output
    for wrong in ("0", "-1", "1e9", "nan"):
        refused = runner.invoke(app, ["problem", "check", f"--time-limit={wrong}", str(path)])
        assert "is no time limit; give seconds above 0" in str(refused.exception)


@pytest.mark.parametrize(("kind", "level"), [("pass-fail", "error"), ("[pass-fail, submit-answer]", "warning")])
def test_without_time_limit_and_submissions(tmp_path: Path, kind: str, level: str) -> None:
    files = {
        "problem.yaml": f"problem_format_version: 2025-09\nname: A\ntype: {kind}\n",
        "data/secret/1.in": "1\n",
        "data/secret/1.ans": "1\n",
    }
    checked = check_package(packages.write(tmp_path / "sum", files))
    finding = next(entry for entry in checked.findings.all if "no accepted submission" in entry.text)
    assert (finding.level, "cannot be inferred" in finding.text) == (level, level == "error")
    if checked.package is not None:
        checked.package.close()


PNG = b"\x89PNG\r\n\x1a\n\x00"


@pytest.mark.parametrize(
    ("entry", "files", "reason"),
    [
        ("gone.py", {"one.py": "", "two.py": ""}, "'gone.py' is none of the files (one.py, two.py)"),
        ("Gone", {"One.java": "class One { }", "Two.java": "class Two { }"}, "'Gone' is in none of the files"),
        ("app.Main", {"One.java": "package app; class Main { }", "Two.java": ""}, ""),
        ("OneKt", {"one.kt": "fun main() { }", "two.kt": ""}, ""),
        ("TwelveKt", {"one.kt": "fun main() { }", "two.kt": ""}, "'TwelveKt' is in none of the files"),
        ("two.py", {"one.py": "", "two.py": ""}, ""),
    ],
)
def test_an_entry_point_that_is_not_there(tmp_path: Path, entry: str, files: dict[str, str], reason: str) -> None:
    own = {f"submissions/accepted/own/{name}": text for name, text in files.items()}
    rules = {"submissions/submissions.yaml": f"accepted/own: {{entrypoint: {entry}}}\n"}
    lines = findings(packages.write(tmp_path / "sum", {**WHOLE, **own, **rules}))
    if reason:
        (line,) = lines
        assert line.startswith(f"error: sum/submissions/accepted/own: its entry point {reason}")
    else:
        assert lines == []


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("problem.en.md", "![a](there.png) ![b](gone.png){width=5%}", "there is no picture 'gone.png'"),
        ("problem.en.md", '<img alt="" src="gone%20too.png">', "there is no picture 'gone%20too.png'"),
        ("problem.en.md", "![a](there)", ""),
        ("problem.en.md", "```\n![a](gone.png) {{code}}\n```\n`{{code}}` ", ""),
        ("problem.en.md", "Up to {{most}}, {{leest}} at least", "'leest' is none of the constants"),
        ("problem.en.md", "$x_{{ab}}$ and $\\frac{{a}}{{b}}$ {{remainingsamples}}", ""),
        ("problem.en.md", "a | b\n--|--\n$|A|$ | size", "has 4 cells and the head has 2"),
        ("problem.en.md", "> | a | b |\n> |--|--|\n> | 1 | 2 | 3 |", "has 3 cells and the head has 2"),
        ("problem.en.md", "| a | b |\n|--|--|\n| 1 |\n|  | $\\|A\\|$ |\n\n```\na|b\n-|-\n1|2|3\n```\n", ""),
        ("problem.en.html", "<p>{{leest}}</p><img src='there.png'>", "'leest' is none of the constants"),
        ("problem.en.tex", r"\includegraphics[width=3cm]{gone} \includegraphics{there}", "there is no picture 'gone'"),
        ("problem.en.tex", r"\illustration{0.3}{gone.jpg}{by me}", "there is no picture 'gone.jpg'"),
        ("problem.en.tex", "% \\includegraphics{gone}\n{{bf}} 5\\% \\constant{most}", ""),
        ("problem.en.tex", r"\constant{leest}", "'leest' is none of the constants"),
        ("problem.en.tex", r"\input{part}", "there is no picture 'inner'"),
    ],
)
def test_findings_of_statements(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    beside = {"statement/there.png": PNG, "statement/part.tex": r"\includegraphics{inner}"}
    root = packages.write(tmp_path / "sum", {**WHOLE, **beside, f"statement/{name}": text})
    if not name.endswith(".md"):
        (root / "statement/problem.en.md").unlink()
    lines = findings(root)
    assert len(lines) == bool(sentence), lines
    assert all(sentence in line and line.startswith("warning: sum/statement/") for line in lines)


def test_a_picture_that_is_none(tmp_path: Path) -> None:
    files = {"a.png": "no", "b.svg": "no", "c.jpg": PNG, "d.svg": "<svg xmlns='x'/>", "e.cls": "no", "f.gif": b""}
    lines = findings(packages.write(tmp_path / "sum", {**WHOLE, **{f"statement/{k}": v for k, v in files.items()}}))
    assert lines == [
        f"warning: sum/statement/{name}: is no picture; the page does not show it"
        for name in ("a.png", "b.svg", "f.gif")
    ]


def test_a_sample_that_shows_an_output_which_is_not_accepted(tmp_path: Path) -> None:
    files = {**WHOLE, "data/sample/1.out": "0.5   YES\n"}
    assert findings(packages.write(tmp_path / "same", files)) == []
    (line,) = findings(packages.write(tmp_path / "other", {**files, "data/sample/1.out": "0.6 yes\n"}))
    assert line.startswith("error: other/data/sample/1.out: is shown as an output, and is not accepted beside its")
    tolerant = {"data/test_group.yaml": "output_validator_args: [float_tolerance, '1']\n"}
    assert findings(packages.write(tmp_path / "near", {**files, "data/sample/1.out": "0.6 yes\n", **tolerant})) == []
    own = {"output_validator/v.py": "import sys\nsys.exit(42)\n", "data/sample/1.out": "else\n"}
    assert findings(packages.write(tmp_path / "own", {**files, **own})) == []


def test_the_first_package_of_the_documentation_has_no_error(tmp_path: Path) -> None:
    """The tutorial up to its check; tests/integration/test_problem_verify.py follows all of it."""
    commands = packages.tutorial().partition("judgectl problem import")[0]
    run = subprocess.run(
        ["bash", "-e", "-c", commands], cwd=tmp_path, env=packages.with_judgectl(), capture_output=True, text=True,
        check=False, timeout=100,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "double: 0 errors, 1 warning" in run.stdout and "license: is unknown" in run.stdout


@pytest.mark.parametrize("kind", template.TYPES)
def test_a_new_package_passes_the_check(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "two-numbers"
    result = CliRunner().invoke(app, ["problem", "new", str(folder), "--type", kind])
    assert result.exit_code == 0, result.output
    (line,) = findings(folder)
    assert line.startswith("warning: two-numbers/problem.yaml:5: license: is unknown")
    with read_package(folder) as package:
        assert kind in package.manifest.type and package.manifest.title == "Two numbers"
        assert len(package.manifest.tests) == 3 and len(package.manifest.input_validators) == 1


def test_a_new_package_replaces_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for name, options, sentence in (
        ("mine", [], "mine: exists already; name a new directory"),
        ("-a b", [], "'-a b' cannot be a problem's name"),
        ("other", ["--type", "guess"], "--type: 'guess' is not known; choose pass-fail, scoring or interactive"),
    ):
        result = CliRunner().invoke(app, ["problem", "new", *options, "--", str(tmp_path / name)])
        assert sentence in str(result.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"] and not list((tmp_path / "mine").iterdir())


def test_a_statement_is_shown_without_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    statement = "Up to $x$.\n\n{{nextsample}}\n\n![](a.png)\n\n<script>alert(1)</script>\n\nEnd.\n"
    files = {
        **WHOLE,
        "statement/problem.en.md": statement,
        "statement/problem.sv.tex": "x",
        "statement/a.png": b"\x89PNG",
    }
    packages.write(tmp_path / "sum", {**files, "data/sample/2.in": "<3\n", "data/sample/2.ans": "4\n"})
    result = CliRunner().invoke(app, ["problem", "statement", "sum"])
    assert (result.exit_code, result.output) == (0, "sum.html written\n")
    page = (tmp_path / "sum.html").read_text()
    places = [
        page.index(text) for text in ("Up to <math", "Sample 1", "image/png;base64,iVBORw", "End.", "Sample 2", "&lt;3")
    ]
    assert places == sorted(places) and "<script" not in page and "default-src 'none'" in page
    for options, sentence in (
        (["--language", "sv"], "problem.sv.tex: has no preview; an executor converts LaTeX at import"),
        (["--language", "de"], "has no statement in de; it has en, sv"),
        (["-o", "none/x.html"], "none/x.html: cannot be written: No such file or directory"),
    ):
        assert sentence in str(CliRunner().invoke(app, ["problem", "statement", "sum", *options]).exception)
    assert preview._rendered(b'{"kind": "md", "text": "' + b"x" * 10 + b'"}').pieces == ["<p>xxxxxxxxxx</p>\n"]
    monkeypatch.setattr(preview, "_SECONDS", 0.001)
    assert "to be rendered" in preview._rendered(b"{}").why
