"""Decides and makes, once for a cluster and on the controller, its token, who initialises it, its secrets.

`cluster.yml` in the secrets directory records the decision (docs/etcd.md): while `formed` is false, exactly the
`initial_members` may initialise etcd; afterwards everybody joins. No secret value is ever part of the result.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import secrets
import sys
from pathlib import Path
from typing import Any, ClassVar

import yaml
from ansible.parsing.vault import is_encrypted, parse_vaulttext_envelope

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this project need not be installed beside Ansible
from judge.common import files
from plugins.action.judge_controller import ControllerAction
from plugins.action.judge_pki_ca import reader

RECORD = "cluster.yml"
REMARK = "What this cluster is, decided once by the first deployment. Keep it with the secrets beside it."
CLIENT = "client.yml"  # judgectl on the controller reads it
PLANNED_TOKEN = "made-at-the-first-deployment"  # noqa: S105 - what check mode shows before there is one
_KEY_BYTES = 32
_KEYFILE_BYTES = 756  # base64 makes 1008 characters of it; mongod takes 6 to 1024


def _key() -> str:
    return secrets.token_urlsafe(_KEY_BYTES) + "\n"


def _keyfile() -> str:
    return base64.b64encode(secrets.token_bytes(_KEYFILE_BYTES)).decode() + "\n"


SECRETS = {"mongodb.keyfile": _keyfile, "mongodb.password": _key, "session.key": _key, "admin.token": _key}
# Of these the cluster has to know the new one before anything uses it, which playbooks/rotate.yml sees to.
KNOWN_TO_THE_CLUSTER = ("mongodb.keyfile", "mongodb.password")


def plan(
    record: dict[str, Any] | None, name: str, judicators: list[str], targeted: list[str], *, anew: bool = False
) -> dict[str, Any]:
    """The record as it should be: the old one, or a new decision. ValueError with a sentence when it cannot be.

    `anew`: no judicator has any data, and the operator says that the cluster of the record is gone. The new one has
    another token, so a judicator of the old one that comes back after all is refused.
    """
    if record is not None and record["formed"] and anew and record["name"] == name:
        record = None
    if record is None:
        record = {"name": name, "token": secrets.token_hex(16), "initial_members": judicators, "formed": False}
    if record["name"] != name:
        raise ValueError(
            f"the secrets directory is that of cluster '{record['name']}', and judge_cluster_name is '{name}'; "
            "set judge_secrets_dir to this cluster's own directory, or the name back"
        )
    if record["formed"]:
        return record
    initial = record["initial_members"]
    if initial != judicators:
        raise ValueError(
            f"the first deployment was begun with judicators {', '.join(initial)} and is not finished, the inventory "
            f"now has {', '.join(judicators) or 'none'}; finish it with those, then add or remove hosts"
        )
    missing = sorted(set(initial) - set(targeted))
    if missing and set(initial) & set(targeted):
        raise ValueError(
            f"the cluster is not formed yet, which takes all its judicators at once, and {', '.join(missing)} "
            "is not part of this run; run without --limit and see that every judicator is reachable"
        )
    return record


def client_config(server: str, ca: str) -> dict[str, str] | None:
    """client.yml in the secrets directory; without `ca` the controller's own authorities are trusted."""
    if not server:
        return None
    return {"server": server, "token_file": "admin.token", **({"ca": ca} if ca else {})}


def encrypted_like(loader: Any, model: Path, data: str | bytes) -> bytes:
    """The data, encrypted with the same secret of ansible-vault as another file, where that is encrypted."""
    plain = data.encode() if isinstance(data, str) else data
    old = model.read_bytes() if model.exists() else b""
    if not is_encrypted(old):
        return plain
    vault = loader._vault  # noqa: SLF001 - there is no public way to encrypt in a play
    label = parse_vaulttext_envelope(old)[3]
    secret = next((secret for name, secret in vault.secrets if name == label), None)
    return bytes(vault.encrypt(plain, secret, vault_id=label))


