"""Measures each core's speed, and keeps the first measure: two runs of one program must compare."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import re
import statistics
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from judge.common import clock, files
from judge.executor import telemetry
from judge.model.base import CoreSpeed
from judge.sandbox import CheckedItem, CheckLevel

log = logging.getLogger(__name__)

FILE = "calibration.json"
# Speeds that differ by less are the noise of an idle machine; time limits have more room than this.
TOLERANCE = 0.10
_ROUNDS = 7
_HASHES = 12_000
_MEMORY = 8 * 1024**2


@dataclass(frozen=True)
class ReferenceMeasurement:
    """The first measurement: CPU seconds of each core, and the machine."""

    machine: str
    seconds: Mapping[int, float]


@dataclass(frozen=True)
class Calibration:
    """The result of `calibrate`: a text for people, and each core's figures for the executor's history."""

    findings: list[CheckedItem]
    cores: list[CoreSpeed]


def program() -> float:
    """One round of the calibration program: arithmetic and memory; its CPU seconds (about 0.01)."""
    begin = clock.cpu_time()
    hashlib.pbkdf2_hmac("sha256", b"judge", b"calibration", _HASHES)
    block = bytearray(_MEMORY)
    block[:] = bytes(block)
    return clock.cpu_time() - begin


def measure(cores: Sequence[int]) -> dict[int, float]:
    """Median CPU seconds of the program on every core, all cores at once, as slots judge. Takes about 0.1 s.

    Forks one process per core and reaps it; call it before there are threads. A core whose process fails is left out.
    """
    pipes = {core: _start(core) for core in sorted(set(cores))}
    seconds = {}
    for core, (pid, fd) in pipes.items():
        with os.fdopen(fd, "rb") as pipe:
            answer = pipe.read()
        os.waitpid(pid, 0)
        if len(answer) == struct.calcsize("d"):
            (seconds[core],) = struct.unpack("d", answer)
        else:
            log.warning("calibration on core %d failed", core)
    return seconds


def _start(core: int) -> tuple[int, int]:
    reader, writer = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    try:
        os.sched_setaffinity(0, {core})
        os.write(writer, struct.pack("d", statistics.median(program() for _ in range(_ROUNDS))))
    finally:
        os._exit(0)  # a copy of the executor must not run its clean-up


def machine(base: Path = Path("/")) -> str:
    """The machine, by all that its speed may depend on: processor, kernel, Python. `base` stands for / in tests."""
    try:
        model = re.search(r"^model name\s*:\s*(.+)$", (base / "proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        model = None
    return f"{model[1] if model else platform.machine()}, {platform.release()}, Python {platform.python_version()}"


def load(directory: Path) -> ReferenceMeasurement | None:
    """The reference in the work directory; None when there is none, or none that can be read."""
    try:
        document = json.loads((directory / FILE).read_text(encoding="utf-8"))
        seconds = {int(core): float(value) for core, value in document["seconds"].items()}
        return ReferenceMeasurement(str(document["machine"]), {c: v for c, v in seconds.items() if v > 0})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        log.warning("%s is not read: %s; the cores are measured anew", directory / FILE, exc)
        return None


def save(directory: Path, reference: ReferenceMeasurement) -> None:
    """Write the reference; appears whole or not at all. OSError when it cannot be written."""
    path = directory / FILE
    text = json.dumps({"machine": reference.machine, "seconds": {str(c): v for c, v in reference.seconds.items()}})
    files.replace(path, text, durable=True)


def compare(measured: Mapping[int, float], reference: ReferenceMeasurement) -> list[CheckedItem]:
    """One finding about drift since the reference and one about cores that differ from each other."""
    drift = {core: measured[core] / reference.seconds[core] - 1 for core in measured if core in reference.seconds}
    worst = max(drift, key=lambda core: abs(drift[core]), default=None)
    if worst is None:
        first = CheckedItem(
            CheckLevel.PASS, "calibration", "first measurement on this machine; later ones compare with it"
        )
    else:
        off = abs(drift[worst]) > TOLERANCE
        text = f"core {worst} takes {drift[worst]:+.1%} of its first time for the same work"
        advice = f"; something else runs here, or the clock changed: compare, and remove {FILE} to accept it"
        first = CheckedItem(CheckLevel.WARN if off else CheckLevel.PASS, "calibration", text + (advice if off else ""))
    findings = [first]
    if len(measured) > 1:
        slow, fast = max(measured, key=measured.__getitem__), min(measured, key=measured.__getitem__)
        gap = measured[slow] / measured[fast] - 1
        text = f"core {slow} takes {gap:.1%} longer than core {fast}"
        off = gap > TOLERANCE
        advice = "; list cores of one speed under 'cores'" if off else ""
        findings.append(CheckedItem(CheckLevel.WARN if off else CheckLevel.PASS, "speed of cores", text + advice))
    return findings


def calibrate(directory: Path, cores: Sequence[int]) -> Calibration:
    """Measure, compare with the reference in `directory`, and export both as metrics; makes a missing reference.

    Called by the executor at its start and by `judge executor check`. A work directory that cannot be written only
    costs the comparison.
    """
    measured = measure(cores)
    this_machine = machine()
    reference = load(directory)
    if reference is None or reference.machine != this_machine:
        reference = ReferenceMeasurement(this_machine, {})
    findings = compare(measured, reference)
    measurement = ReferenceMeasurement(this_machine, {**measured, **reference.seconds})
    if measurement != reference:
        try:
            save(directory, measurement)
        except OSError as exc:
            log.warning("calibration: %s cannot be written: %s", directory / FILE, exc.strerror)
    for core, seconds in measured.items():
        telemetry.CALIBRATION.labels(core=str(core)).set(seconds)
        telemetry.DRIFT.labels(core=str(core)).set(seconds / measurement.seconds[core] - 1)
    speeds = [
        CoreSpeed(core=core, seconds=seconds, first=measurement.seconds[core]) for core, seconds in measured.items()
    ]
    return Calibration(findings, speeds)
