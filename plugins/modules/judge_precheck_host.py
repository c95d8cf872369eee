#!/usr/bin/python
"""Looks at a host for a precheck; changes nothing."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.judge_observe import observe

DOCUMENTATION = r"""
module: judge_precheck_host
short_description: Observe a host before anything is changed
description:
  - Changes nothing. Never fails; a host that cannot be reached or looked at says so in the result.
options:
  address: {description: The host's address in the inventory., type: str, default: ""}
  ports: {description: Ports that the cluster is going to use here., type: list, elements: int, default: []}
  paths: {description: Directories whose free space matters., type: list, elements: str, default: []}
  etcd_path: {description: etcd's data directory., type: path, required: true}
  mongodb_path: {description: MongoDB's data directory., type: path, required: true}
  peers:
    description: Addresses with ports that this host has to reach.
    type: list
    elements: str
    default: []
  https:
    description: C(certificate), C(key) and C(name) of a gateway with a certificate of another authority.
    type: dict
    default: {}
author: [Judge]
"""

RETURN = r"""
seen: {description: The observations., type: dict, returned: when the host could be looked at}
unreached: {description: Why there is no connection., type: str, returned: when there is none}
broken: {description: Why the host cannot be looked at., type: str, returned: when it cannot}
"""


def main() -> None:
    module = AnsibleModule(
        {
            "address": {"type": "str", "default": ""},
            "ports": {"type": "list", "elements": "int", "default": []},
            "paths": {"type": "list", "elements": "str", "default": []},
            "etcd_path": {"type": "path", "required": True},
            "mongodb_path": {"type": "path", "required": True},
            "peers": {"type": "list", "elements": "str", "default": []},
            "https": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    module.exit_json(changed=False, seen=observe(**module.params))


if __name__ == "__main__":
    main()
