"""Looks at a host for a precheck; changes nothing. Runs on hosts: standard library only."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import re
import socket
import subprocess
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .judge_https import verdict

_LISTEN = "0A"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_CONTROLLERS = {"memory", "pids", "cpu"}  # the sandbox bounds runs with these
_PATIENCE = 3.0  # seconds; the kernel repeats a lost request after one
LISTENER = "judge-precheck"  # the process that judge_precheck_listen starts
# Errors of a try that nobody has answered: a firewall that drops, or one that says so, or no way there.
_NO_WAY = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EACCES, errno.EPERM)


def os_release(text: str) -> dict[str, str]:
    fields = dict(re.findall(r"^(ID|VERSION_CODENAME)=\"?([^\"\n]*)\"?$", text, re.MULTILINE))
    return {"id": fields.get("ID", ""), "codename": fields.get("VERSION_CODENAME", "")}


def listeners(text: str) -> dict[int, set[int]]:
    """Inodes of listening sockets by port, out of /proc/net/tcp or tcp6."""
    inodes: dict[int, set[int]] = {}
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[3] == _LISTEN:
            inodes.setdefault(int(fields[1].rpartition(":")[2], 16), set()).add(int(fields[9]))
    return inodes


def unit_of(cgroup: str) -> str:
    """The systemd unit out of /proc/PID/cgroup; empty when there is none."""
    units = re.findall(r"/([^/\n]+\.(?:service|socket|scope))(?:/|$)", cgroup, re.MULTILINE)
    return units[-1] if units else ""


def _sockets_of(process: Path) -> Iterator[str]:
    """Yield what a process's descriptors point to; one that is closed meanwhile must not hide the others."""
    for link in (process / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            yield str(link.readlink())


def _owners(inodes: Iterable[int]) -> dict[int, tuple[str, str]]:
    """(program, unit) of the process that holds each socket."""
    links = {f"socket:[{inode}]": inode for inode in inodes}
    owners: dict[int, tuple[str, str]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            matches = links.keys() & set(_sockets_of(process))
            if matches:
                name = (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
                unit = unit_of((process / "cgroup").read_text(encoding="utf-8"))
                owners.update((links[link], (name, unit)) for link in matches)
        except OSError:
            continue  # it has ended meanwhile
    return owners


def port_holders(ports: Iterable[int]) -> dict[str, dict[str, str]]:
    """The holder of each of these ports that is listened on now: `program` and `unit`."""
    sockets: dict[int, set[int]] = {}
    for table in ("tcp", "tcp6"):
        path = Path("/proc/net", table)
        if path.exists():
            for port, inodes in listeners(path.read_text(encoding="ascii")).items():
                sockets.setdefault(port, set()).update(inodes)
    occupied = {port: sockets[port] for port in ports if port in sockets}
    owners = _owners(inode for inodes in occupied.values() for inode in inodes)
    holders = {}
    for port, inodes in occupied.items():
        program, unit = next((owners[inode] for inode in inodes if inode in owners), ("", ""))
        holders[str(port)] = {"program": program, "unit": unit}
    return holders


def has_address(address: str) -> bool | None:
    """Return whether an address is this host's own; None when its name cannot be resolved here."""
    try:
        results = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)
    except OSError:
        return None
    for family, kind, _, _, address_info in results:
        with socket.socket(family, kind) as probe:
            try:
                probe.bind(address_info)
            except OSError as exc:
                if exc.errno == errno.EADDRNOTAVAIL:
                    continue
                raise
            return True
    return False


def free_bytes(path: Path) -> dict[str, Any]:
    """Free space where `path` is or will be, with the device, so that several paths on one disk are added up."""
    directory = path
    while not directory.exists():
        directory = directory.parent
    space = os.statvfs(directory)
    return {"free": space.f_bavail * space.f_frsize, "device": directory.stat().st_dev}


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return "unreadable"


def etcd_data(path: Path) -> dict[str, Any]:
    """The record of an etcd member: its token and name; `data` when there is a database."""
    record = _json(path / "membership.json")
    data = any((path / place).is_dir() for place in ("data/member", "member"))
    if record is None:
        return {"data": data, "token": None, "name": None}
    if not isinstance(record, dict):
        return {"data": data, "token": "", "name": ""}
    return {"data": data, "token": str(record.get("token", "")), "name": str(record.get("name", ""))}


def mongodb_data(path: Path) -> dict[str, Any]:
    """The database in a directory: whether there is one, judge made it, and of which replica set it is."""
    record = _json(path / "judge-member.json")
    data = any((path / name).is_file() for name in ("storage.bson", "WiredTiger"))
    valid = isinstance(record, dict)
    return {"data": data, "marked": valid, "replica_set_id": record.get("replica_set_id") if valid else None}


def mongod_version(config: str) -> str:
    """`6.0.5`: of the program that this config of the service mongodb names; empty where there is none."""
    match = re.search(r"^binary: *\"?([^\"\n]+?)\"? *$", config, re.MULTILINE)
    version = re.search(r"db version v([\d.]+)", _output(match[1], "--version")) if match else None
    return version[1] if version else ""


def architecture() -> str:
    return _output("dpkg", "--print-architecture").strip() or _MACHINES.get(platform.machine(), platform.machine())


def python_version(program: str = "/usr/bin/python3") -> str:
    """`3.13`: of the interpreter that releases are made with, whichever runs this; empty when there is none."""
    return _output(program, "-Ic", "import sys; print('%d.%d' % sys.version_info[:2])").strip()


def processor_flags(text: str) -> set[str]:
    """The processor's features, out of /proc/cpuinfo; empty when it does not say."""
    lines = re.findall(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return set(lines[0].split()) if lines else set()


def mongod_can_run(machine: str, flags: set[str]) -> bool:
    """Whether the processor has what MongoDB 5.0 and later are built for: AVX, or ARMv8.2-A (with its atomics)."""
    needed = {"x86_64": "avx", "aarch64": "atomics"}.get(machine)
    return not needed or not flags or needed in flags


def sandbox_lacks(controllers: str, hierarchies: str, namespaces: str) -> list[str]:
    """The kernel's features that executors need and it lacks.

    `controllers`: cgroup.controllers of version 2; `hierarchies`: /proc/cgroups; `namespaces`: max_user_namespaces. A
    text is empty where the file is not there.
    """
    lacks = []
    rows = [line.split() for line in hierarchies.splitlines() if not line.startswith("#")]
    available = set(controllers.split()) | {row[0] for row in rows if len(row) == 4 and row[1] != "0" and row[3] == "1"}
    missing = sorted(_CONTROLLERS - available)
    if missing:
        lacks.append(f"control groups with {', '.join(missing)}")
    if namespaces.strip() == "0":
        lacks.append("user namespaces (the kernel's setting user.max_user_namespaces is 0)")
    return lacks


def reached(peers: Iterable[tuple[str, int]], patience: float = _PATIENCE) -> dict[str, list[str]]:
    """The peers, as `address:port`, that no packet comes back from (`unreachable`), and those that refuse (`refused`).

    A refused connection is what a firewall says, or a host where nobody listens. All are asked at once.
    """

    def failure(peer: tuple[str, int]) -> str:
        try:
            socket.create_connection(peer, timeout=patience).close()
        except TimeoutError:
            return "unreachable"
        except ConnectionRefusedError:
            return "refused"
        except OSError as exc:
            return "unreachable" if exc.errno in _NO_WAY else ""
        return ""

    addresses = list(peers)
    with ThreadPoolExecutor(len(addresses) or 1) as pool:
        failures = list(zip(addresses, pool.map(failure, addresses), strict=True))
    return {
        kind: sorted(f"{host}:{port}" for (host, port), failed in failures if failed == kind)
        for kind in ("unreachable", "refused")
    }


def newer_kernel(running: str, files: Iterable[str]) -> str:
    """The newest installed kernel of the running one's kind, if that is newer; else empty.

    `running`: of `uname -r`; `files`: names in /boot such as `vmlinuz-6.1.0-44-amd64`.
    """

    def parts(release: str) -> tuple[list[int], str]:
        version, kind = re.fullmatch(r"([\d.+~-]*)(.*)", release, re.DOTALL).groups()  # type: ignore[union-attr]
        return [int(number) for number in re.findall(r"\d+", version)], kind

    installed = [name[len("vmlinuz-") :] for name in files if name.startswith("vmlinuz-")]
    current, kind = parts(running)
    newer = [name for name in installed if parts(name)[1] == kind and parts(name)[0] > current]
    return max(newer, key=lambda name: parts(name)[0], default="")


def foreign_sites(nginx: Path) -> list[str]:
    files = [*nginx.glob("sites-enabled/*"), *nginx.glob("conf.d/*.conf")]
    return sorted(str(file) for file in files if file.name != "default" and not file.name.startswith("judge"))


def _output(*command: str) -> str:
    """The output of a command that changes nothing; empty when it cannot be run."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def upgrades_itself() -> bool:
    """Return whether packages change by themselves, by unattended-upgrades."""
    settings = _output("apt-config", "dump", "APT::Periodic::Unattended-Upgrade")
    timer = _output("systemctl", "is-enabled", "apt-daily-upgrade.timer").strip()
    installed = Path("/usr/bin/unattended-upgrade").exists()
    return installed and timer == "enabled" and bool(re.search(r'"[1-9]', settings))


def keeps_time() -> bool:
    """Return whether a time service runs; a container has its machine's clock."""
    if _output("systemd-detect-virt", "--container").strip() not in {"", "none"}:
        return True
    services = ("systemd-timesyncd", "chrony", "chronyd", "ntpsec", "ntp", "openntpd", "ptp4l")
    return "active" in _output("systemctl", "is-active", *services).split()


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def observe(
    *,
    address: str,
    ports: list[int],
    paths: list[str],
    etcd_path: str,
    mongodb_path: str,
    peers: list[str],
    https: dict[str, str],
) -> dict[str, Any]:
    endpoints = [(host.strip("[]"), int(port)) for host, _, port in (peer.rpartition(":") for peer in peers)]
    return {
        "os": os_release(_text("/etc/os-release")),
        "architecture": architecture(),
        "python": python_version(),
        "systemd": Path("/run/systemd/system").is_dir(),
        "root": os.geteuid() == 0,
        "address": has_address(address) if address else None,
        "ports": port_holders(ports),
        "disks": {path: free_bytes(Path(path)) for path in paths},
        "etcd": etcd_data(Path(etcd_path)),
        "mongodb": mongodb_data(Path(mongodb_path)),
        "mongod": mongod_version(_text("/etc/judge/mongodb.yml")),
        "mongod_can_run": mongod_can_run(platform.machine(), processor_flags(_text("/proc/cpuinfo"))),
        "sandbox_lacks": sandbox_lacks(
            _text("/sys/fs/cgroup/cgroup.controllers"),
            _text("/proc/cgroups"),
            _text("/proc/sys/user/max_user_namespaces"),
        ),
        "deployed": Path("/opt/judge/current").exists(),
        "sites": foreign_sites(Path("/etc/nginx")),
        "upgrades_itself": upgrades_itself(),
        "keeps_time": keeps_time(),
        "newer_kernel": newer_kernel(platform.release(), [file.name for file in Path("/boot").glob("vmlinuz-*")]),
        "ipv6": Path("/proc/net/if_inet6").exists(),
        **reached(endpoints),
        "https": verdict(**https)._asdict() if https else {},
    }
