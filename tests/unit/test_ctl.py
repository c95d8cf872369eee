"""judgectl without a cluster: contexts, arguments, bad input. One sentence and the right exit code each."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import io
import json
import socket
import ssl
import subprocess
import sys
import threading
import types
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import judge
from judge.common.errors import ConfigError, FieldError, NotFoundError, UnavailableError, UsageError
from judge.ctl import api, completing, context, examples, main, show, sources, submit
from judge.ctl.fleet.ansible import Sources
from judge.ctl.text import duration, size
from judge.model import messages as m
from judge.model import people
from judge.problems.examples import load_examples
from tests.support.certificates import issue

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def client_file(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("secret\n")
    path = tmp_path / "client.yml"
    path.write_text("server: http://127.0.0.1:1\ntoken_file: token\nrun_dir: run\n")
    return path


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("JUDGE_CONTEXT", "JUDGE_INVENTORY", "JUDGE_SERVER", "JUDGE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_context_file_resolves_its_own_relative_paths(client_file: Path) -> None:
    cluster = context.find(client_file, None)
    assert (cluster.server, cluster.token, cluster.run_dir) == (
        "http://127.0.0.1:1",
        "secret",
        client_file.parent / "run",
    )


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


@pytest.mark.parametrize(
    ("read", "values", "bad"),
    [
        (size, {"64M": 64 << 20, "1G": 1 << 30, "2048": 2048, "1KiB": 1024}, ["", "M", "-1M", "1.5G", "1T"]),
        (duration, {"90s": 90, "30m": 1800, "2h": 7200, "1d": 86400}, ["", "5", "0s", "h", "-1h"]),
    ],
)
def test_sizes_and_durations(read, values: dict[str, int], bad: list[str]) -> None:
    assert {text: read(text, "--option") for text in values} == values
    for text in bad:
        with pytest.raises(UsageError, match="--option"):
            read(text, "--option")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "is empty"),
        (b"\x7fELF\0\0", "NUL byte"),
        (b" \n", "is empty"),
        (None, "cannot be read: No such file"),
    ],
)
def test_sources_that_cannot_be_judged(tmp_path: Path, data: bytes | None, sentence: str) -> None:
    path = tmp_path / "a.c"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(UsageError) as caught:
        sources.read_programs([path], language=None, entry=None, each=False)
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "language"), [("a.c", "c"), ("a.cpp", "cpp"), ("a.py", "python3"), ("A.java", "java")]
)
def test_language_is_guessed_from_the_suffix(name: str, language: str) -> None:
    assert submit.language_of(Path(name), None) == language


def test_unknown_languages_name_the_choices() -> None:
    with pytest.raises(FieldError, match="--language"):
        submit.language_of(Path("-"), None)
    with pytest.raises(FieldError, match="choose one of"):
        submit.language_of(Path("a.c"), "klingon")
    with pytest.raises(FieldError, match=r"'pyton' is not known; did you mean 'python3'\?"):
        submit.language_of(Path("a.c"), "pyton")
    assert submit.language_of(Path("a.c"), "C++17 (GCC)") == "cpp17"


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (None, ""),
        (m.Repeated(cpu=2.12, wall=3), "near the limit, repeated alone: the first run had cpu 2.12 s, wall 3.00 s"),
        (m.Repeated(cpu=2.125, wall=3, exclusive=False), "near the limit, repeated beside others: the first run"),
    ],
)
def test_a_repeated_test_says_so(first, words, capsys):
    test = m.TestResult(name="1", verdict="AC", repeated=first)
    assert show.repeated(test).startswith(words)
    table = show._tests_table(m.Result(tests=[test]))
    assert table.rows[0][-1].plain.startswith(words)


class Uploads:
    """An `Api` that keeps what is uploaded."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def put_content(self, data: bytes) -> str:
        sha = hashlib.sha256(data).hexdigest()
        self.blobs[sha] = data
        return sha


