#!/usr/bin/python
"""Restart or reload a systemd unit if, and only if, it runs with other files than there are now."""

from __future__ import annotations

DOCUMENTATION = r"""
module: judge_unit
short_description: Bring a unit up to date with its files
description:
  - Restarts or reloads a unit whose own file, drop-ins or O(files) have changed since it was started, and starts one
    that does not run. Does nothing otherwise.
  - Unlike a handler it is not lost when a run is cut off after the file was written.
  - A unit whose own conditions keep it from running on this machine is left alone.
options:
  name: {description: "The unit, with its suffix.", type: str, required: true}
  files: {description: Files that it is started with., type: list, elements: path, default: []}
  how:
    description: What to do with an outdated one; V(start) only starts one that does not run.
    type: str
    choices: [restart, reload, start]
    default: restart
  enabled: {description: Whether it is started with the machine; left as it is if not given., type: bool}
  changing:
    description: Paths that this run changes; in check mode they are how a restart or reload is foretold.
    type: list
    elements: str
    default: []
  check: {description: "A command that must succeed before anything is done, as in V(nginx -t -q).", type: str}
author: [judge]
"""

RETURN = r"""
state: {description: systemd's state of the unit., type: str, returned: always}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.judge_systemd import SystemdUnit, UnitError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "files": {"type": "list", "elements": "path", "default": []},
            "how": {"type": "str", "choices": ["restart", "reload", "start"], "default": "restart"},
            "enabled": {"type": "bool"},
            "changing": {"type": "list", "elements": "str", "default": []},
            "check": {"type": "str"},
        },
        supports_check_mode=True,
    )
    unit = SystemdUnit(module, module.params["name"], module.params["files"])
    if unit.missing and module.check_mode:
        module.exit_json(changed=True, state="not-found", msg=f"{unit.name} is to be installed first")
    if unit.missing:
        module.fail_json(msg=f"{unit.name} is not installed on this host")
    mode, enabled = module.params["how"], module.params["enabled"]
    foretold = module.check_mode and unit.running and bool(unit.uses(module.params["changing"]))
    outdated = mode != "start" and (foretold or unit.outdated())
    changed = outdated or not (unit.running or unit.unwanted_here)
    switched = enabled is not None and enabled != (unit.shown["UnitFileState"] == "enabled")
    if switched and not module.check_mode:
        unit.systemctl("enable" if enabled else "disable")
    if changed and not module.check_mode:
        if module.params["check"]:
            module.run_command(module.params["check"], check_rc=True)
        try:
            unit.systemctl(mode if outdated else "start")
        except UnitError as exc:
            module.fail_json(msg=str(exc))
        unit.look()
        changed = outdated or unit.running
    if not module.check_mode and unit.running and mode != "start":
        unit.remember()
    module.exit_json(changed=changed or switched, unit=unit.name, state=unit.shown["ActiveState"])


if __name__ == "__main__":
    main()
