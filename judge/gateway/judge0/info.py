"""What Judge0's API says of itself: settings, statuses, workers, the machine. Shown to anyone with a token."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import judge
from judge.common.webhooks import tries
from judge.config import GatewayConfig
from judge.judge0 import callbacks, languages
from judge.judge0.answers import STATUSES
from judge.judge0.fields import NUMBERS, SWITCHES
from judge.judge0.languages import Flavour, Judge0Language
from judge.model.overview import StatusReply

# The release of Judge0 whose languages and fields these are; clients look languages up by it.
VERSIONS: Final[dict[Flavour, str]] = {"ce": "1.14.0", "extra": "1.14.0-extra"}
BATCH: Final = 20
QUEUE: Final = "judge"
_DAYS: Final = 30
_CACHE_TIME: Final = datetime.timedelta(seconds=1)


def language(row: Judge0Language) -> dict[str, Any]:
    return {"id": row.id, "name": row.name}


def language_with_commands(row: Judge0Language, *, judged: bool) -> dict[str, Any]:
    """One language as it is shown alone; `judged`: somebody can hand in for it now."""
    compiled, run = languages.command(row)
    return {
        **language(row),
        "is_archived": not judged,
        "source_file": row.file or None,
        "compile_cmd": compiled,
        "run_cmd": run,
    }


def statuses() -> list[dict[str, Any]]:
    return [{"id": number, "description": name} for number, name in STATUSES.items()]


def config_info(config: GatewayConfig, waiting: int | None) -> dict[str, Any]:
    """Judge0's settings as they are in force here; `waiting`: how many submissions of the caller may wait."""
    settings = config.judge0
    bounds = {}
    for name, rule in NUMBERS.items():
        bounds[name] = int(rule.default) if rule.integer else rule.default
        bounds[f"max_{name}"] = int(rule.most) if rule.integer else float(rule.most)
    return {
        "maintenance_mode": False,
        "enable_wait_result": True,
        "enable_compiler_options": True,
        "allowed_languages_for_compile_options": [],
        "enable_command_line_arguments": True,
        "enable_submission_delete": settings.delete,
        "enable_callbacks": settings.callbacks,
        "callbacks_max_tries": callbacks.TRIES,
        "callbacks_timeout": tries.SECONDS,
        "enable_additional_files": True,
        "max_queue_size": 1_000_000 if waiting is None else waiting,
        **bounds,
        **SWITCHES,
        "allow_enable_per_process_and_thread_time_limit": True,
        "allow_enable_per_process_and_thread_memory_limit": True,
        "max_extract_size": config.limits.judge0_bytes // 1024,
        "enable_batched_submissions": True,
        "max_submission_batch_size": BATCH,
        "submission_cache_duration": 0.0,
        "use_docs_as_homepage": False,
        "allow_enable_network": False,
        "disable_implicit_base64_encoding": True,
    }


def about(flavour: Flavour) -> dict[str, str]:
    """The Judge0 that clients take this for, and the software that it is."""
    return {
        "version": VERSIONS[flavour],
        "homepage": "https://judge0.com",
        "source_code": "https://github.com/judge0/judge0",
        "maintainer": f"judge {judge.__version__}",
    }


def license_text() -> str:
    distribution = importlib.metadata.distribution("judge")
    for name in ("licenses/LICENSE", "LICENSE"):
        text = distribution.read_text(name)
        if text:
            return text
    return f"judge {judge.__version__}\n"


def workers(status: StatusReply) -> list[dict[str, Any]]:
    slots = [
        (executor, executor.info.slots) for executor in status.executors if executor.alive and executor.info is not None
    ]
    paused = sum(count for executor, count in slots if executor.drain)
    working = sum(executor.executing for executor, _ in slots)
    return [
        {
            "queue": QUEUE,
            "size": sum(status.queued.values()),
            "available": sum(count for _, count in slots),
            "idle": max(0, sum(count for executor, count in slots if not executor.drain) - working),
            "working": working,
            "paused": paused,
            "failed": 0,
        }
    ]


def system_info(status: StatusReply, meminfo: str) -> dict[str, str]:
    """The gateway's machine, as `lscpu` and `free -h` name it, and the slots of the cluster behind it."""
    memory = {
        name: f"{int(value.split()[0]) / 1024**2:.1f}Gi"
        for name, _, value in (line.partition(":") for line in meminfo.splitlines())
        if name in {"MemTotal", "SwapTotal"}
    }
    return {
        "Architecture": os.uname().machine,
        "CPU(s)": str(os.cpu_count() or 1),
        "Mem": memory.get("MemTotal", ""),
        "Swap": memory.get("SwapTotal", ""),
        "Slots": str(status.slots),
    }


@dataclass(frozen=True)
class SubmissionCounts:
    """The submissions that a caller may see: counted in all, by status, the newest by language and day; their bytes."""

    total: int
    statuses: Mapping[int, int]
    languages: Mapping[Judge0Language, int]
    days: Mapping[str, int]
    stored_bytes: int


def statistics(counts: SubmissionCounts, now: datetime.datetime) -> dict[str, Any]:
    total, by_status, days = counts.total, counts.statuses, counts.days
    today = now.date()
    last = [str(today - datetime.timedelta(days=back)) for back in range(1, _DAYS + 1)]
    return {
        "created_at": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "cached_until": (now + _CACHE_TIME).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "submissions": {
            "total": total,
            "today": days.get(str(today), 0),
            "last_30_days": {day: days.get(day, 0) for day in last},
        },
        "languages": [
            {"language": {"id": row.id, "name": row.name}, "count": count}
            for row, count in sorted(counts.languages.items(), key=lambda pair: -pair[1])
        ],
        "statuses": [
            {"status": {"id": number, "name": STATUSES[number]}, "count": count}
            for number, count in sorted(by_status.items(), key=lambda pair: -pair[1])
        ],
        "database": {"size_pretty": f"{counts.stored_bytes // 1024} kB", "size_in_bytes": counts.stored_bytes},
    }
