"""The uWSGI daemon (seed: Uwsgi): writes the ini, runs uWSGI, logs what it says, kills and joins it."""

from __future__ import annotations

import http.client
import logging
import os
import shutil
import signal
import socket
import sys
import threading
from pathlib import Path

from prometheus_client import REGISTRY, Gauge
from prometheus_client.multiprocess import MultiProcessCollector

from judge import clock, config, metrics
from judge.config import Check, GatewayConfig
from judge.errors import ConfigError, JudgeError, RefusedError
from judge.gateway import auth, uwsgi
from judge.gateway.files import write_atomically
from judge.notify import notify
from judge.process import ChildProcess, find_binary

log = logging.getLogger(__name__)

_POLL = 0.2
_PORT_WAIT = 5.0
_CHECK_TIMEOUT = 5.0
_SERVING = Gauge("judge_gateway_serving", "1 while uWSGI answers")


class Checker:
    """The check thread: asks uWSGI over HTTP, and kills it when it does not serve for `tries` times `interval`."""

    def __init__(self, child: ChildProcess, listen: str, check: Check) -> None:
        """`listen` is the `host:port` of uWSGI; starts with `start()`."""
        self._child = child
        host, _, port = listen.rpartition(":")
        self._host = "127.0.0.1" if host == "0.0.0.0" else host
        self._port = int(port)
        self._check = check
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="check", daemon=True)

    def start(self) -> None:
        """Begin checking."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and join it."""
        self._stop.set()
        self._thread.join(_CHECK_TIMEOUT + 1)

    def serving(self) -> bool:
        """Whether uWSGI answers one request now (the judicators behind it do not matter here)."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_CHECK_TIMEOUT)
        try:
            connection.request("GET", "/api/v1/alive")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _run(self) -> None:
        patience = self._check.tries * self._check.interval
        deadline, ready = clock.Deadline(patience), False
        while True:
            if self.serving():
                if not ready:
                    log.info("serving on http://%s:%d", self._host, self._port)
                    notify("READY=1")
                    ready = True
                deadline = clock.Deadline(patience)
                _SERVING.set(1)
                notify("WATCHDOG=1", f"STATUS=serving on port {self._port}")
            elif self._child.poll() is None:
                _SERVING.set(0)
                if deadline.over:
                    log.error("uWSGI has not answered for %.0f s, killing it", patience)
                    self._child.kill()
                    return
            if self._stop.wait(self._check.interval if ready else min(self._check.interval, _POLL)):
                return


def find_uwsgi(name: str) -> Path:
    """The uWSGI program: the one beside this Python for the plain name, else on PATH. RefusedError when missing."""
    beside = Path(sys.executable).parent / name
    return beside if os.access(beside, os.X_OK) else find_binary(name)


def check_port(listen: str, wait: float = _PORT_WAIT) -> None:
    """RefusedError when another process has the port.

    It is given `wait` seconds, since the uWSGI of a daemon that was just killed needs a moment to die with it.
    """
    host, _, port = listen.rpartition(":")
    deadline = clock.Deadline(wait)
    while True:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, int(port)))
                probe.listen(1)
            except OSError as exc:
                reason = exc.strerror or str(exc)
            else:
                return
        if deadline.over:
            msg = f"address {listen} cannot be used: {reason}; stop what has it or set another port under 'listen'"
            raise RefusedError(msg)
        clock.sleep(_POLL)


def _backlog() -> int:
    try:
        return min(1024, int(Path("/proc/sys/net/core/somaxconn").read_text(encoding="ascii")))
    except (OSError, ValueError):
        return 100


def write_configs(settings: GatewayConfig) -> tuple[Path, Path]:
    """Write uWSGI's ini and the app's config into run_dir; returns both paths. ConfigError when it cannot."""
    ini = settings.run_dir / f"{settings.name}-uwsgi.ini"
    app = settings.run_dir / f"{settings.name}-app.yml"
    try:
        settings.run_dir.mkdir(parents=True, exist_ok=True)
        write_atomically(ini, uwsgi.render_ini(settings, _backlog()))
        write_atomically(app, config.dump(settings))
    except OSError as exc:
        msg = f"run_dir {settings.run_dir} cannot be written: {exc.strerror}; name a directory that this user may write"
        raise ConfigError(msg) from None
    return ini, app


def _metrics_dir(settings: GatewayConfig) -> Path:
    """An empty directory in which the workers keep their counters for this process to serve."""
    directory = settings.run_dir / f"{settings.name}-metrics"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    return directory


def run(config: GatewayConfig) -> int:
    """Run uWSGI until SIGTERM or SIGINT (0), or until it ends by itself (1) (seed: Uwsgi.run).

    Raises ConfigError for tokens or a session key that cannot be used and RefusedError for a port in use; boot and
    systemd start it again after any other end.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    auth.Tokens(config.tokens)
    auth.read_session_key(config.session_key)
    binary = find_uwsgi(config.binary)
    check_port(config.listen)
    ini, app = write_configs(config)
    counters = _metrics_dir(config)
    if config.metrics is not None:
        MultiProcessCollector(REGISTRY, str(counters))  # type: ignore[no-untyped-call]
    metrics.serve(config.metrics)
    child = ChildProcess(
        "uwsgi",
        [str(binary), "--ini", ini.name],
        parse=uwsgi.parse_line,
        env={**os.environ, uwsgi.CONFIG_ENV: str(app), "PROMETHEUS_MULTIPROC_DIR": str(counters)},
        cwd=config.run_dir,
    )
    checker = Checker(child, config.listen, config.check)
    checker.start()
    try:
        while not stop.wait(_POLL):
            if child.poll() is not None:
                break
    finally:
        notify("STOPPING=1")
        checker.stop()
        code = child.stop(config.stop_grace)
        for path in (ini, app):
            path.unlink(missing_ok=True)
        shutil.rmtree(counters, ignore_errors=True)
    if stop.is_set():
        log.info("stopped")
        return 0
    if "address already in use" in child.last_line.lower():
        msg = f"address {config.listen} is in use; stop what has it or set another port under 'listen'"
        raise RefusedError(msg)
    log.error("uWSGI ended by itself with code %d; its last words: %s", code, child.last_line)
    return JudgeError.exit_code