@pytest.mark.parametrize("data", [b"", b" ", b"\n\n", "42 é\r\n".encode(), b"\xff\xfe", b"\xc3", b"x" * (1024**2 + 1)])
@pytest.mark.parametrize("piped", [True, False])
def test_an_input_arrives_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, piped: bool) -> None:
    path = Path("-") if piped else tmp_path / "input"
    if piped:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    else:
        path.write_bytes(data)
    uploads = Uploads()
    handed = m.Submission(language="c", source="x", **submit.input_of(uploads, path))  # type: ignore[arg-type]
    if handed.stdin is not None:
        assert (handed.stdin.encode(), handed.tests, uploads.blobs) == (data, [], {})
    else:
        (test,) = handed.tests
        assert uploads.blobs == {test.input_blob: data}
        assert test.input_blob == hashlib.sha256(data).hexdigest()


def test_a_key_is_made_once() -> None:
    first = m.Submission(command="true").keyed()
    assert first.idempotency_key
    assert first.keyed() is first


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["submit"], "give source files, or --command"),
        (["submit", "x.c", "--command", "true"], "exactly one"),
        (["submit", "--command", "true", "--priority", "urgent"], "choose high, normal or low"),
        (["submit", "--command", "true", "--memory", "lots"], "--memory: 'lots' is not a size"),
        (["hold", "etcd", "--reason", "r", "--for", "ever"], "--for: 'ever' is not a duration"),
        (["problem", "import", "/nonexistent"], "/nonexistent"),
        (["search", "--limit", "1000"], "judgectl: --limit: expected at most 500\n"),
        (["serch"], "judgectl: No such command 'serch'. Did you mean 'search'"),
        (["search", "--nope"], "judgectl: No such option: --nope"),
        (["search", "--limit", "x"], "judgectl: --limit: expected an integer"),
        (["search", "-o", "xml"], "judgectl: --output: 'xml' is not one of 'table', 'json', 'csv'"),
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
    monkeypatch.setitem(api.Api.__init__.__kwdefaults__, "timeout", 0.2)
    monkeypatch.setattr("sys.argv", ["judgectl", "--context", str(client_file), "executors"])
    with pytest.raises(SystemExit) as caught:
        main.main()
    assert caught.value.code == 1
    assert "does not answer" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["", "submit", "search", "status", "hold", "problem import", "examples"])
