"""Two sandboxes that live at the same time tell each other nothing by the files that they share (lines 48 to 52)."""

import ctypes
import fcntl
import mmap
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from judge.model.messages import Limits
from judge.sandbox import Command, Sandbox
from tests.hostile.objects import OBJECTS, SharedObject, table
from tests.support.sandbox import need_sandbox, pool, program, run_c, text

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="the full sandbox needs root here: run as root"),
]

# A wait that process 1 answers needs a core; the suites run beside others.
LIMITS = Limits(cpu=20, wall=100, memory=256 * 1024**2, processes=64, files=1024)

HEAD = """
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <unistd.h>
static const char *shared[] = {"/usr/bin/env", "/usr", "/dev/null", "/dev/zero", "/etc/ld.so.cache"};
"""
# Holds whatever it gets, says so on its stdin (a socket), and keeps it until the other end closes.
HOLDER = (
    HEAD
    + """
int main(void) {
    char byte;
    for (int i = 0; i < 5; i++) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int fd = open(shared[i], O_RDWR);
        if (fd < 0) { fd = open(shared[i], O_RDONLY); lock.l_type = F_RDLCK; }
        unsigned long hint = 4;
        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) return 2;
        fcntl(fd, F_OFD_SETLK, &lock);
        fcntl(fd, F_SET_RW_HINT, &hint);
    }
    write(0, "h", 1);
    read(0, &byte, 1);
    return 0;
}
"""
)
# Says all that it finds out.
SPY = (
    HEAD
    + """
int main(void) {
    for (int i = 0; i < 5; i++) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET}, seen = lock;
        int fd = open(shared[i], O_RDWR);
        if (fd < 0) { fd = open(shared[i], O_RDONLY); lock.l_type = F_RDLCK; }
        unsigned long hint = 0;
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) printf("%s: flock says %d\\n", shared[i], errno);
        if (fcntl(fd, F_OFD_SETLK, &lock) < 0) printf("%s: F_OFD_SETLK says %d\\n", shared[i], errno);
        if (fcntl(fd, F_OFD_GETLK, &seen) == 0 && seen.l_type != F_UNLCK) printf("%s: a lock is there\\n", shared[i]);
        if (fcntl(fd, F_GET_RW_HINT, &hint) == 0 && hint) printf("%s: the hint is %lu\\n", shared[i], hint);
        int watch = inotify_init1(IN_NONBLOCK);
        if (watch >= 0 && inotify_add_watch(watch, shared[i], IN_ALL_EVENTS) >= 0) printf("%s: watched\\n", shared[i]);
    }
    puts("end");
}
"""
)


@pytest.fixture(scope="module")
def two() -> Iterator[tuple[Sandbox, Sandbox]]:
    need_sandbox()
    with pool("first") as pool_1, pool("second") as pool_2, pool_1.take() as first, pool_2.take() as second:
        yield first, second


def while_held(box: Sandbox, program: list[str], meanwhile: Callable[[], str]) -> str:
    """What `meanwhile` returns while a program in this sandbox holds what it has said that it got."""
    near, theirs = socket.socketpair()
    ended: list[str] = []

    def hold() -> None:
        with box.run(Command(program, LIMITS, stdin=theirs.fileno())) as outcome:
            ended.append(f"{outcome.exit_code} {' '.join(sorted(outcome.killed))} {outcome.read_stderr().decode()}")

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        near.settimeout(60)
        assert near.recv(1) == b"h", ended
        result = meanwhile()
    finally:
        near.close()
        thread.join()
        theirs.close()
    assert ended == ["0  "]
    return result


def test_locks_and_hints_of_one_sandbox_do_not_show_in_another(two: tuple[Sandbox, Sandbox]) -> None:
    first, second = two
    first.put("run", program(HOLDER), 0o755)
    assert while_held(first, ["/box/run"], lambda: text(run_c(second, SPY))) == "end\n"


@pytest.fixture(scope="module")
def objects() -> bytes:
    return program(Path(__file__).with_name("objects.c").read_text(), "-pthread")


@pytest.mark.parametrize("shared", OBJECTS, ids=lambda shared: shared.name)
def test_a_held_object_does_not_show_in_another_container(
    two: tuple[Sandbox, Sandbox], objects: bytes, shared: SharedObject
) -> None:
    first, second = two
    for box in two:
        box.put("objects", objects, 0o755)

    def see() -> str:
        return text(second.run(Command(["/box/objects", "see", shared.name], LIMITS)))

    alone = see()
    assert alone.strip(), "the program printed nothing: it tried nothing"
    assert while_held(first, ["/box/objects", "hold", shared.name], see) == alone
    assert see() == alone


def test_the_page_of_shared_objects_is_the_table() -> None:
    page = Path(__file__).parents[2] / "docs/sandbox.md"
    assert table() in page.read_text(), "print it with python -m tests.hostile.objects"


def test_locks_of_the_hosts_programs_do_not_show(two: tuple[Sandbox, Sandbox]) -> None:
    """A program cannot tell whether a daemon of the host has locked a file that both can open."""
    with Path("/usr/bin/env").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert text(run_c(two[1], SPY)) == "end\n"


MARKS = """
#include <stdio.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>
static const char *nodes[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"};
int main(int argc, char **argv) {
    for (int i = 0; i < 6; i++) {
        struct timespec times[2] = {{1000 + i, 0}, {2000 + i, 0}}, now[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
        struct stat seen;
        if (argc > 1) {
            utimensat(AT_FDCWD, nodes[i], times, 0);
            utimensat(AT_FDCWD, nodes[i], now, 0);
            chmod(nodes[i], 0600);
        }
        stat(nodes[i], &seen);
        printf("%s %ld.%ld %ld.%ld %ld.%ld %o\\n", nodes[i], seen.st_mtim.tv_sec, seen.st_mtim.tv_nsec,
               seen.st_ctim.tv_sec, seen.st_ctim.tv_nsec, seen.st_atim.tv_sec, seen.st_atim.tv_nsec, seen.st_mode);
    }
    return 0;
}
"""


def test_no_mark_on_a_device_reaches_another_container(two: tuple[Sandbox, Sandbox]) -> None:
    before = text(run_c(two[1], MARKS))
    assert text(run_c(two[0], MARKS, None, "mark")) == before
    assert text(run_c(two[1], MARKS)) == before


def test_a_program_cannot_drop_pages_from_the_page_cache(two: tuple[Sandbox, Sandbox]) -> None:
    """What one drops, the next reads slowly: a message, and a forged account of memory."""
    path = Path("/usr/bin/env")
    drop = """
#include <fcntl.h>
#include <sys/mman.h>
int main(void) {
    int fd = open("/usr/bin/env", O_RDONLY);
    char *at = mmap(0, 1 << 14, PROT_READ, MAP_PRIVATE, fd, 0);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    madvise(at, 1 << 14, 21);
    return 0;
}
"""
    size = path.stat().st_size
    residency = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    with path.open("rb") as file:  # open meanwhile: some file systems drop the pages of files that nobody has open
        file.read()
        run_c(two[0], drop).close()
        mapping = ctypes.c_void_p(libc.mmap(None, ctypes.c_size_t(size), 1, mmap.MAP_PRIVATE, file.fileno(), 0))
        assert libc.mincore(mapping, ctypes.c_size_t(size), residency) == 0
        libc.munmap(mapping, ctypes.c_size_t(size))
    assert all(page & 1 for page in residency)
