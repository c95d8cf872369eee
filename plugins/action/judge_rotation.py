"""New secrets in the place of old ones, on the controller: what is in force now, and what hosts are to have meanwhile.

A rotation has three stages, each of which reaches all hosts before the next one begins: the cluster knows the old and
the new secret and uses the old one; it uses the new one; it knows the new one only. The directory `rotation` beside
the secrets records the stage. What a stage writes can be written again, so a run that was cut off anywhere is finished
by another one. No secret value is ever part of the result.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import secrets
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this project need not be installed beside Ansible
from judge.common import files
from judge.common.pki.authority import Authority
from judge.common.pki.rotation import Successor
from plugins.action.judge_cluster import SECRETS, encrypted_like
from plugins.action.judge_controller import ControllerAction
from plugins.action.judge_pki_ca import reader

DIRECTORY = "rotation"
RECORD = "rotation.yml"
STAGES = (1, 2, 3)
CA = "ca"
# Groups of hosts that have to follow. They all do, as a host that was left out would be locked out.
GROUPS = {
    CA: ["judicators", "executors", "gateways"],
    "mongodb.password": ["judicators"],
    "mongodb.keyfile": ["judicators"],
    "session.key": ["gateways"],
    "admin.token": ["gateways"],
}
TOKENS_CHANGE = (1, 3)


def on_hosts(name: str, stage: int, old: str, new: str) -> dict[str, str]:
    """The texts that hosts have of a secret in a stage, by file. The first of two is the one that is used."""
    pair = {1: [old, new], 2: [new, old], 3: [new]}[stage]
    lines = "".join(f"{secret}\n" for secret in pair)
    if name == "mongodb.keyfile":
        return {name: "".join(f"- {secret}\n" for secret in pair) if len(pair) > 1 else lines}
    if name == "mongodb.password":
        return {name: lines, "judicator.password": f"{pair[0]}\n"}
    return {name: lines} if name == "session.key" else {}


def digests(stage: int, old: str, new: str) -> list[str]:
    return [hashlib.sha256(secret.encode()).hexdigest() for secret in ([new] if stage == max(STAGES) else [new, old])]


def plan(record: dict[str, Any] | None, names: list[str]) -> dict[str, Any]:
    """The rotation that is under way, or a new one. ValueError with a sentence when it cannot be."""
    unknown = sorted(set(names) - set(GROUPS))
    if unknown:
        raise ValueError(f"judge_rotate: '{unknown[0]}' is no secret that can be replaced; choose {', '.join(GROUPS)}")
    if record is None:
        if not names:
            raise ValueError(
                f"what is to be replaced? say so, as in -e judge_rotate=ca,session.key; there are {', '.join(GROUPS)}, "
                "and no rotation is under way"
            )
        return {"stage": 1, "secrets": [name for name in GROUPS if name in names]}
    unrelated = sorted(set(names) - set(record["secrets"]))
    if unrelated:
        raise ValueError(
            f"a rotation of {', '.join(record['secrets'])} is under way (stage {record['stage']} of {len(STAGES)}); "
            f"finish it by rotate.yml without judge_rotate, then rotate {', '.join(unrelated)}"
        )
    return record


def left_out(names: list[str], groups: dict[str, list[str]], targeted: list[str]) -> list[str]:
    """The hosts of the inventory that have one of these secrets, and would be left behind."""
    concerned = {host for name in names for group in GROUPS[name] for host in groups.get(group, [])}
    return sorted(concerned - set(targeted))


class ActionModule(ControllerAction):
    """`judge_rotation: {directory, authority, state, …}`; once for all hosts (`run_once`), on the controller.

    `state: begin` decides and makes what is new; `enter` begins a stage, unless a later one has begun; `end` forgets
    the old secrets. Returns `stage`, `active` (whether the stage that was asked for is the one to be carried out),
    `secrets`, `directory` (of the files for hosts), and `admin_sha256`.
    """

    OPTIONS: ClassVar[dict[str, Any]] = {
        "directory": {"type": "path", "required": True},
        "authority": {"type": "path", "required": True},
        "given": {"type": "bool", "default": False},
        "state": {"type": "str", "choices": ["begin", "enter", "end"], "required": True},
        "stage": {"type": "int", "default": 1, "choices": list(STAGES)},
        "secrets": {"type": "list", "elements": "str", "default": []},
        "name": {"type": "str", "default": "judge"},
        "username": {"type": "str", "default": "judge"},
        "days": {"type": "int", "default": 3650},
        "groups": {"type": "dict", "default": {}},
        "targeted": {"type": "list", "elements": "str", "default": []},
    }

    def act(self, args: dict[str, Any], _: dict[str, Any]) -> dict[str, Any]:
        args = json.loads(json.dumps(args))  # plain strings, as YAML can write them
        args["secrets"] = [name.strip(" []'\"") for name in args["secrets"]]  # `-e judge_rotate=[ca]` is a string
        self._directory = Path(args["directory"]).expanduser()
        self._room = self._directory / DIRECTORY
        self._authority = Authority(Path(args["authority"]).expanduser(), reader(self._loader))
        if self._task.check_mode:
            return self._foretold(args)
        with (self._directory / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            step = {"begin": self._begin, "enter": self._enter, "end": self._end}[args["state"]]
            return step(args)

    # --- the three states of the task ------------------------------------------------------------------------------

    def _begin(self, args: dict[str, Any]) -> dict[str, Any]:
        stored = self._record()
        record = self._planned(args, stored)
        if stored is None:
            shutil.rmtree(self._room, ignore_errors=True)
            self._room.mkdir(mode=0o700)
            for name in record["secrets"]:
                if name == CA:
                    self._successor().prepare(args["name"], args["days"])
                else:
                    self._keep(name, args["username"])
            self._note(record)
        return self._answer(record, record["stage"]) | {"changed": stored is None}

    def _enter(self, args: dict[str, Any]) -> dict[str, Any]:
        record = self._record()
        if record is None:
            raise ValueError("no rotation is under way; begin one by rotate.yml with judge_rotate")
        stage = args["stage"]
        if stage < record["stage"]:
            return self._answer(record, stage) | {"changed": False}
        for name in record["secrets"]:
            if name == CA:
                successor = self._successor()
                step: Callable[[], None] = (successor.trust_both, successor.sign, successor.trust_new_only)[stage - 1]
                step()
                shutil.copyfile(self._authority.cert_file, self._room / "ca.crt")
                continue
            old, new = self._read(self._room / f"{name}.old"), self._read(self._room / f"{name}.new")
            if stage > 1:
                self._write(self._directory / name, new, like=self._room / f"{name}.old")
            for file, text in on_hosts(name, stage, old, new).items():
                self._write(self._room / file, text.rstrip("\n"), like=self._room / f"{name}.old")
        changed = stage != record["stage"]
        record["stage"] = stage
        self._note(record)
        return self._answer(record, stage) | {"changed": changed}

    def _end(self, _: dict[str, Any]) -> dict[str, Any]:
        record = self._record()
        if record is None or record["stage"] != max(STAGES):
            raise ValueError("the rotation is not at its end; go on with it by rotate.yml")
        (self._room / RECORD).unlink()
        shutil.rmtree(self._room)
        return {"changed": True, "secrets": record["secrets"]}

    def _foretold(self, args: dict[str, Any]) -> dict[str, Any]:
        """The result in check mode: as if each stage had been entered, and nothing is written."""
        stored = self._record()
        record = self._planned(args, stored) if args["state"] == "begin" or stored is None else stored
        stage, begins = args["stage"], args["state"] == "begin"
        return {
            "changed": stored is None if begins else args["state"] == "end" or stage > record["stage"],
            "active": stage >= record["stage"],
            "stage": stage,
            "secrets": record["secrets"],
            "directory": str(self._room),
            "tokens": "admin.token" in record["secrets"] and stage in TOKENS_CHANGE,
            "admin_sha256": [],
        }

    # --- what they are made of -------------------------------------------------------------------------------------

    def _planned(self, args: dict[str, Any], stored: dict[str, Any] | None) -> dict[str, Any]:
        if args["given"]:
            raise ValueError(
                "secrets come from judge_secrets, and nothing would keep the new ones; run rotate.yml without it, "
                "where judge_secrets_dir lasts, then put the new ones where judge_secrets takes them from"
            )
        record = plan(stored, args["secrets"])
        behind = left_out(record["secrets"], args["groups"], args["targeted"])
        if behind:
            raise ValueError(
                f"{', '.join(behind)} would not get the new secrets and be locked out; run rotate.yml for all hosts, "
                "and take those that are gone out of the inventory"
            )
        missing = [name for name in record["secrets"] if name != CA and not (self._directory / name).is_file()]
        if missing and not (self._room / f"{missing[0]}.old").is_file():
            raise ValueError(
                f"{self._directory / missing[0]} is missing, and without the old one there is no way to a new one; "
                "restore it from a backup of the secrets directory, or from a host (docs/playbooks/rotate.md)"
            )
        if stored is None and CA in record["secrets"]:
            self._authority.key()
        return record

    def _successor(self) -> Successor:
        return Successor(self._authority, self._room, functools.partial(encrypted_like, self._loader))

    def _keep(self, name: str, username: str) -> None:
        path = self._directory / name
        new = SECRETS[name]().strip()
        if name == "mongodb.password":  # a user of MongoDB has one password, so each password has its own user
            new = f"{username}.{secrets.token_hex(3)} {new}"
        self._write(self._room / f"{name}.old", self._read(path), like=path)
        self._write(self._room / f"{name}.new", new, like=path)

    def _answer(self, record: dict[str, Any], stage: int) -> dict[str, Any]:
        name = "admin.token"
        tokens = []
        if name in record["secrets"]:
            tokens = digests(stage, self._read(self._room / f"{name}.old"), self._read(self._room / f"{name}.new"))
        return {
            "stage": record["stage"],
            "active": stage == record["stage"],
            "secrets": record["secrets"],
            "directory": str(self._room),
            "tokens": bool(tokens) and stage in TOKENS_CHANGE,
            "admin_sha256": tokens,
        }

    def _record(self) -> dict[str, Any] | None:
        path = self._room / RECORD
        if not path.exists():
            return None
        record = yaml.safe_load(self._read(path))
        if not isinstance(record, dict) or record.get("stage") not in STAGES or not record.get("secrets"):
            raise ValueError(f"{path}: is damaged; restore the secrets directory from a backup")
        return record

    def _note(self, record: dict[str, Any]) -> None:
        path = self._room / RECORD
        files.replace(path, encrypted_like(self._loader, path, yaml.safe_dump(record, sort_keys=False)), durable=True)

    def _read(self, path: Path) -> str:
        """The text of a file that may be encrypted by ansible-vault."""
        return reader(self._loader)(path).decode().strip()

    def _write(self, path: Path, text: str, *, like: Path) -> None:
        """Write a secret, encrypted as another file is."""
        files.replace(path, encrypted_like(self._loader, like, f"{text}\n"), durable=True)
