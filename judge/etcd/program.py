"""The etcd program: its version, its command lines, its log lines, its ports. No decisions about membership."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from judge.common import clock, endpoint
from judge.common.errors import ConfigError, RefusedError
from judge.common.pki.authority import MEMBER
from judge.config import EtcdConfig, Tls
from judge.daemon.process import find_binary
from judge.etcd.planner import PeerAddress

log = logging.getLogger(__name__)

OLDEST = (3, 4, 23)
SOCKET = "client.sock:1"  # etcd wants a port in the name of a socket, too
RETRY_DELAY = 2  # seconds before the proxy tries a member again that failed
Version = tuple[int, int, int]

# Faults of etcd, and the first fixed patch of 3.4, 3.5 and 3.6 (from etcd's changelogs).
_BUGS: tuple[tuple[str, dict[int, int]], ...] = (
    ("leases may be wrongly revoked by an old leader", {4: 31, 5: 13, 6: 0}),
    ("refreshing a revoked lease may report success", {4: 38, 5: 23, 6: 0}),
    ("reads may be stale after a process was paused (and CVE-2026-33413, CVE-2026-33343)", {4: 42, 5: 28, 6: 9}),
)

# The levels of zap and the letters of capnslog; all others are information.
_LEVELS = {
    **dict.fromkeys(("debug", "D", "T"), logging.DEBUG),
    **dict.fromkeys(("warn", "W"), logging.WARNING),
    **dict.fromkeys(("error", "E"), logging.ERROR),
    **dict.fromkeys(("dpanic", "panic", "fatal", "C"), logging.CRITICAL),
}
_CAPNSLOG = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ ([CEWNIDT]) \| (.*)$")
_DULL = {"level", "ts", "caller", "msg", "logger", "stacktrace"}


def parse_line(line: str) -> tuple[int, str]:
    """(logging level, text) of one line of etcd's output: zap's JSON, capnslog, or anything else as it is; pure."""
    if line.startswith("{"):
        try:
            data: Any = json.loads(line)
        except (ValueError, RecursionError):
            return logging.INFO, line
        fields = " ".join(f"{key}={_plain(value)}" for key, value in data.items() if key not in _DULL)
        return _LEVELS.get(str(data.get("level")), logging.INFO), f"{data.get('msg', '')} {fields}".strip()
    match = _CAPNSLOG.match(line)
    if match:
        return _LEVELS.get(match[1], logging.INFO), match[2]
    return logging.INFO, line


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def parse_version(text: str) -> Version | None:
    match = re.search(r"etcd Version: (\d+)\.(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def known_bugs(version: Version) -> list[str]:
    """The bugs of this version that matter here; pure."""
    major, minor, patch = version
    return [bug for bug, fixed in _BUGS if (major, minor) in {(3, m) for m in fixed} and patch < fixed[minor]]


def check_binary(config: EtcdConfig) -> Path:
    """The program's path; RefusedError when it is missing or too old. Names its known bugs in one log line."""
    binary = find_binary(config.binary)
    try:
        result = subprocess.run(
            [str(binary), "--version"], capture_output=True, text=True, timeout=20, check=False, env=environment()
        )
        version = parse_version(result.stdout)
    except (OSError, subprocess.TimeoutExpired):
        version = None
    if version is None:
        raise RefusedError(f"{binary} does not say its etcd version; set 'binary' to etcd {_dotted(OLDEST)} or newer")
    if version < OLDEST:
        msg = f"{binary} is etcd {_dotted(version)}, which is refused; install {_dotted(OLDEST)} or newer (3.6 is best)"
        raise RefusedError(msg)
    bugs = known_bugs(version)
    if bugs:
        level = logging.INFO if config.accept_known_bugs else logging.WARNING
        log.log(
            level, "etcd %s has known bugs: %s; 3.6.9 and newer have none of them", _dotted(version), "; ".join(bugs)
        )
    return binary


def _dotted(version: Version) -> str:
    return ".".join(str(part) for part in version)


