"""The interface between boot and what runs its services: child processes on one machine, systemd's units on hosts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import judge
from judge.boot.plan import Process
from judge.common import files
from judge.config import BootService
from judge.config.rendering import Rendered


@dataclass
class Unit:
    """One service as boot runs it: its settings, its rendered config, and a digest of everything it is started with."""

    spec: BootService
    config: Path
    fingerprint: str = ""
    command: Sequence[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.spec.name


@dataclass(frozen=True)
class ObservedService:
    """A service as its backend sees it.

    `detail` is the last log line of one that ended, or who stands in the way of one that is ALIEN. `outdated`: it
    was found running with another command or config. `found`: it was started by an earlier boot. `ready` and `status`
    are the service's own word, where the backend hears it and boot does not (`ready` None: it does not hear it).
    `incarnation` is another with every start, where others than boot can start it (else empty).
    `leaving`: somebody has it stop, and how long that may take is the backend's to say.
    """

    process: Process = Process.ABSENT
    pid: int | None = None
    code: int | None = None
    detail: str = ""
    outdated: bool = False
    found: bool = False
    ready: bool | None = None
    incarnation: str = ""
    leaving: bool = False
    status: str = ""


class Backend(Protocol):
    """Starts, watches and ends services. No call but `prepare` raises for one bad service; none waits for a service.

    A call may take some seconds when the system itself is slow (systemd's limit: backend_systemd). So boot makes all of
    them, one at a time, in threads: its checks keep their own time, and signals are heard meanwhile.
    """

    def prepare(self, unit: Unit) -> None:
        """Fill in the command and the digest of what it is started with; after every change of its config. OSError."""

    def adopt(self, unit: Unit) -> None:
        """Look for what an earlier boot left running; `poll` then tells. Called once per service, before anything."""

    def refresh(self) -> None:
        """Look at all services at once, where that is cheaper; called before the `poll`s of each turn."""

    def start(self, unit: Unit) -> None:
        """Start it; a start that fails is seen by `poll` as EXITED with the reason."""

    def poll(self, unit: Unit) -> ObservedService:
        """The service as it is now."""

    def stop(self, unit: Unit, *, force: bool) -> None:
        """Ask it to end, or with `force` end it and everything that came from it."""

    def clear(self, unit: Unit) -> None:
        """End verified leftovers that keep the service from being started."""

    def describe(self, unit: Unit) -> str:
        """One line for people: where it runs and where its log is."""

    def descriptors(self) -> list[int]:
        """Descriptors that become readable when a service ends, so that boot need not wait for its next look."""

    def close(self) -> None:
        """Give descriptors back; services keep running."""


def write_config(rendered: Rendered, run_dir: Path) -> Path:
    """Put a checked config into the run directory, where its daemon reads it; returns the path. Raises OSError."""
    path = run_dir / f"{rendered.service.name}.yml"
    files.replace(path, rendered.text, durable=True)
    return path


def fingerprint(command: Sequence[str], config: Path) -> str:
    """A digest of everything that a service is started with: command, config and version of this package."""
    digest = hashlib.sha256()
    for part in (judge.__version__, *command, config.read_text(encoding="utf-8")):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()
