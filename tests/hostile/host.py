"""What hostile programs aim at on this machine, and how to see afterwards that nothing was hit or left behind."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import os
import secrets
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Programs that make files put this into their names.
MARK = "hostile-mark"
# The beginning of secret files; the programs that look for it have it in two halves.
CANARY = "CANARY-"
CGROUP = "judge-hostile"

_IN_OPENED_OR_CHANGED = 0x00000FFF & ~0x00000010 & ~0x00000008  # all but the ends of uses that began before
_SIOCGIFADDR = 0x8915
_EVENT = struct.Struct("iIII")
_WATCHED = ("/etc/passwd", "/etc/group", "/usr/bin/env", "/bin/sh", "/proc/sys/kernel/core_pattern",
            "/proc/sys/kernel/hostname", "/proc/sys/vm/overcommit_memory")  # fmt: skip
_PLACES = ("/", "/bin", "/dev", "/dev/shm", "/etc", "/home", "/lib", "/root", "/run", "/tmp", "/usr", "/usr/bin",
           "/usr/lib", "/var/tmp", "/box", "/dev/mqueue")  # fmt: skip
_IPC_NOWAIT_LOOK = ("/proc/sysvipc/shm", "/proc/sysvipc/msg", "/proc/sysvipc/sem")


def _address() -> str:
    """An address of this host that is not the loopback's, or the loopback's when there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # an interface without an address
                request = struct.pack("16s16x", name.encode())
                address = socket.inet_ntoa(fcntl.ioctl(probe, _SIOCGIFADDR, request)[20:24])
                if not address.startswith("127."):
                    return address
    return "127.0.0.1"


class Host:
    """Bait: secret and writable files, listening sockets, a token in the environment. A context manager."""

    def __init__(self, directory: Path) -> None:
        """`directory` is made world-readable: only the sandbox may stand between a program and what is in it."""
        self.token = CANARY + secrets.token_hex(12)
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o755)
        self.directory = directory
        self.secret = self._file("secret.h", f'"{self.token}"\n', 0o644)
        self.victim = self._file("victim", f"{self.token}\n", 0o666)
        self.answer = self._file("answer", f"{self.token}\n", 0o644)
        self._inotify = self._watch()
        self._before = self._state()
        self.address = _address()
        self._listeners = [
            self._listen(socket.AF_INET, socket.SOCK_STREAM, ("", 0)),
            self._listen(socket.AF_INET, socket.SOCK_DGRAM, ("", 0)),
            self._listen(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.token}"),
            self._listen(socket.AF_UNIX, socket.SOCK_DGRAM, f"\0{self.token}-d"),
            self._listen(socket.AF_UNIX, socket.SOCK_STREAM, str(directory / "socket")),
        ]
        (directory / "socket").chmod(0o777)

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        for listener in self._listeners:
            listener.close()
        os.close(self._inotify)

    @property
    def places(self) -> dict[str, str]:
        """What the programs are told: placeholder to value."""
        return {
            "@SECRET@": str(self.secret),
            "@VICTIM@": str(self.victim),
            "@ANSWER@": str(self.answer),
            "@HOST@": self.address,
            "@PORT@": str(self._listeners[0].getsockname()[1]),
            "@UDP@": str(self._listeners[1].getsockname()[1]),
            "@ABSTRACT@": self._listeners[2].getsockname()[1:].decode(),
            "@NAMED@": str(self.directory / "socket"),
        }

    def _file(self, name: str, text: str, mode: int) -> Path:
        path = self.directory / name
        path.write_text(text)
        path.chmod(mode)
        return path

    def _listen(self, family: int, kind: int, address: str | tuple[str, int]) -> socket.socket:
        listener = socket.socket(family, kind)
        listener.bind(address)
        listener.setblocking(False)
        if kind == socket.SOCK_STREAM:
            listener.listen()
        return listener

    def _watch(self) -> int:
        """An inotify descriptor that knows of every opening and every change of the bait files, by whoever."""
        libc = ctypes.CDLL(None, use_errno=True)
        fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for path in (self.secret, self.victim, self.answer):
            if fd < 0 or libc.inotify_add_watch(fd, os.fsencode(path), _IN_OPENED_OR_CHANGED) < 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
        return int(fd)

    def _state(self) -> dict[str, object]:
        state: dict[str, object] = {}
        for name in _WATCHED:
            path = Path(name)
            if path.exists():
                data = path.read_bytes()
                state[name] = (path.stat().st_mode, hashlib.sha256(data).hexdigest())
        for path in (self.secret, self.victim, self.answer):
            status = path.stat()
            state[str(path)] = (status.st_ino, status.st_mode, status.st_mtime_ns, status.st_size, status.st_nlink)
        return state

    def hits(self) -> list[str]:
        """What was read, changed or connected to since the bait was laid out; one sentence each."""
        hits = []
        with contextlib.suppress(BlockingIOError):
            events = os.read(self._inotify, 65536)
            watch, mask, _, _ = _EVENT.unpack_from(events)
            hits.append(f"bait file {watch} was opened or changed (inotify mask {mask:#x})")
        now = self._state()
        hits += [f"{name} was changed" for name, state in self._before.items() if now.get(name) != state]
        for listener in self._listeners:
            with contextlib.suppress(BlockingIOError):
                if listener.type == socket.SOCK_STREAM:
                    listener.accept()[0].close()
                else:
                    listener.recv(100)
                hits.append(f"somebody connected to {listener.getsockname()}")
        return hits


