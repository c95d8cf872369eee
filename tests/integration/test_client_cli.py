"""judge-cli against a whole cluster, as one file and as a wheel: from log-in to the verdict, and what interrupts it."""

import contextlib
import http.client
import io
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from judge.boot.embedded.cluster import EXECUTOR
from tests.support.clients import installed
from tests.support.cluster import Cluster, judgectl, running
from tests.support.sandbox import need_sandbox
from tests.support.servers import Acceptor, wait_for

pytestmark = pytest.mark.root
ROOT = Path(__file__).parents[2]
HELLO = ROOT / "examples/problems/hello"
RIGHT = (HELLO / "submissions/accepted/hello.py").read_text()


class Person:
    """A contestant's machine: a home, a folder, and judge-cli as one file."""

    def __init__(self, directory: Path, server: str, token: str) -> None:
        self.folder, self.server, self.token = directory / "work", server, token
        self.environ = {"HOME": str(directory / "home"), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        self.folder.mkdir()
        self.file = directory / "judge-cli.pyz"
        subprocess.run([sys.executable, ROOT / "scripts/make-clients", "--single-file", self.file], check=True)

    def command(self, *words: str | Path) -> list[str]:
        return [sys.executable, "-I", str(self.file), *map(str, words)]

    def run(self, *words: str | Path, code: int = 0, stdin: str = "", **environ: str) -> str:
        """What a command prints; what it says on standard error, if it is to fail."""
        result = subprocess.run(
            self.command(*words), cwd=self.folder, env=self.environ | environ, input=stdin, capture_output=True,
            text=True, check=False, timeout=100,
        )  # fmt: skip
        assert result.returncode == code, (result.stdout, result.stderr)
        assert "Traceback" not in result.stderr
        return result.stdout or result.stderr

    def submit(self, name: str, source: str, *words: str, code: int = 0) -> str:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
        return self.run("submit", path, *words, code=code)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_sandbox()
    with running(tmp_path_factory.mktemp("cluster") / "up") as cluster:
        judgectl(cluster, "problem", "import", "--visible", HELLO)
        judgectl(cluster, "user", "add", "ada")
        yield cluster


@pytest.fixture(scope="module")
def person(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Person:
    """Somebody who has logged in and downloaded a problem."""
    server = yaml.safe_load((cluster.directory / "client.yml").read_text())["server"]
    token = judgectl(cluster, "token", "create", "--user", "ada", "--scope", "submit").stdout.strip()
    person = Person(tmp_path_factory.mktemp("person"), server, token)
    assert f"logged in at {server} as ada" in person.run("login", server, stdin=f"{token}\n")
    assert person.run("download", "hello") == "hello written\n"
    return person


@pytest.fixture
def drained(cluster: Cluster) -> Iterator[None]:
    """No submission is judged until `resume`."""
    judgectl(cluster, "drain", EXECUTOR)
    yield
    judgectl(cluster, "resume", EXECUTOR)


def test_a_problem_is_downloaded_with_statement_and_samples(person: Person) -> None:
    for suffix in ("in", "ans"):
        (theirs,) = (HELLO / "data/sample").glob(f"*.{suffix}")
        assert (person.folder / f"hello/samples/1.{suffix}").read_bytes() == theirs.read_bytes()
    statement = (person.folder / "hello/statement.html").read_text()
    assert "Greet every guest" in statement
    assert "<pre>3\nAda\nAlan\nGrace\n</pre>" in statement
    assert "data-sample" not in statement
    (person.folder / "hello/judge.toml").write_text('problem = "hello"\n')
    person.run("download", "--all")
    assert (person.folder / "hello/judge.toml").read_text() == 'problem = "hello"\n', "what a person changed stays"
    assert "Hello, everybody" in person.run("problems")


def test_from_a_local_run_to_the_verdict(person: Person) -> None:
    assert person.submit("hello/mine.py", RIGHT).startswith("AC  ")
    assert "1 of 1 samples passed" in person.run("test", "hello/mine.py")
    # A sample is disclosed: what differs is shown.
    wrong = person.submit("hello-wrong.py", RIGHT.replace("!", "?"), code=10)
    assert re.search(r"^test sample/1: .+$", wrong, re.MULTILINE)
    assert "    -Hello, Ada!\n" in wrong
    assert "    +Hello, Ada?\n" in wrong
    # A secret test is not.
    secret = person.submit(
        "x.py", (HELLO / "submissions/wrong_answer/lower_case.py").read_text(), "-p", "hello", code=10
    )
    assert re.search(r"^test secret/\S+: wrong answer$", secret, re.MULTILINE)
    assert "+Hello" not in secret and secret.count("\n") == 2
    assert "expected" in person.submit("hello/broken.c", "int main() { return 1 }", code=15)
    stopped = person.submit("hello/ends.py", "import sys; print(1); sys.exit('I stop')", code=14)
    assert "    I stop\n" in stopped
    newest = json.loads(person.run("list", "-n", "4", "-o", "json"))["tasks"]
    assert [task["verdict"] for task in newest] == ["RTE", "CE", "WA", "WA"]
    assert [line.split()[3] for line in person.run("list", "-n", "2").splitlines()] == ["verdict", "RTE", "CE"]
    again = person.run("follow", newest[-1]["id"][-7:], code=10)
    assert again == wrong.replace(wrong.split()[1], newest[-1]["id"])


def test_a_program_of_several_files_with_a_judge_toml(person: Person) -> None:
    folder = person.folder / "several"
    folder.mkdir()
    (folder / "judge.toml").write_text('problem = "hello"\nentry = "b.py"\nfiles = ["a.py", "b.py"]\n')
    (folder / "a.py").write_text(RIGHT)
    (folder / "b.py").write_text("import a\n")
    (folder / "notes.txt").write_text("not submitted")
    task = json.loads(person.submit("several/b.py", "import a\n", str(folder / "a.py"), "-o", "json"))
    assert [file["name"] for file in task["submission"]["files"]] == ["b.py", "a.py"]
    result = subprocess.run(
        person.command("submit", "-o", "json"), cwd=folder, env=person.environ, capture_output=True, check=True
    )
    assert [file["name"] for file in json.loads(result.stdout)["submission"]["files"]] == ["a.py", "b.py"]


def test_refusals_of_the_gateway_are_sentences(person: Person) -> None:
    error = person.run("list", code=2, JUDGE_SERVER=person.server, JUDGE_TOKEN="nobody")
    assert error.startswith("judge-cli: ") and error.count("\n") == 1 and "token" in error
    assert person.submit("x.py", "", "-p", "absent", code=2).startswith("judge-cli: ")
    assert "no problem is called like the file or its folder" in person.submit("y.py", "", code=2)
    assert "there is no problem 'absent'" in person.run("download", "absent", code=2)
    assert "is the end of no id" in person.run("follow", "fffffff", code=2)


@pytest.mark.usefixtures("drained")
def test_judging_continues_after_ctrl_c(cluster: Cluster, person: Person) -> None:
    task = person.submit("hello/mine.py", RIGHT, "--no-wait").strip()
    near, theirs = pty.openpty()
    following = subprocess.Popen(
        person.command("follow", task), env=person.environ, stdout=subprocess.DEVNULL, stderr=theirs
    )
    os.close(theirs)
    output = b""
    with io.FileIO(near) as terminal:
        while f"{task} has waited for".encode() not in output:
            output += terminal.read(1000)
        assert f"pending  {task}".encode() in output
        following.send_signal(signal.SIGINT)
        assert following.wait(timeout=60) == 130
        with contextlib.suppress(OSError):  # the terminal's other end is closed
            while piece := terminal.read(1000):
                output += piece
    assert f"judging goes on without you; look with: judge-cli follow {task}" in output.decode()
    judgectl(cluster, "resume", EXECUTOR)
    assert person.run("follow", task).startswith(f"AC  {task}")


@pytest.mark.usefixtures("drained")
def test_a_stream_that_breaks_goes_on_where_it_was(cluster: Cluster, person: Person) -> None:
    """A relay before the gateway cuts the first stream after its first event."""
    upstream = urlsplit(person.server)
    heads: list[str] = []
    events: list[str] = []

    def relay(client: socket.socket) -> None:
        with client, socket.create_connection((upstream.hostname, upstream.port)) as gateway:
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(65536)
            heads.append(head.decode())
            gateway.sendall(head)
            cut, passed = b"/events" in head and not events, b""
            while data := gateway.recv(65536):
                client.sendall(data)
                passed += data
                if cut and (
                    event := re.search(rb"^id: (\S+)\s+event: submission\s+data: .*\n\r?\n", passed, re.MULTILINE)
                ):
                    events.append(event[1].decode())
                    return

    def streams() -> list[str]:
        return [head for head in heads if "/events" in head]

    acceptor = Acceptor(lambda client: threading.Thread(target=relay, args=(client,)).start())
    try:
        task = person.submit("hello/mine.py", RIGHT, "--no-wait").strip()
        environ = {"JUDGE_SERVER": f"http://127.0.0.1:{acceptor.port}", "JUDGE_TOKEN": person.token}
        following = subprocess.Popen(
            person.command("follow", task), env=person.environ | environ, stdout=subprocess.PIPE, text=True
        )
        wait_for(lambda: len(streams()) == 2, what="a second stream")
        judgectl(cluster, "resume", EXECUTOR)
        out, _ = following.communicate(timeout=100)
        assert (following.returncode, out.startswith(f"AC  {task}")) == (0, True)
    finally:
        acceptor.close()
    assert "last-event-id" not in streams()[0].lower()
    assert f"last-event-id: {events[0]}" in streams()[1].lower()


def test_competitive_companion_posts_a_problem_from_this_machine_only(person: Person) -> None:
    listener = subprocess.Popen(
        person.command("listen", "--port", "0", "--to", person.folder), env=person.environ, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert listener.stderr is not None
    port = int(re.findall(r"127\.0\.0\.1:(\d+)", listener.stderr.readline())[0])
    page = f"{person.server}/problems/hello"
    payload = {"name": "Hello", "url": page, "timeLimit": 1000, "tests": [{"input": "0\n", "output": ""}]}

    def post(body: bytes, headers: dict[str, str], method: str = "POST") -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request(method, "/", body, headers)
        with contextlib.closing(connection), connection.getresponse() as answer:
            return answer.status

    good = json.dumps(payload).encode()
    assert post(good, {"Origin": "https://evil.example.org"}) == 403
    assert post(good, {"Origin": "null"}) == 403  # a page in a sandboxed frame
    assert post(good, {"Host": "["}) == 403
    assert post(good, {"Host": f"evil.example.org:{port}"}) == 403
    assert post(b"", {"Content-Length": str(2**30)}) == 413
    assert post(b"{}", {}) == 400
    assert post(b"", {}, method="GET") == 501
    assert not (person.folder / "hello/samples/2.in").exists()
    payload["tests"] = [{"input": "0\n", "output": ""}, {"input": "1\nB\n", "output": "Hello, B!\n"}]
    assert post(json.dumps(payload).encode(), {"Origin": "chrome-extension://cjnmckjndlpiamhfimnnjmnckgghkjbl"}) == 200
    assert (person.folder / "hello/samples/2.in").read_text() == "1\nB\n"
    listener.send_signal(signal.SIGINT)
    out, err = listener.communicate(timeout=60)
    assert (listener.returncode, out) == (0, f"{person.folder / 'hello'}: 2 samples\n")
    assert err.count("refused") == 6 and "Traceback" not in err


def pythons() -> dict[str, str]:
    """An interpreter of each version from 3.10 on that this machine has."""
    interpreters = {}
    folders = [Path("/usr/bin"), Path("/usr/local/bin"), *Path.home().glob(".pyenv/versions/3.*/bin")]
    for path in [Path(sys.executable), *(path for folder in folders for path in sorted(folder.glob("python3.[0-9]*")))]:
        match = re.fullmatch(r"python3\.(\d+)", path.resolve().name)
        if match and int(match[1]) >= 10:
            interpreters.setdefault(match[0], str(path.resolve()))
    return interpreters


def test_the_single_file_runs_on_every_python_here(person: Person) -> None:
    assert pythons()
    for interpreter in pythons().values():
        command = [interpreter, *person.command("problems")[1:]]
        result = subprocess.run(command, env=person.environ, capture_output=True, text=True, check=True)
        assert "Hello, everybody" in result.stdout, interpreter


def test_the_wheel_needs_nothing_else(person: Person, tmp_path: Path) -> None:
    command = [installed(ROOT / "clients/cli", tmp_path) / "judge-cli", "problems"]
    result = subprocess.run(command, env=person.environ, capture_output=True, text=True, check=True)
    assert "Hello, everybody" in result.stdout
