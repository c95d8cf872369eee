"""All hosts of a command at once: logins that are kept, one script on each, a deadline per host."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from judge.common import clock
from judge.common.errors import ConfigError, DeadlineError, JudgeError, UnavailableError
from judge.common.text import one_line
from judge.ctl.fleet.inventory import Host
from judge.ctl.fleet.ssh import MOST, CommandResult, JumpHosts, SshConnection
from judge.ctl.fleet.ssh_target import Target, target

_AT_ONCE = 32  # logins at a time: each takes some 50 ms of this machine's processor
_GRACE = 2.0  # seconds that looking a name up may take beyond its deadline; nothing can stop it


@dataclass(frozen=True)
class FleetHost:
    """A host, and how to log in there or why that cannot be told."""

    host: Host
    login: Target | ConfigError

    @property
    def name(self) -> str:
        return self.host.name

    @property
    def target(self) -> Target:
        """The way to log in there; raises the ConfigError that says why it cannot be told."""
        if isinstance(self.login, ConfigError):
            raise self.login
        return self.login


def _with_login(host: Host) -> FleetHost:
    try:
        return FleetHost(host, target(host))
    except ConfigError as exc:
        return FleetHost(host, exc)


Reply = CommandResult | JudgeError


def output_of(reply: Reply, subject: str = "it") -> str:
    """The output of a host's script; UnavailableError says in one line why there is none."""
    if isinstance(reply, JudgeError):
        raise UnavailableError(one_line(str(reply)))
    if reply.code != 0:
        message = one_line(reply.err.strip().rpartition("\n")[2]) or f"exit code {reply.code}"
        raise UnavailableError(f"{subject} cannot be asked: {message}")
    return reply.out


def fields_of(text: str) -> dict[str, str]:
    """The lines KEY=VALUE of an answer; of a repeated key the first."""
    fields: dict[str, str] = {}
    for line in text.split("\n"):
        key, equals, value = line.partition("=")
        if equals:
            fields.setdefault(key, one_line(value.strip()))
    return fields


class Fleet:
    def __init__(self, hosts: Sequence[Host], timeout: float) -> None:
        """`timeout` in seconds is what each host has for login and answer."""
        self.members = [_with_login(host) for host in hosts]
        self.timeout = timeout
        self.jumps = JumpHosts()
        self._open: dict[str, SshConnection] = {}

    def ask(self, script: Callable[[Host], str], *, root: bool = False, most: int = MOST) -> dict[str, Reply]:
        """Run each host's script; its answer, or why there is none, by name in the order of the hosts.

        `root`: through sudo where the login is another user's. `most`: bytes of an answer.
        """
        turn = threading.Semaphore(_AT_ONCE)
        replies: queue.SimpleQueue[tuple[str, Reply]] = queue.SimpleQueue()

        def work(member: FleetHost) -> None:
            with turn:
                replies.put((member.name, self._ask_member(member, script(member.host), root=root, most=most)))

        for member in self.members:
            threading.Thread(target=work, args=(member,), name=f"ssh {member.name}", daemon=True).start()
        rounds = -(-len(self.members) // _AT_ONCE)
        return self._collect(replies, clock.Deadline(self.timeout * rounds + _GRACE))

    def _collect(self, arrived: queue.SimpleQueue[tuple[str, Reply]], deadline: clock.Deadline) -> dict[str, Reply]:
        late = DeadlineError(f"did not answer within {self.timeout:g} s")
        replies: dict[str, Reply] = {member.name: late for member in self.members}
        for _ in self.members:
            try:
                name, reply = arrived.get(timeout=deadline.left())
            except queue.Empty:
                break
            replies[name] = reply
        return replies

    def _ask_member(self, member: FleetHost, script: str, *, root: bool, most: int) -> Reply:
        deadline = clock.Deadline(self.timeout)
        try:
            connection = self._open.get(member.name)
            if connection is None or not connection.alive:
                connection = self._open[member.name] = SshConnection(member.target, deadline.left(), self.jumps)
            return connection.run(script, deadline.left(), root=root, most=most)
        except JudgeError as exc:
            old_connection = self._open.pop(member.name, None)
            if old_connection:
                old_connection.close()
            return exc

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in list(self._open.values()):
            connection.close()
        self.jumps.close()
