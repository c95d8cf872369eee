"""One container: bwrap around an agent, made ahead of need, for one submission and then thrown away."""

from __future__ import annotations

import functools
import mmap
import os
import select
import socket
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from judge.common.errors import SandboxError
from judge.common.files import in_memory
from judge.sandbox import seccomp
from judge.sandbox.agent import BINARY, READY, Agent, Answer
from judge.sandbox.cgroup import ControlGroup, ControlGroupTree

RUN_UID = 1000
START_SECONDS = 10.0
STOP_SECONDS = 10.0
# Seconds that the agent may take to kill and reap a run, and to tidy up after it, before the whole container is killed.
# Page tables count for a run's memory, and the kernel takes some 10 s to empty a GiB of them: that is the run's fault,
# not the sandbox's.
KILL_SECONDS = 60.0
# Every live container has two users of the host to itself: 1.9e9 + 2 * (pid of its bwrap), far from everybody's.
_FIRST_UID = 1_900_000_000
_UID_PAIRS = 4_194_304  # the kernel's highest pid
_CAPABILITIES = ("SYS_ADMIN", "SETUID", "SETGID", "SETPCAP", "CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SYS_PTRACE")
# Files that runtimes look up in /etc: the linker's cache, Debian's alternatives, Java's and Python's settings.
_ETC = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/java-*", "/etc/python3*")
NICE = 5
_BEGAN = struct.Struct("=Q")  # the head of agent.c's struct shared


@dataclass(frozen=True)
class Sizes:
    """Upper bounds of the container's file systems; the memory limit counts what is in them anyway."""

    box_bytes: int = 1024**3
    box_inodes: int = 65536
    scratch_bytes: int = 512 * 1024**2
    scratch_inodes: int = 16384


@functools.cache
def filter_program() -> bytes:
    return seccomp.build()


def uid_window(uid_map: str) -> tuple[int, int]:
    """First uid and number of pairs for containers, from the text of /proc/self/uid_map (inside, outside, length).

    The usual window where it is mapped, else the end of the largest range.
    """
    ranges = [(int(line.split()[0]), int(line.split()[2])) for line in uid_map.splitlines()]
    for start, length in ranges:
        if start <= _FIRST_UID and start + length >= _FIRST_UID + 2 * _UID_PAIRS:
            return _FIRST_UID, _UID_PAIRS
    start, length = max(ranges, key=lambda item: item[1])
    pairs = max(1, length // 8)
    return start + length - 2 * pairs, pairs


def visible(paths: Sequence[str]) -> list[str]:
    """The host's paths that a container shows read-only, globs resolved, in the order of mounting."""
    result: dict[str, None] = {}
    for pattern in (*_ETC, *paths):
        for path in sorted(Path("/").glob(pattern.lstrip("/"))):
            result[str(path)] = None
    return list(result)


class Container:
    """Starting does not wait: call `ready()` before use. Every error is a SandboxError."""

    def __init__(
        self, tree: ControlGroupTree, paths: Sequence[str], sizes: Sizes, *, privileged: bool, core: int | None = None
    ) -> None:
        """`paths`: what to show beside /usr; `privileged`: we are root, so the container gets users of its own.

        `core`: where it is used; it is made where the caller is (None: it is used there as well).
        """
        self.build: ControlGroup = tree.group(keeps=True)
        self.runs: ControlGroup = tree.group(keeps=False)
        own_end, agent_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own_end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 512 * 1024)
        self.agent = Agent(own_end)
        self._log = in_memory("judge-sandbox-log")
        program = in_memory("judge-seccomp")
        page = in_memory("judge-shared")
        os.ftruncate(page, mmap.PAGESIZE)
        self._page = mmap.mmap(page, mmap.PAGESIZE)
        binary = -1
        uid = RUN_UID if privileged else 0
        try:
            os.write(program, filter_program())
            binary = os.open(BINARY, os.O_RDONLY | os.O_CLOEXEC)
            inside = [*self.build.fds, *self.runs.fds, program, page, agent_end.fileno(), binary]
            command = [
                *_launcher(tree, privileged=privileged),
                *_bubblewrap(paths, privileged=privileged, cgroup=tree.namespace),
                f"/proc/self/fd/{binary}", "serve", str(agent_end.fileno()), str(program), str(uid),
                f"size={sizes.box_bytes},nr_inodes={sizes.box_inodes},mode=0755,uid={uid},gid={uid}",
                f"size={sizes.scratch_bytes},nr_inodes={sizes.scratch_inodes},mode=1777",
                self.build.spec(), self.runs.spec(), str(page), "any" if core is None else str(core),
            ]  # fmt: skip
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, env={}, pass_fds=inside
            )
        except OSError as exc:
            own_end.close()
            os.close(self._log)
            self._page.close()
            self._close_groups()
            raise SandboxError(
                f"the sandbox could not be started: {exc.filename or 'bwrap'}: {exc.strerror}; is all of it installed?"
            ) from exc
        finally:
            agent_end.close()
            os.close(program)
            os.close(page)
            if binary >= 0:
                os.close(binary)
        self._pidfd = os.pidfd_open(self._process.pid)
        for group in (self.build, self.runs):
            group.watch(self._process.pid)
        self._is_ready = self._has_run = False
        self.built = 0
        self._closed = False

    @property
    def pid(self) -> int:
        """The host's process id of bwrap, which lives exactly as long as the container."""
        return self._process.pid

    def ready(self) -> None:
        """Wait until the agent is set up, or has tidied up after the last run."""
        if self._closed:
            raise SandboxError("this sandbox is closed, or was broken by an earlier error; take another one")
        if not self._is_ready:
            # What a run leaves may take the kernel as long to free as the run's end itself.
            self.expect(READY, KILL_SECONDS if self._has_run else START_SECONDS)
            self._is_ready = True

    def busy(self) -> None:
        """A run is about to be asked for: READY comes only after its end."""
        self._is_ready, self._has_run = False, True
        self._page[:8] = bytes(8)

    def began(self) -> float | None:
        """The time when the program of this run was executed (clock.monotonic), or None when it was not yet."""
        nanoseconds: int = _BEGAN.unpack_from(self._page)[0]
        return nanoseconds / 1e9 if nanoseconds else None

    def expect(self, kind: int, timeout: float) -> Answer:
        """The next answer, which must be of this kind."""
        try:
            answer = self.agent.receive(timeout)
        except SandboxError as exc:
            raise self.explained(str(exc)) from exc
        if answer is None:
            raise self.explained(f"the sandbox did not answer within {timeout:g} s")
        if answer.kind != kind:
            if answer.fd is not None:
                os.close(answer.fd)
            raise self.explained(f"the sandbox answered {answer.kind} where {kind} was due")
        return answer

    def explained(self, sentence: str) -> SandboxError:
        """With the last line that bwrap or the agent wrote."""
        self._ended(0.2)
        lines = os.pread(self._log, 65536, 0).decode("utf-8", "replace").strip().splitlines()
        return SandboxError(f"{sentence}: {lines[-1]}" if lines else sentence)

    def close(self) -> None:
        """End everything in the container and wait until it is gone; a container that will not go is killed."""
        if self._closed:
            return
        self._closed = True
        self.agent.channel.close()
        if not self._ended(STOP_SECONDS):
            self._process.kill()
        self._process.wait()
        os.close(self._pidfd)
        os.close(self._log)
        self._page.close()
        self._close_groups()

    def kill(self) -> None:
        """The agent does not answer: SIGKILL to bwrap, whose end the kernel makes that of the whole pid namespace."""
        self._process.kill()
        self.close()

    def _ended(self, timeout: float) -> bool:
        """Wait so many seconds for bwrap's end, and say whether it came (Popen.wait looks every few milliseconds)."""
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(timeout * 1000))

    def _close_groups(self) -> None:
        for group in (self.build, self.runs):
            group.close()


