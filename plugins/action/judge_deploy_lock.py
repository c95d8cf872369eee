"""Controller's half of judge_deploy_lock: who this run is, and whether the run that has the lock still lives."""

from __future__ import annotations

import getpass
import os
import socket
import sys
from pathlib import Path
from typing import Any

import yaml
from ansible import context
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this project need not be installed beside Ansible
from plugins.modules.judge_deploy_lock import DOCUMENTATION

_START = 19  # the process's start, among the words of /proc/PID/stat after the name


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def started(pid: int) -> str:
    """The start of a process, in ticks since the boot; empty when it does not live, or nobody can tell."""
    return (_text(f"/proc/{pid}/stat").rpartition(")")[2].split() or [""] * (_START + 1))[_START]


def controller() -> dict[str, str]:
    """The marks that tell this machine, and within it this set of processes, from all others."""
    try:
        processes = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        processes = ""
    return {
        "host": socket.gethostname(),
        "machine": _text("/etc/machine-id"),
        "boot": _text("/proc/sys/kernel/random/boot_id"),
        "processes": processes,
    }


def record(owner: str, verb: str, pid: int) -> dict[str, Any]:
    """The record of who takes the lock: nothing secret. `pid`: of ansible-playbook."""
    host = controller()
    return {
        "run": f"{host['host']} {host['boot']} {host['processes']} {pid} {started(pid)}",
        "who": owner or f"{getpass.getuser()}@{host['host']}",
        "owner": owner,
        "verb": verb,
        "pid": pid,
        "started": started(pid),
        "controller": host,
    }


def is_over(lock: dict[str, Any], host: dict[str, str]) -> bool:
    """Return whether the run that has the lock was one of this controller, and does not live any more."""
    holder = lock.get("controller") or {}
    if not host["boot"] or any(holder.get(key) != host[key] for key in ("host", "machine")):
        return False
    if holder.get("boot") != host["boot"]:
        # Without an identity of its own, a machine of this name may be another one.
        return bool(host["machine"])
    return holder.get("processes") == host["processes"] and started(lock.get("pid", 0)) != lock.get("started")


def duration(seconds: float) -> str:
    minutes = int(seconds // 60)
    if minutes < 1:
        return f"{int(seconds)} s"
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // 1440} days"


def sentence(judicator: str, lock: dict[str, Any]) -> str:
    held_for = duration(lock.get("age", 0))
    return f"{judicator}: {lock.get('who')} has had the deploy lock for {held_for} ({lock.get('verb')})"


class ActionModule(ActionBase):
    """Asks the host once, and a second time where the lock may be taken from who has it."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, args = self.validate_argument_spec(yaml.safe_load(DOCUMENTATION)["options"])
        # This is a process of ansible-playbook's own.
        verb = Path(next(iter(context.CLIARGS.get("args") or ()), "ansible")).name
        mine = record(args["owner"], verb, os.getppid())
        request = {"path": args["path"], "state": args["state"], "record": mine, "over": None}
        answer = self._ask(request, task_vars)
        lock = answer.get("held") or {}
        result.update(answer, problem="", who=mine["who"])
        if not lock or lock.get("run") == mine["run"]:
            return result
        judicator = self._task.delegate_to or (task_vars or {}).get("inventory_hostname", "")
        same_owner = bool(args["owner"]) and lock.get("owner") == args["owner"]
        if args["state"] == "read" or not (args["take_over"] or same_owner or is_over(lock, mine["controller"])):
            return result | {"problem": sentence(judicator, lock)}
        if not self._task.check_mode:
            # Only from whom it was seen with: two that take over at once do not both get it.
            again = self._ask(request | {"over": lock["run"]}, task_vars)
            new_lock = again.get("held") or {}
            result.update(again, problem=sentence(judicator, new_lock) if new_lock else "")
        if args["take_over"] and not same_owner and not result["problem"]:
            result["warnings"] = [f"{sentence(judicator, lock)}; it was taken over"]
        return result

    def _ask(self, request: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = self._execute_module(module_args=request, task_vars=task_vars)
        except AnsibleConnectionFailure as exc:
            # A dead judicator must not keep others from being mended; precheck says that it is away.
            return {"changed": False, "unreached": " ".join(str(exc).split())}
        answer.pop("invocation", None)
        return answer
