#!/usr/bin/python
"""Tell whether etcd and mongod of before an upgrade can read what the cluster has written since; changes nothing."""

from __future__ import annotations

DOCUMENTATION = r"""
module: judge_way_back
short_description: Say which etcd and mongod come back in a rollback, or why they cannot
description:
  - Compares the programs of the bundle that this host had before its last upgrade with what the cluster uses. mongod
    reads no data of a feature compatibility above its own version, and etcd no cluster of a later minor version.
  - Fails with one sentence where they could not; says nothing where none were kept for O(version).
  - Runs on a judicator under the Python of its release, which has the package C(judge).
options:
  bundle: {description: The host's copy of the bundle; what was kept is beside it., type: path, required: true}
  version: {description: The version of judge that is gone back to., type: str, required: true}
  packaged: {description: Whether mongod comes as a package., type: bool, default: false}
author: [judge]
"""

RETURN = r"""
sentence: {description: "What comes back, for people.", type: str, returned: success}
manifest:
  description: SHA-256 of the manifest of the bundle that comes back; empty where none was kept.
  type: str
  returned: success
"""

import hashlib
import re
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.judge_files import MANIFEST, BundleError
from ..module_utils.judge_former import former_manifest, former_of
from ..module_utils.judge_observe import mongod_version

ETC = Path("/etc/judge")
SERVER = "mongodb-org-server"
_STAY = "to go back without etcd and mongod, add -e judge_rollback_programs=false"


class WayBackError(Exception):
    """There is none; the text is one sentence for the person who runs the playbook."""


def minor(version: str) -> tuple[int, int]:
    """MAJOR.MINOR as numbers, of a program's version or a Debian package's; (0, 0) for none."""
    match = re.match(r"(?:\d+:)?(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def mongod_of(manifest: dict[str, Any], former: Path, *, packaged: bool) -> str:
    """The version of the mongod that comes back; empty where the bundle has none. WayBackError for another kind."""
    package, program = manifest["versions"].get(SERVER, ""), "bin/mongod" in manifest["files"]
    if packaged != bool(package) and (package or program):
        raise WayBackError(
            f"the mongod of before the upgrade was {'a package' if package else 'none'} of MongoDB's own; set "
            "judge_bundle_mongodb_repository as it was then"
        )
    return package or (mongod_version(f"binary: {former}/bin/mongod") if program else "")


def refusal(*, etcd: str, members: list[str], mongod: str, features: str) -> str:
    """The reason why these versions of etcd and mongod cannot come back, or empty.

    `members` are the versions of etcd's members that answer, `features` is MongoDB's feature compatibility. etcd's
    cluster has the lowest minor version of all members, and does not go below it by itself
    (https://etcd.io/docs/v3.6/downgrades/).
    """
    lowest = min(map(minor, members), default=(0, 0))
    if etcd and lowest > minor(etcd):
        cluster = ".".join(map(str, lowest))
        return f"etcd's members have made it a cluster of {cluster}, and etcd {etcd} would come back, which cannot join"
    if mongod and minor(features) > minor(mongod):
        return (
            f"MongoDB's feature compatibility was raised to {features}, and mongod {mongod} would come back, which "
            "cannot read such data"
        )
    return ""


def in_use() -> tuple[list[str], str]:
    """(the versions of etcd's members that answer, MongoDB's feature compatibility). JudgeError."""
    from judge import config  # noqa: PLC0415 - only the release's Python has it
    from judge.config import EtcdClient  # noqa: PLC0415
    from judge.etcd.client import Etcd  # noqa: PLC0415
    from judge.mongodb import features, replica  # noqa: PLC0415

    etcd = config.load(config.EtcdConfig, ETC / "etcd.yml")
    endpoints = [peer.client.partition("://")[2] for peer in etcd.cluster.members]
    with Etcd(EtcdClient(endpoints=endpoints, tls=etcd.tls, timeout=5)) as client:
        members = [status.version for status in client.status() if status.version]
    mongodb = config.load(config.MongodbConfig, ETC / "mongodb.yml")
    with replica.of_the_primary(mongodb, 30.0) as database:
        return members, features.observe(database, mongodb).now


def looked_at(bundle: Path, version: str, *, packaged: bool) -> dict[str, str]:
    """The result about what comes back on this host; empty where nothing was kept. WayBackError, JudgeError."""
    manifest = former_manifest(bundle, version)
    if not manifest:
        return {"sentence": "", "manifest": ""}
    etcd = manifest["versions"].get("etcd-server", "")
    mongod = mongod_of(manifest, former_of(bundle), packaged=packaged)
    members, features = in_use()
    if reason := refusal(etcd=etcd, members=members, mongod=mongod, features=features):
        raise WayBackError(reason)
    return {
        "sentence": f"etcd {etcd or 'as it is'} and mongod {mongod or 'as it is'} come back with judge {version}",
        "manifest": hashlib.sha256((former_of(bundle) / MANIFEST).read_bytes()).hexdigest(),
    }


def main() -> None:
    module = AnsibleModule(
        {
            "bundle": {"type": "path", "required": True},
            "version": {"type": "str", "required": True},
            "packaged": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        from judge.common.errors import JudgeError  # noqa: PLC0415

        answer = looked_at(Path(params["bundle"]), params["version"], packaged=params["packaged"])
    except ImportError:
        module.fail_json(msg="this host has no release of judge; deploy it from the former bundle with site.yml")
    except (WayBackError, BundleError) as exc:
        module.fail_json(msg=f"nothing was changed: {exc}; {_STAY}")
    except JudgeError as exc:
        module.fail_json(msg=f"nothing was changed, as etcd and MongoDB do not tell what they use: {exc}; {_STAY}")
    module.exit_json(changed=False, **answer)


if __name__ == "__main__":
    main()
