"""judge-cli without a gateway: guesses, judge.toml, the difference, Competitive Companion's payload, local runs."""

import contextlib
import csv
import io
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from werkzeug.formparser import parse_form_data

import judge_cli
from judge.ctl.context import from_file
from judge.ctl.submit import EXIT_CANCELLED
from judge.languages.handed import left_out
from judge.languages.table import guess, load_table
from judge.model.verdicts import Verdict
from judge_cli import __main__ as cli
from judge_cli import access, companion, comparing, errors, following, gateway, problems, project, running, screen
from tests.support.servers import free_port, wait_for

TREE = Path(__file__).parents[2] / "clients/cli/judge_cli"


def test_the_installed_client_is_built_from_this_tree() -> None:
    for path in TREE.glob("*.py"):
        assert (Path(judge_cli.__file__).parent / path.name).read_text() == path.read_text(), "run `make clients`"


def test_verdicts_have_the_exit_codes_and_colours_of_judgectl() -> None:
    codes = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "blue": "34", "white": "37"}
    codes |= {"reverse": "7", "on red": "41"}
    for verdict in Verdict:
        words = re.findall(r"on \w+|\w+", verdict.about.colour)
        assert screen.VERDICTS[verdict.value] == (";".join(codes[word] for word in words), verdict.about.exit_code)
    assert len(screen.VERDICTS) == len(Verdict)
    assert errors.EXIT_CANCELLED == EXIT_CANCELLED
    assert (following.exit_code({"status": "cancelled"}), following.exit_code(None)) == (18, 130)
    assert following.exit_code({"status": "success", "verdict": "NEW"}) == 1


def test_the_start_of_a_command_loads_only_what_it_needs() -> None:
    command = [sys.executable, "-S", "-X", "importtime", "-m", "judge_cli", "--help"]
    environ = {"PYTHONPATH": str(TREE.parent)}
    run = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines()}
    assert "argparse" in loaded
    assert not loaded & {"ssl", "http.client", "json", "dataclasses", "subprocess", "difflib", "http.server"}


