"""Builds judge/sandbox/agent, the static program inside every sandbox, with the package; the rest is pyproject.toml."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
FLAGS = ["-O2", "-static", "-s", "-Wall", "-Wextra", "-Werror"]


class BuildAgent(build_py):
    """Compiles the agent beside its source, which is also where editable installs look for it."""

    def run(self) -> None:
        """Build when a source is newer; needs gcc (or $CC) and a static C library."""
        if "JUDGE_WITHOUT_AGENT" in os.environ:  # a controller that only deploys has no sandbox
            super().run()
            return
        target = HERE / "judge/sandbox/agent"
        sources = sorted(target.parent.glob("*.c"))
        newest = max(path.stat().st_mtime for path in [*sources, target.with_suffix(".h")])
        if not target.exists() or target.stat().st_mtime < newest:
            fresh = target.with_name(f"agent.{os.getpid()}")
            subprocess.run([os.environ.get("CC", "gcc"), *FLAGS, "-o", str(fresh), *map(str, sources)], check=True)
            fresh.replace(target)
        super().run()


class Binary(Distribution):
    """A package for one kind of machine, as the agent is."""

    def has_ext_modules(self) -> bool:
        """Have the wheel named after the platform."""
        return True


# It holds no Python extension, so one wheel serves every Python from 3.11: that is what the stable-ABI tag says. Hosts
# may have another Python than the machine that makes it.
setup(cmdclass={"build_py": BuildAgent}, distclass=Binary, options={"bdist_wheel": {"py_limited_api": "cp311"}})
