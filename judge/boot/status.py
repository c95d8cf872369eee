"""boot.json: what boot knows of each service, for `judgectl status` and the status line of `judge up`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from judge.boot import pidfile
from judge.boot.plan import Phase
from judge.common import files
from judge.common.errors import UnavailableError

BootState = Literal["running", "stopping", "stopped", "dead"]


class ServiceStatus(BaseModel):
    """One service. `since` is a time of day for people; `status` is what the service says of itself.

    `reason` says why it is FATAL, in BACKOFF, or held (by whom and until when); `holds.read` has a hold's fields.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    kind: str
    state: Phase
    pid: int | None = None
    restarts: int = 0
    reason: str = ""
    since: str = ""
    status: str = ""


class BootStatus(BaseModel):
    """The whole file. `state` is `dead` when the boot that wrote it no longer runs; its services may."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    version: str
    backend: str
    pid: int
    state: BootState
    since: str
    services: list[ServiceStatus]


def write(run_dir: Path, status: BootStatus) -> None:
    """Replace boot.json in one step. Called by boot after each change."""
    files.replace(run_dir / "boot.json", status.model_dump_json(indent=1) + "\n", 0o644, durable=False)


def read(run_dir: Path) -> BootStatus:
    """The last status that boot wrote, as `dead` when boot runs no more; UnavailableError when there is none."""
    path = run_dir / "boot.json"
    try:
        status = BootStatus.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        raise UnavailableError(f"{path} cannot be read; is boot running with this run_dir?") from None
    if status.state in {"running", "stopping"} and pidfile.read_pid(run_dir / "boot.pid") != status.pid:
        return status.model_copy(update={"state": "dead"})
    return status
