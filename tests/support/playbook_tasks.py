"""All tasks of a playbook in their order, with those that it imports and includes: read, without Ansible."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOKS = sorted((ROOT / "playbooks").glob("*.yml"))
BUILTIN = "ansible.builtin."
# Keys that a task may have besides its module.
KEYWORDS = {
    "name", "when", "register", "vars", "tags", "become", "delegate_to", "run_once", "loop", "loop_control", "until",
    "retries", "delay", "changed_when", "failed_when", "check_mode", "no_log", "environment", "throttle",
    "any_errors_fatal", "ignore_unreachable",
}  # fmt: skip

Task = dict[str, Any]


class _Loader(yaml.SafeLoader):
    """Takes Ansible's own tags, such as !unsafe."""


_Loader.add_multi_constructor("!", lambda *_: None)


def read(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), _Loader)


def module(task: Task) -> str:
    """The module of a task, without the collection of Ansible's own."""
    (name,) = set(task) - KEYWORDS
    return str(name).removeprefix(BUILTIN)


def _argument(task: Task, name: str, key: str) -> tuple[str, str] | None:
    """(what is named, the rest) of an import or include; None where the task is none."""
    found = task.get(f"{BUILTIN}import_{name}") or task.get(f"{BUILTIN}include_{name}")
    if not found:
        return None
    return (found, "main") if isinstance(found, str) else (found[key], found.get("tasks_from", "main"))


def flat(tasks: list[Task] | None, beside: Path) -> Iterator[Task]:
    """These tasks, those of their blocks, and whatever they name, in order. `beside`: where their file is."""
    for task in tasks or []:
        blocks = [task[part] for part in ("block", "rescue", "always") if part in task]
        role, file = _argument(task, "role", "name"), _argument(task, "tasks", "file")
        for block in blocks:
            yield from flat(block, beside)
        if role:
            path = ROOT / "roles" / role[0] / "tasks" / f"{role[1]}.yml"
            yield from flat(read(path), path.parent)
        elif file:
            path = (beside / file[0]).resolve()
            yield from flat(read(path), path.parent)
        elif not blocks:
            yield task


def of_playbook(path: Path) -> Iterator[Task]:
    """All tasks of a playbook and of those that it imports."""
    for play in read(path):
        other = play.get(f"{BUILTIN}import_playbook")
        if other:
            yield from of_playbook((path.parent / other).resolve())
        else:
            always = {"check_mode": True} if play.get("check_mode") is True else {}
            yield from ({**always, **task} for task in flat(play.get("tasks"), path.parent))
