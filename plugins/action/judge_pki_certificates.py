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
from judge.common.pki.authority import Authority, CaError, WantedCertificate, load_request, sign_all
from judge.common.pki.removed import Removed
from plugins.action.judge_cluster import encrypted_like
from plugins.action.judge_pki_ca import reader
from plugins.modules.judge_pki_certificates import DOCUMENTATION


class _RefusedError(Exception):
    """A host that cannot do what it is asked for; `answer` is its module's result."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer


class ActionModule(ActionBase):
    """One module call for a host whose certificates are right, two for one that needs any."""

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        options = yaml.safe_load(DOCUMENTATION)["options"]
        options["certificates"]["options"] = options["certificates"].pop("suboptions")
        _, args = self.validate_argument_spec(options)
        authority = Authority(Path(args["authority"]).expanduser(), reader(self._loader))
        certificates = [
            WantedCertificate(
                args["host"], certificate["role"], tuple(certificate["sans"]), args["days"], args["renew_days"]
            )
            for certificate in args["certificates"]
        ]
        files = [{key: certificate[key] for key in ("name", "owner", "group")} for certificate in args["certificates"]]
        trusted = authority.text() if authority.cert_file.is_file() else ""
        removed = Removed(authority.directory, authority.read, functools.partial(encrypted_like, self._loader))

        def ask(certificates: list[dict[str, Any]], *, new_keys: bool = False) -> dict[str, Any]:
            """The host's answer; _RefusedError with it when the host cannot do it."""
            arguments = {"path": args["path"], "certificates": certificates, "ca": trusted, "new_keys": new_keys}
            answer: dict[str, Any] = self._execute_module(module_args=arguments, task_vars=task_vars)
            if answer.get("failed"):
                raise _RefusedError(answer)
            return answer

        try:
            answer = ask(files, new_keys=args["new_keys"])
            result.update(changed=answer.get("changed", False), reasons={})
            if self._task.check_mode and not trusted:  # the authority itself is still to be made
                return result | {"reasons": {certificate["name"]: "there is none" for certificate in files}}
            if any(removed.is_old(args["host"], certificate["certificate"]) for certificate in answer["held"]):
                # It was removed and comes back: who has a copy of its old keys gets nothing by its new certificates.
                args["new_keys"] = True
                answer = answer if self._task.check_mode else ask(files, new_keys=True)
            decided = self._decide(authority, answer["held"], certificates, args)
            reasons = {file["name"]: reason for file, (_, reason) in zip(files, decided, strict=True) if reason}
            result.update(changed=result["changed"] or bool(reasons), reasons=reasons)
            if reasons and not self._task.check_mode:
                removed.returned(args["host"])
                ask([{**file, "certificate": pem} for file, (pem, _) in zip(files, decided, strict=True)])
        except _RefusedError as exc:
            result.update(exc.answer)
        except CaError as exc:
            raise AnsibleActionFail(str(exc)) from None
        return result

    def _decide(
        self,
        authority: Authority,
        present: list[dict[str, str]],
        certificates: list[WantedCertificate],
        args: dict[str, Any],
    ) -> list[tuple[str, str]]:
        """The certificates to issue; in check mode a key that is still to be made counts as one that is missing."""
        if self._task.check_mode:
            reasons = []
            for have, want in zip(present, certificates, strict=True):
                request = load_request(have["csr"], want) if have["csr"] else None
                reason = authority.reason_to_issue(have["certificate"], request, want) if request else "there is none"
                reasons.append(("", reason or ("asked for" if args["force"] or args["new_keys"] else "")))
            return reasons
        return sign_all(authority, present, certificates, force=args["force"] or args["new_keys"])
