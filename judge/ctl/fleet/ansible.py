"""Ansible's own programs, asked what an inventory says: ansible-inventory for all of it, ansible to fill in templates.

Both run as the person's own ansible would in this directory: with its ansible.cfg, plugins and vault passwords. Values
come through pipes only: no log of Ansible's has them.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from judge.common.errors import ConfigError, UsageError
from judge.common.text import one_line
from judge.ctl.fleet.inventory import Host, Inventory, parse_list

CHECKOUT = Path(__file__).resolve().parents[3]
# Among an inventory's files: no hosts in there, and Ansible would quote secrets.
_IGNORED = ("^bundle", "^secrets", r"\.bundle$", r"\.secrets$")
_VARIABLE_DIRECTORIES = {"group_vars", "host_vars"}
_QUIET = {
    "ANSIBLE_LOG_PATH": os.devnull, "ANSIBLE_LOAD_CALLBACK_PLUGINS": "0", "ANSIBLE_VERBOSITY": "0",
    "ANSIBLE_DEBUG": "0", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORCE_COLOR": "0", "ANSIBLE_INVENTORY_EXPORT": "0",
    "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1", "LC_ALL": "C.UTF-8", "COLUMNS": "4000",
}  # fmt: skip
_PLUGIN_FAILED = re.compile(r"[Ff]ailed to parse (?:inventory|\S+) with '?([\w.]+)'? (?:inventory )?plugin: (.*)")
_ORIGIN = re.compile(r"^Origin: (/.*:\d+:\d+)$", re.MULTILINE)
_GIVE_KEY = "give --vault-password-file FILE, or set ANSIBLE_VAULT_PASSWORD_FILE"
_NO_KEY = "no vault secrets found"
_WRONG_KEY = "no vault secrets were found that could decrypt"


@dataclass(frozen=True)
class Sources:
    """The inventories that are named, as after `ansible -i`, and the files with passwords of ansible-vault."""

    inventories: tuple[str, ...]
    vault_files: tuple[Path, ...] = ()

    def __str__(self) -> str:
        return ", ".join(self.inventories)


def setting(variable: str, key: str, section: str = "defaults") -> str:
    """One setting of Ansible's: the environment's, else that of the ansible.cfg that Ansible would read here."""
    if variable in os.environ:
        return os.environ[variable]
    config_path = os.environ.get("ANSIBLE_CONFIG")
    candidates = [] if _anybodys(Path.cwd()) else ["ansible.cfg"]
    for path in map(
        Path, [config_path] if config_path else [*candidates, "~/.ansible.cfg", "/etc/ansible/ansible.cfg"]
    ):
        file = path.expanduser() / "ansible.cfg" if path.expanduser().is_dir() else path.expanduser()
        if file.is_file():
            config = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=(";",), strict=False)
            try:
                config.read(file, encoding="utf-8")
                return config.get(section, key, fallback="")
            except (configparser.Error, OSError, UnicodeDecodeError):
                return ""  # Ansible says what is wrong with it
    return ""


def _anybodys(directory: Path) -> bool:
    """Return whether everybody may write there: Ansible takes no settings from such a directory, nor does judgectl."""
    return bool(directory.stat().st_mode & stat.S_IWOTH)


def load(sources: Sources) -> Inventory:
    """All hosts, groups and variables of the inventories; ConfigError or UsageError says why there are none.

    Called once by every command that is given an inventory; takes half a second to a second.
    """
    for name in sources.inventories:
        if "," not in name and not Path(name).exists():
            msg = f"--inventory: {name} does not exist; name an inventory's file or directory, such as inventory/mine"
            raise UsageError(msg)
    # Into a pipe instead of on the screen: what is shown also goes into a log.
    result = run("ansible-inventory", sources, "--list", "--output", "/dev/stdout")
    if result.returncode:
        raise ConfigError(_failure(str(sources), result.stderr))
    return parse_list(result.stdout, str(sources), _inventory_dir(sources))


def filled(sources: Sources, hosts: Sequence[Host], names: Sequence[str]) -> list[Host]:
    """The same hosts with templates and encrypted values of these variables worked out by Ansible, where there are any.

    ConfigError says which host's variable cannot be worked out, and why.
    """
    open_hosts = {name: [host for host in hosts if is_open(host.variables.get(name))] for name in names}
    variables = [name for name in names if open_hosts[name]]
    if not variables:
        return list(hosts)
    concerned = dict.fromkeys(host.name for name in variables for host in open_hosts[name])
    expressions = {
        name: f"{{{{ {name} if '{name}' in hostvars[inventory_hostname] else none }}}}" for name in variables
    }
    result = run(
        "ansible", sources, ",".join(concerned), "--connection", "local", "--forks", "16",
        "--module-name", "ansible.builtin.debug", "--args", json.dumps({"msg": expressions}),
    )  # fmt: skip
    values = _answers(result.stdout)
    if not values:
        raise ConfigError(_failure(str(sources), result.stderr))
    for name in variables:
        for host in open_hosts[name]:
            value = values.get(host.name)
            if not isinstance(value, dict) or value.get(name) is None:
                raise ConfigError(_unfilled(host, variables, open_hosts, value, result.stderr))
    return [replace(host, variables={**host.variables, **_dict(values.get(host.name))}) for host in hosts]


def _dict(value: Any) -> Mapping[str, Any]:
    return {key: item for key, item in value.items() if item is not None} if isinstance(value, dict) else {}


def is_open(value: Any) -> bool:
    """Return whether only Ansible can tell what a value of ansible-inventory's list stands for."""
    if isinstance(value, dict):
        return "__ansible_vault" in value
    return isinstance(value, str) and any(mark in value for mark in ("{{", "{%", "{#"))


