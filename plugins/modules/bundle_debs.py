#!/usr/bin/python
"""Collect Debian packages with everything they need, and the index that makes them an apt archive."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.judge_debs import Apt, derive_sources, index, is_right, own_release, prune, publish, versions
from ansible.module_utils.judge_files import BundleError

DOCUMENTATION = r"""
module: bundle_debs
short_description: Collect Debian packages with all their dependencies
description:
  - Resolves in an apt root of its own, as if nothing were installed. This machine's apt is not touched.
  - Packages that are there and whole are not fetched again; others in the directory are removed.
options:
  path: {description: Directory for the packages and their index., type: path, required: true}
  cache: {description: Directory that is kept for the next run., type: path, required: true}
  packages: {description: What to install on hosts., type: list, elements: str, required: true}
  release: {description: Code name of the hosts' Debian release., type: str, required: true}
  architecture: {description: The hosts' Debian architecture., type: str, required: true}
  sources:
    description: Lines of a sources.list. By default this machine's own Debian archive, for the release.
    type: list
    elements: str
    default: []
author: [Judge]
"""

RETURN = r"""
versions: {description: The version of each wanted package., type: dict, returned: always}
fetched: {description: Names of the files that were fetched., type: list, returned: always}
removed: {description: Names of the files that were removed., type: list, returned: always}
"""

_TARGETS = ["apt-get", "indextargets", "--format", "$(REPO_URI)|$(RELEASE)|$(COMPONENT)", "Created-By: Packages"]


def _sources(given: list[str], release: str) -> list[str]:
    if given:
        return given
    told = subprocess.run(_TARGETS, capture_output=True, text=True, check=True).stdout
    return derive_sources(told, own_release(Path("/etc/os-release").read_text(encoding="utf-8")), release)


def collect(module: AnsibleModule, root: Path) -> dict[str, object]:
    """Bring the directory up to date; returns the module's result."""
    wanted = module.params
    directory = Path(wanted["path"])
    apt = Apt(root, wanted["architecture"])
    apt.update(_sources(wanted["sources"], wanted["release"]))
    debs = apt.resolve(wanted["packages"])
    missing = [deb for deb in debs if not is_right(directory / deb.file, deb)]
    extra = prune(directory, debs) if directory.is_dir() else []
    result: dict[str, object] = {
        "changed": bool(missing or extra),
        "fetched": [deb.file for deb in missing],
        "removed": extra,
        "versions": {},
    }
    if module.check_mode:
        return result
    directory.mkdir(parents=True, exist_ok=True)
    if missing:
        apt.fetch(wanted["packages"], missing, directory)
    for name in extra:
        (directory / name).unlink()
    for deb in missing:
        if not is_right(directory / deb.file, deb):
            msg = f"{deb.file} is not what its archive says it is; empty {root} and try again"
            raise BundleError(msg)
    texts = index(directory, debs, wanted["architecture"])
    result["changed"] = publish(directory, texts) or result["changed"]
    result["versions"] = versions(texts["Packages"], wanted["packages"])
    return result


def main() -> None:
    """Entry point of the module."""
    text = {"type": "str", "required": True}
    place = {"type": "path", "required": True}
    module = AnsibleModule(
        {
            "path": place,
            "cache": place,
            "packages": {"type": "list", "elements": "str", "required": True},
            "release": text,
            "architecture": text,
            "sources": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    try:
        if module.check_mode:
            with tempfile.TemporaryDirectory() as scratch:
                result = collect(module, Path(scratch))
        else:
            result = collect(module, Path(module.params["cache"]))
    except BundleError as exc:
        module.fail_json(msg=str(exc))
    except FileNotFoundError as exc:
        module.fail_json(msg=f"{exc.filename} is missing on the controller; a bundle is made on a Debian machine")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
