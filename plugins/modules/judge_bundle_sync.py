#!/usr/bin/python
"""A host's half of judge_bundle_sync: compare the bundle with the manifest, then unpack what was missing."""

from __future__ import annotations

import hashlib
import os
import tarfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.judge_files import MANIFEST, BundleError, blocks, mode_of, parse_manifest
from ..module_utils.judge_former import come_back, compare, keep, settle
from ..module_utils.judge_lock import UMASK

DOCUMENTATION = r"""
module: judge_bundle_sync
short_description: Bring a host's copy of the bundle up to date
description:
  - Compares every byte of the host's copy with the controller's manifest, sends only files that differ in one archive,
    verifies them before they take their place, and removes files that the manifest does not name.
  - When a file is not what the manifest says, it is named and nothing takes its place.
options:
  src: {description: The bundle's directory on the controller., type: path, required: true}
  dest: {description: The copy's directory on the host., type: path, required: true}
  manifest_sha256: {description: SHA-256 that the manifest itself must have., type: str, default: ""}
  state:
    description:
      - With V(kept) a copy that another bundle is about to replace is kept beside O(dest), for the way back.
      - With V(back) O(dest) is what was kept, where that is the bundle of O(version); otherwise it stays as it is, and
        the controller's is sent only where there is none.
    type: str
    choices: [synced, kept, back]
    default: synced
  version: {description: The version of judge that is gone back to., type: str, default: ""}
  packages:
    description: Packages that the host installs. Others are not sent, except those that these need.
    type: list
    elements: str
  programs: {description: Whether the host runs mongod., type: bool, default: true}
author: [Judge]
"""

RETURN = r"""
missing: {description: "Files that were (or, in check mode, would be) sent.", type: list, returned: always}
removed: {description: Files that the manifest does not name., type: list, returned: always}
manifest: {description: The manifest., type: dict, returned: always}
back: {description: Files that came from what was kept., type: list, returned: with O(state=back)}
alone: {description: Whether the host needs nothing of the controller., type: bool, returned: with another O(state)}
former: {description: Whether O(dest) is what was kept., type: bool, returned: with O(state=back)}
"""


def unpack(archive: Path, staging: Path, files: dict[str, Any], names: list[str]) -> None:
    """Write the named files below `staging`, verified while they are written; BundleError names a wrong one."""
    remaining = set(names)
    with tarfile.open(archive, "r:") as opened:
        for member in opened:
            source = opened.extractfile(member)
            if member.name not in remaining or source is None:
                raise BundleError(f"the archive holds '{member.name}', which was not asked for; run the playbook again")
            remaining.discard(member.name)
            target = staging / member.name
            target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            digest, size = hashlib.sha256(), 0
            with source, target.open("wb") as file:
                for piece in blocks(source):
                    digest.update(piece)
                    size += len(piece)
                    file.write(piece)
                os.fchmod(file.fileno(), mode_of(member.name))
            if {"size": size, "sha256": digest.hexdigest()} != files[member.name]:
                raise BundleError(f"{member.name} arrived damaged, nothing was installed; run the playbook again")
    if remaining:
        raise BundleError(f"the archive lacks {min(remaining)}, nothing was installed; run the playbook again")


def main() -> None:
    module = AnsibleModule(
        {
            "src": {"type": "path"},
            "dest": {"type": "path", "required": True},
            "manifest": {"type": "str", "required": True},
            "archive": {"type": "path"},
            "state": {"type": "str", "choices": ["synced", "kept", "back"], "default": "synced"},
            "version": {"type": "str", "default": ""},
            "left_out": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    os.umask(UMASK)
    params, dest, text = module.params, Path(module.params["dest"]), module.params["manifest"]
    unneeded = set(params["left_out"])
    try:
        if params["state"] == "kept":
            module.exit_json(changed=keep(dest, text, check=module.check_mode), alone=True)
        if params["state"] == "back":
            former = come_back(dest, params["version"], check=module.check_mode)
            if former["manifest"]:
                module.exit_json(**former, alone=True)
        manifest = parse_manifest(text, f"{params['src']}/{MANIFEST}")
        files = manifest["files"]
        difference = compare(dest, files, unneeded, text.encode())
        if params["archive"] and not module.check_mode:
            archive, missing = Path(params["archive"]), difference["missing"]
            settle(dest, difference, unneeded, text.encode(), lambda staging: unpack(archive, staging, files, missing))
    except BundleError as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename or dest}: {exc.strerror}; free space or make it writable for root")
    module.exit_json(**difference, manifest=manifest)


if __name__ == "__main__":
    main()
