"""Reading secret test data as a contestant would try to: programs that give it away, and all ways out of a cluster."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from judge.ctl.context import from_file
from judge.gateway.auth import token_digest
from tests.support import packages
from tests.support.cluster import Cluster, judgectl, running
from tests.support.lab import exposed
from tests.support.servers import wait_for

pytestmark = pytest.mark.root
TOKEN = "a-token-of-mallory"
# No letter of hexadecimal numbers: so long a part of a secret stands nowhere by chance.
LETTERS, PART = "ghjkmnpqrstvwxyz", 6
_DICE = random.Random(4711)
INPUTS = ["".join(_DICE.choices(LETTERS, k=60)) for _ in range(2)]
ANSWERS = ["".join(_DICE.choices(LETTERS, k=60)) for _ in range(2)]
SECRETS = [*INPUTS, *ANSWERS]

NEW = "problem_format_version: 2025-09\nname: X\nlimits: {time_limit: 2, validation_time: 5, memory: 128}\n"
OLD = "name: X\nlimits: {time_limit: 2, memory: 128}\n"
# Tells the judges, and whoever else listens but the submitter, everything that it knows.
TALK = (
    "import os, sys\n"
    "d = sys.argv[3]\n"
    "said = open(sys.argv[1]).read() + ' ' + open(sys.argv[2]).read()\n"
    "def talk(text):\n"
    "    open(d + 'judgemessage.txt', 'a').write(text)\n"
    "    sys.stderr.write(text)\n"
)
HEAR = "given = sys.stdin.read()\ntalk(said + given)\n"
SCORES = NEW + "type: scoring\n"
PROBLEMS: dict[str, dict[str, str]] = {
    "default": {"problem.yaml": OLD},
    "tolerance": {"problem.yaml": OLD + "validator_flags: float_tolerance 1e-6\n"},
    "spaces": {"problem.yaml": OLD + "validator_flags: case_sensitive space_change_sensitive\n"},
    "rejects": {"problem.yaml": NEW, "output_validator/v.py": TALK + HEAR + "sys.exit(43)\n"},
    "dies": {"problem.yaml": NEW, "output_validator/v.py": TALK + HEAR + "sys.exit(1)\n"},
    "raises": {"problem.yaml": NEW, "output_validator/v.py": TALK + "raise ValueError(said)\n"},
    "points": {
        "problem.yaml": SCORES,
        "output_validator/v.py": TALK + HEAR + "open(d + 'score.txt', 'w').write(said)\nsys.exit(42)\n",
    },
    "parts": {
        "problem.yaml": SCORES,
        "output_validator/v.py": TALK + HEAR + "open(d + 'score_multiplier.txt', 'w').write('0.5')\nsys.exit(42)\n",
    },
    "talks": {
        "problem.yaml": NEW + "type: interactive\n",
        "output_validator/v.py": TALK + "print(said, flush=True)\ntalk(said + sys.stdin.readline())\nsys.exit(43)\n",
    },
    "passes": {
        "problem.yaml": NEW + "type: multi-pass\n",
        "output_validator/v.py": TALK + HEAR + "open(d + 'nextpass.in', 'w').write(given or said)\nsys.exit(42)\n",
    },
    "graded": {
        "problem.yaml": OLD + "type: scoring\n",
        "data/testdata.yaml": "on_reject: continue\ngrader_flags: sum\nrange: 0 100\n",
    },
    "broken": {"problem.yaml": NEW, "output_validator/v.cpp": f'#error "{SECRETS[0]}"\nint main() {{}}\n'},
}
READ = "import os, sys, time\ndata = sys.stdin.read().strip().replace(' ', '_').replace('\\n', '_')\n"
ATTACKS = {
    "print": READ + "print(data[0:])",
    "slide": READ + "print(data[13:])",
    "number": READ + "print(1.5, data[:6])",
    "many lines": READ + "print('\\n'.join(data))",
    "stderr": READ + "sys.stderr.write(data); sys.exit(1)",
    "raise": READ + "raise ValueError(data)",
    "exit code": READ + "sys.exit(ord(data[0]))",
    "signal": READ + "os.kill(os.getpid(), 10 + len(data) % 3)",
    "length": READ + "sys.stdout.write('x' * (1000 + ord(data[0])))",
    "flood": READ + "\nwhile True: sys.stdout.write(data)",
    "too long": READ + "print(data, flush=True)\nwhile True: pass",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("secret") / "cluster"
    with running(directory, "--slots", "2") as cluster:
        tokens = directory / "etc/tokens.yml"
        listed = yaml.safe_load(tokens.read_text())
        listed["tokens"].append({"user": "mallory", "role": "user", "sha256": token_digest(TOKEN)})
        tokens.write_text(yaml.safe_dump(listed))
        for name, files in PROBLEMS.items():
            data = {f"data/secret/{n}.in": f"{INPUTS[n - 1]}\n" for n in (1, 2)}
            data |= {f"data/secret/{n}.ans": f"{ANSWERS[n - 1]}\n" for n in (1, 2)}
            data |= {"data/sample/1.in": "sample\n", "data/sample/1.ans": "sample\n"}
            package = tmp_path_factory.getbasetemp() / "packages" / name
            packages.write(package, {**data, **files})
            judgectl(cluster, "problem", "import", "--visible", "--no-check", package)
        yield cluster


@pytest.fixture(scope="module")
def mallory(cluster: Cluster) -> Iterator[httpx.Client]:
    server = from_file(cluster.directory / "client.yml").server
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=server, headers=headers, trust_env=False, timeout=40) as client:
        wait_for(lambda: client.get("/api/v1/whoami").status_code == 200, what="a known token")
        yield client


@pytest.fixture(scope="module")
def browser(cluster: Cluster, mallory: httpx.Client) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=mallory.base_url, trust_env=False, timeout=40, follow_redirects=True) as client:
        csrf = client.get("/login").text.partition('name="csrf" value="')[2].partition('"')[0]
        assert client.post("/login", data={"csrf": csrf, "token": TOKEN}).status_code == 200
        yield client


def parts_of_secrets(text: str) -> set[str]:
    """The longer parts of secrets that a text has, also with blanks and line ends in between."""
    plain = "".join(text.split()).replace("_", "")
    return {
        secret[at : at + PART]
        for secret in SECRETS
        for at in range(len(secret) - PART)
        if secret[at : at + PART] in plain
    }


def judged(client: httpx.Client, problem: str, source: str) -> dict[str, Any]:
    """Hand in and follow to the end; every answer on the way is looked at."""
    body = {"language": "python3", "source": source, "problem": problem, "mode": "full"}
    answer = client.post("/api/v1/submissions", json=body)
    assert answer.status_code == 201, answer.text
    while not answer.json()["done"]:
        task = answer.json()
        answer = client.get(f"/api/v1/submissions/{task['id']}?wait=20&version={task['version']}")
        assert not parts_of_secrets(answer.text)
    final: dict[str, Any] = answer.json()
    return final


@pytest.mark.parametrize("problem", sorted(PROBLEMS))
def test_no_program_gets_its_secret_input_out(cluster, mallory, browser, problem) -> None:
    verdicts = set()
    # The plainest problem is attacked in all ways, the others by what their own words could carry.
    for name in ATTACKS if problem == "default" else ("print", "slide", "raise"):
        # Both sides of an interaction must not wait for the other's end.
        read = "readline" if problem == "talks" else "read"
        task = judged(mallory, problem, ATTACKS[name].replace("stdin.read()", f"stdin.{read}()"))
        verdicts.add(task["verdict"])
        at = f"/api/v1/submissions/{task['id']}"
        ways = [mallory.get(at), mallory.get(f"{at}/output"), mallory.post(f"{at}/cancel")]
        ways += [mallory.get(f"/api/v1/submissions?problem={problem}"), mallory.get("/api/v1/problems")]
        ways += [browser.get(page) for page in (f"/submissions/{task['id']}", "/submissions", "/", "/problems")]
        for answer in ways:
            text = answer.text + str(answer.headers)
            assert not parts_of_secrets(text), (name, answer.url, text[:2000])
        for test in task["result"]["tests"]:
            if not test["name"].startswith("sample"):
                hidden = ("exit_code", "signal", "output_sha256", "repeated")
                assert test["withheld"] and [test[field] for field in hidden] == [None] * len(hidden)
                assert (test["output_bytes"], test["passes"], test["wall"]) == (0, 1, 0)
        with cluster.api() as admin:
            task_seen = admin.get(task["id"])
        assert task_seen.result is not None
        reasons = [task_seen.result.reason, *(test_result.reason for test_result in task_seen.result.tests)]
        reasons += [attempt.reason for attempt in task_seen.history]
        if problem != "broken":  # a compiler's words of the validator are in the result's reason, for judges
            assert not parts_of_secrets(" ".join(reasons)), "a reason quotes nothing in the database either"
    assert verdicts & {"WA", "JE", "RTE"}


def test_judges_still_see_it(cluster: Cluster, mallory: httpx.Client) -> None:
    """So the attacks do move secret data, and the search finds it."""
    for problem in ("default", "rejects", "dies"):
        task = judged(mallory, problem, ATTACKS["print"])
        with cluster.api() as admin:
            assert parts_of_secrets(admin.get(task["id"]).model_dump_json())


def test_the_logs_do_not_quote_secret_data_and_no_file_shows_a_key(cluster: Cluster) -> None:
    for path in (cluster.directory / "log").iterdir():
        assert not parts_of_secrets(path.read_text(errors="replace")), path
    Path(cluster.directory / "up.log").chmod(0o600)  # the test's own redirection made it
    assert exposed(cluster.directory) == []
