"""A terminal session as an SVG: commands that are really run, with what they print, in its colours."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

COLUMNS: Final = 116
# As rich's own, without the fonts that it would load from another site.
_FRAME: Final = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg"
 role="img" aria-label="a session with judgectl">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
 font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: system-ui, sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


def run(command: str, directory: Path, env: Mapping[str, str]) -> Text:
    """What a shell's command prints, coloured as on a terminal of this width; a failure is shown like anything else."""
    told = {**os.environ, **env, "FORCE_COLOR": "1", "TTY_INTERACTIVE": "0", "COLUMNS": str(COLUMNS)}
    done = subprocess.run(
        ["bash", "-c", command], cwd=directory, env=told, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL, text=True, timeout=300, check=False,
    )  # fmt: skip
    shown = re.sub(r"\x1b\[\?25[lh]", "", done.stdout)
    return Text.from_ansi(re.sub(r"\n[\s\n]*\n", "\n", shown).strip("\n"))


def svg(session: Sequence[tuple[str, Text]], title: str) -> str:
    """A session of (command, what it has printed) as one picture."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123 - it is no file of ours
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True, color_system="truecolor")
        for number, (command, printed) in enumerate(session):
            if number:
                console.print()
            console.print(Text.assemble(("$ ", "bold green"), (command, "bold")), soft_wrap=True)
            console.print(printed, soft_wrap=True)
        return console.export_svg(title=title, theme=MONOKAI, code_format=_FRAME, unique_id="session")
