"""What the shell completes: names of problems, ids of submissions. If anything goes wrong there are none, silently."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import typer

from judge.ctl.options import GlobalOptions

# Seconds that a person waits for a list.
_PATIENCE = 1.0
_NEWEST = 50


def problems(context: typer.Context, incomplete: str) -> list[str]:
    def names(api: Any) -> list[str]:
        return [problem["name"] for problem in api.request("GET", "/problems").json()["problems"]]

    return [name for name in _asked(context, names) if name.startswith(incomplete)]


def submissions(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The newest submissions that the caller sees, each with a few words."""

    def rows(api: Any) -> list[tuple[str, str]]:
        tasks = api.search(limit=_NEWEST).tasks
        return [(task.id, f"{task.submission.problem or '-'} {task.verdict or task.status}") for task in tasks]

    return [(task, words) for task, words in _asked(context, rows) if task.startswith(incomplete)]


def _asked(context: typer.Context, ask: Callable[[Any], Iterable[Any]]) -> list[Any]:
    with contextlib.suppress(Exception):
        from judge.ctl import context as contexts  # noqa: PLC0415 - imports everything
        from judge.ctl.api import Api  # noqa: PLC0415

        options = context.find_root().params
        GlobalOptions.context, GlobalOptions.server = options.get("context"), options.get("server")
        GlobalOptions.inventory, GlobalOptions.vault_files = (
            options.get("inventory"),
            options.get("vault_password_file"),
        )
        with Api(contexts.current(), timeout=0) as api:
            api.silence = _PATIENCE
            return list(ask(api))
    return []
