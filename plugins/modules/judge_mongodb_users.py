#!/usr/bin/python
"""Have the replica set know the passwords of a judicator's file, before anything logs in with them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: judge_mongodb_users
short_description: Make a user of the database for each password that is in force
description:
  - Reads the host's C(/etc/judge/mongodb.yml) and the password file that it names, and makes a user for each password
    on the replica set's primary, logged in as its members are.
  - Runs under the Python of the installed release, which has the package C(judge).
options:
  left_over:
    description: Whether users whose passwords are not in the file any more are removed or kept.
    type: str
    choices: [keep, remove]
    default: keep
author: [judge]
"""

EXAMPLES = r"""
- name: The database knows the new password
  judge_mongodb_users:
  vars:
    ansible_python_interpreter: /opt/judge/current/bin/python
"""

RETURN = r"""
made: {description: Names of users that were made., type: list, returned: success}
removed: {description: Names of users that were removed., type: list, returned: success}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

CONFIG = Path("/etc/judge/mongodb.yml")


def main() -> None:
    """Module entry point."""
    module = AnsibleModule(
        argument_spec={"left_over": {"type": "str", "choices": ["keep", "remove"], "default": "keep"}},
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=True, made=[], removed=[])
    try:
        from judge import config  # noqa: PLC0415 - only the release's Python has it
        from judge.common.errors import JudgeError  # noqa: PLC0415
        from judge.mongodb import replica, users  # noqa: PLC0415
    except ImportError:
        module.fail_json(msg="/opt/judge/current has no package 'judge' that knows this; run site.yml first")
    try:
        settings = config.load(config.MongodbConfig, CONFIG)
        client = replica.of_the_primary(settings)
        with client:
            added = users.ensure(client, settings)
            removed = users.remove_left_over(client, settings) if module.params["left_over"] == "remove" else []
    except JudgeError as exc:
        module.fail_json(msg=f"the database did not take over the passwords: {exc}; run it again")
    module.exit_json(changed=bool(added or removed), made=added, removed=removed)


if __name__ == "__main__":
    main()
