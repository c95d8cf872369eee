"""The lab's network: a bridge in a namespace of its own, one namespace and one cable per host, nft for partitions.

Nothing of it is in the machine's own network namespace, and no host has a route out.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import socket
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.shell import call, succeeds
from lab.state import Record, own_kernel

NETNS = Path("/run/netns")
BRIDGE = "br0"
CLONE_NEWNET = 0x40000000
TABLE = "judge_lab"
# Two hooks: frames between hosts, and frames for the lab's own address, where `lab run` commands listen and connect.
RULES = f"""table bridge {TABLE} {{
  chain between {{ type filter hook forward priority 0; policy accept; }}
  chain control {{ type filter hook input priority 0; policy accept; }}
}}
"""


def namespace(lab: str, host: str | None = None) -> str:
    """Name of a lab's bridge namespace, or of a host's own. Lab names have no dash, so no two collide."""
    return f"jl-{lab}-{host}" if host else f"jl-{lab}"


def cable(host: str) -> str:
    """The bridge's end of a host's cable, in the lab's namespace."""
    return f"v-{host}"


def mac(record: Record, byte: int) -> str:
    """Fixed for each address: a replaced host must not meet stale neighbour entries."""
    return f"02:4a:4c:00:{record.index:02x}:{byte:02x}"


def names(lab: str) -> list[str]:
    """Every namespace of a lab that exists, also a half-made one."""
    pattern = re.compile(rf"jl-{lab}(-[a-z0-9]+)?")
    return sorted(path.name for path in NETNS.iterdir() if pattern.fullmatch(path.name)) if NETNS.is_dir() else []


def whole(name: str) -> bool:
    """Return whether /run/netns/NAME is a namespace; an interrupted `ip netns add` leaves an empty file."""
    try:
        return (NETNS / name).stat().st_dev == Path("/proc/self/ns/net").stat().st_dev
    except FileNotFoundError:
        return False


def make_namespace(name: str) -> None:
    """Make a network namespace with loopback, unless it is there."""
    if not whole(name):
        delete_namespace(name)
        call("ip", "netns", "add", name)
    call("ip", "-n", name, "link", "set", "lo", "up")


def delete_namespace(name: str) -> None:
    """Remove a network namespace, its half-made file too."""
    if (NETNS / name).exists():
        succeeds("ip", "netns", "delete", name)  # complains about a half-made one, and unlinks it all the same
        (NETNS / name).unlink(missing_ok=True)


def links(name: str) -> dict[str, dict[str, Any]]:
    """Interfaces of a namespace by name, as `ip -j addr` tells them."""
    return {item["ifname"]: item for item in json.loads(call("ip", "-n", name, "-j", "addr", "show") or "[]") if item}


def batch(name: str, *lines: str) -> None:
    """Several `ip` commands in one namespace."""
    call("ip", "-n", name, "-batch", "-", text="\n".join(lines) + "\n")


def make(record: Record) -> None:
    """Bridge and rules of a lab; what is there already stays."""
    name = namespace(record.name)
    make_namespace(name)
    address = f"{record.network}.1"
    if not has_address(links(name).get(BRIDGE), address):
        succeeds("ip", "-n", name, "link", "delete", BRIDGE)
        batch(
            name,
            f"link add {BRIDGE} address {mac(record, 1)} type bridge stp_state 0 forward_delay 0",
            f"addr add {address}/24 dev {BRIDGE}",
            f"link set {BRIDGE} up",
        )
    if not succeeds(*inside(record.name), "nft", "list", "table", "bridge", TABLE):
        call(*inside(record.name), "nft", "-f", "-", text=RULES)


def has_address(item: dict[str, Any] | None, address: str) -> bool:
    """Return whether an interface is up and has the address."""
    return bool(
        item and "UP" in item["flags"] and any(entry.get("local") == address for entry in item.get("addr_info", []))
    )


def make_host(record: Record, host: str) -> None:
    """Namespace and cable of a host; a half-made cable is replaced."""
    own, shared, address = namespace(record.name, host), namespace(record.name), record.address(host)
    if own_kernel(host):
        make_tap(shared, cable(host))
        return
    make_namespace(own)
    outer = links(shared).get(cable(host))
    if outer and outer.get("master") == BRIDGE and has_address(links(own).get("host0"), address):
        return
    succeeds("ip", "-n", shared, "link", "delete", cable(host))
    succeeds("ip", "-n", own, "link", "delete", "host0")
    batch(
        shared,
        f"link add {cable(host)} type veth peer name host0 address {mac(record, record.hosts[host])} netns {own}",
        f"link set {cable(host)} master {BRIDGE} up",
    )
    batch(own, f"addr add {address}/24 dev host0", "link set host0 up")