# --- errors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["submit", "--nonsense"], "unrecognized arguments: --nonsense"),
        ([], "the following arguments are required: COMMAND"),
        (["login", "judge.example.org"], "'judge.example.org' is no address of a gateway"),
        (["login", "https://judge.example.org/problems"], "is no address of a gateway"),
        (["list"], "no cluster to talk to"),
        (["test"], "name a file or folder"),
        (["test", "absent.xyz"], "cannot be run here"),
        (["test", "absent.py"], "has no samples that can be run"),
        (["submit", "absent.py"], "absent.py: cannot be read: No such file"),
        (["listen", "--port", "99999"], "port 99999 cannot be used"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("JUDGE_SERVER", "JUDGE_TOKEN", "JUDGE_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    assert cli.run(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("judge-cli: ") and sentence in err and err.count("\n") == 1


def test_every_command_of_the_page_is_accepted() -> None:
    page = (TREE.parents[2] / "docs/client.md").read_text()
    blocks = "".join(re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    commands = re.findall(r"^(?:python3 judge-cli\.pyz|judge-cli) ([^#\n]*)", blocks, re.MULTILINE)
    verbs = {command.split()[0] for command in commands}
    assert verbs >= {"login", "problems", "download", "test", "submit", "follow", "list", "listen"}
    for command in commands:
        if command.split() != ["--version"]:
            cli.parser().parse_args(shlex.split(command))
    (toml,) = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert project.parse(toml, "x") == tomllib.loads(toml)
    (tasks,) = re.findall(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for task in json.loads(tasks)["tasks"]:
        cli.parser().parse_args(task["args"])


# --- access ----------------------------------------------------------------------------------------------------


def test_judgectl_reads_what_login_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "ca.pem").write_text("certificate")
    stored = access.Access("https://judge.example.org:8443", "judge_token", tmp_path / "ca.pem")
    file = access.store(stored)
    assert access.read(file) == stored._replace(ca=file.parent / "ca.crt")
    context = from_file(file)
    assert (context.server, context.token, context.ca) == (stored.server, stored.token, file.parent / "ca.crt")
    assert (file.parent / "token").stat().st_mode & 0o777 == 0o600


def test_a_stored_token_goes_to_its_own_server_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("JUDGE_TOKEN", raising=False)
    access.store(access.Access("https://judge.example.org", "t"))
    monkeypatch.setenv("JUDGE_SERVER", "https://judge.example.org/")
    assert access.current().token == "t"
    monkeypatch.setenv("JUDGE_SERVER", "https://other.example.org")
    with pytest.raises(errors.UsageError, match="set JUDGE_TOKEN too"):
        access.current()
    monkeypatch.setenv("JUDGE_TOKEN", "u")
    assert access.current() == access.Access("https://other.example.org", "u")


def test_a_gateway_that_does_not_answer_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gateway, "_CALL_SECONDS", 0.5)
    monkeypatch.setenv("JUDGE_SERVER", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("JUDGE_TOKEN", "t")
    assert cli.run(["problems"]) == 1
    assert re.fullmatch(
        r"judge-cli: http://\S+ does not answer \(Connection refused\); is it running\?\n", capsys.readouterr().err
    )


# --- what is submitted -----------------------------------------------------------------------------------------

GOOD = """
# a comment
problem = "hello"  # of the cluster
language = 'cpp17'
files = ["main.cpp", "add.cpp"]
time_limit = 2
"""


def test_a_judge_toml_is_toml(tmp_path: Path) -> None:
    assert project.parse(GOOD, "x") == tomllib.loads(GOOD)
    problems.write_settings(tmp_path, {"problem": 'a"\\b', "time_limit": 0.5})
    assert tomllib.loads((tmp_path / "judge.toml").read_text()) == {"problem": 'a"\\b', "time_limit": 0.5}
    problems.write_settings(tmp_path, {"problem": "other"})
    (tmp_path / "sub").mkdir()
    assert project.project_at(tmp_path / "sub/x.py") == project.Project(tmp_path, 'a"\\b', time_limit=0.5)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("[run]", "x:1: '[run]' is no setting; expected one of problem"),
        ("verdict = 1", "x:1: 'verdict' is no setting"),
        ("problem = hello", "x:1: problem: expected a text"),
        ('problem = "hello" x', "x:1: problem: expected a text"),
        ("problem = 'hello", "x:1: problem: expected a text"),
        ('files = "a.cpp"', "x:1: files: expected file names"),
        ("files = [1]", "x:1: files: expected file names"),
        ("time_limit = true", "x:1: time_limit: expected a number"),
    ],
)
def test_a_bad_judge_toml_is_refused_with_its_line(line: str, sentence: str) -> None:
    with pytest.raises(errors.UsageError, match=re.escape(sentence)):
        project.parse(line, "x")


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("hello.c", "hello"),
        ("HELLO.java", "hello"),
        ("hello-slow.cpp", "hello"),
        ("hello (2).py", "hello"),
        ("a-b-c.py", "a-b"),
        ("average/main.py", "average"),
        ("average/src/main.py", "average"),
        ("average/x/y/main.py", None),
        ("hellothere.py", None),
    ],
)
def test_a_problem_is_guessed_by_the_name_of_file_or_folder(path: str, problem: str | None, tmp_path: Path) -> None:
    names = ["average", "hello", "a-b", "a"]
    if problem is not None:
        assert project.guess_problem(tmp_path / path, names) == problem
    else:
        with pytest.raises(errors.UsageError, match="name it with --problem"):
            project.guess_problem(tmp_path / path, names)


def files_of(*paths: Path) -> list[str]:
    return sorted(project.program_files(paths, project.project_at(*paths[:1])))


