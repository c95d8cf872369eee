#!/usr/bin/python
"""Install Debian packages from the host's copy of the bundle, and from nowhere else."""

from __future__ import annotations

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.judge_apt import (
    BundleApt,
    PackageError,
    installed_status,
    mask,
    no_service_starts,
    not_installed,
    unmasked,
)
from ansible.module_utils.judge_lock import one_at_a_time

DOCUMENTATION = r"""
module: bundle_install
short_description: Install Debian packages from the bundle
description:
  - Uses the bundle as apt's only archive for this call; the host's own sources are neither used nor changed.
  - No service starts by being installed, and the named units are masked before.
options:
  path: {description: The host's copy of the bundle., type: path, required: true}
  state_path: {description: Directory for apt's lists of the bundle., type: path, required: true}
  packages: {description: Packages to have., type: list, elements: str, required: true}
  masked: {description: Units of these packages that must never run., type: list, elements: str, default: []}
  upgrade: {description: Whether present packages are brought to the bundle's version., type: bool, default: false}
author: [Judge]
"""

RETURN = r"""
installed: {description: "Packages that were (or, in check mode, would be) installed.", type: list, returned: always}
masked: {description: Units that were masked., type: list, returned: always}
"""


def main() -> None:
    """Entry point of the module."""
    names = {"type": "list", "elements": "str"}
    module = AnsibleModule(
        {
            "path": {"type": "path", "required": True},
            "state_path": {"type": "path", "required": True},
            "packages": {**names, "required": True},
            "masked": {**names, "default": []},
            "upgrade": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    apt = BundleApt(Path(wanted["path"]), Path(wanted["state_path"]))
    to_mask = unmasked(wanted["masked"])
    try:
        missing = not_installed(installed_status(), wanted["packages"])
        if module.check_mode:
            module.exit_json(changed=bool(missing or to_mask), installed=missing, masked=to_mask)
        with one_at_a_time():
            mask(unmasked(wanted["masked"]))
            if missing or wanted["upgrade"]:
                apt.update()
                missing = apt.plan(wanted["packages"], upgrade=wanted["upgrade"])
                if missing:
                    with no_service_starts():
                        apt.install(wanted["packages"], upgrade=wanted["upgrade"])
    except PackageError as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename}: {exc.strerror}; a host must be a Debian machine with a writable system")
    module.exit_json(changed=bool(missing or to_mask), installed=missing, masked=to_mask)


if __name__ == "__main__":
    main()
