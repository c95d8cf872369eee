#!/usr/bin/python
"""Bring one service of a judge host up to date, and say when it is well: the step of every rolling change."""

from __future__ import annotations

DOCUMENTATION = r"""
module: judge_service
short_description: Restart judge services whose files have changed, each between two health gates
description:
  - For one service after the other, in the given order, waits until the cluster can do without it, restarts it if its
    config, unit, release, certificate or secrets have changed since it was started, and returns once it is well again.
    One that runs with its files as they are is left alone, unless another one before it was restarted; then it is
    waited for.
  - Has boot try a service again that it had given up (FATAL).
  - Runs under the Python of the installed release, which has the package C(judge).
options:
  names:
    description: The services as boot names them, in start order.
    type: list
    elements: str
    required: true
    choices: [boot, etcd, etcd-proxy, mongodb, judicator, executor, gateway]
  timeout: {description: Seconds to wait until each is well; 0 is what is usual for the service., type: int, default: 0}
  mode:
    description:
      - V(apply) restarts outdated ones, V(verify) only says whether they are well and up to date.
      - V(accept) notes that they run with what their files mean now, although the text has changed since.
      - V(spare) only says whether the cluster could do without each of them; outdated ones are no fault then.
    type: str
    choices: [apply, verify, accept, spare]
    default: apply
  unsure:
    description:
      - With V(spare), whether one that cannot be asked counts as one that may stop. That its own certificate has
        expired may be the reason.
    type: bool
    default: false
  changing:
    description: Paths that this run changes; in check mode they are how a restart is foretold.
    type: list
    elements: str
    default: []
  whole: {description: Wait for all members of the cluster rather than this host's., type: bool, default: false}
author: [judge]
"""

RETURN = r"""
restarted:
  description: Services that were (or, in check mode, would be) restarted or tried again.
  type: list
  returned: success
health: {description: One sentence for each service that was asked., type: list, returned: success}
"""

import json
import re
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.judge_members import UnwellError, health_of, wait_may_stop
from ..module_utils.judge_systemd import POLL, SystemdUnit, UnitError

ETC = Path("/etc/judge")
RUN = Path("/run/judge")
CURRENT = "/opt/judge/current"
_TAKE_OVER = 30.0
# Files that each service reads at its start only, besides its config. etcd reads its certificate for every connection,
# but not whom it trusts; mongod's daemon reads the password when its mongod becomes the primary, and gateways look at
# tokens.yml whenever it changes.
FILES = {
    "etcd": ["tls/ca.crt"],
    "mongodb": ["mongodb.keyfile", "tls/ca.crt", "tls/mongodb.crt"],
    "judicator": ["judicator.password", "tls/ca.crt", "tls/judicator.crt"],
    "executor": ["languages.yml", "tls/ca.crt", "tls/executor.crt"],
    "gateway": ["session.key", "tls/ca.crt", "tls/gateway.crt"],
}
# Services whose config names the program that they run.
_PROGRAMS = {"etcd", "etcd-proxy", "mongodb"}
# Seconds until each is well: members of a cluster wait for others, and boot for all that it starts.
TIMEOUTS = {"boot": 180, "etcd": 300, "mongodb": 300}
TIMEOUT = 120


def program_of(name: str) -> str:
    """The program that a service runs besides its daemon, by its config; empty for none."""
    if name not in _PROGRAMS:
        return ""
    try:
        text = (ETC / f"{name}.yml").read_text(encoding="utf-8")
    except OSError:
        return ""
    match = re.search(r"^binary: (.+)$", text, re.MULTILINE)
    path = match[1].strip().strip("\"'") if match else ""
    return path if path.startswith("/") else ""