def test_the_files_of_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["app/Main.java", "app/x/Two.java", ".git/config", "__pycache__/a.pyc", "b.py~", "samples/1.in"]
    for name in names:
        problems.write(tmp_path / name, b"x")
    selected = [name for name in names if not left_out(name)]
    assert files_of(tmp_path) == sorted(selected) == ["app/Main.java", "app/x/Two.java", "samples/1.in"]
    assert files_of(tmp_path / "app/x/Two.java") == ["Two.java"]
    assert files_of(tmp_path / "app/x/Two.java", tmp_path / "app/Main.java") == ["Main.java", "x/Two.java"]
    assert files_of(tmp_path / "app", tmp_path / "samples/1.in") == ["app/Main.java", "app/x/Two.java", "samples/1.in"]
    # In a problem's folder samples and settings are no part of the program.
    (tmp_path / "judge.toml").write_text('files = ["app/Main.java"]')
    assert files_of(tmp_path) == ["app/Main.java", "app/x/Two.java"]
    monkeypatch.chdir(tmp_path)
    assert files_of() == ["app/Main.java"]
    (tmp_path / "judge.toml").write_text('files = ["../../etc/passwd"]')
    with pytest.raises(errors.UsageError, match="expected names of files in this folder"):
        files_of()
    (tmp_path / "link.py").symlink_to("/etc/hostname")
    with pytest.raises(errors.UsageError, match="is a link"):
        files_of(tmp_path)


@given(st.dictionaries(st.sampled_from(["problem", "entry"]), st.text(min_size=1)), st.binary(), st.binary())
def test_a_form_is_read_as_it_was_made(fields: dict[str, str], first: bytes, second: bytes) -> None:
    fields = {name: text.encode("utf-8", "replace").decode() for name, text in fields.items()}
    body, media = gateway.form(fields, [("app/Größe 1.py", first), ("b.py", second)])
    environ = {"wsgi.input": io.BytesIO(body), "CONTENT_TYPE": media, "CONTENT_LENGTH": str(len(body))}
    _, form, files = parse_form_data(environ)
    assert form.to_dict() == fields
    read = []
    for file in files.getlist("files"):
        with contextlib.closing(file):
            read.append((file.filename, file.read()))
    assert read == [("app/Größe 1.py", first), ("b.py", second)]


def test_events_out_of_lines() -> None:
    lines = (
        b': hello\r\n\nid: 7\nevent: submission\ndata: {"done": true}\n\ndata: [1]\n\nid: 8\nevent: lost\ndata: {}\n\n'
    )
    events = list(gateway.parse_events(lines.splitlines(keepends=True)))
    assert events == [("7", "submission", {"done": True}), ("7", "message", {}), ("8", "lost", {})]


def test_an_event_that_is_not_json_is_one_sentence() -> None:
    with pytest.raises(errors.ClientError, match="is not JSON"):
        list(gateway.parse_events([b"data: <html>\n", b"\n"]))


def test_a_wait_is_explained_once_for_each_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(following, "_QUIET_SECONDS", 0.0)
    reasons = ["all are drained", "all are drained", "all are full"]
    asked: list[str] = []

    class Waiting:
        def events(self, _: str) -> Iterator[dict[str, Any]]:
            yield {"status": "pending"}
            wait_for(lambda: len(asked) >= len(reasons), what="looks at the submission")
            yield {"verdict": "AC", "status": "success", "done": True}

        def json(self, _: str, path: str) -> dict[str, Any]:
            asked.append(path)
            return {"waits": {"reason": reasons[min(len(asked), 3) - 1], "seconds": 6.2}}

    assert following.follow(Waiting(), "a1") is not None  # type: ignore[arg-type]
    assert set(asked) == {"/submissions/a1"}
    lines = ["a1 has waited for 6 s: all are drained", "a1 has waited for 6 s: all are full"]
    assert capsys.readouterr().err.splitlines() == lines


