"""A lab of a test's own, playbooks run inside it, and what is on its hosts: for every test that deploys something."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab import cluster
from lab.cluster import Lab

ROOT = Path(__file__).resolve().parents[2]
ANSIBLE_PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")

# Run on a host: every file of its disk with what would show a change; nothing of what runs anyway (proc, journal).
_SNAPSHOT = r"""
import hashlib, json, os, stat, sys
skip = {"/proc", "/sys", "/dev", "/run", "/var/log", "/opt/judge/bundle"}
found = {}
for top, folders, names in os.walk("/"):
    folders[:] = [name for name in folders if os.path.join(top, name) not in skip]
    for name in folders + names:
        path = os.path.join(top, name)
        here = os.lstat(path)
        entry = [stat.filemode(here.st_mode), here.st_uid, here.st_gid]
        if stat.S_ISREG(here.st_mode):
            with open(path, "rb") as file:
                entry.append(hashlib.file_digest(file, "sha256").hexdigest())
        elif stat.S_ISLNK(here.st_mode):
            entry.append(os.readlink(path))
        found[path] = entry
for path in ("/run/judge", "/run/judge-deploy"):
    found[path] = os.path.exists(path)
json.dump(found, sys.stdout)
"""


@contextmanager
def fresh_lab(hosts: Sequence[str], inventory: Path, bundle: Path | None = None) -> Iterator[Lab]:
    """A lab with a name of its own; nothing is left of it afterwards."""
    name = f"t{uuid.uuid4().hex[:8]}"
    try:
        yield cluster.up(name, list(hosts), bundle=bundle, inventory_directory=inventory)
    finally:
        cluster.down(name)


def run_playbook(
    lab: Lab, playbook: str, *arguments: str, inventory: Path | None = None, timeout: float = 600
) -> subprocess.CompletedProcess[str]:
    """Run one of the project's playbooks inside the lab's network; its whole output is in `stdout`.

    `timeout` in seconds; the inventory is the lab's own unless another is named.
    """
    command = [sys.executable, "-m", "lab", "run", "--name", lab.record.name, "--", str(ANSIBLE_PLAYBOOK)]
    if inventory:
        command += ["-i", str(inventory)]
    environment = os.environ | {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORCE_COLOR": "0", "COLUMNS": "1000"}
    return subprocess.run(
        [*command, playbook, *arguments],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        timeout=timeout,
    )  # fmt: skip


def files_of_host(lab: Lab, host: str) -> dict[str, object]:
    """Mode, owner and SHA-256 of everything on a host's disk, by path."""
    found: dict[str, object] = json.loads(lab.ssh(host, "/usr/bin/python3 -", text=_SNAPSHOT))
    return found


def files_below(directory: Path) -> dict[str, tuple[int, bytes]]:
    """Mode and content of every file of a directory of this machine, by path."""
    return {
        path.relative_to(directory).as_posix(): (path.lstat().st_mode, path.read_bytes())
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def bundle() -> Path:
    """The bundle to deploy from: $JUDGE_TEST_BUNDLE, else out/bundle, brought up to date (which needs a route out)."""
    given = os.environ.get("JUDGE_TEST_BUNDLE")
    if given:
        return Path(given)
    path = ROOT / "out" / "bundle"
    made = subprocess.run(
        [str(ANSIBLE_PLAYBOOK), "playbooks/bundle.yml", "-e", f"judge_bundle={path}"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout
    return path
