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

    `etcd` and `mongodb`: whether the survivor becomes the only member of it, `alone` whether of either. A kind that
    works, or whose data a majority has, stays as it is. `gone` are the judicators whose members of the replica set do
    not come back with their data.
    """

    seen: list[str]
    refusal: str = ""
    plan: str = ""
    gone: Sequence[str] = ()
    etcd: bool = False
    mongodb: bool = False
    alone: bool = False


def decide(remains: Mapping[str, Mapping[str, Any] | None], survivor: str) -> WayBack:
    """`remains`: of each judicator of the inventory what looking.look has said, None for one that does not answer."""
    seen = [
        str(state["sentence"]) if state else f"{name}: does not answer, or has nothing of Judge"
        for name, state in sorted(remains.items())
    ]
    states = {name: state for name, state in remains.items() if state}
    works = {
        "etcd": any(state["quorum"] for state in states.values()),
        "mongodb": any(state["primary"] for state in states.values()),
    }
    if all(works.values()):
        # So it is after a recovery, too: one that was cut off while the others joined goes on with that.
        plan = "etcd has a quorum and the replica set a primary, so there is nothing to recover; only site.yml is run"
        return WayBack(seen, plan=plan)
    data = {kind: sorted(name for name, state in states.items() if state[kind]) for kind in works}
    majority = len(remains) // 2 + 1
    lost = [kind for kind in works if not works[kind] and len(data[kind]) < majority]
    choices = sorted(name for name in states if all(name in data[kind] for kind in lost))
    stopped = [kind for kind in works if not works[kind] and kind not in lost]
    refusal = ""
    if not lost or "etcd" in stopped:
        kept = " and ".join(f"{_NAMES[kind]} ({', '.join(data[kind])})" for kind in stopped)
        refusal = (
            f"a majority of {len(remains)} judicators still has the data of {kept}; start their services (start.yml, "
            "site.yml), as recovering would throw data away"
        )
    elif not survivor:
        refusal = (
            "no survivor is named; choose the judicator whose data reach farthest: "
            f"-e judge_survivor={'|'.join(choices or ['NAME'])}"
        )
    elif survivor not in remains:
        refusal = f"'{survivor}' is no judicator of the inventory; name one with -e judge_survivor="
    elif survivor not in choices:
        kinds = " and ".join(_NAMES[kind] for kind in lost)
        refusal = f"{survivor} has no data of {kinds} to begin with; " + (
            f"name one of {', '.join(choices)}" if choices else "no judicator has them; restore a backup"
        )
    joining = [name for name in sorted(remains) if name != survivor]
    return WayBack(
        seen,
        refusal,
        "" if refusal else _plan(lost, survivor, str((states.get(survivor) or {}).get("newest") or ""), joining),
        [name for name in joining if name not in data["mongodb"]] if "mongodb" in lost else [],
        etcd="etcd" in lost,
        mongodb="mongodb" in lost,
        alone=bool(lost),
    )


_NAMES = {"etcd": "etcd", "mongodb": "MongoDB"}


def _plan(lost: Sequence[str], survivor: str, newest: str, joining: Sequence[str]) -> str:
    others = ", ".join(joining)
    if "mongodb" not in lost:
        return (
            f"{survivor} becomes the only member of etcd; the replica set of MongoDB stays as it is, so no submission "
            f"is lost. {others} join etcd again as new members; if one of them still has an old disk of etcd, wipe "
            "it first, as two such members together would be a second cluster"
        )
    members = "etcd and of the replica set" if "etcd" in lost else "the replica set"
    return (
        f"{survivor} becomes the only member of {members}, with its data up to "
        f"{newest or 'an unknown time, as its mongod does not answer'}. What was acknowledged after that is lost. "
        f"{others} join it again as new members; if one of them still has a disk of before, wipe it first, as two such "
        "members together would be a second cluster"
    )
