"""A server that a daemon runs as its child: etcd, mongod, uWSGI. The child dies with the daemon.

Seeds: `subprocess.run(config)`, `log_output(process)`, `process.kill()`, `process.join()` of every daemon.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from judge.common import clock
from judge.common.errors import RefusedError

log = logging.getLogger(__name__)

# Variables of systemd that a server must not get: etcd would take the socket for its own, and say READY too early.
_OURS = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
_LINE = 64 * 1024  # characters; a longer line of a server is logged in pieces
_MOST_LINE = 300  # characters of a line that is not understood
_KILLED = 30.0  # seconds that a killed child may take to be gone; one that waits for a dead disk takes for ever

LineParser = Callable[[str], tuple[int, str]]


def find_binary(name: str) -> Path:
    """The absolute path of a server's program; RefusedError says what is missing and what to install."""
    path = shutil.which(name)
    if path is None:
        raise RefusedError(f"program '{name}' was not found; install it or set its full path under 'binary'")
    return Path(path).resolve()


class ChildProcess:
    """One child whose output goes line by line to the log and which never outlives this process.

    `setpriv --pdeathsig KILL` (util-linux) ties its life to the thread that starts it, so start it from the main
    thread, or from one that lives as long as the daemon.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        parse: LineParser = lambda line: (logging.INFO, line),
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        keeps: Sequence[int] = (),
    ) -> None:
        """Start the child; `parse` maps one line of its output to (logging level, text).

        `keeps` are open files of this process that it has under the same numbers.
        """
        self.name = name
        self.last_line = ""
        self._odd = False
        self._parse = parse
        self._log = logging.getLogger(f"judge.{name}.server")
        variables = os.environ if env is None else env
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={key: value for key, value in variables.items() if key not in _OURS},
            cwd=cwd,
            pass_fds=keeps,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        log.info("%s started as process %d", name, self._process.pid)
        self._reader = threading.Thread(target=self._read, name=f"{name}-output", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._process.poll()

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait up to `timeout` seconds; the exit code, or None when it still runs."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """SIGKILL to the child's whole session: it does not serve, or its time is over."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def stop(self, grace: float, sig: signal.Signals = signal.SIGTERM, *, again: float | None = None) -> int:
        """Ask it to end, kill it after `grace` seconds, join it and its output; returns its exit code.

        `again`: ask once more every so many seconds, which must do no harm.
        """
        if self._process.poll() is None:
            over, step = clock.Deadline(grace), grace if again is None else again
            self._process.send_signal(sig)
            while self.wait(min(step, over.left())) is None and not over.over:
                self._process.send_signal(sig)
            if self._process.poll() is None:
                log.warning("%s did not end within %.0f s of %s, killing it", self.name, grace, sig.name)
                self.kill()
        return self.join()

    def join(self) -> int:
        """Wait for the end of the child, which is ending or was killed, and of its output; returns its exit code.

        One that does not end though it was killed is left to the system: its daemon must not wait for it for ever.
        """
        code = self.wait(_KILLED)
        if code is None:
            log.error("%s (process %d) does not end though it was killed", self.name, self.pid)
            return -signal.SIGKILL
        self._reader.join(timeout=5)
        return code

    def _read(self) -> None:
        stream = self._process.stdout
        if stream is None:
            return
        with stream:
            while raw := stream.readline(_LINE):
                line = raw.rstrip("\n")
                if line:
                    self._tell(line)

    def _tell(self, line: str) -> None:
        """Log one line. Whatever is in it, the pipe must be read on: a server whose pipe is closed or full ends."""
        try:
            level, text = self._parse(line)
        except Exception as exc:
            level, text = logging.INFO, line[:_MOST_LINE]
            if not self._odd:
                self._odd = True
                log.debug("parser of %s", self.name, exc_info=True)
                log.warning("a line of %s cannot be understood (%s), it is logged as it is", self.name, exc)
        self.last_line = text
        self._log.log(level, "%s", text)
