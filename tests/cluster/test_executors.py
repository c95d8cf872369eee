"""Executors of another kind and in numbers: one on control groups of version 2, and twenty in one inventory.

One judicator and one gateway; what is measured is what `site.yml` costs for an executor. Not in `make test`.
"""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import cluster, uml
from tests.support.lab import ROOT, Deployment, Figure, bare_hosts, bundle, lab_marks

EXECUTORS = int(os.environ.get("JUDGE_TEST_EXECUTORS", "20"))
BATCH = int(os.environ.get("JUDGE_TEST_BATCH", "4"))  # so many are on at a time: memory ends before hosts do
GROWTH = 1.5  # so many times as long a host may take at the end: the machine has other things to do meanwhile
EXAMPLES = ROOT / "examples/problems/hello/submissions"
# Each page is written by itself: of a memset that nobody reads compilers leave nothing.
HOG = """#include <stdlib.h>
int main(void)
{
    volatile char *all = malloc(1 << 30);
    for (int at = 0; at < 1 << 30; at += 4096)
        all[at] = 1;
}
"""
LOOP = "int main(void) { for (;;) ; }\n"

pytestmark = lab_marks(3600)


def inventory(site: Deployment, executors: dict[str, str]) -> None:
    """The lab's inventory with just these executors: their addresses by name, whatever they begin with."""
    path = Path(site.lab.record.inventory) / "hosts.yml"
    tree: dict[str, Any] = yaml.safe_load(path.read_text())
    tree["all"]["children"]["executors"] = {
        "hosts": {name: {"ansible_host": address} for name, address in executors.items()}
    }
    path.write_text(yaml.safe_dump(tree, sort_keys=False, width=1000))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with bare_hosts(("j1", "g1"), tmp_path_factory.mktemp("site"), software=bundle()) as deployment:
        yield deployment


def add(site: Deployment, hosts: list[str]) -> dict[str, str]:
    site.lab = cluster.up(site.name, hosts)
    site.hosts = list(site.lab.record.hosts)
    return {name: site.lab.record.address(name) for name in hosts}


@pytest.mark.skipif(not shutil.which(uml.PROGRAM), reason=f"the package {uml.PACKAGE} is not installed")
def test_an_executor_on_control_groups_of_version_2(site: Deployment, figure: Figure, tmp_path: Path) -> None:
    """A kernel of its own, deployed as the others; every verdict comes from there, as there is no other executor."""
    inventory(site, add(site, ["u1"]))
    assert site.lab.ssh("u1", "stat -fc %T /sys/fs/cgroup").strip() == "cgroup2fs"
    first = site.site().check()
    figure(f"site.yml with an executor on control groups of version 2: {first.seconds:.0f} s")
    (tmp_path / "hog.c").write_text(HOG)
    (tmp_path / "loop.c").write_text(LOOP)
    for source, options, verdict in (
        (EXAMPLES / "accepted/hello.c", [], "AC"),
        (EXAMPLES / "wrong_answer/lower_case.py", [], "WA"),
        # Each new page costs this kernel some 0.15 ms, which the CPU time of a program has to have room for.
        (tmp_path / "hog.c", ["--memory", "64M", "--cpu", "20"], "MLE"),
        (tmp_path / "loop.c", ["--cpu", "1"], "TLE"),
    ):
        result = site.judgectl("submit", "--output", "json", *options, str(source))
        assert json.loads(result.stdout)["verdict"] == verdict, result
    again = site.site().check()
    assert again.changed == set()
    # Its kernel is its own, so values can be set there, and are compared.
    assert json.loads(site.judgectl("drift", "--json").stdout) == []
    site.lab.ssh("u1", "sysctl -qw kernel.core_pattern=other")
    drifted = json.loads(site.judgectl("drift", "--json").stdout)
    assert [(row["host"], row["kind"], row["what"]) for row in drifted] == [("u1", "kernel", "kernel.core_pattern")]
    figure(f"second site.yml: {again.seconds:.0f} s")
    site.lab.kill("u1")


def test_time_for_a_host_does_not_grow_with_their_number(site: Deployment, figure: Figure) -> None:
    """Twenty executors join, a few at a time with `--limit`, as the inventory gets longer; those before are off."""
    names = [f"e{number}" for number in range(1, EXECUTORS + 1)]
    hosts = list(add(site, [f"e{number}" for number in range(1, BATCH + 1)]).items())
    network = hosts[0][1].rpartition(".")[0]
    away = {name: f"{network}.{200 + number}" for number, name in enumerate(names)}
    seconds: list[float] = []
    for begin in range(0, len(names), BATCH):
        batch = names[begin : begin + BATCH]
        now = {name: address for name, (_, address) in zip(batch, hosts, strict=False)}
        if begin:
            site.lab.wipe(*(host for host, _ in hosts))
        inventory(site, {name: now.get(name, away[name]) for name in names[: begin + len(batch)]})
        run = site.site("--limit", ":".join([*batch] if begin else ["j1", "g1", *batch])).check()
        if begin:
            assert {host for host, _ in run.changed} == set(batch), "nobody else is touched"
            seconds.append(run.seconds / len(batch))
            figure(f"executor {begin + 1} to {begin + len(batch)}: {seconds[-1]:.1f} s each")
    assert seconds[-1] <= seconds[0] * GROWTH
