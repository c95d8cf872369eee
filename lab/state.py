"""Keeps a lab's state on disk: one JSON file per lab, written before anything is made, and the locks around it."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from lab.errors import LabError, UsageError

RELEASES = ("trixie", "bookworm")
DEFAULT_HOSTS = "j1,j2,j3,e1,e2,g1"
GROUPS = {"j": "judicators", "e": "executors", "g": "gateways", "m": "monitors"}
# addresses of each kind begin after these: j1 is .11, g1 is .21, e1 is .31, u1 is .91, m1 is .2
FIRST = {"j": 10, "g": 20, "e": 30, "u": 90, "m": 1}
LAST = {"j": 9, "g": 9, "e": 60, "u": 9, "m": 8}  # the highest number of each kind that has an address of its own
SUBNETS = 256
NAME = re.compile(r"[a-z][a-z0-9]{0,11}")  # interfaces are called v-NAME, and the kernel allows 15 characters
HOST = re.compile(r"[jegmu][a-z0-9]{0,11}")
LOCK_TIMEOUT = 180.0  # seconds; a base image is built under its lock, hosts are started under theirs


def cache_root() -> Path:
    """The directory of base images; $JUDGE_LAB_CACHE overrides it."""
    return Path(os.environ.get("JUDGE_LAB_CACHE", "/var/cache/judge-lab"))


def state_root() -> Path:
    """The directory of labs; $JUDGE_LAB_STATE overrides it."""
    return Path(os.environ.get("JUDGE_LAB_STATE", "/var/lib/judge-lab"))


@dataclasses.dataclass
class Record:
    """One lab: everything that a later command needs to know about it."""

    name: str
    index: int  # its network is 10.77.INDEX.0/24
    release: str
    base: str  # base image, shared by the hosts' overlays
    inventory: str
    bundle: str | None = None
    memory: str = "4G"  # per host
    hosts: dict[str, int] = dataclasses.field(default_factory=dict)  # name -> last byte of its address

    @property
    def directory(self) -> Path:
        """The lab's own directory."""
        return state_root() / self.name

    @property
    def network(self) -> str:
        """First three bytes of its addresses."""
        return f"10.77.{self.index}"

    def address(self, host: str) -> str:
        """IPv4 address of a host."""
        return f"{self.network}.{self.hosts[host]}"

    def host_directory(self, host: str) -> Path:
        """Overlay, disks and console log of a host."""
        return self.directory / "hosts" / host

    def save(self) -> None:
        """Replace the file as a whole: a reader, or a power cut, sees the old one or the new one."""
        self.directory.mkdir(parents=True, exist_ok=True)
        target = self.directory / "lab.json"
        fresh = target.with_suffix(".new")
        fresh.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n")
        fresh.replace(target)

    def add_hosts(self, names: list[str]) -> None:
        """Give new hosts their addresses: by letter and number where that is free, else the first free from .100."""
        for name in names:
            if name in self.hosts:
                continue
            taken = set(self.hosts.values())
            number = int(name[1:]) if name[1:].isdigit() else 0
            wanted = FIRST[name[0]] + number
            if not 1 <= number <= LAST[name[0]] or wanted in taken:
                free = [byte for byte in range(100, 255) if byte not in taken]
                if not free:
                    raise UsageError(f"no address left for {name}: a lab has room for about 250 hosts")
                wanted = free[0]
            self.hosts[name] = wanted


def check_name(name: str) -> str:
    """A lab's name, or UsageError."""
    if not NAME.fullmatch(name):
        raise UsageError(f"lab name '{name}': expected a small letter and up to 11 small letters or digits")
    return name


def own_kernel(host: str) -> bool:
    """Return whether a host runs a kernel of its own (user-mode Linux), and is in no inventory group."""
    return host[0] == "u"


def parse_hosts(text: str) -> list[str]:
    """`j1,j2,e1` as a list, or UsageError that names the first fault."""
    names = [item.strip() for item in text.split(",") if item.strip()]
    if not names:
        raise UsageError("--hosts names no host: expected for example j1,j2,j3,e1,g1")
    for name in names:
        if not HOST.fullmatch(name):
            raise UsageError(
                f"host name '{name}': expected j (judicator), e (executor), g (gateway), m (monitor) or u (user-mode "
                "Linux), then up to 11 small letters or digits"
            )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"--hosts names {', '.join(twice)} twice")
    return names


def read(name: str) -> Record | None:
    """The record of a lab, or None when there is none (or only a torn one, which counts as none)."""
    try:
        return Record(**json.loads((state_root() / check_name(name) / "lab.json").read_text()))
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
        return None


def all_names() -> list[str]:
    """Every lab of this machine, whole or half-made."""
    root = state_root()
    return sorted(path.name for path in root.iterdir() if NAME.fullmatch(path.name)) if root.is_dir() else []


def free_index() -> int:
    """The lowest network that no lab uses; call it under `lock("")`."""
    used = {record.index for record in map(read, all_names()) if record}
    free = [index for index in range(SUBNETS) if index not in used]
    if not free:
        raise LabError(f"all {SUBNETS} lab networks are in use: take a lab down first")
    return free[0]


@contextlib.contextmanager
def lock(name: str, root: Path | None = None, timeout: float = LOCK_TIMEOUT) -> Iterator[Path]:
    """Hold a lab's lock (name "": the list of labs), or LabError after `timeout` seconds; the holder may unlink it."""
    directory = root or state_root()
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / (f".{name}.lock" if name else ".lock")
    end = time.monotonic() + timeout
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            if time.monotonic() > end:
                what = f"lab '{name}'" if name else "the lab directory"
                raise LabError(f"{what} is busy: another lab command has held {path} for {timeout:g} s") from None
            time.sleep(0.05)
            continue
        # A former holder may have removed the file while we waited for it: then this is a lock on nothing.
        if path.exists() and path.stat().st_ino == os.fstat(descriptor).st_ino:
            break
        os.close(descriptor)
    try:
        yield path
    finally:
        os.close(descriptor)
