"""`judge up` for real: a whole cluster that starts, is refused twice, survives its boot, stops, and finds its data."""

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import httpx
import pymongo
import pytest
import yaml
from pymongo.errors import OperationFailure

from judge.boot import status
from judge.boot.embedded import settings
from judge.config import ExecutorConfig, GatewayConfig
from judge.ctl.context import from_file
from judge.etcd.client import Etcd, RejectedError
from judge.etcd.registry import judicators
from judge.model import messages as m
from judge.model.problem import ProblemsReply
from judge.mongodb import store
from judge.rpc import pki
from tests.support.cluster import BIN, Cluster, processes_of
from tests.support.servers import free_port, wait_for

NAMES = ["etcd", "mongodb", "judicator", "executor", "gateway"]


@pytest.fixture
def cluster(tmp_path):
    cluster = Cluster(tmp_path / "c", ["--slots", "1", "--allow-weak-sandbox"])
    yield cluster
    if cluster.process is not None:
        cluster.stop()
    wait_for(lambda: not processes_of(str(cluster.directory)), what="the end of every process of the cluster")


def pids(cluster: Cluster) -> dict[str, int | None]:
    return {service.name: service.pid for service in status.read(cluster.directory / "run").services}


def holders(run_dir: Path) -> dict[str, set[int]]:
    """Which processes have each service's alive lock open."""
    processes: dict[str, set[int]] = {}
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            target = link.readlink()
            if target.parent == run_dir and target.suffix == ".alive":
                processes.setdefault(target.stem, set()).add(int(link.parts[2]))
    return processes


