"""Metrics of an embedded cluster: each service serves its own over TLS, and a config lets Prometheus read them all."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from judge.boot.embedded.cluster import HOST, ClusterDirectory
from judge.common import files
from judge.common.kinds import KINDS
from judge.config import Daemon, Tls
from judge.daemon.metrics import ROLE


def ports(first: int | None) -> range:
    """The ports that metrics take from this one on, boot's among them; none without it."""
    return range(0) if first is None else range(first, first + len(KINDS) + 1)


def with_metrics(
    directory: ClusterDirectory, services: Mapping[str, Daemon], port: int
) -> tuple[dict[str, Daemon], tuple[str, Tls]]:
    """The services with their metrics at this port and those behind it; the address and TLS of boot's, which are last.

    Writes etc/prometheus.yml for all of them.
    """
    monitor = directory.tls(ROLE, ROLE)
    served = {
        name: config.model_copy(update={"metrics": f"{HOST}:{port + index}", "metrics_tls": _tls_of(directory, config)})
        for index, (name, config) in enumerate(services.items())
    }
    boot = f"{HOST}:{port + len(served)}"
    addresses = {name: config.metrics for name, config in served.items()} | {"boot": boot}
    scrape = {
        "global": {"scrape_interval": "5s"},
        "scrape_configs": [
            {
                "job_name": "judge",
                "scheme": "https",
                "tls_config": {
                    "ca_file": str(monitor.ca),
                    "cert_file": str(monitor.cert),
                    "key_file": str(monitor.key),
                },
                "static_configs": [
                    {"targets": [address], "labels": {"service": name}} for name, address in addresses.items()
                ],
            }
        ],
    }
    files.replace(directory.etc / "prometheus.yml", yaml.safe_dump(scrape, sort_keys=False), durable=False)
    return served, (boot, directory.tls("boot", "boot"))


def _tls_of(directory: ClusterDirectory, config: Daemon) -> Tls:
    """The certificate that a service shows to others."""
    tls = getattr(config, "tls", None)
    return tls if isinstance(tls, Tls) else directory.tls(config.name, config.name)
