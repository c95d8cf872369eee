"""Hosts with a kernel of their own: user-mode Linux, whose cgroups are of version 2 only. Called by lab.host.

Such a host is a process of this machine that is a whole Linux: slower (an exec takes tens of milliseconds), with one
processor, and with a kernel, a clock and control groups of its own. It boots the base image that all hosts share.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import struct
from pathlib import Path

from lab import network
from lab.errors import LabError
from lab.shell import call
from lab.state import Record

HERE = Path(__file__).parent

PROGRAM = "linux.uml"
PACKAGE = "user-mode-linux"
OVERHEAD = 512 << 20  # bytes that the process needs beside the memory that its host sees
MACHINE = "/machine"  # such a host sees this machine's own files there, read-only
SLOWER = 5  # everything takes so many times as long there, at least
# This unit is to such a host what a boot loader's parameters and a network manager are to a real machine.
NETWORK_UNIT = """[Unit]
Description=The lab's cable
DefaultDependencies=no
Before=network-pre.target sysinit.target
Wants=network-pre.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -ec 'ip link set vec0 up; ip addr replace {address}/24 dev vec0'
"""
# The management console's packets (mconsole): magic number, version, length, text.
_PACKET = struct.Struct("=III512s")
_MAGIC, _VERSION = 0xCAFEBABE, 2


def prepare() -> None:
    """LabError unless the program is there."""
    if shutil.which(PROGRAM) is None:
        raise LabError(f"missing {PROGRAM}, which runs hosts whose names begin with u: `apt-get install {PACKAGE}`")


def registers(directory: Path) -> Path:
    """Build what is preloaded into its process, for processors with many registers (xstate.c says why)."""
    built = directory / "xstate.so"
    call("gcc", "-O2", "-shared", "-fPIC", "-o", str(built), str(HERE / "xstate.c"))
    return built


def customise(upper: Path, address: str) -> None:
    """Give such a host what others have not: an address that it sets itself, a power button."""
    units = upper / "etc/systemd/system"
    (units / "sysinit.target.wants").mkdir(parents=True)
    (units / "lab-network.service").write_text(NETWORK_UNIT.format(address=address))
    (units / "sysinit.target.wants/lab-network.service").symlink_to("../lab-network.service")
    (units / "ctrl-alt-del.target").symlink_to("/lib/systemd/system/poweroff.target")
    (units / "systemd-modules-load.service").symlink_to("/dev/null")  # its kernel has nothing to load: it is built in
    for path in (units, *units.parents):
        if path.is_relative_to(upper):
            path.chmod(0o755)


def arguments(record: Record, host: str, memory: int) -> list[str]:
    """The kernel's command line, but for what `lab-host` knows. `memory`: bytes."""
    cable = f"vec0:transport=tap,ifname={network.cable(host)},depth=128,gro=1"
    return [
        f"mem={memory >> 20}M",
        # a fixed address: with another one at each boot, the neighbours would not find it for half a minute
        f"{cable},mac={network.mac(record, record.hosts[host])}",
        "net.ifnames=0",
        "systemd.unified_cgroup_hierarchy=1",
        "con=null",
        "con0=null,fd:1",
        "quiet",
    ]


def press_power(directory: Path) -> None:
    """Ask for an orderly power-off, as the button of a machine does; harmless when nobody is there to hear it."""
    path = directory / "mconsole/host/mconsole"
    text = b"cad"
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
        asking.bind("")  # the kernel answers to wherever the question came from
        asking.settimeout(1)
        asking.sendto(_PACKET.pack(_MAGIC, _VERSION, len(text), text), str(path))
        asking.recv(1024)
