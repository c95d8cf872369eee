"""A throw-away host with a real systemd as process 1: an overlay over this machine's own files, in namespaces.

Needs root, systemd's package and nothing else: no image, no network. What it writes is in memory and gone with it.
The units under test are those of systemd/, with /opt/judge/current leading to this checkout.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import sysconfig
import uuid
from pathlib import Path

from tests.support.capable import no_hosts
from tests.support.servers import wait_for

ROOT = Path(__file__).resolve().parents[2]
SYSTEMD = Path("/usr/lib/systemd/systemd")
# Units for this machine's own start, and units that could reach out of the host.
MASKED = (
    "dev-hugepages.mount", "dev-mqueue.mount", "sys-fs-fuse-connections.mount", "sys-kernel-config.mount",
    "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "systemd-modules-load.service", "systemd-remount-fs.service",
    "systemd-sysctl.service", "systemd-udevd.service", "timers.target", "swap.target",
)  # fmt: skip

INIT = """
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$DIR"
cd "$DIR"
mkdir upper work root
mount -t overlay overlay -o "lowerdir=/,upperdir=$DIR/upper,workdir=$DIR/work" root
mount -t proc proc root/proc
# Settings of the kernel are the machine's, not this host's: systemd would change some.
mount --bind root/proc/sys root/proc/sys
mount -o remount,bind,ro root/proc/sys
# A whole /proc must be in sight for sandboxes, as on a real host.
mkdir -p root/opt/judge/proc
mount -t proc proc root/opt/judge/proc
mount -t sysfs -o ro sysfs root/sys
mount -t tmpfs -o mode=755 tmpfs root/sys/fs/cgroup
{cgroups}
mount -t tmpfs -o mode=755 tmpfs root/dev
for device in null zero full random urandom tty; do
  touch "root/dev/$device"
  mount --bind "/dev/$device" "root/dev/$device"
done
mkdir root/dev/pts root/dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts root/dev/pts
ln -s pts/ptmx root/dev/ptmx
ln -s /proc/self/fd root/dev/fd
mount -t tmpfs tmpfs root/dev/shm
mount -t tmpfs -o mode=755 tmpfs root/run
mount -t tmpfs tmpfs root/tmp
mkdir -p root/run/systemd/system root/run/old root/opt/judge/source root/opt/judge/packages root/opt/judge/current/bin
mount --bind "$SOURCE" root/opt/judge/source
mount --bind "$PACKAGES" root/opt/judge/packages
for unit in $MASKED; do ln -s /dev/null "root/run/systemd/system/$unit"; done
rm -f root/etc/fstab
ip link set lo up
cd root
pivot_root . run/old
umount -l /run/old
exec env -i container=judge-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \\
  /usr/lib/systemd/systemd --unit=basic.target --show-status=false