def judge_up(directory: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [str(BIN / "judge"), "up", "--dir", str(directory), "--allow-weak-sandbox", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_life_of_a_cluster(cluster):
    cluster.start()
    log = (cluster.directory / "up.log").read_text()
    assert "admin token: " in log and "\nready http://127.0.0.1:" in log
    assert [service.state for service in status.read(cluster.directory / "run").services] == ["RUNNING"] * 5
    assert list(pids(cluster)) == NAMES
    # The lock lives as long as the daemon: nothing that a daemon runs may have it (etcd, mongod, uWSGI, slots).
    assert holders(cluster.directory / "run") == {name: {pid} for name, pid in pids(cluster).items()}

    with cluster.api() as api:
        task = api.submit(m.Submission(language="python3", source="print(6 * 7)\n", filename="a.py", tests=[]))

    second = judge_up(cluster.directory)
    assert second.returncode == 3 and second.stderr.count("\n") == 1
    assert "is already managed by boot, process " in second.stderr

    # boot dies: everything goes on, and the next boot adopts all of it.
    before = pids(cluster)
    cluster.process.kill()
    cluster.process.wait()
    assert status.read(cluster.directory / "run").state == "dead"
    cluster.start()
    assert pids(cluster) == before

    assert cluster.stop(signal.SIGINT) == 0
    assert not (cluster.directory / "ready").exists()
    assert "stopped, all data is kept" in (cluster.directory / "up.log").read_text()
    wait_for(lambda: not processes_of(str(cluster.directory)), what="the end of every process")

    cluster.start()
    assert set(pids(cluster).values()).isdisjoint(before.values())
    with cluster.api() as api:
        assert api.get(task.id).id == task.id
    assert (cluster.directory / "up.log").read_text().count("admin token: ") == 1


def test_other_machines_reach_the_gateway_alone(cluster, tmp_path):
    """127.0.0.2 stands for an address in the network. First in clear, then with a certificate of settings.yml."""
    port, http_port = free_port(), free_port()
    cluster.arguments = [*cluster.arguments, "--listen", f"127.0.0.2:{port}"]
    cluster.start()
    assert f"\nready http://127.0.0.2:{port} (after " in cluster.log()
    assert f"warning: passwords and tokens travel in clear to 127.0.0.2:{port}; set certificate" in cluster.log()
    assert (cluster.directory / "ready").read_text() == f"http://127.0.0.2:{port}\n"
    token = {"Authorization": f"Bearer {(cluster.directory / 'admin.token').read_text().strip()}"}
    with httpx.Client(base_url=f"http://127.0.0.2:{port}", headers=token, timeout=30) as client:
        assert client.get("/api/v1/problems").json() == {"problems": []}
        assert client.get("/login").status_code == 200
    for number in yaml.safe_load((cluster.directory / "cluster.yml").read_text())["ports"].values():
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", number))

    assert cluster.stop() == 0
    pki.make_ca(tmp_path / "pki")
    certificate = pki.issue(tmp_path / "pki", "page", "gateway", ["127.0.0.2"])
    text = (
        f"listen: ['127.0.0.2:{port}']\nhttp_port: {http_port}\nlimits: {{source_bytes: 10}}\n"
        f"certificate: {certificate.cert}\ncertificate_key: {certificate.key}\n"
    )
    assert (cluster.directory / "settings.yml").read_text() == settings.TEXT
    (cluster.directory / "settings.yml").write_text(text)
    cluster.arguments = cluster.arguments[:-2]
    cluster.start()
    assert f"\nready https://127.0.0.2:{port} (after " in cluster.log()
    assert cluster.log().count("travel in clear") == 1
    context = ssl.create_default_context(cafile=certificate.ca)
    with httpx.Client(base_url=f"https://127.0.0.2:{port}", headers=token, timeout=30, verify=context) as client:
        assert client.get("/api/v1/problems").json() == {"problems": []}
        page = client.get("/login")
        assert page.headers["Strict-Transport-Security"] and "; Secure" in page.headers["Set-Cookie"]
        body = {"language": "c", "source": "int main(){}"}
        assert client.post("/api/v1/submissions", json=body).status_code == 413
    for address in (f"127.0.0.2:{http_port}", f"127.0.0.2:{port}"):
        answer = httpx.get(f"http://{address}/problems?tag=x")
        assert answer.status_code in {301, 302}
        assert answer.headers["Location"] == f"https://127.0.0.2:{port}/problems?tag=x"
    with cluster.api() as api:
        assert api.call(ProblemsReply, "GET", "/problems").problems == []
    assert from_file(cluster.directory / "client.yml").page == f"https://127.0.0.2:{port}"
    assert cluster.stop() == 0
    assert (cluster.directory / "settings.yml").read_text() == text

    (cluster.directory / "settings.yml").write_text(f"{text}color: red\n")
    refused = judge_up(cluster.directory)
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    assert "settings.yml:6: unknown key 'color'; expected allowances, " in refused.stderr


def test_a_reader_that_goes_away_ends_nothing(tmp_path):
    """`judge up | head`: what it says is lost, and a signal still ends all of it, not boot alone."""
    directory = tmp_path / "c"
    command = [str(BIN / "judge"), "up", "--dir", str(directory), "--port", "0", "--slots", "1", "--allow-weak-sandbox"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"cluster ")
        process.stdout.close()
        wait_for(
            lambda: (
                (directory / "run/boot.json").exists()
                and {service.state for service in status.read(directory / "run").services} == {"RUNNING"}
            ),
            timeout=60,
            what="services that run",
        )
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=60)
    assert code == 0
    wait_for(lambda: not processes_of(str(directory)), what="the end of every process")


def test_service_that_cannot_run_ends_the_first_start(tmp_path):
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "etcd").write_text("#!/bin/sh\necho 'etcd Version: 3.2.0'\n")
    (binaries / "etcd").chmod(0o755)
    environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "judge.cli", "up", "--dir", str(tmp_path / "c"), "--port", "0", "--quiet"]
    result = subprocess.run(
        [*command, "--allow-weak-sandbox"], capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert result.returncode == 1, result.stderr
    text = " ".join(result.stdout.split())
    assert "etcd: FATAL: ended with exit code 3: " in text and "3.2.0" in text
    assert "stopped: etcd cannot run: ended with exit code 3: " in text
    assert not processes_of(str(tmp_path / "c"))


def test_an_executor_s_certificate_opens_neither_database_nor_etcd(cluster):
    """In the embedded mode, too: the certificate alone is no login, and etcd shows where the judicators are."""
    cluster.start()
    mongod = cluster.config("mongodb")["address"]
    for role in ("executor", "gateway"):
        own = ExecutorConfig if role == "executor" else GatewayConfig
        config = own.model_validate(cluster.config(role))
        with store.tls_options(config.tls) as options:
            client = pymongo.MongoClient(mongod, directConnection=True, timeoutMS=5000, **options)
        with client, pytest.raises(OperationFailure, match="requires authentication"):
            client.judge.tasks.count_documents({})
        with Etcd(config.etcd) as etcd:
            wait_for(lambda etcd=etcd: judicators(etcd), what="the judicator's registration")
            assert [judicator.name for judicator in judicators(etcd)] == ["judicator"]
            for refused in (
                lambda etcd=etcd: etcd.list(""),
                lambda etcd=etcd: etcd.get("judicator/leader"),
                lambda etcd=etcd: etcd.put("judicator/service/me", "{}"),
                lambda etcd=etcd: etcd.delete("judicator/leader"),
                etcd.members,
            ):
                with pytest.raises(RejectedError, match="may not"):
                    refused()
    judicator = cluster.config("judicator")["mongodb"]
    for path in (judicator["password_file"], cluster.config("mongodb")["key_file"]):
        assert Path(path).stat().st_mode & 0o077 == 0
    secret = Path(judicator["password_file"]).read_text().strip()
    for log in (cluster.directory / "log").iterdir():
        assert secret not in log.read_text(errors="replace")
