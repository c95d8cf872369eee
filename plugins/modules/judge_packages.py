#!/usr/bin/python
"""Install Debian packages that are not here yet; without python3-apt, so that it works on bare hosts too."""

from __future__ import annotations

DOCUMENTATION = r"""
module: judge_packages
short_description: Install missing Debian packages
description:
  - Installs what is missing, without recommended packages, from whatever sources apt has. Never upgrades.
  - In check mode it only compares names with dpkg's status, so a bare host without package lists is fine.
options:
  names:
    description: Packages. V(a|b) means any of them, the first is installed when none is here.
    type: list
    elements: str
    required: true
  refresh:
    description: Fetch the package lists before the first installation of this run.
    type: bool
    default: true
author: [judge]
"""

EXAMPLES = r"""
- name: What mongod links against is installed
  judge_packages:
    names: [libcurl4t64|libcurl4]
"""

RETURN = r"""
installed:
  description: What was missing.
  type: list
  elements: str
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule

_NOBODY_TO_ASK = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_MODE": "l", "UCF_FORCE_CONFFOLD": "1"}
_KEEP = [
    "-o",
    "Dpkg::Options::=--force-confdef",
    "-o",
    "Dpkg::Options::=--force-confold",
    "-o",
    "DPkg::Lock::Timeout=120",
]


def installed(module: AnsibleModule) -> set[str]:
    """The names of all installed packages, without architecture."""
    _, out, _ = module.run_command(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n"], check_rc=True)
    return {line.partition(" ")[2] for line in out.splitlines() if line.startswith("installed ")}


def known(module: AnsibleModule, name: str) -> bool:
    """Whether apt has a version of it to install."""
    _, out, _ = module.run_command(["apt-cache", "policy", name])
    return "Candidate: " in out and "Candidate: (none)" not in out


def main() -> None:
    """Module entry point."""
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "required": True},
            "refresh": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    here = installed(module)
    missing = [one.split("|") for one in module.params["names"] if not here & set(one.split("|"))]
    if not missing or module.check_mode:
        module.exit_json(changed=bool(missing), installed=[names[0] for names in missing])
    if module.params["refresh"]:
        module.run_command(["apt-get", "update", "-q"], check_rc=True, environ_update=_NOBODY_TO_ASK)
    chosen = []
    for names in missing:
        found = next((name for name in names if known(module, name)), None)
        if found is None:
            module.fail_json(
                msg=f"apt knows no package {' or '.join(names)}; add it to the bundle (playbooks/bundle.yml) "
                "or, with judge_source 'online', check the host's package sources"
            )
        chosen.append(found)
    command = ["apt-get", "install", "-q", "-y", "--no-install-recommends", *_KEEP, *chosen]
    code, _, err = module.run_command(command, environ_update=_NOBODY_TO_ASK)
    if code != 0:
        last = " | ".join(err.strip().splitlines()[-3:])
        module.fail_json(msg=f"apt-get could not install {' '.join(chosen)}: {last}")
    module.exit_json(changed=True, installed=chosen)


if __name__ == "__main__":
    main()
