"""The Ansible inventory as judgectl sees it: hosts, their groups, their variables and where each was written.

Plain YAML is read, with Ansible's order of precedence, without Ansible. What is not understood (a template, an
encrypted value) is an error only when it is needed, and then one sentence with file and line.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judge.errors import ConfigError, UsageError

# The groups that site.yml deploys, in the order in which their hosts are shown.
CLUSTER = ("judicators", "executors", "gateways")
_TEMPLATE = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")
_NESTED = 10  # templates that name templates


@dataclass(frozen=True)
class Opaque:
    """A value that is written in a way of its own, such as `!vault`."""

    tag: str


@dataclass(frozen=True)
class Value:
    """One variable's value, and the `file:line` where it was set."""

    value: Any
    place: str


@dataclass(frozen=True)
class Host:
    """One host: its name, its groups without `all` (sorted), and its variables after precedence."""

    name: str
    groups: tuple[str, ...]
    variables: Mapping[str, Value]

    def text(self, *names: str) -> str | None:
        """The first of these variables that is set, `{{ NAME }}` in it filled in; ConfigError if it cannot be."""
        found = next((name for name in names if name in self.variables), None)
        return None if found is None else self._expand(found, self.variables[found], _NESTED)

    def number(self, *names: str) -> int | None:
        """The first of these variables that is set, as a port number; ConfigError names the line when it is none."""
        text = self.text(*names)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
            found = next(name for name in names if name in self.variables)
            msg = f"{self.variables[found].place}: {found}: expected a port between 1 and 65535, got '{text}'"
            raise ConfigError(msg)
        return int(text)

    @property
    def address(self) -> str:
        """Where the host is reached: `ansible_host`, else its name."""
        return self.text("ansible_host", "ansible_ssh_host") or self.name

    def _expand(self, name: str, value: Value, depth: int) -> str:
        if isinstance(value.value, Opaque):
            msg = (
                f"{value.place}: {name} is written as {value.value.tag}, which judgectl cannot read; give a plain value"
            )
            raise ConfigError(msg)
        if value.value is None:
            return ""
        if isinstance(value.value, (dict, list)):
            msg = f"{value.place}: {name}: expected a text or a number, found a {type(value.value).__name__}"
            raise ConfigError(msg)
        text = str(value.value)

        def fill(match: re.Match[str]) -> str:
            other = self.variables.get(match[1])
            if other is None or depth == 0:
                why = "is not set in the inventory" if other is None else "leads back to itself"
                msg = f"{value.place}: {name}: '{match[1]}' in '{text}' {why}; give a plain value"
                raise ConfigError(msg)
            return self._expand(match[1], other, depth - 1)

        plain = _TEMPLATE.sub("", text)
        if "{{" in plain or "{%" in plain:
            msg = (
                f"{value.place}: {name}: judgectl does not work out the template '{text}', only plain values and "
                "'{{ NAME }}'; give a plain value"
            )
            raise ConfigError(msg)
        return _TEMPLATE.sub(fill, text)


@dataclass
class Group:
    """A group while files are read; of groups equally far from `all`, that with the higher priority wins."""

    name: str
    priority: int = 1
    variables: dict[str, Value] = field(default_factory=dict)
    parents: set[str] = field(default_factory=set)
    hosts: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True)
class Inventory:
    """All hosts by name in the order in which they are shown, and all groups with the names of their hosts."""

    source: str
    hosts: Mapping[str, Host]
    groups: Mapping[str, tuple[str, ...]]

    def members(self, group: str) -> list[Host]:
        """The hosts of a group, those of its children too; none if there is no such group."""
        return [self.hosts[name] for name in self.groups.get(group, ())]

    def select(self, patterns: Sequence[str]) -> list[Host]:
        """The hosts that names of hosts and groups (or patterns with `*`) stand for; all of the cluster for none.

        UsageError names what is not there, and what is near.
        """
        wanted: set[str] = set()
        for pattern in patterns or [group for group in CLUSTER if group in self.groups]:
            found = set(fnmatch.filter(self.hosts, pattern))
            for group in fnmatch.filter(self.groups, pattern):
                found.update(self.groups[group])
            if not found and pattern not in self.groups:
                raise UsageError(self._unknown(pattern))
            wanted |= found
        if not wanted:
            msg = f"{self.source}: no hosts in {', '.join(patterns or CLUSTER)}; see inventory/example"
            raise ConfigError(msg)
        return [host for name, host in self.hosts.items() if name in wanted]

    def _unknown(self, pattern: str) -> str:
        names = [*self.hosts, *self.groups]
        near = difflib.get_close_matches(pattern, names, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else f"; there are {', '.join(names[:20])}"
        return f"'{pattern}' is no host and no group of {self.source}{hint}"


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts e2 before e10."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"([0-9]+)", name) if part]


def resolve(
    source: str,
    groups: Mapping[str, Group],
    host_variables: Mapping[str, Mapping[str, Value]],
    files: Mapping[tuple[str, str], Mapping[str, Value]],
) -> Inventory:
    """Apply Ansible's precedence to what was read.

    `files` are the variables of group_vars and host_vars by (`group` or `host`, name). Weakest first: `all` and the
    groups of the inventory from the outermost to the innermost, group_vars in the same order, then the host's own.
    """
    depths = {name: _depth(groups, name, ()) for name in groups}
    hosts: dict[str, Host] = {}
    belongs: dict[str, list[str]] = {name: [] for name in groups}
    for name, own in host_variables.items():
        mine = {group for group, entry in groups.items() if name in entry.hosts}
        mine = mine.union(*(_ancestors(groups, group) for group in mine), {"all"})
        ordered = sorted(mine, key=lambda group: (depths[group], groups[group].priority, group))
        variables: dict[str, Value] = {}
        for group in ordered:
            variables.update(groups[group].variables)
        for group in ordered:
            variables.update(files.get(("group", group), {}))
        variables.update(own)
        variables.update(files.get(("host", name), {}))
        variables["inventory_hostname"] = Value(name, source)
        hosts[name] = Host(name, tuple(sorted(mine - {"all", "ungrouped"})), variables)
        for group in mine:
            belongs[group].append(name)

    def rank(name: str) -> tuple[int, list[tuple[int, int, str]]]:
        kinds = [CLUSTER.index(group) for group in hosts[name].groups if group in CLUSTER]
        return (min(kinds, default=len(CLUSTER)), natural(name))

    order = sorted(hosts, key=rank)
    return Inventory(
        source,
        {name: hosts[name] for name in order},
        {group: tuple(name for name in order if name in set(names)) for group, names in belongs.items()},
    )


def _parents(groups: Mapping[str, Group], name: str) -> set[str]:
    if name == "all":
        return set()
    return groups[name].parents or {"all"}


def _ancestors(groups: Mapping[str, Group], name: str) -> set[str]:
    found: set[str] = set()
    pending = [name]
    while pending:
        for parent in _parents(groups, pending.pop()) - found:
            found.add(parent)
            pending.append(parent)
    return found


def _depth(groups: Mapping[str, Group], name: str, below: tuple[str, ...]) -> int:
    """The longest way from `all`; ConfigError when a group is its own ancestor."""
    if name in below:
        msg = (
            f"group '{name}' is its own ancestor ({' in '.join([*below[below.index(name) :], name])}); break the circle"
        )
        raise ConfigError(msg)
    return max((_depth(groups, parent, (*below, name)) + 1 for parent in _parents(groups, name)), default=0)
