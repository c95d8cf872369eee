#!/usr/bin/python
"""A judicator's part of the cluster-wide deploy lock: who changes the cluster now, and since when."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.judge_lock import LockedError, one_at_a_time
from ..module_utils.judge_writing import put

DOCUMENTATION = r"""
module: judge_deploy_lock
short_description: Take, free or look at the deploy lock of one judicator
description:
  - A run takes the lock of every judicator that it reaches, in the same order as all others do; a run that finds one of
    them taken frees those that it has and stops. Called by the role judge_common (tasks C(lock) and C(unlock)).
  - A lock outlives a restart of its host, as the run that has it may be the one that restarts hosts.
  - Its own run takes it again, also one with the same O(owner), one that a run of this controller has left behind that
    does not live any more, and with O(take_over) any. Nothing is done in check mode.
options:
  path: {description: The lock's file., type: path, required: true}
  state: {description: What to do., type: str, choices: [taken, free, read], required: true}
  owner:
    description: A name that one person or pipeline, which never runs twice at a time, has for itself.
    type: str
    default: ""
  take_over: {description: Whether somebody else's lock is no hindrance., type: bool, default: false}
author: [Judge]
"""

RETURN = r"""
held: {description: "Another run that has it: C(who), C(verb), C(age) in seconds.", type: dict, returned: success}
"""


def read(path: Path) -> dict[str, Any]:
    """The record; empty when there is none. One that cannot be read is nobody's."""
    try:
        lock = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        return {"run": "", "who": "somebody", "verb": "an unknown playbook", "since": path.stat().st_mtime}
    return lock if isinstance(lock, dict) else {}


def act(path: Path, state: str, record: dict[str, Any], over: str | None, now: float) -> dict[str, Any]:
    """Take or free the lock, or look at it; the record of who has it, empty when that is nobody or this run.

    `over`: the run whose lock may be replaced or freed as if it were this run's own. `now`: seconds since the epoch.
    """
    lock = read(path)
    ours = not lock or lock.get("run") in {record["run"], over}
    if state == "taken" and ours:
        # Taken again within one run, it is as old as the run.
        since = lock["since"] if lock.get("run") == record["run"] else now
        put(path, json.dumps({**record, "since": since}).encode() + b"\n", 0o644)
    if state == "free" and ours:
        path.unlink(missing_ok=True)
    if not lock or (ours and state != "read"):
        return {}
    return {**lock, "age": max(now - lock.get("since", now), 0)}


def main() -> None:
    module = AnsibleModule(
        {
            "path": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["taken", "free", "read"], "required": True},
            "record": {"type": "dict", "required": True},
            "over": {"type": "str"},
        },
        supports_check_mode=True,
    )
    params = module.params
    state = "read" if module.check_mode else params["state"]
    try:
        # A mere look writes nothing, not even the lock's own directory.
        with contextlib.nullcontext() if state == "read" else one_at_a_time(name="deploy", patience=30):
            lock = act(Path(params["path"]), state, params["record"], params["over"], time.time())
    except (LockedError, OSError) as exc:
        module.fail_json(msg=f"the deploy lock {params['path']} cannot be used: {exc}")
    module.exit_json(changed=False, held=lock)


if __name__ == "__main__":
    main()
