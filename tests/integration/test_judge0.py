"""Judge0's API through a whole cluster: its own SDK, and every row of docs/judge0.md by plain HTTP.

`row` names the rows that a test tries; tests/unit/test_judge0.py sees to it that none is left out.
"""

import asyncio
import base64
import contextlib
import importlib.metadata
import io
import json
import os
import re
import secrets
import sqlite3
import subprocess
import sys
import time
import uuid
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import httpx
import judge0
import pytest
import yaml
from flask import Flask
from judge0_client import Judge0Client, MultiFileSubmission, SingleFileSubmission

from judge.common.errors import FieldError, JudgeError, LimitError
from judge.config import MongodbClient
from judge.config.allowance import Allowance
from judge.ctl.context import from_file
from judge.gateway.api.answers import paced
from judge.gateway.auth import token_digest
from judge.judge0 import languages
from judge.judge0.answers import STATUSES
from judge.judge0.tokens import token_of
from judge.model import messages as m
from judge.model.base import Rate
from judge.model.deleting import Deleted
from judge.model.overview import ExecutorsReply, UsageReply
from judge.model.several import TasksReply, TasksRequest
from judge.mongodb.store import connect
from tests.support.cluster import Cluster, judgectl, processes_of, running
from tests.support.gateway import (
    ADMIN,
    USER,
    Prepared,
    executor_state,
    gateway_config,
    make_task,
    running_gateway,
    serving_app,
)
from tests.support.receivers import Receiver
from tests.support.servers import wait_for

pytestmark = pytest.mark.root

ADA, BOB, EVE, ROOT = "token-of-ada", "token-of-bob", "token-of-eve", "token-of-root"
PYTHON, C, CPP, JAVA, PROJECT = 71, 50, 54, 62, 89
PRINTS: dict[str, Any] = {"language_id": PYTHON, "source_code": "print(1)"}
PACKAGES = Path(__file__).parents[2] / "examples/packages"
T = TypeVar("T")


def row(*_names: str) -> Callable[[T], T]:
    """These rows of docs/judge0.md are tried here."""
    return lambda test: test


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("judge0") / "cluster"
    with running(directory, "--slots", "2", "--callback-network", "127.0.0.0/8") as cluster:
        tokens = Path(cluster.config("gateway")["tokens"])
        rows = yaml.safe_load(tokens.read_text())
        people = (("ada", "user", ADA), ("bob", "user", BOB), ("eve", "judge", EVE), ("operator", "admin", ROOT))
        for user, role, token in people:
            rows["tokens"].append({"user": user, "role": role, "sha256": token_digest(token)})
        tokens.write_text(yaml.safe_dump(rows))
        yield cluster
    assert processes_of(str(cluster.directory)) == {}


@pytest.fixture(scope="module")
def server(cluster: Cluster) -> str:
    return f"{from_file(cluster.directory / 'client.yml').server}/judge0"


@pytest.fixture(scope="module")
def http(server: str) -> Iterator[httpx.Client]:
    """The API as ada, who is no admin."""
    with httpx.Client(base_url=server, headers={"X-Auth-Token": ADA}, trust_env=False, timeout=120) as client:
        wait_for(lambda: client.get("/about").status_code == 200, what="the token of ada")
        # A busy machine takes its time to try all compilers.
        expected = {PYTHON, C, CPP, JAVA, 103, 113}
        wait_for(lambda: expected <= {row["id"] for row in client.get("/languages").json()}, what="the languages")
        yield client


@pytest.fixture(scope="module")
def sdk(http: httpx.Client, server: str) -> Iterator[judge0.Client]:
    del http  # her token is known by then
    client = judge0.Client(server, {"X-Auth-Token": ADA})
    with contextlib.closing(client.client):  # the SDK itself never ends its connections
        yield client


def run(http: httpx.Client, fields: str = "*", base64_encoded: str = "false", **body: Any) -> dict[str, Any]:
    """Hand in and wait; the answer's fields."""
    query = {"wait": "true", "fields": fields, "base64_encoded": base64_encoded}
    answer = http.post("/submissions", params=query, json={"language_id": PYTHON, **body})
    assert answer.status_code == 201, answer.text
    answered: dict[str, Any] = answer.json()
    return answered


def refused(http: httpx.Client, **body: Any) -> dict[str, list[str]]:
    answer = http.post("/submissions", json={"language_id": PYTHON, "source_code": "print()", **body})
    assert answer.status_code == 422, answer.text
    errors: dict[str, list[str]] = answer.json()
    return errors


def packed(**files: str | bytes) -> str:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/").replace("_dot_", "."), text)
    return base64.b64encode(target.getvalue()).decode()


def directory(fields: dict[str, Any]) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(fields["post_execution_filesystem"]))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


# --- the SDK as it is published --------------------------------------------------------------------------------


def test_the_sdk_runs_java_and_executables(sdk: judge0.Client, tmp_path: Path) -> None:
    """With Judge0's default of memory, which is little for a JVM."""
    java = 'public class Main { public static void main(String[] a) { System.out.println("hello, world"); } }'
    reply = judge0.run(client=sdk, source_code=java, language=judge0.JAVA)
    assert (reply.stdout, reply.status, reply.message) == ("hello, world\n", judge0.Status.ACCEPTED, None)
    main = b'#include <stdio.h>\nint main() { puts("hello"); }'
    subprocess.run(["gcc", "-s", "-x", "c", "-", "-o", str(tmp_path / "a.out")], input=main, check=True)
    started = judge0.run(client=sdk, source_code=(tmp_path / "a.out").read_bytes(), language=judge0.EXECUTABLE)
    assert (started.stdout, started.status) == ("hello\n", judge0.Status.ACCEPTED)


def test_the_sdk_hands_in_many_and_waits_for_them(sdk: judge0.Client) -> None:
    jobs = [judge0.Submission(source_code=f"print({n})", language=judge0.PYTHON) for n in range(23)]
    tokens = judge0.async_run(client=sdk, submissions=jobs)
    assert [job.stdout for job in judge0.wait(client=sdk, submissions=tokens)] == [f"{n}\n" for n in range(23)]


def test_the_sdk_sends_files(sdk: judge0.Client) -> None:
    files = judge0.Filesystem(
        content=[
            judge0.File(name="main.cpp", content='#include "lib/f.h"\nint main() { return f(); }'),
            judge0.File(name="lib/f.h", content="inline int f() { return 0; }"),
            judge0.File(name="compile", content="/usr/bin/g++ main.cpp -o prog"),
            judge0.File(name="run", content="./prog && cat data.txt && echo more >made && cat made"),
            judge0.File(name="data.txt", content="datum\n"),
        ]
    )
    submission = judge0.run(client=sdk, source_code="", language=judge0.MULTI_FILE, additional_files=files)
    assert (submission.stdout, submission.status) == ("datum\nmore\n", judge0.Status.ACCEPTED)


def test_the_sdk_finds_the_flavour_with_the_language(sdk: judge0.Client, server: str, monkeypatch: Any) -> None:
    del sdk
    for name, address in (("CE", server), ("EXTRA_CE", f"{server}/extra")):
        monkeypatch.setenv(f"JUDGE0_{name}_ENDPOINT", address)
        monkeypatch.setenv(f"JUDGE0_{name}_AUTH_HEADERS", json.dumps({"X-Auth-Token": ADA}))
        monkeypatch.setattr(judge0, f"JUDGE0_IMPLICIT_{name}_CLIENT", None)
    # Its default is "Python for ML", which Extra CE alone has.
    assert judge0.run(source_code="print('hello, world')").stdout == "hello, world\n"
    assert judge0.get_client(judge0.EXTRA_CE).version == "1.14.0-extra"
    for flavour in (judge0.CE, judge0.EXTRA_CE):
        judge0.get_client(flavour).client.close()


def _examples() -> dict[str, str]:
    """The programs of the SDK's own page, by the headings above them."""
    page = str(importlib.metadata.metadata("judge0")["Description"])
    examples, heading = {}, ""
    for part in re.finditer(r"(?m)^(?:#+ (?P<heading>.+)|```(?P<kind>\w*)\n(?P<text>(?:.*\n)*?)```)", page):
        heading = part["heading"] or heading
        if part["kind"] == "python":
            assert heading not in examples
            examples[heading] = part["text"]
    return examples


# The output of each of them here; None: another test says which are the languages.
SAID = {
    "Judge0 Python SDK": "",
    "Option 1: Explicit Client Object": "hello, world\n\n",
    "Option 2: Implicit Client Object": "hello, world\n\n",
    "hello, world": "hello, world\n\n",
    "Running C Programming Language": "hello, world\n\n",
    "Running Java Programming Language": "hello, world\n\n",
    "Reading From Standard Input": "8\nHello, Bob!\n\n",
    "Test Cases": "".join(
        f"--- Test Case #{n} ---\nHello, {name}!\n\n{judge0.Status.ACCEPTED}\n"
        for n, name in enumerate(("Bob", "Alice", "Charlie"), 1)
    ),
    "Test Cases And Multiple Languages": "".join(
        f"--- Submission #{of} ---\n"
        + "".join(
            f"--- Test Case #{n} ---\nHello, {name}!\n\n{judge0.Status.ACCEPTED}\n"
            for n, name in enumerate(("Bob", "Alice", "Charlie"), 1)
        )
        for of in (1, 2)
    ),
    "Asynchronous Execution": "None\nhello, world\n\n",
    "Get Languages": None,
    "Filesystem": "hello from my_file.txt\nhello, world\n\n",
    "Custom Judge0 Client": "hello, world\n\n",
}
_MODEL = "asks a language model of another company, with its key"
NOT_TRIED = {
    "Simple Example With Ollama": _MODEL,
    "Tool Calling (a.k.a. Function Calling) With Ollama": _MODEL,
    "Multi-Agent System For Iterative Code Generation, Execution, And Debugging": _MODEL,
    "Kaggle Dataset Visualization With LLM-Generated Code Using Ollama And Judge0": _MODEL,
    "Minimal Example Using `smolagents` With Ollama And Judge0": _MODEL,
    "Generating And Saving An Image File": "needs matplotlib on the machines that run programs",
}


def test_each_example_of_the_sdk_is_tried_or_left_out_with_a_reason() -> None:
    assert sorted(_examples()) == sorted([*SAID, *NOT_TRIED])


