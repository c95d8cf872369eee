"""Filters that hold a deployed host against what docs/deploy.md says about it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ansible.errors import AnsibleFilterError

_ROW = re.compile(r"^\| *(\d+)( on loopback)? *\|[^|]*\|[^|]*\| *([^|]+?) *\|")
_HEADING = "## Ports"


def documented_ports(page: str, group_names: Iterable[str]) -> list[str]:
    """What a host of these groups listens on as the table of ports says: `tcp/443`, or `tcp/8080 on loopback`.

    A port that listens for others serves the host itself, too, so its row for loopback is of no account. Raises
    AnsibleFilterError when the page has no such table.
    """
    section = page.partition(_HEADING + "\n")[2].partition("\n## ")[0]
    rows = [match.groups() for line in section.splitlines() if (match := _ROW.match(line))]
    if not rows:
        msg = f"docs/deploy.md has no table of ports under '{_HEADING}'"
        raise AnsibleFilterError(msg)
    groups = {*group_names, "all"}
    mine = [(port, loopback) for port, loopback, where in rows if groups & set(where.split(", "))]
    outside = {port for port, loopback in mine if not loopback}
    return sorted(f"tcp/{port}{loopback or ''}" for port, loopback in mine if not loopback or port not in outside)


class FilterModule:
    """What Ansible asks for."""

    def filters(self) -> dict[str, Any]:
        """The filters by name."""
        return {"documented_ports": documented_ports}
