"""Runs of one submission that belong together leave each other nothing either: passes, and those of an interaction."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from judge.executor.channel import Job
from judge.executor.slot.pipeline import Pipeline
from judge.languages.table import extra_paths, load_table
from judge.model.messages import Result
from judge.sandbox import SandboxPool
from tests.hostile.cases import PIDS
from tests.hostile.runner import PROGRAMS
from tests.support import packages
from tests.support.sandbox import need_sandbox

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="the full sandbox needs root here: run as root"),
]

TABLE = load_table()
# The first pass leaves what it can, the next one says what it finds.
AGAIN = """
import sys
said = sys.stdin.read()
want = open(sys.argv[2]).read().splitlines()
if said == want[0] + "\\n" and open(sys.argv[1]).read().startswith("leave"):
    open(sys.argv[3] + "nextpass.in", "w").write(want[1])
    open(sys.argv[1], "w").write("again")  # the validator's own copy: its next call knows that it is the second
    sys.exit(42)
open(sys.argv[3] + "judgemessage.txt", "w").write(said)
sys.exit(42 if said == want[2] + "\\n" else 43)
"""
# Has everything there that a submission could look for, and looks for everything that it could have left.
BESIDE = """
import ctypes, os, socket, sys
libc = ctypes.CDLL(None)
def ids(make):
    return [call >= 0 for call in (libc.shmget(77, 4096, make), libc.msgget(77, make), libc.semget(77, 1, make))]
def files(flags):
    found = []
    for place in ("/scratch", "/tmp", "/dev/shm", "/box"):
        try:
            found.append(os.open(place + "/hostile-mark", flags, 0o666))
        except FileNotFoundError:
            pass
    return found
def names():
    try:
        socket.socket(socket.AF_UNIX).connect("\\0hostile-mark")
    except ConnectionRefusedError:
        return 0
    return 1
mode = open(sys.argv[1]).read()
if mode == "look":
    assert ids(0o1666) == [True] * 3 and len(files(os.O_CREAT | os.O_WRONLY)) == 4
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\\0hostile-mark")
    listener.listen()
print(mode, flush=True)
sys.stdout.close()
said = sys.stdin.readline()
seen = {} if mode == "look" else {"ids": any(ids(0)), "files": files(0), "names": names()}
found = [kind for kind in seen if seen[kind]]
processes = [one for one in os.listdir("/proc") if one.isdigit()]
open(sys.argv[3] + "judgemessage.txt", "w").write(f"{said} {found} {processes}")
sys.exit(42 if said == open(sys.argv[2]).read() and not found and len(processes) == 1 else 43)
"""
# The ends of the pipes are another user's: nobody opens one again, for the other way; what is set at one stays there.
ENDS = """
import fcntl, os, sys
found = []
for fd in (0, 1):
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
        try:
            os.open(f"/proc/self/fd/{fd}", flags | os.O_NONBLOCK)
            found.append(f"opened {fd} again")
        except PermissionError:
            pass
    for change in (lambda fd: os.utime(fd), lambda fd: os.fchmod(fd, 0o666), lambda fd: os.fchown(fd, 1000, 1000)):
        try:
            change(fd)
            found.append(f"marked {fd}")
        except PermissionError:
            pass
for fd in (0, 1):
    if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK:
        found.append(f"{fd} does not block")
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK)
    fcntl.fcntl(fd, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(fd, fcntl.F_SETSIG, 17)  # which does nothing
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)
    except OSError:
        pass
os.write(1, (", ".join(found) or "safe").encode() + b"\\n")
"""
WAITS = """
import sys
said = sys.stdin.readline()
open(sys.argv[3] + "judgemessage.txt", "w").write(said)
sys.exit(42 if said == "safe\\n" else 43)
"""


@pytest.fixture(scope="module")
def boxes() -> Iterator[SandboxPool]:
    need_sandbox()
    paths = extra_paths(TABLE.values())
    with contextlib.closing(SandboxPool(f"test-pairs-{os.getpid()}", paths=paths)) as pool:
        yield pool


@pytest.fixture
def judge(boxes: SandboxPool, work: Path) -> Callable[[Job], Result]:
    def judged(job: Job) -> Result:
        completion = Pipeline(take=boxes.take, tell=lambda _: None, table=TABLE, outputs=work).execute(job).completed
        assert completion is not None and not completion.retry, completion
        return completion.result

    return judged


def source(name: str) -> str:
    return (PROGRAMS / name).read_text().replace('#include "hostile.h"', (PROGRAMS / "hostile.h").read_text())


def package(work: Path, kind: str, validator: str, data: str, answer: str) -> packages.Data:
    yaml = f"problem_format_version: 2025-09\nname: X\ntype: {kind}\nlimits: {{time_limit: 20, memory: 128}}\n"
    files = {"problem.yaml": yaml, "output_validator/check.py": validator}
    files |= {"data/secret/1.in": data, "data/secret/1.ans": answer}
    return packages.load(packages.write(work / "package", files), work / "blobs")


@pytest.mark.parametrize(("name", "data", "answer"), [
    ("51_leftovers.c", "leave", "left\nlook\nclean\n"),
    ("51_counters.c", f"leave{PIDS.decode()}", f"left\nsee{PIDS.decode()}\nclean\n"),
    ("51_user.c", "leave", "left\nlook\nall\n"),
])  # fmt: skip
def test_the_next_pass_finds_nothing_of_the_one_before(judge, work, name, data, answer):
    result = judge(packages.job(package(work, "multi-pass", AGAIN, data, answer), "c", source(name)))
    (test,) = result.tests
    assert (test.verdict, test.passes) == ("AC", 2), (test.reason, test.message, test.output)


@pytest.mark.parametrize(("mode", "answer"), [("look", "clean\n"), ("leave", "left\n")])
def test_submission_and_validator_meet_nowhere_but_in_their_pipes(judge, work, mode, answer):
    job = packages.job(package(work, "interactive", BESIDE, mode, answer), "c", source("51_leftovers.c"))
    (test,) = judge(job).tests
    assert test.verdict == "AC", (test.reason, test.message, test.error)


def test_the_ends_of_the_pipes_are_good_for_nothing_else(judge, work):
    (test,) = judge(packages.job(package(work, "interactive", WAITS, "", ""), "python3", ENDS)).tests
    assert test.verdict == "AC", (test.reason, test.message, test.error)
