"""The table of kernel objects by which two containers that live at the same time could tell each other something.

`name` is what `objects.c` calls it: one container holds or changes the object, the other prints all that it can learn
of it, and must print the same as without. docs/sandbox.md has the table, printed by `python -m tests.hostile.objects`.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class SharedObject:
    """One kind of object: what keys it in the kernel, and what closes it."""

    name: str
    what: str
    keyed_by: str
    closed_by: str


OBJECTS = (
    SharedObject(
        "futex-waiters",
        "who waits on a futex: `FUTEX_WAIT`, `WAIT_BITSET`, `WAIT_REQUEUE_PI`, `LOCK_PI`, `futex_waitv`, `futex_wait`",
        "inode and offset of the page: one for all containers, for each file of /usr and in each kind of mapping",
        "process 1 answers `WAIT` and `WAIT_BITSET`, so the kernel's queue is empty; the others do not exist or need a "
        "writable page",
    ),
    SharedObject(
        "futex-wakers",
        "who wakes a futex: `FUTEX_WAKE`, the end of a thread (`clear_child_tid`), the robust list",
        "the same",
        "the same: such a wait ends when its word changes",
    ),
    SharedObject(
        "mappings",
        "whether other programs map a page of a file: `pagemap`, `smaps`, `numa_maps`",
        "the page of the file",
        "files of /proc cannot be read (Landlock)",
    ),
    SharedObject(
        "residency",
        "which pages of a file are in memory: `mincore`, `cachestat`, `RWF_NOWAIT`",
        "inode of the file",
        "the kernel (`mincore` needs write permission); system call filter",
    ),
    SharedObject(
        "locks",
        "`flock`, locks of processes and open files, leases, hints",
        "inode of the file",
        "system call filter: they hold nothing, or are refused",
    ),
    SharedObject(
        "watches",
        "inotify, fanotify, directory notices, io_uring, userfaultfd",
        "inode of the file; the host",
        "system call filter: refused",
    ),
    SharedObject(
        "host",
        "number of processes, load, free memory, free space: `sysinfo`, `statfs`, files of /proc",
        "the host; the file system",
        "process 1 gives all programs the same answer; no such files in /proc. "
        '`stat("/proc")` shows the number of processes: see below',
    ),
    SharedObject(
        "counters",
        "numbers of mounts, sessions, sockets, eventfds, users: `mountinfo`, `fdinfo`, `autogroup`, `sockstat`, "
        "`statx`",
        "the host",
        "files of /proc cannot be read (Landlock); `statx` and the like do not exist",
    ),
    SharedObject(
        "names",
        "abstract sockets, files of /dev/shm, System V objects, POSIX queues, keyrings",
        "namespace; user",
        "namespaces and file systems of the container's own; system call filter",
    ),
    SharedObject(
        "user",
        "pages of pipes, descriptors in flight, pending signals, processes",
        "user of the host",
        "each container has two users that no other has",
    ),
    SharedObject(
        "marks",
        "times, modes, links of shared files and devices",
        "inode",
        "read-only mounts",
    ),
    SharedObject(
        "processor",
        "affinity, priorities, CPU clocks of others",
        "user; pid namespace",
        "system call filter; users of its own",
    ),
)


def table() -> str:
    head = "| object | keyed by | closed by | tried by |\n|---|---|---|---|"
    rows = (f"| {kind.what} | {kind.keyed_by} | {kind.closed_by} | `{kind.name}` |" for kind in OBJECTS)
    return "\n".join((head, *rows))


if __name__ == "__main__":
    print(table())
