#!/usr/bin/python
"""All services of one host together: let its executor come to rest, stop them between gates, start them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: judge_host
short_description: Let a host's executor come to rest, stop all of its services, or start them
description:
  - V(rested) has the executor take no more tasks and waits until none is in hand; V(stopped) stops boot, and with it
    all services in reverse order, and keeps them from starting with the machine; V(started) takes both back.
  - V(spared) changes nothing; it waits until the cluster can do without the host's services, and fails if it cannot.
  - With O(gate), waits for the same before they are stopped; if it does not come, an executor that rests takes tasks
    again. This and V(spared) need the Python of the installed release; everything else runs under the host's own.
options:
  state: {description: How the host shall be., type: str, required: true, choices: [spared, rested, stopped, started]}
  gate: {description: Whether the cluster has to be able to do without this host., type: bool, default: false}
  enabled:
    description: With V(stopped), whether the services start with the machine all the same.
    type: bool
    default: false
  patience:
    description: Seconds to wait for tasks in hand, and for the gate. Tasks that take longer are given back at the stop.
    type: int
    default: 300
author: [judge]
"""

RETURN = r"""
sentence: {description: One sentence for people., type: str, returned: success}
running: {description: Whether the host's services ran before., type: bool, returned: success}
"""

import contextlib
import re
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.judge_lock import LockedError, one_at_a_time
from ..module_utils.judge_systemd import POLL, SystemdUnit, UnitError

BOOT = "judge-boot.service"
EXECUTOR = "judge-executor.service"
_RESUMED = 5.0  # seconds in which an executor that takes tasks again says so
_STOPPED = 180.0  # seconds in which all services have stopped; mongod may take a while
_IN_HAND = re.compile(r"drained, (\d+) tasks in hand")


def in_hand(status: str) -> int | None:
    """The number of tasks a resting executor has, by its unit's status line; None when it takes more."""
    match = _IN_HAND.search(status)
    return int(match[1]) if match else None


class HostUnits:
    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.boot = SystemdUnit(module, BOOT, [])
        self.executor = SystemdUnit(module, EXECUTOR, [])
        self.patience = float(module.params["patience"])

    # Each of these returns whether anything was done, and what there is to say; UnitError.

    def spare(self) -> tuple[bool, str]:
        if not self.boot.running:
            return False, "its services are stopped"
        if not self.module.check_mode:
            self._gate()
        return False, "the cluster can do without it"

    def bring_to_rest(self) -> tuple[bool, str]:
        if not self.executor.active:
            return False, "no executor runs here"
        tasks = in_hand(self.executor.shown["StatusText"])
        if tasks == 0:
            return False, "the executor rests"
        if self.module.check_mode:
            return True, "the executor would come to rest"
        self._signal("SIGUSR1")
        end = time.monotonic() + self.patience
        while tasks != 0:
            if time.monotonic() > end:
                return True, f"{tasks} tasks are still in hand after {self.patience:g} s; the stop gives them to others"
            time.sleep(POLL)
            self.executor.look()
            if not self.executor.active:
                return True, "the executor has stopped"
            tasks = in_hand(self.executor.shown["StatusText"])
        return True, "the executor rests, no task is in hand"

    def _signal(self, name: str) -> None:
        self.module.run_command(["systemctl", "kill", "--kill-whom=main", f"--signal={name}", EXECUTOR], check_rc=True)

    def stop(self) -> tuple[bool, str]:
        if self.boot.missing:
            return False, "nothing of judge is installed here"
        enabled = self.boot.shown["UnitFileState"] == "enabled"
        switch = enabled and not self.module.params["enabled"]
        if not (self.boot.running or switch):
            return False, "its services are stopped"
        if self.module.check_mode:
            return True, "its services would be stopped"
        if self.boot.running:
            if self.module.params["gate"]:
                self._gate_or_resume()
            self.boot.systemctl("stop")
            self._wait_stopped()
        if switch:
            self.boot.systemctl("disable")
        return True, "its services are stopped"

    def _gate_or_resume(self) -> None:
        """The gate; when it stays shut, an executor that has come to rest for the stop takes tasks again."""
        try:
            self._gate()
        except UnitError:
            if self.executor.active and in_hand(self.executor.shown["StatusText"]) is not None:
                self._resume()
            raise

    def _gate(self) -> None:
        """Until the cluster can do without this host; UnitError when it cannot."""
        from ..module_utils.judge_members import wait_may_stop  # noqa: PLC0415 - only the release's Python has it

        if reason := wait_may_stop("boot", time.monotonic() + self.patience):
            raise UnitError(f"this host was not stopped, its services run on: {reason}")

    def _wait_stopped(self) -> None:
        end = time.monotonic() + _STOPPED
        while running := self._running():
            if time.monotonic() > end:
                raise UnitError(f"{', '.join(running)} still run {_STOPPED:g} s after boot was stopped")
            time.sleep(POLL)

    def _running(self) -> list[str]:
        states = "--state=active,activating,deactivating,reloading"
        command = ["systemctl", "list-units", "--plain", "--no-legend", states, "judge-*.service"]
        _, out, _ = self.module.run_command(command, check_rc=True)
        return [line.split()[0] for line in out.splitlines() if line.split()]

    def start(self) -> tuple[bool, str]:
        if self.boot.missing:
            raise UnitError("nothing of judge is installed here; run site.yml")
        enabled = self.boot.shown["UnitFileState"] == "enabled"
        resting = self.executor.active and in_hand(self.executor.shown["StatusText"]) is not None
        if self.boot.running and enabled:
            return (self._resume(), "its services run") if resting else (False, "its services run")
        if self.module.check_mode:
            return True, "its services would be started"
        if not enabled:
            self.boot.systemctl("enable")
        if not self.boot.running:
            self.boot.systemctl("start")
        return True, "its services are started"

    def _resume(self) -> bool:
        """Let the executor take tasks again; False when it does not, since an operator has drained it."""
        if self.module.check_mode:
            return False
        self._signal("SIGUSR2")
        end = time.monotonic() + _RESUMED
        while in_hand(self.executor.look()["StatusText"]) is not None:
            if time.monotonic() > end:
                return False
            time.sleep(POLL)
        return True

    def act(self) -> dict[str, Any]:
        deeds = {"spared": self.spare, "rested": self.bring_to_rest, "stopped": self.stop, "started": self.start}
        running = self.boot.running
        changed, sentence = deeds[self.module.params["state"]]()
        return {"changed": changed, "sentence": sentence, "running": running}


def main() -> None:
    module = AnsibleModule(
        {
            "state": {"type": "str", "required": True, "choices": ["spared", "rested", "stopped", "started"]},
            "gate": {"type": "bool", "default": False},
            "enabled": {"type": "bool", "default": False},
            "patience": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    try:
        with contextlib.nullcontext() if module.check_mode else one_at_a_time():
            module.exit_json(**HostUnits(module).act())
    except (UnitError, LockedError) as exc:
        module.fail_json(msg=str(exc))


if __name__ == "__main__":
    main()
