"""What every task that runs on the controller, or asks a host something, has to say: read from all of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.ansible import BUILTIN, ROOT, read

FILES = sorted([*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").glob("*/tasks/*.yml")])


def parts(node: Any) -> Iterator[dict[str, Any]]:
    """Every mapping below a file: plays, tasks, and what an include applies to its tasks."""
    if isinstance(node, dict):
        yield node
    for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from parts(below)


def on_the_controller() -> list[tuple[Path, dict[str, Any]]]:
    pairs = [(path, part) for path in FILES for part in parts(read(path))]
    return [(path, part) for path, part in pairs if part.get("delegate_to") == "localhost"]


def test_delegated_tasks_do_not_become_root_on_the_controller() -> None:
    """A variable beats the keyword, and an inventory that sets ansible_become would win otherwise."""
    assert len(on_the_controller()) >= 8
    for path, part in on_the_controller():
        assert (part.get("vars") or {}).get("ansible_become") is False, f"{path}: {part.get('name')}"


@pytest.mark.parametrize("kind", ["uri", "get_url"])
def test_hosts_of_the_cluster_are_asked_without_a_proxy(kind: str) -> None:
    """An environment's proxy is for the way out; none of these tasks asks anybody outside."""
    calls = [
        (path, part[name])
        for path in FILES
        for part in parts(read(path))
        for name in (kind, BUILTIN + kind)
        if name in part
    ]
    assert kind != "uri" or len(calls) >= 5
    for path, call in calls:
        assert call.get("use_proxy") is False, f"{path}: {call.get('url')}"
