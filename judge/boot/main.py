"""The boot daemon (seed: Boot, `run`): checks everything, takes the run directory, runs the loop until a signal."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from judge.boot import serving
from judge.boot.backend import Backend, Unit, write_config
from judge.boot.backend_process import ProcessBackend, daemon_command, minimal_environment
from judge.boot.backend_systemd import SystemdBackend, check_host
from judge.boot.loop import BootLoop, Observer
from judge.boot.pidfile import BootLock
from judge.common import files
from judge.common.errors import RefusedError
from judge.config import BootConfig
from judge.config.rendering import Overrides, Rendered, render_all
from judge.daemon import metrics

log = logging.getLogger(__name__)

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(
    config: BootConfig,
    *,
    overrides: Overrides | None = None,
    observer: Observer | None = None,
    command: Callable[[Unit], Sequence[str]] = daemon_command,
    lock: BootLock | None = None,
) -> int:
    """Run the services until SIGINT, SIGTERM or SIGHUP, then stop them in reverse order; returns the exit code.

    Raises ConfigError before anything is touched when a service's config is wrong, RefusedError when another boot
    has the run directory. Called by `judge boot` and `judge up`, which brings its own lock of the run directory.
    """
    if config.backend == "systemd":
        check_host()
    rendered = render_all(config, overrides or {})
    make_directory(config.run_dir)
    if config.log_dir is not None and config.backend == "process":
        make_directory(config.log_dir)
    boot_lock = lock or BootLock(config.run_dir)
    try:
        files.sweep(config.run_dir)
        for service in rendered:
            write_config(service, config.run_dir)
        if config.metrics_tls is not None:
            metrics.watch_certificates([config.metrics_tls.ca, config.metrics_tls.cert])
        metrics.serve(config.metrics, config.metrics_tls)
        asyncio.run(_main(config, rendered, overrides, observer, command))
    finally:
        boot_lock.close()
    return 0


def make_directory(path: Path) -> None:
    """Make a directory that others may look into; RefusedError when it cannot be made."""
    try:
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as exc:
        raise RefusedError(f"directory {path} cannot be made: {exc.strerror}; name another or make it first") from exc


def _listen(run_dir: Path) -> serving.NotifyListener | None:
    """Boot's end of NOTIFY_SOCKET; None when somebody else has its name."""
    try:
        return serving.NotifyListener(run_dir)
    except OSError as exc:
        log.warning(
            "services cannot tell boot that they are ready (%s), so those without an address count as ready", exc
        )
        return None


async def _main(
    config: BootConfig,
    rendered: Sequence[Rendered],
    overrides: Overrides | None,
    observer: Observer | None,
    command: Callable[[Unit], Sequence[str]],
) -> None:
    listener = None
    backend: Backend
    if config.backend == "systemd":
        backend = SystemdBackend(config.run_dir)
    else:
        listener = _listen(config.run_dir)
        environment = minimal_environment() | ({"NOTIFY_SOCKET": listener.address} if listener else {})
        backend = ProcessBackend(config.run_dir, config.log_dir, command=command, environment=environment)
    loop = BootLoop(config, rendered, backend, overrides=overrides, listener=listener, observer=observer)
    running = asyncio.get_running_loop()
    for sig in _SIGNALS:
        running.add_signal_handler(sig, loop.stop)
    log.info("%s: %d services with run directory %s", config.name, len(rendered), config.run_dir)
    try:
        await loop.run()
    finally:
        backend.close()
        if listener is not None:
            listener.close()
