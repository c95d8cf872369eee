"""Controller's half of judge_pki_certificates: sign what a host asks for, when it holds nothing right."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this project need not be installed beside Ansible
from judge.pki.authority import Authority, CaError, WantedCertificate, load_request, sign_all
from judge.pki.removed import Removed
from plugins.action.judge_cluster import encrypted_like
from plugins.action.judge_pki_ca import reader
from plugins.modules.judge_pki_certificates import DOCUMENTATION


class ActionModule(ActionBase):
    """One module call for a host whose certificates are right, two for one that needs any."""

    _VALID_ARGS = frozenset({"authority", "path", "host", "certificates", "days", "renew_days", "force", "new_keys"})

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ansible's entry point."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        options = yaml.safe_load(DOCUMENTATION)["options"]
        options["certificates"]["options"] = options["certificates"].pop("suboptions")
        _, given = self.validate_argument_spec(options)
        authority = Authority(Path(given["authority"]).expanduser(), reader(self._loader))
        wanted = [
            WantedCertificate(given["host"], each["role"], tuple(each["sans"]), given["days"], given["renew_days"])
            for each in given["certificates"]
        ]
        files = [{key: each[key] for key in ("name", "owner", "group")} for each in given["certificates"]]
        trusted = authority.text() if authority.cert_file.is_file() else ""
        request = {"path": given["path"], "certificates": files, "ca": trusted}
        asked = {**request, "new_keys": given["new_keys"]}
        found = self._execute_module(module_name="judge_pki_certificates", module_args=asked, task_vars=task_vars)
        result.update(changed=found.get("changed", False), reasons={})
        if found.get("failed"):
            result.update(found)
            return result
        if self._task.check_mode and not trusted:  # the authority itself is still to be made
            result["reasons"] = {each["name"]: "there is none" for each in files}
            return result
        removed = Removed(authority.directory, authority.read, functools.partial(encrypted_like, self._loader))
        try:
            if any(removed.is_old(given["host"], each["certificate"]) for each in found["held"]):
                # It was removed and comes back: who has a copy of its old keys gets nothing by its new certificates.
                given["new_keys"] = True
                if not self._task.check_mode:
                    found = self._execute_module(
                        module_name="judge_pki_certificates",
                        module_args={**asked, "new_keys": True},
                        task_vars=task_vars,
                    )
                    if found.get("failed"):
                        result.update(found)
                        return result
            decided = self._decide(authority, found["held"], wanted, given)
        except CaError as exc:
            raise AnsibleActionFail(str(exc)) from None
        fresh = [{**file, "certificate": pem} for file, (pem, _) in zip(files, decided, strict=True)]
        result["reasons"] = {file["name"]: why for file, (_, why) in zip(files, decided, strict=True) if why}
        result["changed"] = result["changed"] or bool(result["reasons"])
        if result["reasons"] and not self._task.check_mode:
            request["certificates"] = fresh
            removed.returned(given["host"])
            done = self._execute_module(module_name="judge_pki_certificates", module_args=request, task_vars=task_vars)
            if done.get("failed"):
                result.update(done)
        return result

    def _decide(
        self, authority: Authority, held: list[dict[str, str]], wanted: list[WantedCertificate], given: dict[str, Any]
    ) -> list[tuple[str, str]]:
        """The certificates to issue; in check mode a key that is still to be made counts as one that is missing."""
        if self._task.check_mode:
            reasons = []
            for have, want in zip(held, wanted, strict=True):
                request = load_request(have["csr"], want) if have["csr"] else None
                why = authority.reason_to_issue(have["certificate"], request, want) if request else "there is none"
                reasons.append(("", why or ("asked for" if given["force"] or given["new_keys"] else "")))
            return reasons
        return sign_all(authority, held, wanted, force=given["force"] or given["new_keys"])
