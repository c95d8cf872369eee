#!/usr/bin/python
"""Install one release of judge beside the others, and make it the current one."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.judge_lock import LockedError, one_at_a_time

DOCUMENTATION = r"""
module: judge_release
short_description: Install a release of judge from its wheel
description:
  - Makes a virtual environment of the host's Python for this very wheel, in a directory that is never changed once it
    is complete, so that running daemons keep their code until they are restarted. The wheel is kept in there.
  - The release before stays, and every release that a process of the host was started from; others are removed.
  - A version that O(source) no longer has is taken as it is installed.
options:
  source: {description: The directory that has the wheel., type: path, required: true}
  version: {description: The version to install., type: str, required: true}
  state:
    description:
      - With V(installed) it is there, and O(current) points to it only where it pointed to nothing.
      - With V(current) O(current) points to it, which is installed already.
    type: str
    choices: [installed, current]
    default: installed
  coming:
    description: Files below the parent of O(source) that this run brings; in check mode they are not here yet.
    type: list
    elements: str
    default: []
  releases: {description: Directory of the releases., type: path, required: true}
  current: {description: The link to the release in use., type: path, required: true}
  offline: {description: Whether everything else must come from O(source) too., type: bool, default: true}
  constraints: {description: A file of versions for pip; without it the newest that fit., type: path}
author: [judge]
"""

RETURN = r"""
release: {description: Directory of the release; empty when check mode cannot know it., type: str, returned: success}
switched:
  description: Whether C(current) points (or, in check mode, would point) elsewhere now.
  type: bool
  returned: success
before: {description: Version of the release that was in use; empty for none., type: str, returned: success}
"""

_PIP_WHEELS = Path("/usr/share/python-wheels")  # Debian's python3-venv brings pip as a wheel, for such uses
_COMPLETE = ".complete"


class ReleaseError(Exception):
    """A release that cannot be installed; the text is one sentence for the person who runs the playbook."""


def the_wheel(source: Path, version: str) -> Path | None:
    """The one wheel of a version, None when there is none; ReleaseError when there are several."""
    wheels = sorted(source.glob(f"judge-{version}-*.whl"))
    if len(wheels) > 1:
        raise ReleaseError(
            f"{len(wheels)} wheels of judge {version} are in {source}; remove all but one, or name it by judge_wheel"
        )
    return wheels[0] if wheels else None


def installed_of(releases: Path, version: str, current: Path) -> Path:
    """The complete release of a version whose wheel has gone; ReleaseError when the host has none.

    Of several the one in use, else the newest: a version may be built more than once.
    """
    candidates = [path.parent for path in releases.glob(f"{version}-*/{_COMPLETE}")]
    candidates = [path for path in candidates if path.name.rpartition("-")[0] == version]
    if not candidates:
        raise ReleaseError(
            f"0 wheels of judge {version} have come to this host, and the release is not installed here; set "
            "judge_version to the bundle's version, or judge_wheel to one wheel of this version"
        )
    return max(candidates, key=lambda path: (path.resolve() == current.resolve(), (path / _COMPLETE).stat().st_mtime))


def version_of(current: Path) -> str:
    """The version of the release in use by the name of its directory; empty for none."""
    return current.readlink().name.rpartition("-")[0] if current.is_symlink() else ""


def name_of(version: str, wheel: Path) -> str:
    """The directory's name: the version, and the wheel's content, as a version may be built more than once."""
    return f"{version}-{hashlib.sha256(wheel.read_bytes()).hexdigest()[:8]}"


def outlived(releases: Path, kept: set[Path]) -> list[Path]:
    """The releases that nobody needs any more, finished or not."""
    return sorted(path for path in releases.iterdir() if path.is_dir() and path.resolve() not in kept)


def running(releases: Path, proc: Path = Path("/proc")) -> set[Path]:
    """The releases that a process of this host was started from: a daemon may not have been restarted for a while."""
    in_use = set()
    for path in proc.glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().split(b"\0")
        except OSError:  # the process has ended
            continue
        for argument in arguments:
            place = Path(os.fsdecode(argument))
            if releases in place.parents:
                in_use.add(releases / place.relative_to(releases).parts[0])
    return in_use


class Installer:
    """The steps; each says in one sentence why it failed."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.offline = module.params["offline"]
        self.source = Path(module.params["source"])

    def run(self, command: list[str], sentence: str) -> None:
        """Run one; its last output make the error."""
        code, out, err = self.module.run_command(command)
        if code != 0:
            reason = " | ".join((err.strip() or out.strip() or f"exit code {code}").splitlines()[-3:])
            raise ReleaseError(f"{sentence}: {reason}")

    def install(self, wheel: Path, target: Path) -> None:
        """A complete release in `target`; what an interrupted run left there is made anew."""
        shutil.rmtree(target, ignore_errors=True)
        pips = sorted(_PIP_WHEELS.glob("pip-*.whl"))
        if not pips:
            raise ReleaseError(f"there is no pip in {_PIP_WHEELS}; install the package python3-venv")
        python = str(target / "bin/python")
        self.run(["/usr/bin/python3", "-m", "venv", "--without-pip", str(target)], f"{target} could not be made")
        options = [
            "--quiet",
            "--disable-pip-version-check",
            "--no-cache-dir",
            "--no-input",
            "--no-warn-script-location",
        ]
        if self.offline:
            options += ["--no-index", "--find-links", str(self.source)]
        if self.module.params["constraints"]:
            options += ["--constraint", self.module.params["constraints"]]
        command = [python, f"{pips[-1]}/pip", "install", *options, f"{wheel}[otel]"]
        self.run(command, f"pip could not install {wheel.name}")
        self.run([str(target / "bin/judge"), "--version"], f"{wheel.name} does not work on this host")
        shutil.copyfile(wheel, target / wheel.name)  # it stays when the bundle is replaced by the next one
        (target / _COMPLETE).touch()