@dataclass(frozen=True)
class Traces:
    """What may be left behind on this machine, at one moment. Compared with `new`."""

    descriptors: frozenset[str]
    children: frozenset[str]
    mounts: frozenset[str]
    ipc: frozenset[str]
    files: frozenset[str]
    cgroups: frozenset[str]

    @classmethod
    def now(cls, *directories: Path, cgroup: str = CGROUP) -> Traces:
        """Look. `directories`: where else to look for files, whatever their names; `cgroup`: what roots begin with."""
        return cls(
            descriptors=frozenset(_descriptors()),
            children=frozenset(_children()),
            mounts=frozenset(_mounts()),
            ipc=frozenset(_ipc()),
            files=frozenset(_files(directories)),
            cgroups=frozenset(_cgroups(cgroup)),
        )

    def new(self, before: Traces) -> list[str]:
        """What is here and was not before, for people."""
        changes = []
        for name in ("descriptors", "children", "mounts", "ipc", "files", "cgroups"):
            extra = sorted(getattr(self, name) - getattr(before, name))
            changes += [f"{name}: {item}" for item in extra]
        return changes


def _descriptors() -> Iterator[str]:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names only
        with contextlib.suppress(OSError):
            yield f"{name} -> {Path(f'/proc/self/fd/{name}').readlink()}"


def _mounts() -> Iterator[str]:
    """All but those below /run, where sessions and network namespaces of others come and go; no sandbox has a /run."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if not line.split()[1].startswith("/run/"):
            yield line


def _children() -> Iterator[str]:
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            yield from (f"process {pid}" for pid in (task / "children").read_text().split())


def _ipc() -> Iterator[str]:
    """System V objects of this host's namespace, whose ids never come back soon; POSIX queues appear as files."""
    for path in _IPC_NOWAIT_LOOK:
        with contextlib.suppress(OSError):
            for line in Path(path).read_text().splitlines()[1:]:
                yield f"{path}: {' '.join(line.split()[:2])}"
    queue = ctypes.CDLL("librt.so.1").mq_open(f"/{MARK}".encode(), os.O_RDONLY)
    if queue >= 0:
        os.close(queue)
        yield f"POSIX queue /{MARK}"


def _files(directories: tuple[Path, ...]) -> Iterator[str]:
    for place in (*_PLACES, str(Path.cwd())):
        with contextlib.suppress(OSError):
            yield from (f"{place}/{name}" for name in os.listdir(place) if MARK in name)  # noqa: PTH208 - names only
    for directory in directories:
        yield from (str(path) for path in directory.rglob("*"))


def _cgroups(root: str) -> Iterator[str]:
    """Directories of single sandboxes, in every hierarchy: below `<root>/<pool>`."""
    for folder, folders, _ in os.walk("/sys/fs/cgroup"):  # others' groups come and go meanwhile
        inside = [part for part in Path(folder).parts if part.startswith(root)]
        if inside and len(Path(folder).parts) - Path(folder).parts.index(inside[0]) == 2:
            yield from (f"{folder}/{name}" for name in folders)
            folders.clear()


def strays(users: set[int]) -> list[str]:
    """Processes of these users, which belonged to containers; waits for none."""
    processes = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            text = (path / "status").read_text()
            uids = {int(uid) for uid in text.split("\nUid:", 1)[1].split("\n", 1)[0].split()}
            if uids & users:
                processes.append(f"process {path.name} ({text.split(chr(10), 1)[0]}) of a container's user")
    return processes
