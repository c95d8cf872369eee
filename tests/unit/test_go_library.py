"""Go's standard library is compiled where it is missing, once per version of Go; the go program is a small script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.ansible_plugins import run_module

SCRIPT = """#!/bin/sh
case "$1" in
  version) echo "go version {version} linux/amd64" ;;
  env) echo "{root}" ;;
  install) [ "$GODEBUG$CGO_ENABLED" = installgoroot=all0 ] && [ -d "$GOCACHE" ] || exit 9
    echo "$2" >>"{root}/installed"; {end} ;;
esac
"""


def go(place: Path, version: str, end: str = "true") -> dict[str, Any]:
    (place / "pkg").mkdir(exist_ok=True)
    program = place / "go"
    program.write_text(SCRIPT.format(version=version, root=place, end=end))
    program.chmod(0o755)
    return {"go": str(program)}


def installed(place: Path) -> list[str]:
    return (place / "installed").read_text().split() if (place / "installed").exists() else []


def test_once_and_again_after_an_upgrade(tmp_path: Path) -> None:
    assert run_module("judge_go", go(tmp_path, "go1.24.4"), check=True)["changed"] and not installed(tmp_path)
    assert [run_module("judge_go", go(tmp_path, "go1.24.4"))["changed"] for _ in range(2)] == [True, False]
    assert not run_module("judge_go", go(tmp_path, "go1.24.4"), check=True)["changed"]
    assert run_module("judge_go", go(tmp_path, "go1.24.5"))["changed"]
    assert installed(tmp_path) == ["std", "std"]


@pytest.mark.parametrize("version", ["go1.19.8", "go1.2"])
def test_older_ones_bring_it(tmp_path: Path, version: str) -> None:
    assert not run_module("judge_go", go(tmp_path, version))["changed"] and not installed(tmp_path)


def test_without_go_nothing_happens(tmp_path: Path) -> None:
    assert run_module("judge_go", {"go": str(tmp_path / "go")})["version"] == ""


def test_a_failure_is_a_sentence_and_is_tried_again(tmp_path: Path) -> None:
    failed = run_module("judge_go", go(tmp_path, "go1.24.4", "echo no space left >&2; exit 1"))
    assert failed["failed"] and "no space left; see docs/languages.md" in failed["msg"]
    assert run_module("judge_go", go(tmp_path, "go1.24.4"))["changed"]
