"""The memory of this machine."""

from __future__ import annotations

import os
from pathlib import Path


def machine_memory(base: Path = Path("/")) -> int:
    """Bytes of memory that this machine, or this container, may use."""
    sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for name in ("memory/memory.limit_in_bytes", "memory.max"):
        try:
            text = (base / "sys/fs/cgroup" / name).read_text(encoding="ascii").strip()
        except OSError:
            continue  # the other version of cgroups
        sizes += [int(text)] if text.isdigit() else []  # `max`: none
    return min(sizes)
