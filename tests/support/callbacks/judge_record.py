"""What a run of ansible-playbook does, as JSON lines in $JUDGE_RECORD; with $JUDGE_KILL_AT it dies at its Nth task.

A callback of tests only: a signal that the run itself sends, at the moment a task begins, hits every boundary exactly.
"""

import json
import os
import signal
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: judge_record
type: aggregate
short_description: Records results of tasks, and ends the run at one of them
description: For tests.
"""


class CallbackModule(CallbackBase):
    """Writes one line per task that begins, and one per result."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "judge_record"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(os.environ["JUDGE_RECORD"])
        self.kill_at = int(os.environ.get("JUDGE_KILL_AT", "0"))
        self.started = 0

    def _write(self, **entry: Any) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        self.started += 1
        self._write(task=task.get_name(), number=self.started)
        if self.started == self.kill_at:
            os.killpg(os.getpgrp(), signal.SIGKILL)

    def v2_runner_on_ok(self, result: Any) -> None:
        changed = bool(result._result.get("changed"))
        self._write(task=result._task.get_name(), host=result._host.get_name(), changed=changed)
