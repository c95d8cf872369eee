"""A whole cluster on lab hosts, made by `site.yml` with an inventory in random order, as people see it."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import os
import random
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml

from judge.ctl.api import Api
from judge.ctl.context import from_file
from judge.errors import JudgeError
from judge.model.overview import StatusReply
from lab import cluster, network
from lab.cluster import Lab
from tests.support.deployment import Deployment, Run, bare_hosts, bundle
from tests.support.leaks import ProcessWatch
from tests.support.servers import wait_for
from tests.support.stream import Stream

T = TypeVar("T")
HOSTS = ("j1", "j2", "j3", "e1", "e2", "g1")
JUDICATORS = tuple(name for name in HOSTS if name.startswith("j"))
EXECUTORS = tuple(name for name in HOSTS if name.startswith("e"))


class Site(Deployment):
    """The hosts, and the cluster on them."""

    foretold: Run | None = None  # what check mode said of the bare hosts
    first: Run | None = None  # the first deployment of the bare hosts, with everything that Ansible can say
    seen: str = ""  # in the process lists meanwhile
    looks: int = 0  # at the process lists
    others: tuple[str, ...] = ()  # the servers of further gateways, which clients ask where the first does not answer

    def deploy(self) -> None:
        """Run site.yml for the first time, and watch it."""
        self.foretold = self.site("--check", "--diff").check()
        with ProcessWatch(self.lab) as watch:
            self.first = self.site("-vvv", "--diff").check()
        self.seen, self.looks = watch.text(), watch.looks

    def api(self, timeout: float = 60.0) -> Api:
        """A client as `judgectl` has it on the controller; for threads that are in the lab's network."""
        return Api(dataclasses.replace(from_file(self.secrets / "client.yml"), others=self.others), timeout=timeout)

    def enter(self) -> None:
        """Move the calling thread into the lab's network."""
        network.enter(self.name)

    def within(self, work: Callable[[], T]) -> T:
        """What a function returns or raises that runs in the lab's network, in a thread of its own."""

        def entered() -> T:
            self.enter()
            return work()

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(entered).result()

    def ask(self, question: Callable[[Api], T], timeout: float = 60.0) -> T:
        """What the API answers."""

        def work() -> T:
            with self.api(timeout) as api:
                return question(api)

        return self.within(work)

    def status(self, timeout: float = 60.0) -> StatusReply:
        """The cluster at a glance."""
        return self.ask(lambda api: api.call(StatusReply, "GET", "/status"), timeout)

    def whole(
        self,
        timeout: float = 300.0,
        *,
        judicators: Collection[str] = JUDICATORS,
        executors: Collection[str] = EXECUTORS,
    ) -> StatusReply:
        """Wait until every member of every kind is there and well, and say what was missing when they are not."""
        last: list[Any] = []

        def well() -> StatusReply | None:
            try:
                found = self.status(5.0)
            except JudgeError as exc:
                last[:] = [exc]
                return None
            last[:] = found.faults
            there = (
                {one.name for one in found.judicators} == set(judicators)
                and {one.name for one in found.etcd if one.healthy} == set(judicators)
                and len([one for one in found.mongodb if one.healthy]) == len(judicators)
                and {one.name for one in found.executors if one.alive} == set(executors)
            )
            return found if there and found.leader and not found.faults else None

        try:
            return wait_for(well, timeout, "a whole cluster")  # type: ignore[return-value]
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
        """A crowd at the gateway."""
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


@contextlib.contextmanager
def site(work: Path, seed: int) -> Iterator[Site]:
    """Bare hosts, a bundle of their own, and `site.yml`; all of it is gone afterwards.

    $JUDGE_TEST_LAB names a lab that is kept: made and deployed when it does not exist, used as it is when it does.
    """
    software = bundle()
    if not os.environ.get("JUDGE_TEST_LAB"):
        shutil.copytree(software, work / "bundle")  # a test puts another release into it
        software = work / "bundle"
    with bare_hosts(HOSTS, work, software=software) as hosts:
        made = Site(hosts.lab, work, inventory_of(hosts.lab, seed))
        if not (made.secrets / "client.yml").exists():
            made.deploy()
        yield made
