#!/usr/bin/python
"""Take everything of Judge away from a host: it is as it was before its first deployment."""

from __future__ import annotations

DOCUMENTATION = r"""
module: judge_wipe
short_description: Remove services, data, keys, settings, users and packages of judge from a host
description:
  - Stops all units of judge, removes their data, keys, configs and units, the settings of the kernel, of systemd and of
    nginx, the users, and the packages that deployments have brought and that nothing else needs.
  - What the kernel was told at run time holds until the host starts anew.
  - Runs under the host's own Python. Each step looks first, so the next run finishes one that was cut off.
options: {}
author: [judge]
"""

RETURN = r"""
removed: {description: "Paths that were (or, in check mode, would be) removed.", type: list, returned: always}
packages: {description: Packages likewise., type: list, returned: always}
users: {description: Users likewise., type: list, returned: always}
kept: {description: Packages of the deployments that others need., type: list, returned: always}
"""

import contextlib
import grp
import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.judge_apt import recorded_packages
from ..module_utils.judge_lock import RECORDS, LockedError, one_at_a_time
from ..module_utils.judge_writing import put

ROOT = Path("/")
USERS = ("judge", "judge-etcd", "judge-mongodb")
# Gone as a whole, in this order: keys first. The last one has the record of the packages, and goes at the very end.
TREES = ("etc/judge", "opt/judge", "run/judge", "var/lib/judge")
LAST = "var/lib/judge"
BACKUP = "var/lib/judge/backup"  # a disk that is mounted here or below has backups, and stays as it is
# Files that roles put into other people's directories; a pattern that a host does not have is nothing.
PATTERNS = (
    "etc/systemd/system/judge.*",
    "etc/systemd/system/judge-*",
    "etc/systemd/system/*.wants/judge-*",
    "etc/systemd/system.conf.d/judge.conf",
    "etc/systemd/journald.conf.d/judge.conf",
    "etc/sysctl.d/*-judge*.conf",
    "etc/sysusers.d/judge*.conf",
    "etc/tmpfiles.d/judge*.conf",
    "etc/apt/apt.conf.d/60judge",
    "etc/apt/keyrings/judge-*",
    "etc/apt/preferences.d/judge-*",
    "etc/apt/sources.list.d/judge-*",
    "etc/nginx/conf.d/judge.conf",
    "etc/systemd/system/nginx.service.d/judge.conf",
    "etc/prometheus/judge",
    "etc/systemd/system/prometheus.service.d/judge.conf",
    "etc/logrotate.d/judge*",
    "etc/.judge-new",
    "usr/lib/go-*/pkg/judge-standard-library-*",
)
MASKED = ("etcd.service", "mongod.service", "swap.target")  # links to /dev/null that roles make
# Made for the files above, and removed when nothing else is in them and no package has them.
DIRECTORIES = (
    "etc/systemd/system.conf.d",
    "etc/systemd/journald.conf.d",
    "etc/systemd/system/nginx.service.d",
    "etc/systemd/system/prometheus.service.d",
    "etc/sysusers.d",
)
# Remains of a package's own removal, as they were made after its installation. So were directories that are then empty.
REMAINS = {
    "nginx": ("etc/nginx", "var/lib/nginx", "var/log/nginx", "var/www/html/index.nginx-debian.html"),
    "etcd-server": ("var/lib/etcd",),
    "prometheus": ("etc/prometheus", "var/lib/prometheus", "var/log/prometheus"),
}
# What was there before ours comes back, and who reads it anew.
BACKUPS = {
    "etc/nginx/nginx.conf.before-judge": "nginx.service",
    "etc/prometheus/prometheus.yml.before-judge": "prometheus.service",
}
_QUIET = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}


def mounted(table: str) -> dict[Path, bool]:
    """The mount points and whether each is read-only, out of the text of /proc/self/mounts."""
    mounts = {}
    for line in table.splitlines():
        _, mount_point, _, options, *_ = line.split()
        path = mount_point.encode("latin-1").decode("unicode_escape").encode("latin-1").decode(errors="surrogateescape")
        mounts[Path(path)] = "ro" in options.split(",")
    return mounts


