"""Run the system's programs, and say in one sentence when one fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from lab.errors import LabError

# program | Debian package that has it
PROGRAMS = {
    "systemd-nspawn": "systemd-container",
    "mmdebstrap": "mmdebstrap",
    "ip": "iproute2",
    "nft": "nftables",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "setsid": "util-linux",
    "mke2fs": "e2fsprogs",
    "losetup": "mount",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}
SBIN = "/usr/sbin:/sbin"  # a plain user's PATH may lack them, and sudo keeps that PATH


def prepare() -> None:
    """Refuse early, naming everything that is missing at once: root, programs with their packages."""
    os.environ["PATH"] = f"{os.environ.get('PATH', '/usr/bin:/bin')}:{SBIN}"
    if os.geteuid() != 0:
        raise LabError("the lab needs root (namespaces, mounts, cgroups): run it with sudo")
    missing = sorted(name for name in PROGRAMS if shutil.which(name) is None)
    if missing:
        packages = sorted({PROGRAMS[name] for name in missing})
        raise LabError(f"missing {', '.join(missing)}: install with `apt-get install {' '.join(packages)}`")


def call(*command: str, text: str | None = None, ok: Sequence[int] = (0,)) -> str:
    """Run a command to its end and return its stdout; LabError with the end of its stderr unless `ok` has its code."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode not in ok:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise LabError(f"`{' '.join(command)}` ended with {done.returncode}: {lines[-1]}")
    return done.stdout


def succeeds(*command: str) -> bool:
    """Return whether a command ends with 0; its output is of no interest."""
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
