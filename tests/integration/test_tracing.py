"""The spans of a submission, from the call of the API to the sandbox: real daemons, a receiver of OTLP/HTTP."""

import re
from collections.abc import Iterator

import httpx
import pytest

from judge.config import EtcdClient, Tls
from tests.support.executors import Cluster
from tests.support.gateway import USER, make_config, running_gateway
from tests.support.receivers import SpanReceiver, receiving_spans
from tests.support.servers import wait_for

pytestmark = pytest.mark.root

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SOURCE = "int main(void) { return 0; } // a secret of ada's\n"


@pytest.fixture
def receiver() -> Iterator[SpanReceiver]:
    with receiving_spans() as receiver:
        yield receiver


def test_one_trace_from_the_api_to_the_sandbox(tmp_path, etcd_endpoint, mongod_address, receiver) -> None:
    cluster = Cluster(tmp_path, etcd_endpoint, mongod_address)
    cluster.judicator.config["otlp"] = receiver.address
    executor = cluster.executor("e1", otlp=receiver.address)
    tls = Tls.model_validate(cluster._tls("gw1", "gateway"))
    settings = make_config(tmp_path / "gw", EtcdClient(endpoints=[etcd_endpoint]), tls, otlp=receiver.address)
    cluster.start()
    executor.start()
    try:
        with running_gateway(settings, tmp_path) as base:
            wait_for(lambda: cluster.executors().get(executor.config["name"]), what="the executor")
            # As a client that has a trace of its own begun says so.
            headers = {"Authorization": f"Bearer {USER}", "traceparent": f"00-{TRACE}-{CALLER}-01"}
            body = {"language": "c", "source": SOURCE, "tests": [{"name": "one", "input": "", "answer": ""}]}
            answer = httpx.post(f"{base}/api/v1/submissions", headers=headers, json=body, trust_env=False)
            assert answer.status_code == 201, answer.text
            task = answer.json()["id"]
            assert answer.json()["trace"] == TRACE
            names = ["POST /api/v1/submissions", "hand in", "queue", "judge", "attempt", "run in the sandbox"]
            wait_for(lambda: all(map(receiver.spans_of, names)), timeout=90, what="all spans")
    finally:
        executor.stop()
        cluster.close()
    spans = {name: receiver.spans_of(name)[0] for name in [*names, "prepare", "compile in the sandbox"]}
    assert {service for service, _ in spans.values()} == {"judge-gateway", "judge-judicator", "judge-executor"}
    assert {span.trace_id.hex() for _, span in spans.values()} == {TRACE}
    parents = {
        "POST /api/v1/submissions": CALLER,
        "hand in": spans["POST /api/v1/submissions"][1].span_id.hex(),
        "queue": spans["hand in"][1].span_id.hex(),
        "judge": spans["hand in"][1].span_id.hex(),
        "attempt": spans["judge"][1].span_id.hex(),
        "prepare": spans["attempt"][1].span_id.hex(),
        "compile in the sandbox": spans["attempt"][1].span_id.hex(),
        "run in the sandbox": spans["attempt"][1].span_id.hex(),
    }
    assert {name: span.parent_span_id.hex() for name, (_, span) in spans.items()} == parents
    for name, (_, span) in spans.items():
        assert span.start_time_unix_nano <= span.end_time_unix_nano, name
        attributes = {attribute.key: attribute.value for attribute in span.attributes}
        assert name.startswith("POST") or attributes["judge.submission"].string_value == task
    assert {attribute.key: attribute.value.string_value for attribute in spans["judge"][1].attributes}[
        "judge.verdict"
    ] == "AC"
    content = b"".join(receiver.bodies)
    for secret in (rb"secret", rb"\bada\b", USER.encode(), rb"return 0"):  # ids have the letters of ada, too
        assert not re.search(secret, content)
