"""Decides whether a judicator may become all that there is, and says what that means. Pure; runs on the controller.

Standard library only, as the Python that runs Ansible need not have what daemons import.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class WayBack:
    """`refusal`: why nothing may be done, or empty. `plan` is for the person who confirms.

    `gone` are the judicators that do not come back with their data; `alone` whether the survivor has to become the only
    one, and `etcd` whether etcd has to be formed anew for that: an earlier run may have done either.
    """

    seen: list[str]
    refusal: str = ""
    plan: str = ""
    gone: Sequence[str] = ()
    etcd: bool = True
    alone: bool = True


def decide(remains: Mapping[str, Mapping[str, Any] | None], survivor: str) -> WayBack:
    """`remains`: of each judicator of the inventory what looking.look has said, None for one that does not answer."""
    seen = [
        str(state["sentence"]) if state else f"{name}: does not answer, or has nothing of Judge"
        for name, state in sorted(remains.items())
    ]
    remains_of = {name: state for name, state in remains.items() if state}
    keep = sorted(name for name, state in remains_of.items() if state["etcd"] and state["mongodb"])
    quorum = any(state["quorum"] for state in remains_of.values())
    primary = any(state["primary"] for state in remains_of.values())
    majority = len(remains) // 2 + 1
    refusal = ""
    if quorum and primary:
        # So it is after a recovery, too: one that was cut off while the others joined goes on with that.
        plan = "etcd has a quorum and the replica set a primary, so there is nothing to recover; only site.yml is run"
        return WayBack(seen, plan=plan, etcd=False, alone=False)
    if len(keep) >= majority:
        refusal = (
            f"{', '.join(keep)} still have their data, which is a majority of {len(remains)}; start their services "
            "(start.yml, site.yml), as recovering would throw data away"
        )
    elif survivor not in remains:
        refusal = (
            f"'{survivor}' is no judicator of the inventory; name one with -e judge_survivor="
            if survivor
            else ("no survivor is named; choose the judicator whose data reach farthest: -e judge_survivor=")
            + "|".join(keep or ["NAME"])
        )
    elif survivor not in keep:
        refusal = f"{survivor} has no data of etcd and MongoDB to begin with; name one of {', '.join(keep) or 'nobody'}"
    joining = [name for name in sorted(remains) if name != survivor]
    newest = (remains_of.get(survivor) or {}).get("newest") or "a time that is not known, as its mongod does not answer"
    plan = (
        f"{survivor} becomes the only member of etcd and of the replica set, with its data up to {newest}. What was "
        f"acknowledged after that is lost. {', '.join(joining)} join it again as new members; if one of them still has "
        "a disk of before, wipe it first, as two such members together would be a second cluster"
    )
    gone = [name for name in joining if name not in keep]
    return WayBack(seen, refusal, "" if refusal else plan, gone, etcd=not quorum)