@pytest.mark.parametrize("heading", SAID)
def test_the_sdks_own_examples(heading: str, http: httpx.Client, server: str, tmp_path: Path) -> None:
    """As they stand on its page but for addresses, keys and one language, each as a program of its own."""
    del http  # her token is known by then
    text = _examples()[heading].replace("http://127.0.0.1:2358", server.replace("//", f"//ada:{ADA}@"))
    # The client of a market, whose address is in the SDK alone; it sends the key in a header of the market's. The
    # SDK's default language is none of CE's, so as it stands the example ends with an error at Judge0, too.
    market = f"import judge0\njudge0.RapidJudge0CE.DEFAULT_ENDPOINT = {server!r}\n"
    if "RapidJudge0CE" in text:
        text = text.replace("import judge0\n", market, 1).replace('api_key="xxx"', f'api_key="{ADA}"')
        text = text.replace("run(client=client, ", "run(client=client, language=judge0.PYTHON, ")
    shell = text.startswith(">>> ")
    for line, pattern in (("result.time", r"\d+\.\d+"), ("result.memory", r"\d+")):  # figures are of that day
        text = re.sub(rf">>> {re.escape(line)}\n{pattern}\n", f">>> {line} > 0\nTrue\n", text)
    path = tmp_path / "example.py"
    path.write_text(text)
    auth = json.dumps({"X-Auth-Token": ADA})
    env = {"JUDGE0_CE_ENDPOINT": server, "JUDGE0_EXTRA_CE_ENDPOINT": f"{server}/extra", "PATH": os.environ["PATH"]}
    env |= {"JUDGE0_CE_AUTH_HEADERS": auth, "JUDGE0_EXTRA_CE_AUTH_HEADERS": auth}
    as_shell = f"import doctest, sys; sys.exit(doctest.testfile({str(path)!r}, False).failed)"
    command = [sys.executable, "-c", as_shell] if shell else [sys.executable, str(path)]
    process = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (process.returncode, process.stderr) == (0, ""), process.stdout
    expected = SAID[heading]
    assert process.stdout == expected if expected is not None else "Python (3.8.1)" in process.stdout


def test_another_client(http: httpx.Client, server: str) -> None:
    """judge0-client, which is asynchronous and sends Base64, numbers as floats and nothing that was not said."""
    del http

    source = '#include "x.h"\nint main(int n, char **v) { char s[9]; scanf("%8s", s); printf("%s%s%d", s, v[1], X); }'

    async def ask() -> None:
        async with Judge0Client(server, auth_token=ADA) as client:
            single = SingleFileSubmission(
                language_id=C,
                source_code=source,
                additional_files={"x.h": "#include <stdio.h>"},
                compiler_options="-DX=7",
                command_line_arguments="b",
                stdin="ä",
                expected_output="äb7\n",
                memory_limit=65_536.0,
            )
            run = "python3 main.py"
            several = MultiFileSubmission(additional_files={"main.py": b"print(input())", "run": run}, stdin="5")
            for submission, expected in ((single, "äb7"), (several, "5\n")):
                token = (await client.create_submission(submission)).token
                # Its own way of waiting is this.
                while (reply := await client.get_submission(token)).status.id <= 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
                assert (reply.stdout, reply.status.id, reply.stderr, reply.message) == (expected, 3, None, None)
            assert (await client.get_workers())[0].available == 2 and (await client.get_about()).maintainer
        async with Judge0Client(server, auth_header="Authorization", auth_token=f"Bearer {ADA}") as client:
            assert "sandbox" in await client.get_isolate()

    asyncio.run(ask())


# --- who may call ----------------------------------------------------------------------------------------------


@row("A1", "A2", "A3", "A4")
def test_tokens(http: httpx.Client, server: str) -> None:
    def call(method: str, path: str, **kwargs: Any) -> httpx.Response:
        return httpx.request(method, server + path, trust_env=False, **kwargs)

    assert call("GET", "/about").status_code == call("GET", "/languages").status_code == 401
    assert "X-Auth-Token" in call("POST", "/submissions", json={}).json()["error"]
    assert call("GET", "/about", headers={"X-Auth-Token": "nobody's"}).status_code == 401
    for header in ("X-Auth-Token", "X-Auth-User", "X-RapidAPI-Key", "x-apihub-key"):
        assert call("POST", "/authenticate", headers={header: ADA}).status_code == 200
    assert call("GET", "/about", headers={"Authorization": f"Bearer {ADA}"}).json()["version"] == "1.14.0"
    for basic in (("ada", ADA), (ADA, "")):
        assert call("GET", "/about", auth=basic).status_code == 200
    assert call("GET", "/about", headers={"Authorization": "Basic ?"}).status_code == 401
    assert call("POST", "/authorize", headers={"X-Auth-Token": ADA}).status_code == 403
    assert call("POST", "/authorize", headers={"X-Auth-Token": ROOT, "X-Auth-User": ROOT}).status_code == 200
    beside = {"X-Auth-Token": "wrong", "X-Auth-User": ROOT}
    assert call("POST", "/authorize", headers=beside).status_code == 200
    assert call("GET", "/submissions", headers=beside).status_code == 200
    token = http.post("/submissions", json=PRINTS).json()["token"]
    deleting = call("DELETE", f"/submissions/{token}", headers=beside)
    assert (deleting.status_code, deleting.json()) == (400, {"error": "delete not allowed"}), "as an admin hears it"
    for method, path in (("POST", "/authenticate"), ("GET", f"/submissions/{token}"), ("POST", "/submissions")):
        assert call(method, path, headers=beside).status_code == 401, "the first one counts for all others"
    assert call("POST", "/authenticate", params={"X-Auth-Token": ADA}).status_code == 200
    assert call("POST", "/authorize", params={"X-Auth-User": ROOT}).status_code == 200
    assert call("GET", "/about", params={"X-Auth-Token": ADA}).status_code == 401
    assert http.get("/version").text == "1.14.0"
    config = judge0.clients.Config(**http.get("/config_info").json())
    assert (config.cpu_time_limit, config.max_submission_batch_size, config.allow_enable_network) == (5.0, 20, False)


@row("S13")
def test_slashes_that_clients_join_addresses_with(http: httpx.Client, server: str) -> None:
    """Nobody who posts, and no browser that asks first, would follow a redirection."""
    request = {"json": PRINTS, "headers": {"X-Auth-Token": ADA}}
    for joined in (f"{server}//submissions", server.replace("/judge0", "//judge0///submissions/")):
        token = httpx.post(joined, trust_env=False, **request).json()["token"]  # type: ignore[arg-type]
        assert http.get(f"{server}//submissions//{token}").json()["token"] == token
        preflight = {"Origin": "https://ide.example", "Access-Control-Request-Method": "POST"}
        assert httpx.options(joined, headers=preflight, trust_env=False).status_code == 204
    token = http.post("/submissions.json?wait=true", **request).json()["token"]  # type: ignore[arg-type]
    for path in (f"/submissions/{token}.json", f"/submissions/batch.json?tokens={token}", "/languages/71.json"):
        assert http.get(path).status_code == 200, path
    for path in ("/languages.json", "/languages/all.json", "/statuses.json", "/about.json", "/config_info.json"):
        assert http.get(path).json() == http.get(path.removesuffix(".json")).json(), path


@row("S16")
def test_of_a_name_that_comes_twice_the_last_counts(http: httpx.Client) -> None:
    task = http.post("/submissions?wait=false&wait=true", json=PRINTS).json()
    assert task["stdout"] == "1\n"
    assert http.post("/submissions?wait=true&wait=false", json=PRINTS).json().keys() == {"token"}
    assert http.get(f"/submissions/{task['token']}?fields=status&fields=stdout").json() == {"stdout": "1\n"}


def test_scripts_of_all_sites_may_call_with_a_token(http: httpx.Client, server: str) -> None:
    preflight = {
        "Origin": "https://ide.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type,x-rapidapi-key",
    }
    answer = httpx.options(f"{server}/submissions?wait=true", headers=preflight, trust_env=False)
    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (204, "*")
    assert answer.headers["Access-Control-Allow-Headers"] == "content-type,x-rapidapi-key"
    assert "POST" in answer.headers["Access-Control-Allow-Methods"]
    own = http.get("/about", headers={"Origin": "https://ide.example"})
    assert (own.status_code, own.headers["Access-Control-Allow-Origin"]) == (200, "*")
    assert own.headers["Access-Control-Expose-Headers"] == "*", "scripts see no Retry-After without it"
    assert "Access-Control-Allow-Credentials" not in own.headers, "no cookie counts, so none is to be sent"
    refused = httpx.get(f"{server}/about", headers={"Origin": "https://ide.example"}, trust_env=False)
    assert refused.status_code == 401, "a page without a token can do nothing"


def test_scripts_can_read_every_refusal(server: str) -> None:
    """Also what the front says, and the app before it has found out whose call it is."""
    address = httpx.URL(server)
    headers = {"Origin": "https://ide.example", "X-Auth-Token": ADA}
    for path, extra_headers, status in (
        ("/submissions", {"Content-Length": str(2**40)}, 413),
        ("/submissions", {"Transfer-Encoding": "chunked"}, 400),
        ("/submission", {}, 404),
        ("/about", {}, 405),
    ):
        with contextlib.closing(HTTPConnection(address.host, address.port, timeout=30)) as line:
            line.putrequest("POST", f"{address.path}{path}")
            for name, value in {**headers, **extra_headers}.items():
                line.putheader(name, value)
            line.endheaders(b"what is no chunk\r\n" if "Transfer-Encoding" in extra_headers else None)
            refused = line.getresponse()
            facts = (path, refused.status, refused.headers["Access-Control-Allow-Origin"])
        assert facts == (path, status, "*")


@pytest.fixture
def prepared(prepared: Prepared) -> Prepared:
    """It takes whatever is handed in."""
    prepared.answers |= {
        "executors": ExecutorsReply(executors=[executor_state()]),
        "usage": lambda _: UsageReply(allowance=Allowance(), waiting=0, running=0),
        "add": lambda request: m.AddReply(task=make_task(submission=request), created=True),
    }
    return prepared


def hand_in(app: Flask, body: Any, path: str = "") -> Any:
    headers = {"X-Auth-Token": USER}
    return app.test_client().post(f"/judge0/submissions{path}", json=body, headers=headers)


@row("A5", "A6")
def test_guests_and_scripts_are_let_in_where_the_config_says(prepared: Prepared, tmp_path: Path) -> None:
    own = {"origins": ["https://ide.example"], "guest": "visitor"}
    with serving_app(gateway_config(prepared, tmp_path, judge0=own)) as app:
        client = app.test_client()
        preflight = {
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type,x-judge0-region",
        }
        answer = client.options("/judge0/submissions", headers={"Origin": "https://ide.example", **preflight})
        assert answer.headers["Access-Control-Allow-Origin"] == "https://ide.example"
        assert answer.headers["Access-Control-Allow-Headers"] == "content-type,x-judge0-region"
        foreign = client.options("/judge0/submissions", headers={"Origin": "https://other.example", **preflight})
        assert "Access-Control-Allow-Origin" not in foreign.headers
        refused = client.get("/judge0/about", headers={"Origin": "https://ide.example", "X-Auth-Token": "wrong"})
        assert refused.status_code == 401 and refused.headers["Access-Control-Allow-Origin"] == "https://ide.example"
        assert client.get("/judge0/about").status_code == client.post("/judge0/authenticate").status_code == 200
        assert client.post("/judge0/authorize").status_code == client.get("/judge0/submissions").status_code == 403


