"""Controller's half of judge_place: render templates and read files here, and hand them to the host in one call."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.template import trust_as_template

_STATES = ("file", "directory", "link", "absent")
_ATTRIBUTES = ("owner", "group", "mode", "validate", "apply", "then", "keep")
_KEYS = {"dest", "src", "state", "secret", *_ATTRIBUTES}
_TEMPLATE = ".j2"


class ActionModule(ActionBase):
    """Takes `items`, and what the module's documentation says; the content of a `secret` item is in no result."""

    _VALID_ARGS = frozenset({"items", "users"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        args = self._task.args
        items = [self._prepared(dict(item), task_vars or {}) for item in args.get("items") or []]
        done: dict[str, Any] = self._execute_module(
            module_args={
                "items": [item for item in items if item["state"] != "pending"],
                "users": list(args.get("users") or []),
                "diff": bool(self._task.diff),
            },
            task_vars=task_vars,
        )
        done.pop("invocation", None)
        pending = [item["dest"] for item in items if item["state"] == "pending"]
        if pending and not done.get("failed"):
            done["changed"] = True
            done["paths"] = sorted([*done["paths"], *pending])
        return result | done

    def _prepared(self, item: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """One item as the module takes it: with its content instead of where that comes from."""
        state, source = str(item.get("state") or "file"), str(item.get("src") or "")
        fault = next((f"unknown '{name}'" for name in sorted(set(item) - _KEYS)), "")
        if not fault and state not in _STATES:
            fault = f"state is '{state}'"
        if not fault and not source and state in {"file", "link"}:
            fault = f"a {state} without src"
        if fault or not item.get("dest"):
            raise AnsibleActionFail(
                f"judge_place: {item.get('dest') or 'an item'}: {fault or 'it has no dest'}; "
                f"expected dest, state ({', '.join(_STATES)}), and for file and link src"
            )
        ready: dict[str, Any] = {name: str(item[name]) for name in _ATTRIBUTES if item.get(name)}
        ready |= {"dest": str(item["dest"]), "secret": bool(item.get("secret")), "state": state}
        if state == "link":
            return ready | {"src": source}
        if state != "file":
            return ready
        data = self._rendered(source, task_vars) if source.endswith(_TEMPLATE) else self._read(source)
        if data is None:
            return ready | {"state": "pending"}
        return ready | {"content": base64.b64encode(data).decode()}

    def _read(self, source: str) -> bytes | None:
        """A file of the controller, which may be encrypted by ansible-vault; None where check mode has not made it."""
        path = Path(source) if Path(source).is_absolute() else Path(self._find_needle("files", source))
        if not path.exists() and self._task.check_mode:
            return None
        if not path.is_file():
            msg = f"there is no file {path} on the controller; restore it, or correct the variable that names it"
            raise AnsibleActionFail(msg)
        return Path(self._loader.get_real_file(str(path))).read_bytes()

    def _rendered(self, name: str, task_vars: dict[str, Any]) -> bytes:
        source = self._find_needle("templates", name)
        text = trust_as_template(self._loader.get_text_file_contents(source))
        templar = self._templar.copy_with_new_env(
            searchpath=[str(Path(source).parent)], available_variables=task_vars.copy()
        )
        rendered = templar.template(text, escape_backslashes=False, overrides={"trim_blocks": True})
        return str(rendered or "").encode()
