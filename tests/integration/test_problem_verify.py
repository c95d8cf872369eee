"""`judgectl problem` against a whole embedded cluster: what the example packages say of themselves is true here."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from judge.ctl.problem import template
from judge.problems.package import read_package
from tests.support import packages
from tests.support.cluster import Cluster, processes_of, running
from tests.support.cluster import judgectl as ctl

pytestmark = pytest.mark.root
PACKAGES = Path(__file__).resolve().parents[2] / "examples/packages"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("verify") / "cluster", "--slots", "2") as cluster:
        yield cluster
    assert processes_of(str(cluster.directory)) == {}


def verified(cluster: Cluster, *arguments: str, code: int = 0) -> dict[str, Any]:
    process = ctl(cluster, "problem", "verify", *arguments, "--output", "json", code=code)
    return {row["submission"]: row for row in json.loads(process.stdout)}


@pytest.mark.parametrize("name", sorted(path.name for path in PACKAGES.iterdir()))
def test_examples_verify(cluster: Cluster, name: str) -> None:
    rows = verified(cluster, str(PACKAGES / name))
    assert all(row["right"] for row in rows.values())
    assert len(rows) >= 3


@pytest.mark.parametrize("kind", template.TYPES)
def test_a_new_package_verifies(cluster: Cluster, kind: str, tmp_path: Path) -> None:
    ctl(cluster, "problem", "new", str(tmp_path / "fresh"), "--type", kind)
    rows = verified(cluster, str(tmp_path / "fresh"))
    assert len(rows) == 2 and all(row["right"] for row in rows.values())


def test_the_tutorial_ends_with_an_accepted_submission(cluster: Cluster, tmp_path: Path) -> None:
    environ = {**packages.with_judgectl(), "JUDGE_CONTEXT": str(cluster.directory / "client.yml")}
    run = subprocess.run(
        ["bash", "-e", "-c", packages.tutorial()], cwd=tmp_path, env=environ, capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "double: 2 submissions, all as expected" in run.stdout
    assert run.stdout.splitlines()[-1].startswith("AC  ")


@pytest.mark.parametrize(
    ("name", "wrong_dialect", "right"),
    [("mirror", "domjudge", "accepted/slice.py"), ("fuse", "kattis", "accepted/less.py")],
)
def test_input_of_later_passes_is_the_dialects(cluster: Cluster, name: str, wrong_dialect: str, right: str) -> None:
    """Their validators read it: what is right in the package's own dialect is wrong in the other one."""
    assert verified(cluster, str(PACKAGES / name))[right]["right"]
    row = verified(cluster, str(PACKAGES / name), "--dialect", wrong_dialect, code=1)[right]
    assert row["verdict"] == "WA" and not row["right"]


def test_scores_are_kept_and_shown(cluster: Cluster) -> None:
    ctl(cluster, "problem", "import", str(PACKAGES / "packing"))
    source = PACKAGES / "packing/submissions/accepted/greedy.py"
    output = ctl(cluster, "submit", "-p", "packing", "--full", "--mode", "full", str(source)).stdout
    assert "score 89.77778" in output
    assert "secret/2_few" in output and "29.77778" in output
    info = ctl(cluster, "problem", "show", "packing").stdout
    assert "scoring" in info and "secret/1_fits" in info and "score (python3, 1 files)" in info


def test_a_language_that_the_problem_does_not_take(cluster: Cluster, tmp_path: Path) -> None:
    ctl(cluster, "problem", "import", str(PACKAGES / "greeting"))
    (tmp_path / "a.java").write_text("class A {}")
    output = ctl(cluster, "submit", "-p", "greeting", str(tmp_path / "a.java"), code=2).stderr
    assert "problem 'greeting' takes c, cpp, python3 only, not 'java'" in output


def test_a_wrong_folder_is_found(cluster: Cluster, tmp_path: Path) -> None:
    copy = tmp_path / "liar"
    shutil.copytree(PACKAGES / "subtasks", copy)
    (copy / "submissions/wrong_answer/product.py").rename(copy / "submissions/accepted/product.py")
    (copy / "submissions/partially_accepted/all.py").write_text((copy / "submissions/accepted/formula.py").read_text())
    rows = verified(cluster, str(copy), code=1)
    assert "test sample/1 is WA, which is not permitted" in rows["accepted/product.py"]["wrong"]
    assert rows["partially_accepted/all.py"]["wrong"] == "it has all of the 100 points"
    assert rows["accepted/formula.py"]["right"]
    assert rows["accepted/formula.py"]["margin"] > 1
    output = ctl(cluster, "problem", "verify", str(copy), "--as", "liar2", code=1).stdout
    assert "liar2: 4 submissions, 2 not as expected" in output


@pytest.mark.parametrize("target", ["folder", "package.zip"])
def test_export_is_what_was_imported(cluster: Cluster, tmp_path: Path, target: str) -> None:
    ctl(cluster, "problem", "import", str(PACKAGES / "relay"))
    place = tmp_path / target
    ctl(cluster, "problem", "export", "relay", str(place))
    assert "exists already" in ctl(cluster, "problem", "export", "relay", str(place), code=2).stderr
    with read_package(PACKAGES / "relay") as original, read_package(place, name="relay") as exported:
        assert original.manifest == exported.manifest
        assert original.submissions == exported.submissions
    if place.is_dir():
        assert os.access(place / "output_validator/build", os.X_OK)
        files = sorted(path.relative_to(place) for path in place.rglob("*") if path.is_file())
        source = PACKAGES / "relay"
        assert files == sorted(path.relative_to(source) for path in source.rglob("*") if path.is_file())
        assert all((place / path).read_bytes() == (source / path).read_bytes() for path in files)


def test_a_problem_of_the_cluster_verifies_by_name(cluster: Cluster) -> None:
    ctl(cluster, "problem", "import", str(PACKAGES / "greeting"))
    assert all(row["right"] for row in verified(cluster, "greeting").values())
    assert "does not exist" in ctl(cluster, "problem", "verify", "nothing", code=2).stderr
