#!/usr/bin/python
"""Collect the wheels that a host's Python needs, this project's own among them."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.judge_files import BundleError, describe, read_manifest
from ansible.module_utils.judge_wheels import build_project, build_source, closure, pins, platforms, wheel_name

DOCUMENTATION = r"""
module: bundle_wheels
short_description: Collect the wheels that hosts need
description:
  - Builds this project's wheel and those that are published as source only, and fetches all others by pip.
  - Versions are those of the constraints file. When the directory has all of them, nothing is fetched.
options:
  path: {description: Directory for the wheels; its parent is the bundle., type: path, required: true}
  cache: {description: Directory that is kept for the next run., type: path, required: true}
  project: {description: Directory of this project., type: path, required: true}
  constraints: {description: File of C(name==version) lines., type: path, required: true}
  python: {description: "The hosts' Python, as in C(3.13).", type: str, required: true}
  architecture: {description: The hosts' Debian architecture., type: str, required: true}
  source_only: {description: Projects without published wheels., type: list, elements: str, default: []}
author: [Judge]
"""

RETURN = r"""
version: {description: Version of this project., type: str, returned: always}
added: {description: Wheels that were added or replaced., type: list, returned: always}
removed: {description: Wheels that were removed., type: list, returned: always}
"""


def _damaged(directory: Path) -> list[Path]:
    """Wheels that are not as the bundle's last manifest says; pip would take them as they are."""
    try:
        files = read_manifest(directory.parent)[0]["files"]
    except BundleError:
        return []
    entries = {path: files.get(f"{directory.name}/{path.name}") for path in directory.glob("*.whl")}
    return [path for path, entry in entries.items() if entry and entry != describe(path)]


def collect(module: AnsibleModule, scratch: Path) -> dict[str, object]:
    """Bring the directory up to date; returns the module's result."""
    wanted = module.params
    directory, cache = Path(wanted["path"]), Path(wanted["cache"])
    if module.check_mode:
        cache = scratch / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    constraints = Path(wanted["constraints"])
    pinned = pins(constraints.read_text(encoding="utf-8"))
    unpinned = [name for name in wanted["source_only"] if name not in pinned]
    if unpinned:
        msg = f"{constraints} has no version of {unpinned[0]}; add a line '{unpinned[0]}==VERSION'"
        raise BundleError(msg)
    own = build_project(Path(wanted["project"]), cache, wanted["architecture"])
    built = [build_source(name, pinned[name], cache / "built") for name in wanted["source_only"]]
    options = [f"--constraint={constraints}", f"--python-version={wanted['python']}", "--implementation=cp"]
    options += [f"--platform={tag}" for tag in platforms(wanted["architecture"])]

    present, target = scratch / "present", scratch / "target"
    present.mkdir()
    target.mkdir()
    damaged = _damaged(directory)
    for path in directory.glob("*.whl"):
        if path not in damaged and path.name != own.name:
            shutil.copyfile(path, present / path.name)
    if not closure(own, built, target, options=[*options, f"--find-links={present}"], online=False):
        closure(own, built, target, options=options, online=True)

    fresh = {path.name: describe(path) for path in target.iterdir()}
    old = {path.name: describe(path) for path in directory.iterdir()} if directory.is_dir() else {}
    added = sorted(name for name, entry in fresh.items() if old.get(name) != entry)
    removed = sorted(set(old) - set(fresh))
    if not module.check_mode:
        directory.mkdir(parents=True, exist_ok=True)
        for name in added:
            unfinished = directory / f".{name}.new"
            shutil.copyfile(target / name, unfinished)
            unfinished.replace(directory / name)
        for name in removed:
            (directory / name).unlink(missing_ok=True)
    return {
        "changed": bool(added or removed),
        "added": added,
        "removed": removed,
        "version": wheel_name(own.name)[1],
    }


def main() -> None:
    """Entry point of the module."""
    text = {"type": "str", "required": True}
    place = {"type": "path", "required": True}
    module = AnsibleModule(
        {
            "path": place,
            "cache": place,
            "project": place,
            "constraints": place,
            "python": text,
            "architecture": text,
            "source_only": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    try:
        with tempfile.TemporaryDirectory() as scratch:
            result = collect(module, Path(scratch))
    except BundleError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
