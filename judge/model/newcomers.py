"""A list of new accounts as CSV, as spreadsheets write it; and the passwords for those that have none in it."""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pydantic import ValidationError

from judge.common.errors import UsageError
from judge.common.text import listed, one_line, size
from judge.model.base import first_fault
from judge.model.people import ACCOUNTS, Newcomer, UsersAdd

# The columns, and the fields of an account that they fill.
_FIELDS: Final = {
    "user": "name",
    "name": "display_name",
    "email": "email",
    "group": "groups",
    "password": "password",
}
_COLUMNS: Final = {field: column for column, field in _FIELDS.items()}
_NAME: Final = "expected up to 63 letters without accents, digits and . _ @ + -, beginning with a letter or digit"
BYTES: Final = 4 * 1024**2
# Without letters and digits that look alike: 32 of them, so that a password of 16 has 80 random bits.
_LETTERS: Final = "abcdefghijkmnpqrstuvwxyz23456789"
_QUOTED: Final = 60


def read(data: bytes, file: str) -> list[Newcomer]:
    """The accounts of a list; UsageError with a sentence for each line that is wrong. `file` names it there.

    The first line names the columns. A comma, semicolon or tab stands between fields; groups have blanks between.
    """
    if len(data) > BYTES:
        raise UsageError(f"{file}: has {size(len(data))}; at most {size(BYTES)} are accepted, give the list in parts")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise UsageError(f"{file}: line {line}: is not UTF-8; save the table as 'CSV UTF-8'") from None
    faults: list[str] = []
    rows = _rows(text, faults)
    columns = _columns(next(rows, None), faults, file)
    newcomers: list[Newcomer] = []
    lines: dict[str, int] = {}
    for count, (line, cells) in enumerate(rows):
        if count == ACCOUNTS:
            raise UsageError(f"{file}: has more than {ACCOUNTS} people; give the list in parts")
        try:
            newcomer = _newcomer(line, dict(zip(columns, cells, strict=False)), surplus=cells[len(columns) :])
        except UsageError as exc:
            faults.append(f"line {line}: {exc}")
            continue
        earlier = lines.setdefault(newcomer.name.lower(), line)
        if earlier != line:
            faults.append(f"line {line}: '{newcomer.name}' is in line {earlier} already")
        newcomers.append(newcomer)
    if faults:
        raise UsageError(f"{file}: no account is added; {listed(faults)}")
    if not newcomers:
        raise UsageError(f"{file}: has no person; add a line for each person below the line of column names")
    return newcomers


def _rows(text: str, faults: list[str]) -> Iterator[tuple[int, list[str]]]:
    """(number of its first line, cells) of each row that has any; a fault of quotes ends them."""
    header = text.lstrip().partition("\n")[0]
    delimiter = max(",;\t", key=header.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = [cell.strip() for cell in next(reader)]
        except StopIteration:
            return
        except csv.Error as exc:
            faults.append(f"line {line}: is not valid CSV: {exc}; check its quotes")
            return
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            yield line, cells


def _columns(header: tuple[int, list[str]] | None, faults: Sequence[str], file: str) -> list[str]:
    line, cells = header or (1, [])
    expected = f"expected {', '.join(_FIELDS)}"
    names = [cell.lower() for cell in cells]
    unknown = next((cell for cell, name in zip(cells, names, strict=True) if name not in _FIELDS), None)
    if faults:
        fault = faults[0]
    elif not names:
        fault = f"is empty; its first line names the columns: {expected}"
    elif unknown is not None:
        fault = f"line {line}: there is no column '{_short(unknown)}'; {expected}"
    elif len(set(names)) < len(names):
        fault = f"line {line}: names a column twice; {expected}"
    elif "user" not in names:
        fault = f"line {line}: has no column 'user', the name to log in with; {expected}"
    else:
        return names
    raise UsageError(f"{file}: {fault}")


def _newcomer(line: int, cells: dict[str, str], surplus: Sequence[str]) -> Newcomer:
    """The account of one row; UsageError about it."""
    if surplus:
        raise UsageError("has more fields than the first line names; put a field with the separator in quotes")
    fields = {_FIELDS[column]: cell for column, cell in cells.items() if cell}
    try:
        return Newcomer.model_validate({**fields, "groups": fields.get("groups", "").split(), "line": line})
    except ValidationError as exc:
        fault = first_fault(exc, with_input=True)
    column = _COLUMNS[fault.field.partition(".")[0]]
    text = fault.text[:1].lower() + fault.text[1:]
    if fault.kind == "string_pattern_mismatch":
        text = f"'{_short(str(fault.given))}' is not a valid {'user' if column == 'user' else 'group'} name; {_NAME}"
    raise UsageError(f"{column}: {text}")


def _short(text: str) -> str:
    return one_line(text[:_QUOTED])


def adding(data: bytes, file: str, secret: bytes) -> UsersAdd:
    """The call that adds the accounts of a list, with a password for each that has none; errors as `read`.

    With the same list and secret it is the same call: who has lost the passwords adds the list once more.
    """
    key = hmac.digest(secret, data, "sha256")
    newcomers = [
        newcomer
        if newcomer.password
        else newcomer.model_copy(update={"password": _password(hmac.digest(key, newcomer.name.encode(), "sha256"))})
        for newcomer in read(data, file)
    ]
    return UsersAdd(users=newcomers, idempotency_key=hashlib.sha256(key).hexdigest())


def _password(random: bytes) -> str:
    """A password that people can type from paper: `xk3f-9wqa-…`."""
    letters = "".join(_LETTERS[byte % len(_LETTERS)] for byte in random[:16])
    return "-".join(letters[start : start + 4] for start in range(0, 16, 4))


def credentials(newcomers: Iterable[Newcomer]) -> list[dict[str, str]]:
    """The rows of the result: what each person needs to log in."""
    return [
        {"user": newcomer.name, "name": newcomer.display_name, "password": newcomer.password or ""}
        for newcomer in newcomers
    ]


def written(newcomers: Iterable[Newcomer]) -> str:
    """The result as CSV (RFC 4180)."""
    rows = credentials(newcomers)
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
