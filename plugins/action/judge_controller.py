"""What all actions have in common that work on the controller only."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this project need not be installed beside Ansible
from judge.common.errors import JudgeError


class ControllerAction(ActionBase):
    """Reads its arguments and runs `act`, whose ValueError or JudgeError is one sentence for the operator."""

    _requires_connection = False
    OPTIONS: ClassVar[dict[str, Any]]

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, args = self.validate_argument_spec(self.OPTIONS)
        try:
            return result | {"changed": False} | self.act(args, task_vars or {})
        except (ValueError, JudgeError) as exc:
            raise AnsibleActionFail(str(exc)) from None
        except OSError as exc:
            raise AnsibleActionFail(
                f"{exc.filename}: {exc.strerror}; make judge_secrets_dir writable for this user"
            ) from None

    def act(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """The task's result; OSError, ValueError, JudgeError."""
        raise NotImplementedError
