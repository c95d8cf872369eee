"""What importing a package costs, beside `cp` and fsync of the same files on the same disk."""

import contextlib
import os
import pty
import random
import re
import shutil
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

from tests.bench.ledger import Ledger, timed
from tests.support.cluster import BIN, Cluster, processes_of, running

_TESTS, _BYTES = 200, 1_000_000
_LARGE_TESTS, _LARGE_BYTES, _LARGE_MEMORY = 2000, 1024**2, 300
# Bytes of all, speed, time left, as the bar has them.
_SHOWN = (r"/[0-9.]+ [MG]iB", r"[0-9.]+ [kM]B/s", r"[0-9]:[0-9]{2}:[0-9]{2}")
# The programs whose memory has a target.
_MEASURED = ("judgectl", "gateway", "judicator", "executor", "mongod")
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
    """Print MB/s of an import by `judgectl`, its start included, of a second one of the same, and of the copy."""
    root = make(work / "bulk", _TESTS, _BYTES, 1)
    megabytes = _TESTS * _BYTES / 1e6
    copied = timed(lambda: copy(root, work / "copied"))
    with running(work / "import", "--slots", "1") as cluster:
        command = _command(cluster, root)
        first, second = (timed(lambda: subprocess.run(command, capture_output=True, check=True)) for _ in range(2))
    ledger.note(f"cp and fsync of {_TESTS} files of 1 MB", f"{copied:.2f} s, {megabytes / copied:.0f} MB/s")
    figures_text = f"{first:.2f} s, {megabytes / first:.0f} MB/s, {first / copied:.1f} x cp"
    ledger.line(f"import of {_TESTS} tests of 1 MB", figures_text, "<= 5 s", ok=first <= 5)
    ledger.line("the same content again", f"{second:.2f} s", "<= 2 s", ok=second <= 2)


def measure_large(ledger: Ledger, work: Path, tests: int = _LARGE_TESTS) -> None:
    """Import 2 GiB as people do, on a terminal, and print the most memory that each of the processes has taken."""
    root = make(work / "large", tests, _LARGE_BYTES, 1)
    peak = Counter[str]()
    with running(work / "import-large", "--slots", "1") as cluster:
        for suffix in ("", ", the same again"):
            began = time.monotonic()
            transcript = _import_on_terminal(cluster, root, peak)
            took = time.monotonic() - began
            ledger.note(f"import of {tests} tests of 1 MiB{suffix}", f"{took:.1f} s, {tests / took:.0f} MiB/s")
            if not suffix:
                complete = all(re.search(pattern, transcript) for pattern in _SHOWN)
                ledger.line("bytes, speed and time left", "shown" if complete else "not shown", "shown", ok=complete)
    for name in _MEASURED:
        ledger.line(
            f"most memory of {name}", f"{peak[name]} MiB", f"<= {_LARGE_MEMORY} MiB", ok=0 < peak[name] <= _LARGE_MEMORY
        )


def _command(cluster: Cluster, root: Path) -> list[str]:
    return [str(BIN / "judgectl"), "--context", str(cluster.directory / "client.yml"), "problem", "import", str(root)]


def _import_on_terminal(cluster: Cluster, root: Path, peak: Counter[str]) -> str:
    """What judgectl prints on a terminal while it imports; `peak` gets those of all processes meanwhile."""
    master, slave = pty.openpty()
    with subprocess.Popen(_command(cluster, root), stdin=slave, stdout=slave, stderr=slave) as process:
        os.close(slave)
        chunks: list[bytes] = []
        reader = threading.Thread(target=_read, args=(master, chunks))
        reader.start()
        while process.poll() is None:
            _look(cluster, process.pid, peak)
            time.sleep(0.2)
        reader.join()
    os.close(master)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(chunks).decode(errors="replace"))
    assert process.returncode == 0, text[-2000:]
    return text


def _read(terminal: int, chunks: list[bytes]) -> None:
    with contextlib.suppress(OSError):  # a terminal that its last program has left
        while data := os.read(terminal, 65536):
            chunks.append(data)


def _look(cluster: Cluster, judgectl: int, peak: Counter[str]) -> None:
    """Note the largest memory (MiB) that each kind of process has had so far, as the kernel counts it."""
    for pid, command in {**processes_of(str(cluster.directory)), judgectl: "judgectl"}.items():
        name = next((marker for marker in _MEASURED if marker in command), "")
        with contextlib.suppress(OSError, IndexError):  # one that has ended
            status = Path(f"/proc/{pid}/status").read_text()
            if name:
                peak[name] = max(peak[name], int(status.split("VmHWM:")[1].split()[0]) // 1024)
