"""Packages of other formats against a whole embedded cluster: they verify, and so does what they are exported as."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge.ctl.problem import importing
from judge.problems.package import read_package
from tests.support.cluster import BIN, Cluster, processes_of, running

pytestmark = pytest.mark.root
FOREIGN = Path(__file__).resolve().parents[2] / "examples/foreign"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("importers") / "cluster", "--slots", "2") as found:
        yield found
    assert processes_of(str(found.directory)) == {}


def ctl(cluster: Cluster, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(BIN / "judgectl"), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "JUDGE_CONTEXT": str(cluster.directory / "client.yml")},
        check=False,
    )
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.parametrize("name", sorted(path.name for path in FOREIGN.iterdir()))
def test_examples_verify_and_are_converted(cluster: Cluster, name: str, tmp_path: Path) -> None:
    said = ctl(cluster, "problem", "verify", str(FOREIGN / name), "--as", name)
    assert "all as expected" in said.stdout
    exported = tmp_path / name
    ctl(cluster, "problem", "export", name, str(exported))
    how = importing.Reading()
    with read_package(exported) as package, how.whole(cluster.api(), FOREIGN / name) as original:
        assert package.yaml.problem_format_version == "2025-09"
        assert package.blobs.keys() >= original.manifest.blobs() - {original.manifest.package}
    ctl(cluster, "problem", "verify", str(exported), "--as", f"{name}-again")


def test_what_was_carried_over_is_said(cluster: Cluster) -> None:
    said = ctl(cluster, "problem", "import", str(FOREIGN / "polygon-split")).stderr
    assert "carried over: checker files/check.cpp (testlib)" in said
    assert "not carried over: feedback-policy points" in said
