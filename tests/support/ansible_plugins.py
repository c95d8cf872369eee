"""Imports of the project's Ansible plugins, which are loaded by file and not as a package."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import ansible.module_utils

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "plugins"


def module_utils(name: str) -> ModuleType:
    """One of plugins/module_utils, under the name by which modules import it."""
    place = str(PLUGINS / "module_utils")
    if place not in ansible.module_utils.__path__:
        ansible.module_utils.__path__.append(place)
    return importlib.import_module(f"ansible.module_utils.{name}")


def plugin(kind: str, name: str) -> ModuleType:
    """One of plugins/action, plugins/filter or plugins/modules."""
    module_utils("judge_files")
    spec = importlib.util.spec_from_file_location(f"judge_{kind}_{name}", PLUGINS / kind / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_module(name: str, arguments: dict[str, Any], *, check: bool = False) -> dict[str, Any]:
    """Run a module as a process, as on a host, and return its result."""
    given = {"ANSIBLE_MODULE_ARGS": {**arguments, "_ansible_check_mode": check}}
    program = (
        "import ansible.module_utils, runpy; from ansible.module_utils import basic; "
        f"basic._ANSIBLE_ARGS = {json.dumps(given).encode()!r}; basic._ANSIBLE_PROFILE = 'legacy'; "
        f"ansible.module_utils.__path__.append({str(PLUGINS / 'module_utils')!r}); "
        f"runpy.run_path({str(PLUGINS / 'modules' / f'{name}.py')!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