def test_with_a_guest_no_script_is_let_in_that_the_config_does_not_name(tmp_path: Path, prepared: Prepared) -> None:
    with serving_app(gateway_config(prepared, tmp_path, judge0={"guest": "visitor"})) as app:
        answer = app.test_client().get("/judge0/about", headers={"Origin": "https://ide.example"})
        assert answer.status_code == 200
        assert "Access-Control-Allow-Origin" not in answer.headers


@row("L5")
def test_a_host_of_its_own(tmp_path: Path, prepared: Prepared) -> None:
    """The API answers at the root of its own host, for clients that keep nothing of an address but its origin."""
    own = {"hosts": ["judge0.example.org"], "guest": "visitor", "origins": ["https://ide.example"]}
    settings = gateway_config(prepared, tmp_path, judge0=own)
    with running_gateway(settings, tmp_path) as url, httpx.Client(base_url=url, trust_env=False) as client:
        headers = {"Host": "Judge0.example.org:443", "Origin": "https://ide.example"}
        preflight = {**headers, "Access-Control-Request-Method": "POST"}
        for path in ("/submissions", "//submissions/", "/extra/submissions"):
            answer = client.options(url + path, headers=preflight)
            assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (204, "https://ide.example")
            body = {"language_id": 89 if "extra" in path else 43, "source_code": "x"}
            answer = client.post(url + path, headers=headers, json=body)
            assert answer.status_code == (422 if "extra" in path else 201), answer.text
        assert client.get("/statuses", headers=headers).json()[0] == {"id": 1, "description": "In Queue"}
        for path in ("/", "/login", "/api/v1/whoami", "/static/app.css", "/judge0/statuses"):
            answer = client.get(path, headers={**headers, "Authorization": f"Bearer {USER}"})
            assert (answer.status_code, list(answer.json())) == (404, ["error"]), path
        assert client.get("/login").status_code == client.get("/judge0/statuses").status_code == 200
        assert client.get("/statuses").status_code == 404


@row("S14")
def test_a_guests_body_is_small_and_all_json_says_its_charset(tmp_path: Path, prepared: Prepared) -> None:
    own = {"guest": "visitor", "origins": ["*"]}
    settings = gateway_config(prepared, tmp_path, judge0=own)
    with running_gateway(settings, tmp_path) as url, httpx.Client(base_url=url, trust_env=False) as client:

        def check(status: int, answer: httpx.Response) -> str:
            assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json; charset=utf-8")
            assert answer.headers["Access-Control-Allow-Origin"] == "*"
            return str(answer.json()["error"] if status > 200 else answer.json())

        def post(size: int, **fields: Any) -> httpx.Response:
            headers = {"Origin": "https://ide.example", **fields.pop("headers", {})}
            return client.post("/judge0/submissions", headers=headers, **{"json": {"stdin": "x" * size}, **fields})

        client.headers["Origin"] = "https://ide.example"
        assert "sent in chunks" not in check(413, post(0, json=None, content=(b"x" * 9000 for _ in range(9))))
        assert "without a token at most 64 KiB are accepted" in check(413, post(65_536))
        assert "without a token" in check(413, post(0, json=None, data={"stdin": "x" * 65_536}))
        wrong = {"X-Auth-Token": "wrong"}
        assert "no valid token" in check(401, post(65_536, headers=wrong))
        assert "no valid token" in check(401, post(0, json=None, data={"stdin": "x" * 65_536}, headers=wrong))
        assert post(60_000).status_code == 422
        assert "Accepted" in check(200, client.get("/judge0/statuses"))
        check(404, client.get("/judge0/submissions/none"))


# --- submissions -----------------------------------------------------------------------------------------------


@row("S1", "S5", "S6", "S9", "R12")
def test_from_a_token_to_all_fields(http: httpx.Client, server: str) -> None:
    answer = http.post("/submissions", json={"source_code": "print(input())", "language_id": PYTHON, "stdin": "x"})
    assert answer.status_code == 201 and list(answer.json()) == ["token"]
    token = answer.json()["token"]
    path = f"/submissions/{token}"
    wait_for(lambda: http.get(path).json()["status"]["id"] > 2, what="the end")
    usual = ["stdout", "time", "memory", "stderr", "token", "compile_output", "message", "status"]
    assert list(http.get(path).json()) == usual
    every = http.get(path, params={"fields": "*"}).json()
    assert every["language"] == {"id": 71, "name": "Python (3.8.1)"} and every["stdin"] == "x"
    assert (every["status_id"], every["cpu_time_limit"], every["memory_limit"]) == (3, "5.0", 128_000)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", every["created_at"])
    assert every["finished_at"] >= every["created_at"] and "verdict" not in every
    fields = http.get(path, params={"fields": "verdict,id,status_id,started_at"}).json()
    assert list(fields) == ["verdict", "id", "status_id", "started_at"] and fields["verdict"] == "AC"
    bad = http.get(path, params={"fields": "status,foo,bar"})
    assert (bad.status_code, bad.json()) == (400, {"error": "invalid fields: [foo, bar]"})
    assert http.get(f"/submissions/{uuid.uuid4()}").status_code == http.get("/submissions/x").status_code == 404
    assert httpx.get(server + path, headers={"X-Auth-Token": BOB}, trust_env=False).status_code == 404


@row("X5")
def test_every_field_that_is_sent_comes_back(http: httpx.Client, server: str, receiver: Receiver) -> None:
    """Each with a value that is no default, and the names of everything that is told."""
    source = '#include "x.h"\nint main(int n, char **v) { char s[9]; scanf("%8s", s); printf("%s%s%d", s, v[1], X); }'
    body = {
        "source_code": source,
        "language_id": C,
        "stdin": "ä",
        "expected_output": "äb c7\n",
        "compiler_options": "-DX=7  -Wall",
        "command_line_arguments": "'b c'",
        "max_processes_and_or_threads": 17,
        "memory_limit": 70_001,
        "stack_limit": 33_333,
        "max_file_size": 777,
        "number_of_runs": 3,
        "cpu_time_limit": "2.345",
        "cpu_extra_time": "0.125",
        "wall_time_limit": "7.5",
        "enable_per_process_and_thread_time_limit": True,
        "enable_per_process_and_thread_memory_limit": True,
        "redirect_stderr_to_stdout": True,
        "enable_network": False,
        "callback_url": f"{receiver.url}?a=1",
    }
    fields = run(http, **{**body, "additional_files": packed(x_dot_h="#include <stdio.h>")})
    assert {name: fields[name] for name in body} == body
    assert zipfile.ZipFile(io.BytesIO(base64.b64decode(fields["additional_files"]))).namelist() == ["x.h"]
    token, path = fields["token"], f"/submissions/{fields['token']}"
    expected = {"stdout": "äb c7", "stderr": None, "compile_output": None, "message": None, "exit_code": 0}
    expected |= {"exit_signal": None, "status_id": 3, "status": {"id": 3, "description": "Accepted"}, "token": token}
    expected |= {"language": {"id": C, "name": "C (GCC 9.2.0)"}, "language_id": C}
    assert {name: fields[name] for name in expected} == expected
    computed = {"time", "memory", "wall_time", "created_at", "finished_at", "post_execution_filesystem"}
    assert fields.keys() == {*body, *expected, *computed, "additional_files"}
    assert float(fields["wall_time"]) >= 0 and directory(fields).keys() == {"main.c", "x.h"}

    extra = ("started_at", "queued_at", "updated_at", "queue_host", "execution_host")
    own = ("id", "verdict", "reason", "problem", "score", "tests")
    reply = http.get(path, params={"fields": ",".join([*extra, *own])}).json()
    assert list(reply) == [*extra, *own]
    with httpx.Client(base_url=server.removesuffix("judge0"), trust_env=False) as client:
        task = client.get(f"api/v1/submissions/{reply['id']}", headers={"Authorization": f"Bearer {ADA}"}).json()
    assert (reply["queued_at"], reply["started_at"]) == (fields["created_at"], task["started"])
    assert fields["created_at"] <= reply["started_at"] <= reply["updated_at"] == fields["finished_at"]
    assert reply["queue_host"] is None and reply["execution_host"] == task["judged_by"] and task["judged_by"]
    assert (reply["verdict"], reply["problem"], reply["score"], len(reply["tests"])) == ("AC", None, None, 3)
    assert reply["reason"] == task["result"]["reason"]
    wait_for(lambda: receiver.calls, what="the callback")


@row("X1")
def test_a_problem_of_the_cluster_is_the_way_to_a_checker(http: httpx.Client, cluster: Cluster) -> None:
    """One whose validator takes any packing, and scores it."""
    package = PACKAGES / "packing"
    judgectl(cluster, "problem", "import", "--visible", package)
    body = {
        "fields": "*,verdict,problem,score,tests",
        "problem": "packing",
        "stdin": "not",
        "expected_output": "these",
    }
    for name, number, verdict, lowest, highest in (
        ("accepted/all_subsets.py", 3, "AC", 100, 100),
        ("accepted/greedy.py", 3, "AC", 80, 99),
        ("wrong_answer/everything.py", 4, "WA", 0, 0),
    ):
        source = (package / "submissions" / name).read_text()
        fields = run(http, source_code=source, **body)
        assert (status(fields), fields["verdict"], fields["problem"]) == (number, verdict, "packing")
        assert lowest <= fields["score"] <= highest and len(fields["tests"]) > 0, name
        assert (fields["source_code"], fields["stdin"], fields["expected_output"]) == (source, None, None)
    failed = run(http, source_code="exit(3)", **body)
    assert (status(failed), failed["verdict"], failed["score"]) == (11, "RTE", 0)
    unknown = {"source_code": "x", "language_id": PYTHON, "problem": "nothing"}
    assert http.post("/submissions", json=unknown).status_code == 404


@row("S2", "S3", "S4", "P7")
def test_base64(http: httpx.Client) -> None:
    copy = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
    odd = bytes(range(256))
    body = {"source_code": b64(copy.encode()), "stdin": b64(odd), "expected_output": b64(odd)}
    reply = run(http, base64_encoded="true", **body)
    assert reply["status"]["id"] == 3 and base64.b64decode(reply["stdout"]) == base64.b64decode(reply["stdin"]) == odd
    lines = reply["stdout"].splitlines(keepends=True)
    assert all(line.endswith("\n") for line in lines) and {len(line) for line in lines[:-1]} == {61}
    failed = run(http, base64_encoded="true", source_code=b64(b"exit(3)"))
    assert base64.b64decode(failed["message"]) == b"Exited with error status 3"
    text = "some attributes for this submission cannot be converted to UTF-8, use base64_encoded=true query parameter"
    bad = http.get(f"/submissions/{reply['token']}")
    assert (bad.status_code, bad.json()) == (400, {"error": text})
    print_odd = "import sys; sys.stdout.buffer.write(b'\\xff')"
    bad = http.post("/submissions?wait=true", json={"source_code": print_odd, "language_id": PYTHON})
    assert bad.status_code == 201 and bad.json()["error"] == text and bad.json()["token"]
    several = http.get("/submissions/batch", params={"tokens": reply["token"]})
    assert several.status_code == 400 and "one or more submissions" in several.json()["error"]


