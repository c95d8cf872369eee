"""The way to a host's sshd: its address, jump hosts, and how to log in. Nothing is connected here.

The inventory's variables become the words that Ansible gives ssh, and `ssh -G` says what they and ssh_config mean.
"""

from __future__ import annotations

import getopt
import os
import pwd
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from judge.common.errors import ConfigError
from judge.ctl.fleet.ansible import setting
from judge.ctl.fleet.inventory import Host

# The variables that are read here.
VARIABLES = (
    "ansible_host", "ansible_ssh_host", "ansible_port", "ansible_ssh_port", "ansible_user", "ansible_ssh_user",
    "ansible_ssh_private_key_file", "ansible_private_key_file", "ansible_connection",
    "ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args",
)  # fmt: skip
_SSH = {"ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh", "ansible.builtin.paramiko_ssh"}
_LETTERS = "1246AaCfGgKkMNnqsTtVvXxYyB:b:c:D:E:e:F:I:i:J:L:l:m:O:o:P:p:Q:R:S:W:w:"  # of ssh's own command line
_NETCAT = {"nc", "netcat", "ncat"}
_UNREADABLE = re.compile(r"id_(dsa|xmss|\w+_sk)$")  # ssh looks for these by itself; paramiko cannot use them
_PLAIN = re.compile(r"[\w.:@%+,=\[\]][\w.:@%+,=\[\]-]*")  # no word of a shell's language, no option
_MOST_HOPS = 8
_PATIENCE = 30  # seconds: ssh_config may run programs (Match exec) and ask for names


@dataclass(frozen=True)
class Target:
    """The way to log in to one host. `known_as` is its name in known_hosts."""

    name: str = field(compare=False)  # a jump host of several hosts is one
    address: str
    port: int
    user: str
    keys: tuple[Path, ...]
    only_keys: bool  # IdentitiesOnly: the agent's other keys are not offered
    known_hosts: tuple[Path, ...]
    known_as: str
    jump: Target | None = None  # the host that connects to it for us
    proxy: str = ""  # the shell command whose input and output are the connection

    @property
    def command(self) -> str:
        words = ["ssh"]
        if self.jump:
            words += ["-J", ",".join(hop.place for hop in self.jump.way)]
        elif self.proxy:
            words += ["-o", "ProxyCommand=…"]  # not in full: passwords are sometimes in it
        words += [] if self.port == 22 else ["-p", str(self.port)]
        return " ".join([*words, f"{self.user}@{self.address}"])

    @property
    def place(self) -> str:
        """The login as ProxyJump writes it."""
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.user}@{address}" + ("" if self.port == 22 else f":{self.port}")

    @property
    def way(self) -> list[Target]:
        """The jump hosts before it, nearest first, then the host itself."""
        return [*(self.jump.way if self.jump else []), self]


def target(host: Host) -> Target:
    """The login that Ansible would make by ssh; ConfigError for a connection of another kind, or bad options."""
    connection = host.text("ansible_connection") or "ssh"
    if connection not in _SSH:
        raise ConfigError(f"{host.name}: ansible_connection: judgectl reaches hosts by SSH only, not by '{connection}'")
    words = _words(host, "ansible_ssh_args", "ANSIBLE_SSH_ARGS", "ssh_args")
    port = host.number("ansible_port", "ansible_ssh_port") or setting("ANSIBLE_REMOTE_PORT", "remote_port")
    key = host.text("ansible_ssh_private_key_file", "ansible_private_key_file")
    key = key or setting("ANSIBLE_PRIVATE_KEY_FILE", "private_key_file")
    user = host.text("ansible_user", "ansible_ssh_user") or setting("ANSIBLE_REMOTE_USER", "remote_user")
    words += ["-o", f"Port={port}"] if port else []
    words += ["-o", f'User="{user}"'] if user else []
    words += _words(host, "ansible_ssh_common_args", "ANSIBLE_SSH_COMMON_ARGS", "ssh_common_args")
    words += _words(host, "ansible_ssh_extra_args", "ANSIBLE_SSH_EXTRA_ARGS", "ssh_extra_args")
    return _resolved(host.name, words, host.address, key=key)


def _words(host: Host, name: str, variable: str, key: str) -> list[str]:
    """The words of one of Ansible's three variables with arguments for ssh, or of its setting in ansible.cfg."""
    try:
        return shlex.split(host.text(name) or setting(variable, key, "ssh_connection"))
    except ValueError as exc:
        raise ConfigError(f"{host.name}: {name}: ssh's arguments cannot be split: {exc}") from exc


def _resolved(
    name: str, words: Sequence[str], destination: str, above: tuple[Target, ...] = (), key: str | None = None
) -> Target:
    """The target as ssh would resolve these words; `above`: hosts that are reached through this one, farthest first.

    `key`: the file that the inventory names; ssh's usual ones are not offered beside it.
    """
    if destination.startswith("-"):
        raise ConfigError(f"{name}: '{destination}' is no host's name; correct ansible_host")
    options = _resolved_options(name, [*words, "--", destination])
    first = {option: values[0] for option, values in options.items()}
    address, port, user = first["hostname"], int(first["port"]), first["user"]
    tokens = {"h": address, "p": str(port), "r": user, "n": destination, "%": "%"}
    tokens |= {"u": pwd.getpwuid(os.getuid()).pw_name, "d": str(Path.home()), "i": str(os.getuid())}
    files = [key] if key else [file for file in options.get("identityfile", []) if not _UNREADABLE.search(file)]
    key_files = options.get("userknownhostsfile", [""])[0].split() + first.get("globalknownhostsfile", "").split()
    if "/dev/null" in first.get("userknownhostsfile", ""):  # so that ssh forgets; here keys are checked all the same
        key_files += ["~/.ssh/known_hosts", "~/.ssh/known_hosts2"]
    login = Target(
        name=name,
        address=address,
        port=port,
        user=user,
        keys=tuple(Path(_expanded(file, tokens)).expanduser() for file in files if file != "none"),
        only_keys=first.get("identitiesonly", "no") == "yes",
        known_hosts=tuple(Path(_expanded(file, tokens)).expanduser() for file in key_files if file != "none"),
        known_as=first.get("hostkeyalias") or (address if port == 22 else f"[{address}]:{port}"),
    )
    if login.place in {hop.place for hop in above} or len(above) > _MOST_HOPS:
        raise ConfigError(f"{above[0].name}: its jump hosts lead in a circle through {login.place}; correct ProxyJump")
    return _with_way(login, words, first, tokens, (*above, login))


