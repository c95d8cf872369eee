"""The base image: a bare Debian root directory, made once per release and recipe, shared read-only by all hosts."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from lab import state
from lab.errors import LabError
from lab.shell import call

# Packages of a freshly installed server; libfaketime is for `lab skew` (it must fit the host's C library).
PACKAGES = (
    "systemd", "systemd-sysv", "dbus", "openssh-server", "python3", "iproute2", "ca-certificates", "sudo", "procps",
    "iputils-ping", "libfaketime",
)  # fmt: skip
# Consoles, timers and network managers that a lab host has no use for.
MASKED = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "e2scrub_all.timer", "fstrim.timer", "e2scrub_reap.service",
    "getty.target", "console-getty.service", "systemd-networkd.service", "systemd-networkd-wait-online.service",
    "systemd-resolved.service",
)  # fmt: skip
SSHD = "PermitRootLogin prohibit-password\nUseDNS no\n"
RECIPE = 2  # raise it when `customise` changes
CODENAMES = ("bullseye", "bookworm", "trixie", "forky", "sid", "oldstable", "stable", "testing", "unstable")
# the machine's own apt options that decide whether its mirror can be reached
APT_OPTIONS = re.compile(
    r'^(Acquire::(?:https?::(?:Proxy|CAInfo)\S*|Check-Valid-Until|Check-Date)) "(.+)";$', re.MULTILINE
)
BUILD_TIMEOUT = 900.0  # seconds that another builder of the same image is waited for


def path(release: str) -> Path:
    """The place of a release's image, made or not; another recipe is another directory."""
    recipe = hashlib.sha256(repr((PACKAGES, MASKED, SSHD, RECIPE)).encode()).hexdigest()[:8]
    return state.cache_root() / f"{release}-{recipe}"


def ensure(release: str, tell: Callable[[str], None]) -> Path:
    """Build the image unless it is there. Killed at any point, it leaves a directory that the next build removes."""
    target = path(release)
    if target.is_dir():
        return target
    with state.lock(release, state.cache_root(), BUILD_TIMEOUT):
        if target.is_dir():
            return target
        tell(f"building the {release} base image in {target} (once, about half a minute)")
        fresh = target.with_name(f"{target.name}.partial")
        shutil.rmtree(fresh, ignore_errors=True)
        bootstrap(release, fresh)
        customise(fresh)
        fresh.rename(target)
        used = {record.base for record in map(state.read, state.all_names()) if record}
        for old in state.cache_root().glob(f"{release}-*"):
            if old != target and str(old) not in used:
                shutil.rmtree(old, ignore_errors=True)
    return target


def bootstrap(release: str, target: Path) -> None:
    """Run mmdebstrap in mount and process namespaces of its own, which end with this process."""
    options = [f'--aptopt={name} "{value}"' for name, value in APT_OPTIONS.findall(call("apt-config", "dump"))]
    command = [
        "setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private", "--pid", "--fork",
        "--kill-child", "mmdebstrap", "--mode=root", "--variant=minbase", f"--include={','.join(PACKAGES)}",
        *options, release, str(target), "-",
    ]  # fmt: skip
    done = subprocess.run(
        command,
        input=sources(release),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8", "TMPDIR": "/tmp"},  # noqa: S108 - mmdebstrap refuses a private one
    )
    if done.returncode != 0:
        shutil.rmtree(target, ignore_errors=True)
        faults = [
            line for line in done.stderr.splitlines() if line.startswith(("E:", "Err:"))
        ] or done.stderr.splitlines()
        raise LabError(f"mmdebstrap could not make a {release} image: {'; '.join(faults[:2]) or 'no message'}")


def customise(root: Path) -> None:
    """Turn the fresh root directory into one that any number of hosts can start from."""
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()  # made per host
    (root / "etc/machine-id").write_text("")
    for name in ("var/lib/dbus/machine-id", "etc/apt/apt.conf.d/99mmdebstrap", "etc/resolv.conf", "etc/hostname"):
        (root / name).unlink(missing_ok=True)
    (root / "etc/resolv.conf").write_text("")
    (root / "etc/ssh/sshd_config.d").mkdir(parents=True, exist_ok=True)
    (root / "etc/ssh/sshd_config.d/lab.conf").write_text(SSHD)
    units = root / "etc/systemd/system"
    for unit in MASKED:
        link(units / unit, "/dev/null")
    link(units / "default.target", "/lib/systemd/system/multi-user.target")
    # as after the first boot of an installed system: nothing is waiting to be brought up to date at every host's boot
    changed = (root / "usr").stat().st_mtime_ns
    for name in ("etc/.updated", "var/.updated"):
        (root / name).write_text("")
        os.utime(root / name, ns=(changed, changed))


def link(where: Path, to: str) -> None:
    """A symbolic link, whatever was there before."""
    where.unlink(missing_ok=True)
    where.symlink_to(to)


def sources(release: str, directory: Path = Path("/etc/apt")) -> str:
    """sources.list of the release, from the mirrors that this machine itself uses, or $JUDGE_LAB_MIRROR."""
    mirror = os.environ.get("JUDGE_LAB_MIRROR")
    security = None
    if not mirror:
        for uri, suite in apt_entries(directory):
            base = suite.rstrip("/").removesuffix("/updates").removesuffix("-security")
            if base in CODENAMES and base == suite:
                mirror = mirror or uri
            elif base in CODENAMES:
                security = security or uri
    if not mirror:
        raise LabError(
            f"no Debian mirror in {directory}: set JUDGE_LAB_MIRROR, for example to http://deb.debian.org/debian"
        )
    lines = [f"deb {mirror} {release} main", f"deb {mirror} {release}-updates main"]
    if security:
        lines.append(f"deb {security} {release}-security main")
    return "\n".join(lines) + "\n"


def apt_entries(directory: Path) -> Iterator[tuple[str, str]]:
    """(URI, suite) of every enabled binary entry in apt's configuration, of both formats."""
    for file in [directory / "sources.list", *sorted((directory / "sources.list.d").glob("*.list"))]:
        for line in file.read_text().splitlines() if file.is_file() else []:
            words = re.sub(r"\[[^]]*\]", " ", line.split("#")[0]).split()
            if len(words) >= 3 and words[0] == "deb":
                yield words[1], words[2]
    for file in sorted((directory / "sources.list.d").glob("*.sources")):
        text = "\n".join(line for line in file.read_text().splitlines() if not line.startswith("#"))
        for stanza in re.split(r"\n\s*\n", text):
            fields = {
                key.lower(): value.split()
                for key, value in re.findall(r"^([\w-]+):((?:.*)(?:\n[ \t].*)*)", stanza, re.MULTILINE)
            }
            if "deb" in fields.get("types", []) and fields.get("enabled", ["yes"])[0].lower() != "no":
                yield from ((uri, suite) for uri in fields.get("uris", []) for suite in fields.get("suites", []))