"""
# $0: what process 1 begins with; the arguments: control groups to begin in.
ENTER = """
for group in "$@"; do echo 0 > "$group/cgroup.procs"; done
exec unshare -m -p -u -i -n -C --fork --kill-child sh -c "$0"
"""
INSIDE = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "SYSTEMD_PAGER": "cat"}
LAUNCHER = """#!/bin/sh
export PYTHONPATH=/opt/judge/source:/opt/judge/packages PYTHONDONTWRITEBYTECODE=1
exec {python} -m judge.cli "$@"
"""


def missing() -> str:
    """Why there cannot be such a host here; empty when there can."""
    if no_hosts():
        return no_hosts()
    if not SYSTEMD.exists():
        return "a host with systemd needs the package systemd"
    if python().is_relative_to("/root") or python().is_relative_to("/home"):
        return f"units cannot reach {python()}; make the venv with /usr/bin/python3"
    return ""


def python() -> Path:
    """The interpreter behind the venv."""
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


class SystemdHost:
    """One host; `close` ends everything in it."""

    def __init__(self, directory: Path) -> None:
        """Start it and wait until systemd is up."""
        self._name = f"judge-test-{uuid.uuid4().hex[:8]}"
        self._groups: list[Path] = []
        mounts = []
        for line in Path("/proc/self/mounts").read_text().splitlines():
            _, where, kind, options = line.split()[:4]
            if kind not in {"cgroup", "cgroup2"} or not where.startswith("/sys/fs/cgroup"):
                continue
            self._groups.append(Path(where) / self._name)
            inside = f"root{where}"
            if kind == "cgroup":
                known = {"memory", "pids", "cpu", "cpuacct", "cpuset", "freezer", "blkio", "devices", "name=systemd"}
                names = [one for one in options.split(",") if one in known]
                kind_options = ",".join((["none"] if names == ["name=systemd"] else []) + names)
                mounts.append(f"mkdir -p {inside}; mount -t cgroup -o {kind_options} cgroup {inside}")
            else:
                mounts.append(f"mkdir -p {inside}; mount -t cgroup2 cgroup2 {inside}")
        self._make_groups()
        root = directory / "host"
        root.mkdir()
        environment = {
            "PATH": os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin", "DIR": str(root), "SOURCE": str(ROOT),
            "PACKAGES": sysconfig.get_path("purelib"), "MASKED": " ".join(MASKED),
        }  # fmt: skip
        self._log = directory / "host.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["sh", "-ec", ENTER, INIT.replace("{cgroups}", "\n".join(mounts)), *map(str, self._groups)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True,
            )  # fmt: skip
        try:
            wait_for(self._up, what="systemd")
            self._install()
        except BaseException:
            print(self._log.read_text(errors="replace"))
            self.close()
            raise

    def _make_groups(self) -> None:
        for group in self._groups:
            group.mkdir()
            for name in ("cpuset.cpus", "cpuset.mems"):  # version 1: an empty set takes no process
                if (group / name).exists() and (group.parent / name).exists():
                    (group / name).write_text((group.parent / name).read_text())

    def _up(self) -> bool:
        assert self._process.poll() is None, self._log.read_text(errors="replace")
        with contextlib.suppress(OSError, LookupError):
            return self.run("systemctl", "is-system-running", check=False).strip() in {"running", "degraded"}
        return False

    @property
    def _init(self) -> int:
        pid = self._process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def _install(self) -> None:
        self.write("/opt/judge/current/bin/judge", LAUNCHER.format(python=python()), 0o755)
        self.write("/usr/lib/sysusers.d/judge.conf", (ROOT / "systemd/judge.sysusers.conf").read_text())
        self.write("/usr/lib/tmpfiles.d/judge.conf", (ROOT / "systemd/judge.tmpfiles.conf").read_text())
        self.run("systemd-sysusers", "judge.conf")
        self.run("systemd-tmpfiles", "--create", "judge.conf")
        for path in [*sorted((ROOT / "systemd").glob("judge*.s[el]*")), ROOT / "systemd/judge.target"]:
            self.write(f"/etc/systemd/system/{path.name}", path.read_text())
        self.run("systemctl", "daemon-reload")

    def _inside(self, *command: str) -> list[str]:
        return ["nsenter", "-t", str(self._init), "-m", "-p", "-u", "-i", "-n", "-C", "--", *command]

    def run(self, *command: str, check: bool = True) -> str:
        """What a command inside prints; AssertionError with its words when it fails."""
        done = subprocess.run(
            self._inside(*command), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=INSIDE
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Put a file into the host."""
        target = Path(f"/proc/{self._init}/root{path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.new")
        temporary.write_text(text)
        temporary.chmod(mode)
        temporary.rename(target)

    def read(self, path: str) -> str:
        """A file of the host."""
        return Path(f"/proc/{self._init}/root{path}").read_text()

    def show(self, unit: str, name: str) -> str:
        """One property of a unit."""
        return self.run("systemctl", "show", "--value", f"--property={name}", unit).strip()

    def close(self) -> None:
        """End all processes, with process 1 of their namespace first, and remove the control groups."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()

        def gone() -> bool:
            for group in self._groups:
                for path in sorted(group.rglob("*"), reverse=True) if group.exists() else []:
                    if path.is_dir():
                        with contextlib.suppress(OSError):
                            path.rmdir()
                with contextlib.suppress(OSError):
                    group.rmdir()
            return not any(group.exists() for group in self._groups)

        wait_for(gone, what="the end of the host's control groups")
