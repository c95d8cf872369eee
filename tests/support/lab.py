"""Lab hosts and what is deployed on them: playbooks, secrets, proxies, SSH servers, jump hosts."""

from __future__ import annotations

import base64
import concurrent.futures
import contextlib
import dataclasses
import fcntl
import functools
import hashlib
import http.client
import json
import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import paramiko
import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from paramiko import common

from judge.common.errors import JudgeError
from judge.ctl.api import Api
from judge.ctl.context import from_file
from judge.deploy.bundle import debs
from judge.deploy.bundle.files import describe
from judge.model.overview import StatusReply
from lab import cgroups, cluster, image, network, shell, state
from lab.cluster import Lab
from lab.errors import LabError
from tests.support.clients import Stream
from tests.support.servers import Acceptor, answer_http, serving, wait_for

# Namespaces of every kind that hosts are made of, and the two mounts that their disks are.
TRIAL = """
mount --make-rprivate /
mount -t tmpfs tmpfs /tmp
mkdir /tmp/lower /tmp/upper /tmp/work /tmp/root
mount -t overlay overlay -o lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work /tmp/root
"""


@functools.cache
def no_hosts() -> str:
    """Why no host with a systemd of its own can run here; empty when it can. Nothing of the trial stays."""
    if os.geteuid() != 0:
        return "a host of its own needs root (namespaces, mounts, cgroups)"
    for program in ("unshare", "nsenter", "ip", "pivot_root"):
        if shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:{shell.SBIN}") is None:
            return f"a host of its own needs the program {program}"
    command = ["unshare", "-m", "-p", "-u", "-i", "-n", "-C", "--fork", "--kill-child", "sh", "-ec", TRIAL]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if completed.returncode != 0:
        message = (completed.stderr.strip() or "no message").splitlines()[-1]
        return f"namespaces and mounts of its own cannot be made here: {message}"
    return ""


@functools.cache
def no_lab() -> str:
    """Why no lab (docs/lab.md) can run here; empty when it can. Its base image is made later, when it is missing."""
    try:
        shell.prepare()
        cgroups.hierarchies()
    except LabError as exc:
        return f"no lab here: {exc}"
    return no_hosts()


Figure = Callable[[str], None]  # the fixture `figure`


def lab_marks(timeout: int | None = None) -> list[pytest.MarkDecorator]:
    """Of a module whose tests need a lab; `timeout` in seconds, of each of them."""
    marks = [pytest.mark.root, pytest.mark.skipif(bool(no_lab()), reason=no_lab() or "possible")]
    return marks + ([pytest.mark.timeout(timeout)] if timeout else [])


SHORTEST = 16  # characters; what is shorter is no secret, and would be found by chance
PIECE = 32  # characters of a long line that are looked for at a time, so that a part of a secret counts too
PERIOD = 0.02  # seconds between two looks at the processes
# Of the secrets directory and of /etc/judge, everything else is secret: a new file is looked after by itself.
PUBLIC = (".crt", ".yml", ".lock", ".pub")
# mongod reads key and certificate from one file, which its daemon writes into its own data directory.
HOMES = ("/var/lib/judge/mongodb/judge-tls.pem",)
Needles = dict[str, str]  # secrets that are looked for, and their owners

_READ = r"""
import base64, json, os, sys
found = {}
for top, _, names in os.walk("/etc/judge"):
    for name in names:
        path = os.path.join(top, name)
        if not name.endswith(tuple(PUBLIC)):
            with open(path, "rb") as file:
                found[path] = file.read().decode("latin-1")
json.dump(found, sys.stdout)
"""

# Everything that may hold a copy; the daemons' own journal and databases are read by their own programs.
_SEARCH = r"""
import json, os, stat, sys
roots = ["/etc", "/home", "/opt/judge", "/root", "/run", "/tmp", "/var"]
skip = ["/opt/judge/bundle", "/opt/judge/bundle.former", "/opt/judge/releases", "/run/log", "/var/log/journal",
        "/var/lib/judge/mongodb/journal"]
needles = [(needle.encode(), name) for needle, name in NEEDLES.items()]
found = set()
for root in roots:
    for top, folders, names in os.walk(root):
        folders[:] = [name for name in folders if os.path.join(top, name) not in skip]
        for name in names:
            path = os.path.join(top, name)
            try:
                here = os.lstat(path)
                home = path in HOMES or path.startswith("/etc/judge/") and not name.endswith(tuple(PUBLIC))
                home = home and not here.st_mode & 0o007
                if home or not stat.S_ISREG(here.st_mode) or here.st_size > 64 << 20:
                    continue
                with open(path, "rb") as file:
                    data = file.read()
            except OSError:
                continue
            found.update((path, whose) for needle, whose in needles if needle in data)
json.dump(sorted(found), sys.stdout)
"""


def forms(text: str) -> Iterator[str]:
    """A secret as it may show: itself, in hex, and inside of base64, wherever it begins there."""
    data = text.encode("latin-1")
    yield text
    yield data.hex()
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data).decode()
        # the first and the last characters depend on what stands around it
        yield encoded[4 if before else 0 : len(encoded) - 4]


