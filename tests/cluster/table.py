"""The verbs that tests/cluster/test_verbs.py runs, one row each: whoever writes a playbook adds its row here.

Every row is run three ways on one deployed cluster: foretold by check mode, whole, and killed at three tasks that
JUDGE_TEST_SEED chooses. The columns say what differs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.support.lab import HOSTS, JUDICATORS, Site, becomes_primary

# Seconds for which a planned verb may keep verdicts away, a fail-over of the primary included. Where nothing else
# keeps the machine busy: what else runs counts too, docs/playbooks/README.md.
PLANNED = 5.0
ALL = "all hosts"
KILLED = ", killed 3 times"  # it follows the verb's name in the row of a killed one


def row_hosts(hosts: Sequence[str]) -> str:
    return ALL if set(hosts) >= set(HOSTS) else ", ".join(hosts)


@dataclass(frozen=True)
class Verb:
    """One playbook, on certain hosts of the cluster that all tests share."""

    name: str
    hosts: tuple[str, ...]
    play: tuple[str, ...]
    """What ansible-playbook is given after the inventory."""
    manner: str = ""
    """What the row says behind the name, where a verb has several: what the host is, or was."""
    back: Verb | None = None
    """What brings the cluster of the inventory back; a row of its own."""
    before: Callable[[Site], None] | None = None
    """What has to happen first, under the submissions too: a machine dies."""
    again: bool = True
    """Whether a second run changes nothing; what starts machines or runs a command does it whenever it is asked to."""
    previewed: bool = True
    """Whether check mode is asked before: what a death changes it can only know after that, as the killed run asks."""
    planned: bool = True
    """Whether verdicts may be away for PLANNED seconds at most: a machine that dies was not planned."""
    streamed: bool = True
    """Whether submissions are handed in meanwhile; the only gateway cannot be taken out under them."""
    removed: bool = False
    """Whether nothing of Judge is left on the hosts, and their old keys open nothing."""
    dead: bool = False
    """Whether the hosts are off when it has ended."""

    @property
    def title(self) -> str:
        return f"{self.name} ({self.manner})" if self.manner else self.name

    @property
    def label(self) -> str:
        return "-".join((self.name, *self.hosts, *self.manner.split()[-1:]))

    def rows(self) -> tuple[tuple[str, str], ...]:
        titles = (self.title, self.title + KILLED) if self.streamed else ()
        own = ((title, row_hosts(self.hosts)) for title in titles)
        return (*own, *(self.back.rows() if self.back else ()))


def _limit(*hosts: str) -> tuple[str, ...]:
    return ("--limit", ",".join(hosts))


def _add(host: str, manner: str = "", *, streamed: bool = True, before: Callable[[Site], None] | None = None) -> Verb:
    play = ("site.yml", *_limit(host))
    return Verb("add", (host,), play, manner, before=before, streamed=streamed, previewed=not before)


def _remove(host: str, *, streamed: bool = True) -> Verb:
    back = _add(host, streamed=streamed)
    return Verb("remove", (host,), _leaves(host), back=back, streamed=streamed, removed=True)


def _leaves(host: str) -> tuple[str, ...]:
    return ("playbooks/remove.yml", "-e", f"judge_remove={host}", "-e", f"confirm={host}")


def _remove_dead(host: str) -> Verb:
    """Nobody answers at its address; a machine without anything comes back later."""
    back = _add(host, "after its death", before=lambda site: site.lab.wipe(host))
    return Verb(
        "remove", (host,), _leaves(host), "dead", back=back, before=lambda site: site.lab.kill(host),
        previewed=False, planned=False, removed=True, dead=True,
    )  # fmt: skip


def _remove_primary(host: str) -> Verb:
    """It leads MongoDB when the run begins, so others have to take over first."""

    def leads(site: Site) -> None:
        becomes_primary(site.lab, host, JUDICATORS)

    back = _add(host, "that was primary")
    return Verb("remove", (host,), _leaves(host), "the primary", back=back, before=leads, removed=True)


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
    _remove_dead("e2"),
    _remove_primary("j1"),
    Verb("replace", ("j2",), ("playbooks/replace.yml", "-e", "judge_replace=j2", "-e", "confirm=j2"), "dead",
         before=_dies("j2"), planned=False, previewed=False),
)  # fmt: skip

# Verb and hosts of every row that tests/cluster can write: what docs/playbooks/README.md has.
ROWS: tuple[tuple[str, str], ...] = (
    ("(site.yml, nothing to do)", ALL),
    *(row for verb in VERBS for row in verb.rows()),
    ("reboot (of two gateways)", "g1"),
    ("reboot (with two gateways)", ALL),
    ("add", "g2"),
    ("remove (of two gateways)", "g2"),
    ("add (3 judicators to 5)", "j4, j5"),
    ("remove (of 5)", "j4"),
    ("remove (of 5)", "j5"),
    ("replace (another address)", "j2"),
    ("replace (another name)", "j2"),
    ("replace (the first name)", "j4"),
    ("backup", "j1"),
    ("backup" + KILLED, "j1"),
    *((name + end, ALL) for name in ("renew", "rotate", "upgrade", "rollback") for end in ("", KILLED)),
    ("rollback of a first host", "e2"),
    ("stopped upgrade, and rollback", ALL),
    ("restore" + KILLED, "all judicators"),
    ("recover" + KILLED, "all judicators"),
    ("stop and start", ALL),
    ("site.yml (the authority has expired)", ALL),
    ("reset" + KILLED, ALL),
)