def _above(paths: Sequence[str]) -> list[str]:
    """The directories above what is shown, outermost first: bwrap would make them for itself only (0700)."""
    parents: dict[str, None] = {}
    for path in paths:
        for parent in reversed(PurePosixPath(path).parents):
            if str(parent) != "/" and not parent.is_relative_to("/usr"):
                parents[str(parent)] = None
    return list(parents)


def _launcher(tree: ControlGroupTree, *, privileged: bool) -> list[str]:
    """The agent's binary as launcher; see agent.c."""
    command = [str(BINARY), "launch", "-n", str(NICE)]
    for path in tree.joins:
        command += ["-j", str(path)]
    if privileged:
        first, pairs = uid_window(Path("/proc/self/uid_map").read_text())
        command += ["-m", str(first), "-s", str(pairs)]
    return [*command, "--"]


def _bubblewrap(paths: Sequence[str], *, privileged: bool, cgroup: bool) -> list[str]:
    command = ["/usr/bin/bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]  # the network: agent.c
    if cgroup:
        command.append("--unshare-cgroup")
    if not privileged:
        # One user is all that we may map. As 0, or bwrap adds a namespace in which the agent could not mount.
        command += ["--unshare-user", "--uid", "0", "--gid", "0"]
    command += ["--die-with-parent", "--as-pid-1", "--new-session", "--hostname", "box", "--clearenv"]
    command += ["--cap-drop", "ALL"]
    for name in _CAPABILITIES:
        command += ["--cap-add", f"CAP_{name}"]
    command += ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/") / name
        if path.is_symlink():
            command += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            command += ["--ro-bind", str(path), str(path)]
    for directory in ("/etc", "/box", "/scratch", "/tmp", *_above(paths)):  # noqa: S108 - mount points inside, not files here
        command += ["--perms", "0755", "--dir", directory]
    for visible_path in paths:
        command += ["--ro-bind", visible_path, visible_path]
    command += ["--proc", "/proc", "--dev", "/dev"]
    return [*command, "--"]
