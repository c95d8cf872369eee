"""The verbs that tests/cluster/test_verbs.py runs, one row each: whoever writes a playbook adds its row here.

Every row is run three ways on one deployed cluster: foretold by check mode, whole, and killed at three tasks that
JUDGE_TEST_SEED chooses. The columns say what differs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from tests.support.deployed import Site

# Seconds for which a planned verb may keep verdicts away, a fail-over of the primary included. Where nothing else
# keeps the machine busy: what else runs counts too, docs/playbooks/README.md.
PLANNED = 5.0


@dataclass(frozen=True)
class Verb:
    """One playbook, on certain hosts of the cluster that all tests share."""

    name: str
    hosts: tuple[str, ...]
    play: tuple[str, ...]
    """What ansible-playbook is given after the inventory."""
    back: Verb | None = None
    """What brings the cluster of the inventory back; a row of its own."""
    before: Callable[[Site], None] | None = None
    """What has to happen first, under the submissions too: a machine dies."""
    again: bool = True
    """Whether a second run changes nothing; what starts machines or runs a command does it whenever it is asked to."""
    foretold: bool = True
    """Whether check mode can know what the run changes: not where that needs a host that is not there yet."""
    planned: bool = True
    """Whether verdicts may be away for PLANNED seconds at most: a machine that dies was not planned."""
    streamed: bool = True
    """Whether submissions are handed in meanwhile; the only gateway cannot be taken out under them."""
    gone: bool = False
    """Whether nothing of Judge is left on the hosts, and their old keys open nothing."""

    @property
    def label(self) -> str:
        """For the test's name."""
        return f"{self.name}-{'-'.join(self.hosts)}".replace(" ", "-")


def _limit(*hosts: str) -> tuple[str, ...]:
    return ("--limit", ",".join(hosts))


def _add(host: str, *, streamed: bool = True) -> Verb:
    return Verb("add", (host,), ("site.yml", *_limit(host)), streamed=streamed, foretold=False)


def _remove(host: str, *, streamed: bool = True) -> Verb:
    play = ("playbooks/remove.yml", "-e", f"judge_remove={host}", "-e", f"confirm={host}")
    return Verb("remove", (host,), play, back=_add(host, streamed=streamed), streamed=streamed, gone=True)


def _dies(host: str) -> Callable[[Site], None]:
    """Its machine is gone for good, and another one without anything has its address."""

    def die(site: Site) -> None:
        site.lab.kill(host)
        site.lab.wipe(host)

    return die


_WORK = json.dumps({"judge_maintain_command": "systemctl is-active judge-boot.service >/run/maintained || true"})

VERBS = (
    Verb("reboot", ("j2", "e1"), ("playbooks/reboot.yml", *_limit("j2", "e1")), again=False),
    Verb("maintain", ("e2",), ("playbooks/maintain.yml", "-e", _WORK, *_limit("e2")), again=False),
    Verb("stop", ("j3",), ("playbooks/stop.yml", *_limit("j3")),
         back=Verb("start", ("j3",), ("playbooks/start.yml", *_limit("j3")))),
    _remove("e1"),
    _remove("j3"),
    _remove("g1", streamed=False),
    Verb("replace", ("j2",), ("playbooks/replace.yml", "-e", "judge_replace=j2", "-e", "confirm=j2"),
         before=_dies("j2"), planned=False, foretold=False),
)  # fmt: skip