def left_alone(mounts: Mapping[Path, bool], root: Path = ROOT) -> dict[Path, bool]:
    """The mount points and whether each stays as it is: it is read-only, or has backups."""
    backup = root / BACKUP
    return {path: read_only or path.is_relative_to(backup) for path, read_only in mounts.items()}


def _above_mounts(path: Path, mounts: Mapping[Path, bool]) -> bool:
    return path.is_dir() and not path.is_symlink() and any(mount == path or path in mount.parents for mount in mounts)


def emptied(path: Path, mounts: Mapping[Path, bool]) -> bool:
    """Return whether nothing is left of a directory but what the host itself has mounted in it."""
    if not _above_mounts(path, mounts):
        return False
    return mounts.get(path, False) or all(emptied(child, mounts) for child in path.iterdir())


def tidy_ansible(home: Path) -> None:
    """Remove the directories that Ansible makes in a home for files on their way to a host, when they are empty.

    One in which anything is stays: another playbook's, or what a run that was killed has sent.
    """
    for path in (home / ".ansible/tmp", home / ".ansible"):
        with contextlib.suppress(OSError):  # not there, or not empty
            path.rmdir()


def remove(path: Path, mounts: Mapping[Path, bool]) -> None:
    """Remove a file, a link, or a directory with all in it.

    A disk that is mounted there is emptied and stays mounted, unless `mounts` says that it stays as it is.
    """
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
    elif not _above_mounts(path, mounts):
        shutil.rmtree(path)
    elif not mounts.get(path, False):
        for child in list(path.iterdir()):
            remove(child, mounts)
        if path not in mounts and not any(path.iterdir()):
            path.rmdir()


def found_paths(mounts: Mapping[Path, bool], root: Path = ROOT) -> list[Path]:
    paths = [root / tree for tree in TREES if tree != LAST and os.path.lexists(root / tree)]
    paths = [path for path in paths if not emptied(path, mounts)]
    paths += sorted(path for pattern in PATTERNS for path in root.glob(pattern))
    for name in MASKED:
        link = root / "etc/systemd/system" / name
        if link.is_symlink() and str(link.readlink()) == "/dev/null":
            paths.append(link)
    return paths


def present(names: list[str]) -> list[str]:
    """Those of the packages that dpkg knows anything of, remaining configuration included."""
    command = ["dpkg-query", "--show", "--showformat=${Package}\t${db:Status-Status}\n"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    installed = {line.split("\t")[0] for line in done.stdout.splitlines() if not line.endswith("not-installed")}
    return [name for name in names if name.partition(":")[0] in installed]


def needed(names: list[str]) -> list[str]:
    """Those that other packages of the host need: apt would have to remove these others with them."""
    required: list[str] = []
    while True:
        candidates = [name for name in names if name not in required]
        if not candidates:
            return required
        command = ["apt-get", "--simulate", "--quiet", "purge", *candidates]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=_QUIET)
        removals = {line.split()[1] for line in done.stdout.splitlines() if line.startswith(("Purg ", "Remv "))}
        dependents = removals - {name.partition(":")[0] for name in names}
        if not dependents:
            return required
        depends = ["dpkg-query", "--show", "--showformat=${Depends}, ${Pre-Depends}\n", *sorted(dependents)]
        output = subprocess.run(depends, capture_output=True, text=True, check=False).stdout
        dependencies = {
            word.split()[0].partition(":")[0] for word in output.replace("|", ",").split(",") if word.split()
        }
        additions = [name for name in candidates if name.partition(":")[0] in dependencies]
        if not additions:
            return names  # it may be anything: a package too many does no harm, one too few does
        required += additions


def users() -> list[str]:
    names = {entry.pw_name for entry in pwd.getpwall()} | {entry.gr_name for entry in grp.getgrall()}
    return [name for name in USERS if name in names]


