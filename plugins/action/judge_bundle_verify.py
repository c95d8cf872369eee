"""Compare a bundle's files with its manifest, byte by byte, on the controller; changes nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this project need not be installed beside Ansible
from judge.deploy.bundle.files import BundleError, faults, read_manifest


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


class ActionModule(ActionBase):
    """`judge_bundle_verify: {path}`; it returns faults, so that a precheck can report them beside others."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ansible's entry point."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, args = self.validate_argument_spec({"path": {"type": "path", "required": True}})
        return result | {"changed": False} | compared(Path(args["path"]).expanduser())
