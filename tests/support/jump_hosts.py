"""Real sshd processes in a network of their own, which only a jump host leads into. Needs root.

The jump host's sshd lives in that network too, with connections that are taken here: its port is on this machine's
loopback, the others' ports are not.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import paramiko

from lab import shell, state
from tests.support.capable import no_hosts
from tests.support.servers import Acceptor, wait_for

INNER = {"second": 2201, "target": 2202}  # their ports on the inner network's loopback

HOLD = """
PATH=$PATH:/usr/sbin:/sbin
ip link set lo up
mount --make-rprivate /
[ "$2" = / ] || { mount --rbind "$2" "$1/root"; mount --rbind /dev "$1/root/dev"; mount --rbind /proc "$1/root/proc"; }
root=$1/root; [ "$2" != / ] || root=
mount -t tmpfs tmpfs "$root/run"; mkdir "$root/run/sshd"
mount --bind "$1/etc" "$root/mnt"
touch "$1/etc/ready"
exec sleep infinity
"""

CONFIG = """
HostKey /mnt/{name}_key
AuthorizedKeysFile /mnt/{name}_authorized
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
LogLevel VERBOSE
"""


def sshd_root() -> Path | None:
    """The tree that has /usr/sbin/sshd: this machine's, or that of a lab's hosts; None when there is none."""
    trees = [Path("/"), *sorted(state.cache_root().glob("*-*"))]
    return next((tree for tree in trees if (tree / "usr/sbin/sshd").is_file()), None)


def no_sshd() -> str:
    """Why such processes cannot run here; empty when they can."""
    return no_hosts() or ("" if sshd_root() else "no sshd is installed, and no image of a lab's hosts is there")


class JumpHosts:
    """`jump` on this machine's loopback at `port`; `second` and `target` behind it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.etc = directory / "etc"
        self.etc.mkdir(parents=True)
        (directory / "root").mkdir()
        self.keys: dict[str, paramiko.PKey] = {}
        for name in ("jump", *INNER):
            self.keys[name] = paramiko.ECDSAKey.generate()
            self.keys[name].write_private_key_file(str(self.etc / f"{name}_key"))
            login = paramiko.ECDSAKey.generate()  # each lets in a key of its own
            login.write_private_key_file(str(directory / f"to_{name}"))
            (self.etc / f"{name}_authorized").write_text(f"{login.get_name()} {login.get_base64()}\n")
            (self.etc / f"{name}.conf").write_text(CONFIG.format(name=name))
        tree = str(sshd_root())
        self.root = str(directory / "root") if tree != "/" else "/"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.holder = self._start("unshare", "--net", "--mount", "sh", "-ec", HOLD, "hold", str(directory), tree)
        wait_for((self.etc / "ready").exists, 30, "the inner network")
        for name, port in INNER.items():
            self._start(*self._sshd(name), "-D", "-o", f"ListenAddress=127.0.0.1:{port}")
            wait_for(lambda name=name: "listening" in self.log(name), 30, f"sshd of {name}")
        self.acceptor = Acceptor(self._take)
        self.port = self.acceptor.port
        self.trust()

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def _sshd(self, name: str) -> list[str]:
        inside = ["nsenter", f"--target={self.holder.pid}", "--net", "--mount", "--", shutil.which("chroot", path=(
            f"{os.environ.get('PATH', os.defpath)}:{shell.SBIN}")) or "chroot", self.root]  # fmt: skip
        return [*inside, "/usr/sbin/sshd", "-f", f"/mnt/{name}.conf", "-E", f"/mnt/{name}.log"]

    def _take(self, taken: socket.socket) -> None:
        with taken:
            self.processes.append(
                subprocess.Popen([*self._sshd("jump"), "-i"], stdin=taken.fileno(), stdout=taken.fileno())
            )

    def log(self, name: str) -> str:
        """What the sshd of this name logged."""
        path = self.etc / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def logins(self, name: str) -> int:
        """How often its sshd let somebody in."""
        return self.log(name).count("Accepted publickey")

    def trust(self, **others: paramiko.PKey | None) -> None:
        """Write known_hosts with everyone's key, or another one, or none."""
        ports = {"jump": self.port, **INNER}
        keys = {**self.keys, **others}
        lines = [
            f"[127.0.0.1]:{ports[name]} {key.get_name()} {key.get_base64()}\n" for name, key in keys.items() if key
        ]
        (self.directory / "known_hosts").write_text("".join(lines))

    def config(self, text: str = "") -> Path:
        """An ssh_config with what the three have of their own after the given text."""
        known = f"  UserKnownHostsFile {self.directory}/known_hosts\n  GlobalKnownHostsFile /dev/null\n"
        blocks = "".join(
            f"Host {name}\n  HostName 127.0.0.1\n  Port {port}\n  User root\n"
            f"  IdentityFile {self.directory}/to_{name}\n"
            for name, port in {"jump": self.port, **INNER}.items()
        )
        path = self.directory / "ssh_config"
        path.write_text(f"{text}\n{blocks}Host *\n{known}  IdentitiesOnly yes\n  BatchMode yes\n")
        return path

    def close(self) -> None:
        """End all of them."""
        self.acceptor.close()
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


@contextlib.contextmanager
def jump_hosts(directory: Path) -> Iterator[JumpHosts]:
    """Such processes while the block runs."""
    made = JumpHosts(directory)
    try:
        yield made
    finally:
        made.close()
