"""Secrets that come as variables, from a vault or a pipeline's store, for controllers that keep nothing themselves."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this project need not be installed beside Ansible
from judge.common import files
from plugins.action.judge_controller import ControllerAction

# Files that a cluster cannot do without, as they lie in judge_secrets_dir after the first deployment.
NEEDED = (
    "cluster.yml", "mongodb.keyfile", "mongodb.password", "session.key", "admin.token", "backup.hostkey",
    "pki/ca.crt", "pki/ca.key", "pki/ca.passphrase",
)  # fmt: skip
_NAME = re.compile(r"(pki/)?[A-Za-z0-9][A-Za-z0-9._-]*\Z")


def contents(secrets: Mapping[str, Any]) -> dict[str, str]:
    """The files by name, each with a last line that ends; ValueError with a sentence that quotes no value."""
    unknown = sorted(str(name) for name in secrets if not _NAME.match(str(name)))
    if unknown:
        raise ValueError(f"judge_secrets: '{unknown[0]}' is no file of judge_secrets_dir; expected {', '.join(NEEDED)}")
    missing = [name for name in NEEDED if not secrets.get(name)]
    if missing:
        raise ValueError(
            f"judge_secrets lacks {', '.join(missing)}, and nothing would keep what is made here; deploy once with a "
            "judge_secrets_dir that lasts, and take them from there"
        )
    texts = {
        # Ansible's own kinds of text, which YAML does not write, become plain ones on the way.
        str(name): yaml.safe_dump(json.loads(json.dumps(value)), sort_keys=False)
        if isinstance(value, Mapping)
        else str(value)
        for name, value in secrets.items()
    }
    return {name: text.rstrip("\n") + "\n" for name, text in texts.items()}


class ActionModule(ControllerAction):
    """`judge_secrets: {directory, secrets}`: writes those that differ, readable by this user only; shows none of them.

    Once for all hosts (`run_once`), before anything reads the directory, in check mode too: it is this machine's own.
    """

    OPTIONS: ClassVar[dict[str, Any]] = {
        "directory": {"type": "path", "required": True},
        "secrets": {"type": "dict", "required": True},
    }

    def act(self, args: dict[str, Any], _: dict[str, Any]) -> dict[str, Any]:
        directory = Path(args["directory"]).expanduser()
        texts = contents(args["secrets"])
        files.secret_directory(directory)
        for name, text in texts.items():
            path = directory / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                files.replace(path, text, durable=False)
        return {}
