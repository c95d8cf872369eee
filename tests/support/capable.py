"""What this machine cannot run, in one sentence each: the reason that a skipped test prints."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess

from lab import cgroups, shell
from lab.errors import LabError

# Namespaces of every kind that hosts are made of, and the two mounts that their disks are.
TRIAL = """
mount --make-rprivate /
mount -t tmpfs tmpfs /tmp
mkdir /tmp/lower /tmp/upper /tmp/work /tmp/root
mount -t overlay overlay -o lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work /tmp/root
"""


@functools.cache
def no_hosts() -> str:
    """Why no host with a systemd of its own can run here; empty when it can. Nothing of the trial stays."""
    if os.geteuid() != 0:
        return "a host of its own needs root (namespaces, mounts, cgroups)"
    for program in ("unshare", "nsenter", "ip", "pivot_root"):
        if shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:{shell.SBIN}") is None:
            return f"a host of its own needs the program {program}"
    command = ["unshare", "-m", "-p", "-u", "-i", "-n", "-C", "--fork", "--kill-child", "sh", "-ec", TRIAL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        told = (done.stderr.strip() or "no message").splitlines()[-1]
        return f"namespaces and mounts of its own cannot be made here: {told}"
    return ""


@functools.cache
def no_lab() -> str:
    """Why no lab (docs/lab.md) can run here; empty when it can. Its base image is made later, when it is missing."""
    try:
        shell.prepare()
        cgroups.hierarchies()
    except LabError as exc:
        return f"no lab here: {exc}"
    return no_hosts()
