"""The global options of a run of judgectl, and options that many commands have."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Annotated, Any, ClassVar, cast

import typer
from typer.core import TyperGroup, TyperOption

from judge.common.errors import UsageError
from judge.ctl import show

_display_type = TyperOption.display_type_rich


def _display_value(option: TyperOption, ctx: Any) -> str | None:
    """The kind of value beside an option in --help: none of a flag, for which Typer has `<bool>`; else of one value."""
    text = None if option.is_flag else _display_type(option, ctx)
    return text and re.sub(r"<list\[(.+)\]>", r"<\1>", text).replace("<Path>", "<path>")


TyperOption.display_type_rich = _display_value  # type: ignore[assignment, method-assign]


class LaterCommands(TyperGroup):
    """A group of which some commands are imported when they are called, or when all of them are asked for.

    A start of judgectl is nearly all imports; each group of commands brings those of a room of its own.
    """

    later: ClassVar[dict[str, str]]  # name -> `module:attribute`, a Typer or the function of a command

    def list_commands(self, ctx: Any) -> list[str]:
        return list(dict.fromkeys([*super().list_commands(ctx), *self.later]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, imported if need be; with an unknown name all are, as similar ones are looked for."""
        for name in [cmd_name] if cmd_name in self.later else [*self.later] if cmd_name not in self.commands else []:
            if name not in self.commands:
                self.add_command(_imported(name, self.later[name]))
        return super().get_command(ctx, cmd_name)


def _imported(name: str, place: str) -> Any:
    module, _, attribute = place.partition(":")
    attribute_value = getattr(importlib.import_module(module), attribute)
    wrapper = typer.Typer()
    if isinstance(attribute_value, typer.Typer):
        wrapper.add_typer(attribute_value, name=name)
    else:
        wrapper.command(name)(attribute_value)
        wrapper.callback()(lambda: None)  # a group, though it has one command
    return cast("TyperGroup", typer.main.get_command(wrapper)).commands[name]


class GlobalOptions:
    """The options before the command's name; set once, by the root command."""

    context: Path | None = None
    server: str | None = None
    inventory: list[str] | None = None
    vault_files: list[Path] | None = None


TABLE = show.OutputFormat.TABLE
Output = Annotated[
    show.OutputFormat, typer.Option("--output", "-o", help="table for people, json for programs, csv for spreadsheets.")
]

Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=500)]
Before = Annotated[str | None, typer.Option(help="Page on: the id that the page before ended with.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Inventories = Annotated[
    list[str] | None,
    typer.Option(
        "--inventory", "-i", metavar="PATH", help="An Ansible inventory; repeatable. Else the root command's."
    ),
]
VaultFiles = Annotated[
    list[Path] | None, typer.Option(help="A file with the password of values that ansible-vault encrypted; repeatable.")
]


def check_choice(option: str, value: str, *choices: str) -> None:
    """UsageError unless the value is one of the choices."""
    if value not in choices:
        raise UsageError(f"{option}: '{value}' is not known; choose {', '.join(choices[:-1])} or {choices[-1]}")


def check_confirmation(output: show.OutputFormat, *, unasked: bool) -> None:
    """UsageError if the command needs a confirmation and cannot ask for it. `unasked`: it needs none."""
    if not unasked and not (output.for_people and sys.stdin.isatty()):
        raise UsageError(
            "--yes: is missing, and no terminal is there for a confirmation; try --dry-run first, then give --yes"
        )
