"""Packages of other formats against a whole embedded cluster: they verify, and so does what they are exported as."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from judge.common.errors import PackageError
from judge.ctl.problem import exporting, importing, making
from judge.model.problem import ProblemManifest
from judge.problems.package import read_package
from tests.support.cluster import Cluster, processes_of, running
from tests.support.cluster import judgectl as ctl

pytestmark = pytest.mark.root
FOREIGN = Path(__file__).resolve().parents[2] / "examples/foreign"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("importers") / "cluster", "--slots", "2") as cluster:
        yield cluster
    assert processes_of(str(cluster.directory)) == {}


@pytest.mark.parametrize("name", sorted(path.name for path in FOREIGN.iterdir()))
def test_examples_verify_and_are_converted(cluster: Cluster, name: str, tmp_path: Path) -> None:
    output = ctl(cluster, "problem", "verify", str(FOREIGN / name), "--as", name)
    assert "all as expected" in output.stdout
    exported = tmp_path / name
    ctl(cluster, "problem", "export", name, str(exported))
    with cluster.api() as api:
        stored = exporting.manifest_of(api, exporting.find(api, name))
    reading = importing.Reading(name=name)
    with read_package(exported, name=name) as package, reading.whole(cluster.api(), FOREIGN / name) as original:
        assert package.yaml.problem_format_version == "2025-09"
        assert package.blobs.keys() >= original.manifest.blobs() - {original.manifest.package}
        # Judges see the same of both, so that what verified once does so again.
        assert judged(package.manifest) == judged(stored)


def judged(manifest: ProblemManifest) -> dict[str, Any]:
    """All of a manifest but its origin, and a limit that an import measured."""
    facts = manifest.model_dump(exclude={"origin", "limit_origin"})
    if manifest.limit_origin is None or manifest.limit_origin.how == "inferred":
        del facts["limits"]["cpu"]
    return facts


def test_a_converted_package_verifies(cluster: Cluster, tmp_path: Path) -> None:
    """Its limit is inferred again."""
    ctl(cluster, "problem", "import", str(FOREIGN / "directory-primes"))
    ctl(cluster, "problem", "export", "directory-primes", str(tmp_path / "exported"))
    output = ctl(cluster, "problem", "verify", str(tmp_path / "exported"), "--as", "primes-again")
    assert "all as expected" in output.stdout


def test_an_import_lists_its_conversions(cluster: Cluster) -> None:
    output = ctl(cluster, "problem", "import", str(FOREIGN / "polygon-split")).stderr
    assert "carried over: checker files/check.cpp (testlib)" in output
    assert "not carried over: feedback-policy points" in output


def test_programs_that_make_tests_are_taken_at_their_word(cluster: Cluster, tmp_path: Path) -> None:
    root = tmp_path / "sums"
    shutil.copytree(FOREIGN / "polygon-sums", root)
    assert "has them made by an executor" in ctl(cluster, "problem", "check", str(root)).stdout
    assert "6 inputs checked" in ctl(cluster, "problem", "check", "--run", str(root)).stdout
    (root / "files/many.py").write_text("import sys\nsys.exit('no \\x1b[31mnumbers')\n")
    failed = ctl(cluster, "problem", "import", str(root), code=2).stderr
    assert "tests/05: is made by 'files/many.py 10 5 6', which ended with exit code 1 no" in failed
    (root / "files/many.py").write_text("print()\n")
    failed = ctl(cluster, "problem", "import", str(root), code=2).stderr
    assert "tests/05: is made by 'files/many.py 10 5 6', which left no file 5" in failed
    (root / "files/gen.cpp").write_text("int main() { return 0 }\n")
    assert "files/gen.cpp: does not compile" in ctl(cluster, "problem", "import", str(root), code=2).stderr
    (root / "files/gen.cpp").write_text('#include <cstdio>\nint main() { for (;;) puts("more and more"); }\n')
    failed = ctl(cluster, "problem", "import", str(root), code=2).stderr
    assert "tests/02" in failed and "64 MiB" in failed
    names = [row["name"] for row in json.loads(ctl(cluster, "problem", "list", "--output", "json").stdout)["problems"]]
    assert "sums" not in names


def test_tests_that_take_too_much_together_are_made_alone(cluster: Cluster, tmp_path: Path, monkeypatch: Any) -> None:
    """Four of five runs take half a second each; one and a half are allowed together."""
    monkeypatch.setattr(making, "_LIMITS", making._LIMITS.model_copy(update={"cpu": 1.5, "wall": 100}))
    root = tmp_path / "sums"
    shutil.copytree(FOREIGN / "polygon-sums", root)
    slow = "import sys, time\nwhile time.process_time() < 0.5:\n    pass\nprint(1)\nprint(len(sys.argv))\n"
    (root / "files/gen.py").write_text(slow)
    text = (root / "problem.xml").read_text().replace("files/gen.cpp", "files/gen.py")
    (root / "problem.xml").write_text(re.sub(r'many 10 5 6" from-file="."', 'gen 1"', text))
    with importing.Reading().whole(cluster.api(), root) as package:
        assert [package.read(test.answer) for test in package.manifest.tests] == [b"6\n", *3 * [b"4\n"], *2 * [b"2\n"]]
    (root / "files/gen.py").write_text("while True:\n    pass\n")
    tests_ = importing.Reading().whole(cluster.api(), root)
    with pytest.raises(PackageError, match=r"tests/02: takes more than 1.5 s"), tests_:
        pass
