"""What importing a package costs, beside `cp` and fsync of the same files on the same disk."""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path

from judge.ctl.problem.importing import Reading, import_package
from tests.bench.ledger import Ledger, timed
from tests.support.cluster import running

_TESTS, _BYTES = 200, 1_000_000
_YAML = "problem_format_version: legacy\nname: Bulk\n"


def make(root: Path, tests: int, size: int, seed: int) -> Path:
    """A package of so many tests with inputs of `size` random bytes of digits, which no disk makes smaller by much."""
    secret = root / "data/secret"
    secret.mkdir(parents=True)
    (root / "problem.yaml").write_text(_YAML)
    (root / ".timelimit").write_text("1\n")
    source = random.Random(seed)
    for number in range(tests):
        (secret / f"{number:04}.in").write_bytes(source.randbytes(size // 2).hex().encode())
        (secret / f"{number:04}.ans").write_text(f"{number}\n")
    return root


def copy(source: Path, target: Path) -> None:
    """What `cp` would do, and then every file to the disk."""
    shutil.copytree(source, target)
    for path in target.rglob("*"):
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)


def measure(ledger: Ledger, work: Path) -> None:
    """Print MB/s of an import, of a second one of the same content, and of the copy."""
    root = make(work / "bulk", _TESTS, _BYTES, 1)
    megabytes = _TESTS * _BYTES / 1e6
    copied = timed(lambda: copy(root, work / "copied"))
    with running(work / "import", "--slots", "1") as cluster, cluster.api() as api:
        began = time.monotonic()
        with Reading().read(root) as package:
            import_package(api, package)
        first = time.monotonic() - began
        with Reading().read(root) as package:
            second = timed(lambda: import_package(api, package))
    ledger.note(f"cp and fsync of {_TESTS} files of 1 MB", f"{copied:.2f} s, {megabytes / copied:.0f} MB/s")
    told = f"{first:.2f} s, {megabytes / first:.0f} MB/s, {first / copied:.1f} x cp"
    ledger.line(f"import of {_TESTS} tests of 1 MB", told, "<= 5 s", ok=first <= 5)
    ledger.line("the same content again", f"{second:.2f} s", "<= 2 s", ok=second <= 2)
