#!/usr/bin/python
"""MongoDB's feature compatibility, once all members run a newer version: left as it is, or raised."""

from __future__ import annotations

DOCUMENTATION = r"""
module: judge_mongodb_features
short_description: Say or raise the feature compatibility of the replica set
description:
  - A replica set whose members were all brought to a newer version goes on with the features of the former one, and can
    be brought back to it, until its feature compatibility is raised.
  - Runs under the Python of the installed release, which has the package C(judge).
options:
  raise: {description: Whether it is raised; there is no way back then., type: bool, default: false}
author: [judge]
"""

RETURN = r"""
sentence: {description: "How it is, for people.", type: str, returned: success}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

CONFIG = Path("/etc/judge/mongodb.yml")


def main() -> None:
    """Module entry point."""
    module = AnsibleModule(argument_spec={"raise": {"type": "bool", "default": False}}, supports_check_mode=True)
    try:
        from judge import config  # noqa: PLC0415 - only the release's Python has it
        from judge.common.errors import JudgeError  # noqa: PLC0415
        from judge.mongodb import features, replica  # noqa: PLC0415
    except ImportError:
        module.fail_json(msg="/opt/judge/current has no package 'judge' that knows this; run site.yml first")
    try:
        settings = config.load(config.MongodbConfig, CONFIG)
        with replica.of_the_primary(settings, 30.0) as client:
            state = features.observe(client, settings)
            raising = module.params["raise"] and state.may_be_raised
            if raising and not module.check_mode:
                features.raise_to(client, state.wanted)
    except JudgeError as exc:
        module.fail_json(msg=f"MongoDB's feature compatibility was not raised: {exc}; run it again")
    sentence = f"MongoDB's feature compatibility is {state.wanted} now" if raising else state.sentence
    module.exit_json(changed=raising, sentence=sentence)


if __name__ == "__main__":
    main()
