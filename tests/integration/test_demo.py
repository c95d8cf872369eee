"""The main job of the README, as a newcomer runs it: one command, one table, and nothing left behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster import processes_of
from tests.support.lab import exposed
from tests.support.sandbox import mounts

pytestmark = pytest.mark.root
ROOT = Path(__file__).resolve().parents[2]


def _cgroups(name: str) -> list[str]:
    return [top for top, _, _ in os.walk("/sys/fs/cgroup") if "/judge" in top and name in top]  # others' go meanwhile


def demo(directory: Path) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "JUDGE_DEMO_DIR": str(directory), "JUDGE_BIN": str(Path(sys.executable).parent)}
    command = [str(ROOT / "scripts/demo")]
    return subprocess.run(command, capture_output=True, text=True, env=environ, stdin=subprocess.DEVNULL, check=False)


def test_demo_judges_the_examples_and_leaves_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    directory.mkdir(mode=0o755)
    (directory / "up.log").touch(mode=0o644)  # as an earlier release left it
    before = mounts()
    result = demo(directory)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "healthy" in result.stdout
    assert "all as expected" in result.stdout
    for word in ("submission", "language", "verdict", "expected", "cpu", "memory", "executor", "latency"):
        assert word in result.stdout
    for verdict in ("AC", "WA", "TLE", "MLE", "OLE", "RTE", "CE"):
        assert f" {verdict} " in result.stdout
    assert exposed(directory) == []
    log = (directory / "up.log").read_text()
    assert "admin token: " in log and (directory / "admin.token").read_text().strip() not in log
    assert processes_of(str(directory)) == {}
    assert mounts() == before
    name = next(line for line in (directory / "cluster.yml").read_text().splitlines() if line.startswith("name:"))
    assert _cgroups(name.split()[1]) == []


def test_demo_says_why_the_cluster_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "demo/pki").mkdir(parents=True)
    result = demo(tmp_path / "demo")
    assert result.returncode == 1
    assert "but no cluster.yml" in result.stderr
    assert list((tmp_path / "demo/pki").iterdir()) == []
