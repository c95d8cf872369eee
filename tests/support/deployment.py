"""Lab hosts of a test's own, playbooks that are run against them, and what is on their disks.

For every test that deploys something; tests.support.deployed is the cluster that comes out of it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import shlex
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import yaml

from lab import cluster
from lab.cluster import Lab

ROOT = Path(__file__).resolve().parents[2]
CALLBACKS = ROOT / "tests/support/callbacks"
BIN = Path(sys.executable).parent
RELEASE = "trixie"
PLAYBOOK_TIMEOUT = 1800.0  # seconds; a whole deployment takes a minute and a half on two idle cores
# All that a deployment writes on a host, apart from keys and certificates, which are made anew on a wiped one.
WRITTEN = "/etc/judge /etc/systemd/system /etc/systemd/journald.conf.d /etc/sysctl.d /etc/tmpfiles.d /etc/nginx"
# All that there is on a host, apart from what it writes itself while it runs.
PASSED_OVER = ["/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp", "/var/log", "/var/lib/systemd", "/opt/judge/bundle"]


@dataclasses.dataclass
class Run:
    """One run of ansible-playbook: its exit code, what it printed, how long it took, and what its tasks did."""

    code: int
    text: str
    seconds: float
    tasks: list[str]
    hosts: set[str]  # that any task has succeeded on
    changed: set[tuple[str, str]]  # (host, task)

    def check(self) -> Run:
        """Itself; AssertionError with the end of the output when it failed."""
        assert self.code == 0, f"ansible-playbook ended with {self.code}:\n{self.text[-6000:]}"
        return self

    def changed_on(self, host: str) -> set[str]:
        """The tasks that changed a host."""
        return {task for one, task in self.changed if one == host}


def changed(runs: Iterable[Run]) -> set[tuple[str, str]]:
    """What runs changed together, such as one that was killed and those that went on."""
    return set[tuple[str, str]]().union(*(run.changed for run in runs))


def environment() -> dict[str, str]:
    """What playbooks and judgectl are started with: this project's own programs first, no colours, no line breaks."""
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return {**os.environ, "PATH": path, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORCE_COLOR": "0", "COLUMNS": "1000"}


def bundle(kind: str = "", *arguments: str) -> Path:
    """The bundle to deploy from: $JUDGE_TEST_BUNDLE, else that of `make lab` and molecule, brought up to date.

    That needs a route out, so it is never done inside of a lab; others may install from it at the same time. `kind`:
    the name of another one, which is made with `arguments`.
    """
    given = os.environ.get("JUDGE_TEST_BUNDLE")
    if given and not kind:
        return Path(given)
    path = ROOT / "out" / f"bundle-{kind or RELEASE}"
    path.parent.mkdir(exist_ok=True)
    with Path(f"{path}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        make_bundle(path, *arguments)
    return path


def make_bundle(path: Path, *arguments: str) -> None:
    """Make a bundle, or bring it up to date; AssertionError with what the playbook said when it fails."""
    command = [str(BIN / "ansible-playbook"), "-i", "inventory/example", "playbooks/bundle.yml"]
    made = subprocess.run(
        [*command, "-e", f"judge_bundle={path}", "-e", f"judge_bundle_release={RELEASE}", *arguments],
        cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        timeout=PLAYBOOK_TIMEOUT,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout[-6000:]


class Deployment:
    """A lab and the runs of playbooks against it; `work` is a directory of the test's own."""

    def __init__(self, lab: Lab, work: Path, inventory: Path | None = None) -> None:
        """`inventory`: a directory or a file; the lab's own unless another is named."""
        self.lab, self.work = lab, work
        self.name, self.hosts = lab.record.name, list(lab.record.hosts)
        self.inventory = inventory or Path(lab.record.inventory)

    # --- commands ----------------------------------------------------------------------------------------------

    def command(self, *arguments: str) -> list[str]:
        """A command line that runs in the lab's network."""
        return [sys.executable, "-m", "lab", "run", "--name", self.name, "--", *arguments]

    def judgectl(self, *arguments: str, timeout: float = 300.0) -> subprocess.CompletedProcess[str]:
        """Run judgectl as on the controller: it knows nothing but the inventory."""
        return subprocess.run(
            self.command("judgectl", "-i", str(self.inventory), *arguments),
            cwd=ROOT, env=environment(), capture_output=True, text=True, check=False, timeout=timeout,
        )  # fmt: skip

    def play(self, *arguments: str, kill_at: int = 0, timeout: float = PLAYBOOK_TIMEOUT) -> Run:
        """Run ansible-playbook; `kill_at` kills it when it begins its Nth task."""
        record = self.work / "record.jsonl"
        record.unlink(missing_ok=True)
        settings = environment() | {
            "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
            "ANSIBLE_CALLBACKS_ENABLED": "judge_record",
            "JUDGE_RECORD": str(record),
            "JUDGE_KILL_AT": str(kill_at),
        }
        began = time.monotonic()
        done = subprocess.run(
            self.command("ansible-playbook", "-i", str(self.inventory), *arguments), cwd=ROOT, env=settings,
            timeout=timeout, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, start_new_session=True,
        )  # fmt: skip
        seconds = time.monotonic() - began
        (self.work / "last.log").write_text(done.stdout)
        lines = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
        return Run(
            done.returncode,
            done.stdout,
            seconds,
            [line["task"] for line in lines if "number" in line],
            {line["host"] for line in lines if "host" in line},
            {(line["host"], line["task"]) for line in lines if line.get("changed")},
        )

    def site(self, *arguments: str, kill_at: int = 0) -> Run:
        """Run site.yml."""
        return self.play("site.yml", *arguments, kill_at=kill_at)

    # --- what is on the hosts and on the controller ------------------------------------------------------------

    def undisturbed(self) -> None:
        """Stop all timers, so that nothing of the hosts' own happens between two looks at their disks."""
        for host in self.hosts:
            self.lab.ssh(host, "systemctl stop '*.timer'")

    def everything(self, host: str) -> dict[str, str]:
        """All files of a host by path: kind, mode, owner, size, and the time of the last change of any of these."""
        pruned = " -o ".join(f"-path {shlex.quote(path)}" for path in PASSED_OVER)
        # A directory's time changes with every temporary file in it.
        form = r"\( -type d -printf '%p\t%y %m %U:%G\n' -o -printf '%p\t%y %m %U:%G %s %C@ %l\n' \)"
        told = self.lab.ssh(host, f"find / \\( {pruned} \\) -prune -o {form}; ls -d /run/judge* 2>/dev/null; true")
        return {path: rest for path, _, rest in (line.partition("\t") for line in told.splitlines())}

    def contents(self, host: str) -> dict[str, str]:
        """The SHA-256 of each file of a host by its path."""
        pruned = " -o ".join(f"-path {shlex.quote(path)}" for path in PASSED_OVER)
        told = self.lab.ssh(host, f"find / \\( {pruned} \\) -prune -o -type f -exec sha256sum {{}} +")
        return {path: digest for digest, _, path in (line.partition("  ") for line in told.splitlines())}

    def written(self, host: str) -> str:
        """A listing of what a deployment writes on a host, with SHA-256, owner and mode."""
        find = f"find {WRITTEN} -path /etc/judge/tls -prune -o -type f"
        listing = f"{find} -printf '%p %m %u:%g\\n' 2>/dev/null | sort"
        return self.lab.ssh(host, f"{{ {find} -exec sha256sum {{}} + 2>/dev/null | sort -k2; {listing}; true; }}")

    def restarts(self, host: str) -> dict[str, str]:
        """When each of a host's services was started, by its unit's invocation."""
        units = "judge-*.service"
        told = self.lab.ssh(host, f"systemctl show --property=Id,InvocationID --value '{units}'").split()
        return dict(zip(told[::2], told[1::2], strict=False))

    @property
    def secrets(self) -> Path:
        """The cluster's secrets on the controller."""
        return (self.inventory if self.inventory.is_dir() else self.inventory.parent) / "secrets"

    def secret(self, name: str) -> str:
        """The text of one of them."""
        return (self.secrets / name).read_text().strip()

    def record(self) -> dict[str, object]:
        """The cluster's record on the controller."""
        found: dict[str, object] = yaml.safe_load((self.secrets / "cluster.yml").read_text())
        return found


def differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """The paths that differ in two looks at `everything`."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def files_below(directory: Path) -> dict[str, tuple[int, bytes]]:
    """Mode and content of every file of a directory of this machine, by path."""
    return {
        path.relative_to(directory).as_posix(): (path.lstat().st_mode, path.read_bytes())
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@contextlib.contextmanager
def bare_hosts(hosts: Sequence[str], work: Path, *, software: Path | None = None) -> Iterator[Deployment]:
    """Bare hosts in a lab with a name of its own; nothing is left of it afterwards.

    $JUDGE_TEST_LAB names a lab to use as it is (made when there is none), and to keep. `software`: the bundle; without
    one nothing can be installed.
    """
    kept = os.environ.get("JUDGE_TEST_LAB")
    name = kept or f"t{uuid.uuid4().hex[:8]}"
    inventory = None if kept else work / "inventory"
    if inventory:
        inventory.mkdir(exist_ok=True)
    try:
        yield Deployment(cluster.up(name, list(hosts), RELEASE, bundle=software, inventory_directory=inventory), work)
    finally:
        if not kept:
            cluster.down(name)
