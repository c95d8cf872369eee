"""The table of daemons. All other lists of them follow from it; docs/contributing.md says what else a new one needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Kind:
    """One kind of daemon that boot can keep running, with a unit judge-NAME.service and a command `judge NAME`."""

    help: str
    program: str  # the module whose `run(config, stop)` it is (judge/daemon/main.py)
    config: str  # its model in judge/config/services.py
    group: str  # the hosts of this group of the inventory run it,
    proxy: bool = False  # and all others its proxy, under judge-NAME-proxy.service


# In the order of start.
KINDS: Final = {
    "etcd": Kind(
        "Run this host's etcd member, or its local proxy.", "judge.etcd.member", "EtcdConfig", "judicators", proxy=True
    ),
    "mongodb": Kind(
        "Run this host's MongoDB replica-set member.", "judge.mongodb.member", "MongodbConfig", "judicators"
    ),
    "judicator": Kind(
        "Serve tasks to executors and gateways, and lead when elected.",
        "judge.judicator.main",
        "JudicatorConfig",
        "judicators",
    ),
    "executor": Kind("Judge tasks on this host's cores.", "judge.executor.main", "ExecutorConfig", "executors"),
    "gateway": Kind("Serve the HTTP API and the web pages.", "judge.gateway.daemon", "GatewayConfig", "gateways"),
}

# Where the daemons of a deployed cluster serve metrics if `judge_metrics` is true.
METRICS_PORTS: Final = {service: 9400 + number for number, service in enumerate(["boot", *KINDS])}


def services() -> list[str]:
    """Every service that a host may have, as their units are called without `judge-`; boot first."""
    return ["boot", *(f"{name}{end}" for name, kind in KINDS.items() for end in ["", "-proxy"][: 1 + kind.proxy])]


def services_of(groups: set[str]) -> list[str]:
    """The services of a host that is in these groups of the inventory, in the order of start; boot first."""
    if not groups & {kind.group for kind in KINDS.values()}:
        return []
    names = [
        name if kind.group in groups else f"{name}-proxy"
        for name, kind in KINDS.items()
        if kind.group in groups or kind.proxy
    ]
    return ["boot", *names]