def _with_way(
    login: Target,
    words: Sequence[str],
    options: Mapping[str, str],
    tokens: Mapping[str, str],
    above: tuple[Target, ...],
) -> Target:
    """The same login with its jump host or its ProxyCommand, if it has one."""
    command = options.get("proxycommand", "none")
    if options.get("proxyjump", "none") != "none":
        *before, last = options["proxyjump"].split(",")
        config = [word for option, value in _options(words)[0] if option == "-F" for word in (option, value)]
        config += ["-J", ",".join(before)] if before else []
        user, host, port = _hop(last)
        config += ["-l", user] if user else []
        jump = _resolved(login.name, config + (["-p", port] if port else []), host, above)
    elif command == "none":
        return login
    elif hop := _ssh_hop(command, login, tokens):
        jump = _resolved(login.name, hop[:-1], hop[-1], above)
    else:
        for part in (login.address, login.user):
            if not _PLAIN.fullmatch(part):
                msg = f"{login.name}: '{part}' does not go into the shell of a ProxyCommand; correct ansible_host"
                raise ConfigError(msg)
        return replace(login, proxy=_expanded(command, tokens))
    return replace(login, jump=jump)


def _hop(text: str) -> tuple[str, str, str]:
    """User, host and port of `[ssh://][USER@]HOST[:PORT]`, empty where they are not given."""
    user, _, place = text.removeprefix("ssh://").rpartition("@")
    parts = re.fullmatch(r"\[(?P<inner>.*)\](?::(?P<far>\d+))?|(?P<host>[^:]*):(?P<port>\d+)", place)
    return (user, parts["inner"] or parts["host"], parts["far"] or parts["port"] or "") if parts else (user, place, "")


def _ssh_hop(command: str, login: Target, tokens: Mapping[str, str]) -> list[str] | None:
    """`ssh OPTIONS -W %h:%p HOST` (or `ssh OPTIONS HOST nc %h %p`) as OPTIONS and HOST; None for other commands.

    Such a command is a jump host written in another way, and its host key is checked here like every other.
    """
    if re.search(r"[|&;<>$`()\n]", command):
        return None
    try:
        words = [_expanded(word, tokens) for word in shlex.split(command)]
        options, rest = _options(words[2:] if words[:1] == ["exec"] else words[1:])
    except ValueError:
        return None
    program = next((word for word in words if word != "exec"), "")
    if Path(program).name != "ssh" or not rest:
        return None
    ends = {f"{login.address}:{login.port}", f"[{login.address}]:{login.port}"}
    forward = [value for option, value in options if option == "-W"]
    netcat = rest[1:2] and Path(rest[1]).name in _NETCAT and rest[-2:] == [login.address, str(login.port)]
    if not (forward and forward[0] in ends and len(rest) == 1) and not (netcat and not forward):
        return None
    words_without_w = [
        word for option, value in options if option != "-W" for word in ((option, value) if value else (option,))
    ]
    return [*words_without_w, rest[0]]


def _options(words: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """A command line of ssh's as options and words; options stand before and after the host. ValueError if it is none.

    The remote command begins at the second word, whatever it looks like.
    """
    try:
        options, rest = getopt.getopt(list(words), _LETTERS)
        more, command = getopt.getopt(rest[1:], _LETTERS)
    except getopt.GetoptError as exc:
        raise ValueError(str(exc)) from exc
    return options + more, rest[:1] + command


def _expanded(text: str, tokens: Mapping[str, str]) -> str:
    """Tokens of ssh_config such as %h in a text; those that are not known here stay."""
    return re.sub(r"%(.)", lambda match: tokens.get(match[1], match[0]), text)


def _resolved_options(name: str, words: Sequence[str]) -> dict[str, list[str]]:
    """The output of `ssh -G` for these words: options in small letters with values; ConfigError if ssh refuses."""
    try:
        result = subprocess.run(
            ["ssh", "-G", "-T", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=_PATIENCE, check=False,
        )  # fmt: skip
    except FileNotFoundError as exc:
        msg = "ssh is not installed, and its configuration says how hosts are reached; install openssh-client"
        raise ConfigError(msg) from exc
    except subprocess.TimeoutExpired as exc:
        msg = f"{name}: ssh does not say within {_PATIENCE} s how it is configured; see what 'ssh -G' waits for"
        raise ConfigError(msg) from exc
    if result.returncode:
        last = result.stderr.strip().rpartition("\n")[2] or f"exit code {result.returncode}"
        msg = f"{name}: ssh refuses its arguments or its configuration: {last}; correct ansible_ssh_common_args"
        raise ConfigError(msg)
    values_by_option: dict[str, list[str]] = {}
    for line in result.stdout.splitlines():
        option, _, value = line.partition(" ")
        values_by_option.setdefault(option, []).append(value)
    return values_by_option
