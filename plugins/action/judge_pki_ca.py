"""The cluster's certificate authority on the controller: made once, then only read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this project need not be installed beside Ansible
from judge.common.pki.authority import Authority, CaError, days_left, now
from plugins.action.judge_controller import ControllerAction


def reader(loader: Any) -> Callable[[Path], bytes]:
    """The function by which Ansible reads the controller's files, which ansible-vault may have encrypted."""
    return lambda path: Path(loader.get_real_file(str(path)) if path.is_file() else path).read_bytes()


def brought_about(authority: Authority, name: str, days: int, *, make: bool, write: bool) -> dict[str, Any]:
    """The task's result; with `make` an authority that is missing is one to be made, and with `write` it is made.

    CaError when there is one and it cannot sign, unless nothing is to be made. No secret is in the result.
    """
    problem = authority.problem(now())
    if problem:
        if make:
            raise CaError(problem)
        return {"changed": False, "problem": problem, "exists": True}
    missing = not authority.exists()
    if missing and make and write:
        authority.make(name, days)
    result: dict[str, Any] = {"changed": missing and make, "problem": "", "exists": authority.exists()}
    if result["exists"]:
        result["certificate"] = authority.text()
        result["days_left"] = days_left(authority.certificate(), now())
    return result


class ActionModule(ControllerAction):
    """`judge_pki_ca: {path, name, days, state}`; once for all hosts (`run_once`), on the controller and as its user.

    `state: present` (the default) makes it and fails when it cannot sign; `state: read` only says how it is: `problem`
    (why it cannot sign), `exists`, and where it exists `certificate` (PEM) and `days_left`.
    """

    OPTIONS: ClassVar[dict[str, Any]] = {
        "path": {"type": "path", "required": True},
        "name": {"type": "str", "default": "judge"},
        "days": {"type": "int", "default": 3650},
        "state": {"type": "str", "choices": ["present", "read"], "default": "present"},
    }

    def act(self, args: dict[str, Any], _: dict[str, Any]) -> dict[str, Any]:
        authority = Authority(Path(args["path"]).expanduser(), reader(self._loader))
        make, write = args["state"] == "present", not self._task.check_mode
        return brought_about(authority, str(args["name"]), args["days"], make=make, write=write)
