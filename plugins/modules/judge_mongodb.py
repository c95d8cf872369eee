#!/usr/bin/python
"""The replica set's users and feature compatibility, as its primary is told by a member."""

from __future__ import annotations

DOCUMENTATION = r"""
module: judge_mongodb
short_description: Make users for the passwords in force, or say or raise the feature compatibility
description:
  - Works on the replica set's primary, logged in as its members are, with the host's C(/etc/judge/mongodb.yml).
  - Runs under the Python of the installed release, which has the package C(judge).
options:
  state:
    description:
      - With V(users) there is a user for each password in the file that C(mongodb.yml) names; with V(only_users) others
        are removed as well.
      - V(features) says which feature compatibility there is. A replica set whose members were all brought to a newer
        version goes on with the features of the former one, and can be brought back to it, until this is raised. With
        V(raised) it is, and there is no way back.
    type: str
    choices: [users, only_users, features, raised]
    required: true
author: [judge]
"""

RETURN = r"""
made: {description: Names of users that were made., type: list, returned: with O(state=users)}
removed: {description: Names of users that were removed., type: list, returned: with O(state=only_users)}
sentence: {description: "What the feature compatibility is, for people.", type: str, returned: with O(state=features)}
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

CONFIG = Path("/etc/judge/mongodb.yml")


def bring_about(state: str, *, write: bool) -> dict[str, Any]:
    """The module's result; JudgeError. Without `write` only the feature compatibility is looked at."""
    if "users" in state and not write:
        return {"changed": True, "made": [], "removed": []}
    from judge import config  # noqa: PLC0415 - only the release's Python has it
    from judge.mongodb import features, replica, users  # noqa: PLC0415

    settings = config.load(config.MongodbConfig, CONFIG)
    with replica.of_the_primary(settings, 30.0) as client:
        if "users" in state:
            added = users.ensure(client, settings)
            removed = users.remove_left_over(client, settings) if state == "only_users" else []
            return {"changed": bool(added or removed), "made": added, "removed": removed}
        now = features.observe(client, settings)
        raising = state == "raised" and now.may_be_raised
        if raising and write:
            features.raise_to(client, now.wanted)
    sentence = f"MongoDB's feature compatibility is {now.wanted} now" if raising else now.sentence
    return {"changed": raising, "sentence": sentence}


def main() -> None:
    states = ["users", "only_users", "features", "raised"]
    module = AnsibleModule({"state": {"type": "str", "choices": states, "required": True}}, supports_check_mode=True)
    state = module.params["state"]
    try:
        from judge.common.errors import JudgeError  # noqa: PLC0415

        module.exit_json(**bring_about(state, write=not module.check_mode))
    except ImportError:
        module.fail_json(msg="/opt/judge/current has no package 'judge' that knows this; run site.yml first")
    except JudgeError as exc:
        if "users" in state:
            module.fail_json(msg=f"the database did not take over the passwords: {exc}; run it again")
        module.fail_json(msg=f"MongoDB's feature compatibility was not raised: {exc}; run it again")


if __name__ == "__main__":
    main()
