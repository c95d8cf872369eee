"""The path of a submission: each rule has one sentence, wherever a source comes from; how often it is serialised."""

import base64
import html
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from judge.common.errors import UsageError
from judge.judge0.fields import BLANK
from judge.model import messages as m
from tests.support.cluster import judgectl
from tests.support.gateway import USER, Browser, Person, running_gateway, serving_app
from tests.support.judicators import World, patient_world

SENTENCES = {
    "nul": (b"int main(){}\0\n", "contains a NUL byte, so it is not text"),
    "empty": (b" \n", "is empty; hand in the text of a program"),
    "large": (b"/" * (300 * 1024), "is too large, 300 KiB; at most 128 KiB are accepted"),
}
JUDGE0_C = 50


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, etcd_endpoint: str, mongod_address: str) -> Iterator[World]:
    with patient_world(tmp_path_factory.mktemp("world"), etcd_endpoint, mongod_address) as world:
        world.executor().report(vacant=0)  # Judge0's API takes what an executor has the language of
        yield world


@pytest.fixture(scope="module")
def url(settings: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_gateway(settings, tmp_path_factory.mktemp("daemon")) as url:
        yield url


@pytest.mark.parametrize("rule", SENTENCES)
def test_a_rule_has_one_sentence_wherever_a_source_comes_from(
    rule: str, world: World, settings: Any, url: str, tmp_path: Path
) -> None:
    data, sentence = SENTENCES[rule]
    text = data.decode()
    texts = {}
    # judgectl
    (tmp_path / "token").write_text(USER)
    (tmp_path / "token").chmod(0o600)
    (tmp_path / "client.yml").write_text(f"server: {url}\ntoken_file: token\n")
    (tmp_path / "a.c").write_bytes(data)
    texts["judgectl"] = judgectl(tmp_path / "client.yml", "submit", "--no-wait", str(tmp_path / "a.c"), code=2).stderr
    # the API and Judge0's
    headers = {"Authorization": f"Bearer {USER}"}
    with httpx.Client(base_url=url, headers=headers, trust_env=False) as http:
        answer = http.post("/api/v1/submissions", json={"language": "c", "source": text})
        assert answer.json()["field"] == "source"
        texts["API"] = answer.json()["error"]
        fields = {"language_id": JUDGE0_C, "source_code": base64.b64encode(data).decode()}
        answer = http.post("/judge0/submissions?base64_encoded=true", json=fields)
        assert "source_code" in answer.json(), answer.text
        texts["Judge0"] = answer.json()["source_code"][0]
    # the form: typed and chosen
    with serving_app(settings) as app:
        browser = Browser(app.test_client(), USER)
        answer = browser.post("/submit", "/submit", language="c", source=text)
        assert answer.status_code in {400, 413}
        texts["form"] = html.unescape(answer.text)
        answer = browser.post("/submit", "/submit", language="c", file=(tmp_path / "a.c").open("rb"))
        texts["file"] = html.unescape(answer.text)
    with pytest.raises(UsageError) as caught:
        world.client().call("add", m.Submission(user="ada", language="c", source=text), m.AddReply)
    texts["judicator"] = str(caught.value)
    if rule == "empty":
        assert texts.pop("Judge0") == BLANK, "its clients know that"
    assert {
        place: " ".join(words.split()) for place, words in texts.items() if sentence not in " ".join(words.split())
    } == {}


def test_a_submission_is_validated_once_a_process_and_serialised_once_a_hop(
    world: World, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gateway and judicator are threads of this process here."""
    passes: Counter[str] = Counter()

    def counted(name: str) -> None:
        real = getattr(BaseModel, name)

        def count(*arguments: Any, **keywords: Any) -> Any:
            first = arguments[0]
            if isinstance(first, m.Submission) or first is m.Submission:
                passes[name] += 1
            function = getattr(real, "__func__", real)
            return function(*arguments, **keywords)

        monkeypatch.setattr(BaseModel, name, classmethod(count) if "validate" in name else count)

    with serving_app(settings) as app:
        user = Person(app.test_client(), USER)
        assert user("POST", "/submissions", json={"language": "c", "source": "int main(){}"}).status_code == 201
        for name in ("model_validate", "model_validate_json", "model_dump", "model_dump_json"):
            counted(name)
        assert user("POST", "/submissions", json={"language": "c", "source": "int main(){;}"}).status_code == 201
    assert passes == {
        "model_validate_json": 2,  # the gateway's, of the request's body; the judicator's, of the call
        "model_dump_json": 1,  # from the gateway to the judicator
        "model_dump": 2,  # the digest that tells repetitions apart, and the document for the database
    }
