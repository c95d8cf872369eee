"""The names of files that people hand in or packages bring along: relative, and they never lead out of a folder."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, StringConstraints

# Inside a sandbox these become paths below /box: no part may be empty, hidden or lead out.
FileName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*$", max_length=255)
]

NAME_BYTES: Final = 255
# Characters that some file system of those who download does not take.
_NOWHERE: Final = frozenset('\\:*?"<>|')


def name_fault(name: str) -> str:
    """The reason why a submission's file may not be called so, to end a sentence with; empty when it may.

    People name sources in their own alphabets, and browsers number copies, `main (1).cpp`: so more is allowed than in
    a package. A part that begins with `-` could be taken for an option, one with `.` is hidden or leads out.
    """
    forbidden = sorted(_NOWHERE.intersection(name))
    faults = [
        (not name, "is empty; give the file a name"),
        (name.startswith("/") or name[1:2] == ":", "is an absolute path; give it relative to the submission"),
        (not name.isprintable(), "has invisible characters; rename the file"),
        (
            len(name.encode(errors="replace")) > NAME_BYTES,
            f"is longer than {NAME_BYTES} bytes; give it a shorter name",
        ),
        (bool(forbidden), f"contains '{''.join(forbidden)}', which not every system takes in a name; rename the file"),
    ]
    sentence = next((fault for applies, fault in faults if applies), "")
    return sentence or next((fault for part in name.split("/") if (fault := _part_fault(part))), "")


def _part_fault(part: str) -> str:
    """The same for the name of one folder, or of the file in it."""
    if part in {"", ".", ".."}:
        return "has an empty part, '.' or '..' in its path; give plain folders and a file"
    if part.startswith((".", "-")):
        return f"has '{part}' in its path, which begins with '{part[0]}'; rename it or leave it out"
    if part != part.strip():
        return f"has '{part}' in its path, with a space at its end; rename it"
    return ""


def _source_name(name: str) -> str:
    fault = name_fault(name)
    if fault:
        raise ValueError(fault)
    return name


# The name of a file of a submission, with its folders.
SourceName = Annotated[str, AfterValidator(_source_name)]
