#!/usr/bin/python
"""Compare a bundle's files with its manifest, byte by byte; changes nothing."""

from __future__ import annotations

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.judge_files import BundleError, faults, read_manifest

DOCUMENTATION = r"""
module: bundle_verify
short_description: Compare a bundle with its manifest
description:
  - Reads every byte of the bundle's files and compares size and SHA-256 with C(manifest.json).
  - Changes nothing. Faults are returned, not raised, so that a precheck can report them beside others.
options:
  path: {description: The bundle's directory., type: path, required: true}
author: [Judge]
"""

RETURN = r"""
problems: {description: One sentence per fault; empty when every byte is as it should be., type: list, returned: always}
manifest: {description: The manifest without its list of files., type: dict, returned: when it can be read}
sha256: {description: SHA-256 of the manifest itself., type: str, returned: when it can be read}
size: {description: Bytes of all files., type: int, returned: when it can be read}
"""


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule({"path": {"type": "path", "required": True}}, supports_check_mode=True)
    root = Path(module.params["path"])
    try:
        manifest, digest = read_manifest(root)
    except BundleError as exc:
        module.exit_json(problems=[str(exc)])
    files = manifest.pop("files")
    found = faults(root, files)
    module.exit_json(
        problems=[
            f"bundle {root}: {path} {fault}; make it anew with playbooks/bundle.yml, or copy it anew"
            for path, fault in found.items()
        ],
        manifest=manifest,
        sha256=digest,
        size=sum(entry["size"] for entry in files.values()),
    )


if __name__ == "__main__":
    main()