def bring_about(module: AnsibleModule) -> dict[str, object]:
    """Install or link what is missing; the module's result."""
    releases, current = Path(module.params["releases"]), Path(module.params["current"])
    source, version = Path(module.params["source"]), module.params["version"]
    linking = module.params["state"] == "current"
    before = version_of(current)
    if module.check_mode and _is_coming(module.params["coming"], source, version):
        return {"changed": True, "release": "", "switched": linking or not before, "before": before}
    wheel = the_wheel(source, version)
    target = releases / name_of(version, wheel) if wheel else installed_of(releases, version, current)
    missing = not (target / _COMPLETE).exists()
    linked = current.is_symlink() and current.readlink() == target
    switching = not linked and (linking or not current.exists())
    if not module.check_mode:
        if missing and wheel:
            Installer(module).install(wheel, target)
        if switching:
            switch(current, target, releases)
    result = {"release": str(target), "switched": switching, "before": before}
    return {"changed": (missing and not linking) or switching, **result}


def _is_coming(coming: list[str], source: Path, version: str) -> bool:
    return any(name.startswith(f"{source.name}/judge-{version}-") for name in coming)


def switch(current: Path, target: Path, releases: Path) -> None:
    """Let `current` point to `target`, and remove releases but this one, the one before and those that run."""
    kept = {target.resolve(), *running(releases)} | ({current.resolve()} if current.exists() else set())
    fresh = current.with_name(f".{current.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(current)
    for old in outlived(releases, kept):
        shutil.rmtree(old)


def main() -> None:
    place = {"type": "path", "required": True}
    module = AnsibleModule(
        {
            "source": place,
            "version": {"type": "str", "required": True},
            "releases": place,
            "current": place,
            "offline": {"type": "bool", "default": True},
            "constraints": {"type": "path"},
            "state": {"type": "str", "choices": ["installed", "current"], "default": "installed"},
            "coming": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    if module.check_mode and not Path(module.params["source"]).is_dir():
        module.exit_json(changed=True, release="", switched=True, before="")
    try:
        with contextlib.nullcontext() if module.check_mode else one_at_a_time():
            result = bring_about(module)
    except (ReleaseError, LockedError) as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename}: {exc.strerror}; releases are kept in {module.params['releases']}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
