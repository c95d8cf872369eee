"""Finds the releases that an upgrade goes from and to, on the controller: so one command, without one, goes back."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this project need not be installed beside Ansible
from judge.common import files
from plugins.action.judge_cluster import encrypted_like
from plugins.action.judge_controller import ControllerAction
from plugins.action.judge_pki_ca import reader

RECORD = "upgrade.yml"


def decided(
    record: dict[str, str] | None, running: list[str], target: str, first: str = "", bundle: str = ""
) -> dict[str, str]:
    """The upgrade that is under way or was the last, or a new one; ValueError when nothing runs yet.

    `running` are the versions of the hosts' releases, `first` is the host that gets it before the others, `bundle` the
    digest of the bundle's manifest. An upgrade that was cut off is gone on with: it still goes from where it came from,
    whatever part of the hosts has followed. Where all have, another bundle is another upgrade: of etcd or mongod alone.
    """
    counts = Counter(version for version in running if version)
    if not counts:
        raise ValueError("no host has a release yet; site.yml deploys the first one")
    fields = {"to": target, "first": first, "bundle": bundle}
    known_way = record and record["to"] == target and set(counts) <= {record["from"], record["to"]}
    if record and known_way and record.get("bundle", bundle) == bundle:
        return {"from": record["from"], **fields}
    older = Counter({version: count for version, count in counts.items() if version != target})
    return {"from": max(older or counts, key=lambda version: (counts[version], version)), **fields}


def way_back(record: dict[str, str] | None, version: str) -> str:
    """The version to go back to: the one that is named, else that of before the upgrade. ValueError without one."""
    if version:
        return version
    if record is None:
        raise ValueError("no upgrade was recorded here; say which version, -e judge_rollback_version=VERSION")
    return record["from"]


class ActionModule(ControllerAction):
    """`judge_upgrade: {directory, state, …}`; once for all hosts (`run_once`), on the controller.

    `state: begin` records and returns `from`, `to` and `first`; `back` returns `first`, and the `version` to go
    back to.
    """

    OPTIONS: ClassVar[dict[str, Any]] = {
        "directory": {"type": "path", "required": True},
        "state": {"type": "str", "choices": ["begin", "back"], "required": True},
        "version": {"type": "str", "default": ""},
        "running": {"type": "list", "elements": "str", "default": []},
        "first": {"type": "str", "default": ""},
        "bundle": {"type": "str", "default": ""},
    }

    def act(self, args: dict[str, Any], _: dict[str, Any]) -> dict[str, Any]:
        args = json.loads(json.dumps(args))  # plain strings, as YAML can write them
        path = Path(args["directory"]).expanduser() / RECORD
        record = yaml.safe_load(reader(self._loader)(path)) if path.exists() else None
        if args["state"] == "back":
            return {"version": way_back(record, args["version"]), "first": (record or {}).get("first", "")}
        upgrade = decided(record, args["running"], args["version"], args["first"], args["bundle"])
        if upgrade != record and not self._task.check_mode:
            text = yaml.safe_dump(upgrade, sort_keys=False)
            files.replace(path, encrypted_like(self._loader, path, text), durable=True)
        return {"changed": upgrade != record, **upgrade}