def test_a_refused_submission_stores_nothing(cluster: Cluster, http: httpx.Client) -> None:
    """Bytes that are no text neither, in a batch neither."""
    mongodb = MongodbClient.model_validate(cluster.config("judicator")["mongodb"])
    odd = {"stdin": b64(b"\xff" + os.urandom(5000)), "expected_output": b64(b"\xfe" + os.urandom(5000))}
    bad = {"language_id": PYTHON, "source_code": b64(b"print()\0"), **odd}
    with connect(mongodb, asynchronous=False) as client:
        files = client[mongodb.database]["fs.files"]
        before = files.count_documents({})
        answer = http.post("/submissions?base64_encoded=true", json=bad)
        assert answer.status_code == 422 and "source_code" in answer.json(), answer.text
        answer = http.post("/submissions/batch?base64_encoded=true", json={"submissions": [bad, bad]})
        assert answer.status_code == 422, answer.text
        assert files.count_documents({}) == before
        run(http, base64_encoded="true", source_code=b64(b"print()"), **odd)
        assert files.count_documents({}) == before + 2


def test_an_answer_is_held_for_some_seconds_and_for_so_many(prepared: Prepared, tmp_path: Path) -> None:
    """Of row S2: who waits gets status 1 or 2 once `wait` seconds are over, or at once while too many wait."""
    now = m.Status.PENDING
    waiting: list[str] = []

    async def get(request: m.GetRequest) -> m.Task:
        waiting.append(request.id)
        await asyncio.sleep(request.wait)
        return make_task(id=request.id, status=now)

    prepared.answers["get"] = get
    own: dict[str, Any] = {"threads": 2, "judge0": {"wait": 5}}  # so one answer may be held
    with serving_app(gateway_config(prepared, tmp_path, **own)) as app:

        def ask() -> tuple[float, dict[str, Any]]:
            began = time.monotonic()
            answer = hand_in(app, PRINTS, "?wait=true")
            assert answer.status_code == 201 and answer.json is not None
            return time.monotonic() - began, answer.json["status"]

        with ThreadPoolExecutor() as pool:
            first = pool.submit(ask)
            wait_for(lambda: len(waiting) == 1, what="an answer that is held")
            now = m.Status.RUNNING
            seconds, replies = ask()
            assert replies == {"id": 2, "description": "Processing"} and seconds < 4
            now = m.Status.PENDING
            seconds, replies = first.result()
        assert replies == {"id": 1, "description": "In Queue"} and 5 <= seconds < 30

        def fails(_: m.GetRequest) -> m.Task:
            raise JudgeError("no submission can be read")

        prepared.answers["get"] = fails
        answer = hand_in(app, PRINTS, "?wait=true")
        assert (answer.status_code, set(answer.json or ())) == (201, {"error", "token"}), "it is handed in all the same"


@row("S7", "S8", "S15")
def test_forms_and_texts_for_numbers(http: httpx.Client) -> None:
    form = {"source_code": "print(5)", "language_id": "71", "cpu_time_limit": "2.5", "redirect_stderr_to_stdout": "1"}
    for body in ({"data": form}, {"files": {}, "data": form}, {"json": {**form, "number_of_runs": "2"}}):
        answer = http.post("/submissions/", params={"wait": "true", "fields": "*"}, **body)
        assert answer.status_code == 201, answer.text
        fields = answer.json()
        assert (fields["stdout"], fields["cpu_time_limit"], fields["redirect_stderr_to_stdout"]) == ("5\n", "2.5", True)
    texts = {"compiler_options": "", "command_line_arguments": "", "callback_url": ""}
    fields = run(http, source_code="print(5)", **texts)
    assert {name: fields[name] for name in texts} == texts, "as they were given"
    assert {name: run(http, source_code="print(5)")[name] for name in texts} == dict.fromkeys(texts)
    body_ = {**form, "wait": True, "fields": "stdout,status_id", "base64_encoded": False}
    assert http.post("/submissions", json=body_).json() == {"stdout": "5\n", "status_id": 3}, "as Rails merges them"
    assert http.post("/submissions", json={**body_, "fields": "foo"}).json() == {"error": "invalid fields: [foo]"}
    pieces = iter([json.dumps(body_).encode()])
    assert http.post("/submissions", content=pieces, headers={"Content-Type": "application/json"}).status_code == 201


@row("S11", "S12")
def test_fields_in_the_address_count_and_base64_only_by_its_very_word(http: httpx.Client) -> None:
    ask = {"wait": "true", "fields": "stdout,cpu_time_limit,stdin", "cpu_time_limit": "0.5", "stdin": "address"}
    body = {"source_code": "print(input())", "language_id": PYTHON, "stdin": "body"}
    fields = http.post("/submissions", params=ask, json=body).json()
    assert fields == {"stdout": "body\n", "cpu_time_limit": "0.5", "stdin": "body"}
    every = {**ask, "source_code": "print(7)", "language_id": PYTHON}
    assert http.post("/submissions", params=every).json()["stdout"] == "7\n"
    for word in ("True", "1", "false"):
        assert http.post("/submissions", params={**ask, "base64_encoded": word}, json=body).json()["stdin"] == "body"
    assert http.post("/submissions", params=ask, json={**body, "base64_encoded": True}).json()["stdin"] == "body"
    coded = {**body, "source_code": base64.b64encode(b"print(8)").decode(), "stdin": "", "base64_encoded": "true"}
    assert http.post("/submissions", params={**ask, "fields": "stdout"}, json=coded).json() == {"stdout": "OAo=\n"}
    several = {"submissions": [{"source_code": "print(1)", "language_id": PYTHON}]}
    assert http.post("/submissions/batch", params={"base64_encoded": "True"}, json=several).status_code == 201


@row("V1", "V2", "V3", "V4", "V5", "V6", "V7", "V8")
def test_faults(http: httpx.Client) -> None:
    assert http.post("/submissions", json={}).json() == {
        "source_code": ["can't be blank"],
        "language_id": ["can't be blank", "language with id  doesn't exist"],
    }
    assert refused(http, language_id=47)["language_id"] == [
        "language with id 47 is archived and cannot be used anymore"
    ]
    faults = refused(http, wall_time_limit=0, cpu_time_limit=99, memory_limit="abc", number_of_runs=0, stack_limit=-1)
    assert faults == {
        "wall_time_limit": ["must be greater than or equal to 1"],
        "cpu_time_limit": ["must be less than or equal to 15.0"],
        "memory_limit": ["is not a number"],
        "number_of_runs": ["must be greater than 0"],
        "stack_limit": ["must be greater than or equal to 0"],
    }
    assert refused(http, command_line_arguments="x" * 513) == {
        "command_line_arguments": ["is too long (maximum is 512 characters)"]
    }
    assert refused(http, language_id=C, compiler_options="x" * 513) == {
        "compiler_options": ["is too long (maximum is 512 characters)"]
    }
    only = "setting compiler options is only allowed for"
    assert refused(http, compiler_options="-O2") == {"compiler_options": [f"{only} compiled languages"]}
    assert refused(http, language_id=60, compiler_options="-x") == {"compiler_options": [f"{only} some languages"]}
    assert refused(http, enable_network=True) == {"enable_network": ["enabling network is not allowed"]}
    assert refused(http, language_id=PROJECT) == {
        "source_code": ["must be blank"],
        "additional_files": ["can't be blank"],
    }
    assert http.post("/submissions", content=b"foo", headers={"Content-Type": "application/json"}).status_code == 400
    assert "source_code" in refused(http, source_code="#" * 200_000)
    assert refused(http, number_of_runs=0.5, max_processes_and_or_threads="0.5") == {
        "number_of_runs": ["must be greater than 0"],
        "max_processes_and_or_threads": ["must be greater than 0"],
    }
    for language in (PYTHON, 82):  # by our own row, and by a command
        assert list(refused(http, language_id=language, command_line_arguments="a\0b")) == ["command_line_arguments"]
    half = "half of a pair: \ud800"
    odd = {"source_code": "import sys; print(sys.argv[5], input())", "stdin": half, "command_line_arguments": half}
    several = [{"language_id": PYTHON, **odd}, {"language_id": half, "source_code": "x"}]
    body = {"content": json.dumps({"submissions": several}), "headers": {"Content-Type": "application/json"}}
    accepted_one, refusal = http.post("/submissions/batch", **body).json()  # type: ignore[arg-type]
    assert refusal == {"language_id": ["language with id half of a pair: ? doesn't exist"]}
    path = f"/submissions/{accepted_one['token']}"
    wait_for(lambda: http.get(path).json()["status"]["id"] > 2, what="the end")
    assert http.get(path).json()["stdout"] == "? half of a pair: ?\n"
    assert "additional_files" in refused(http, additional_files=b64(b"no archive"))


def test_a_fault_of_ours_has_judge0s_name_of_the_field(prepared: Prepared, tmp_path: Path) -> None:
    """Of rows V1 to V8: clients show what they find under the names of their own fields, and pass over others."""
    place = ""

    def add(_: m.Submission) -> m.AddReply:
        raise FieldError(place, "is wrong")

    prepared.answers["add"] = add
    limits = {"cpu": "cpu_time_limit", "wall": "wall_time_limit", "memory": "memory_limit", "stack": "stack_limit"}
    limits |= {"processes": "max_processes_and_or_threads", "output": "max_file_size"}
    assert limits.keys() == m.LimitsOverride.model_fields.keys()
    names = {f"limits.{limit}": name for limit, name in limits.items()}
    names |= {"options.compiler.0": "compiler_options", "options.arguments": "command_line_arguments"}
    names |= {f"told.{name}": name for name in ("compiler_options", "command_line_arguments", "callback_url")}
    names |= {"command": "command_line_arguments", "files.0.name": "additional_files", "source": "source_code"}
    names |= {"language": "language_id", "problem": "problem", "tests.0.input": "tests"}
    with serving_app(gateway_config(prepared, tmp_path)) as app:

        def refusal(**fields: str) -> Any:
            answer = hand_in(app, PRINTS | fields)
            assert answer.status_code == 422
            return answer.json

        for place, name in names.items():
            assert refusal() == {name: ["is wrong"]}, place
        place = "mode"
        assert refusal() == {"base": ["mode: is wrong"]}, "as Rails says what no field of the caller is to blame for"


