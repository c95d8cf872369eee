"""Values of a role's variables as Ansible itself makes them, without a host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def value(role: str, variable: str, **given: Any) -> Any:
    """A variable of a role, with its defaults and variables, and with what an inventory would give."""
    place = ROOT / "roles" / role
    files = [place / "defaults/main.yml", place / "vars/main.yml"]
    more = {"role_path": str(place), "wanted": f"{{{{ {variable} }}}}", **given}
    options = [word for file in files if file.exists() for word in ("-e", f"@{file}")]
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible", "localhost", "-i", "localhost,", "-m", "debug", "-a", "var=wanted",
         *options, "-e", json.dumps(more)],
        cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.partition("=>")[2])["wanted"]
