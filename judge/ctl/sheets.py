"""CSV for spreadsheets: tables with a header (RFC 4180). The small client links here."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TextIO

# A spreadsheet computes a cell that begins so, also with a wide sign; some take semicolons or tabs for separators.
_FORMULA = re.compile("(^|[;\t\r\n])(?=[=+@\uff1d\uff0b\uff0d\uff20-])")


def _flat(record: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{before}{name}.")
        elif isinstance(value, dict | list):
            yield f"{before}{name}", json.dumps(value) if value else ""
        else:
            yield f"{before}{name}", value


def write(data: Any, file: TextIO) -> None:
    """Write an answer as a table; a field of an object in it is called `object.field`.

    Its rows are a list's items, or those of an answer's only list of objects, else the answer.
    """
    if isinstance(data, dict):
        lists = [
            value for value in data.values() if isinstance(value, list) and all(isinstance(x, dict) for x in value)
        ]
        data = lists[0] if len(lists) == 1 and "id" not in data else [data]
    rows = [dict(_flat(item if isinstance(item, dict) else {"value": item})) for item in data]
    names = list(dict.fromkeys(name for row in rows for name in row))
    if names:
        write_row = writer(names, file)
        for row in rows:
            write_row(row)


def writer(names: Sequence[str], file: TextIO) -> Callable[[Mapping[str, Any]], None]:
    """What writes a row with these columns, after their header. An apostrophe stands before what would be a formula.

    Passwords stay as they are, which are the cluster's or an admin's.
    """
    rows = csv.DictWriter(file, names, lineterminator="\r\n")
    rows.writeheader()

    def cell(name: str, value: Any) -> Any:
        return _FORMULA.sub(r"\1'", value) if isinstance(value, str) and name != "password" else value

    return lambda row: rows.writerow({name: cell(name, value) for name, value in row.items()})