@row("V9", "P18", "P19", "P20", "B7")
def test_limits_are_translated_to_ours(prepared: Prepared, tmp_path: Path) -> None:
    added: list[m.Submission] = []

    def add(request: m.Submission) -> m.AddReply:
        added.append(request)
        return m.AddReply(task=make_task(submission=request), created=True)

    prepared.answers["add"] = add
    with serving_app(gateway_config(prepared, tmp_path)) as app:

        def post(path: str = "", options: Any = None, **fields: Any) -> Any:
            answer = hand_in(app, PRINTS | fields if options is None else options, path)
            return answer.status_code, answer.json

        assert post(cpu_time_limit=0, stack_limit=0, max_file_size=0)[0] == 201
        limits = added[-1].limits
        assert (limits.cpu, limits.stack, limits.output) == (15.0, 128_000 * 1024, 4096 * 1024)
        assert post(memory_limit=2048, stack_limit=1)[0] == 201
        assert (added[-1].limits.memory, added[-1].limits.stack) == (4 * 1024**2, 64 * 1024)
        assert (added[-1].told["memory_limit"], added[-1].told["stack_limit"]) == (2048, 1), (
            "given back as it was asked"
        )
        long = f"https://example.org/{'x' * 2028}"
        assert post(callback_url=long)[0] == 201 and len(long) == 2048
        assert post(callback_url=f"{long}x") == (422, {"callback_url": ["is too long (maximum is 2048 characters)"]})
        for nothing in ("", "====", "\n"):
            assert post(additional_files=nothing)[0] == 201 and added[-1].files == [], nothing
        assert post(language_id=PROJECT, source_code="", additional_files="====") == (
            422,
            {"additional_files": ["can't be blank"]},
        )
        before = len(added)
        code, answer = post("/batch", [{"language_id": PYTHON, "source_code": f"print({n})"} for n in (1, 2)])
        assert (code, [list(item) for item in answer]) == (201, [["token"], ["token"]])
        assert [submission.source for submission in added[before:]] == ["print(1)", "print(2)"]


@row("B1", "B2", "B3", "B5", "B8")
def test_batches(http: httpx.Client) -> None:
    good, bad = PRINTS, {"language_id": PYTHON}
    answer = http.post("/submissions/batch", json={"submissions": [good, bad]})
    assert answer.status_code == 201 and answer.json()[1] == {"source_code": ["can't be blank"]}
    assert http.post("/submissions/batch", json={"submissions": [bad]}).status_code == 422
    several = [(f"submissions[][{name}]", str(value)) for part in (good, good) for name, value in part.items()]
    form = {"content": urlencode(several), "headers": {"Content-Type": "application/x-www-form-urlencoded"}}
    parts = {"files": [(name.replace("[]", f"[{n // 2}]"), (None, value)) for n, (name, value) in enumerate(several)]}
    alike = {"files": [(name, (None, value)) for name, value in several]}
    for body in (form, parts, alike, {}):
        address = "/submissions/batch" + ("" if body else f"?{urlencode(several)}")
        reply = http.post(address, **body)  # type: ignore[arg-type]
        assert (reply.status_code, [list(item) for item in reply.json()]) == (201, [["token"], ["token"]]), reply.text
    unlike = {"files": [*alike["files"], ("submissions[][stdin]", (None, "x"))]}
    assert "number them: submissions[0][stdin]" in http.post("/submissions/batch", **unlike).json()["error"]
    token = answer.json()[0]["token"]
    listing = http.get("/submissions/batch", params={"tokens": f"{token},{uuid.uuid4()}", "fields": "token"}).json()
    assert listing == {"submissions": [{"token": token}, None]}
    none = {"error": "there should be at least one submission in a batch"}
    refusal = {"error": "number of submissions in a batch should be less than or equal to 20"}
    assert http.post("/submissions/batch", json={"submissions": []}).json() == none
    assert http.post("/submissions/batch", json={"submissions": [good] * 21}).json() == refusal
    assert http.get("/submissions/batch", params={"tokens": ",".join(["x"] * 21)}).json() == refusal
    by_header = {"headers": {"tokens": f"{token}, {uuid.uuid4()}"}, "params": {"fields": "token", "tokens": "x"}}
    assert http.get("/submissions/batch", **by_header).json() == {"submissions": [{"token": token}, None]}


@row("B4")
def test_an_answer_has_room_for_some_contents(http: httpx.Client, server: str) -> None:
    """Twenty times an output of 64 MiB stood in the gateway's memory, five times over."""
    own = {"Authorization": f"Bearer {ADA}"}
    limits = {"output": 2 * 1024**2}
    with httpx.Client(base_url=server.removesuffix("/judge0"), headers=own, trust_env=False, timeout=120) as client:
        big = {"command": "head -c 2000000 /dev/zero | tr '\\0' 'x'", "limits": limits}
        task = client.post("/api/v1/submissions", json=big).json()["id"]
        wait_for(lambda: client.get(f"/api/v1/submissions/{task}").json()["done"], what="the output")
    token = token_of(task)
    alone = http.get(f"/submissions/{token}", params={"fields": "stdout"})
    assert alone.status_code == 200 and alone.json() == {"stdout": "x" * 2_000_000}
    for encoded in ("false", "true"):
        query = {"tokens": ",".join([token] * 20), "base64_encoded": encoded}
        answer = http.get("/submissions/batch", params=query)
        assert answer.status_code == 413 and "more than 32 MiB" in answer.json()["error"]
        assert http.get("/submissions/batch", params={**query, "fields": "status_id"}).status_code == 200
    noisy = {"source_code": "print(chr(1) * 4_000_000)", "max_file_size": 4096, "stdin": "\1" * 2_000_000}
    noise = http.post("/submissions?wait=true&fields=stdout,stdin", json={"language_id": PYTHON, **noisy})
    assert noise.status_code == 201 and {*noise.json()} == {"error", "token"}, "it has been handed in"


# --- what comes of it ------------------------------------------------------------------------------------------


def status(fields: Mapping[str, Any]) -> int:
    number = int(fields["status"]["id"])
    assert fields["status"]["description"] == STATUSES[number]
    return number


@row("R1", "R2", "R10", "R13", "R14")
def test_outputs_are_compared_by_lines(http: httpx.Client) -> None:
    for printed, expected, number in (
        ("a b  \\nc\\n\\n", "a b\nc", 3),
        ("a  b", "a b", 4),
        ("A", "a", 4),
        ("a\\n\\nb", "a\nb", 4),
        ("", " \n", 3),
        ("", "", 3),
    ):
        fields = run(http, source_code=f"print('{printed}', end='')", expected_output=expected)
        assert status(fields) == number, (printed, expected)
    assert (fields["stdout"], fields["stderr"], fields["compile_output"], fields["message"]) == (None,) * 4


@row("R3", "R11")
def test_time_limits(http: httpx.Client) -> None:
    busy = run(http, source_code="while True: pass", cpu_time_limit=0.5, wall_time_limit=15)
    assert (status(busy), busy["message"], busy["exit_code"]) == (5, "Time limit exceeded", 0)
    assert float(busy["time"]) >= 0.5 and re.fullmatch(r"\d+\.\d{1,3}", busy["time"])
    idle = run(http, source_code="import time; time.sleep(60)", wall_time_limit=1)
    assert (status(idle), idle["message"]) == (5, "Time limit exceeded (wall clock)")
    assert float(idle["wall_time"]) >= 1 and isinstance(idle["memory"], int)


@row("R4")
def test_errors_of_the_compiler(http: httpx.Client) -> None:
    fields = run(http, language_id=C, source_code="int main() { return x; }")
    assert status(fields) == 6 and "'x' undeclared" in fields["compile_output"]
    for name in ("stdout", "stderr", "time", "wall_time", "memory", "exit_code", "exit_signal", "message"):
        assert fields[name] is None, name
    warned = run(http, language_id=C, source_code="#warning careful\nint main() {}")
    assert status(warned) == 3 and "careful" in warned["compile_output"]
    script = run(http, source_code="print('x'")
    assert status(script) == 11 and "SyntaxError" in script["stderr"] and script["compile_output"] is None


@row("R5", "R6", "R7", "R8", "R9")
def test_ends(http: httpx.Client) -> None:
    # Python itself passes over some signals.
    for number, signal in ((7, 11), (8, 25), (9, 8), (10, 6), (12, 10)):
        raises = f"#include <signal.h>\nint main() {{ raise({signal}); }}"
        fields = run(http, language_id=C, source_code=raises)
        assert (status(fields), fields["exit_signal"], fields["exit_code"]) == (number, signal, 128 + signal)
        assert fields["message"] == f"Caught fatal signal {signal}"
    fields = run(http, source_code="import sys; print('out'); print('err', file=sys.stderr); exit(3)")
    assert (status(fields), fields["stdout"], fields["stderr"]) == (11, "out\n", "err\n")
    assert (fields["exit_code"], fields["message"]) == (3, "Exited with error status 3")
    fields = run(http, fields="status,message,verdict", source_code="x = bytearray(10**9)", memory_limit=64_000)
    assert (status(fields), fields["verdict"]) == (11, "MLE") and "Exited with error status" in fields["message"]
    grows = "#include <stdlib.h>\n#include <string.h>\nint main() { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }"
    fields = run(http, language_id=C, source_code=grows, memory_limit=16_000)
    assert (status(fields), fields["message"]) == (11, "Exited with error status 137")
    assert (fields["exit_code"], fields["exit_signal"]) == (137, None)
    fields = run(http, source_code="while True: print('x' * 1000)", max_file_size=64)
    assert (status(fields), fields["exit_signal"]) == (8, 25) and len(fields["stdout"]) == 64 * 1024
    fields = run(http, base64_encoded="true", language_id=44, source_code=b64(b"\x7fELF nothing \x00\x01"))
    assert status(fields) == 14


# --- how it is run ---------------------------------------------------------------------------------------------


@row("P1", "P2", "P3", "P9")
def test_options(http: httpx.Client) -> None:
    fields = run(http, source_code="print(1)", number_of_runs=3, cpu_extra_time=0.5)
    assert (status(fields), fields["number_of_runs"], fields["cpu_extra_time"]) == (3, 3, "0.5")
    tests = run(http, fields="tests", source_code="print(1)", number_of_runs=3)["tests"]
    assert [test_["verdict"] for test_ in tests] == ["AC"] * 3
    several = run(http, fields="tests,time,memory", source_code="print(len('x' * 10**7))", number_of_runs=3)
    assert float(several["time"]) == pytest.approx(sum(float(test["time"]) for test in several["tests"]) / 3, abs=0.001)
    assert abs(several["memory"] - sum(test["memory"] for test in several["tests"]) / 3) < 2
    failed = run(http, fields="tests,status,number_of_runs", source_code="exit(1)", number_of_runs=3)
    assert (status(failed), failed["number_of_runs"], [test["verdict"] for test in failed["tests"]]) == (11, 3, ["RTE"])
    options = "enable_per_process_and_thread_time_limit", "enable_per_process_and_thread_memory_limit"
    shared = "import os\nos.fork(); x = bytearray(b'1') * 50_000_000\nwhile os.times().user < 0.6: pass\nos.wait()"
    for limits in ({"cpu_time_limit": 1.0}, {"memory_limit": 80_000}):
        fields = run(http, source_code=shared, **limits, **dict.fromkeys(options, True))
        assert [fields[name] for name in options] == [True, True]
        assert status(fields) == (5 if "cpu_time_limit" in limits else 11), "all processes together"
    merged = "import sys\nprint('err', file=sys.stderr, flush=True)\nprint('out')"
    fields = run(http, source_code=merged, redirect_stderr_to_stdout=True)
    assert (fields["stdout"], fields["stderr"]) == ("err\nout\n", None)
    fields = run(http, source_code="import sys; print(sys.argv[1:])", command_line_arguments="a 'b c' $HOME; `id`")
    assert fields["stdout"] == "['a', 'b c', 'HOME', 'id']\n"
    assert fields["command_line_arguments"] == "a 'b c' $HOME; `id`"
    macro = '#include <stdio.h>\nint main() { printf("%d %ld", X, __STDC_VERSION__); }'
    fields = run(http, language_id=C, source_code=macro, compiler_options="-DX=7 -std=c11")
    assert fields["stdout"] == "7 201112"
    assert directory(fields) == {"main.c": macro.encode()}


