"""Units as systemd sees them, and whether one still runs with what its files say. Runs on the hosts."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from .judge_lock import RECORDS

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

_PROPERTIES = (
    "LoadState", "ActiveState", "SubState", "Result", "InvocationID", "NeedDaemonReload", "FragmentPath",
    "DropInPaths", "ExecMainStartTimestampMonotonic", "ConditionResult", "ConditionTimestampMonotonic", "StatusText",
    "UnitFileState",
)  # fmt: skip
POLL = 0.2
_LOOKS = 10


class UnitError(Exception):
    """A unit that cannot do what is asked; the text is one sentence for the operator."""


class SystemdUnit:
    """One unit, the files that it is started with, and the record of what it was last seen running with.

    The record holds the unit's invocation and a digest of its files. Of an invocation without a record (started by
    boot, or after a crash) it is enough that every file is older than its process. So no restart is ever forgotten
    because a run of Ansible was cut off between writing a file and acting on it.
    """

    def __init__(self, module: AnsibleModule, name: str, files: list[str], program: str = "") -> None:
        """`files` are looked at besides the unit's own; links count as what they point to and as their target.

        `program` is a large one that the unit starts, by whose place on the disk it is known.
        """
        self.module = module
        self.name = name
        self.files = files
        self.program = Path(program) if program else None
        self.record = RECORDS / f"{name}.json"
        self.shown: dict[str, str] = {}
        self.look()

    def look(self) -> dict[str, str]:
        command = ["systemctl", "show", self.name, "--property", ",".join(_PROPERTIES)]
        for _ in range(_LOOKS):
            _, out, _ = self.module.run_command(command, check_rc=True)
            self.shown = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
            if "ActiveState" in self.shown:
                return self.shown
            time.sleep(1)  # on a host that is short of everything it ends well and has said nothing
        msg = f"systemd does not tell the state of {self.name}; run it again when the host has time to answer"
        raise UnitError(msg)

    @property
    def missing(self) -> bool:
        return self.shown["LoadState"] == "not-found"

    @property
    def active(self) -> bool:
        """Return whether it has reached its state; with Type=notify: it has said that it is ready."""
        return self.shown["ActiveState"] in {"active", "reloading"}

    @property
    def running(self) -> bool:
        return self.active or self.shown["ActiveState"] == "activating"

    @property
    def unwanted_here(self) -> bool:
        """Return whether its own conditions keep it from starting on this machine (a container, say)."""
        tried = self.shown["ConditionTimestampMonotonic"] not in {"", "0"}
        return not self.running and self.shown["ConditionResult"] == "no" and tried

    def _all_files(self) -> list[Path]:
        drop_ins = self.shown["DropInPaths"].split()
        unit_files = [self.shown["FragmentPath"], *drop_ins] if self.shown["FragmentPath"] else drop_ins
        return sorted({Path(path) for path in [*self.files, *unit_files]})

    def uses(self, paths: list[str]) -> set[str]:
        return set(paths) & {str(path) for path in [*self._all_files(), *filter(None, [self.program])]}

    def digest(self) -> str:
        digest = hashlib.sha256()
        for path in self._all_files():
            digest.update(f"{path}\0{os.path.realpath(path)}\0".encode())
            if path.is_file():
                digest.update(path.read_bytes())
            digest.update(b"\0")
        if self.program and self.program.exists():  # a package's file has the time of its making, but a new inode
            status = self.program.stat()
            digest.update(f"{self.program}\0{status.st_ino} {status.st_size} {status.st_mtime_ns}\0".encode())
        return digest.hexdigest()

    def outdated(self) -> bool:
        if not self.running:
            return False
        try:
            record = json.loads(self.record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            record = {}
        if record.get("invocation") == self.shown["InvocationID"]:
            return bool(record.get("digest") != self.digest())
        started = int(self.shown["ExecMainStartTimestampMonotonic"] or 0) / 1e6
        if not started:
            return False
        age = time.monotonic() - started
        if self.program and self.program.exists() and time.time() - self.program.stat().st_ctime < age:
            return True
        return any(time.time() - path.lstat().st_mtime < age for path in self._all_files() if os.path.lexists(path))

    def remember(self) -> None:
        entry = {"invocation": self.look()["InvocationID"], "digest": self.digest()}
        RECORDS.mkdir(mode=0o755, exist_ok=True)
        temporary = self.record.with_suffix(".tmp")
        temporary.write_text(json.dumps(entry), encoding="utf-8")
        temporary.replace(self.record)

    def systemctl(self, verb: str) -> None:
        """Run a verb on it; UnitError with systemd's reason and the unit's last words."""
        if self.shown["NeedDaemonReload"] == "yes":
            self.module.run_command(["systemctl", "daemon-reload"], check_rc=True)
        code, _, err = self.module.run_command(["systemctl", verb, self.name])
        if code != 0:
            reason = err.strip().splitlines()[:1] or [f"exit code {code}"]
            raise UnitError(f"{self.name} could not {verb}: {reason[0]}{self.last_words()}")

    def last_words(self) -> str:
        """The end of its log, for a sentence that says why something failed."""
        command = ["journalctl", "--unit", self.name, "--lines", "3", "--output", "cat", "--no-pager", "--quiet"]
        _, out, _ = self.module.run_command(command)
        lines = [line.strip() for line in out.splitlines() if line.strip()]
        return f"; its last output: {' | '.join(lines)}" if lines else ""
