"""Compare a bundle's files with its manifest, byte by byte, on the controller; changes nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this project need not be installed beside Ansible
from judge.deploy.bundle.files import BundleError, faults, read_manifest
from plugins.action.judge_controller import ControllerAction


def compared(root: Path) -> dict[str, Any]:
    """`problems`, a sentence each. Of a readable manifest: itself without its files, its `sha256`, `size` in bytes."""
    try:
        manifest, digest = read_manifest(root)
    except BundleError as exc:
        return {"problems": [str(exc)]}
    files = manifest.pop("files")
    problems = [
        f"bundle {root}: {path} {fault}; make it anew with playbooks/bundle.yml, or copy it anew"
        for path, fault in faults(root, files).items()
    ]
    size = sum(entry["size"] for entry in files.values())
    return {"problems": problems, "manifest": manifest, "sha256": digest, "size": size}


class ActionModule(ControllerAction):
    """`judge_bundle_verify: {path}`; it returns faults, so that a precheck can report them beside others."""

    OPTIONS: ClassVar[dict[str, Any]] = {"path": {"type": "path", "required": True}}

    def act(self, args: dict[str, Any], _: dict[str, Any]) -> dict[str, Any]:
        return compared(Path(args["path"]).expanduser())
