#!/usr/bin/python
"""A host's half of judge_pki_certificates: make missing keys, hand out requests, put certificates into their places."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.judge_keys import (
    DIRECTORY_MODE,
    KeyPairError,
    coming,
    ids,
    install,
    is_usable,
    make,
    read,
    request_for,
    settle,
)
from ..module_utils.judge_lock import UMASK
from ..module_utils.judge_writing import put

DOCUMENTATION = r"""
module: judge_pki_certificates
short_description: Key pairs made on the host, certificates signed on the controller
description:
  - Makes each missing key on the host; only requests leave it. The controller signs those whose certificate is missing,
    is not this authority's, says something else, belongs to another key, or expires within I(renew_days).
  - Nothing that is secret is given to the module or returned by it.
options:
  authority: {description: Directory of the authority on the controller., type: path, required: true}
  path: {description: "Directory on the host for ca.crt, NAME.crt and NAME.key.", type: path, required: true}
  host: {description: The certificates' common name., type: str, required: true}
  days: {description: How long a new certificate lasts., type: int, required: true}
  renew_days: {description: A certificate that expires within this many days is replaced., type: int, required: true}
  force: {description: Replace all certificates., type: bool, default: false}
  new_keys: {description: Replace all keys as well., type: bool, default: false}
  certificates:
    description: The host's certificates.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name of its files., type: str, required: true}
      role: {description: Its subject's OU., type: str, required: true}
      owner: {description: The user who may read the key., type: str, required: true}
      group: {description: "The key's group, by default the owner's.", type: str}
      sans: {description: Names and addresses under which it serves., type: list, elements: str, required: true}
author: [Judge]
"""

RETURN = r"""
reasons: {description: "Why each certificate was (or, in check mode, would be) replaced.", type: dict, returned: always}
"""


def keys(module: AnsibleModule, directory: Path) -> dict[str, Any]:
    """Make what is missing; for each certificate its request and what is there now.

    A new key waits beside the old one until its certificate is there: what serves goes on with a pair that belongs
    together, also when the run is cut off in between.
    """
    write, changed, present = not module.check_mode, False, []
    trusted, new_keys = module.params["ca"], module.params["new_keys"]
    if not directory.is_dir() or directory.stat().st_mode & 0o7777 != DIRECTORY_MODE:
        changed = True
        if write:
            directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
            directory.chmod(DIRECTORY_MODE)
    if trusted and read(directory / "ca.crt") != trusted:
        changed = True
        if write:
            put(directory / "ca.crt", trusted.encode("ascii"), 0o644)
    for certificate in module.params["certificates"]:
        key, cert = directory / f"{certificate['name']}.key", directory / f"{certificate['name']}.crt"
        missing = new_keys or not is_usable(key)
        changed = changed or missing
        owner = ids(certificate["owner"], certificate["group"]) if write or not missing else None
        if write:
            coming(key).unlink(missing_ok=True)
        if owner and missing:
            make(coming(key))
            settle(coming(key), *owner, 0o600, write=True)
        elif owner:
            changed = settle(key, *owner, 0o600, write=write) or changed
        csr = "" if missing and not write else request_for(coming(key) if missing else key)
        present.append({"csr": csr, "certificate": read(cert)})
    return {"changed": changed, "held": present}


def main() -> None:
    text = {"type": "str"}
    module = AnsibleModule(
        {
            "path": {"type": "path", "required": True},
            "ca": {"type": "str", "default": ""},
            "new_keys": {"type": "bool", "default": False},
            "certificates": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "owner": {"type": "str", "required": True},
                    "group": text,
                    "certificate": text,
                },
            },
        },
        supports_check_mode=True,
    )
    os.umask(UMASK)
    directory = Path(module.params["path"])
    signed = [certificate for certificate in module.params["certificates"] if certificate["certificate"]]
    try:
        if signed:
            for certificate in signed:
                install(
                    directory / f"{certificate['name']}.key",
                    directory / f"{certificate['name']}.crt",
                    certificate["certificate"],
                )
            module.exit_json(changed=True)
        module.exit_json(**keys(module, directory))
    except KeyPairError as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename or directory}: {exc.strerror}; make it writable for root")


if __name__ == "__main__":
    main()
