"""A login on one host over SSH, through jump hosts where it has some, and commands there under a deadline.

Host keys are always checked, those of jump hosts too, whatever the configuration says. Only keys log in, from files and
from the agent. What a host answers is untrusted: it is bounded here and cleaned where it is shown.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
from paramiko.pkey import UnknownKeyType

from judge.common import clock
from judge.common.errors import ConfigError, DeadlineError, JudgeError, UnavailableError
from judge.common.text import one_line
from judge.ctl.fleet.ssh_target import Target

MOST = 1 << 20  # bytes of an answer: a host must not fill this machine's memory
_STEP = 0.5  # seconds after which a wait looks at its deadline
# Unacknowledged for this long (milliseconds), a connection is dead: a host without power does not say that it ends.
_USER_TIMEOUT = 15_000
_KEEPALIVE = 5

# Exceptions tell what paramiko's threads would print.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False


@dataclass(frozen=True)
class CommandResult:
    """The output of a command and its exit code (-1: the host did not tell)."""

    code: int
    out: str
    err: str


class SshConnection:
    def __init__(self, target: Target, timeout: float, jumps: JumpHosts) -> None:
        """Log in within `timeout` seconds; UnavailableError or ConfigError says in one sentence why not."""
        self.target = target
        self._proxy: ProxyCommand | None = None
        deadline = clock.Deadline(timeout)
        known_keys = _known_keys(target)
        self._transport = paramiko.Transport(self._reach(jumps, deadline))
        try:
            self._open(known_keys, deadline)
        except BaseException:
            self.close()
            raise

    def _reach(self, jumps: JumpHosts, deadline: clock.Deadline) -> socket.socket | paramiko.Channel:
        """The way to the host's sshd: straight, through its jump host, or through its ProxyCommand."""
        target = self.target
        if target.jump:
            return jumps.login(target.jump, deadline).forward(target, deadline)
        if target.proxy:
            self._proxy = ProxyCommand(target.proxy)
            return self._proxy.socket
        try:
            sock = socket.create_connection((target.address, target.port), timeout=deadline.left())
        except OSError as exc:
            why = exc.strerror or str(exc) or type(exc).__name__
            raise UnavailableError(f"{target.address} port {target.port} does not answer: {why}") from exc
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT)
        return sock

    def forward(self, target: Target, deadline: clock.Deadline) -> paramiko.Channel:
        """A connection that this host makes to another one's sshd; UnavailableError when it does not."""
        try:
            return self._transport.open_channel(
                "direct-tcpip", (target.address, target.port), ("127.0.0.1", 0), timeout=deadline.left()
            )
        except (paramiko.SSHException, EOFError, OSError) as exc:
            why = str(exc) or type(exc).__name__
            msg = f"{target.address} port {target.port} cannot be reached from jump host {self.target.address}: {why}"
            raise UnavailableError(msg) from exc

    def _open(self, known_keys: paramiko.hostkeys.HostKeys, deadline: clock.Deadline) -> None:
        transport, target = self._transport, self.target
        trusted = known_keys.lookup(target.known_as)
        if trusted:  # ask for a kind of key that is known
            options = transport.get_security_options()
            kinds = {kind.replace("ssh-rsa", "rsa-sha2-512") for kind in trusted}
            options.key_types = sorted(options.key_types, key=lambda kind: kind not in kinds)
        # Every wait of the transport's own ends with the deadline.
        remaining = deadline.check(f"the login at {target.address}")
        transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = remaining
        try:
            transport.start_client(timeout=remaining)
            key = transport.get_remote_server_key()
            if not known_keys.check(target.known_as, key):
                raise UnavailableError(_distrusted(target, key, has_keys=bool(trusted)))
            self._log_in(deadline)
        except (paramiko.SSHException, EOFError, OSError) as exc:
            if deadline.over:
                msg = f"{target.address} takes the connection and then says nothing for {deadline.seconds:g} s"
                raise DeadlineError(msg) from exc
            why = (self._proxy.complaint() if self._proxy else "") or exc or type(exc).__name__
            msg = f"{target.address} port {target.port} does not speak SSH as expected: {why}"
            raise UnavailableError(msg) from exc
        transport.set_keepalive(_KEEPALIVE)

    def _log_in(self, deadline: clock.Deadline) -> None:
        """Offer the key files' keys, then the agent's."""
        locked: list[Path] = []
        methods: list[str] = []
        for key, where in _keys(self.target, locked):
            methods.append(where)
            self._transport.auth_timeout = deadline.check(f"the login at {self.target.address}")
            with contextlib.suppress(paramiko.AuthenticationException):
                if not self._transport.auth_publickey(self.target.user, key):
                    return
            if not self._transport.is_active():
                break
        methods_text = ", ".join(dict.fromkeys(methods)) or "there is no key to offer"
        msg = f"{self.target.address} does not let {self.target.user} in ({methods_text})"
        if locked:
            msg += f"; {locked[0]} has a passphrase, so load it into the agent with ssh-add"
        else:
            msg += f"; try '{self.target.command}', and name the key in ansible_ssh_private_key_file"
        raise UnavailableError(msg)

    def run(self, script: str, timeout: float, *, root: bool = False, most: int = MOST) -> CommandResult:
        """Run a script of /bin/sh to its end; UnavailableError when the host dies, DeadlineError after `timeout` s.

        `root`: through sudo where the login is another user's. More than `most` bytes of output are cut off.
        """
        deadline = clock.Deadline(timeout)
        stream = self.stream(script, deadline.left(), root=root)
        out = bytearray()
        for data in stream.read(timeout, deadline):
            out += data[: most - len(out)]
        code = stream.exit_code(deadline.left())
        return CommandResult(code, out.decode(errors="replace"), stream.errors())

    def stream(self, script: str, timeout: float, *, root: bool = False) -> Stream:
        command = f"/bin/sh -c {shlex.quote(script)}"
        if root and self.target.user != "root":
            command = f"sudo -n -- {command}"
        try:
            channel = self._transport.open_session(timeout=timeout)
            channel.exec_command(command)
        except (paramiko.SSHException, EOFError, OSError) as exc:
            msg = f"{self.target.address} does not start a command: {exc or type(exc).__name__}"
            raise UnavailableError(msg) from exc
        return Stream(channel, self.target)

    @property
    def alive(self) -> bool:
        return self._transport.is_active()

    def close(self) -> None:
        self._transport.close()
        if self._proxy:
            self._proxy.close()

    def __enter__(self) -> SshConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ProxyCommand:
    """A running shell command that passes bytes on to a host's sshd."""

    def __init__(self, command: str) -> None:
        self.socket, other_end = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 -- read after the command has ended
        with other_end:
            # A session of its own: it is ended with all that it started, and asks no terminal for a password.
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"], start_new_session=True,
                stdin=other_end.fileno(), stdout=other_end.fileno(), stderr=self._errors,
            )  # fmt: skip

    def complaint(self) -> str:
        """The last line that it wrote on standard error, after it has ended; empty while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired, ValueError):
            self._process.wait(_STEP)
            self._errors.seek(0, os.SEEK_END)
            self._errors.seek(max(0, self._errors.tell() - 4096))
            last = self._errors.read().decode(errors="replace").strip().rpartition("\n")[2]
            return f"its ProxyCommand ended: {one_line(last) or f'exit code {self._process.returncode}'}"
        return ""

    def close(self) -> None:
        self.socket.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._errors.close()


@dataclass
class _JumpHost:
    """The one login at a jump host; `failure` is why there is none, since the moment `failed`."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    connection: SshConnection | None = None
    failure: JudgeError | None = None
    failed: float = 0.0


