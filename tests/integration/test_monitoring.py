"""Metrics over the cluster's TLS: who may read them, and Prometheus itself that reads a whole cluster."""

import contextlib
import logging
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from judge.common.errors import RefusedError
from judge.config import Tls
from judge.daemon import metrics
from judge.rpc import pki
from tests.support.cluster import Cluster, running
from tests.support.servers import free_port, program, wait_for

PROMETHEUS = program("prometheus")
SERVICES = {"boot", "etcd", "mongodb", "judicator", "executor", "gateway"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("authority") / "pki"
    pki.make_ca(directory)
    return directory


def test_only_the_role_that_monitors_may_read_them(authority: Path, caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    server = pki.issue(authority, "judicator-1", "judicator", ["127.0.0.1"])
    metrics.serve(f"127.0.0.1:{port}", server)

    def ask(tls: Tls) -> httpx.Response:
        with httpx.Client(verify=pki.client_context(tls), trust_env=False, timeout=10) as client:
            return client.get(f"https://127.0.0.1:{port}/metrics")

    text = ask(pki.issue(authority, "m1", metrics.ROLE, ["127.0.0.1"]))
    assert text.status_code == 200 and "python_info" in text.text
    for role in ("executor", "gateway", "judicator"):
        refusal = ask(pki.issue(authority, f"a-{role}", role, ["127.0.0.1"]))
        assert (refusal.status_code, refusal.text) == (403, "metrics are for certificates of role monitor\n")
    plain = ssl.create_default_context(cafile=str(server.ca))
    with pytest.raises(httpx.HTTPError), httpx.Client(verify=plain, trust_env=False) as stranger:
        stranger.get(f"https://127.0.0.1:{port}/metrics")
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == [], "each scrape would say so"


def test_an_authority_that_was_replaced_is_trusted_no_more(authority: Path, tmp_path: Path, monkeypatch) -> None:
    """Without a restart: boot is not restarted for it, as all services of a host would be with it."""
    monkeypatch.setattr(metrics, "_LOOK", 0.2)
    port, own = free_port(), tmp_path / "served"
    own.mkdir()
    served = Tls(ca=own / "ca.crt", cert=own / "boot.crt", key=own / "boot.key")
    old, new = authority, tmp_path / "pki"
    pki.make_ca(new)

    def place(directory: Path) -> None:
        issued = pki.issue(directory, "b1", "boot", ["127.0.0.1"])
        for part in ("key", "cert", "ca"):
            getattr(served, part).write_bytes(getattr(issued, part).read_bytes())

    def status(directory: Path) -> int:
        tls = pki.issue(directory, "m2", metrics.ROLE, ["127.0.0.1"])
        with httpx.Client(verify=pki.client_context(tls), trust_env=False, timeout=10) as client:
            return client.get(f"https://127.0.0.1:{port}/metrics").status_code

    place(old)
    metrics.serve(f"127.0.0.1:{port}", served)
    assert status(old) == 200
    place(new)

    def taken_over() -> bool:
        with contextlib.suppress(httpx.TransportError):
            return status(new) == 200
        return False

    wait_for(taken_over, what="the new authority")
    # It trusts the new server, so that only what the server thinks of its certificate is left to refuse it.
    stranger = pki.client_context(pki.issue(old, "m2", metrics.ROLE, ["127.0.0.1"]))
    stranger.load_verify_locations(cafile=str(new / "ca.crt"))
    with pytest.raises(httpx.TransportError), httpx.Client(verify=stranger, trust_env=False) as client:
        client.get(f"https://127.0.0.1:{port}/metrics")


def test_a_certificate_that_cannot_be_read_is_refused_in_one_sentence(tmp_path: Path) -> None:
    missing = Tls(ca=tmp_path / "ca", cert=tmp_path / "cert", key=tmp_path / "key")
    with pytest.raises(RefusedError, match=r"metrics_tls cannot be used: .*No such file"):
        metrics.serve(f"127.0.0.1:{free_port()}", missing)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    first = free_port()
    with running(tmp_path_factory.mktemp("monitored") / "cluster", "--slots", "1", "--metrics", str(first)) as cluster:
        yield cluster


@contextlib.contextmanager
def prometheus(config: Path, directory: Path) -> Iterator[str]:
    """Prometheus as Debian has it; yields its address."""
    address = f"127.0.0.1:{free_port()}"
    command = [str(PROMETHEUS), f"--config.file={config}", f"--storage.tsdb.path={directory}"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen([*command, f"--web.listen-address={address}"], stdout=log, stderr=log)
        try:
            yield f"http://{address}"
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.root
@pytest.mark.skipif(PROMETHEUS is None, reason="Prometheus is missing; scripts/install-packages test")
def test_prometheus_reads_every_daemon(cluster: Cluster, tmp_path: Path) -> None:
    with prometheus(cluster.directory / "etc/prometheus.yml", tmp_path) as address:

        def up() -> dict[str, str]:
            # While it starts it takes no connection, then it answers 503 without JSON.
            with contextlib.suppress(httpx.TransportError, KeyError, ValueError):
                answer = httpx.get(f"{address}/api/v1/query", params={"query": "up"}, trust_env=False).json()
                return {series_["metric"]["service"]: series_["value"][1] for series_ in answer["data"]["result"]}
            return {}

        wait_for(lambda: up() == dict.fromkeys(SERVICES, "1"), what="every daemon that is read")

        def labels(query: str) -> list[dict[str, str]]:
            answer = httpx.get(f"{address}/api/v1/query", params={"query": query}, trust_env=False).json()
            return [series_["metric"] for series_ in answer["data"]["result"]]

        def leaders() -> list[str]:
            return [labels_["service"] for labels_ in labels("judge_leading == 1")]

        wait_for(lambda: leaders() == ["judicator"], what="the leader's own word")
        started = {labels_["unit"] for labels_ in labels("judge_boot_starts_total == 1")}
        assert started == SERVICES - {"boot"}, "each of them by boot, once"
        ends = 'judge_certificate_expiry_timestamp_seconds{service="boot"}'
        assert {labels_["file"] for labels_ in labels(ends)} == {"ca.crt", "boot-boot.crt"}
        # Counters of alerts are there before the first one: a series that begins with it has no increase.
        for series in (
            'judge_tasks_completed_total{verdict="JE"}',
            'judge_loop_faults_total{loop="the sweep"}',
            'judge_webhook_calls_total{outcome="failed"}',
            'judge_callbacks_total{outcome="given up"}',
        ):
            assert [labels_["service"] for labels_ in labels(f"{series} == 0")] == ["judicator"], series
