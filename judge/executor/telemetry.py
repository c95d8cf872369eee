"""The metrics of an executor (docs/executor.md lists them)."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

SLOTS = Gauge("judge_executor_slots", "Slots of this executor", ["state"])
JUDGED = Counter("judge_executor_judged_total", "Attempts judged to an end here", ["verdict"])
GIVEN_BACK = Counter("judge_executor_given_back_total", "Attempts that this executor could not judge")
SECONDS = Histogram(
    "judge_executor_task_seconds",
    "From getting a task into a slot to its result",
    buckets=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300),
)
OVERHEAD = Histogram(
    "judge_executor_sandbox_overhead_seconds",
    "Mean time per run that the sandbox took beside the program itself",
    buckets=(0.001, 0.002, 0.003, 0.004, 0.006, 0.01, 0.015, 0.03, 0.1, 1),
)
SPOOL = Gauge("judge_executor_spool_bytes", "Bytes of finished results that no judicator has taken yet")
REPORTS_FAILED = Counter("judge_executor_reports_failed_total", "Reports without an answer", ["code"])
CALIBRATION = Gauge("judge_executor_calibration_seconds", "CPU time of the calibration program at the start", ["core"])
DRIFT = Gauge(
    "judge_executor_calibration_drift_ratio",
    "Calibration against the first one on this machine: 0.1 is a tenth slower",
    ["core"],
)
RESTARTS = Counter("judge_executor_slot_restarts_total", "Slot processes that ended and were started again")
