"""Checks of several configs together: one port for two services, timings of two daemons that contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judge.common.errors import ConfigError
from judge.config.boot import BootService
from judge.config.sections import Daemon
from judge.config.services import ExecutorConfig, JudicatorConfig


@dataclass(frozen=True)
class Rendered:
    """A checked config of one service, ready to be written to the run directory."""

    service: BootService
    config: Daemon
    text: str


def check_together(rendered: Sequence[Rendered]) -> None:
    """Check what no file shows alone: one port for two services, timings that contradict each other. ConfigError."""
    by_address: dict[str, Rendered] = {}
    for item in rendered:
        for address in item.config.listening():
            former = by_address.setdefault(address, item)
            if former is not item:
                raise ConfigError(
                    f"{item.service.config}:1: address {address} is already used by {former.service.name} "
                    f"({former.service.config}); give each service its own port"
                )
    judicators = [item for item in rendered if isinstance(item.config, JudicatorConfig)]
    for item in rendered:
        for judicator in judicators:
            _check_report(item, judicator)


def _check_report(item: Rendered, judicator: Rendered) -> None:
    """ConfigError when an executor reports so rarely that its judicator would take living tasks for lost."""
    if not isinstance(item.config, ExecutorConfig) or not isinstance(judicator.config, JudicatorConfig):
        return
    expiry = min(judicator.config.task_expiry, judicator.config.executor_expiry)
    if item.config.report_interval * 3 > expiry:
        raise ConfigError(
            f"{item.service.config}:1: report_interval ({item.config.report_interval:g}) times 3 must not be above the "
            f"expiries of {judicator.service.config} ({expiry:g}), or living tasks would be given to others"
        )