class ActionModule(ControllerAction):
    """`judge_cluster: {directory, name, judicators, targeted, formed, server, ca, anew}`; once for all (`run_once`).

    Makes what is missing; returns token, formed, forming, initial_members, ready and admin_sha256.
    """

    OPTIONS: ClassVar[dict[str, Any]] = {
        "directory": {"type": "path", "required": True},
        "name": {"type": "str", "required": True},
        "judicators": {"type": "list", "elements": "str", "required": True},
        "targeted": {"type": "list", "elements": "str", "required": True},
        "formed": {"type": "bool", "default": False},
        "server": {"type": "str", "default": ""},
        "ca": {"type": "str", "default": "pki/ca.crt"},
        "anew": {"type": "bool", "default": False},
    }

    def act(self, args: dict[str, Any], _: dict[str, Any]) -> dict[str, Any]:
        # Plain strings, as YAML can write them: Ansible's own ones carry where they came from.
        args = json.loads(json.dumps(args))
        directory = Path(args["directory"])
        if self._task.check_mode:
            return self._ensure(directory, args, write=False)
        files.secret_directory(directory)
        with (directory / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return self._ensure(directory, args, write=True)

    def _ensure(self, directory: Path, args: dict[str, Any], *, write: bool) -> dict[str, Any]:
        record = self._read_record(directory / RECORD)
        target = plan(record, args["name"], sorted(args["judicators"]), args["targeted"], anew=args["anew"])
        if args["formed"]:
            target = target | {"formed": True}
        # Check mode has not written what the run begins with: that a cluster has formed is recorded at its end only.
        changed = [RECORD] if target != record or (args["formed"] and not write) else []
        client = client_config(args["server"], args["ca"])
        if client and client != self._read_yaml(directory / CLIENT):
            changed.append(CLIENT)
        missing = [name for name in SECRETS if not (directory / name).exists()]
        lost = [name for name in missing if name in KNOWN_TO_THE_CLUSTER]
        if target["formed"] and lost and (write or record):
            raise ValueError(
                f"{directory / lost[0]} is missing, and the cluster knows no other one; restore it from a backup of "
                "the secrets directory, or from a judicator's /etc/judge, then playbooks/rotate.yml can replace it"
            )
        if write:
            # The record comes last: what it promises is there.
            for name in missing:
                files.replace(directory / name, SECRETS[name](), durable=True)
            if client and CLIENT in changed:
                files.replace(directory / CLIENT, yaml.safe_dump(client, sort_keys=False), durable=True)
            if RECORD in changed:
                path = directory / RECORD
                text = f"# {REMARK}\n{yaml.safe_dump(target, sort_keys=False)}"
                files.replace(path, encrypted_like(self._loader, path, text), durable=True)
        return {
            "changed": bool(changed or missing),
            "made": [*missing, *changed],
            "ready": write or not missing,
            "token": target["token"] if write or record else PLANNED_TOKEN,
            "formed": target["formed"],
            "forming": not (record and record["formed"] and target["formed"]),
            "initial_members": target["initial_members"],
            "admin_sha256": self._digest(directory / "admin.token"),
        }

    def _read_record(self, path: Path) -> dict[str, Any] | None:
        record = self._read_yaml(path)
        if record is None:
            return None
        fields = {"name": str, "token": str, "initial_members": list, "formed": bool}
        if not isinstance(record, dict) or any(not isinstance(record.get(key), kind) for key, kind in fields.items()):
            raise ValueError(f"{path}: is damaged; it must have {', '.join(fields)}; restore it from a backup")
        return record

    def _read_yaml(self, path: Path) -> Any:
        return yaml.safe_load(reader(self._loader)(path)) if path.exists() else None

    def _digest(self, path: Path) -> str:
        """The digest that gateways store of the admin token: its SHA-256. A planned one has the digest of nothing."""
        token = reader(self._loader)(path).strip() if path.exists() else b""
        return hashlib.sha256(token).hexdigest()
