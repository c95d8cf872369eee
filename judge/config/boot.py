"""The config of boot, and the config of each kind of daemon by its name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from judge.common.kinds import KINDS
from judge.config import services
from judge.config.sections import Daemon, HostPort, Model, Name, PageUrl, Seconds, fault, setting

if TYPE_CHECKING:
    Kind = str
else:
    Kind = Literal[tuple(KINDS)]


class BootService(Model):
    name: Name
    kind: Kind
    config: Path
    serving: HostPort | PageUrl | None = None
    serving_timeout: Seconds = 2.0
    serving_failures: int = Field(default=10, ge=1)
    start_timeout: Seconds = setting(
        60.0, "Longest time in seconds that a service waits for the one before it.", template=False
    )
    restart_min: Seconds = 0.5
    restart_max: Seconds = 10.0
    start_retries: int = setting(
        20, "boot restarts a service after this many ends in a row; one more is FATAL.", template=False, ge=0
    )
    healthy_after: Seconds = 10.0
    stop_grace: Seconds = 15.0

    @model_validator(mode="after")
    def _timings(self) -> Self:
        if self.restart_min > self.restart_max:
            msg = f"restart_min ({self.restart_min:g}) must not be above restart_max ({self.restart_max:g})"
            raise fault(msg, "restart_min", "restart_max")
        return self


class BootConfig(Daemon):
    """boot.yml: which services this host runs. `services[].config` may be a Jinja2 template over `variables`."""

    backend: Literal["process", "systemd"] = "process"
    run_dir: Path = Path("/run/judge")
    log_dir: Path | None = None
    interval: Seconds = setting(1.0, "Seconds between two checks of a service.")
    variables: dict[str, Any] = Field(default_factory=dict)
    services: list[BootService] = Field(min_length=1)

    @model_validator(mode="after")
    def _unique(self) -> Self:
        names = [service.name for service in self.services]
        if "boot" in names:
            raise fault("services: name 'boot' is boot's own in the run directory; choose another name", "services")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise fault(f"services: name '{twice[0]}' is used twice; give each service its own name", "services")
        return self


MODELS: dict[str, type[Daemon]] = {
    "boot": BootConfig,
    **{name: getattr(services, kind.config) for name, kind in KINDS.items()},
}
