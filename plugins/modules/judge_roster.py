#!/usr/bin/python
"""Shows who belongs to the cluster, and takes one name out of it; runs on a judicator's host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: judge_roster
short_description: Read the members of all kinds of a cluster, or take one name out of it
description:
  - Reads the members of etcd and of the replica set, the judicators, the executors, and whose certificates are refused;
    and says what taking names out would do, and why it may not be.
  - With O(state=absent), takes O(names) out of the replica set and of etcd, refuses their certificates, ends their
    registration and forgets them as executors. Each step looks first, so the next run finishes one that was cut off.
  - With O(state=refused), refuses the certificates of every name in O(refused) that the cluster does not refuse yet.
    The databases of a new cluster do not know the hosts that were removed before.
  - Runs under the Python of the installed release, which has the package C(judge).
options:
  state: {description: What to do., type: str, choices: [read, absent, refused], default: read}
  names: {description: The hosts that leave., type: list, elements: str, default: []}
  again: {description: They have got new certificates since they were removed., type: bool, default: false}
  inventory:
    description: The inventory's hosts by group; members that are in none of their kind's are named.
    type: dict
    default: {}
  before:
    description: The moment (seconds since 1970) before which issued certificates are refused, or have to be.
    type: float
    default: 0
  refused:
    description: The moment (seconds since 1970) before which certificates are refused, by name.
    type: dict
    default: {}
  timeout: {description: Seconds that each step may take., type: int, default: 120}
author: [judge]
"""

EXAMPLES = r"""
- name: The host has left the cluster
  judge_roster:
    state: absent
    names: [j3]
    before: 1764000000
  vars:
    ansible_python_interpreter: /opt/judge/current/bin/python
"""

RETURN = r"""
roster: {description: Everybody by kind., type: dict, returned: success}
plan: {description: What is (or would be) done to each name., type: dict, returned: success}
refusals: {description: Why the names may not leave., type: list, returned: success}
outages: {description: What could not be done while the names are stopped., type: list, returned: success}
remarks: {description: What to know of the cluster that is left., type: list, returned: success}
refused: {description: The names in O(refused) that the cluster did not refuse., type: list, returned: success}
strangers: {description: Members that the inventory does not have., type: list, returned: success}
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.judge_lock import LockedError, one_at_a_time
from ..module_utils.judge_roster import (
    Roster,
    RosterError,
    forgotten,
    outages,
    plan,
    refusals,
    remarks,
    strangers,
    unknown,
)

_SETTLED = 15.0  # seconds in which a member that has just been started, or whose primary changes, is a healthy one


def settled(roster: Roster, names: list[str]) -> dict[str, Any]:
    """The roster; looked at again for a while where somebody is missing, who may be starting."""
    end = time.monotonic() + _SETTLED
    while True:
        state = roster.read()
        if not (refusals(state, names) or outages(state, names)) or time.monotonic() > end:
            return state
        time.sleep(1.0)


def run(params: dict[str, Any], *, write: bool) -> dict[str, Any]:
    roster, names = Roster(), params["names"]
    roster_state = settled(roster, names)
    steps = {name: plan(roster_state, name, again=params["again"], before=params["before"]) for name in names}
    problems = (unknown(roster_state, names, params["inventory"]) if params["inventory"] else []) + refusals(
        roster_state, names
    )
    todo = [name for name in names if steps[name]]
    if params["state"] == "absent" and write and todo:
        if problems:
            raise RosterError("; ".join(problems))
        for name in todo:
            roster.remove(name, params["before"], params["timeout"])
    missing = forgotten(roster_state, {name: float(before) for name, before in params["refused"].items()})
    if params["state"] == "refused" and write:
        for name, before in missing.items():
            roster.refuse(name, before, params["timeout"])
    return {
        "changed": (params["state"] == "absent" and bool(todo)) or (params["state"] == "refused" and bool(missing)),
        "refused": sorted(missing),
        "roster": roster_state,
        "plan": steps,
        "refusals": problems,
        "outages": outages(roster_state, names),
        "remarks": [text for name in names for text in remarks(roster_state, name)],
        "strangers": strangers(roster_state, params["inventory"]) if params["inventory"] else [],
    }


def main() -> None:
    names = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        {
            "state": {"type": "str", "choices": ["read", "absent", "refused"], "default": "read"},
            "names": names,
            "inventory": {"type": "dict", "default": {}},
            "again": {"type": "bool", "default": False},
            "before": {"type": "float", "default": 0},
            "refused": {"type": "dict", "default": {}},
            "timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    try:
        from judge.common.errors import JudgeError  # noqa: PLC0415
    except ImportError:
        module.fail_json(
            msg="this host has no release of judge; it is no judicator, or site.yml has not installed it yet"
        )
    write = not module.check_mode
    try:
        if write and module.params["state"] != "read":
            with one_at_a_time():
                module.exit_json(**run(module.params, write=True))
        module.exit_json(**run(module.params, write=False))
    except (RosterError, LockedError, JudgeError) as exc:
        module.fail_json(msg=str(exc))


if __name__ == "__main__":
    main()
