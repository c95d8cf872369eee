"""A whole deployment on lab hosts for tests: made by `site.yml` from the bundle, with an inventory in random order."""

from __future__ import annotations

import contextlib
import os
import random
import re
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from judge.ctl.api import Api
from judge.ctl.context import from_file
from judge.errors import JudgeError
from judge.rpc import messages as m
from lab import cluster, network, state
from lab.cluster import Lab
from tests.support.servers import wait_for
from tests.support.stream import Stream

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
HOSTS = ("j1", "j2", "j3", "e1", "e2", "g1")
PLAYBOOK_TIMEOUT = 1500.0  # seconds; four minutes on two idle cores
RECAP = re.compile(r"^(\w+)\s+: ok=\d+\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Play:
    """One run of a playbook: how long it took, and how many tasks changed each host."""

    seconds: float
    changed: dict[str, int]
    output: str


@dataclass
class Site:
    """The hosts, and the cluster on them."""

    lab: Lab
    inventory: Path
    logs: Path
    deployed: Play | None = None
    plays: int = field(default=0, init=False)

    # --- Ansible -----------------------------------------------------------------------------------------------

    def playbook(self, *arguments: str) -> Play:
        """Run a playbook from the lab's network to its end; AssertionError with what it said last."""
        self.plays += 1
        inside = [str(BIN / "python"), "-m", "lab", "run", "--name", self.lab.record.name, "--"]
        command = [*inside, str(BIN / "ansible-playbook"), "-i", str(self.inventory), *arguments]
        return run_playbook(command, self.logs / f"playbook-{self.plays}.log")

    # --- the cluster, as people see it -------------------------------------------------------------------------

    def api(self, timeout: float = 60.0) -> Api:
        """A client as `judgectl` has it on the controller; for threads that are in the lab's network."""
        return Api(from_file(self.inventory / "secrets" / "client.yml"), timeout=timeout)

    def enter(self) -> None:
        """Move the calling thread into the lab's network."""
        network.enter(self.lab.record.name)

    def ask(self, question: Callable[[Api], T], timeout: float = 60.0) -> T:
        """What the API answers, asked from a thread of its own in the lab's network."""
        answers: list[T] = []
        faults: list[JudgeError] = []

        def work() -> None:
            self.enter()
            try:
                with self.api(timeout) as api:
                    answers.append(question(api))
            except JudgeError as exc:
                faults.append(exc)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if faults:
            raise faults[0]
        return answers[0]

    def status(self, timeout: float = 60.0) -> m.StatusReply:
        """The cluster at a glance."""
        return self.ask(lambda api: api.call(m.StatusReply, "GET", "/status"), timeout)

    def whole(self, timeout: float = 300.0) -> m.StatusReply:
        """Wait until every member of every kind is there and well, and say what was missing when they are not."""
        last: list[Any] = []

        def well() -> m.StatusReply | None:
            try:
                found = self.status(5.0)
            except JudgeError as exc:
                last[:] = [exc]
                return None
            last[:] = found.problems
            judicators = {name for name in self.lab.record.hosts if name.startswith("j")}
            executors = {name for name in self.lab.record.hosts if name.startswith("e")}
            there = (
                {one.name for one in found.judicators} == judicators
                and {one.name for one in found.etcd if one.healthy} == judicators
                and len([one for one in found.mongodb if one.healthy]) == len(judicators)
                and {one.name for one in found.executors if one.alive} == executors
            )
            return found if there and found.leader and not found.problems else None

        try:
            return wait_for(well, timeout, "a whole cluster")  # type: ignore[return-value]
        except AssertionError as exc:
            raise AssertionError(f"{exc}: {last}") from None

    def stream(self, interval: float) -> Stream:
        """A crowd at the gateway."""
        return Stream(lambda: self.api(timeout=600), interval=interval, enter=self.enter)


def run_playbook(command: list[str], log: Path) -> Play:
    """Run ansible-playbook to its end, with its words in a file; AssertionError with the last of them if it fails."""
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ.get('PATH', os.defpath)}", "ANSIBLE_NOCOLOR": "1"}
    began = time.monotonic()
    with log.open("wb") as out:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False,
            timeout=PLAYBOOK_TIMEOUT,
        )  # fmt: skip
    output = log.read_text(errors="replace")
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{output[-5000:]}"
    changed = {host: int(count) for host, count, *_ in RECAP.findall(output)}
    return Play(time.monotonic() - began, changed, output)


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


def bundle(directory: Path, logs: Path) -> Path:
    """The software for the hosts: $JUDGE_TEST_BUNDLE, or made here, which takes half a minute and the Internet."""
    ready = os.environ.get("JUDGE_TEST_BUNDLE")
    if ready:
        return Path(ready)
    command = [str(BIN / "ansible-playbook"), "-i", "inventory/example", "playbooks/bundle.yml"]
    run_playbook([*command, "-e", f"judge_bundle={directory}"], logs / "bundle.log")
    return directory


@contextlib.contextmanager
def site(directory: Path, seed: int) -> Iterator[Site]:
    """Bare hosts, the bundle, and `site.yml`; all of it is gone afterwards.

    $JUDGE_TEST_LAB names a lab that is kept: made and deployed when it does not exist, used as it is when it does.
    """
    kept = os.environ.get("JUDGE_TEST_LAB")
    name = kept or f"c{uuid.uuid4().hex[:8]}"
    known = state.read(name)
    software = Path(known.bundle) if known and known.bundle else bundle(directory / "bundle", directory)
    try:
        lab = cluster.up(name, list(HOSTS), bundle=software, inventory_directory=directory / "lab")
        # With the lab's own files, so that it is gone when they are.
        inventory = lab.record.directory / "site"
        inventory.mkdir(exist_ok=True)
        tree = yaml.safe_load((directory / "lab" / "hosts.yml").read_text())
        (inventory / "hosts.yml").write_text(yaml.safe_dump(shuffled(tree, seed), sort_keys=False))
        made = Site(lab, inventory, directory)
        if not (inventory / "secrets" / "client.yml").exists():
            made.deployed = made.playbook("site.yml")
        yield made
    finally:
        if not kept:
            cluster.down(name)