@row("P4", "P5", "P6", "P8")
def test_files(http: httpx.Client) -> None:
    files = packed(helper_dot_py="def f(): return 5", data__x_dot_txt="datum", script_dot_py="print('not this')")
    uses = "import helper\nprint(helper.f(), open('data/x.txt').read())\nopen('made', 'w').write('x')"
    fields = run(http, source_code=uses, additional_files=files)
    assert (status(fields), fields["stdout"]) == (3, "5 datum\n")
    contents = directory(fields)
    assert contents["made"] == b"x" and {"data/x.txt", "helper.py", "script.py"} < contents.keys()
    back = zipfile.ZipFile(io.BytesIO(base64.b64decode(fields["additional_files"])))
    assert sorted(back.namelist()) == ["data/x.txt", "helper.py"] and fields["source_code"] == uses
    behind = packed(
        **{"x_dot_txt~": "1", "y_dot_zip": base64.b64decode(files), "_dot_env": "2", "_dot_git__config": "3"}
    )
    fields = run(http, source_code="import os; print(sorted(os.listdir('.')))", additional_files=behind)
    assert fields["stdout"] == "['script.py', 'x.txt~', 'y.zip']\n"
    included = packed(part_dot_c="int part(void) { return 4; }")
    main = '#include "part.c"\n#include <stdio.h>\nint main() { printf("%d", part()); }'
    assert run(http, language_id=C, source_code=main, additional_files=included)["stdout"] == "4"
    project = packed(compile_dot_sh="echo compiling; exit 3")
    body = {"language_id": PROJECT, "additional_files": project}
    answer = http.post("/submissions?wait=true", json=body).json()
    assert (status(answer), answer["compile_output"]) == (6, "compiling\n")
    project = packed(
        main_dot_c='#include <stdio.h>\nint main() { printf("%d", 6 * 7); }',
        compile="#!/bin/bash\n/usr/local/gcc-9.2.0/bin/gcc main.c -o solution\n",
        run="./solution && /usr/local/python-3.8.1/bin/python3 -c 'print(1)'",
    )
    answer = http.post("/submissions?wait=true", json={"language_id": PROJECT, "additional_files": project}).json()
    assert (status(answer), answer["stdout"]) == (3, "421\n")
    assert run(http, language_id=43, source_code="plain")["stdout"] == "plain"
    script = b"#!/bin/sh\necho started $1\n"
    started = run(http, base64_encoded="true", language_id=44, source_code=b64(script), command_line_arguments="x")
    assert base64.b64decode(started["stdout"]) == b"started x\n"
    big = "import sys\nsys.stdout.write('a' * 1_000_000)\nsys.stderr.write('b' * 1_000_000)"
    fields = run(http, source_code=big, expected_output="a" * 1_000_000)
    assert status(fields) == 3 and fields["stdout"] == "a" * 1_000_000 and fields["stderr"] == "b" * 65536


@row("P10")
def test_the_directory_after_the_last_run(http: httpx.Client) -> None:
    draws = "import os, sys\nopen('chart.png', 'wb').write(b'\\x89PNG\\0')\nos.mkdir('d')\nopen('d/f', 'w').write('1')"
    fields = run(http, source_code=draws, number_of_runs=2)
    assert (status(fields), directory(fields)) == (
        3,
        {"script.py": draws.encode(), "chart.png": b"\x89PNG\0", "d/f": b"1"},
    )
    changes = "open('data.txt', 'a').write('more'); import os; os.symlink('/etc/passwd', 'link'); exit(1)"
    fields = run(http, source_code=changes, additional_files=packed(data_dot_txt="datum"))
    assert status(fields) == 11
    assert directory(fields) == {"script.py": changes.encode(), "data.txt": b"datummore"}
    noise = "import os\nfor n in range(4): open(str(n), 'wb').write(os.urandom(100_000 + n))"
    fields = run(http, fields="post_execution_filesystem,reason,status", source_code=noise)
    assert sorted(directory(fields)) == ["0", "1", "script.py"]
    assert fields["reason"].startswith("2 of the files that the run left are not kept")
    built = packed(compile="gcc main.c -o solution", run="./solution > made", main_dot_c="int main() { return 0; }")
    fields = http.post(
        "/submissions?wait=true&fields=*", json={"language_id": PROJECT, "additional_files": built}
    ).json()
    assert {"compile", "run", "main.c", "solution", "made"} == directory(fields).keys()


@row("P5")
def test_a_run_has_what_a_project_has_built_beside_its_own_limits(http: httpx.Client) -> None:
    """50 MB of build output, a file size limit of 1 MB and little memory: large files are links, others copies."""
    compile_script = (
        "mkdir -p out/d; for n in 1 2 3 4 5; do head -c 10000000 /dev/zero >out/large$n; done; echo 1 >out/d/small; "
        "ln -s small out/d/link"
    )
    run_script = (
        "cat out/large* | wc -c; echo 2 >>out/d/link; cat out/d/small; "
        "(echo 3 >>out/large1) 2>/dev/null || echo read-only; rm out/large1 && echo gone"
    )
    fields = run(
        http,
        language_id=PROJECT,
        source_code=None,
        additional_files=packed(compile=compile_script, run=run_script),
        max_file_size=1000,
        memory_limit=20_000,
        number_of_runs=2,
    )
    assert (status(fields), fields["stdout"]) == (3, "50000000\n1\n2\nread-only\ngone\n"), fields
    assert directory(fields).keys() == {"compile", "run", "out/d/small"}
    fields = run(http, language_id=44, source_code="#!/bin/sh\n#" + "x" * 5000 + "\necho ran\n", max_file_size=1)
    assert fields["stdout"] == "ran\n"


@row("P13", "P14")
def test_sql_has_the_database_that_comes_along(http: httpx.Client, tmp_path: Path) -> None:
    """Judge0's own editor sends one with each program in SQL, of a MiB."""
    path = tmp_path / "db.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("create table artists (name text)")
        database.executemany("insert into artists values (?)", [(f"artist {n} {'x' * 999}",) for n in range(1000)])
        database.commit()
    files = packed(db_dot_sqlite=path.read_bytes(), notes_dot_bin=secrets.token_bytes(400_000))
    statements = "select count(*) from artists;\ndelete from artists where rowid > 7;\nselect count(*) from artists;"
    for _ in range(2):  # each run has its own copy
        fields = run(http, language_id=82, source_code=statements, additional_files=files, max_file_size=4096)
        assert (fields["stdout"], fields["source_code"], fields["language"]["id"]) == ("1000\n7\n", statements, 82)
    broken = "create table t (a);\ninsert into t values (4);\nselect b from t;\nselect a from t;"
    fields = run(http, language_id=82, source_code=broken)
    assert (status(fields), fields["stdout"]) == (11, "4\n") and "no such column" in fields["stderr"]
    long = "-" * (128 * 1024 + 1)
    for extra in ({}, {"additional_files": files}, {"language_id": 71, "additional_files": files}):
        faults = refused(http, **{"language_id": 82, "source_code": long, **extra})
        assert list(faults) == ["source_code"] and "is too large" in faults["source_code"][0], faults
    for extra, sentence in ((1, "have more than 2097152 bytes"), (0, "have 2097159 bytes")):  # with the source
        faults = refused(http, additional_files=packed(a_dot_bin=bytes(2 * 1024**2 + extra)))
        assert list(faults) == ["additional_files"] and sentence in faults["additional_files"][0], faults
    assert "additional_files" in refused(http, additional_files=packed(a_dot_bin=secrets.token_bytes(2 * 1024**2)))


@row("P15", "P16", "P17")
def test_options_of_compilers(http: httpx.Client) -> None:
    main = '#include <stdio.h>\nint main() {\n#ifdef __OPTIMIZE__\nputs("fast");\n#endif\n}'
    for language in (C, CPP):
        assert run(http, language_id=language, source_code=main)["stdout"] == "fast\n"
        assert run(http, language_id=language, source_code=main, compiler_options="-O0")["stdout"] is None
    for options in ("-o a.out", "-DX -oprogram -O0"):
        fields = run(http, language_id=C, source_code=main, compiler_options=options)
        assert (status(fields), fields["compiler_options"]) == (3, options)
        assert fields["stdout"] == (None if "-O0" in options else "fast\n")
    java = "package a.b; public class Other { public static void main(String[] a) { System.out.print(1); } }"
    assert run(http, language_id=JAVA, source_code=java)["stdout"] == "1"


@row("P11", "P12")
def test_the_source_has_its_name_and_the_program_a_home(http: httpx.Client) -> None:
    home = "import os, sys\nprint(os.environ['HOME'], sys.argv, open(sys.argv[0]).read(6))\nraise SystemError"
    fields = run(http, source_code=home)
    assert fields["stdout"] == "/tmp ['/box/script.py'] import\n"
    assert 'File "/box/script.py", line 3' in fields["stderr"]
    for language, name in ((CPP, "main.cpp"), (50, "main.c")):
        messages = run(http, language_id=language, source_code="int main() { x; }")["compile_output"]
        assert f"\n{name}:1:" in f"\n{messages}" and "/box/" not in messages
    lasting = "open(__import__('os').environ['HOME'] + '/x', 'x')"
    assert [status(run(http, source_code=lasting)) for _ in range(2)] == [3, 3], "each has its own"


