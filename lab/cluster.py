"""A whole lab: made, taken down, and what can be done to its hosts. The commands, and tests, call this."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab import cgroups, image, inventory, network, state, uml
from lab import host as hosts
from lab.errors import LabError, UsageError
from lab.shell import call
from lab.state import Record, own_kernel

BOOT_TIMEOUT = 60.0  # seconds until a host that was started answers and has finished booting
SMALLEST_MEMORY = 64 << 20  # bytes that a host boots in
FILLER = "lab-fill"  # the file that `fill --full` writes
UNIT_SUFFIXES = (".service", ".socket", ".timer")


def silent(_: str) -> None:
    """For callers that want to hear nothing of the progress."""


@dataclasses.dataclass
class HostState:
    """The state of one host, as `lab status` tells it."""

    name: str
    address: str
    state: str  # running, off, frozen
    cable: str  # in, out
    lost: list[str]  # addresses from or to which frames are lost
    disks: list[str]
    memory: int  # bytes
    processes: int


class Lab:
    """One lab that exists. `Lab.open` finds it, `up` makes it."""

    def __init__(self, record: Record) -> None:
        self.record = record

    @classmethod
    def open(cls, name: str) -> Lab:
        """The lab of that name; LabError when there is none."""
        record = state.read(name)
        if record is None:
            others = [other for other in state.all_names() if state.read(other)]
            known = f"; there is {', '.join(others)} (--name)" if others else ""
            raise LabError(f"there is no lab '{name}': `lab up --name {name}` makes it{known}")
        return cls(record)

    # -- looking -------------------------------------------------------------------------------------------------

    def check(self, *names: str) -> None:
        """UsageError unless every name is a host of this lab."""
        for name in names:
            if name not in self.record.hosts:
                raise UsageError(f"no host '{name}' in lab '{self.record.name}': it has {', '.join(self.record.hosts)}")

    def status(self) -> list[HostState]:
        """The state of every host."""
        self.need_network()
        record, cables = self.record, network.plugged(self.record)
        drops = network.drops(record)
        found = []
        for name in record.hosts:
            path = hosts.group(record, name)
            memory, count = cgroups.usage(path)
            lost = [f"to {target or 'all'}" for source, target in drops if source == name]
            lost += [f"from {source}" for source, target in drops if target == name]
            power = ("frozen" if cgroups.frozen(path) else "running") if count else "off"
            found.append(
                HostState(
                    name=name,
                    address=record.address(name),
                    state=power,
                    cable="in" if cables[name] else "out",
                    lost=lost,
                    disks=[
                        f"{path} {image.stat().st_size >> 20}M" for path, image in hosts.disks(record, name).items()
                    ],
                    memory=memory,
                    processes=count,
                )
            )
        return found

    def need_network(self) -> None:
        """LabError while the lab's network is not there: an `up` was interrupted, or the machine has been restarted."""
        name = self.record.name
        if not network.whole(network.namespace(name)):
            raise LabError(f"lab '{name}' is only half there: `lab up --name {name}` completes it")

    # -- running things --------------------------------------------------------------------------------------------

    def ssh_command(self, host: str, *command: str) -> list[str]:
        """The whole command that runs something on a host, from the machine's own namespace."""
        self.check(host)
        return [*network.inside(self.record.name), *inventory.ssh(self.record, host), *command]

    def ssh(self, host: str, *command: str, text: str | None = None) -> str:
        """Run a shell command on a host and return its stdout; LabError when it fails."""
        done = subprocess.run(self.ssh_command(host, *command), input=text, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            told = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
            raise LabError(f"{host}: `{' '.join(command)}` ended with {done.returncode}: {told}")
        return done.stdout

    def become(self, command: Sequence[str]) -> None:
        """Replace this process by a command inside the lab's namespace, with Ansible's settings; never returns."""
        record = self.record
        self.need_network()
        if shutil.which(command[0]) is None:
            raise UsageError(f"there is no program '{command[0]}' on PATH")
        (record.directory / "ssh").mkdir(mode=0o700, exist_ok=True)
        cgroups.join_control(record.name)
        os.environ.update(inventory.environment(record))
        os.execvp("nsenter", [*network.inside(record.name), *command])  # noqa: S606 - becoming the command is the point

    def wait(self, *names: str, timeout: float = BOOT_TIMEOUT) -> None:
        """Wait until hosts answer on SSH and have booted without a failed unit; LabError names those that did not."""
        stop = threading.Event()
        with ThreadPoolExecutor(max_workers=max(1, len(names))) as pool:
            try:
                faults = [fault for fault in pool.map(lambda name: self.wait_one(name, timeout, stop), names) if fault]
            except BaseException:
                stop.set()  # Ctrl-C: the pool waits for its threads
                raise
        if faults:
            raise LabError("; ".join(faults))

    def wait_one(self, host: str, timeout: float, stop: threading.Event) -> str | None:
        """The reason why a host is not up after `timeout` seconds, or None. Needs a thread: it changes namespace."""
        slower = uml.SLOWER if own_kernel(host) else 1
        timeout *= slower
        record, end = self.record, time.monotonic() + timeout
        network.enter(record.name)
        while not network.greets(record.address(host), timeout=0.5 * slower):
            if hosts.ended(record, host):
                return f"{host} is off again; its console ends: {hosts.console(record, host)}"
            if time.monotonic() > end:
                return f"{host} does not answer after {timeout:g} s; its console ends: {hosts.console(record, host)}"
            if stop.wait(0.05):
                return f"{host} was not waited for"
        told = ""
        while time.monotonic() < end and not stop.is_set():
            done = subprocess.run(
                [*inventory.ssh(record, host), f"timeout {timeout:g} systemctl is-system-running --wait"],
                capture_output=True,
                text=True,
                check=False,
            )
            told = done.stdout.strip() or done.stderr.strip()
            if told == "running":
                return None
            if told == "degraded":
                failed = subprocess.run(
                    [*inventory.ssh(record, host), "systemctl --failed --plain --no-legend"],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                units = ", ".join(line.split()[0] for line in failed.stdout.splitlines() if line.split())
                return f"{host} has booted with failed units: {units}"
            stop.wait(0.1)
        return f"{host} has not finished booting after {timeout:g} s: {told}"

    def forget_connections(self, host: str) -> None:
        """Close the SSH master connection that Ansible keeps to a host: it would hang on a machine that is gone."""
        socket = self.record.directory / "ssh" / self.record.address(host)
        if socket.exists():
            with contextlib.suppress(LabError):
                call("ssh", "-F", "/dev/null", "-o", f"ControlPath={socket}", "-O", "exit", "lab", ok=range(256))
            socket.unlink(missing_ok=True)

    # -- power -----------------------------------------------------------------------------------------------------

    def start(self, *names: str, wait: bool = True) -> None:
        """Power hosts on, cable in, and wait for them."""
        self.check(*names)
        with state.lock(self.record.name):
            for name in names:
                network.make_host(self.record, name)
                hosts.power_on(self.record, name)
        if wait:
            self.wait(*names)

    def stop(self, *names: str) -> None:
        """Shut hosts down in good order."""
        self.check(*names)
        with state.lock(self.record.name):
            for name in names:
                cgroups.thaw(hosts.group(self.record, name))
            run_all(lambda name: hosts.shut_down(self.record, name), names)
            for name in names:
                self.forget_connections(name)

    def kill(self, *names: str) -> None:
        """Power loss: cables first, then everything dies at once."""
        self.check(*names)
        with state.lock(self.record.name):
            self.need_network()
            for name in names:
                network.plug(self.record, name, up=False)
            for name in names:
                hosts.power_off(self.record, name)
                self.forget_connections(name)

    def wipe(self, *names: str, wait: bool = True) -> None:
        """Back to the bare OS, as after a new installation: another host key, no small disks. Hosts end up running."""
        self.check(*names)
        record = self.record
        with state.lock(record.name):
            for name in names:
                hosts.power_off(record, name)
                self.forget_connections(name)
                old = record.host_directory(name).with_name(f".{name}.old")
                shutil.rmtree(old, ignore_errors=True)
                with contextlib.suppress(FileNotFoundError):
                    record.host_directory(name).rename(old)
                shutil.rmtree(old, ignore_errors=True)
                hosts.create(record, name)
                network.make_host(record, name)
                hosts.power_on(record, name)
            inventory.write(record)
        if wait:
            self.wait(*names)

    # -- faults ----------------------------------------------------------------------------------------------------

    def cut(self, host: str, peer: str | None = None, *, oneway: bool = False) -> None:
        """Pull a host's cable, or lose all frames between it and a peer; `oneway`: only those that the host sends."""
        self.check(host, *([peer] if peer else []))
        if host == peer:
            raise UsageError(f"{host} cannot be cut from itself")
        if not peer and not oneway:
            network.plug(self.record, host, up=False)
            return
        wanted = [(host, peer)] if oneway or not peer else [(host, peer), (peer, host)]
        with state.lock(self.record.name):
            there = network.drops(self.record)
            for source, target in wanted:
                if (source, target) not in there:
                    network.drop(self.record, source, target)

    def heal(self, host: str | None = None) -> None:
        """Undo every cut, of one host or of all. A host without power gets its cable back at its start."""
        self.check(*([host] if host else []))
        with state.lock(self.record.name):
            for name in [host] if host else self.record.hosts:
                if hosts.running(self.record, name):
                    network.plug(self.record, name, up=True)
            network.flush(self.record, host)

    def freeze(self, *names: str) -> None:
        """Hang hosts: they answer nothing, and their connections stay open."""
        self.check(*names)
        for name in names:
            self.need_power(name)
            cgroups.freeze(hosts.group(self.record, name))

    def thaw(self, *names: str) -> None:
        """Let hosts go on, all without a name."""
        self.check(*names)
        for name in names or self.record.hosts:
            cgroups.thaw(hosts.group(self.record, name))

    def need_power(self, host: str) -> None:
        """LabError unless the host has power."""
        self.check(host)
        if not hosts.running(self.record, host):
            raise LabError(f"{host} is off: `lab start {host}` first")

    def fill(self, host: str, directory: str, size: str, *, full: bool = False) -> None:
        """Give a directory of a host a small disk of its own (size 0: take it away); `full`: fill it to the brim.

        The disk starts with what the directory holds. The host is restarted.
        """
        self.check(host)
        if own_kernel(host):
            raise UsageError(f"{host} has no small disks: its kernel says that it has written what did not fit")
        hosts.check_directory(directory)
        wanted = hosts.parse_size(size)
        record = self.record
        there = hosts.disks(record, host).get(directory)
        if there and wanted and there.stat().st_size != wanted:
            has = f"{there.stat().st_size >> 20}M"
            raise UsageError(
                f"{directory} of {host} has a disk of {has}: take it away with `lab fill {host} {directory} 0`"
            )
        if (there is None) == bool(wanted):
            was_on = hosts.running(record, host)
            self.stop(host)
            with state.lock(record.name):
                if there:
                    hosts.remove_disk(there)
                else:
                    hosts.add_disk(record, host, directory, wanted)
            if was_on or full:
                self.start(host)
        if full and wanted:
            self.need_power(host)
            # in two turns: after the sync, what ext4 set aside for blocks that it had not placed yet is free again
            file = f"{directory}/{FILLER}"
            self.ssh(
                host, f"(cat /dev/zero; sync -f {file}; dd if=/dev/zero bs=1k) >>{file} 2>/dev/null; sync -f {file}"
            )

    def skew(self, host: str, unit: str, seconds: int) -> None:
        """Make one unit's wall clock wrong by so many seconds (0: right again); the unit is restarted if it runs."""
        self.need_power(host)
        name = unit if unit.endswith(UNIT_SUFFIXES) else f"{unit}.service"
        if not all(part.isalnum() or part in "-_.@" for part in name):
            raise UsageError(f"unit '{unit}': expected a name such as judge-mongodb")
        drop_in = f"/etc/systemd/system/{name}.d/lab-skew.conf"
        if seconds:
            make = (
                "library=$(ls /usr/lib/*/faketime/libfaketime.so.1) && "
                f'mkdir -p "$(dirname {drop_in})" && printf "[Service]\\nEnvironment=LD_PRELOAD=%s '
                f"FAKETIME={seconds:+d}s "
                f'FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME_DISABLE_SHM=1\\n" "$library" >{drop_in}'
            )
        else:
            make = f"rm -f {drop_in}; rmdir --ignore-fail-on-non-empty $(dirname {drop_in}) 2>/dev/null || true"
        self.ssh(host, f"set -e; {make}; systemctl daemon-reload; systemctl try-restart {name}")


def run_all(action: Callable[[str], None], names: Sequence[str]) -> None:
    """Do something to several hosts at once; the first fault is raised when all are through."""
    with ThreadPoolExecutor(max_workers=max(1, len(names))) as pool:
        list(pool.map(action, names))


def up(
    name: str,
    names: list[str] | None = None,
    release: str | None = None,
    *,
    bundle: Path | None = None,
    memory: str | None = None,
    inventory_directory: Path | None = None,
    tell: Callable[[str], None] = silent,
) -> Lab:
    """Make a lab, or complete one: every host of it (and every new one named) runs, is reachable and has booted.

    What is not said stays as it was, or becomes the default: six hosts, trixie. Interrupted at any point, the next
    `up` goes on from there and the next `down` removes what there is.
    """
    state.check_name(name)
    former = state.read(name)
    wanted = release or (former.release if former else state.RELEASES[0])
    if wanted not in state.RELEASES:
        raise UsageError(f"release '{wanted}': expected {' or '.join(state.RELEASES)}")
    if bundle and not bundle.is_dir():
        raise UsageError(f"--bundle {bundle}: expected a directory")
    if memory and hosts.parse_size(memory) < SMALLEST_MEMORY:
        raise UsageError(f"--memory {memory}: expected at least {SMALLEST_MEMORY >> 20}M")
    cgroups.hierarchies()
    if any(own_kernel(host) for host in names or (former.hosts if former else ())):
        uml.prepare()
    # a lab keeps its image, also where the recipe has changed since
    base = Path(former.base) if former and former.release == wanted else image.path(wanted)
    if not base.is_dir():
        base = image.ensure(wanted, tell)
    with state.lock(name):
        record = settle(name, wanted, base)
        record.add_hosts(names or list(record.hosts) or state.parse_hosts(state.DEFAULT_HOSTS))
        record.memory = memory or record.memory
        if bundle:
            record.bundle = str(bundle.resolve())
        if inventory_directory:
            record.inventory = str(inventory_directory.resolve())
        record.save()
        key = record.directory / "id_ed25519"
        if not key.with_suffix(".pub").is_file():
            key.unlink(missing_ok=True)
            call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"lab {name}", "-f", str(key))
        network.make(record)
        network.flush(record)
        for host in record.hosts:
            hosts.create(record, host)
            network.make_host(record, host)
            cgroups.thaw(hosts.group(record, host))
            hosts.power_on(record, host)
        inventory.write(record)
    lab = Lab(record)
    tell(f"waiting for {', '.join(record.hosts)}")
    lab.wait(*record.hosts)
    return lab


def settle(name: str, release: str, base: Path) -> Record:
    """The lab's record, made now if need be; nothing of a lab exists before its record does."""
    record = state.read(name)
    if record is None:
        with state.lock(""):
            record = Record(name, state.free_index(), release, str(base), str(inventory.default_directory(name)))
            record.save()
    if record.release != release:
        raise UsageError(f"lab '{name}' runs {record.release}: `lab down --name {name}` before it can run {release}")
    if not Path(record.base).is_dir():
        record.base = str(base)  # the cache was emptied meanwhile
    return record


def down(name: str) -> bool:
    """Remove a lab with everything of it, also one that is half-made or half-removed; False when there was nothing."""
    state.check_name(name)
    if cgroups.inside_control(name):
        raise LabError(f"this command runs inside `lab run` of lab '{name}': take the lab down from outside of it")
    directory = state.state_root() / name
    old = directory.with_name(f".{name}.old")
    if not (directory.exists() or old.exists() or network.names(name) or name in cgroups.names()):
        return False
    with state.lock(name) as lock:
        record = state.read(name)
        cgroups.remove(cgroups.group(name))
        cgroups.remove_top()
        with state.lock(""):
            network.remove(name)
        inventory.remove(Path(record.inventory) if record else inventory.default_directory(name))
        # last, as it says what there is to remove; renamed, so that a torn removal is not taken for a lab
        shutil.rmtree(old, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            directory.rename(old)
        shutil.rmtree(old, ignore_errors=True)
        lock.unlink(missing_ok=True)
    return True