def test_a_program_without_tests_has_run_and_is_not_accepted() -> None:
    task = {"id": "a1", "verdict": "AC", "status": "success", "created": "", "submission": {"command": "true"}}
    assert following.row(task)[3] == "ran"
    assert following.row({**task, "submission": {"problem": "hello"}})[3] == "AC"


@pytest.mark.parametrize(("cpu", "memory", "figures"), [(0, 0, ["", ""]), (0, 9, ["0 ms", "9 bytes"])])
def test_what_did_not_run_has_no_time_and_no_memory(
    cpu: float, memory: int, figures: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    result = {"cpu": cpu, "memory": memory, "score": 1234567.25}
    task = {"id": "a1", "verdict": "CE", "created": "", "submission": {"problem": "hello"}, "result": result}
    assert following.row(task)[4:6] == figures
    following.show(None, task)  # type: ignore[arg-type]
    assert capsys.readouterr().out.rstrip().endswith(f"score 1234567.25{' · cpu 0 ms · memory 9 bytes' * bool(memory)}")


# --- the difference, and what a terminal obeys -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "answer", "agree"),
    [
        ("1 2\n3", "1 2 3\n", True), ("yes", "Yes", False), ("0.3333333", "0.33333331", True), ("1.1", "1.2", False),
        ("7", "7.0", True), ("nan", "1.5", False), ("x", "1.5", False), ("1 2", "1", False), ("", " \n", True),
    ],
)  # fmt: skip
def test_words_are_compared(output: str, answer: str, agree: bool) -> None:
    assert comparing.agrees(output, answer) is agree


def test_the_difference_begins_where_output_and_answer_differ() -> None:
    assert list(comparing.difference("a\nx\nc\n", "a\nb\nc\n")) == ["--- answer", "+++ output", " a", "-b", "+x", " c"]
    long = "".join(f"{number}\n" for number in range(100_000))
    lines = list(comparing.difference(long + "1\n", long + "2\n"))
    assert lines[2:] == [" 99997", " 99998", " 99999", "-2", "+1", "(from line 99998 on)"]
    long_difference = list(comparing.difference("x\n" * 5000, "y\n" * 5000))
    assert len(long_difference) < 60
    assert max(map(len, comparing.difference("x" * 10**6, "y"))) < 300
    assert "in blanks" in list(comparing.difference("a  ", "a"))[-1]


def test_output_cannot_control_the_terminal() -> None:
    assert screen.visible("a\x1b[2Jb\r\nc\td\x9b\u202e") == "a\\x1b[2Jb\nc\td\\x9b\\u202e"


