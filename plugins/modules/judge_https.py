#!/usr/bin/python
"""Look at the certificate that browsers see, and at what nginx serves with it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: judge_https
short_description: Check the certificate of a gateway, and nginx that serves it
description:
  - Fails with one sentence if a browser would refuse the certificate, or if nginx does not serve it.
  - Changes nothing.
options:
  certificate: {description: The chain that browsers see., type: path, required: true}
  key: {description: Its key., type: path, required: true}
  name: {description: The name by which people reach the gateway., type: str, required: true}
  ca:
    description: Authorities to trust; without it this host's, and those that stand in O(certificate).
    type: path
  port: {description: "The port of nginx on this host; 0 asks nobody.", type: int, default: 0}
author: [judge]
"""

RETURN = r"""
warnings: {description: What to know about the certificate., type: list, returned: when there is anything}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.judge_https import HttpsError, ask, verdict


def main() -> None:
    module = AnsibleModule(
        {
            "certificate": {"type": "path", "required": True},
            "key": {"type": "path", "required": True, "no_log": False},
            "name": {"type": "str", "required": True},
            "ca": {"type": "path"},
            "port": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    params = module.params
    result = verdict(params["certificate"], params["key"], params["name"])
    if result.fault:
        module.fail_json(msg=result.fault)
    for text in result.warnings:
        module.warn(text)
    if params["port"]:
        try:
            ask(params["certificate"], params["name"], params["port"], params["ca"] or "")
        except HttpsError as exc:
            module.fail_json(msg=str(exc))
    module.exit_json(changed=False)


if __name__ == "__main__":
    main()