class JumpHosts:
    """The logins at jump hosts: one at each, for all hosts behind it, as sshd refuses many logins at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hosts: dict[Target, _JumpHost] = {}

    def login(self, target: Target, deadline: clock.Deadline) -> SshConnection:
        """The login at this jump host, made if there is none; the error says why not. Many threads call this."""
        started = clock.monotonic()
        with self._lock:
            host = self._hosts.setdefault(target, _JumpHost())
        if not host.lock.acquire(timeout=max(0.0, deadline.left())):
            raise DeadlineError(f"jump host {target.address} did not answer within {deadline.seconds:g} s")
        try:
            if host.connection and host.connection.alive:
                return host.connection
            if host.failure and host.failed >= started:  # another thread has just tried
                raise host.failure
            try:
                host.connection = SshConnection(target, deadline.left(), self)
            except JudgeError as exc:
                host.failure = type(exc)(f"at jump host {target.place}: {exc}")
                host.failed = clock.monotonic()
                raise host.failure from exc
            return host.connection
        finally:
            host.lock.release()

    def close(self) -> None:
        for host in list(self._hosts.values()):
            if host.connection:
                host.connection.close()


class Stream:
    def __init__(self, channel: paramiko.Channel, target: Target) -> None:
        self._channel = channel
        self._target = target
        self._errors = bytearray()
        channel.settimeout(_STEP)

    def read(self, quiet: float, deadline: clock.Deadline | None = None) -> Iterator[bytes]:
        """The output in pieces until its end.

        DeadlineError when nothing came, on standard error either, for `quiet` seconds, or when the deadline is over.
        """
        silence = clock.Deadline(quiet)
        while True:
            try:
                data = self._channel.recv(65536)
            except TimeoutError:
                data = None
            if self._drain_errors() or data:
                silence = clock.Deadline(quiet)
            if data == b"":
                return
            if data:
                yield data
            for limit in (silence, deadline):
                if limit and limit.over:
                    raise DeadlineError(f"{self._target.address} has said nothing for {limit.seconds:g} s")

    def lines(self, quiet: float) -> Iterator[bytes]:
        """The output line by line; of a line only its first MOST bytes. Raises as `read` does."""
        rest = bytearray()
        for data in self.read(quiet):
            *full_lines, last = data.split(b"\n")
            for part in full_lines:
                rest += part[: MOST - len(rest)]
                yield bytes(rest)
                rest.clear()
            rest += last[: MOST - len(rest)]
        if rest:
            yield bytes(rest)

    def _drain_errors(self) -> bool:
        reported = False
        while self._channel.recv_stderr_ready():
            data = self._channel.recv_stderr(65536)
            self._errors += data[: MOST - len(self._errors)]
            reported = True
            if not data:
                break
        return reported

    def exit_code(self, timeout: float) -> int:
        """The command's exit code, once it has ended; UnavailableError when the connection ended first."""
        if not self._channel.status_event.wait(max(timeout, _STEP)) or self._channel.exit_status < 0:
            self._channel.close()
            raise UnavailableError(f"the connection to {self._target.address} was lost in the middle of an answer")
        self._drain_errors()
        self._channel.close()
        return self._channel.exit_status

    def errors(self) -> str:
        return self._errors.decode(errors="replace")

    def close(self) -> None:
        self._channel.close()


