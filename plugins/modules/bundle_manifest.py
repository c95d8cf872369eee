#!/usr/bin/python
"""Write the manifest of a bundle: every file's size and SHA-256, and what the bundle is for."""

from __future__ import annotations

import json
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.judge_files import FORMAT, MANIFEST, describe, listing, mode_of, write_atomic

DOCUMENTATION = r"""
module: bundle_manifest
short_description: Write a bundle's manifest
description:
  - Holds no time and no machine's name, so the same files give the same manifest.
options:
  path: {description: The bundle's directory., type: path, required: true}
  release: {description: Code name of the hosts' Debian release., type: str, required: true}
  architecture: {description: The hosts' Debian architecture., type: str, required: true}
  python: {description: "The hosts' Python, as in C(3.13).", type: str, required: true}
  versions: {description: Version of each named thing., type: dict, required: true}
author: [Judge]
"""

RETURN = r"""
sha256: {description: SHA-256 of the manifest itself., type: str, returned: always}
size: {description: Bytes of all files., type: int, returned: always}
count: {description: Number of files., type: int, returned: always}
"""


def main() -> None:
    """Entry point of the module."""
    text = {"type": "str", "required": True}
    module = AnsibleModule(
        {
            "path": {"type": "path", "required": True},
            "release": text,
            "architecture": text,
            "python": text,
            "versions": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    root = Path(module.params["path"])
    files = {path: describe(root / path) for path in listing(root)}
    manifest = {"format": FORMAT, "files": files}
    manifest.update({key: module.params[key] for key in ("release", "architecture", "python", "versions")})
    data = (json.dumps(manifest, indent=1, sort_keys=True) + "\n").encode()
    target = root / MANIFEST
    changed = not target.is_file() or target.read_bytes() != data
    if not module.check_mode:
        for path in files:
            file = root / path
            if file.stat().st_mode & 0o7777 != mode_of(path):
                file.chmod(mode_of(path))
                changed = True
        if changed:
            write_atomic(target, data, 0o644)
    total = sum(entry["size"] for entry in files.values())
    digest = module.sha256(str(target)) if target.is_file() else ""
    module.exit_json(changed=changed, sha256=digest, size=total, count=len(files))


if __name__ == "__main__":
    main()