def environment() -> dict[str, str]:
    """The environment of this process without ETCD_*, each of which would act like a flag that nobody sees."""
    needed = "ETCD_UNSUPPORTED_ARCH"  # this tells etcd 3.4 to run on arm64
    return {key: value for key, value in os.environ.items() if not key.startswith("ETCD_") or key == needed}


def check_urls(config: EtcdConfig) -> None:
    """ConfigError when certificates and URL schemes contradict each other: etcd would silently talk plain text."""
    groups: list[tuple[str, Sequence[str], str, Tls | None]] = [
        ("client", [config.client, *config.listen_client], "tls", config.tls),
        ("peer", [config.peer, *config.listen_peer], "peer_tls", config.peer_tls),
    ]
    for field, urls, section, tls in groups:
        scheme = "http" if tls is None else "https"
        for url in urls:
            if urlsplit(url).scheme != scheme:
                state = "is not set" if tls is None else "is set"
                raise ConfigError(f"{field}: '{url}' must start with {scheme}:// because '{section}' {state}")
            if urlsplit(url).port is None:
                raise ConfigError(f"{field}: '{url}' has no port; write it out, as in {scheme}://10.0.0.1:2379")


def listens(config: EtcdConfig) -> tuple[list[str], list[str]]:
    """(client URLs, peer URLs) that the server listens on; what it advertises unless the config says otherwise."""
    return list(config.listen_client or [config.client]), list(config.listen_peer or [config.peer])


def member_command(
    config: EtcdConfig, binary: Path, data: Path, state: str, initial: Sequence[PeerAddress]
) -> list[str]:
    """The command line of a member, to be run in the directory above `data`; `state` is `new` or `existing`.

    With certificates it listens for clients on a socket there, behind the gate, and believes other members only with
    a certificate in the name that only members have.
    """
    client, peer = listens(config)
    if config.tls is not None:
        client = [f"unix://{SOCKET}"]
    flags = {
        "name": config.name,
        "data-dir": str(data.absolute()),
        "listen-client-urls": ",".join(client),
        "advertise-client-urls": config.client,
        "listen-peer-urls": ",".join(peer),
        "initial-advertise-peer-urls": config.peer,
        "initial-cluster": ",".join(f"{entry.name}={entry.url}" for entry in initial),
        "initial-cluster-state": state,
        "initial-cluster-token": config.cluster.token,
        "heartbeat-interval": str(config.heartbeat_ms),
        "election-timeout": str(config.election_ms),
        "quota-backend-bytes": str(config.quota_bytes),
        # Leaders and registrations are rewritten all the time: without compaction the database fills up.
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": "1h",
        "logger": "zap",
        "log-outputs": "stderr",
        "strict-reconfig-check": "true",
        # A member that comes back must not disturb a healthy leader by an election.
        "pre-vote": "true",
    }
    tls = config.peer_tls
    if tls is not None:
        flags |= {
            "peer-cert-file": str(tls.cert.absolute()),
            "peer-key-file": str(tls.key.absolute()),
            "peer-trusted-ca-file": str(tls.ca.absolute()),
            "peer-client-cert-auth": "true",
            "peer-cert-allowed-hostname": MEMBER,
        }
    return [str(binary), *(f"--{key}={value}" for key, value in flags.items())]


def proxy_command(config: EtcdConfig, binary: Path, endpoints: Sequence[str]) -> list[str]:
    """The command line of the local TCP proxy; its default pause before it tries a dead member again is a minute."""
    return [
        str(binary),
        "gateway",
        "start",
        f"--listen-addr={config.proxy_listen}",
        f"--endpoints={','.join(endpoints)}",
        f"--retry-delay={RETRY_DELAY}s",
    ]


def wait_for_ports(addresses: Sequence[str], seconds: float) -> None:
    """Wait until every `host:port` can be listened on; RefusedError names the one that stays in use.

    Some patience, because the previous server of a killed daemon may be ending just now.
    """
    deadline = clock.Deadline(seconds)
    for address in addresses:
        while True:
            try:
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(endpoint.split(address))
                break
            except OSError as exc:
                if deadline.over:
                    raise RefusedError(
                        f"{address} cannot be listened on: {exc.strerror}; stop the other program or change the address"
                    ) from exc
            clock.sleep(0.1)
