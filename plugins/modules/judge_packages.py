#!/usr/bin/python
"""Install Debian packages that are not here yet; without python3-apt, so that it works on bare hosts too."""

from __future__ import annotations

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.judge_apt import (
    AptError,
    HostApt,
    compared,
    installed_status,
    mask,
    no_service_starts,
    not_installed,
    note_installed,
    remove_leftover_policy,
    unmasked,
)
from ..module_utils.judge_lock import LockedError, one_at_a_time

DOCUMENTATION = r"""
module: judge_packages
short_description: Install missing Debian packages, and start none of their services
description:
  - Installs what is missing, without recommended packages. No service starts by being installed.
  - With O(bundle) apt uses nothing but the bundle for this call; the host's own sources are neither used nor changed.
  - In check mode it only compares names with dpkg's status, so a bare host without package lists is fine.
options:
  name:
    description: Packages to have. V(a|b) means any of them, the first that apt knows is installed when none is here.
    type: list
    elements: str
    required: true
  optional: {description: Packages to have where apt knows them., type: list, elements: str, default: []}
  bundle: {description: The host's copy of the bundle; without it the host's own sources., type: path}
  masked: {description: Units of these packages that must never run., type: list, elements: str, default: []}
  upgrade: {description: Whether present packages are brought to apt's version., type: bool, default: false}
  versions:
    description: What apt will have, by package. Check mode foretells by it what O(upgrade) brings to a newer version.
    type: dict
    default: {}
  back:
    description: Those of O(name) that are brought back to O(versions) where they are newer, as their former bundle had.
    type: list
    elements: str
    default: []
author: [Judge]
"""

RETURN = r"""
installed: {description: "Packages that were (or, in check mode, would be) installed.", type: list, returned: always}
masked: {description: Units that were masked., type: list, returned: always}
"""


def bring_about(
    apt: HostApt, names: list[str], *, masked: list[str], upgrade: bool, optional: list[str] | None = None
) -> list[str]:
    """Mask and install what is missing; the packages that this changes. AptError."""
    status = installed_status()
    missing, further = not_installed(status, names), not_installed(status, optional or [])
    with one_at_a_time():
        remove_leftover_policy()
        mask(unmasked(masked))
        if not (missing or further or upgrade):
            return []
        apt.update()
        packages = apt.choose(names if upgrade else missing) + [name for name in further if apt.knows(name)]
        if not packages:
            return []
        planned = apt.plan(packages, upgrade=upgrade)
        if planned:
            note_installed(not_installed(status, planned))
            with no_service_starts():
                apt.install(packages, upgrade=upgrade)
    return planned


def bring_back(apt: HostApt, versions: list[str]) -> None:
    """Install packages in versions that are older than what is there, as in `etcd-server=3.5.16-4`. AptError."""
    with one_at_a_time(), no_service_starts():
        apt.update()
        apt.install(["--allow-downgrades", *versions], upgrade=True)


def main() -> None:
    names = {"type": "list", "elements": "str"}
    module = AnsibleModule(
        {
            "name": {**names, "required": True},
            "optional": {**names, "default": []},
            "bundle": {"type": "path"},
            "masked": {**names, "default": []},
            "upgrade": {"type": "bool", "default": False},
            "versions": {"type": "dict", "default": {}},
            "back": {**names, "default": []},
        },
        supports_check_mode=True,
    )
    params = module.params
    to_mask = unmasked(params["masked"])
    back = compared([name for name in params["back"] if name in params["name"]], "gt", params["versions"])
    try:
        if module.check_mode:
            changes = not_installed(installed_status(), params["name"])
            if params["upgrade"]:
                changes += compared(params["name"], "lt", params["versions"])
        else:
            apt = HostApt(Path(params["bundle"]) if params["bundle"] else None)
            if back:
                bring_back(apt, [f"{name}={params['versions'][name]}" for name in back])
            changes = bring_about(
                apt,
                params["name"],
                masked=params["masked"],
                upgrade=params["upgrade"],
                optional=params["optional"],
            )
    except (AptError, LockedError) as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename}: {exc.strerror}; a host must be a Debian machine with a writable system")
    changes = sorted({*changes, *back})
    module.exit_json(changed=bool(changes or to_mask), installed=changes, masked=to_mask)


if __name__ == "__main__":
    main()
