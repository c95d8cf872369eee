"""Where a host's sshd is and how to log in there, from the inventory and ssh_config. Nothing is connected here."""

from __future__ import annotations

import getpass
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paramiko

from judge.ctl.fleet.inventory import Host
from judge.errors import ConfigError

_SSH = {"ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh", "ansible.builtin.paramiko_ssh"}
_KEYS = "~/.ssh/id_ed25519 ~/.ssh/id_ecdsa ~/.ssh/id_rsa"
_CONFIGS = ("~/.ssh/config", "/etc/ssh/ssh_config")
_KNOWN_USER = "~/.ssh/known_hosts ~/.ssh/known_hosts2"
_KNOWN_GLOBAL = "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"
_VALUED = "BbcDEeFIiJLlmOoPpQRSWw"  # ssh's one-letter options that take a value


@dataclass(frozen=True)
class Target:
    """How to log in to one host. `known_as` is its name in known_hosts."""

    name: str
    address: str
    port: int
    user: str
    keys: tuple[Path, ...]
    only_keys: bool  # IdentitiesOnly: the agent's other keys are not offered
    known_hosts: tuple[Path, ...]
    known_as: str

    @property
    def command(self) -> str:
        """What a person types to log in there."""
        return f"ssh {'' if self.port == 22 else f'-p {self.port} '}{self.user}@{self.address}"


def target(host: Host) -> Target:
    """The login that ssh and Ansible would use; ConfigError for what judgectl cannot do, such as jump hosts."""
    connection = host.text("ansible_connection") or "ssh"
    if connection not in _SSH:
        place = host.variables["ansible_connection"].place
        msg = f"{place}: ansible_connection: judgectl reaches hosts by SSH only, not by '{connection}'"
        raise ConfigError(msg)
    options: dict[str, str] = {}
    for name in ("ansible_ssh_common_args", "ansible_ssh_extra_args", "ansible_ssh_args"):
        for option, value in arguments(host.text(name) or "", host.variables[name].place if host.text(name) else name):
            options.setdefault(option, value)
    config = _configured(host.address, options)
    jump = config.get("proxyjump") or config.get("proxycommand")
    if jump and jump.lower() != "none":
        msg = f"{host.name}: judgectl does not go through jump hosts, and ssh is configured with '{jump}'"
        raise ConfigError(msg + "; run judgectl where the host is reached directly")
    address, port = config.get("hostname", host.address), host.number("ansible_port", "ansible_ssh_port")
    if port is None:
        port = int(config["port"]) if config.get("port", "").isdigit() else 22
    key = host.text("ansible_ssh_private_key_file", "ansible_private_key_file")
    keys = [key] if key else shlex.split(config.get("identityfile", _KEYS))
    known = config.get("userknownhostsfile", _KNOWN_USER) + " " + config.get("globalknownhostsfile", _KNOWN_GLOBAL)
    return Target(
        name=host.name,
        address=address,
        port=port,
        user=host.text("ansible_user", "ansible_ssh_user") or config.get("user") or getpass.getuser(),
        keys=tuple(Path(one).expanduser() for one in keys),
        only_keys=config.get("identitiesonly", "no").lower() == "yes",
        known_hosts=tuple(Path(one).expanduser() for one in shlex.split(known)),
        known_as=config.get("hostkeyalias") or (address if port == 22 else f"[{address}]:{port}"),
    )


def arguments(text: str, place: str) -> Iterator[tuple[str, str]]:
    """Options of ssh's command line as in ssh_config, small letters: (`port`, `22`); `-F FILE` is (`-F`, FILE)."""
    try:
        words = iter(shlex.split(text))
    except ValueError as exc:
        msg = f"{place}: ssh's arguments cannot be split: {exc}"
        raise ConfigError(msg) from None
    letters = {"p": "port", "l": "user", "i": "identityfile", "J": "proxyjump", "F": "-F"}
    for word in words:
        letter = word[1:2]
        if not word.startswith("-") or letter not in _VALUED:
            continue
        value = word[2:] or next(words, "")
        if letter == "o":
            name, _, value = value.replace("=", " ", 1).strip().partition(" ")
            yield name.lower(), value.strip().strip('"')
        elif letter in letters:
            yield letters[letter], shlex.quote(value) if letter == "i" else value


def _configured(address: str, options: Mapping[str, str]) -> dict[str, str]:
    """What ssh_config says of an address, below the options of the command line; lists are shell words."""
    found: dict[str, str] = {}
    named = options.get("-F")
    for path in [] if named == "none" else [named] if named else _CONFIGS:
        file = Path(path).expanduser()
        if not named and not file.is_file():
            continue
        try:
            said: Mapping[str, Any] = paramiko.SSHConfig.from_path(str(file)).lookup(address)
        except OSError as exc:
            msg = f"{file}: ssh's configuration cannot be read: {exc.strerror}; correct -F in ansible_ssh_common_args"
            raise ConfigError(msg) from None
        except (paramiko.SSHException, ValueError) as exc:
            msg = f"{file}: ssh's configuration cannot be read: {exc}"
            raise ConfigError(msg) from None
        for key, value in said.items():
            text = shlex.join(value) if isinstance(value, list) else str(value or "")
            if key != "hostname" or value != address:
                found.setdefault(key, text)
    return found | {key: value for key, value in options.items() if key != "-F"}
