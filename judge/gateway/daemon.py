"""The gateway's daemon (seed: Uwsgi): runs nginx, uWSGI and the server of events, and kills and joins them."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import socket
import sys
import threading
from pathlib import Path

from prometheus_client import REGISTRY, Gauge
from prometheus_client.multiprocess import MultiProcessCollector

from judge import config
from judge.common import clock, endpoint, files
from judge.common.errors import ConfigError, JudgeError, RefusedError
from judge.config import GatewayConfig
from judge.daemon import metrics
from judge.daemon.notify import notify
from judge.daemon.process import ChildProcess, find_binary
from judge.gateway import auth, nginx, uwsgi
from judge.gateway.api.answers import PREFIX
from judge.gateway.cluster import Cluster
from judge.gateway.events import EventServer
from judge.gateway.notes import TokenWatch

log = logging.getLogger(__name__)

ALIVE = f"{PREFIX}/alive"
_POLL = 0.2
# uWSGI sees once a second whether its workers have ended, or when a signal wakes it.
_WAKE = 0.05
_PORT_WAIT = 5.0
_CHECK_TIMEOUT = 5.0
_SERVING = Gauge("judge_gateway_serving", "1 while uWSGI answers")


class Checker:
    """The check thread: asks uWSGI, and kills it when it does not serve for `tries` times `interval`."""

    def __init__(self, child: ChildProcess, events: EventServer, config: GatewayConfig) -> None:
        self._child = child
        self._events = events
        self._socket = config.run_dir / uwsgi.check_socket_name(config)
        self._listen = config.listen
        self._check = config.check
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="check", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(_CHECK_TIMEOUT + 1)

    def serving(self) -> bool:
        """Whether uWSGI answers one request now (the judicators do not matter here), and the loop of events turns."""
        return clock.monotonic() - self._events.turned < _CHECK_TIMEOUT and answers(self._socket)

    def _run(self) -> None:
        patience = self._check.tries * self._check.interval
        deadline, ready = clock.Deadline(patience), False
        while True:
            self._events.serving = serving = self.serving()
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


def find_nginx(name: str) -> Path:
    """The nginx program: beside this Python, on PATH, or where distributions put it. RefusedError when missing."""
    for place in (Path(sys.executable).parent / name, Path("/usr/sbin") / name):
        if os.access(place, os.X_OK):
            return place
    return find_binary(name)


def answers(path: Path) -> bool:
    """Whether the uWSGI behind this socket answers a request within some seconds."""
    # By the descriptor of its directory, since the name of a socket has room for 107 bytes only.
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(_CHECK_TIMEOUT)
            sock.connect(f"/proc/self/fd/{directory}/{path.name}")
            sock.sendall(uwsgi.request_packet(ALIVE))
            return sock.recv(4096).startswith(b"HTTP/1.1 200 ")
    except OSError:
        return False
    finally:
        os.close(directory)


def check_port(listen: str, wait: float = _PORT_WAIT) -> None:
    """RefusedError if another process has the port of `listen` for `wait` seconds; a killed one may need a moment."""
    deadline = clock.Deadline(wait)
    while True:
        try:
            endpoint.listen(listen).close()
        except OSError as exc:
            reason = os.strerror(exc.errno) if exc.errno and exc.errno > 0 else str(exc)
        else:
            return
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
        raise ConfigError(msg) from exc
    return ini, app


def _start_uwsgi(config: GatewayConfig, stack: contextlib.ExitStack) -> ChildProcess:
    ini, app = write_configs(config)
    stack.callback(ini.unlink, missing_ok=True)
    stack.callback(app.unlink, missing_ok=True)
    # In which the workers keep their counters for this process to serve.
    counters = config.run_dir / f"{config.name}-metrics"
    shutil.rmtree(counters, ignore_errors=True)
    counters.mkdir()
    stack.callback(shutil.rmtree, counters, ignore_errors=True)
    for name in (uwsgi.socket_name(config), uwsgi.check_socket_name(config)):
        stack.callback((config.run_dir / name).unlink, missing_ok=True)
    if config.metrics is not None:
        MultiProcessCollector(REGISTRY, str(counters))  # type: ignore[no-untyped-call]
    metrics.watch_disk(config.spool_dir)
    metrics.serve(config.metrics, config.metrics_tls)
    stderr = os.dup(2)
    stack.callback(os.close, stderr)
    variables = {uwsgi.CONFIG_ENV: app, uwsgi.STDERR_ENV: stderr, "PROMETHEUS_MULTIPROC_DIR": counters}
    return ChildProcess(
        "uwsgi",
        [str(find_uwsgi(config.binary)), "--ini", ini.name],
        parse=uwsgi.parse_line,
        env={**os.environ, **{name: str(value) for name, value in variables.items()}},
        cwd=config.run_dir,
        keeps=[stderr],
    )


def _start_nginx(config: GatewayConfig, stack: contextlib.ExitStack) -> ChildProcess:
    binary = find_nginx(config.nginx)
    path = nginx.prepare(config, _somaxconn())
    stack.callback(nginx.remove, config)
    return ChildProcess("nginx", nginx.command(binary, path), parse=nginx.parse_line, cwd=config.run_dir)


def run(config: GatewayConfig, stop: threading.Event) -> int:
    """Run nginx and uWSGI until `stop` is set (0), or until one of them ends by itself (1) (seed: Uwsgi.run).

    Raises ConfigError for tokens or a session key that cannot be used and RefusedError for a port in use; boot and
    systemd start it again after any other end.
    """
    tokens = auth.FileTokens(config.tokens)
    auth.read_session_key(config.session_key)
    find_uwsgi(config.binary)
    find_nginx(config.nginx)
    for address in (config.listen, *config.public.listen, *config.public.redirects()):
        check_port(address)
    with contextlib.ExitStack() as stack:
        server = _start_uwsgi(config, stack)
        cluster = Cluster(config)
        stack.callback(cluster.close)
        events = EventServer(config.run_dir / nginx.events_socket(config), cluster, tokens)
        stack.callback(events.stop)
        events.start()
        proxy = _start_nginx(config, stack)
        children = {"uWSGI": server, "nginx": proxy}
        checker = Checker(server, events, config)
        watch = TokenWatch(config)
        checker.start()
        watch.start()
        try:
            while not stop.wait(_POLL):
                if any(child.poll() is not None for child in children.values()):
                    break
        finally:
            notify("STOPPING=1")
            ended = [name for name, child in children.items() if child.poll() is not None]
            checker.stop()
            watch.stop(_POLL)
            codes = {"nginx": proxy.stop(config.stop_grace), "uWSGI": server.stop(config.stop_grace, again=_WAKE)}
    if stop.is_set():
        log.info("stopped")
        return 0
    for name in ended:
        log.error("%s ended by itself with code %d; its last output: %s", name, codes[name], children[name].last_line)
    return JudgeError.exit_code
