"""Controller's half of bundle_sync: send a host those files of the bundle that it lacks, as one archive."""

from __future__ import annotations

import hashlib
import io
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

MANIFEST = "manifest.json"


class _Measured:
    """A file that is hashed while tarfile reads it."""

    def __init__(self, file: io.BufferedReader) -> None:
        self.file = file
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        piece = self.file.read(size)
        self.digest.update(piece)
        return piece


def pack(root: Path, files: dict[str, dict[str, Any]], names: list[str], target: Path) -> str:
    """Write the named files as a tar; a sentence about the first that is not as the manifest says, else ''."""
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        for name in names:
            path, entry = root / name, files[name]
            fault = f"bundle {root}: {name} is not what the manifest says; make it anew with playbooks/bundle.yml"
            try:
                with path.open("rb") as file:
                    member = tarfile.TarInfo(name)
                    member.size = entry["size"]
                    measured = _Measured(file)
                    archive.addfile(member, measured)
                    if measured.digest.hexdigest() != entry["sha256"] or file.read(1):
                        return fault
            except OSError:
                return fault
    return ""


class ActionModule(ActionBase):
    """Compares first, so that a host with the whole bundle costs one module call and no transfer."""

    _VALID_ARGS = frozenset({"src", "dest", "manifest_sha256"})

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ansible's entry point."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(
            {
                "src": {"type": "path", "required": True},
                "dest": {"type": "path", "required": True},
                "manifest_sha256": {"type": "str", "default": ""},
            }
        )
        root = Path(arguments["src"]).expanduser()
        text = self._manifest(root, arguments["manifest_sha256"])
        request = {"dest": arguments["dest"], "manifest": text, "src": str(root)}
        found = self._execute_module(module_name="bundle_sync", module_args=request, task_vars=task_vars)
        result.update(found)
        if found.get("failed") or not found["changed"] or self._task.check_mode:
            return result
        with tempfile.TemporaryDirectory(prefix="judge-bundle-") as scratch:
            local = Path(scratch, "bundle.tar")
            fault = pack(root, found["manifest"]["files"], found["missing"], local)
            if fault:
                raise AnsibleActionFail(fault)
            try:
                remote = self._connection._shell.join_path(self._make_tmp_path(), "bundle.tar")  # noqa: SLF001 - actions' own API
                self._transfer_file(str(local), remote)
                self._fixup_perms2((self._connection._shell.tmpdir, remote))  # noqa: SLF001 - as above
                request["archive"] = remote
                result.update(self._execute_module(module_name="bundle_sync", module_args=request, task_vars=task_vars))
            finally:
                self._remove_tmp_path(self._connection._shell.tmpdir)  # noqa: SLF001 - as above
        return result

    def _manifest(self, root: Path, expected: str) -> str:
        path = root / MANIFEST
        try:
            data = path.read_bytes()
        except OSError:
            raise AnsibleActionFail(
                f"there is no bundle in {root} (no {MANIFEST}); make one with playbooks/bundle.yml, or set judge_bundle"
            ) from None
        if expected and hashlib.sha256(data).hexdigest() != expected.lower():
            msg = f"{path} is not the one whose SHA-256 is judge_bundle_manifest_sha256; copy the bundle anew"
            raise AnsibleActionFail(msg)
        return data.decode()