def _known_keys(target: Target) -> paramiko.hostkeys.HostKeys:
    keys = paramiko.hostkeys.HostKeys()
    for path in target.known_hosts:
        try:
            keys.load(str(path))
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError, paramiko.SSHException) as exc:
            raise ConfigError(f"{path}: known hosts cannot be read: {exc}") from exc
    return keys


def _distrusted(target: Target, key: paramiko.PKey, *, has_keys: bool) -> str:
    if has_keys:
        forget = f"ssh-keygen -R {shlex.quote(target.known_as)}"
        return (
            f"{target.address} has another host key ({key.fingerprint}) than known_hosts says, so it is not trusted; "
            f"if it was installed anew, '{forget}' and then '{target.command}' once, else find out why"
        )
    return (
        f"the host key of {target.address} is not known ({key.fingerprint}), so it is not trusted; "
        f"compare it and accept it once with '{target.command}'"
    )


def _keys(target: Target, locked: list[Path]) -> Iterator[tuple[paramiko.PKey, str]]:
    """Keys to offer and where they are from; files whose key needs a passphrase are added to `locked`."""
    for path in target.keys:
        try:
            yield paramiko.PKey.from_path(str(path)), str(path)
        except FileNotFoundError:
            continue
        except (TypeError, paramiko.PasswordRequiredException):  # the former is what cryptography says
            locked.append(path)
        except (OSError, ValueError, paramiko.SSHException, UnknownKeyType) as exc:
            raise ConfigError(f"{path}: is no private key that can be read: {exc}") from exc
    publics = {_public(path) for path in target.keys}
    agent = paramiko.Agent()
    try:
        for key in agent.get_keys():
            if not target.only_keys or key.get_base64() in publics:
                yield key, "the agent's keys"
    finally:
        agent.close()


def _public(path: Path) -> str:
    """The base64 of KEY.pub, so that an agent's key is recognised; empty when there is none."""
    try:
        return path.with_name(path.name + ".pub").read_text(encoding="utf-8").split()[1]
    except (OSError, UnicodeDecodeError, IndexError):
        return ""