def pieces(text: str) -> Iterator[str]:
    """Of a secret's text what is looked for: lines that are long enough, very long ones in pieces."""
    if text.startswith("-----BEGIN"):
        yield from key_pieces(text)
        return
    for line in text.splitlines():
        bare = line.strip()
        if len(bare) >= 2 * PIECE:
            yield from (bare[start : start + PIECE] for start in range(0, len(bare) - PIECE + 1, PIECE))
        elif len(bare) >= SHORTEST:
            yield bare


def key_pieces(pem: str) -> Iterator[str]:
    """The parts of a private key's lines that only it has: its public half is in certificates, its head in all keys."""
    lines = [line for line in pem.splitlines() if line and not line.startswith("-----")]
    start, end = len(lines[0]), len("".join(lines))  # of an encrypted key: all but how it is encrypted
    if "ENCRYPTED" not in pem:
        key = serialization.load_pem_private_key(pem.encode(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError("only elliptic-curve keys are known here; say which part of the new kind is secret")
        number = key.private_numbers().private_value.to_bytes((key.key_size + 7) // 8, "big")
        first = base64.b64decode("".join(lines)).index(number)
        start, end = -(-first // 3) * 4, (first + len(number)) // 3 * 4
    at = 0
    for line in lines:
        part = line[max(start - at, 0) : max(end - at, 0)]
        if len(part) >= SHORTEST:
            yield part
        at += len(line)


def needles(name: str, text: str) -> Needles:
    """What to look for, of one secret called `name`."""
    return {form: name for piece in pieces(text) for form in forms(piece)}


def of_controller(directory: Path) -> Needles:
    secrets: Needles = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not path.name.endswith(PUBLIC):
            secrets |= needles(f"the controller's {path.relative_to(directory)}", path.read_text(encoding="latin-1"))
    return secrets


def of_hosts(lab: Lab) -> Needles:
    """Every secret in /etc/judge of every host: key pairs, passwords, keys."""
    secrets: Needles = {}
    for host in lab.record.hosts:
        script = f"PUBLIC = {PUBLIC!r}\n{_READ}"
        files: dict[str, str] = json.loads(lab.ssh(host, "/usr/bin/python3 -", text=script))
        for path, text in files.items():
            secrets |= needles(f"{host}:{path}", text)
    return secrets


def leaks(secrets: Needles, texts: Mapping[str, str]) -> list[str]:
    """One sentence for each secret that shows in one of the texts (by where they are from); never the secret itself."""
    sentences: dict[str, None] = {}
    for origin, text in texts.items():
        for needle, name in secrets.items():
            at = text.find(needle)
            if at >= 0:
                sentences[f"{origin}, line {text.count(chr(10), 0, at) + 1}, shows {name}"] = None
    return list(sentences)


def copies_on(lab: Lab, host: str, secrets: Needles) -> list[str]:
    """One sentence for each file of a host that holds a secret and is not the secret's own file in /etc/judge."""
    script = f"PUBLIC = {PUBLIC!r}\nHOMES = {HOMES!r}\nNEEDLES = {secrets!r}\n{_SEARCH}"
    copies: list[list[str]] = json.loads(lab.ssh(host, "/usr/bin/python3 -", text=script))
    return [f"{host}:{path} holds {name}" for path, name in copies]


def journal(lab: Lab, host: str) -> str:
    return lab.ssh(host, "journalctl --no-pager --all --output=verbose")


def shown_on_hosts(lab: Lab, secrets: Needles) -> list[str]:
    """One sentence for each secret in a host's journal or in a file of it that is not its own."""
    hosts = lab.record.hosts
    sentences = leaks(secrets, {f"the journal of {host}": journal(lab, host) for host in hosts})
    return sentences + [text for host in hosts for text in copies_on(lab, host, secrets)]


class ProcessWatch:
    """What any user of a host may see while something is done: arguments of all processes; their environment, too.

    Counts are the lab's own processes, on its hosts and of `lab run`; a process that lives for less than PERIOD may
    be missed.
    """

    def __init__(self, lab: Lab) -> None:
        self.group = cgroups.controller("pids") / cgroups.group(lab.record.name)
        self.texts: set[bytes] = set()
        self.looks = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="process watch")

    def __enter__(self) -> ProcessWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def text(self) -> str:
        return "\n".join(sorted(line.decode("latin-1").replace("\0", " ").replace("\n", " ") for line in self.texts))

    def _run(self) -> None:
        while not self._stop.wait(PERIOD):
            self.look()

    def look(self) -> None:
        self.looks += 1
        for directory, _, _ in os.walk(self.group):  # it passes over cgroups that go away meanwhile
            try:
                numbers = Path(directory, "cgroup.procs").read_text().split()
            except OSError:
                continue  # the cgroup is gone
            for number in numbers:
                for name in ("cmdline", "environ"):
                    try:
                        self.texts.add(Path("/proc", number, name).read_bytes())
                    except OSError:
                        continue  # the process is gone


_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")
# Files that are a secret as a whole, by their names.
_WHOLE = re.compile(r"\.token$|session\.key$|password|keyfile|\.secret$", re.IGNORECASE)


def secrets_of(directory: Path) -> set[bytes]:
    """The contents of the files that are secrets."""
    texts = {path.read_bytes().strip() for path in directory.rglob("*") if path.is_file() and _WHOLE.search(path.name)}
    return {text for text in texts if len(text) >= 8}


def exposed(directory: Path) -> list[str]:
    """Files with a secret in them that are not their owner's alone, and folders that others may enter."""
    secrets = secrets_of(directory)
    assert secrets, "there are secrets, or the search is for the wrong names"
    paths = []
    for path in [directory, *directory.rglob("*")]:
        mode = path.lstat().st_mode
        if not mode & 0o077 or path.is_symlink():
            continue
        if path.is_dir():
            paths.append(f"{path} {mode:o}")
        elif path.is_file():
            data = path.read_bytes()
            if _KEY.search(data) or any(secret in data for secret in secrets):
                paths.append(f"{path} {mode:o}")
    return paths


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
        return {task for changed_host, task in self.changed if changed_host == host}


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
    path_given = os.environ.get("JUDGE_TEST_BUNDLE")
    if path_given and not kind:
        return Path(path_given)
    path = ROOT / "out" / f"bundle-{kind or RELEASE}"
    path.parent.mkdir(exist_ok=True)
    with Path(f"{path}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        make_bundle(path, *arguments)
    return path


def make_bundle(path: Path, *arguments: str) -> None:
    """Make a bundle, or bring it up to date; AssertionError with what the playbook said when it fails."""
    command = [str(BIN / "ansible-playbook"), "-i", "inventory/example", "playbooks/bundle.yml"]
    completed = subprocess.run(
        [*command, "-e", f"judge_bundle={path}", "-e", f"judge_bundle_release={RELEASE}", *arguments],
        cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        timeout=PLAYBOOK_TIMEOUT,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stdout[-6000:]


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
        completed = subprocess.run(
            self.command("ansible-playbook", "-i", str(self.inventory), *arguments), cwd=ROOT, env=settings,
            timeout=timeout, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, start_new_session=True,
        )  # fmt: skip
        seconds = time.monotonic() - began
        (self.work / "last.log").write_text(completed.stdout)
        lines = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
        return Run(
            completed.returncode,
            completed.stdout,
            seconds,
            [line["task"] for line in lines if "number" in line],
            {line["host"] for line in lines if "host" in line},
            {(line["host"], line["task"]) for line in lines if line.get("changed")},
        )

    def site(self, *arguments: str, kill_at: int = 0) -> Run:
        return self.play("site.yml", *arguments, kill_at=kill_at)

    def rehearsed(self, *arguments: str) -> Run:
        """A run that changes just what check mode has said before."""
        preview = self.play(*arguments, "--check", "--diff").check()
        run = self.play(*arguments).check()
        assert run.changed == preview.changed
        return run

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
        output = self.lab.ssh(host, f"find / \\( {pruned} \\) -prune -o {form}; ls -d /run/judge* 2>/dev/null; true")
        return {path: facts for path, _, facts in (line.partition("\t") for line in output.splitlines())}

    def contents(self, host: str) -> dict[str, str]:
        pruned = " -o ".join(f"-path {shlex.quote(path)}" for path in PASSED_OVER)
        output = self.lab.ssh(host, f"find / \\( {pruned} \\) -prune -o -type f -exec sha256sum {{}} +")
        return {path: digest for digest, _, path in (line.partition("  ") for line in output.splitlines())}

    def fingerprint(self, host: str) -> str:
        """A listing of what a deployment writes on a host, with SHA-256, owner and mode."""
        find = f"find {WRITTEN} -path /etc/judge/tls -prune -o -type f"
        listing = f"{find} -printf '%p %m %u:%g\\n' 2>/dev/null | sort"
        return self.lab.ssh(host, f"{{ {find} -exec sha256sum {{}} + 2>/dev/null | sort -k2; {listing}; true; }}")

    def restarts(self, host: str) -> dict[str, str]:
        """When each of a host's services was started, by its unit's invocation."""
        units = "judge-*.service"
        output = self.lab.ssh(host, f"systemctl show --property=Id,InvocationID --value '{units}'").split()
        return dict(zip(output[::2], output[1::2], strict=False))

    @property
    def secrets(self) -> Path:
        """The cluster's secrets on the controller."""
        return (self.inventory if self.inventory.is_dir() else self.inventory.parent) / "secrets"

    def secret(self, name: str) -> str:
        return (self.secrets / name).read_text().strip()

    def all_secrets(self) -> Needles:
        return of_controller(self.secrets) | of_hosts(self.lab)

    def record(self) -> dict[str, object]:
        document: dict[str, object] = yaml.safe_load((self.secrets / "cluster.yml").read_text())
        return document


def differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
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
    kept_lab = os.environ.get("JUDGE_TEST_LAB")
    name = kept_lab or f"t{uuid.uuid4().hex[:8]}"
    inventory = None if kept_lab else work / "inventory"
    if inventory:
        inventory.mkdir(exist_ok=True)
    try:
        yield Deployment(cluster.up(name, list(hosts), RELEASE, bundle=software, inventory_directory=inventory), work)
    finally:
        if not kept_lab:
            cluster.down(name)


T = TypeVar("T")
HOSTS = ("j1", "j2", "j3", "e1", "e2", "g1")
JUDICATORS = tuple(name for name in HOSTS if name.startswith("j"))
EXECUTORS = tuple(name for name in HOSTS if name.startswith("e"))


class Site(Deployment):
    """The hosts, and the cluster on them."""

    preview: Run | None = None  # what check mode said of the bare hosts
    first: Run | None = None  # the first deployment of the bare hosts, with everything that Ansible can say
    process_text: str = ""  # in the process lists meanwhile
    looks: int = 0  # at the process lists
    further_gateways: tuple[
        str, ...
    ] = ()  # the servers of further gateways, which clients ask where the first does not answer

    def deploy(self, *, foretell: bool) -> None:
        """Run site.yml for the first time, and watch it; `foretell`: in check mode before."""
        if foretell:
            self.preview = self.site("--check", "--diff").check()
        with ProcessWatch(self.lab) as watch:
            self.first = self.site("-vvv", "--diff").check()
        self.process_text, self.looks = watch.text(), watch.looks

    def api(self, timeout: float = 60.0) -> Api:
        """A client as `judgectl` has it on the controller; for threads that are in the lab's network."""
        return Api(
            dataclasses.replace(from_file(self.secrets / "client.yml"), alternatives=self.further_gateways),
            timeout=timeout,
        )

    def enter(self) -> None:
        network.enter(self.name)

    def within(self, work: Callable[[], T]) -> T:
        """What a function returns or raises that runs in the lab's network, in a thread of its own."""

        def entered() -> T:
            self.enter()
            return work()

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(entered).result()

    def ask(self, question: Callable[[Api], T], timeout: float = 60.0) -> T:
        def work() -> T:
            with self.api(timeout) as api:
                return question(api)

        return self.within(work)

    def status(self, timeout: float = 60.0) -> StatusReply:
        return self.ask(lambda api: api.call(StatusReply, "GET", "/status"), timeout)

    def wait_healthy(
        self,
        timeout: float = 300.0,
        *,
        judicators: Collection[str] = JUDICATORS,
        executors: Collection[str] = EXECUTORS,
    ) -> StatusReply:
        """Wait until every member of every kind is there and well, and say what was missing when they are not."""
        last: list[Any] = []

        def healthy() -> StatusReply | None:
            try:
                status = self.status(5.0)
            except JudgeError as exc:
                last[:] = [exc]
                return None
            last[:] = status.faults
            complete = (
                {judicator.name for judicator in status.judicators} == set(judicators)
                and {member.name for member in status.etcd if member.healthy} == set(judicators)
                and len([member for member in status.mongodb if member.healthy]) == len(judicators)
                and {executor.name for executor in status.executors if executor.alive} == set(executors)
            )
            return status if complete and status.leader and not status.faults else None

        try:
            return wait_for(healthy, timeout, "a whole cluster")  # type: ignore[return-value]
        except AssertionError as exc:
            raise AssertionError(f"{exc}: {last}") from None

    @contextlib.contextmanager
    def machines(self, *names: str) -> Iterator[None]:
        """More bare machines in the lab for a while; they are off afterwards, and nobody else looks for them."""
        before = self.lab
        self.lab = cluster.up(self.name, list(names))
        self.lab.wipe(*names)  # an earlier test may have had some
        try:
            yield
        finally:
            self.lab.kill(*names)
            self.lab = before

    @contextlib.contextmanager
    def listed(self, **groups: dict[str, str]) -> Iterator[None]:
        """An inventory in which these groups have these hosts, by name the machine, for a while."""
        path = self.inventory / "hosts.yml"
        text = path.read_text()
        tree = yaml.safe_load(text)
        for group, hosts in groups.items():
            tree["all"]["children"][group]["hosts"] = {
                name: {"ansible_host": self.lab.record.address(machine)} for name, machine in hosts.items()
            }
        path.write_text(yaml.safe_dump(tree, sort_keys=False))
        try:
            yield
        finally:
            path.write_text(text)

    def stream(self, interval: float) -> Stream:
        return Stream(self.api, interval=interval, enter=self.enter)


def shuffled(tree: dict[str, Any], seed: int) -> dict[str, Any]:
    """An inventory with its groups, and the hosts of each, in another order: no place in it is special."""
    chance = random.Random(seed)

    def mixed(table: dict[str, Any]) -> dict[str, Any]:
        keys = list(table)
        chance.shuffle(keys)
        return {key: table[key] for key in keys}

    groups = mixed(tree["all"]["children"])
    groups = {name: {**group, "hosts": mixed(group["hosts"])} for name, group in groups.items()}
    return {"all": {**tree["all"], "children": groups}}


def inventory_of(lab: Lab, seed: int) -> Path:
    """The lab's inventory in another order, with the lab's own files, so that it is gone when they are."""
    inventory = lab.record.directory / "site"
    inventory.mkdir(exist_ok=True)
    tree = yaml.safe_load((Path(lab.record.inventory) / "hosts.yml").read_text())
    for group in tree["all"]["children"].values():
        # A lab that was kept may have machines that an earlier run has added.
        group["hosts"] = {name: host for name, host in group["hosts"].items() if name in HOSTS}
    (inventory / "hosts.yml").write_text(yaml.safe_dump(shuffled(tree, seed), sort_keys=False))
    return inventory


def prepare() -> None:
    """Make what takes minutes and a route out: the lab's base image and the bundle. Part of the set-up for tests."""
    if no_lab():
        return
    print("making the base image of lab hosts and their offline bundle")
    image.ensure(RELEASE, print)
    bundle()


@contextlib.contextmanager
def site(work: Path, seed: int, *, foretell: bool = True) -> Iterator[Site]:
    """Bare hosts, a bundle of their own, and `site.yml`; all of it is gone afterwards.

    $JUDGE_TEST_LAB names a lab that is kept: made and deployed when it does not exist, used as it is when it does.
    """
    software = bundle()
    if not os.environ.get("JUDGE_TEST_LAB"):
        shutil.copytree(software, work / "bundle")  # a test puts another release into it
        software = work / "bundle"
    with bare_hosts(HOSTS, work, software=software) as hosts:
        site = Site(hosts.lab, work, inventory_of(hosts.lab, seed))
        if not (site.secrets / "client.yml").exists():
            site.deploy(foretell=foretell)
        yield site


PYTHON = "/opt/judge/current/bin/python"
# A member does what it is told, and says whether it is the primary.
PROGRAM = """
import sys
from pathlib import Path
from judge import config
from judge.mongodb.replica import Replica
member = Replica(config.load(config.MongodbConfig, Path("/etc/judge/mongodb.yml")))
if sys.argv[1] == "bar":
    member.client.admin.command({"replSetFreeze": int(sys.argv[2])})
if sys.argv[1] == "hand-over":
    member.step_down()
print((member.hello(10) or {}).get("isWritablePrimary", False))
"""
BARRED = 60  # seconds for which the others do not stand, unless they are told before that they may


def _answered(lab: Lab, host: str, *words: str) -> bool:
    return lab.ssh(host, shlex.join([PYTHON, "-c", PROGRAM, *words])).strip() == "True"


def becomes_primary(lab: Lab, host: str, judicators: Sequence[str]) -> None:
    """Hand over to this one while the third may not stand; afterwards that one may."""
    (primary,) = (judicator for judicator in judicators if _answered(lab, judicator, "ask"))
    if primary == host:
        return
    voters = [judicator for judicator in judicators if judicator not in {primary, host}]
    for voter in voters:
        _answered(lab, voter, "bar", str(BARRED))
    _answered(lab, primary, "hand-over")
    wait_for(lambda: _answered(lab, host, "ask"), BARRED, f"{host} as primary")
    for voter in voters:
        _answered(lab, voter, "bar", "0")


_PIECE = 65536
_IDLE = 120.0  # seconds that a silent connection stays


class _Proxy(ThreadingHTTPServer):
    """Its socket belongs to the network that it was made in; what its threads connect to, to this machine's."""

    daemon_threads = True

    def __init__(self, listening: socket.socket, own: Mapping[str, Path]) -> None:
        super().__init__(listening.getsockname(), _Forward, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.own = own
        self.requests: list[str] = []

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients hang up as they like."""


class _Forward(BaseHTTPRequestHandler):
    server: _Proxy

    def do_CONNECT(self) -> None:
        name, _, port = self.path.partition(":")
        self.server.requests.append(name)
        with socket.create_connection((name, int(port)), _IDLE) as far:
            self.send_response(200)
            self.end_headers()
            back = threading.Thread(target=_copy, args=(far, self.connection), daemon=True)
            back.start()
            _copy(self.connection, far)
            back.join()
        self.close_connection = True

    def do_GET(self) -> None:
        """A page of another server, or of a directory here that stands for one."""
        url = urllib.parse.urlsplit(self.path)
        self.server.requests.append(url.hostname or "")
        if url.hostname in self.server.own:
            self._own(self.server.own[url.hostname] / url.path.lstrip("/"))
            return
        far = http.client.HTTPConnection(url.netloc, timeout=_IDLE)
        with contextlib.closing(far):
            headers = {key: value for key, value in self.headers.items() if not key.lower().startswith("proxy-")}
            far.request("GET", url._replace(scheme="", netloc="").geturl(), headers={**headers, "Connection": "close"})
            answer = far.getresponse()
            self.send_response(answer.status, answer.reason)
            for key, value in answer.getheaders():
                if key.lower() not in {"connection", "transfer-encoding", "keep-alive"}:
                    self.send_header(key, value)
            self.end_headers()
            while piece := answer.read(_PIECE):
                self.wfile.write(piece)

    def _own(self, path: Path) -> None:
        if not path.is_file():
            self.send_error(404)
            return
        answer_http(self, 200, path.read_bytes())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class has it
        """Nothing is printed."""


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(_PIECE):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def proxy(
    listen: Callable[[], socket.socket], own: Mapping[str, Path] | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Serve as a proxy on the socket that `listen` makes: its port, and the names that were asked for so far.

    `own`: directories that stand for servers, by name.
    """
    server = _Proxy(listen(), own or {})
    with serving(server):
        yield server.server_address[1], server.requests


class Maker:
    """Somebody who publishes packages: an archive, and the key that signs it."""

    def __init__(self, work: Path, name: str = "maker") -> None:
        """`work` is a directory of its own; nothing is published yet."""
        self.name, self.work = name, work
        self.archive = work / "archive"
        self.key = work / f"{name}.asc"
        self.home = work / "gpg"
        self.home.mkdir(mode=0o700, parents=True)
        self.archive.mkdir()
        self._gpg("--passphrase", "", "--quick-gen-key", name, "ed25519", "sign", "never")
        self._gpg("--armor", "--output", str(self.key), "--export", name)

    def _gpg(self, *arguments: str) -> None:
        command = ["gpg", "--homedir", str(self.home), "--batch", "--yes", *arguments]
        subprocess.run(command, check=True, capture_output=True)

    def build(self, package: str, version: str, files: Mapping[str, Path] | None = None, needs: str = "") -> Path:
        tree = self.work / f"{package}-{version}"
        for place, source in (files or {}).items():
            target = tree / place.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
            target.chmod(0o755)
        control = tree / "DEBIAN/control"
        control.parent.mkdir(parents=True)
        about = f"Package: {package}\nVersion: {version}\nArchitecture: all\nMaintainer: m <m@example.org>\n"
        depends = f"Depends: {needs}\n" if needs else ""
        control.write_text(f"{about}{depends}Description: none\n")
        return self._pack(tree, f"{package}_{version.replace(':', '%3a')}_all.deb")

    def rebuild(self, deb: Path, version: str, changed: str) -> Path:
        """Another maker's package with a newer version and one file that differs, at its end only."""
        tree = self.work / f"{deb.stem}-{version}"
        subprocess.run(["dpkg-deb", "-R", deb, tree], check=True, capture_output=True)
        control = tree / "DEBIAN/control"
        lines = control.read_text().splitlines()
        control.write_text("".join(f"Version: {version}\n" if x.startswith("Version:") else f"{x}\n" for x in lines))
        with (tree / changed.lstrip("/")).open("ab") as file:
            file.write(b"\0newer")
        return self._pack(tree, f"{deb.name.partition('_')[0]}_{version}_amd64.deb")

    def _pack(self, tree: Path, name: str) -> Path:
        package = self.archive / name
        command = ["dpkg-deb", "-Znone", "--root-owner-group", "--build", str(tree), str(package)]
        # No time of its making: in a later run the bundle's cache takes one of this name for the same one.
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "SOURCE_DATE_EPOCH": "0"})
        return package

    def publish(self) -> None:
        entries = [
            debs.Deb("", path.name, entry["size"], entry["sha256"])
            for path in sorted(self.archive.glob("*.deb"))
            for entry in [describe(path)]
        ]
        debs.publish(self.archive, debs.index(self.archive, entries, "amd64"))
        self.sign(self.archive)

    def publish_suite(self, suite: str) -> None:
        """Write and sign the lists as a distribution's archive has them: in dists/, with one component, `main`."""
        self.publish()
        data = (self.archive / "Packages").read_bytes()
        place = self.archive / "dists" / suite
        (place / "main/binary-amd64").mkdir(parents=True)
        (place / "main/binary-amd64/Packages").write_bytes(data)
        (place / "Release").write_text(
            f"Suite: {suite}\nCodename: {suite}\nArchitectures: amd64 all\nComponents: main\nSHA256:\n"
            f" {hashlib.sha256(data).hexdigest()} {len(data)} main/binary-amd64/Packages\n"
        )
        self.sign(place)

    def sign(self, archive: Path) -> None:
        signed, release = str(archive / "InRelease"), str(archive / "Release")
        self._gpg("--local-user", self.name, "--output", signed, "--clearsign", release)

    @property
    def line(self) -> str:
        """The archive as a line of sources.list, with the key's file."""
        return f"deb [signed-by={self.key}] copy:{self.archive} ./"


SYSTEMD = Path("/usr/lib/systemd/systemd")
# Units for this machine's own start, and units that could reach out of the host.
MASKED = (
    "dev-hugepages.mount", "dev-mqueue.mount", "sys-fs-fuse-connections.mount", "sys-kernel-config.mount",
    "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "systemd-modules-load.service", "systemd-remount-fs.service",
    "systemd-sysctl.service", "systemd-udevd.service", "timers.target", "swap.target",
)  # fmt: skip

INIT = """
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$DIR"
cd "$DIR"
mkdir upper work root
mount -t overlay overlay -o "lowerdir=/,upperdir=$DIR/upper,workdir=$DIR/work" root
mount -t proc proc root/proc
# Settings of the kernel are the machine's, not this host's: systemd would change some.
mount --bind root/proc/sys root/proc/sys
mount -o remount,bind,ro root/proc/sys
# A whole /proc must be in sight for sandboxes, as on a real host.
mkdir -p root/opt/judge/proc
mount -t proc proc root/opt/judge/proc
mount -t sysfs -o ro sysfs root/sys
mount -t tmpfs -o mode=755 tmpfs root/sys/fs/cgroup
{cgroups}
mount -t tmpfs -o mode=755 tmpfs root/dev
for device in null zero full random urandom tty; do
  touch "root/dev/$device"
  mount --bind "/dev/$device" "root/dev/$device"
done
mkdir root/dev/pts root/dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts root/dev/pts
ln -s pts/ptmx root/dev/ptmx
ln -s /proc/self/fd root/dev/fd
mount -t tmpfs tmpfs root/dev/shm
mount -t tmpfs -o mode=755 tmpfs root/run
mount -t tmpfs tmpfs root/tmp
mkdir -p root/run/systemd/system root/run/old root/opt/judge/source root/opt/judge/packages root/opt/judge/current/bin
mount --bind "$SOURCE" root/opt/judge/source
mount --bind "$PACKAGES" root/opt/judge/packages
for unit in $MASKED; do ln -s /dev/null "root/run/systemd/system/$unit"; done
rm -f root/etc/fstab
ip link set lo up
cd root
pivot_root . run/old
umount -l /run/old
exec env -i container=judge-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \\
  /usr/lib/systemd/systemd --unit=basic.target --show-status=false
"""
# $0: what process 1 begins with; the arguments: control groups to begin in.
ENTER = """
for group in "$@"; do echo 0 > "$group/cgroup.procs"; done
exec unshare -m -p -u -i -n -C --fork --kill-child sh -c "$0"
"""
INSIDE = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "SYSTEMD_PAGER": "cat"}
LAUNCHER = """#!/bin/sh
export PYTHONPATH=/opt/judge/source:/opt/judge/packages PYTHONDONTWRITEBYTECODE=1
exec {python} -m judge.cli "$@"
"""


def missing() -> str:
    if no_hosts():
        return no_hosts()
    if not SYSTEMD.exists():
        return "a host with systemd needs the package systemd"
    if python().is_relative_to("/root") or python().is_relative_to("/home"):
        return f"units cannot reach {python()}; make the venv with /usr/bin/python3"
    return ""


def python() -> Path:
    """The interpreter behind the venv."""
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


class SystemdHost:
    """One host; `close` ends everything in it."""

    def __init__(self, directory: Path) -> None:
        """Start it and wait until systemd is up."""
        self._name = f"judge-test-{uuid.uuid4().hex[:8]}"
        self._groups: list[Path] = []
        mounts = []
        for line in Path("/proc/self/mounts").read_text().splitlines():
            _, mount_point, kind, options = line.split()[:4]
            if kind not in {"cgroup", "cgroup2"} or not mount_point.startswith("/sys/fs/cgroup"):
                continue
            self._groups.append(Path(mount_point) / self._name)
            inside = f"root{mount_point}"
            if kind == "cgroup":
                groups = {"memory", "pids", "cpu", "cpuacct", "cpuset", "freezer", "blkio", "devices", "name=systemd"}
                names = [option for option in options.split(",") if option in groups]
                kind_options = ",".join((["none"] if names == ["name=systemd"] else []) + names)
                mounts.append(f"mkdir -p {inside}; mount -t cgroup -o {kind_options} cgroup {inside}")
            else:
                mounts.append(f"mkdir -p {inside}; mount -t cgroup2 cgroup2 {inside}")
        self._make_groups()
        root = directory / "host"
        root.mkdir()
        environment = {
            "PATH": os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin", "DIR": str(root), "SOURCE": str(ROOT),
            "PACKAGES": sysconfig.get_path("purelib"), "MASKED": " ".join(MASKED),
        }  # fmt: skip
        self._log = directory / "host.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["sh", "-ec", ENTER, INIT.replace("{cgroups}", "\n".join(mounts)), *map(str, self._groups)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True,
            )  # fmt: skip
        try:
            wait_for(self._up, what="systemd")
            self._install()
        except BaseException:
            print(self._log.read_text(errors="replace"))
            self.close()
            raise

    def _make_groups(self) -> None:
        for group in self._groups:
            group.mkdir()
            for name in ("cpuset.cpus", "cpuset.mems"):  # version 1: an empty set takes no process
                if (group / name).exists() and (group.parent / name).exists():
                    (group / name).write_text((group.parent / name).read_text())

    def _up(self) -> bool:
        assert self._process.poll() is None, self._log.read_text(errors="replace")
        with contextlib.suppress(OSError, LookupError):
            return self.run("systemctl", "is-system-running", check=False).strip() in {"running", "degraded"}
        return False

    @property
    def _init(self) -> int:
        pid = self._process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def _install(self) -> None:
        self.write("/opt/judge/current/bin/judge", LAUNCHER.format(python=python()), 0o755)
        self.write("/usr/lib/sysusers.d/judge.conf", (ROOT / "systemd/judge.sysusers.conf").read_text())
        self.write("/usr/lib/tmpfiles.d/judge.conf", (ROOT / "systemd/judge.tmpfiles.conf").read_text())
        self.run("systemd-sysusers", "judge.conf")
        self.run("systemd-tmpfiles", "--create", "judge.conf")
        for path in [*sorted((ROOT / "systemd").glob("judge*.s[el]*")), ROOT / "systemd/judge.target"]:
            self.write(f"/etc/systemd/system/{path.name}", path.read_text())
        self.run("systemctl", "daemon-reload")

    def _inside(self, *command: str) -> list[str]:
        return ["nsenter", "-t", str(self._init), "-m", "-p", "-u", "-i", "-n", "-C", "--", *command]

    def run(self, *command: str, check: bool = True) -> str:
        completed = subprocess.run(
            self._inside(*command), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=INSIDE
        )
        if check and completed.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: {completed.returncode}: {completed.stdout}{completed.stderr}")
        return completed.stdout

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        target = Path(f"/proc/{self._init}/root{path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.new")
        temporary.write_text(text)
        temporary.chmod(mode)
        temporary.rename(target)

    def read(self, path: str) -> str:
        return Path(f"/proc/{self._init}/root{path}").read_text()

    def show(self, unit: str, name: str) -> str:
        return self.run("systemctl", "show", "--value", f"--property={name}", unit).strip()

    def close(self) -> None:
        """End all processes, with process 1 of their namespace first, and remove the control groups."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()

        def removed() -> bool:
            for group in self._groups:
                for path in sorted(group.rglob("*"), reverse=True) if group.exists() else []:
                    if path.is_dir():
                        with contextlib.suppress(OSError):
                            path.rmdir()
                with contextlib.suppress(OSError):
                    group.rmdir()
            return not any(group.exists() for group in self._groups)

        wait_for(removed, what="the end of the host's control groups")


class _Logins(paramiko.ServerInterface):
    """Lets one key in and runs what it asks for."""

    def __init__(self, server: SshServer) -> None:
        self.server = server

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        self.server.offered.append(key.get_base64())
        right = username == "judge" and key.get_base64() == self.server.accepts
        return common.AUTH_SUCCESSFUL if right else common.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return common.OPEN_SUCCEEDED if kind == "session" else common.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self.server.commands.append(command.decode())
        threading.Thread(target=self.server.execute, args=(channel, command), daemon=True).start()
        return True


class SshServer:
    """Its port, its host key, what it was asked for; `path` comes first on the commands' PATH."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "bin"
        self.path.mkdir(parents=True)
        self.key = paramiko.ECDSAKey.generate()
        client = paramiko.ECDSAKey.generate()
        client.write_private_key_file(str(directory / "client_key"))
        self.accepts = client.get_base64()
        self.offered: list[str] = []
        self.commands: list[str] = []
        self.transports: list[paramiko.Transport] = []
        self.acceptor = Acceptor(self._serve)
        self.port = self.acceptor.port
        self.trust(self.key)

    def trust(self, key: paramiko.PKey | None) -> None:
        line = f"[127.0.0.1]:{self.port} {key.get_name()} {key.get_base64()}\n" if key else ""
        (self.directory / "known_hosts").write_text(line)

    def program(self, name: str, script: str) -> None:
        (self.path / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.path / name).chmod(0o755)

    def variables(self) -> dict[str, object]:
        """What an inventory says of this host."""
        options = f"-o UserKnownHostsFile={self.directory}/known_hosts -o GlobalKnownHostsFile=/dev/null"
        return {
            "ansible_host": "127.0.0.1", "ansible_port": self.port, "ansible_user": "judge",
            "ansible_ssh_private_key_file": str(self.directory / "client_key"),
            "ansible_ssh_common_args": f"-F none -o IdentitiesOnly=yes {options}",
        }  # fmt: skip

    def _serve(self, sock: socket.socket) -> None:
        transport = paramiko.Transport(sock)
        transport.add_server_key(self.key)
        self.transports.append(transport)
        threading.Thread(target=self._welcome, args=(transport,), daemon=True).start()

    def _welcome(self, transport: paramiko.Transport) -> None:
        with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
            transport.start_server(server=_Logins(self))

    def execute(self, channel: paramiko.Channel, command: bytes) -> None:
        """As sshd does: the user's shell gets the whole command."""
        process = subprocess.Popen(
            ["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={"PATH": f"{self.path}:/usr/bin:/bin"},
        )  # fmt: skip
        pumps = [
            threading.Thread(target=_pump, args=(process.stdout, channel.sendall), daemon=True),
            threading.Thread(target=_pump, args=(process.stderr, channel.sendall_stderr), daemon=True),
        ]
        for pump in pumps:
            pump.start()
        for pump in pumps:
            pump.join()
        code = process.wait()
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            channel.send_exit_status(code)
            channel.close()

    def drop(self) -> None:
        for transport in self.transports:
            transport.close()

    def close(self) -> None:
        self.acceptor.close()
        self.drop()


def _pump(source, send) -> None:
    with source, contextlib.suppress(OSError, EOFError):
        while data := source.read1(65536):
            send(data)


@contextlib.contextmanager
def ssh_server(directory: Path) -> Iterator[SshServer]:
    server = SshServer(directory)
    try:
        yield server
    finally:
        server.close()


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

    def _take(self, connection: socket.socket) -> None:
        with connection:
            self.processes.append(
                subprocess.Popen([*self._sshd("jump"), "-i"], stdin=connection.fileno(), stdout=connection.fileno())
            )

    def log(self, name: str) -> str:
        path = self.etc / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def logins(self, name: str) -> int:
        return self.log(name).count("Accepted publickey")

    def trust(self, **replacements: paramiko.PKey | None) -> None:
        """Write known_hosts with everyone's key, or another one, or none."""
        ports = {"jump": self.port, **INNER}
        keys = {**self.keys, **replacements}
        lines = [
            f"[127.0.0.1]:{ports[name]} {key.get_name()} {key.get_base64()}\n" for name, key in keys.items() if key
        ]
        (self.directory / "known_hosts").write_text("".join(lines))

    def config(self, text: str = "") -> Path:
        """An ssh_config with what the three have of their own after the given text."""
        known_hosts = f"  UserKnownHostsFile {self.directory}/known_hosts\n  GlobalKnownHostsFile /dev/null\n"
        blocks = "".join(
            f"Host {name}\n  HostName 127.0.0.1\n  Port {port}\n  User root\n"
            f"  IdentityFile {self.directory}/to_{name}\n"
            for name, port in {"jump": self.port, **INNER}.items()
        )
        path = self.directory / "ssh_config"
        path.write_text(f"{text}\n{blocks}Host *\n{known_hosts}  IdentitiesOnly yes\n  BatchMode yes\n")
        return path

    def close(self) -> None:
        self.acceptor.close()
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


@contextlib.contextmanager
def jump_hosts(directory: Path) -> Iterator[JumpHosts]:
    hosts = JumpHosts(directory)
    try:
        yield hosts
    finally:
        hosts.close()
