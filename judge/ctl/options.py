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
    inventory: Path | None = None


Output = Annotated[show.Output, typer.Option("--output", "-o", help="A table for people, or JSON for programs.")]
