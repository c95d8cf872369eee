#!/usr/bin/python
"""The cluster's certificate authority on the controller: made once, then only read."""

from __future__ import annotations

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pki_ca
short_description: Make the cluster's certificate authority once
description:
  - Makes C(ca.crt), C(ca.key) (encrypted) and C(ca.passphrase) on the controller; never replaces any.
  - Returns nothing that is secret.
options:
  path: {description: Directory of the authority., type: path, required: true}
  name: {description: Name of the cluster., type: str, default: judge}
  days: {description: How long a new authority lasts., type: int, default: 3650}
  state:
    description: C(present) makes it and fails when it cannot sign; C(read) only says how it is.
    choices: [present, read]
    default: present
    type: str
author: [Judge]
"""

RETURN = r"""
problem: {description: Why it cannot sign; empty when it can or does not exist yet., type: str, returned: always}
exists: {description: Whether there is an authority., type: bool, returned: always}
certificate: {description: Its certificate (PEM)., type: str, returned: when it exists and can be read}
days_left: {description: Days until it expires., type: int, returned: when it exists and can be read}
"""


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        {
            "path": {"type": "path", "required": True},
            "name": {"type": "str", "default": "judge"},
            "days": {"type": "int", "default": 3650},
            "state": {"type": "str", "choices": ["present", "read"], "default": "present"},
        },
        supports_check_mode=True,
    )
    try:
        from ..module_utils.judge_ca import Authority, CaError, days_left, now  # noqa: PLC0415 - may be missing
    except ImportError as exc:
        module.fail_json(msg=f"{exc.name} is missing on the controller; install the Python package cryptography there")
    authority = Authority(Path(module.params["path"]))
    problem = authority.problem(now())
    result: dict[str, object] = {"changed": False, "problem": problem, "exists": bool(problem)}
    try:
        made = not problem and not authority.exists()
        if module.params["state"] == "present":
            if problem:
                module.fail_json(msg=problem)
            result["changed"] = made
            if made and not module.check_mode:
                authority.make(module.params["name"], module.params["days"])
        if not problem and authority.exists():
            pem = authority.cert_file.read_text(encoding="ascii")
            result.update(exists=True, certificate=pem, days_left=days_left(authority.certificate(), now()))
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename}: {exc.strerror}; make judge_secrets_dir writable for this user")
    except CaError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