@row("P21")
def test_python_for_ml_has_what_debian_has_for_python(http: httpx.Client, server: str) -> None:
    """Whether or not numpy is there: programs find just what the machine's own Python finds."""
    del http
    text = (
        "import importlib.util as u, os, sys\n"
        "at = '/usr/lib/python3/dist-packages'\n"
        "print(at in sys.path, sorted(os.listdir(at)) if os.path.isdir(at) else [])\n"
        "names = 'numpy', 'scipy', 'pandas', 'sklearn', 'matplotlib'\n"
        "print([u.find_spec(name) is not None for name in names])\n"
        "print(__import__('numpy').arange(4).sum() if u.find_spec('numpy') else 6)\n"
    )
    own = subprocess.run(["/usr/bin/python3", "-c", text], capture_output=True, text=True, check=True, cwd="/").stdout
    assert own.startswith("True [")
    names = {row.id: row.name for row in languages.table("extra").values() if row.name.startswith("Python for ML")}
    assert sorted(names) == [10, 25, 31, 32, 33]
    with httpx.Client(base_url=f"{server}/extra", headers={"X-Auth-Token": ADA}, trust_env=False, timeout=120) as extra:
        listed = {row["id"]: row["name"] for row in extra.get("/languages").json()}
        assert names.items() <= listed.items()
        for number in (10, 33):
            fields = run(extra, language_id=number, source_code=text, memory_limit=512_000, max_file_size=4096)
            assert (fields["stdout"], fields["stderr"]) == (own, None)


# --- what there is ---------------------------------------------------------------------------------------------


@row("N1", "N2")
def test_its_word_about_itself_has_judge0s_names(http: httpx.Client, server: str) -> None:
    numbers = ("number_of_runs", "cpu_time_limit", "cpu_extra_time", "wall_time_limit", "memory_limit", "stack_limit")
    numbers += ("max_processes_and_or_threads", "max_file_size")
    switches = ("enable_per_process_and_thread_time_limit", "enable_per_process_and_thread_memory_limit")
    config = http.get("/config_info").json()
    assert config.keys() == {
        *("maintenance_mode", "enable_wait_result", "enable_compiler_options", "allowed_languages_for_compile_options"),
        *("enable_command_line_arguments", "enable_submission_delete", "enable_callbacks", "callbacks_max_tries"),
        *("callbacks_timeout", "enable_additional_files", "max_queue_size", "max_extract_size"),
        *numbers,
        *(f"max_{name}" for name in numbers),
        *switches,
        *(f"allow_{name}" for name in switches),
        *("redirect_stderr_to_stdout", "enable_network", "allow_enable_network", "enable_batched_submissions"),
        *("max_submission_batch_size", "submission_cache_duration", "use_docs_as_homepage"),
        "disable_implicit_base64_encoding",
    }
    assert (config["number_of_runs"], config["max_cpu_time_limit"], config["max_memory_limit"]) == (1, 15.0, 512_000)
    (queue,) = http.get("/workers").json()
    assert queue.keys() == {"queue", "size", "available", "idle", "working", "paused", "failed"}
    for flavour, version in (("", "1.14.0"), ("/extra", "1.14.0-extra")):
        about = http.get(f"{server}{flavour}/about").json()
        assert (about.keys(), about["version"]) == ({"version", "homepage", "source_code", "maintainer"}, version)
    assert http.get("/system_info").json().keys() == {"Architecture", "CPU(s)", "Mem", "Swap", "Slots"}


@row("N5", "N6")
def test_settings_that_follow_from_ours(prepared: Prepared, tmp_path: Path) -> None:
    allowance = Allowance(waiting=7)
    prepared.answers["usage"] = lambda _: UsageReply(allowance=allowance, waiting=0, running=0)
    with serving_app(gateway_config(prepared, tmp_path)) as app:

        def config() -> Any:
            return app.test_client().get("/judge0/config_info", headers={"X-Auth-Token": USER}).json

        assert config()["max_queue_size"] == 7
        allowance = Allowance(waiting=None)
        assert (config()["max_queue_size"], config()["disable_implicit_base64_encoding"]) == (1_000_000, True)


@row("L1", "L2", "L3", "L4", "N3", "N4")
def test_languages_statuses_and_system_information(http: httpx.Client) -> None:
    listed = {row["id"]: row["name"] for row in http.get("/languages").json()}
    assert listed[71] == "Python (3.8.1)" and listed[54] == "C++ (GCC 9.2.0)" and 47 not in listed
    everything = {row["id"]: row["is_archived"] for row in http.get("/languages/all").json()}
    assert everything[47] is True and everything[71] is False and len(everything) == 71 + 42
    assert http.get("/languages/4").json()["name"] == "C (gcc 7.2.0)"
    old = http.post("/submissions", json={"language_id": 34, "source_code": "print 1"})
    assert old.json() == {"language_id": ["language with id 34 is archived and cannot be used anymore"]}
    cpp = http.get("/languages/54").json()
    assert cpp["source_file"] == "main.cpp" and " %s /box/main.cpp" in cpp["compile_cmd"]
    assert http.get("/languages/71").json()["compile_cmd"] is None
    assert http.get("/languages/999").status_code == http.get("/nothing").status_code == 404
    assert "error" in http.get("/nothing").json()
    assert (http.get("/").status_code, list(http.get("/").json())) == (404, ["error"])
    assert {status_["id"]: status_["description"] for status_ in http.get("/statuses").json()} == STATUSES
    (queue,) = http.get("/workers").json()
    assert queue["available"] == 2 and queue["failed"] == 0
    assert http.get("/system_info").json()["Slots"] == "2"
    run(http, source_code="exit(1)")
    # Tasks that tests before this one have left unfinished may end between two of its questions.
    wait_for(
        lambda: (
            (counts := http.get("/statistics").json())["submissions"]["total"]
            == sum(count["count"] for count in counts["statuses"])
        ),
        what="all that are counted",
    )
    counts = http.get("/statistics").json()
    assert 11 in {count["status"]["id"] for count in counts["statuses"] if count["count"]}
    assert str(counts["created_at"])[:10] not in counts["submissions"]["last_30_days"]
    assert counts["submissions"]["total"] >= counts["submissions"]["today"] > 0
    assert "sandbox" in http.get("/isolate").text and "Apache" in http.get("/license").text


