"""Prometheus of Debian over a deployed cluster, its alerts, the trace of a submission, and logs for machines.

A small cluster of its own, with all of that asked for in its inventory from the start.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.capable import no_lab
from tests.support.deployed import Site
from tests.support.deployment import bare_hosts, bundle

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(no_lab()), reason=no_lab() or "possible"),
]
Figure = Callable[[str], None]
HOSTS = ("j1", "e1", "g1", "m1")
PORTS = {"etcd": 9401, "mongodb": 9402, "judicator": 9403, "executor": 9404, "gateway": 9405}
DAEMONS = {
    ("j1", "etcd"), ("j1", "mongodb"), ("j1", "judicator"), ("e1", "etcd"), ("e1", "executor"), ("g1", "etcd"),
    ("g1", "gateway"),
}  # fmt: skip
OTLP = 4318


def settings(network: str) -> dict[str, object]:
    """What the inventory says beside hosts and addresses."""
    return {
        **{f"judge_{name}_metrics": f"0.0.0.0:{port}" for name, port in PORTS.items()},
        "judge_monitor_interval": "2s",
        "judge_otlp": f"http://{network}.1:{OTLP}/v1/traces",
        "judge_log_format": "json",
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The cluster, and a bare host beside it; $JUDGE_TEST_LAB names one that is kept."""
    work = tmp_path_factory.mktemp("site")
    named = work / "monitors.yml"
    named.write_text(json.dumps({"monitors": {"hosts": {"m1": {}}}}))
    software = bundle("monitors", "-i", str(named))
    with bare_hosts(HOSTS, work, software=software) as hosts:
        inventory = hosts.lab.record.directory / "site"
        inventory.mkdir(exist_ok=True)
        tree = yaml.safe_load((Path(hosts.lab.record.inventory) / "hosts.yml").read_text())
        tree["all"]["vars"] |= settings(hosts.lab.record.network)
        (inventory / "hosts.yml").write_text(yaml.safe_dump(tree, sort_keys=False))
        made = Site(hosts.lab, work, inventory)
        if not (made.secrets / "client.yml").exists():
            made.first = made.site().check()
        yield made


def test_the_cluster(site: Site, figure: Figure) -> None:
    if site.first:
        figure(f"site.yml on three bare hosts: {site.first.seconds:.0f} s")
