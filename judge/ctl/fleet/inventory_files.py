"""Reading an inventory's files: hosts, groups, group_vars, host_vars. Faults are ConfigErrors with file and line."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from judge import yamltext
from judge.config.reading import read
from judge.ctl.fleet.inventory import Group, Inventory, Opaque, Value, resolve
from judge.errors import ConfigError, UsageError

_NAMES = ("hosts", "vars", "children")
_SUFFIXES = ("", ".yml", ".yaml", ".json")
# As Ansible does in a directory, and as ansible.cfg of this project adds: neither hosts nor variables.
_NOT_HOSTS = re.compile(
    r"^\.|^(host_vars|group_vars|vars_plugins)$|^bundle|^secrets|~$|\.(md|txt|rst|orig|cfg|retry|bak|swp|rpm|py[co])$"
)
_RANGE = re.compile(r"\[([^\[\]]*)\]")
_MOST = 100_000  # hosts of one pattern


class _Loader(yamltext.Loader):
    """YAML with Ansible's own tags kept as what they are."""


def _opaque(_: yaml.Loader, suffix: str, __: yaml.Node) -> Opaque:
    return Opaque(f"!{suffix}")


_Loader.add_multi_constructor("!", _opaque)


class _File:
    """One YAML file: nodes with their lines, values made of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        text = read(path)
        if text.startswith("$ANSIBLE_VAULT"):
            raise ConfigError(
                f"{path}:1: is encrypted by ansible-vault, which judgectl cannot read; keep secrets in another file"
            )
        self.text = text
        try:
            self.loader = _Loader(text)
            self.root = yamltext.compose(self.loader, str(path))
        except yaml.YAMLError as exc:
            raise self._not_yaml(exc) from None

    def _not_yaml(self, exc: yaml.YAMLError) -> ConfigError:
        hint = "" if self.path.suffix else "; judgectl reads inventories in YAML, not INI"
        return ConfigError(f"{yamltext.refusal(exc, self.text, str(self.path))}{hint}")

    def place(self, node: yaml.Node) -> str:
        """`file:line` of a node."""
        return f"{self.path}:{node.start_mark.line + 1}"

    def pairs(self, node: yaml.Node | None, what: str) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
        """Key as text, key and value of a mapping; nothing of an empty one. ConfigError when it is no mapping."""
        if node is None or (isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"):
            return
        if not isinstance(node, yaml.MappingNode):
            raise ConfigError(
                f"{self.place(node)}: expected {what}, found {_kind(node)}; write 'name:' on a line of its own for each"
            )
        try:
            self.loader.flatten_mapping(node)
        except yaml.YAMLError as exc:
            raise self._not_yaml(exc) from None
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise ConfigError(f"{self.place(key)}: expected a name, found {_kind(key)}")
            yield key.value, key, value

    def variables(self, node: yaml.Node | None) -> dict[str, Value]:
        """A mapping of variables with the line of each."""
        found = {}
        for name, key, value in self.pairs(node, "a mapping of variables"):
            found[name] = Value(self.value(value), self.place(key))
        return found

    def value(self, node: yaml.Node) -> Any:
        """What a node stands for."""
        try:
            return self.loader.construct_object(node, deep=True)
        except yaml.YAMLError as exc:
            raise self._not_yaml(exc) from None


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    return "a list" if isinstance(node, yaml.SequenceNode) else yamltext.quoted(node.value)


class _Reader:
    """Collects what the files of one inventory say."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {"all": Group("all")}
        self.hosts: dict[str, dict[str, Value]] = {}
        self.files: dict[tuple[str, str], dict[str, Value]] = {}

    def read_hosts(self, path: Path) -> None:
        """One file of hosts and groups."""
        file = _File(path)
        if isinstance(file.root, yaml.SequenceNode):
            raise ConfigError(f"{file.place(file.root)}: expected groups of hosts, found a list; is this a playbook?")
        for name, _, node in file.pairs(file.root, "groups of hosts"):
            self._group(file, name, node)

    def _group(self, file: _File, name: str, node: yaml.Node) -> None:
        group = self.groups.setdefault(name, Group(name))
        for key, where, value in file.pairs(node, f"hosts, vars or children of group '{name}'"):
            if key == "hosts":
                for pattern, host_key, variables in file.pairs(value, f"the hosts of group '{name}'"):
                    self._host(file, group, pattern, host_key, variables)
            elif key == "vars":
                group.variables.update(file.variables(value))
                priority = group.variables.pop("ansible_group_priority", None)
                if priority and re.fullmatch(r"-?[0-9]{1,9}", str(priority.value)):
                    group.priority = int(priority.value)
            elif key == "children":
                for child, _, body in file.pairs(value, f"the children of group '{name}'"):
                    self._group(file, child, body)
                    if name != "all":
                        self.groups[child].parents.add(name)
            else:
                raise ConfigError(
                    f"{file.place(where)}: group '{name}' has the key '{key}', expected {', '.join(_NAMES)}; "
                    f"hosts stand under 'hosts:', variables under 'vars:'"
                )

    def _host(self, file: _File, group: Group, pattern: str, key: yaml.Node, node: yaml.Node) -> None:
        variables = file.variables(node)
        for name in expand(pattern, file.place(key)):
            directory = Value(str(file.path.parent.resolve()), file.place(key))
            self.hosts.setdefault(name, {"inventory_dir": directory}).update(variables)
            group.hosts[name] = None

    def read_variables(self, base: Path) -> None:
        """group_vars and host_vars beside the hosts."""
        names = {"group": list(self.groups), "host": list(self.hosts)}
        for kind, known in names.items():
            for name in known:
                for path in _variable_files(base / f"{kind}_vars", name):
                    file = _File(path)
                    self.files.setdefault((kind, name), {}).update(file.variables(file.root))