class Wiper:
    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.mounts = left_alone(mounted(Path("/proc/self/mounts").read_text(encoding="latin-1")))
        self.paths = found_paths(self.mounts)
        self.users = users()
        brought = present(recorded_packages())
        self.kept = needed(brought)
        self.packages = [name for name in brought if name not in self.kept]
        self.last = ROOT / LAST

    @property
    def changes(self) -> bool:
        return bool(self.paths or self.users or self.packages or self.remains)

    @property
    def remains(self) -> bool:
        return self.last.exists() and not emptied(self.last, self.mounts)

    def wipe(self) -> None:
        """Remove it all; the keys first, the record of packages last."""
        self._stop()
        for path in self.paths:
            remove(path, self.mounts)
        for name, unit in BACKUPS.items():
            if (backup := ROOT / name).exists():
                put(backup.with_suffix(""), backup.read_bytes(), stat.S_IMODE(backup.stat().st_mode))
                backup.unlink()
                self._run("systemctl", "try-reload-or-restart", unit, ok=(0, 1, 5))
        self._run("systemctl", "daemon-reload")
        if self.packages:
            self._run("apt-get", "--yes", "--quiet", "-o", "DPkg::Lock::Timeout=120", "purge", *self.packages)
            for name in self.packages:
                for left in REMAINS.get(name, ()):
                    remove(ROOT / left, self.mounts)
                    for parent in (ROOT / left).parents:
                        self._tidy(parent)
        for name in self.users:
            self._run("userdel", name, ok=(0, 6))
            self._run("groupdel", name, ok=(0, 6))
        for directory in DIRECTORIES:
            self._tidy(ROOT / directory)
        self._run("systemctl", "daemon-reexec")
        self._run("systemctl", "reset-failed")
        self._run("systemctl", "try-restart", "systemd-journald.service")
        remove(self.last, self.mounts)

    def _stop(self) -> None:
        """Boot first, which ends its services in order; then whatever else bears the name."""
        self._run("systemctl", "disable", "--now", "judge-boot.service", ok=(0, 1, 5))
        self._run("systemctl", "stop", "judge-*.timer", "judge-*.service", "judge-*.socket", ok=(0, 1, 5))
        self._run("systemctl", "stop", "judge.target", "judge.slice", ok=(0, 1, 5))

    def _tidy(self, directory: Path) -> None:
        if directory.is_dir() and not any(directory.iterdir()):
            code, _, _ = self.module.run_command(["dpkg-query", "--search", str(directory)])
            if code != 0:
                directory.rmdir()

    def _run(self, *command: str, ok: tuple[int, ...] = (0,)) -> None:
        code, _, err = self.module.run_command(list(command), environ_update={"DEBIAN_FRONTEND": "noninteractive"})
        if code not in ok:
            told = (err.strip().splitlines() or ["no message"])[-1]
            self.module.fail_json(msg=f"{' '.join(command[:3])} ended with {code}: {told}; run the playbook again")


def main() -> None:
    module = AnsibleModule({}, supports_check_mode=True)
    try:
        wiper = Wiper(module)
        if wiper.changes and not module.check_mode:
            with one_at_a_time():
                wiper.wipe()
            shutil.rmtree(RECORDS, ignore_errors=True)
        if not module.check_mode:
            people = {"root", os.environ.get("SUDO_USER", "root")}
            for home in {one.pw_dir for one in pwd.getpwall() if one.pw_name in people}:
                tidy_ansible(Path(home))
    except LockedError as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename}: {exc.strerror}; a host must have a writable system")
    paths = [str(path) for path in wiper.paths] + ([str(wiper.last)] if wiper.remains or wiper.changes else [])
    module.exit_json(changed=wiper.changes, removed=paths, packages=wiper.packages, users=wiper.users, kept=wiper.kept)


if __name__ == "__main__":
    main()