def _unfilled(
    host: Host, variables: Sequence[str], open_hosts: Mapping[str, Sequence[Host]], value: Any, stderr: str
) -> str:
    """The reason why a host's variables have no value, in one sentence that names the encrypted one if it is one."""
    names = [name for name in variables if host in open_hosts[name]]
    encrypted = [name for name in names if isinstance(host.variables[name], dict)]
    name = (encrypted or names)[0]
    message = value if isinstance(value, str) else "a variable that it names is not set"
    if _NO_KEY in message or _WRONG_KEY in message:
        return _encrypted(f"{host.name}: {name}", message)
    origin = _ORIGIN.findall(stderr)
    cause = message.rpartition("The error was: ")[2].rpartition("value for 'msg': ")[2].removeprefix("Task failed: ")
    place = f" ({origin[-1]})" if origin and len(set(origin)) == 1 else ""
    return f"{host.name}: Ansible cannot work out {' or '.join(names)}: {_plain(cause)}{place}"


def _encrypted(subject: str, message: str) -> str:
    if _NO_KEY in message:
        return f"{subject} is encrypted by ansible-vault; {_GIVE_KEY}"
    return f"{subject} is encrypted by ansible-vault with another password than the one that is given"


def _answers(text: str) -> dict[str, Any]:
    """The output of `ansible` by host: the filled values, or a sentence why there are none."""
    answers: dict[str, Any] = {}
    for match in re.finditer(r"^(\S+) \| [A-Z]+!? => (?=\{)", text, re.MULTILINE):
        try:
            answer, _ = json.JSONDecoder().raw_decode(text, match.end())
        except ValueError:
            continue
        answers[match[1]] = answer.get("msg")
    return answers