def test_times_and_sizes() -> None:
    assert [screen.seconds(0.0123), screen.seconds(1.5)] == ["12 ms", "1.50 s"]
    assert [screen.size(count) for count in (1, 1536, 1024**3)] == ["1 byte", "1.5 KiB", "1 GiB"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_list_fits_the_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    head = ["id", "what…", "language", "verdict!", "cpu", "memory", "created (UTC)"]
    row = ["0123456789abcdef01234567", "shortest-path-in-a-cave" * 3, "python3 ", "TLE    ", "1.25 s", "11.8 MiB"]
    row.append("2026-01-31 12:00:05")
    screen.table(head, [row])
    assert capsys.readouterr().out.splitlines()[1] == "  ".join(row), "a pipe gets every cell whole"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    screen.table(head, [row])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and max(map(len, lines)) <= width
    assert lines[1].startswith(row[0]) and "TLE" in lines[1] and "…" in lines[1]


def test_wide_characters_take_two_cells(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["Größe", "e\u0301", "洞窟の最短経路", "\uff57\uff49\uff44\uff45", "🙂 ok"]
    assert [screen.cells(text) for text in texts] == list(map(cell_len, texts)) == [5, 1, 14, 8, 5]
    assert screen.padded("洞窟の道", 6) == "洞窟… " and screen.padded("洞窟", 6) == "洞窟  "
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    screen.table(["problem", "title…", "type"], [["cave", "洞窟の最短経路" * 9, "pass-fail"], ["a", "x", "scoring"]])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(cell_len, lines)) <= 60
    assert [cell_len(line[: line.rindex("  ") + 2]) for line in lines] == [51] * 3, "columns stand below one another"


def test_lists_for_spreadsheets(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    reply = {"problems": [{"name": "cave", "title": 'a "cave", dark', "limits": {"cpu": 2}, "kind": "pass-fail"}]}
    monkeypatch.setattr(gateway.Gateway, "json", lambda *_, **__: reply)
    monkeypatch.setenv("JUDGE_SERVER", "http://127.0.0.1:1")
    monkeypatch.setenv("JUDGE_TOKEN", "t")
    assert cli.run(["problems", "-o", "csv"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row == {"name": "cave", "title": 'a "cave", dark', "limits.cpu": "2", "kind": "pass-fail"}


# --- Competitive Companion -------------------------------------------------------------------------------------

PAYLOAD: dict[str, Any] = {
    "name": "G. Castle Defense", "group": "Codeforces - Round 1", "url": "https://codeforces.com/contest/1954/problem/G",
    "interactive": False, "memoryLimit": 256, "timeLimit": 1500, "testType": "single",
    "tests": [{"input": "4 4\n", "output": "1\n"}, {"input": "2\n", "output": "3\n"}],
    "input": {"type": "stdin"}, "output": {"type": "stdout"},
    "languages": {"java": {"mainClass": "Main", "taskClass": "GCastleDefense"}}, "batch": {"id": "1", "size": 1},
}  # fmt: skip


def test_a_payload_becomes_a_folder(tmp_path: Path) -> None:
    posted = companion.read_payload(json.dumps(PAYLOAD).encode())
    assert posted == companion.Posted("G-Castle-Defense", "", 1.5, [(b"4 4\n", b"1\n"), (b"2\n", b"3\n")])
    folder = companion.save(posted, tmp_path)
    (folder / "samples/3.in").write_text("of an older version")
    (folder / "samples/notes.txt").write_text("mine")
    companion.save(posted._replace(tests=posted.tests[:1]), tmp_path)
    assert sorted(path.name for path in (folder / "samples").iterdir()) == ["1.ans", "1.in", "notes.txt"]
    assert project.project_at(folder) == project.Project(folder, time_limit=1.5)


@pytest.mark.parametrize(
    "change",
    [{"tests": [{"input": "\ud800", "output": ""}]}, {"timeLimit": 10**400}],
    ids=["half a character", "no number is as large"],
)
def test_a_bad_payload_is_refused_before_anything_is_written(change: dict[str, Any]) -> None:
    with pytest.raises(errors.UsageError, match="no payload"):
        companion.read_payload(json.dumps(PAYLOAD | change).encode())


def test_a_problem_of_the_gateway_keeps_its_name() -> None:
    own = json.dumps(PAYLOAD | {"url": "https://judge.example.org/problems/hello"}).encode()
    assert companion.read_payload(own, "https://judge.example.org")[:2] == ("hello", "hello")
    assert companion.read_payload(own, "https://other.example.org")[:2] == ("G-Castle-Defense", "")


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "...", "/", "CON", "nul", "a" * 5000, "x\0y", "Ä", "\x1b[2J"])
def test_no_name_leads_out_of_the_folder(name: str, tmp_path: Path) -> None:
    posted = companion.read_payload(json.dumps(PAYLOAD | {"name": name}).encode())
    try:
        folder = companion.save(posted, tmp_path / "to")
    except errors.UsageError:
        return
    assert folder.parent == tmp_path / "to"


@pytest.mark.parametrize("name", ["../x", "/x", "a//b", "a/../b", "", ".x", "a\\b", "c:x", "aux.in", "a/con"])
def test_no_name_of_a_gateway_leads_out_of_the_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(errors.UsageError, match="is no name for a file"):
        problems.safe_path(tmp_path, name)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("name", "url", "tests", "timeLimit"), JSON)) | JSON)