def _variable_files(directory: Path, name: str) -> Iterator[Path]:
    """The first of NAME (a file, or all files below it), NAME.yml, …: Ansible takes no more than one of them."""
    for suffix in _SUFFIXES:
        path = directory / f"{name}{suffix}"
        if path.is_dir():
            for inner in sorted(path.rglob("*")):
                if inner.is_file() and inner.suffix in _SUFFIXES and not inner.name.startswith("."):
                    yield inner
        elif path.is_file():
            yield path
        if path.exists():
            return


def expand(pattern: str, place: str) -> list[str]:
    """`e[01:03]` as e01, e02, e03, as Ansible does; ConfigError when the range is none."""
    match = _RANGE.search(pattern)
    if not match:
        return [pattern]
    parts = match[1].split(":")
    bad = ConfigError(f"{place}: host '{pattern}': expected a range such as [1:20], [01:20], [a:f] or [0:20:5]")
    if len(parts) not in {2, 3} or not all(parts[1:]) or (len(parts) == 3 and not parts[2].isdigit()):
        raise bad
    first, last, step = parts[0] or "0", parts[1], int(parts[2]) if len(parts) == 3 else 1
    letters = string.ascii_letters
    if first.isdigit() and last.isdigit() and step:
        if len(first) > 1 and first.startswith("0") and len(first) != len(last):
            raise bad
        width = len(first) if first.startswith("0") else 0
        if int(last) - int(first) > _MOST:
            raise bad
        values = [str(number).zfill(width) for number in range(int(first), int(last) + 1, step)]
    elif len(first) == len(last) == 1 and first in letters and last in letters and step:
        values = list(letters[letters.index(first) : letters.index(last) + 1 : step])
    else:
        raise bad
    if not values:
        raise bad
    head, tail = pattern[: match.start()], pattern[match.end() :]
    return [f"{head}{value}{rest}" for value in values for rest in expand(tail, place)]


def _sources(path: Path) -> Iterator[Path]:
    if path.is_dir():
        for inner in sorted(path.iterdir(), key=lambda one: one.name):
            if not _NOT_HOSTS.search(inner.name):
                yield from _sources(inner)
    elif path.suffix in _SUFFIXES:
        yield path
    else:
        raise ConfigError(
            f"{path}: judgectl reads inventories in YAML (.yml, .yaml), not '{path.suffix}' files; convert or move it"
        )


def load(path: Path) -> Inventory:
    """Read an inventory: a file, or a directory of files with group_vars and host_vars.

    Called by every command that is given one. ConfigError says file, line and what is wrong.
    """
    if not path.exists():
        raise UsageError(
            f"--inventory: {path} does not exist; name an inventory's file or directory, such as inventory/mine"
        )
    reader = _Reader()
    sources = list(_sources(path))
    for source in sources:
        reader.read_hosts(source)
    if not reader.hosts:
        raise ConfigError(f"{path}: no hosts in it; see inventory/example for how to name some")
    reader.read_variables(path if path.is_dir() else path.parent)
    return resolve(str(path), reader.groups, reader.hosts, reader.files)
