"""A member of a deployed replica set becomes its primary because a test says so, and not by chance."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from lab.cluster import Lab
from tests.support.servers import wait_for

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


def _told(lab: Lab, host: str, *words: str) -> bool:
    return lab.ssh(host, shlex.join([PYTHON, "-c", PROGRAM, *words])).strip() == "True"


def becomes_primary(lab: Lab, host: str, judicators: Sequence[str]) -> None:
    """Hand over to this one while the third may not stand; afterwards that one may."""
    (primary,) = (one for one in judicators if _told(lab, one, "ask"))
    if primary == host:
        return
    others = [one for one in judicators if one not in {primary, host}]
    for one in others:
        _told(lab, one, "bar", str(BARRED))
    _told(lab, primary, "hand-over")
    wait_for(lambda: _told(lab, host, "ask"), BARRED, f"{host} as primary")
    for one in others:
        _told(lab, one, "bar", "0")