def test_any_other_payload_is_taken_or_refused_with_a_sentence(payload: Any) -> None:
    try:
        posted = companion.read_payload(json.dumps(payload).encode(), "https://judge.example.org")
    except errors.UsageError:
        return
    assert posted.tests == [(str(test["input"]), str(test["output"])) for test in payload["tests"]]


# --- local runs ------------------------------------------------------------------------------------------------


def test_languages_are_those_of_the_cluster() -> None:
    table = load_table(None)
    for name, language in running.LANGUAGES.items():
        assert name in table
        assert {guess(f"x{suffix}", table) for suffix in language.suffixes} == {name}


def test_a_language_of_the_cluster_is_run_as_its_family() -> None:
    assert running.guess_language([Path("x.h"), Path("x.CPP")]) is running.LANGUAGES["cpp"]
    assert running.guess_language([Path("x")], "cpp17") is running.LANGUAGES["cpp"]
    assert running.guess_language([Path("x.cpp")], "python3") is running.LANGUAGES["python3"]
    with pytest.raises(errors.UsageError, match="language 'klingon': cannot be run here; this client runs c, cpp"):
        running.guess_language([Path("x.c")], "klingon")


PROGRAMS = {
    "AC": "print(int(input()) * 2)",
    "WA": "print('\\x1b[2J')",
    "RTE": "import sys; sys.stderr.write('oops'); sys.exit(3)",
    "TLE": "while True: pass",
    "OLE": "while True: print('x' * 10**6)",
}


@pytest.mark.parametrize("verdict", PROGRAMS)
def test_samples_are_run(verdict: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    limit = 0.5 if verdict == "TLE" else 60
    problems.write_settings(tmp_path, {"problem": "double", "time_limit": limit})
    problems.write(tmp_path / "samples/1.in", b"21\n")
    problems.write(tmp_path / "samples/1.ans", b"42\n")
    (tmp_path / "double.py").write_text(PROGRAMS[verdict])
    assert cli.run(["test", str(tmp_path / "double.py")]) == screen.exit_code(verdict)
    out = capsys.readouterr().out
    assert out.startswith(f"{verdict}  1  ")
    assert ("    -42" in out and "    +\\x1b[2J" in out) == (verdict == "WA")
    assert ("oops" in out) == (verdict == "RTE")
    assert f"{int(verdict == 'AC')} of 1 samples passed" in out


def test_a_program_of_several_files_is_compiled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problems.write_settings(tmp_path, {"problem": "x"})
    problems.write(tmp_path / "samples/1.in", b"")
    problems.write(tmp_path / "samples/1.ans", b"7\n")
    (tmp_path / "main.c").write_text('#include <stdio.h>\nint seven(void);\nint main(void) { printf("%d", seven()); }')
    (tmp_path / "seven.c").write_text("int seven(void) { return 7; }")
    before = sorted(tmp_path.iterdir())
    assert cli.run(["test", str(tmp_path / "main.c"), str(tmp_path / "seven.c")]) == 0
    assert cli.run(["test", str(tmp_path)]) == 0
    assert cli.run(["test", str(tmp_path / "main.c")]) == 15
    assert "CE  compilation failed" in capsys.readouterr().out
    assert sorted(tmp_path.iterdir()) == before, "nothing is left beside the sources"


def test_conversations_are_no_samples_to_run(tmp_path: Path) -> None:
    for name in ("1.in", "1.ans", "1.interaction"):
        problems.write(tmp_path / "samples" / name, b"")
    with pytest.raises(errors.UsageError, match="no samples that can be run"):
        running.samples_of(tmp_path)