class HostService:
    def __init__(self, module: AnsibleModule, name: str) -> None:
        """Nothing is waited for yet; its time to become well begins now."""
        self.name = name
        files = [CURRENT, str(ETC / f"{name}.yml"), *(str(ETC / file) for file in FILES.get(name, []))]
        self.unit = SystemdUnit(module, f"judge-{name}.service", files, program_of(name))
        self.deadline = time.monotonic() + (module.params["timeout"] or TIMEOUTS.get(name, TIMEOUT))
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
                cause = f" ({reason})" if reason else ""
                raise UnitError(f"{self.unit.name} is {status}, boot says {state}{cause}{self.unit.last_words()}")
            time.sleep(POLL)

    def wait_well(self, health: Any) -> str:
        """Until its health check is content; returns its sentence."""
        from judge.common.errors import JudgeError  # noqa: PLC0415 - only the release's Python has it

        while True:
            try:
                return str(health.all_well() if self.whole else health.well())
            except (UnwellError, JudgeError) as exc:
                if self.late():
                    raise UnitError(f"{self.unit.name} runs but is not well: {exc}{self.unit.last_words()}") from None
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

    def spare(self, *, unsure: bool) -> None:
        """Until the others could do without it; UnitError when they cannot, before anything has been changed."""
        if not (ETC / f"{self.name}.yml").exists():
            return  # a host that is still to be deployed
        if reason := wait_may_stop(self.name, self.deadline, unsure=unsure):
            raise UnitError(f"{self.unit.name} could not be restarted, so nothing was changed: {reason}")

    def late(self) -> bool:
        return time.monotonic() > self.deadline

    def restart(self) -> None:
        """When boot has the new config and the others can do without this one; UnitError when they cannot."""
        self.wait_taken_over()
        if reason := wait_may_stop(self.name, self.deadline):
            raise UnitError(f"{self.unit.name} was not restarted, it still runs with its old config: {reason}")
        self.unit.systemctl("restart")

    def foretold(self, changing: list[str]) -> bool:
        return self.unit.outdated() or (self.unit.running and bool(self.unit.uses(changing)))

    def apply(self, *, wait: bool) -> tuple[bool, str]:
        """(whether something was done, its health); a service that is to be left alone is not asked how it is."""
        outdated = self.unit.outdated()
        revived = self.revive()
        sentence = ""
        if outdated or revived or wait:
            health = health_of(self.name)
            if outdated:
                self.restart()
            self.wait_running()
            sentence = self.wait_well(health)
        if self.unit.active:
            self.unit.remember()
        return outdated or revived, sentence

    def verify(self) -> str:
        health = health_of(self.name)
        self.wait_running()
        sentence = self.wait_well(health)
        if self.unit.outdated():
            raise UnitError(f"{self.unit.name} still runs with an older config or release; run site.yml")
        return sentence


def warn_of_certificates(module: AnsibleModule) -> None:
    try:
        from judge.daemon.metrics import expiring  # noqa: PLC0415 - only the release's Python has it, and no older one
    except ImportError:
        return
    for sentence in expiring(sorted((ETC / "tls").glob("*.crt"))):
        module.warn(sentence)


def run(module: AnsibleModule) -> dict[str, Any]:
    mode = module.params["mode"]
    restarted: list[str] = []
    sentences: list[str] = []
    for name in module.params["names"]:
        service = HostService(module, name)
        if mode == "accept":
            service.unit.remember()
        elif mode == "spare":
            service.spare(unsure=module.params["unsure"])
        elif mode == "verify":
            sentences.append(service.verify())
        else:
            done, sentence = service.apply(wait=bool(restarted))
            restarted += [name] if done else []
            sentences += [sentence] if sentence else []
    if mode == "verify":
        warn_of_certificates(module)
    return {"changed": bool(restarted), "restarted": restarted, "health": sentences}


# As judge/common/kinds.py has them, which hosts lack before their first release.
NAMES = ["boot", "etcd", "etcd-proxy", "mongodb", "judicator", "executor", "gateway"]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "required": True, "choices": NAMES},
            "timeout": {"type": "int", "default": 0},
            "mode": {"type": "str", "choices": ["apply", "verify", "accept", "spare"], "default": "apply"},
            "unsure": {"type": "bool", "default": False},
            "changing": {"type": "list", "elements": "str", "default": []},
            "whole": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        changing = module.params["changing"]
        names = module.params["names"] if module.params["mode"] == "apply" else []
        due = [name for name in names if HostService(module, name).foretold(changing)]
        module.exit_json(changed=bool(due), restarted=due, health=[])
    try:
        from judge.common.errors import JudgeError  # noqa: PLC0415

        module.exit_json(**run(module))
    except ImportError:
        module.fail_json(msg=f"{CURRENT} has no package 'judge'; the role judge_common installs it, run site.yml")
    except (UnitError, JudgeError) as exc:
        module.fail_json(msg=str(exc))


if __name__ == "__main__":
    main()
