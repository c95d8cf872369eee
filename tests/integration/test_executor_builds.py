"""What a compiler left in /box is the same in the slots that help: packed and unpacked in real sandboxes."""

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from judge.executor.slot import builds
from judge.model.messages import Limits
from judge.sandbox import Command, Sandbox, SandboxPool
from tests.support.sandbox import FULL_SANDBOX, need_sandbox, pool

pytestmark = [*FULL_SANDBOX, pytest.mark.timeout(600)]

LIMITS = Limits(cpu=20, wall=60, memory=256 * 1024**2, output=400 * 1024**2)
# Each entry is [kind, name, text, mode, time in ns]; names are latin-1, so that any byte can be one.
MAKE = """
import json, os, socket, sys
os.umask(0)
times = []
for kind, name, text, mode, time in json.load(sys.stdin):
    path = os.path.join(b"/box", name.encode("latin-1"))
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except FileExistsError:
        continue
    if os.path.lexists(path):
        continue
    if kind == "file":
        with open(path, "wb") as file:
            file.write(text.encode("latin-1"))
    elif kind == "sparse":
        with open(path, "wb") as file:
            file.truncate(200 << 20)
            file.seek(123 << 20)
            file.write(text.encode("latin-1"))
    elif kind == "dir":
        os.mkdir(path)
    elif kind == "symlink":
        os.symlink(text.encode("latin-1") or b"x", path)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        socket.socket(socket.AF_UNIX).bind(path)
    elif kind == "hard":
        files = [one for one, how in times if how == "file"]
        os.link(files[len(text) % len(files)], path) if files else os.mkdir(path)
        continue
    if kind != "symlink":
        os.chmod(path, mode)
    os.utime(path, ns=(time, time), follow_symlinks=False)
    times.append((path, kind))
"""
LIST = """
import hashlib, os
inodes = {}
def show(path):
    at = os.lstat(path)
    what = ""
    if os.path.islink(path):
        what = os.readlink(path)
    elif os.path.isfile(path):
        with open(path, "rb") as file:
            what = hashlib.file_digest(file, "sha256").hexdigest()
    same = sorted(inodes[at.st_ino]) if os.path.isfile(path) else ""
    print(repr(path), oct(at.st_mode), at.st_size, at.st_mtime_ns, at.st_nlink, at.st_uid, at.st_blocks, same, what)
    if os.path.isdir(path) and not os.path.islink(path):
        for name in os.listdir(path):
            show(os.path.join(path, name))
for folder, _, names in os.walk(b"/box"):
    for name in names:
        inodes.setdefault(os.lstat(os.path.join(folder, name)).st_ino, []).append(os.path.join(folder, name))
show(b"/box")
"""


@pytest.fixture(scope="module")
def boxes() -> Iterator[SandboxPool]:
    need_sandbox()
    with pool("builds") as boxes:
        yield boxes


def python(box: Sandbox, script: str, *, writable: bool, stdin: bytes = b"") -> str:
    fd = os.memfd_create("stdin")
    try:
        os.write(fd, stdin)
        os.lseek(fd, 0, os.SEEK_SET)
        argv = ["/usr/bin/python3", "-c", script]
        with box.run(Command(argv=argv, limits=LIMITS, writable=writable, stdin=fd)) as outcome:
            assert outcome.exit_code == 0, outcome.read_stderr()
            return outcome.read_stdout().decode()
    finally:
        os.close(fd)


def copied(boxes: SandboxPool, tree: list[list[Any]]) -> tuple[str, str | None]:
    """What is in a box, and in one that it was copied to; None when it cannot be packed."""
    with contextlib.closing(boxes.take()) as origin, contextlib.closing(boxes.take()) as target:
        python(origin, MAKE, writable=True, stdin=json.dumps(tree).encode())
        with origin.run(builds.packing()) as outcome:
            data = builds.packed(outcome)
        before = python(origin, LIST, writable=False)
        if data is None:
            return before, None
        with os.fdopen(data):
            assert builds.unpack(target.run, data) == ""
        return before, python(target, LIST, writable=False)


TIME = 1_000_000_000_123_456_789
RICH = [
    ["file", "packed.tar", "hi\n", 0o644, TIME],
    ["file", "box.tar", "", 0o600, TIME],
    ["file", "-rf", "an option", 0o755, TIME],
    ["file", "--checkpoint-action=exec=sh", "", 0o644, TIME],
    ["file", "new\nline \xff\xfe \\n*?[", "odd", 0o604, TIME + 1],
    ["file", "a/" + "d" * 200 + "/" + "n" * 255, "long", 0o640, TIME],
    ["dir", "empty", "", 0o711, TIME],
    ["dir", "empty/too", "", 0o1777, TIME],
    ["hard", "linked", "", 0, TIME],
    ["hard", "z/linked", "x", 0, TIME],
    ["symlink", "dangling", "/etc/../nowhere", 0, TIME],
    ["symlink", "up", "..", 0, TIME],
    ["sparse", "holes", "here", 0o644, TIME],
    ["fifo", "pipe", "", 0o622, TIME],
    ["file", "setuid", "#!/bin/sh", 0o4755, TIME],
]


def test_a_copied_box_is_the_same(boxes):
    """Names that are options, that were once the executor's own, or no text; links, holes, modes and times."""
    before, after = copied(boxes, RICH)
    assert "packed.tar" in before
    assert sorted(before.splitlines()) == sorted(after.splitlines())


def test_files_are_listed_in_the_same_order(boxes):
    """As far as they are no links: a program may take the first file that it finds."""
    before, after = copied(boxes, [["file", str(number * 7919 % 100), "", 0o644, TIME] for number in range(100)])
    assert [line.split()[0] for line in before.splitlines()] == [line.split()[0] for line in after.splitlines()]


def test_a_box_with_a_socket_is_not_shared(boxes):
    assert copied(boxes, [["socket", "s", "", 0o644, TIME]])[1] is None


LATIN = st.characters(min_codepoint=1, max_codepoint=255, exclude_characters="/")
NAME = st.text(LATIN, min_size=1, max_size=30).filter(lambda name: name not in {".", ".."})
ENTRY = st.tuples(
    st.sampled_from(["file", "dir", "symlink", "hard"]),
    st.lists(NAME, min_size=1, max_size=2).map("/".join),
    st.text(st.characters(min_codepoint=1, max_codepoint=255), max_size=20),
    st.sampled_from([0o400, 0o555, 0o644, 0o700, 0o2775]),
    st.integers(0, 2 * 10**18),
)


@settings(max_examples=15, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(st.lists(ENTRY, max_size=12))
def test_any_copied_box_is_the_same(boxes, tree):
    files = [entry for entry in tree if entry[0] == "file"]
    links = [entry for entry in tree if entry[0] != "file" and "/" not in entry[1]]
    before, after = copied(boxes, [list(entry) for entry in files + links])
    assert after is None or sorted(before.splitlines()) == sorted(after.splitlines())
