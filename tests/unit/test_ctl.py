"""judgectl without a cluster: contexts, arguments, bad input. One sentence and the right exit code each."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from judge.ctl import context, main, show, submit
from judge.errors import ConfigError, FieldError, UsageError
from judge.rpc import messages as m


@pytest.fixture
def client_file(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("secret\n")
    path = tmp_path / "client.yml"
    path.write_text("server: http://127.0.0.1:1\ntoken_file: token\nrun_dir: run\n")
    return path


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("JUDGE_CONTEXT", "JUDGE_SERVER", "JUDGE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_context_file_resolves_its_own_relative_paths(client_file: Path) -> None:
    found = context.find(client_file, None)
    assert (found.server, found.token, found.run_dir) == ("http://127.0.0.1:1", "secret", client_file.parent / "run")


def test_the_nearest_context_wins(client_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work" / ".judge").mkdir(parents=True)
    (tmp_path / "work" / ".judge" / "client.yml").write_text("server: http://127.0.0.1:2\ntoken_file: ../../token\n")
    monkeypatch.chdir(tmp_path / "work")
    assert context.find(None, None).server == "http://127.0.0.1:2"
    monkeypatch.setenv("JUDGE_CONTEXT", str(client_file))
    assert context.find(None, None).server == "http://127.0.0.1:1"
    monkeypatch.setenv("JUDGE_SERVER", "http://127.0.0.1:3")
    assert context.find(None, None).server == "http://127.0.0.1:3"
    assert context.find(None, "http://127.0.0.1:4").server == "http://127.0.0.1:4"


def test_environment_alone_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_SERVER", "http://127.0.0.1:3/")
    monkeypatch.setenv("JUDGE_TOKEN", "t")
    assert context.find(None, None) == context.Context("http://127.0.0.1:3", "t")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("server: http://x:1\ntokenfile: t\n", "client.yml:2: unknown key 'tokenfile'; did you mean 'token_file'?"),
        ("server: nowhere\ntoken_file: token\n", "client.yml:1: server"),
        ("- a\n", "client.yml:1: expected a mapping"),
        ("server: http://x:1\ntoken_file: absent\n", "absent: token file cannot be read: No such file"),
    ],
)
def test_bad_context_is_named_with_its_line(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "client.yml").write_text(text)
    with pytest.raises(ConfigError, match=r"client\.yml|absent") as caught:
        context.find(tmp_path / "client.yml", None)
    assert sentence in str(caught.value)


def test_no_context_says_how_to_make_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(context, "PLACES", (Path(".judge/client.yml"),))
    with pytest.raises(UsageError, match="judge up"):
        context.find(None, None)


@pytest.mark.parametrize(("text", "value"), [("64M", 64 << 20), ("1G", 1 << 30), ("2048", 2048), ("1KiB", 1024)])
def test_sizes(text: str, value: int) -> None:
    assert main.parse_size(text) == value
    assert main.parse_size(None) is None


@pytest.mark.parametrize("text", ["", "M", "-1M", "1.5G", "1T"])
def test_bad_sizes(text: str) -> None:
    with pytest.raises(UsageError, match="--memory"):
        main.parse_size(text)


@pytest.mark.parametrize(("text", "value"), [("90s", 90), ("30m", 1800), ("2h", 7200), ("1d", 86400)])
def test_durations(text: str, value: int) -> None:
    assert main.parse_duration(text) == value


@pytest.mark.parametrize("text", ["", "5", "0s", "h", "-1h"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(UsageError, match="--for"):
        main.parse_duration(text)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [(b"", "is empty"), (b"int main\xff", "byte 8 is not UTF-8"), (b"\x7fELF\0\0", "NUL byte"), (b" \n", "is empty")],
)
def test_sources_that_cannot_be_judged(tmp_path: Path, data: bytes, sentence: str) -> None:
    path = tmp_path / "a.c"
    path.write_bytes(data)
    with pytest.raises(UsageError) as caught:
        submit.read_source(path)
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_source_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        submit.read_source(tmp_path / "absent.c")


@pytest.mark.parametrize(
    ("name", "language"), [("a.c", "c"), ("a.cpp", "cpp"), ("a.py", "python3"), ("A.java", "java")]
)
def test_language_is_guessed_from_the_suffix(name: str, language: str) -> None:
    assert submit.language_of(Path(name), None) == language


def test_unknown_languages_name_the_choices() -> None:
    with pytest.raises(FieldError, match="--language"):
        submit.language_of(Path("-"), None)
    with pytest.raises(FieldError, match="choose one of"):
        submit.language_of(Path("a.c"), "cobol")


def test_every_verdict_has_its_own_exit_code() -> None:
    assert set(submit.EXIT_CODES) == set(m.Verdict)
    assert len({*submit.EXIT_CODES.values(), submit.EXIT_CANCELLED}) == len(m.Verdict) + 1
    assert set(show.COLOURS) == set(m.Verdict)


def test_a_key_is_made_once() -> None:
    first = submit.keyed(m.Submission(command="true"))
    assert first.idempotency_key
    assert submit.keyed(first) is first


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["submit"], "give source files, or --command"),
        (["submit", "x.c", "--command", "true"], "exactly one"),
        (["submit", "--command", "true", "--priority", "urgent"], "choose high, normal or low"),
        (["submit", "--command", "true", "--memory", "lots"], "--memory: 'lots' is not a size"),
        (["hold", "etcd", "--reason", "r", "--for", "ever"], "--for: 'ever' is not a duration"),
        (["problem", "import", "/nonexistent"], "/nonexistent"),
    ],
)
def test_bad_usage_is_one_sentence_and_exit_code_2(
    client_file: Path,
    arguments: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["judgectl", "--context", str(client_file), *arguments])
    with pytest.raises(SystemExit) as caught:
        main.main()
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert "Traceback" not in err


def test_a_cluster_that_does_not_answer_is_exit_code_1(
    client_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("judge.ctl.main.Api", lambda found, timeout=0.2: _quick(found))
    monkeypatch.setattr("sys.argv", ["judgectl", "--context", str(client_file), "executors"])
    with pytest.raises(SystemExit) as caught:
        main.main()
    assert caught.value.code == 1
    assert "does not answer" in capsys.readouterr().err


def _quick(found: context.Context) -> object:
    from judge.ctl.api import Api

    return Api(found, timeout=0.2)


@pytest.mark.parametrize("command", ["", "submit", "search", "status", "hold", "problem import", "examples"])
def test_help_of_every_command(command: str) -> None:
    result = CliRunner().invoke(main.app, [*command.split(), "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.output
