"""Generates judge_client's messages and calls from the API when the package is built (scripts/make-clients)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parents[2]


class Generate(build_py):
    """Writes the generated files into the wheel; into the source of an editable install."""

    def run(self) -> None:
        """Run the generator with an interpreter that has the package judge."""
        super().run()
        target = Path(__file__).parent if self.editable_mode else Path(self.build_lib)
        python = next((path for path in [ROOT / ".venv/bin/python"] if path.exists()), Path(sys.executable))
        # Isolated, as a build's own environment would hide the package judge.
        command = [python, "-I", ROOT / "scripts/make-clients", "--into", (target / "judge_client").resolve()]
        if subprocess.run(command, check=False).returncode:
            raise SystemExit(
                "judge_client is generated from the package judge, which this build does not find; run 'make setup' in "
                "the checkout first, or 'make clients' and install out/clients/judge_client-*.whl"
            )


setup(cmdclass={"build_py": Generate})
