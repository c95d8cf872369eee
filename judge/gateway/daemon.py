"""The gateway's daemon (seed: Uwsgi): runs the front and uWSGI behind it, logs what that says, kills and joins it."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from prometheus_client import REGISTRY, Gauge
from prometheus_client.multiprocess import MultiProcessCollector

from judge import clock, config, endpoint, files, metrics
from judge.config import CheckSettings, GatewayConfig
from judge.errors import ConfigError, JudgeError, RefusedError
from judge.gateway import auth, uwsgi
from judge.gateway.cluster import Cluster
from judge.gateway.front import head
from judge.gateway.front.gate import FrontGate
from judge.gateway.front.server import ALIVE, Front
from judge.gateway.notes import TokenWatch
from judge.model.people import WaysIn, WaysState
from judge.model.streaming import ChangesReply, ChangesRequest
from judge.notify import notify
from judge.process import ChildProcess, find_binary

log = logging.getLogger(__name__)

_POLL = 0.2
# uWSGI sees once a second whether its workers have ended, or when a signal wakes it.
_WAKE = 0.05
_PORT_WAIT = 5.0
_CHECK_TIMEOUT = 5.0
_SERVING = Gauge("judge_gateway_serving", "1 while uWSGI answers")


class Checker:
    """The check thread: asks uWSGI, and kills it when it does not serve for `tries` times `interval`.

    A thread of uWSGI is kept for this question: one that is merely busy answers it.
    """

    def __init__(self, child: ChildProcess, front: Front, listen: str, check: CheckSettings) -> None:
        """`listen` is the address that people know; starts with `start()`."""
        self._child = child
        self._front = front
        self._listen = listen
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
        """Says whether uWSGI answers one request now (the judicators do not matter here), and the front is awake."""
        return clock.monotonic() - self._front.turned < _CHECK_TIMEOUT and answers(self._front.uwsgi)

    def _run(self) -> None:
        patience = self._check.tries * self._check.interval
        deadline, ready = clock.Deadline(patience), False
        while True:
            self._front.serving = serving = self.serving()
            if serving:
                if not ready:
                    log.info("serving on http://%s", self._listen)
                    notify("READY=1")
                    ready = True
                deadline = clock.Deadline(patience)
                _SERVING.set(1)
                notify("WATCHDOG=1", f"STATUS=serving on {self._listen}")
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


def answers(path: str) -> bool:
    """Says whether the uWSGI behind this socket answers a request within some seconds."""
    question = head.packet(head.Head("GET", ALIVE, "1.1", {}), "127.0.0.1", "http", ("localhost", 0))
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(_CHECK_TIMEOUT)
        try:
            sock.connect(path)
            sock.sendall(question)
            return sock.recv(4096).startswith(b"HTTP/1.1 200 ")
        except OSError:
            return False


def bind(listen: str, wait: float = _PORT_WAIT) -> socket.socket:
    """A listening socket at `host:port`; RefusedError when another process has the port.

    It is given `wait` seconds, since a daemon that was just killed may need a moment to be gone.
    """
    deadline = clock.Deadline(wait)
    while True:
        try:
            return endpoint.listen(listen, _somaxconn())
        except OSError as exc:
            reason = os.strerror(exc.errno) if exc.errno and exc.errno > 0 else str(exc)
        if deadline.over:
            msg = f"address {listen} cannot be used: {reason}; stop what has it or set another port under 'listen'"
            raise RefusedError(msg)
        clock.sleep(_POLL)


def _somaxconn() -> int:
    try:
        return min(4096, int(Path("/proc/sys/net/core/somaxconn").read_text(encoding="ascii")))
    except (OSError, ValueError):
        return 100


def write_configs(settings: GatewayConfig) -> tuple[Path, Path]:
    """Write uWSGI's ini and the app's config into run_dir; returns both paths. ConfigError when it cannot."""
    ini = settings.run_dir / f"{settings.name}-uwsgi.ini"
    app = settings.run_dir / f"{settings.name}-app.yml"
    try:
        settings.run_dir.mkdir(parents=True, exist_ok=True)
        files.replace(ini, uwsgi.render_ini(settings, _somaxconn()), durable=False)
        files.replace(app, config.dump(settings), durable=False)
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


def changes_of(cluster: Cluster) -> Callable[[ChangesRequest], ChangesReply]:
    """The front's way to ask the cluster for changes; called in its threads."""

    def ask(request: ChangesRequest) -> ChangesReply:
        return cluster.call("changes", request, ChangesReply)

    return ask


def ways_of(cluster: Cluster) -> Callable[[WaysIn], WaysState]:
    """The front's way to ask whether those who listen still may; called in its threads."""

    def ask(request: WaysIn) -> WaysState:
        return cluster.call("ways", request, WaysState)

    return ask


def run(config: GatewayConfig, stop: threading.Event) -> int:
    """Run uWSGI until `stop` is set (0), or until it ends by itself (1) (seed: Uwsgi.run).

    Raises ConfigError for tokens or a session key that cannot be used and RefusedError for a port in use; boot and
    systemd start it again after any other end.
    """
    tokens, key = auth.FileTokens(config.tokens), auth.read_session_key(config.session_key)
    binary = find_uwsgi(config.binary)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(bind(config.listen))
        ini, app = write_configs(config)
        stack.callback(ini.unlink, missing_ok=True)
        stack.callback(app.unlink, missing_ok=True)
        counters = _metrics_dir(config)
        stack.callback(shutil.rmtree, counters, ignore_errors=True)
        stack.callback((config.run_dir / uwsgi.socket_name(config)).unlink, missing_ok=True)
        if config.metrics is not None:
            MultiProcessCollector(REGISTRY, str(counters))  # type: ignore[no-untyped-call]
        metrics.serve(config.metrics, config.metrics_tls)
        cluster = Cluster(config)
        stack.callback(cluster.close)
        front = Front(
            config, FrontGate(config, tokens, key), listener, changes=changes_of(cluster), ways=ways_of(cluster)
        )
        stack.callback(front.stop)
        front.start()
        stderr = os.dup(2)
        stack.callback(os.close, stderr)
        told = {uwsgi.CONFIG_ENV: app, uwsgi.STDERR_ENV: stderr, "PROMETHEUS_MULTIPROC_DIR": counters}
        child = ChildProcess(
            "uwsgi",
            [str(binary), "--ini", ini.name],
            parse=uwsgi.parse_line,
            env={**os.environ, **{name: str(value) for name, value in told.items()}},
            cwd=config.run_dir,
            keeps=[stderr],
        )
        checker = Checker(child, front, config.listen, config.check)
        watch = TokenWatch(config)
        checker.start()
        watch.start()
        try:
            while not stop.wait(_POLL):
                if child.poll() is not None:
                    break
        finally:
            notify("STOPPING=1")
            checker.stop()
            watch.stop(_POLL)
            code = child.stop(config.stop_grace, again=_WAKE)
    if stop.is_set():
        log.info("stopped")
        return 0
    log.error("uWSGI ended by itself with code %d; its last words: %s", code, child.last_line)
    return JudgeError.exit_code
