#!/usr/bin/python
"""Switch swap off on a machine; a container has none of its own."""

from __future__ import annotations

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: judge_swap
short_description: Switch swap off
description:
  - Does nothing in a container, whose swap is its machine's.
author: [judge]
"""

EXAMPLES = r"""
- name: Swap is off
  judge_swap:
"""

RETURN = r"""
used: {description: What was swapped to., type: list, returned: always}
"""


def areas(text: str) -> list[str]:
    """Files and partitions in use, out of /proc/swaps."""
    return [line.split()[0] for line in text.splitlines()[1:] if line.split()]


def main() -> None:
    """Module entry point."""
    module = AnsibleModule({}, supports_check_mode=True)
    used = areas(Path("/proc/swaps").read_text(encoding="utf-8")) if Path("/proc/swaps").exists() else []
    if used and module.run_command(["systemd-detect-virt", "--container", "--quiet"])[0] == 0:
        used = []
    if used and not module.check_mode:
        module.run_command(["swapoff", "--all"], check_rc=True)
    module.exit_json(changed=bool(used), used=used)


if __name__ == "__main__":
    main()
