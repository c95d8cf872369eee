"""`ansible.builtin.template` that check mode can foretell on a bare host, where the directory is still to come."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from ansible.plugins.action.template import ActionModule as TemplateAction


class ActionModule(TemplateAction):
    """Takes template's arguments. In check mode a missing directory is a predicted change instead of an error."""

    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Render, check with `validate`, and replace the file if it differs."""
        dest = str(self._task.args["dest"])
        if self._task.check_mode:
            parent = str(PurePosixPath(dest).parent)
            found = self._execute_remote_stat(parent, all_vars=task_vars or {}, follow=True, checksum=False)
            if not found["exists"]:
                self._remove_tmp_path(self._connection._shell.tmpdir)  # noqa: SLF001 - as template itself does
                return {"changed": True, "msg": f"{dest} would be made with its directory"}
        return super().run(tmp, task_vars)
