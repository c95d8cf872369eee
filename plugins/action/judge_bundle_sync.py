"""Controller's half of judge_bundle_sync: send a host those files of the bundle that it lacks, as one archive."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import io
import json
import os
import re
import stat
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this project need not be installed beside Ansible
from plugins.modules.judge_bundle_sync import DOCUMENTATION

MANIFEST = "manifest.json"
# Modes of the tar that hosts share: its owner's execute bit says that it is complete, also after a kill.
_UNFINISHED, _COMPLETE = 0o600, 0o700
_POLL = 0.05


def left_out(root: Path, files: Iterable[str], packages: Iterable[str], programs: bool) -> list[str]:
    """Those files of a bundle that a host does not need which installs these packages and runs `programs` or not.

    Every alternative and every provider of a dependency counts as needed: which one apt takes depends on the host.
    """
    try:
        stanzas = (root / "debs/Packages").read_text(encoding="utf-8").split("\n\n")
    except OSError:
        return []
    providers: dict[str, list[dict[str, str]]] = {}
    for stanza in stanzas:
        fields = dict(re.findall(r"^([\w-]+): *(.*)$", stanza, re.MULTILINE))
        for name in _names(f"{fields.get('Package', '')}, {fields.get('Provides', '')}"):
            providers.setdefault(name, []).append(fields)
    todo, seen, needed = [name for text in packages for name in _names(text)], set[str](), set[str]()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        for fields in providers.get(name, []):
            needed.add(f"debs/{Path(fields['Filename']).name}")
            todo += _names(f"{fields.get('Depends', '')}, {fields.get('Pre-Depends', '')}")
    return sorted(
        file
        for file in files
        if (file.endswith(".deb") and file not in needed) or (file.startswith("bin/") and not programs)
    )


def _names(text: str) -> list[str]:
    return re.findall(r"(?:^|[,|]) *([a-z0-9][a-z0-9+.-]*)", text)


class _Measured:
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


@contextlib.contextmanager
def shared(root: Path, files: dict[str, dict[str, Any]], names: list[str]) -> Iterator[Path]:
    """The named files as one tar for all hosts that lack just these, beside the bundle; AnsibleActionFail.

    The first host's process makes it, the last one that sends it removes it. One that a killed run has left is used, or
    removed by the next that makes another. Temporary directories are avoided, as they may be in memory; where the
    bundle's neighbourhood is not ours to write, the run's own one has to do.
    """
    digest = hashlib.sha256("\0".join(f"{name}\0{files[name]['sha256']}" for name in names).encode()).hexdigest()[:16]
    place = root.parent if os.access(root.parent, os.W_OK) else Path(constants.DEFAULT_LOCAL_TMP)
    local = place / f".{root.name}.{digest}.tar"
    try:
        handle = _lock_archive(root, files, names, local)
    except OSError as exc:
        needed = sum(files[name]["size"] for name in names) // 1_000_000 + 1
        raise AnsibleActionFail(
            f"{exc.filename or local}: {exc.strerror}; {place} on the controller needs {needed} MB and has to be "
            "writable for this user"
        ) from None
    try:
        yield local
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nobody else sends it now
            local.unlink(missing_ok=True)
        os.close(handle)


def _lock_archive(root: Path, files: dict[str, dict[str, Any]], names: list[str], local: Path) -> int:
    """A descriptor of the complete tar with a shared lock, which keeps others from removing it. OSError."""
    while True:
        handle = os.open(local, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _UNFINISHED)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(handle, local) and not _complete(handle):
                    _make(root, files, names, local)
                    os.fchmod(handle, _COMPLETE)
            except BlockingIOError:
                pass  # another process makes it, or sends it already
            fcntl.flock(handle, fcntl.LOCK_SH)
        except BaseException:
            os.close(handle)
            raise
        if _is_at(handle, local) and _complete(handle):
            return handle
        os.close(handle)
        time.sleep(_POLL)


def _complete(handle: int) -> bool:
    return bool(os.fstat(handle).st_mode & stat.S_IXUSR)


def _is_at(handle: int, path: Path) -> bool:
    """Return whether the open file is the one that has this name, and not one that was removed since."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _make(root: Path, files: dict[str, dict[str, Any]], names: list[str], local: Path) -> None:
    for old in local.parent.glob(f".{root.name}.*.tar"):
        if old != local:
            with contextlib.suppress(OSError), old.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nobody sends it
                old.unlink()
    fault = pack(root, files, names, local)
    if fault:
        local.unlink()
        raise AnsibleActionFail(fault)


class ActionModule(ActionBase):
    """Compares first, so that a host with the whole bundle costs one module call and no transfer."""

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(yaml.safe_load(DOCUMENTATION)["options"])
        root = Path(arguments["src"]).expanduser()
        text = self._manifest(root, arguments["manifest_sha256"])
        request = {key: arguments[key] for key in ("dest", "state", "version")} | {"manifest": text, "src": str(root)}
        if arguments["packages"]:
            files = json.loads(text).get("files", {})
            request["left_out"] = left_out(root, files, arguments["packages"], arguments["programs"])
        ask = functools.partial(self._execute_module, task_vars=task_vars)
        answer = ask(module_args=request)
        result.update(answer)
        if answer.get("failed") or answer.get("alone") or not answer["changed"] or self._task.check_mode:
            return result
        with shared(root, answer["manifest"]["files"], answer["missing"]) as local:
            try:
                remote = self._connection._shell.join_path(self._make_tmp_path(), "bundle.tar")  # noqa: SLF001 - actions' own API
                self._transfer_file(str(local), remote)
                self._fixup_perms2((self._connection._shell.tmpdir, remote))  # noqa: SLF001 - as above
                result.update(ask(module_args=request | {"archive": remote}))
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
