#!/usr/bin/python
"""Bring one service of a judge host up to date, and say when it is well: the step of every rolling change."""

from __future__ import annotations

DOCUMENTATION = r"""
module: judge_service
short_description: Restart a judge service whose files have changed, between two health gates
description:
  - Waits until boot has the service running. Restarts it if its config, unit, release, certificate or secrets have
    changed since it was started; refuses when the cluster could not do without it now. Returns once it is well again.
  - Has boot try a service again that it had given up (FATAL).
  - Runs under the Python of the installed release, which has the package C(judge).
options:
  name:
    description: The service as boot names it.
    type: str
    required: true
    choices: [boot, etcd, etcd-proxy, mongodb, judicator, executor, gateway]
  timeout:
    description: Seconds to wait until it is well.
    type: int
    default: 120
  mode:
    description:
      - V(apply) restarts an outdated one, V(verify) only says whether it is well and up to date.
      - V(accept) notes that it runs with what its files mean now, although their text has changed since.
    type: str
    choices: [apply, verify, accept]
    default: apply
  pending:
    description: Whether files of it were changed in this run; in check mode that is how a restart is foretold.
    type: bool
    default: false
  whole:
    description: Wait until all its members in the cluster are well, not only this host's.
    type: bool
    default: false
author: [judge]
"""

EXAMPLES = r"""
- name: The etcd member runs with its current config
  judge_service:
    name: etcd
    timeout: 180
  vars:
    ansible_python_interpreter: /opt/judge/current/bin/python
"""

RETURN = r"""
health:
  description: One sentence.
  type: str
  returned: success
"""

import json
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.judge_members import UnwellError, health_of
from ansible.module_utils.judge_systemd import POLL, SystemdUnit, UnitError

ETC = Path("/etc/judge")
RUN = Path("/run/judge")
CURRENT = "/opt/judge/current"
_TAKE_OVER = 30.0
# What each service reads at its start only, besides its config. etcd reads its certificate for every connection, and
# gateways look at tokens.yml whenever it changes.
FILES = {
    "mongodb": ["mongodb.keyfile", "mongodb.password", "tls/mongodb.crt"],
    "judicator": ["judicator.password", "tls/judicator.crt"],
    "executor": ["languages.yml", "tls/executor.crt"],
    "gateway": ["session.key", "tls/gateway.crt"],
}