def make_tap(shared: str, name: str) -> None:
    """The cable of a host with a kernel of its own, which opens the device when it boots; it stays over its power."""
    there = links(shared).get(name)
    if there and there.get("master") == BRIDGE:
        return
    succeeds("ip", "-n", shared, "link", "delete", name)
    call("ip", "-n", shared, "tuntap", "add", "dev", name, "mode", "tap")
    batch(shared, f"link set {name} master {BRIDGE} up")


def mounted() -> bool:
    """Return whether /run/netns is mounted on itself, which is invisible in its device number."""
    return any(line.split()[4] == str(NETNS) for line in Path("/proc/self/mountinfo").read_text().splitlines())


def remove(lab: str) -> None:
    """Remove all namespaces of a lab, and with them bridge, cables and rules."""
    shared = namespace(lab)
    if whole(shared):
        for name in links(shared):
            # by hand: a process of somebody else that still looks into the namespace would keep it, and them, alive
            if name != "lo":
                succeeds("ip", "-n", shared, "link", "delete", name)
    for name in names(lab):
        delete_namespace(name)
    # `ip netns add` mounts the directory on itself the first time; the last one out puts that back
    if mounted() and not any(NETNS.iterdir()) and succeeds("umount", str(NETNS)):
        with contextlib.suppress(OSError):
            NETNS.rmdir()


def inside(lab: str) -> list[str]:
    """Prefix of a command that shall run in the lab's namespace. Not `ip netns exec`: that hides /sys/fs/cgroup."""
    return ["nsenter", f"--net={NETNS / namespace(lab)}", "--"]


def plug(record: Record, host: str, *, up: bool) -> None:
    """Put a host's cable in or out: at the bridge's end, as user-mode Linux gives up a device that went down once."""
    change = "up" if up else "down"
    if own_kernel(host):
        change = f"master {BRIDGE}" if up else "nomaster"
    batch(namespace(record.name), f"link set {cable(host)} {change}")


def plugged(record: Record) -> dict[str, bool]:
    """Host -> whether its cable is in."""
    found = links(namespace(record.name))
    here = {host: found.get(cable(host), {}) for host in record.hosts}
    return {host: "UP" in link.get("flags", []) and link.get("master") == BRIDGE for host, link in here.items()}


def drop(record: Record, source: str, target: str | None) -> None:
    """Lose every frame from one host to another, or (target None) to everybody, the lab's own address included."""
    rules = [f"add rule bridge {TABLE} between iifname {cable(source)}"]
    if target:
        rules[0] += f" oifname {cable(target)}"
    else:
        rules.append(f"add rule bridge {TABLE} control iifname {cable(source)}")
    call(*inside(record.name), "nft", "-f", "-", text="".join(f"{rule} counter drop\n" for rule in rules))


def drops(record: Record) -> list[tuple[str, str | None]]:
    """(source, target or None = everybody) of every rule in force, once each."""
    text = call(*inside(record.name), "nft", "list", "chain", "bridge", TABLE, "between")
    found = re.findall(r'iifname "v-(\w+)"(?: oifname "v-(\w+)")?', text)
    return list(dict.fromkeys((source, target or None) for source, target in found))


def flush(record: Record, host: str | None = None) -> None:
    """Remove the rules that lose frames: all, or those that name a host."""
    keep = [] if host is None else [rule for rule in drops(record) if host not in rule]
    call(*inside(record.name), "nft", "flush", "table", "bridge", TABLE)
    for source, target in keep:
        drop(record, source, target)


def enter(lab: str) -> None:
    """Move the calling thread, and what it starts, into the lab's namespace. For threads that end soon after."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(NETNS / namespace(lab), os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(descriptor, CLONE_NEWNET) != 0:
            raise LabError(f"cannot enter {NETNS / namespace(lab)}: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(descriptor)


def greets(address: str, port: int = 22, timeout: float = 0.5) -> bool:
    """Return whether an SSH server introduces itself there (from the calling thread's namespace)."""
    try:
        with socket.create_connection((address, port), timeout) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
