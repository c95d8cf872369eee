"""The project's Ansible plug-ins for tests: as modules of the packages that their directories are, and as processes."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def module_utils(name: str) -> ModuleType:
    """One of plugins/module_utils."""
    return plugin("module_utils", name)


def plugin(kind: str, name: str) -> ModuleType:
    """One of plugins/action, plugins/filter, plugins/modules or plugins/module_utils."""
    return importlib.import_module(f"plugins.{kind}.{name}")


def run_module(name: str, arguments: dict[str, Any], *, check: bool = False) -> dict[str, Any]:
    """Run a module as a process, as on a host, and return its result."""
    given = {"ANSIBLE_MODULE_ARGS": {**arguments, "_ansible_check_mode": check}}
    program = (
        "import runpy; from ansible.module_utils import basic; "
        f"basic._ANSIBLE_ARGS = {json.dumps(given).encode()!r}; basic._ANSIBLE_PROFILE = 'legacy'; "
        f"runpy.run_module('plugins.modules.{name}', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
