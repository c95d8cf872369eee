"""The inventory as judgectl sees it: hosts, their groups and their variables, from what ansible-inventory lists."""

from __future__ import annotations

import difflib
import fnmatch
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judge.common.errors import ConfigError, UsageError

# The groups that site.yml deploys, in the order in which their hosts are shown.
CLUSTER = ("judicators", "executors", "gateways")


@dataclass(frozen=True)
class Host:
    """One host: its name, its groups without `all` (sorted), and its variables after precedence."""

    name: str
    groups: tuple[str, ...]
    variables: Mapping[str, Any]

    def text(self, *names: str) -> str | None:
        """The first of these variables that is set; ConfigError when it is neither text nor a number."""
        name = next((name for name in names if name in self.variables), None)
        if name is None:
            return None
        value = self.variables[name]
        if isinstance(value, (dict, list)):
            raise ConfigError(f"{self.name}: {name}: expected a text or a number, found a {type(value).__name__}")
        return "" if value is None else str(value)

    def number(self, *names: str) -> int | None:
        """The first of these variables that is set, as a port number; ConfigError names it when it is none."""
        text = self.text(*names)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
            name = next(name for name in names if name in self.variables)
            raise ConfigError(f"{self.name}: {name}: expected a port between 1 and 65535, got '{text}'")
        return int(text)

    @property
    def address(self) -> str:
        """The address at which the host is reached: `ansible_host`, else its name."""
        return self.text("ansible_host", "ansible_ssh_host") or self.name


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
        """The hosts that patterns of Ansible's (`e*`, `a:b`, `a:!b`, `a:&b`) stand for; all of the cluster for none.

        UsageError names what is not there, and what is near.
        """
        terms = [term for pattern in patterns for term in self._terms(pattern)]
        hosts: set[str] = set()
        for term in [term for term in terms if term[0] not in "!&"] or [g for g in CLUSTER if g in self.groups]:
            hosts |= self._matching(term)
        for term in [term for term in terms if term[0] == "&"]:
            hosts &= self._matching(term[1:])
        for term in [term for term in terms if term[0] == "!"]:
            hosts -= self._matching(term[1:])
        if not hosts:
            raise ConfigError(f"{self.source}: no hosts in {', '.join(patterns or CLUSTER)}; see inventory/example")
        return [host for name, host in self.hosts.items() if name in hosts]

    def _terms(self, pattern: str) -> list[str]:
        if pattern in self.hosts or pattern in self.groups:  # an IPv6 address, say
            return [pattern]
        return [term for term in re.split(r"[:,]", pattern) if term.strip("!&")] or [pattern or "''"]

    def _matching(self, term: str) -> set[str]:
        """The hosts that one name or pattern with `*` stands for; UsageError for a name that nothing has."""
        names = set(fnmatch.filter(self.hosts, term))
        groups = fnmatch.filter(self.groups, term)
        if not names and not groups:
            raise UsageError(self._unknown(term))
        return names.union(*(self.groups[group] for group in groups))

    def _unknown(self, pattern: str) -> str:
        names = [*self.hosts, *self.groups]
        suggestions = difflib.get_close_matches(pattern, names, n=1)
        hint = f"; did you mean '{suggestions[0]}'?" if suggestions else f"; there are {', '.join(names[:20])}"
        return f"'{pattern}' is no host and no group of {self.source}{hint}"


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts e2 before e10."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"([0-9]+)", name) if part]


def parse_list(text: str, source: str, inventory_dir: str) -> Inventory:
    """The inventory that `ansible-inventory --list` printed; ConfigError when it is none, or without hosts.

    `inventory_dir` is added to every host's variables, as the list leaves it out.
    """
    try:
        groups: Any = json.loads(text)
        variables = {name: dict(host_variables) for name, host_variables in groups.pop("_meta")["hostvars"].items()}
        members = {name: _members(groups, name, set()) for name in groups}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as exc:
        msg = f"{source}: ansible-inventory answers with something else than its list of hosts; is it Ansible's?"
        raise ConfigError(msg) from exc
    names = set(variables).union(*members.values())
    if not names:
        raise ConfigError(f"{source}: no hosts in it; see inventory/example for how to name some")

    def host(name: str) -> Host:
        host_groups = (
            group for group, inside in members.items() if name in inside and group not in {"all", "ungrouped"}
        )
        variables_of_host = {key: _plain(value) for key, value in variables.get(name, {}).items()}
        return Host(name, tuple(sorted(host_groups)), {"inventory_dir": inventory_dir, **variables_of_host})

    def rank(name: str) -> tuple[int, list[tuple[int, int, str]]]:
        kinds = [index for index, group in enumerate(CLUSTER) if name in members.get(group, ())]
        return (min(kinds, default=len(CLUSTER)), natural(name))

    order = sorted(names, key=rank)
    return Inventory(
        source,
        {name: host(name) for name in order},
        {group: tuple(name for name in order if name in inside) for group, inside in members.items()},
    )


def _members(groups: Mapping[str, Any], name: str, above: set[str]) -> set[str]:
    body = groups.get(name, {})
    inner = (_members(groups, child, {*above, name}) for child in body.get("children", []) if child not in above)
    return {str(host) for host in body.get("hosts", [])}.union(*inner)


def _plain(value: Any) -> Any:
    """A value that is marked `!unsafe`, without the mark."""
    return value["__ansible_unsafe"] if isinstance(value, dict) and "__ansible_unsafe" in value else value
