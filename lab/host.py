"""One host's life: made, started, stopped, without power, replaced. The caller holds the lab's lock."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from lab import cgroups, network, uml
from lab.errors import LabError, UsageError
from lab.shell import call
from lab.state import Record, own_kernel

HERE = Path(__file__).resolve().parent
STOP_TIMEOUT = 90.0  # seconds of an orderly shutdown; a mongod that is primary takes 15
SIZE = re.compile(r"(\d+)([KMG]?)", re.IGNORECASE)
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
SMALLEST_DISK = 1 << 20


def group(record: Record, host: str) -> str:
    """The cgroup path that holds everything of a host."""
    return cgroups.group(record.name, host)


def running(record: Record, host: str) -> bool:
    """Return whether the host has power: any process of it, or of its keeper, is alive."""
    return bool(cgroups.processes(group(record, host)))


def ended(record: Record, host: str) -> bool:
    """Return whether a host that was started is off again: its keeper had begun, and nothing is left."""
    return (record.host_directory(host) / "keeper.pid").exists() and not running(record, host)


def create(record: Record, host: str) -> None:
    """Make a host's directory, as after the installation of Debian, whole or not at all; harmless when it exists."""
    directory = record.host_directory(host)
    if directory.is_dir():
        return
    fresh = directory.with_name(f".{host}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    for name in ("upper", "work", "root", "disks"):
        (fresh / name).mkdir(parents=True)
        (fresh / name).chmod(0o755)
    upper = fresh / "upper"
    for name, mode in (("etc/ssh", 0o755), ("root/.ssh", 0o700)):
        (upper / name).mkdir(parents=True)
        for part in (upper / name, (upper / name).parent):
            part.chmod(mode)
    (upper / "etc/hostname").write_text(f"{host}\n")
    (upper / "etc/hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {host}\n")
    authorized = upper / "root/.ssh/authorized_keys"
    authorized.write_text((record.directory / "id_ed25519.pub").read_text())
    authorized.chmod(0o600)
    key = upper / "etc/ssh/ssh_host_ed25519_key"
    call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"root@{host}", "-f", str(key))
    shutil.copy(key.with_suffix(".pub"), fresh / "host_key.pub")
    if own_kernel(host):
        uml.customise(upper, record.address(host))
    fresh.rename(directory)


def power_on(record: Record, host: str) -> None:
    """Plug the cable in and boot; returns at once (`Lab.wait` waits). Harmless when the host runs."""
    network.plug(record, host, up=True)
    if running(record, host):
        return
    memory = parse_size(record.memory)
    options: list[str] = []
    directory, environment = record.host_directory(host), plain_environment()
    if own_kernel(host):
        environment["LAB_UML_LIBRARY"] = str(uml.registers(directory))
        kind, netns = "uml", network.namespace(record.name)
        options += [f"--bind-ro=/:{uml.MACHINE}", "--", *uml.arguments(record, host, memory)]
        memory += uml.OVERHEAD
    else:
        kind, netns = "nspawn", network.namespace(record.name, host)
        options += [f"--bind-ro={HERE / 'lab-init'}:/run/lab-init"]
    cgroups.make(record.name, host, memory)
    (directory / "keeper.pid").unlink(missing_ok=True)
    command = [
        "setsid", "--fork", str(HERE / "lab-host"), kind, cgroups.group(record.name, host, "host"), str(directory),
        record.base, host, netns, *options,
    ]  # fmt: skip
    with (directory / "console.log").open("ab") as log:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True, cwd="/", env=environment)


def plain_environment() -> dict[str, str]:
    """The part of this process's environment that a host's keeper gets: nothing that could reach inside."""
    return {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}


def shut_down(record: Record, host: str) -> None:
    """Orderly power-off, waited for; LabError when the host does not manage it in time."""
    if not running(record, host):
        return
    if own_kernel(host):
        uml.press_power(record.host_directory(host))
    else:
        ask_keeper(record, host)
    end = time.monotonic() + STOP_TIMEOUT
    while running(record, host):
        if time.monotonic() > end:
            raise LabError(f"{host} has not shut down within {STOP_TIMEOUT:g} s: `lab kill {host}` takes its power")
        time.sleep(0.05)
    cgroups.remove(group(record, host))


def ask_keeper(record: Record, host: str) -> None:
    """Tell a host's keeper that it shall shut down; harmless when there is none."""
    with contextlib.suppress(FileNotFoundError, ValueError, ProcessLookupError):
        keeper = int((record.host_directory(host) / "keeper.pid").read_text())
        descriptor = os.pidfd_open(keeper)
        try:
            # the handle first, then the look: only what is the host's own is signalled
            if keeper in cgroups.processes(group(record, host)):
                signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        finally:
            os.close(descriptor)


def power_off(record: Record, host: str) -> None:
    """Power loss.

    The cable comes out first: a kernel that kills processes says goodbye for them (FIN, RST), a dead machine does not.
    """
    with contextlib.suppress(LabError):  # a half-made host has no cable
        network.plug(record, host, up=False)
    cgroups.remove(group(record, host))


def console(record: Record, host: str) -> str:
    """The last line that a host, or what keeps it running, wrote; not the keeper's notes about how it ended."""
    try:
        lines = (record.host_directory(host) / "console.log").read_text(errors="replace").splitlines()
    except FileNotFoundError:
        lines = []
    return next((line for line in reversed(lines) if line.strip() and not line.startswith("== ")), "(nothing)")


def parse_size(text: str) -> int:
    """`64M` in bytes; UsageError unless it is 0 or a size that a file system fits on."""
    match = SIZE.fullmatch(text)
    size = int(match[1]) * UNITS[match[2].upper()] if match else -1
    if size != 0 and size < SMALLEST_DISK:
        raise UsageError(f"size '{text}': expected for example 64M or 1G, at least 1M, or 0 for no small disk")
    return size


def check_directory(path: str) -> str:
    """A directory that a disk can be put on, or UsageError."""
    if (
        not re.fullmatch(r"(/[\w.+@-]+)+", path)
        or ".." in path.split("/")
        or path.split("/")[1] in {"proc", "sys", "run"}
    ):
        raise UsageError(
            f"directory '{path}': expected an absolute path such as /var/lib/judge, not below /proc, /sys, /run"
        )
    return path


def disks(record: Record, host: str) -> dict[str, Path]:
    """Directory -> image of every small disk of a host."""
    folder = record.host_directory(host) / "disks"
    return {image.with_suffix(".path").read_text(): image for image in sorted(folder.glob("*.img"))}


def add_disk(record: Record, host: str, path: str, size: int) -> None:
    """Make the image of a small disk; the host sees it from its next start on."""
    folder = record.host_directory(host) / "disks"
    number = 1 + max([int(item.stem) for item in folder.glob("*.path")], default=0)
    (folder / f"{number}.path").write_text(path)
    fresh = folder / f"{number}.new"
    with fresh.open("wb") as out:
        out.truncate(size)
    call("mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", str(fresh))
    fresh.rename(fresh.with_suffix(".img"))


def remove_disk(image: Path) -> None:
    """Throw a small disk away; the host must be off."""
    image.unlink()
    image.with_suffix(".path").unlink(missing_ok=True)
