"""The controller's record of removed hosts: read, or noted that whatever was issued to a name until now is refused.

`noted` for a replacement lasts until `settled`.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this project need not be installed beside Ansible
from judge.common.pki.authority import CaError
from judge.common.pki.removed import Removed
from plugins.action.judge_cluster import encrypted_like
from plugins.action.judge_pki_ca import reader


class ActionModule(ActionBase):
    """`judge_removed: {directory, name, state, replacing, coming, given}`.

    Returns `before` (seconds since 1970), `back` and others for the name, and `refused`: `before` of every name in
    the record.
    """

    _requires_connection = False
    _VALID_ARGS = frozenset({"directory", "name", "state", "replacing", "coming", "given"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ansible's entry point."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, args = self.validate_argument_spec(
            argument_spec={
                "directory": {"type": "path", "required": True},
                "name": {"type": "str", "default": ""},
                "state": {"type": "str", "choices": ["read", "noted", "settled"], "default": "read"},
                "replacing": {"type": "bool", "default": False},
                "coming": {"type": "bool", "default": False},
                "given": {"type": "bool", "default": False},
            }
        )
        if args["given"]:
            raise AnsibleActionFail(
                "secrets come from judge_secrets, and nothing would keep the record of removed hosts; run this "
                "playbook without it, where judge_secrets_dir lasts, then put pki/removed.yml where judge_secrets "
                "takes its files from"
            )
        directory, name = Path(args["directory"]).expanduser(), str(args["name"])
        removed = Removed(directory, reader(self._loader), functools.partial(encrypted_like, self._loader))
        try:
            entries = removed.read()
            entry = entries.get(name)
            changed = args["state"] == "noted"
            before = entry.before if entry else 0.0
            if self._task.check_mode:
                # `coming`: this run would have noted the replacement before.
                replacing = args["coming"] or bool(entry and entry.replacing)
                changed = changed or (args["state"] == "settled" and replacing)
            elif changed:
                before = removed.note(name, replacing=args["replacing"])
            elif args["state"] == "settled":
                changed = removed.settled(name)
        except CaError as exc:
            raise AnsibleActionFail(str(exc)) from None
        except OSError as exc:
            raise AnsibleActionFail(f"{exc.filename}: {exc.strerror}; make it writable for you") from None
        details = {"before": before} | {
            key: bool(entry and getattr(entry, key)) for key in ("back", "replacing", "replaced")
        }
        refused = {host: recorded.before for host, recorded in entries.items()}
        return result | {"changed": changed, "refused": refused} | details
