"""The precheck's report as a filter; what it says is decided in plugins/module_utils/judge_findings.py."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # Ansible hands module_utils to modules only
from plugins.module_utils.judge_findings import report
from plugins.module_utils.judge_observe import newer_kernel


class FilterModule:
    """The class that Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters of this file."""
        return {"judge_newer_kernel": newer_kernel, "judge_precheck_findings": report}
