"""Controller's half of judge_place: render templates and read files here, and hand them to the host in one call."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.template import trust_as_template

_SOURCES = ("template", "src", "link", "directory", "absent")
_ATTRIBUTES = ("owner", "group", "mode", "validate", "then")
_KNOWN = {"path", "secret", *_SOURCES, *_ATTRIBUTES}


class ActionModule(ActionBase):
    """Takes `items`, and what the module's documentation says; the content of a `secret` item is in no result."""

    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset({"items", "users"})
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ansible's entry point."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        args = self._task.args
        items = [self._prepared(dict(item), task_vars or {}) for item in args.get("items") or []]
        done: dict[str, Any] = self._execute_module(
            module_name="judge_place",
            module_args={
                "items": [item for item in items if item.get("kind") != "pending"],
                "users": list(args.get("users") or []),
                "diff": bool(self._task.diff),
            },
            task_vars=task_vars,
        )
        done.pop("invocation", None)
        pending = [item["path"] for item in items if item.get("kind") == "pending"]
        if pending and not done.get("failed"):
            done["changed"] = True
            done["paths"] = sorted([*done["paths"], *pending])
        return result | done

    def _prepared(self, item: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """One item as the module takes it: with its content instead of where that comes from."""
        given = [name for name in _SOURCES if item.get(name)]
        unknown = sorted(set(item) - _KNOWN)
        if unknown or len(given) != 1 or not item.get("path"):
            what = f"unknown '{unknown[0]}'" if unknown else f"{' and '.join(given) or 'none'} given"
            msg = f"judge_place: {item.get('path') or 'an item without path'}: {what}; expected path and one of " + (
                ", ".join(_SOURCES)
            )
            raise AnsibleActionFail(msg)
        ready = {name: str(item[name]) for name in _ATTRIBUTES if item.get(name)}
        ready |= {"path": str(item["path"]), "secret": bool(item.get("secret"))}
        kind = given[0]
        if kind == "link":
            return ready | {"kind": "link", "target": str(item["link"])}
        if kind in {"directory", "absent"}:
            return ready | {"kind": kind}
        data = self._rendered(item, task_vars) if kind == "template" else self._read(str(item["src"]))
        if data is None:
            return ready | {"kind": "pending"}
        return ready | {"kind": "file", "content": base64.b64encode(data).decode()}

    def _read(self, source: str) -> bytes | None:
        """A file of the controller, which may be encrypted by ansible-vault; None where check mode has not made it."""
        path = Path(source) if Path(source).is_absolute() else Path(self._find_needle("files", source))
        if not path.exists() and self._task.check_mode:
            return None
        if not path.is_file():
            msg = f"there is no file {path} on the controller; restore it, or correct the variable that names it"
            raise AnsibleActionFail(msg)
        return Path(self._loader.get_real_file(str(path))).read_bytes()

    def _rendered(self, item: dict[str, Any], task_vars: dict[str, Any]) -> bytes:
        """A template of the role, as ansible.builtin.template renders it."""
        source = self._find_needle("templates", str(item["template"]))
        text = trust_as_template(self._loader.get_text_file_contents(source))
        templar = self._templar.copy_with_new_env(
            searchpath=[str(Path(source).parent)], available_variables=task_vars.copy()
        )
        rendered = templar.template(text, escape_backslashes=False, overrides={"trim_blocks": True})
        return str(rendered or "").encode()