@row("M1", "M2")
def test_pages_of_submissions(http: httpx.Client, server: str) -> None:
    body = {"submissions": [PRINTS] * 5}
    assert http.post("/submissions/batch", json=body).status_code == 201
    first = http.get("/submissions", params={"per_page": 2, "fields": "token"}).json()
    second = http.get("/submissions", params={"per_page": 2, "page": 2, "fields": "token"}).json()
    assert len({submission["token"] for submission in first["submissions"] + second["submissions"]}) == 4
    meta = first["meta"]
    assert (meta["current_page"], meta["next_page"], meta["prev_page"]) == (1, 2, None)
    assert meta["total_pages"] == -(-meta["total_count"] // 2) and second["meta"]["prev_page"] == 1
    bobs = httpx.get(f"{server}/submissions", headers={"X-Auth-Token": BOB}, trust_env=False).json()
    assert bobs["submissions"] == [] and bobs["meta"]["total_count"] == 0
    for token in (EVE, ROOT):
        everybodys = httpx.get(f"{server}/submissions", headers={"X-Auth-Token": token}, trust_env=False).json()
        assert everybodys["meta"]["total_count"] >= meta["total_count"]
    assert http.get("/submissions", params={"page": 0}).json() == {"error": "invalid page: 0"}
    assert http.get("/submissions", params={"per_page": -1}).json() == {"error": "invalid per_page: -1"}
    assert len(http.get("/submissions", params={"per_page": 1000, "fields": "token"}).json()["submissions"]) > 4


def test_pages_end_with_the_newest_ten_thousand(prepared: Prepared, tmp_path: Path) -> None:
    ids = [f"{number:024x}" for number in range(12_000)]

    def search(request: m.SearchRequest) -> m.SearchReply:
        page = [make_task(id=id_) for id_ in ids[request.skip : request.skip + request.limit]]
        return m.SearchReply(tasks=page, total=10_000)

    def tasks(request: TasksRequest) -> TasksReply:
        return TasksReply(tasks=[make_task(id=id_) for id_ in request.ids])

    prepared.answers.update(search=search, tasks=tasks)
    with serving_app(gateway_config(prepared, tmp_path)) as app:

        def page(number: int, per_page: int) -> tuple[list[str], dict[str, Any]]:
            query = {"page": number, "per_page": per_page, "fields": "id"}
            answer: Any = app.test_client().get(
                "/judge0/submissions", query_string=query, headers={"X-Auth-Token": USER}
            )
            return [submission["id"] for submission in answer.json["submissions"]], answer.json["meta"]

        assert page(100, 100)[0] == ids[9_900:10_000] and page(100, 100)[1]["next_page"] is None
        assert page(101, 100) == ([], {**page(101, 100)[1], "next_page": None, "prev_page": 100})
        assert page(334, 30)[0] == ids[9_990:10_000] and page(334, 30)[1]["total_pages"] == 334
        for number in (335, 500, 10_001, 10**8):
            assert page(number, 30)[0] == [], number


@row("M3", "X4")
def test_deleting_and_cancelling(http: httpx.Client, server: str) -> None:
    token = run(http, fields="token", source_code="print(1)")["token"]
    assert http.delete(f"/submissions/{token}").status_code == 403
    root = {"X-Auth-Token": ROOT}
    answer = httpx.delete(f"{server}/submissions/{token}", headers=root, trust_env=False)
    assert (answer.status_code, answer.json()) == (400, {"error": "delete not allowed"})
    body = {"source_code": "import time; time.sleep(20)", "language_id": PYTHON, "wall_time_limit": 20}
    token = http.post("/submissions", json=body).json()["token"]
    fields = http.delete(f"/submissions/{token}", params={"cancel": "true"})
    assert fields.status_code == 200
    wait_for(lambda: http.get(f"/submissions/{token}").json()["status"]["id"] == 13, what="the end")
    assert http.get(f"/submissions/{token}").json()["message"] == "the submission was cancelled"


def test_deleting_where_it_is_allowed(prepared: Prepared, tmp_path: Path) -> None:
    """Of row M3: a finished submission goes, and is what is answered."""
    outcome = m.Result(tests=[m.TestResult(name="run", verdict=m.Verdict.AC, cpu=0.25)], stdout="ä\n")
    task = make_task(status=m.Status.SUCCESS, done=True, verdict=m.Verdict.AC, result=outcome)
    prepared.answers["delete_submission"] = lambda _: Deleted(deleted=1)
    settings = gateway_config(prepared, tmp_path, judge0={"delete": True})
    token = token_of(task.id)
    with serving_app(settings) as app:

        def delete(by: str, **query: str) -> tuple[int, Any]:
            headers = {"X-Auth-Token": by}
            answer = app.test_client().delete(f"/judge0/submissions/{token}", query_string=query, headers=headers)
            return answer.status_code, answer.json

        for number, now in ((1, m.Status.PENDING), (2, m.Status.RUNNING)):
            prepared.tasks(make_task(status=now))
            text = f"submission cannot be deleted because its status is {number} ({STATUSES[number]})"
            assert delete(ADMIN) == (400, {"error": text})
        prepared.tasks(task)
        assert delete(USER)[0] == 403
        assert "delete_submission" not in [method for method, _ in prepared.asked]
        code, answer = delete(ADMIN)
        assert (code, answer["token"], answer["status"]["id"], answer["time"]) == (200, token, 3, "0.25")
        assert base64.b64decode(answer["stdout"]).decode() == "ä\n"
        assert delete(ADMIN, fields="status_id") == (200, {"status_id": 3})
        assert delete(ADMIN, fields="x") == (400, {"error": "invalid fields: [x]"})
        deleted = [request.id for method, request in prepared.asked if method == "delete_submission"]
        assert deleted == [task.id] * 2


def test_several_are_asked_for_together(prepared: Prepared, tmp_path: Path) -> None:
    """Of rows B3 and M1: a list of a hundred was a hundred calls, one after the other; now as many as have room."""
    ids = [f"{number:024x}" for number in range(3)]
    tasks = [make_task(id=id_, submission=m.Submission(user="ada", command="true")) for id_ in ids]
    hers = make_task(id="f" * 24, submission=m.Submission(user="bob", command="true"))
    settings = gateway_config(prepared, tmp_path)
    prepared.tasks(*tasks, hers)
    of_all: Any = prepared.answers["tasks"]
    limit = 2

    def of_some(request: TasksRequest) -> TasksReply:
        assert request.user == "ada"
        reply = of_all(request.model_copy(update={"ids": request.ids[:limit]}))
        return TasksReply(tasks=reply.tasks, left=request.ids[limit:])

    prepared.answers["tasks"] = of_some
    with serving_app(settings) as app:

        def ask(path: str) -> Any:
            before = len(prepared.asked)
            answer = app.test_client().get(f"/judge0/submissions{path}", headers={"X-Auth-Token": USER})
            assert answer.status_code == 200, answer.json
            calls_ = [method for method, _ in prepared.asked[before:] if method in {"get", "tasks"}]
            return [submission and submission["token"] for submission in answer.json["submissions"]], calls_

        tokens = [token_of(id_) for id_ in ids]
        queried = [tokens[0], "x", tokens[2], token_of(hers.id), tokens[0], str(uuid.uuid4()), tokens[1]]
        answered = [tokens[0], None, tokens[2], None, tokens[0], None, tokens[1]]
        listed, calls = ask(f"/batch?tokens={','.join(queried)}&fields=token")
        assert (listed, set(calls)) == (answered, {"tasks"}) and len(calls) > 1
        assert ask("?fields=token") == (tokens, ["tasks"] * 2)
        limit = 100
        assert ask("?fields=token") == (tokens, ["tasks"])
        assert ask("/batch?tokens=x,y&fields=token") == ([None, None], [])
        prepared.answers["tasks"] = lambda _: TasksReply(tasks=tasks[:1])
        assert ask("?fields=token") == (tokens[:1], ["tasks"]), "the others went meanwhile"


@row("S10")
def test_a_full_queue(prepared: Prepared, tmp_path: Path) -> None:
    def full(_: m.Submission) -> m.AddReply:
        raise LimitError("1000 submissions of 'ada' wait")

    prepared.answers["add"] = full
    with serving_app(gateway_config(prepared, tmp_path)) as app:
        answer = hand_in(app, PRINTS)
        assert answer.status_code == 503 and int(answer.headers["Retry-After"]) > 0
        assert answer.json == {"error": "queue is full", "reason": "1000 submissions of 'ada' wait"}

        def often(_: m.Submission) -> m.AddReply:
            error = LimitError("2 within a minute")
            error.rate = (2, 0, 47)
            raise error

        prepared.answers["add"] = often
        answer = hand_in(app, PRINTS)
        assert (answer.status_code, answer.json) == (429, {"error": "2 within a minute"})
        assert (answer.headers["Retry-After"], answer.headers["RateLimit-Limit"]) == ("47", "2")


@row("B6")
def test_a_batch_is_taken_whole_or_not_at_all_where_too_many_wait(prepared: Prepared, tmp_path: Path) -> None:
    """The SDK reads nothing but tokens in the answer to a batch."""
    allowance = Allowance(waiting=10)
    waiting = 7

    def add(request: m.Submission) -> m.AddReply:
        nonlocal waiting
        if waiting >= 10:
            raise LimitError("10 submissions of 'ada' wait")
        waiting += 1
        return m.AddReply(task=make_task(submission=request), created=True)

    prepared.answers |= {
        "usage": lambda _: UsageReply(allowance=allowance, waiting=waiting, running=0),
        "add": add,
    }
    with serving_app(gateway_config(prepared, tmp_path)) as app:

        def batch(count: int) -> Any:
            return hand_in(app, {"submissions": [PRINTS] * count}, "/batch")

        refused = batch(4)
        assert (refused.status_code, refused.json["error"], waiting) == (503, "queue is full", 7)
        assert refused.json["reason"] == "7 submissions of 'ada' wait, of at most 10" and refused.headers["Retry-After"]
        assert ([list(item) for item in batch(3).json], waiting) == ([["token"]] * 3, 10)
        allowance = Allowance(waiting=None)
        halfway = batch(2)
        assert halfway.status_code == 503, "there is none before it that its answer would have to tell"
        waiting = 9
        assert [list(item) for item in batch(2).json] == [["token"], ["error"]]


@row("S17")
def test_each_answer_says_how_often_one_may_hand_in(prepared: Prepared, tmp_path: Path) -> None:
    remaining = 9

    def add(request: m.Submission) -> m.AddReply:
        nonlocal remaining
        if remaining == 0:
            error = LimitError("9 within a minute")
            error.rate = (9, 0, 30)
            raise error
        remaining -= 1
        task = make_task(submission=request, status=m.Status.SUCCESS, done=True, verdict=m.Verdict.AC)
        return m.AddReply(task=task, created=True, rate=Rate(limit=9, left=remaining, seconds=31) if limited else None)

    prepared.answers["add"] = add
    good, bad = PRINTS, {"language_id": PYTHON}
    limited = True
    with serving_app(gateway_config(prepared, tmp_path)) as app:

        def post(path: str, body: Any) -> tuple[int, list[list[str]], dict[str, str]]:
            answer = hand_in(app, body, path)
            answers = answer.json if isinstance(answer.json, list) else [answer.json]
            headers = {name: text for name, text in answer.headers if name.startswith(("RateLimit", "Retry"))}
            return answer.status_code, [list(item) for item in answers], headers

        assert post("", good) == (201, [["token"]], paced(Rate(limit=9, left=8, seconds=31)))
        assert post("?wait=true&fields=status", good) == (201, [["status"]], paced(Rate(limit=9, left=7, seconds=31)))
        several = {"submissions": [good, bad, good, bad]}
        fields = [["token"], ["source_code"]] * 2
        assert post("/batch", several) == (201, fields, paced(Rate(limit=9, left=5, seconds=31))), (
            "as the last one left it"
        )
        remaining = 1
        code, answers, headers = post("/batch", {"submissions": [good, good]})
        refusal = Rate(limit=9, left=0, seconds=30)
        assert (code, answers, headers) == (201, [["token"], ["error"]], paced(refusal)), "a refusal tells, too"
        assert post("", good) == (429, [["error"]], paced(refusal, refused=True))
        limited, remaining = False, 5
        assert post("", good) == (201, [["token"]], {}) and post("/batch", several) == (201, fields, {})


# --- callbacks -------------------------------------------------------------------------------------------------


@row("C1", "C2", "C3")
def test_callbacks(http: httpx.Client, receiver: Receiver) -> None:
    receiver.answer = lambda number, _: 503 if number == 1 else 200
    body = {"source_code": "print('ÿ')", "language_id": PYTHON, "callback_url": receiver.url}
    token = http.post("/submissions", json=body).json()["token"]
    wait_for(lambda: len(receiver.calls) == 2, what="the second try")
    first, second = receiver.calls
    assert (first.method, first.headers["content-type"], first.body) == ("PUT", "application/json", second.body)
    answer = second.json
    assert list(answer) == list(http.get(f"/submissions/{token}", params={"base64_encoded": "true"}).json())
    assert (answer["token"], status(answer), base64.b64decode(answer["stdout"]).decode()) == (token, 3, "ÿ\n")
    assert judge0.Submission(**answer).stdout == "ÿ\n"
    for url, reason in (
        ("http://10.0.0.1/", "no public address"),
        (receiver.url.replace("//", "//ada:secret@"), "password"),
        ("ftp://example.org/", "no http"),
    ):
        (fault,) = refused(http, callback_url=url)["callback_url"]
        assert reason in fault
    # Told of its end whatever that was, and no more after an answer that is final.
    receiver.answer = lambda *_: 404
    waits = {"source_code": "import time; time.sleep(20)", "language_id": PYTHON, "wall_time_limit": 20}
    token = http.post("/submissions", json={**waits, "callback_url": receiver.url}).json()["token"]
    http.delete(f"/submissions/{token}", params={"cancel": "true"})
    wait_for(lambda: len(receiver.calls) == 3, what="the end of the cancelled one")
    assert (receiver.calls[2].json["token"], status(receiver.calls[2].json)) == (token, 13)


@row("C4")
def test_callbacks_that_are_switched_off(prepared: Prepared, tmp_path: Path) -> None:
    before = len(prepared.asked)
    with serving_app(gateway_config(prepared, tmp_path, judge0={"callbacks": False})) as app:
        answer = hand_in(app, PRINTS | {"callback_url": "https://example.org/"})
        assert (answer.status_code, answer.json) == (422, {"callback_url": ["setting callback is not allowed"]})
        assert "add" not in [method for method, _ in prepared.asked[before:]]


@row("X2", "X3")
def test_several_tests_and_the_same_key(http: httpx.Client) -> None:
    tests = [{"stdin": "1", "expected_output": "1"}, {"stdin": "2", "expected_output": "3"}, {"stdin": "4"}]
    fields = run(http, fields="verdict,tests,status", source_code="print(input())", tests=tests)
    assert (status(fields), fields["verdict"]) == (4, "WA")
    assert [(row["verdict"], row["stdout"]) for row in fields["tests"]] == [("AC", "1\n"), ("WA", "2\n"), ("AC", "4\n")]
    first = fields["tests"][0]
    assert {*first} == {"name", "verdict", "status", "time", "memory", "stdout", "stderr", "score"}
    assert (first["status"], first["stderr"], first["score"]) == ({"id": 3, "description": "Accepted"}, None, None)
    fails = "import sys; print('no', file=sys.stderr); exit(input() == '2')"
    fields = run(http, fields="tests", source_code=fails, tests=tests[:2])["tests"]
    assert [(test_["verdict"], test_["status"]["id"], test_["stderr"]) for test_ in fields] == [
        ("WA", 4, "no\n"),
        ("RTE", 11, "no\n"),
    ]
    body = {"source_code": "print(9)", "language_id": PYTHON}
    tokens = {
        http.post("/submissions", json=body, headers={"Idempotency-Key": "once"}).json()["token"] for _ in range(2)
    }
    assert len(tokens) == 1
