"""A cluster on lab hosts, deployed by site.yml: what the tests of the deployment do with it and ask it."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from lab import cluster
from lab.cluster import Lab

ROOT = Path(__file__).resolve().parents[2]
CALLBACKS = ROOT / "tests/support/callbacks"
BIN = Path(sys.executable).parent
# All that a deployment writes on a host, apart from keys and certificates, which are made anew on a wiped one.
WRITTEN = "/etc/judge /etc/systemd/system /etc/systemd/journald.conf.d /etc/sysctl.d /etc/tmpfiles.d /etc/nginx"
# All that there is on a host, apart from what it writes itself while it runs.
PASSED_OVER = ["/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp", "/var/log", "/var/lib/systemd", "/opt/judge/bundle"]


@dataclasses.dataclass
class Run:
    """One run of ansible-playbook: its exit code, what it printed, and what its tasks did."""

    code: int
    text: str
    tasks: list[str]
    changed: set[tuple[str, str]]  # (host, task)

    def check(self) -> Run:
        """Itself; AssertionError with the end of the output when it failed."""
        assert self.code == 0, f"ansible-playbook ended with {self.code}:\n{self.text[-6000:]}"
        return self


def make_bundle() -> Path:
    """$JUDGE_TEST_BUNDLE, or the one in out/bundle, made or brought up to date."""
    given = os.environ.get("JUDGE_TEST_BUNDLE")
    if given:
        return Path(given)
    bundle = ROOT / "out/bundle"
    command = [str(BIN / "ansible-playbook"), "playbooks/bundle.yml", "-e", f"judge_bundle={bundle}"]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"PATH": _path()}, check=True, capture_output=True, text=True)
    return bundle


def _path() -> str:
    return f"{BIN}{os.pathsep}{os.environ['PATH']}"


class Deployment:
    """A lab and the runs of playbooks against it."""

    def __init__(self, lab: Lab, work: Path) -> None:
        self.lab, self.work = lab, work
        self.name, self.hosts = lab.record.name, list(lab.record.hosts)
        self.inventory = Path(lab.record.inventory)

    def command(self, *arguments: str) -> list[str]:
        """A command line that runs in the lab's network."""
        return [sys.executable, "-m", "lab", "run", "--name", self.name, "--", *arguments]

    def play(self, *arguments: str, kill_at: int = 0, timeout: float = 1200) -> Run:
        """Run ansible-playbook; `kill_at` kills it when it begins its Nth task."""
        record = self.work / "record.jsonl"
        record.unlink(missing_ok=True)
        environment = os.environ | {
            "PATH": _path(),
            "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
            "ANSIBLE_CALLBACKS_ENABLED": "judge_record",
            "ANSIBLE_NOCOLOR": "1",
            "JUDGE_RECORD": str(record),
            "JUDGE_KILL_AT": str(kill_at),
        }
        done = subprocess.run(
            self.command("ansible-playbook", *arguments), cwd=ROOT, env=environment, timeout=timeout, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        (self.work / "last.log").write_text(done.stdout)
        lines = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
        return Run(
            done.returncode,
            done.stdout,
            [line["task"] for line in lines if "number" in line],
            {(line["host"], line["task"]) for line in lines if line.get("changed")},
        )

    def site(self, *arguments: str, **options: int) -> Run:
        """Run site.yml."""
        return self.play("site.yml", *arguments, **options)

    def everything(self, host: str) -> str:
        """A listing of all files of a host with owner, mode, size and time of change."""
        pruned = " -o ".join(f"-path {shlex.quote(path)}" for path in PASSED_OVER)
        form = r"%p %y %m %U:%G %s %T@ %l\n"
        return self.lab.ssh(host, f"find / -xdev \\( {pruned} \\) -prune -o ! -type d -printf '{form}' | sort")

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

    def secret(self, name: str) -> str:
        """The text of one of the controller's secrets."""
        return (self.inventory / "secrets" / name).read_text().strip()

    def record(self) -> dict[str, object]:
        """The cluster's record on the controller."""
        found: dict[str, object] = yaml.safe_load((self.inventory / "secrets/cluster.yml").read_text())
        return found


@contextmanager
def deployment(name: str, hosts: list[str], work: Path, *, release: str = "trixie") -> Iterator[Deployment]:
    """Bare hosts that are gone afterwards. $JUDGE_TEST_LAB names a lab to use as it is, and to keep."""
    kept = os.environ.get("JUDGE_TEST_LAB")
    if kept:
        yield Deployment(Lab.open(kept), work)
        return
    inventory = work / "inventory"
    inventory.mkdir()
    try:
        yield Deployment(cluster.up(name, hosts, release, bundle=make_bundle(), inventory_directory=inventory), work)
    finally:
        cluster.down(name)
