"""Writes what a run changes as JSON lines to $JUDGE_CHANGES: `judgectl drift` runs site.yml in check mode with it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: judge_changes
type: aggregate
short_description: Records what tasks change
description: One line for each task that changes a host, and for each that fails. Secrets are in neither.
"""

_RESULT_KEYS = ("paths", "restarted", "installed", "missing")


class CallbackModule(CallbackBase):
    """Enabled by `judgectl drift` alone."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "judge_changes"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(os.environ.get("JUDGE_CHANGES", os.devnull))

    def _write(self, event: str, result: Any, **fields: Any) -> None:
        entry = {"event": event, "host": result.host.get_name(), "task": result.task.get_name(), **fields}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, default=str) + "\n")

    def v2_runner_on_ok(self, result: Any) -> None:
        answer = result.result
        if not answer.get("changed") or answer.get("_ansible_no_log"):
            return
        diff = answer.get("diff") or []
        parts = [part for part in (diff if isinstance(diff, list) else [diff]) if isinstance(part, dict)]
        self._write("changed", result, diff=parts, **{name: answer[name] for name in _RESULT_KEYS if answer.get(name)})

    def v2_runner_on_failed(self, result: Any, *_: Any, **options: Any) -> None:
        if not options.get("ignore_errors"):
            self._write("failed", result, message=str(result.result.get("msg", "it says not why")))

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._write("failed", result, message=str(result.result.get("msg", "it does not answer")))
