"""A page to print: a card for each new account, with what its person needs to log in."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from judge.common.errors import UsageError
from judge.model.people import Newcomer

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Accounts</title>
<style>
body {{ font: 12pt sans-serif; display: grid; grid-template-columns: 1fr 1fr; gap: 4mm; margin: 8mm; }}
section {{ border: 1px dashed; padding: 5mm; break-inside: avoid; overflow-wrap: anywhere; }}
h2 {{ font-size: 14pt; margin: 0 0 3mm; }}
p {{ margin: 1mm 0; }}
code {{ font-size: 13pt; }}
</style>
{}
</html>
"""
_CARD = """<section>
<h2><bdi>{title}</bdi></h2>
<p>{server}/login</p>
<p>User: <code>{user}</code></p>
<p>Password: <code>{password}</code></p>
</section>"""


def cards(newcomers: Iterable[Newcomer], server: str) -> str:
    sections = (
        _CARD.format(
            title=html.escape(newcomer.display_name or newcomer.name),
            server=html.escape(server),
            user=html.escape(newcomer.name),
            password=html.escape(newcomer.password or ""),
        )
        for newcomer in newcomers
    )
    return _PAGE.format("\n".join(sections))


def new_file(path: Path) -> IO[str]:
    """A file that was not there before and that others may not read; UsageError."""
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as exc:
        raise UsageError(f"{path}: cannot be made: {exc.strerror}; name a file that does not exist") from None
    return os.fdopen(number, "w", encoding="utf-8")