def run(
    program: str,
    sources: Sources,
    *arguments: str,
    settings: Mapping[str, str] | None = None,
    playbook_directory: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run one of Ansible's programs with this inventory, quietly; ConfigError when it is not installed.

    `settings` are added to its environment; `playbook_directory`: name the checkout to a program without a playbook.
    """
    program_path = Path(sys.executable).with_name(program)
    path = str(program_path) if program_path.is_file() else shutil.which(program)
    if path is None:
        msg = f"inventories are read by {program}, which is not installed; install ansible-core with pip or apt"
        raise ConfigError(msg)
    words = [path, *arguments]
    for name in sources.inventories:
        words += ["--inventory", name]
    for file in sources.vault_files:
        words += ["--vault-password-file", str(file)]
    places = [place for place in (Path.cwd(), CHECKOUT) if not _anybodys(place)]
    playbooks = next((place for place in places if (place / "site.yml").is_file()), None)
    if playbook_directory and playbooks and not setting("ANSIBLE_PLAYBOOK_DIR", "playbook_dir"):
        words += ["--playbook-dir", str(playbooks)]
    ignored = [setting("ANSIBLE_INVENTORY_IGNORE_REGEX", "inventory_ignore_patterns")]
    ignored.append(setting("ANSIBLE_INVENTORY_IGNORE_REGEX", "ignore_patterns", "inventory"))
    patterns = dict.fromkeys(
        [*_IGNORED, *(part.strip() for text in ignored for part in text.split(",") if part.strip())]
    )
    environment = os.environ | _QUIET | {"ANSIBLE_INVENTORY_IGNORE_REGEX": ",".join(patterns)} | dict(settings or {})
    try:
        return subprocess.run(
            words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            check=False,
        )  # fmt: skip
    except OSError as exc:
        raise ConfigError(f"{path} cannot be run: {exc.strerror}; install ansible-core with pip or apt") from exc


def _inventory_dir(sources: Sources) -> str:
    """`inventory_dir` of every host where that is clear, else a template for Ansible to fill in."""
    only = Path(os.path.normpath(Path(sources.inventories[0]).absolute()))  # as Ansible: links are not followed
    if len(sources.inventories) == 1 and only.is_file():
        return str(only.parent)
    if len(sources.inventories) == 1 and only.is_dir():
        inner = [path.name for path in only.iterdir() if path.is_dir() and path.name not in _VARIABLE_DIRECTORIES]
        if all(re.search("|".join((*_IGNORED, r"^\.")), name) for name in inner):
            return str(only)
    return "{{ inventory_dir }}"


def _failure(source: str, stderr: str) -> str:
    if _NO_KEY in stderr or _WRONG_KEY in stderr:
        return _encrypted(f"{source}: a part of it", stderr)
    errors = re.findall(r"^(?:\[ERROR\]|ERROR!?): *(.*)", stderr, re.MULTILINE)
    failed = re.search(r"[Cc]ompletely failed to parse inventory source (.*)", stderr)
    if not failed:
        message = errors[-1] if errors else stderr.strip().rpartition("\n")[2] or "it says not why"
        return f"{source}: ansible-inventory cannot read it: {_plain(message)}"
    causes = dict(_PLUGIN_FAILED.findall(stderr))
    yaml_like = Path(failed[1]).suffix in {".yml", ".yaml", ".json"}
    order = ["script", "yaml", "auto", "ini"] if yaml_like else ["script", "ini", "yaml", "auto"]
    if "plugin configuration" in causes.get("yaml", "").lower() or "YAML parsing failed" in causes.get("auto", ""):
        order.remove("yaml")
    cause = next((causes[plugin] for plugin in order if plugin in causes), "no plugin of Ansible's reads such a file")
    script = re.search(r"^Standard error from inventory script:\n(.+)", stderr, re.MULTILINE)
    if script and "script" in causes:
        cause += f" ({script[1]})"
    places = [place for place in _ORIGIN.findall(stderr) if place.startswith(f"{failed[1]}:")]
    return f"{places[0] if places else failed[1]}: {_plain(cause)}"


def _plain(text: str) -> str:
    """Ansible's words without Python's names for kinds of values, and without its repetitions."""
    text = re.sub(r"\"?<class '(?:[\w.]*\.)?(?:_AnsibleTagged)?(\w+)'>\"?", lambda match: match[1].lower(), text)
    return one_line(text.removeprefix("Failed to parse inventory: ").strip().rstrip("."))
