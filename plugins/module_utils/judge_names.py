"""Names of hosts, as people give them on the command line: a name of the inventory, never a pattern of Ansible."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

# Ansible reads any other character of a play's `hosts` as a part of a pattern.
_PLAIN = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?\Z")
NOBODY = "all:!all"


def is_plain(name: object) -> bool:
    """Return whether a value is the text of one name: no list, no pattern."""
    return isinstance(name, str) and _PLAIN.match(name) is not None


def host_pattern(name: object, groups: Mapping[str, Collection[str]]) -> str:
    """The `hosts` of a play that works on one named host; nobody if it is no host of the inventory, or a group."""
    return str(name) if is_plain(name) and name in groups.get("all", ()) and name not in groups else NOBODY


def name_fault(
    variable: str, name: object, groups: Mapping[str, Collection[str]], among: str = "all", *, elsewhere: bool = False
) -> str:
    """A sentence if the variable's value is not the name of one host of the group `among`; else empty.

    `elsewhere`: the host need not be in the inventory, as the cluster's own list of members has it.
    """
    if is_plain(name) and name not in groups and (elsewhere or name in groups.get(among, ())):
        return ""
    if not is_plain(name):
        reason = "which is not one name"
    elif name in groups:
        reason = "which is a group"
    else:
        reason = "which is no host of the inventory" if among == "all" else f"which is no host of the group {among}"
    return f"{variable} is '{name}', {reason}; give the name of one host as the inventory has it: no list, no pattern"