def test_help_of_every_command(command: str) -> None:
    result = CliRunner().invoke(main.app, [*command.split(), "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.output


@pytest.fixture
def deployed(tmp_path: Path) -> Path:
    """An inventory beside the secrets that site.yml makes."""
    directory = tmp_path / "mine"
    (directory / "secrets/pki").mkdir(parents=True)
    (directory / "secrets/admin.token").write_text("hush\n")
    (directory / "secrets/pki/ca.crt").write_text("")
    (directory / "hosts.yml").write_text(
        "all: {vars: {judge_https_port: 8443}}\n"
        "gateways:\n  hosts:\n    g2: {ansible_host: 192.0.2.2, judge_https_port: 443}\n"
        "    g1: {ansible_host: 192.0.2.1, judge_address: judge.example.org}\n    g3: {ansible_host: '2001:db8::1'}\n"
    )
    return directory


def test_an_inventory_is_enough_to_find_the_cluster(deployed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = context.find(None, None, Sources((str(deployed),)))
    assert (cluster.server, cluster.token) == ("https://judge.example.org:8443", "hush")
    assert cluster.alternatives == ("https://192.0.2.2", "https://[2001:db8::1]:8443")
    assert cluster.ca == deployed / "secrets/pki/ca.crt"
    monkeypatch.setenv("JUDGE_TOKEN", "mine")
    (deployed / "secrets/admin.token").unlink()
    assert context.find(None, None, Sources((str(deployed),))).token == "mine"
    assert context.find(None, "https://192.0.2.9", Sources((str(deployed),))).alternatives == ()


def test_precedence_of_contexts_and_inventories(
    deployed: Path, client_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_INVENTORY", str(deployed))
    assert context.find(None, None).source == str(deployed)
    assert context.find(client_file, None).source == str(client_file)
    monkeypatch.setenv("JUDGE_CONTEXT", str(client_file))
    assert context.find(None, None).source == str(client_file)
    assert context.find(None, None, Sources((str(deployed),))).source == str(deployed)
    with pytest.raises(UsageError, match="--context and --inventory both name a cluster"):
        context.find(client_file, None, Sources((str(deployed),)))


def test_secrets_may_be_elsewhere_and_certificates_the_operators_own(
    deployed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (deployed / "secrets").rename(tmp_path / "kept")
    monkeypatch.setenv("PLACE", str(tmp_path))
    (deployed / "group_vars").mkdir()
    (deployed / "group_vars/all.yml").write_text("judge_secrets_dir: $PLACE/kept\n")
    assert context.find(None, None, Sources((str(deployed),))).ca == tmp_path / "kept/pki/ca.crt"
    text = "judge_secrets_dir: ~/kept\njudge_gateway_certificate: /etc/public.crt\n"
    (deployed / "group_vars/all.yml").write_text(text)
    assert context.find(None, None, Sources((str(deployed),))).ca is None


OWN = "judge_gateway_certificate: /etc/public.crt\n"
PUBLIC = "judge_gateway_public_url: https://judge.example.edu:8443/\n"
SANS = "judge_pki_https_sans: ['*.x', only.judge0, judge.example.edu]\n"
JUDGE0 = "judge_gateway_judge0: {hosts: [only.judge0]}\n"
TEMPLATES = """where: judge.example.edu
judge_gateway_certificate: '/etc/{{ where }}.crt'
judge_gateway_public_url: 'https://{{ where }}'
"""


@pytest.mark.parametrize(
    ("settings", "server", "name", "ca"),
    [
        (OWN + PUBLIC, "https://judge.example.edu:8443", True, False),
        # The cluster's authority has put the name into its certificate, or somebody else ends TLS under it.
        (SANS + PUBLIC, "https://judge.example.edu:8443", True, True),
        (PUBLIC, "https://judge.example.org:8443", False, True),
        (OWN + SANS + JUDGE0, "https://judge.example.edu:8443", True, False),
        (OWN, "https://judge.example.org:8443", False, False),
        (TEMPLATES, "https://judge.example.edu", True, False),
    ],
)
def test_gateways_are_asked_by_the_name_that_people_use(
    deployed: Path, settings: str, server: str, name: bool, ca: bool
) -> None:
    """Their addresses follow, by the same name: it may lead nowhere from here."""
    (deployed / "group_vars").mkdir()
    (deployed / "group_vars/gateways.yml").write_text(settings)
    cluster = context.find(None, None, Sources((str(deployed),)))
    addresses = ("https://judge.example.org:8443", "https://192.0.2.2", "https://[2001:db8::1]:8443")
    assert (cluster.server, cluster.ca is not None) == (server, ca)
    assert (cluster.alternatives, cluster.name) == ((addresses, "judge.example.edu") if name else (addresses[1:], ""))


@pytest.mark.parametrize("missing", ["admin.token", "pki/ca.crt"])
def test_an_inventory_before_its_deployment_is_a_sentence(deployed: Path, missing: str) -> None:
    (deployed / "secrets" / missing).unlink()
    with pytest.raises(ConfigError) as caught:
        context.find(None, None, Sources((str(deployed),)))
    assert str(caught.value).startswith(
        f"{deployed}/secrets/{missing} does not exist; 'ansible-playbook -i {deployed} s"
    )


def test_encrypted_tokens_and_missing_gateways_are_told(deployed: Path) -> None:
    (deployed / "secrets/admin.token").write_text("$ANSIBLE_VAULT;1.1;AES256\n00\n")
    with pytest.raises(ConfigError, match=r"admin\.token: is encrypted; set JUDGE_TOKEN"):
        context.find(None, None, Sources((str(deployed),)))
    (deployed / "hosts.yml").write_text("judicators: {hosts: {j1: }}\n")
    with pytest.raises(ConfigError, match="there are no hosts in the group gateways"):
        context.find(None, None, Sources((str(deployed),)))


def test_a_bad_ca_is_one_sentence(tmp_path: Path) -> None:
    for name, text, sentence in (
        ("none", None, "cannot be read: No such file"),
        ("bad", "x", "is no certificate in PEM"),
    ):
        if text:
            (tmp_path / name).write_text(text)
        with pytest.raises(ConfigError, match=sentence):
            api.Api(context.Context("https://127.0.0.1:1", "t", ca=tmp_path / name))


class Server(http.server.ThreadingHTTPServer):
    """What its gateway answers to a path, and what has become of uploads to it."""

    def __init__(self, gateway: type[Gateway]) -> None:
        super().__init__(("127.0.0.1", 0), gateway)
        self.reply: Callable[[str], tuple[int, bytes]] = lambda _: (503, b"")
        self.uploads: list[int] = []
        self.begun, self.go_on = threading.Semaphore(0), threading.Event()


class Gateway(http.server.BaseHTTPRequestHandler):
    """Answers everything with its server's status."""

    server: Server

    def do_GET(self) -> None:
        status, body = self.server.reply(self.path)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def serving(servers: list[Server]) -> Iterator[list[Server]]:
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield servers
    for server in servers:
        server.go_on.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def gateways() -> Iterator[list[Server]]:
    with serving([Server(Gateway) for _ in range(2)]) as servers:
        yield servers


def test_the_first_gateway_that_answers_is_asked(gateways: list[Server]) -> None:
    sick, healthy = (f"http://127.0.0.1:{server.server_port}" for server in gateways)
    gateways[1].reply = lambda _: (200, b"fine")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with api.Api(context.Context(dead, "t", alternatives=(sick, healthy)), timeout=60) as client:
        assert client.request("GET", "/alive").content == b"fine"
        assert str(client.request("GET", "/alive").url).startswith(healthy), "and is asked from then on"


@contextlib.contextmanager
def listing(ids: list[str]) -> Iterator[api.Api]:
    """A gateway with these submissions, newest first, in pages of two."""

    def pages(path: str) -> tuple[int, bytes]:
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(path).query)
        begin = ids.index(query["before"][0]) + 1 if "before" in query else 0
        page = ids[begin : begin + 2]
        submission = m.Submission(command="true")
        tasks = [m.Task(id=task, submission=submission, status="pending", done=False, created="") for task in page]
        following = page[-1] if begin + 2 < len(ids) else None
        return 200, m.SearchReply(tasks=tasks, next=following).model_dump_json().encode()

    with serving([Server(Gateway)]) as (server,):
        server.reply = pages
        with api.Api(context.Context(f"http://127.0.0.1:{server.server_port}", "t")) as client:
            yield client


def test_the_end_of_an_id_as_pages_show_it_is_enough() -> None:
    ids = [f"{number:017x}{end}" for number, end in enumerate(["aaaaaaa", "bbbbbbb", "ccccccc", "ddddddd", "ddddddd"])]
    with listing(ids[:4]) as client:
        assert client.whole_id("…ccccccc") == ids[2] and client.whole_id("3ddddddd") == ids[3]
        assert client.whole_id(ids[0]) == ids[0] and client.whole_id("no id") == "no id", "nothing is looked for"
        with pytest.raises(NotFoundError, match="'0000000' among your newest; give its whole id"):
            client.whole_id("0000000")
    with listing(ids[3:]) as client, pytest.raises(UsageError, match=r"the end of 2 ids: .*give more of it"):
        client.whole_id("ddddddd")


def test_an_interrupted_wait_says_that_judging_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    task = m.Task(id="1" * 24, submission=m.Submission(command="true"), status="pending", done=False, created="")

    class Interrupted:
        def request(self, *_: object) -> object:
            return types.SimpleNamespace(json=lambda: {"languages": []})

        def follow(self, *_: object, **__: object) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        submit.follow_handed(Interrupted(), [task], quiet=True)  # type: ignore[arg-type]
    assert f"judging goes on without you; look with: judgectl get {task.id}" in capsys.readouterr().err.replace(
        "\n", " "
    )


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        (["search", "--before", "4ee8a9b"], "before={id}"),
        (["audit", "--object", "4ee8a9b"], "object={id}"),
        (["audit", "--object", "abcdef0"], "object=abcdef0"),
        (["webhook", "deliveries", "--submission", "…4ee8a9b"], "submission={id}"),
    ],
)
def test_the_end_of_an_id_is_enough_in_conditions(
    command: list[str], asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = m.Task(
        id=f"{'1' * 17}4ee8a9b", submission=m.Submission(command="true"), status="pending", done=False, created=""
    )
    paths: list[str] = []

    def reply(path: str) -> tuple[int, bytes]:
        paths.append(path)
        if "/submissions?" in path:
            return 200, m.SearchReply(tasks=[task], next=None).model_dump_json().encode()
        return 200, b'{"entries": [], "next": null}' if "/audit" in path else b'{"deliveries": [], "next": null}'

    with serving([Server(Gateway)]) as (server,):
        server.reply = reply
        monkeypatch.setenv("JUDGE_SERVER", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("JUDGE_TOKEN", "t")
        result = CliRunner().invoke(main.app, command)
    assert result.exit_code == 0, result.output
    assert asked.format(id=task.id) in paths[-1]


def test_a_submission_that_waits_is_looked_at_again() -> None:
    task = m.Task(id="1" * 24, submission=m.Submission(command="true"), status="pending", done=False, created="")
    waits = m.Waits(reason="all are drained", seconds=6)
    done = {"done": True, "status": m.Status.SUCCESS, "verdict": m.Verdict.AC}
    answers = [task.model_copy(update=change) for change in ({"waits": waits}, done)]
    paths: list[str] = []
    seen: list[m.Task] = []

    def reply(path: str) -> tuple[int, bytes]:
        paths.append(path)
        return 200, answers[len(seen)].model_dump_json().encode()

    with serving([Server(Gateway)]) as (server,):
        server.reply = reply
        with api.Api(context.Context(f"http://127.0.0.1:{server.server_port}", "t")) as client:
            assert client.follow(task, seen.append).verdict == "AC"
    assert [task.waits for task in seen] == [waits, None]
    assert paths == [f"/api/v1/submissions/{task.id}?wait=5.5&version=0"] * 2


def test_a_broken_stream_is_opened_again_and_one_too_many_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    task = m.Task(id="1" * 24, submission=m.Submission(command="true"), status="running", done=False, created="")
    end = {"done": True, "status": m.Status.SUCCESS, "verdict": m.Verdict.AC}
    answers = [task.model_copy(update={"version": version}) for version in (5, 6, 7)]
    answers.append(task.model_copy(update={"version": 8, **end}))
    streams: list[str] = []
    pauses: list[float] = []

    class Dying(Gateway):
        """Ends each stream in the middle, and refuses the second one."""

        def do_GET(self) -> None:
            if not self.path.endswith("/events"):
                return super().do_GET()
            streams.append(self.headers["Last-Event-ID"])
            refused = len(streams) == 2
            body = (
                m.ErrorBody(code="limit", error="10 streams are open").model_dump_json() if refused else "data: {}\n\n"
            )
            self.send_response(429 if refused else 200)
            self.send_header("Content-Length", str(len(body) if refused else 1000))
            self.end_headers()
            self.wfile.write(body.encode())
            return None

    with serving([Server(Dying)]) as (server,):
        server.reply = lambda _: (200, answers.pop(0).model_dump_json().encode())
        monkeypatch.setattr(api.clock, "sleep", pauses.append)
        with api.Api(context.Context(f"http://127.0.0.1:{server.server_port}", "t")) as client:
            seen: list[int] = []
            assert client.follow(task, lambda now: seen.append(now.version)).verdict == "AC"
    assert (seen, streams) == ([5, 6, 7, 8], ["0", "6", "7"])
    assert pauses == [api._PAUSE, api._LIMITED_PAUSE, api._PAUSE]


def test_a_limit_is_one_sentence_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence = "30 submissions of user 'ann' within a minute are all that may be; hand in again in 17 s"
    calls: list[str] = []

    class Full(Gateway):
        def do_POST(self) -> None:
            calls.append(self.path)
            super().do_GET()

    (tmp_path / "a.py").write_text("print(1)")
    with serving([Server(Full)]) as (server,):
        server.reply = lambda _: (429, m.ErrorBody(code="limit", error=sentence).model_dump_json().encode())
        monkeypatch.setenv("JUDGE_SERVER", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("JUDGE_TOKEN", "t")
        monkeypatch.setattr("sys.argv", ["judgectl", "submit", str(tmp_path / "a.py")])
        with pytest.raises(SystemExit) as caught:
            main.main()
    assert (caught.value.code, capsys.readouterr().err) == (2, f"judgectl: {sentence}\n")
    assert calls == ["/api/v1/submissions"], "it is not repeated"


def test_a_wait_is_explained_once_for_each_reason(capsys: pytest.CaptureFixture[str]) -> None:
    task = m.Task(id="1" * 24, submission=m.Submission(command="true"), status="pending", done=False, created="")
    done = task.model_copy(update={"done": True, "status": m.Status.SUCCESS, "verdict": m.Verdict.AC})

    class Waiting:
        def request(self, *_: object) -> object:
            return types.SimpleNamespace(json=lambda: {"languages": []})

        def follow(self, task: m.Task, changed: Callable[[m.Task], None]) -> m.Task:
            for seconds, reason in ((6, "all are drained"), (12, "all are drained"), (18, "all are full")):
                waits = m.Waits(reason=reason, seconds=seconds)
                changed(task.model_copy(update={"waits": waits}))
            return done

    assert submit.follow_handed(Waiting(), [task], quiet=True) == [done]  # type: ignore[arg-type]
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"{task.id} has waited for 6 s: all are drained", f"{task.id} has waited for 18 s: all are full"]
    waiting = task.model_copy(update={"waits": m.Waits(reason="all are full", seconds=18)})
    assert submit._line(waiting).plain == f"pending  {task.id}  18 s"


def test_a_program_without_tests_has_run_and_is_not_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    free, judged = m.Submission(command="true"), m.Submission(problem="hello", source="x", language="c")
    for sub, word in ((free, "ran"), (judged, "AC")):
        task = m.Task(id="1" * 24, submission=sub, status="success", verdict="AC", done=True, created="")
        show.print_task(task)
        assert capsys.readouterr().out.startswith(f"{word}  ")
        assert show.tasks_table([task]).rows[0][4].plain == word
        assert submit.exit_code(task) == 0


@pytest.mark.parametrize(("cpu", "memory", "figures"), [(0, 0, ["", ""]), (0, 9, ["0 ms", "9 bytes"])])
def test_what_did_not_run_has_no_time_and_no_memory(
    cpu: float, memory: int, figures: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    task = m.Task(id="1" * 24, submission=m.Submission(language="c"), status="compile_failed", done=True, created="")
    task = task.model_copy(update={"verdict": m.Verdict.CE, "result": m.Result(cpu=cpu, memory=memory)})
    assert [cell.plain for cell in show.tasks_table([task]).rows[0][5:7]] == figures
    show.print_task(task)
    assert ("cpu 0 ms · memory 9 bytes" in capsys.readouterr().out) == bool(memory)


def test_an_unknown_action_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving([Server(Gateway)]) as (server,):
        server.reply = lambda _: (200, b'{"entries": [], "next": null}')
        monkeypatch.setenv("JUDGE_SERVER", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("JUDGE_TOKEN", "t")
        monkeypatch.setattr(show, "err", show.Screen(stderr=True))
        words = CliRunner().invoke(main.app, ["audit", "--action", "rejudge"]).stderr
        assert words.startswith("--action: 'rejudge' is no action; there are login, ") and "rejudging.start" in words
        for action in ("problem.import", "problem."):
            assert CliRunner().invoke(main.app, ["audit", "--action", action]).stderr == ""


def test_accounts_are_listed_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    users = [people.User(name=f"u{number}", role="user", created="2026") for number in range(3)]
    body = people.UsersReply(users=users, next=None).model_dump_json().encode()
    with serving([Server(Gateway)]) as (server,):
        server.reply = lambda _: (200, body)
        monkeypatch.setenv("JUDGE_SERVER", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("JUDGE_TOKEN", "t")
        result = CliRunner().invoke(main.app, ["user", "list", "--limit", "2", "-o", "json"])
    assert [user["name"] for user in json.loads(result.stdout)] == ["u0", "u1"]


@pytest.mark.parametrize("command", [[], ["submit"], ["user", "list"]])
def test_a_flag_takes_no_value(command: list[str]) -> None:
    text = CliRunner().invoke(main.app, [*command, "--help"]).output
    assert "--help" in text and "<bool>" not in text


@pytest.mark.parametrize(("server", "source"), [(None, "JUDGE_SERVER"), ("http://127.0.0.1:1", "--server")])
def test_a_silent_cluster_is_named_by_where_its_address_is_from(
    server: str | None, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_SERVER", "http://127.0.0.1:1")
    monkeypatch.setenv("JUDGE_TOKEN", "t")
    with api.Api(context.find(None, server), timeout=0) as client, pytest.raises(UnavailableError) as caught:
        client.request("GET", "/status")
    sentence = (
        f"http://127.0.0.1:1 does not answer (Connection refused); is the address in {source} right, and does it run?"
    )
    assert str(caught.value) == sentence
    with pytest.raises(UsageError, match=r"expected a URL without a path, as in https://judge\.example\.org, not 'x'"):
        context.find(None, "x")


def test_the_shell_completes_problems_and_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    task = m.Task(id="4" * 24, submission=m.Submission(problem="hello"), status="pending", done=False, created="")

    def reply(path: str) -> tuple[int, bytes]:
        if path.endswith("/problems"):
            return 200, b'{"problems": [{"name": "hello"}, {"name": "halves"}, {"name": "primes"}]}'
        return 200, m.SearchReply(tasks=[task], next=None).model_dump_json().encode()

    def completed(server: str, *words: str) -> list[str]:
        line = ["judgectl", "--server", server, *words]
        environ = {
            "_JUDGECTL_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(line),
            "COMP_CWORD": str(len(line) - 1),
        }
        run = CliRunner().invoke(main.app, [], prog_name="judgectl", env={**environ, "JUDGE_TOKEN": "t"})
        assert run.stderr == ""
        return run.stdout.split()

    with serving([Server(Gateway)]) as (server,):
        server.reply = reply
        url = f"http://127.0.0.1:{server.server_port}"
        assert completed(url, "problem", "show", "h") == ["hello", "halves"]
        assert completed(url, "submit", "--problem", "p") == ["primes"]
        assert completed(url, "get", "4444") == [task.id]
        server.reply = lambda _: (500, b"broken")
        assert completed(url, "problem", "show", "h") == []
    monkeypatch.setattr(completing, "_PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert completed(f"http://127.0.0.1:{silent.getsockname()[1]}", "problem", "publish", "h") == []


def test_the_version_needs_no_imports() -> None:
    code = (
        "import sys; sys.argv = ['judgectl', '--version']; from judge.ctl.start import main; main();"
        "sys.exit(len([one for one in sys.modules if one.startswith('judge')]) > 3 or 'typer' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, f"judgectl {judge.__version__}\n")


def test_when_no_gateway_answers_all_are_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        dead = [f"http://127.0.0.1:{sock.getsockname()[1]}" for sock in (first, second)]
    client = api.Api(context.Context(dead[0], "t", alternatives=(dead[1],), source="mine"), timeout=1)
    with client, pytest.raises(UnavailableError) as caught:
        client.request("GET", "/alive")
    addresses = ", ".join(sorted(dead))
    assert (
        str(caught.value)
        == f"none of {addresses} answers (Connection refused); is the address in mine right, and does it run?"
    )


def _own_authority(directory: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that nobody else has signed, and its key."""
    issuer = issue("gateway", sans=("127.0.0.1",))
    directory.mkdir()
    cert_file, key_file = directory / "crt", directory / "key"
    cert_file.write_bytes(issuer.pem)
    key_file.write_bytes(issuer.key_pem)
    return cert_file, key_file


def test_a_replaced_ca_is_read_again(gateways: list[Server], tmp_path: Path) -> None:
    (before, _), (after, key) = _own_authority(tmp_path / "before"), _own_authority(tmp_path / "after")
    gateways[0].reply = lambda _: (200, b"fine")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(after, key)
    gateways[0].socket = tls.wrap_socket(gateways[0].socket, server_side=True)
    trusted = tmp_path / "ca.crt"
    trusted.write_bytes(before.read_bytes())
    url = f"https://127.0.0.1:{gateways[0].server_port}"
    with api.Api(context.Context(url, "t", ca=trusted), timeout=1) as strict:
        with pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
            strict.request("GET", "/alive")
        trusted.write_bytes(after.read_bytes())
        assert strict.request("GET", "/alive").content == b"fine"


class Slow(Gateway):
    """Takes an upload piece by piece and waits for its server's word before the last one. GET: the server's status."""

    def do_PUT(self) -> None:
        remaining = int(self.headers["Content-Length"])
        self.server.begun.release()
        while remaining > _PIECE and (piece := self.rfile.read(_PIECE)):
            remaining -= len(piece)
        self.server.go_on.wait(20)
        if len(self.rfile.read(remaining)) == remaining:
            self.server.uploads.append(remaining)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


_PIECE = 65536


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[list[Server]]:
    """Two gateways by HTTPS, each with a certificate of its own authority: in `crt` of the directories 0 and 1."""
    servers = []
    for number in range(2):
        server = Server(Slow)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*_own_authority(tmp_path / str(number)))
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        server.handle_error = lambda *_: None
        servers.append(server)
    with serving(servers):
        yield servers


@pytest.mark.parametrize("news", [None, b"", b"# more\n"], ids=["the same", "being written", "replaced"])
def test_an_untrusted_certificate_interrupts_no_other_thread_s_upload(
    secured: list[Server], tmp_path: Path, news: bytes | None
) -> None:
    """A second gateway's certificate is none of the CA's: what goes to the first one goes on, by its connection."""
    first = secured[0]
    trusted = tmp_path / "ca.crt"
    trusted.write_bytes((tmp_path / "0" / "crt").read_bytes())
    urls = [f"https://127.0.0.1:{server.server_port}" for server in secured]
    failed: list[BaseException] = []

    with api.Api(context.Context(urls[0], "t", ca=trusted, alternatives=(urls[1],)), timeout=20) as shared:

        def upload() -> None:
            try:
                shared.request("PUT", "/blobs/x", content=io.BytesIO(bytes(40 * _PIECE)))
            except BaseException as exc:  # noqa: BLE001 - it is told by the thread that asks
                failed.append(exc)

        uploads = [threading.Thread(target=upload) for _ in range(2)]
        for thread in uploads:
            thread.start()
        assert first.begun.acquire(timeout=10) and first.begun.acquire(timeout=10)
        if news is not None:
            trusted.write_bytes(news and trusted.read_bytes() + news)
        shared.timeout = 1
        # The first one does not answer, so the other one is asked, and so on.
        with pytest.raises((UnavailableError, ConfigError)):
            shared.request("GET", "/alive")
        first.go_on.set()
        for thread in uploads:
            thread.join(15)
    assert not failed and len(first.uploads) == 2
    assert not first.begun.acquire(blocking=False), "nothing was sent a second time"


def test_an_unchanged_ca_keeps_the_connections(
    secured: list[Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients: list[object] = []
    client = api._client
    monkeypatch.setattr(api, "_client", lambda ca: clients.append(ca) or client(ca))
    url = f"https://127.0.0.1:{secured[1].server_port}"
    with api.Api(context.Context(url, "t", ca=tmp_path / "0" / "crt"), timeout=0.5) as strict:
        with pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
            strict.request("GET", "/alive")
        (tmp_path / "0" / "crt").unlink()
        with pytest.raises(ConfigError, match=r"0/crt: CA of JUDGE_SERVER cannot be read: No such file"):
            strict.request("GET", "/alive")
    assert len(clients) == 1


def test_threads_that_fail_at_the_same_gateway_skip_one_gateway() -> None:
    """Each of them knows the gateway at which it has failed; the one after that must not get lost."""
    with api.Api(context.Context("a", "t", alternatives=("b", "c"))) as shared:
        for _ in range(3):
            shared._move_on("a")
        assert shared._servers == ["b", "c", "a"]
        shared._move_on("b")
        assert shared._servers == ["c", "a", "b"]


def test_examples_without_an_executor_are_left_out() -> None:
    every = load_examples(ROOT / "examples").examples
    able, left_out = examples.split(every, {"c", "python3"})
    assert able + left_out and {example.submission.language for example in left_out} == {
        example.submission.language for example in every if example.submission.language
    } - {"c", "python3"}
    assert any(not example.submission.language for example in able)
    judged = examples.JudgedExamples([], left_out)
    assert not judged.right
    assert "java" in judged.total() and f"{len(left_out)} left out" in judged.total()


def test_a_command_does_not_import_the_modules_of_others() -> None:
    """Packages, importers, people: `judgectl status` in a loop would load them all each time."""
    packages = ("judge.problems", "judge.ctl.problem", "judge.ctl.people", "judge.ctl.rejudge", "judge.ctl.webhook")
    code = f"import sys, judge.ctl.main; print(*[one for one in sys.modules if one.startswith({packages})])"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.split() == []


def test_an_unknown_command_is_compared_with_all_of_them() -> None:
    result = CliRunner().invoke(main.app, ["webhok"])
    assert result.exit_code == 2
    assert "Did you mean 'webhook'?" in result.output
