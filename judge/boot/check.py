"""`judge config check`: configs one by one, and against each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from judge.boot import render
from judge.config import MODELS, BootConfig, BootService, load
from judge.errors import UsageError

_SERVICE_KINDS = get_args(BootService.model_fields["kind"].annotation)


def kind_of(path: Path, kind: str | None) -> str:
    """The kind of a config: what `--kind` says, else the start of the file's name (etcd.yml, etcd-proxy.yml)."""
    if kind is None:
        guess = path.name.replace("-", ".").replace("_", ".").partition(".")[0]
        if guess not in MODELS:
            msg = f"{path}: its name does not tell its kind; use --kind with one of {', '.join(MODELS)}"
            raise UsageError(msg)
        return guess
    if kind not in MODELS:
        msg = f"--kind {kind}: expected one of {', '.join(MODELS)}"
        raise UsageError(msg)
    return kind


def check_files(paths: Sequence[Path], kind: str | None) -> list[tuple[Path, str]]:
    """Check files and what a boot.yml names; returns (file, kind) of each. ConfigError for the first fault.

    Called by `judge config check`, and so by Ansible's `validate` before a file replaces the old one.
    """
    checked: list[tuple[Path, str]] = []
    singles: list[render.Rendered] = []
    for path in paths:
        found = kind_of(path, kind)
        if path.suffix == ".j2":
            msg = f"{path} is a template; check the boot.yml that names it and has its variables"
            raise UsageError(msg)
        if found in _SERVICE_KINDS:
            # The settings that only boot.yml knows play no part in the check.
            service = BootService.model_validate({"name": found, "kind": found, "config": path})
            singles.append(render.render(service, {}))
        else:
            boot = load(BootConfig, path)
            checked += [(one.service.config, one.service.kind) for one in render.render_all(boot, {})]
        checked.append((path, found))
    render.check_together(singles)
    return checked
