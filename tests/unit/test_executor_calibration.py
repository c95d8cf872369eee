"""Calibration of cores: the comparison with the first measurement, and the file that holds it."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from judge.executor.calibration import (
    FILE,
    TOLERANCE,
    ReferenceMeasurement,
    calibrate,
    compare,
    load,
    machine,
    measure,
    save,
)
from judge.sandbox import CheckLevel

seconds = st.floats(min_value=1e-3, max_value=1.0)
measured = st.dictionaries(st.integers(0, 63), seconds, min_size=1, max_size=8)


def children() -> set[str]:
    """The children of this process, which may have some of other tests, with those that nobody has reaped."""
    return {pid for task in Path("/proc/self/task").glob("*/children") for pid in task.read_text().split()}


@given(measured, measured)
def test_the_worst_core_decides(now: dict[int, float], before: dict[int, float]) -> None:
    drift = compare(now, ReferenceMeasurement("m", before))[0]
    shared = [now[core] / before[core] - 1 for core in now if core in before]
    expected = CheckLevel.WARN if any(abs(deviation) > TOLERANCE for deviation in shared) else CheckLevel.PASS
    assert (drift.item, drift.level) == ("calibration", expected)
    assert ("first measurement" in drift.text) == (not shared)
    assert ("remove calibration.json" in drift.text) == (expected is CheckLevel.WARN)


@given(measured)
def test_cores_are_compared_with_each_other(now: dict[int, float]) -> None:
    findings = compare(now, ReferenceMeasurement("m", now))[1:]
    if len(now) == 1:
        assert findings == []
    else:
        unlike = max(now.values()) / min(now.values()) - 1 > TOLERANCE
        assert [finding.level for finding in findings] == [CheckLevel.WARN if unlike else CheckLevel.PASS]


def test_every_core_is_measured_without_a_process_left() -> None:
    cores = sorted(os.sched_getaffinity(0))
    before = children()
    speeds = measure([*cores, cores[0]])
    assert sorted(speeds) == cores
    assert all(speed > 0 for speed in speeds.values())
    assert children() == before


def test_a_core_that_cannot_be_used_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    assert measure([100_000]) == {}
    assert "calibration on core 100000 failed" in caplog.text


def test_a_slower_machine_is_told_and_exported(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    save(tmp_path, ReferenceMeasurement(machine(), {core: 1e-6}))
    result = calibrate(tmp_path, [core])
    (finding,) = result.findings
    assert finding.level is CheckLevel.WARN
    assert f"core {core} takes +" in finding.text
    assert (REGISTRY.get_sample_value("judge_executor_calibration_drift_ratio", {"core": str(core)}) or 0) > 1
    assert load(tmp_path) == ReferenceMeasurement(machine(), {core: 1e-6})
    (speed,) = result.cores
    assert (speed.core, speed.first) == (core, 1e-6)
    assert speed.drift > 1


def test_the_first_run_makes_the_reference_and_another_machine_a_new_one(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    assert "first measurement" in calibrate(tmp_path, [core]).findings[0].text
    first = load(tmp_path)
    assert first is not None
    assert list(first.seconds) == [core]
    save(tmp_path, ReferenceMeasurement("a processor of before", {core: 1e-6}))
    assert "first measurement" in calibrate(tmp_path, [core]).findings[0].text
    again = load(tmp_path)
    assert again is not None
    assert again.machine == machine()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"machine": "m"}', '{"machine": "m", "seconds": {"x": 1}}', '{"seconds": {"0": null}}']
)
def test_a_damaged_reference_is_measured_anew(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FILE).write_text(text)
    assert load(tmp_path) is None
    assert "measured anew" in caplog.text
    calibrate(tmp_path, [min(os.sched_getaffinity(0))])
    assert json.loads((tmp_path / FILE).read_text())["machine"] == machine()


def test_an_unwritable_work_directory_costs_only_the_comparison(tmp_path: Path) -> None:
    assert calibrate(tmp_path / "missing", [min(os.sched_getaffinity(0))]).findings[0].level is CheckLevel.PASS
