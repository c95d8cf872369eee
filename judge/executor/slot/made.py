"""Whether a compiler that ended well has made a program: its exit code alone does not say."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping

from judge.executor.slot.program import Program
from judge.languages.table import BOX

_ELF, _SCRIPT, _ARCHIVE = b"\x7fELF", b"#!", b"!<arch>\n"
# e_type: relocatable, executable, shared. p_type: dynamic, interpreter. d_tag, and the bit that says: a program.
_REL, _EXEC, _DYN = 1, 2, 3
_PT_DYNAMIC, _PT_INTERP = 2, 3
_DT_FLAGS_1, _DF_1_PIE = 0x6FFFFFFB, 0x08000000
_HEADERS, _DYNAMIC_BYTES = 64, 64 * 1024


def made_fault(program: Program, get: Callable[[str], int | None]) -> str:
    """The reason why a build has made no program that can be started, to end a sentence with; empty when it has.

    `get` opens a regular file below /box, or says None.
    """
    for name in program.products:
        fd = get(name)
        if fd is None:
            return f"made no program: there is no file {BOX}/{name}"
        try:
            fault = _executable_fault(fd) if program.run[0] == f"{BOX}/{name}" else ""
        finally:
            os.close(fd)
        if fault:
            return f"made no program: {BOX}/{name} {fault}"
    return _main_fault(program.files) if program.needs_main else ""


def _main_fault(files: Mapping[str, bytes]) -> str:
    """Classes without a main compile. A name may be written with escapes, so a source that has any is believed."""
    if any(b"main" in data or b"\\u" in data for data in files.values()):
        return ""
    return "made no program: no class has a method main"


def _executable_fault(fd: int) -> str:
    head = os.pread(fd, 64, 0)
    if head.startswith(_ARCHIVE):
        return "is a library"
    if head.startswith(_ELF):
        fault = _elf_fault(fd, head)
        if fault:
            return fault
    elif not head.startswith(_SCRIPT):
        return "is no executable file"
    return "" if os.fstat(fd).st_mode & 0o111 else "is not executable"


def _elf_fault(fd: int, head: bytes) -> str:
    """Shared objects may say that they are programs: by an interpreter, or by a flag where they need none."""
    if len(head) < 64 or head[4] != 2:
        return "is no executable file of this machine"
    order = "<" if head[5] == 1 else ">"
    kind = struct.unpack_from(order + "H", head, 16)[0]
    if kind == _EXEC:
        return ""
    if kind != _DYN:
        return "is an object file" if kind == _REL else "is no executable file"
    place, size, count = (
        struct.unpack_from(order + form, head, at)[0] for form, at in (("Q", 32), ("H", 54), ("H", 56))
    )
    for index in range(min(count, _HEADERS)):
        entry = _part(fd, place + index * size, 56)
        if len(entry) < 56:
            break
        segment, _, offset, _, _, length = struct.unpack_from(order + "IIQQQQ", entry)
        if segment == _PT_INTERP:
            return ""
        if segment == _PT_DYNAMIC and _says_program(_part(fd, offset, min(length, _DYNAMIC_BYTES)), order):
            return ""
    return "is a library"


def _part(fd: int, offset: int, count: int) -> bytes:
    """A part of a file; nothing where the file says that it lies beyond its end."""
    return os.pread(fd, count, offset) if offset < os.fstat(fd).st_size else b""


def _says_program(dynamic: bytes, order: str) -> bool:
    entries = struct.iter_unpack(order + "QQ", dynamic[: len(dynamic) // 16 * 16])
    return any(tag == _DT_FLAGS_1 and value & _DF_1_PIE for tag, value in entries)