class Service:
    """A service: its unit, and what boot says of it."""

    def __init__(self, module: AnsibleModule) -> None:
        """Nothing is waited for yet."""
        name = module.params["name"]
        self.name = name
        # The marker changes when the same release is installed anew.
        release = [CURRENT, *map(str, Path(CURRENT).glob(".complete-*"))]
        files = [*release, str(ETC / f"{name}.yml"), *(str(ETC / file) for file in FILES.get(name, []))]
        self.unit = SystemdUnit(module, f"judge-{name}.service", files)
        self.deadline = time.monotonic() + module.params["timeout"]
        self.whole = module.params["whole"]

    def boot_state(self) -> tuple[str, str]:
        """(state, reason) by boot.json; RUNNING for boot itself, which is not in it."""
        if self.name == "boot":
            return "RUNNING", ""
        try:
            services = json.loads((RUN / "boot.json").read_text(encoding="utf-8"))["services"]
        except (OSError, ValueError, KeyError):
            return "UNKNOWN", "boot has written no state yet"
        for service in services:
            if service["name"] == self.name:
                return service["state"].upper(), service["reason"]
        return "UNKNOWN", "boot does not know this service; its boot.yml is older than this run"

    def revive(self) -> bool:
        """Let boot try a service again that it has given up, as `judgectl release` does; whether it had."""
        from judge.boot import holds  # noqa: PLC0415 - only the release's Python has it

        if self.boot_state()[0] != "FATAL":
            return False
        if self.unit.shown["NeedDaemonReload"] == "yes":
            self.unit.module.run_command(["systemctl", "daemon-reload"], check_rc=True)
        holds.release(RUN, self.name)
        while self.boot_state()[0] == "FATAL" and not self.late():
            time.sleep(POLL)
        return True

    def wait_running(self) -> None:
        """Until its unit is active and boot finds it serving; UnitError when that does not come."""
        while True:
            self.unit.look()
            state, reason = self.boot_state()
            if self.unit.active and state in {"RUNNING", "HELD"}:
                return
            if state == "FATAL" or self.late():
                status = self.unit.shown["StatusText"] or self.unit.shown["ActiveState"]
                why = f" ({reason})" if reason else ""
                msg = f"{self.unit.name} is {status}, boot says {state}{why}{self.unit.last_words()}"
                raise UnitError(msg)
            time.sleep(POLL)

    def wait_well(self, health: Any) -> str:
        """Until its health check is content; returns its sentence."""
        from judge.errors import JudgeError  # noqa: PLC0415 - only the release's Python has it

        while True:
            try:
                return health.all_well() if self.whole else health.well()
            except (UnwellError, JudgeError) as exc:
                if self.late():
                    msg = f"{self.unit.name} runs but is not well: {exc}{self.unit.last_words()}"
                    raise UnitError(msg) from None
            time.sleep(POLL)

    def wait_taken_over(self) -> None:
        """Until boot has noticed the new config: it is the rendered one that the service would start with."""
        source, rendered = ETC / f"{self.name}.yml", RUN / f"{self.name}.yml"
        limit = time.monotonic() + _TAKE_OVER
        while self.name != "boot" and rendered.exists() and rendered.read_bytes() != source.read_bytes():
            if time.monotonic() > limit:
                msg = f"boot has not taken over {source} within {_TAKE_OVER:g} s; see journalctl -u judge-boot"
                raise UnitError(msg)
            time.sleep(POLL)

    def wait_may_stop(self, health: Any) -> None:
        """The gate before a restart: until the others can do without this one; UnitError when they cannot."""
        from judge.errors import JudgeError  # noqa: PLC0415

        while True:
            try:
                reason = health.may_stop()
            except (UnwellError, JudgeError) as exc:
                reason = str(exc)
            if not reason:
                return
            if self.late():
                msg = f"{self.unit.name} was not restarted, it still runs with its old config: {reason}"
                raise UnitError(msg)
            time.sleep(POLL)

    def late(self) -> bool:
        """Whether there is no more time to wait."""
        return time.monotonic() > self.deadline

    def restart(self, health: Any) -> None:
        """Between the gates."""
        self.wait_taken_over()
        self.wait_may_stop(health)
        self.unit.systemctl("restart")


def main() -> None:
    """Module entry point."""
    names = ["boot", "etcd", "etcd-proxy", "mongodb", "judicator", "executor", "gateway"]
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True, "choices": names},
            "timeout": {"type": "int", "default": 120},
            "mode": {"type": "str", "choices": ["apply", "verify", "accept"], "default": "apply"},
            "pending": {"type": "bool", "default": False},
            "whole": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    service = Service(module)
    mode = module.params["mode"]
    outdated = mode == "apply" and service.unit.outdated()
    if module.check_mode:
        pending = module.params["pending"] and service.unit.running
        module.exit_json(changed=outdated or pending, health="not asked in check mode", **service.unit.facts())
    try:
        from judge.errors import JudgeError  # noqa: PLC0415
    except ImportError:
        module.fail_json(msg=f"{CURRENT} has no package 'judge'; the role common installs it, run site.yml")
    try:
        health = health_of(service.name)
        revived = mode == "apply" and service.revive()
        if outdated:
            service.restart(health)
        service.wait_running()
        sentence = service.wait_well(health)
        if mode == "verify" and service.unit.outdated():
            module.fail_json(msg=f"{service.unit.name} still runs with an older config or release; run site.yml")
        if mode != "verify":
            service.unit.remember()
    except (UnitError, JudgeError) as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=outdated or revived, health=sentence, **service.unit.facts())


if __name__ == "__main__":
    main()
