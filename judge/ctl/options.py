"""The global options of a run of judgectl, and options that many commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from judge.ctl import show


class GlobalOptions:
    """The options before the command's name; set once, by the root command."""

    context: Path | None = None
    server: str | None = None
    inventory: list[str] | None = None
    vault_files: list[Path] | None = None


Output = Annotated[show.Output, typer.Option("--output", "-o", help="A table for people, or JSON for programs.")]

Inventories = Annotated[
    list[str] | None,
    typer.Option(
        "--inventory", "-i", metavar="PATH", help="An Ansible inventory; repeatable. Else the root command's."
    ),
]
VaultFiles = Annotated[
    list[Path] | None, typer.Option(help="A file with the password of values that ansible-vault encrypted; repeatable.")
]
