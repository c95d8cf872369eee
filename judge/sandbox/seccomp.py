"""The system call filter of submitted programs: everything is allowed but what follows.

Only compilers and runtimes of the host run here, under no privilege and in empty namespaces; the filter takes away
what namespaces and limits do not: covert channels, the kernel's rarely used corners, and clear attacks.
"""

from __future__ import annotations

import errno
import os

import pyseccomp as sc

# Never asked for by a program that judges fairly: the process is killed and the verdict is "forbidden act".
_KILLED = """
    mount umount2 pivot_root chroot mount_setattr open_tree move_mount fsopen fsconfig fsmount fspick setns
    ptrace bpf kexec_load kexec_file_load init_module finit_module delete_module create_module reboot swapon swapoff
""".split()  # noqa: SIM905 - a list of words reads best as words

# Tried harmlessly by runtimes and libraries, which go on without.
_REFUSED = """
    keyctl add_key request_key unshare perf_event_open userfaultfd open_by_handle_at name_to_handle_at
    process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd lookup_dcookie acct
    quotactl quotactl_fd fanotify_init syslog vhangup uselib iopl ioperm modify_ldt sched_setaffinity memfd_secret
    settimeofday clock_settime sethostname setdomainname nfsservctl _sysctl migrate_pages move_pages
""".split()  # noqa: SIM905 - as above

# As if the kernel were older: the C library falls back. Flags of clone3 lie in memory, where no filter can read them.
# inotify would tell when others open files that all containers share, cachestat who has read them.
_MISSING = """
    clone3 io_uring_setup io_uring_enter io_uring_register inotify_init inotify_init1 inotify_add_watch cachestat
""".split()  # noqa: SIM905 - as above

# Calls newer than the oldest supported libseccomp, by number (the same on every architecture).
_NUMBERS = {
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "memfd_secret": 447,
    "process_mrelease": 448,
    "cachestat": 451,
}
_OPEN_TREE_ATTR = 467

_NAMESPACES = [0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000]
_LOW = 0xFFFFFFFF
_F_SETLEASE, _F_NOTIFY = 1024, 1026
# F_SETLK and F_SETLKW, for a process and for an open file description; F_GETLK of both. 64-bit names are the same here.
_SET_LOCK, _GET_LOCK = (6, 7, 37, 38), (5, 36)
# F_GET_RW_HINT to F_SET_FILE_RW_HINT: a number that anybody may leave at a shared file (Linux before 6.9).
_HINTS = (1035, 1036, 1037, 1038)
_RWF_NOWAIT = 8
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_QUERY_PERSONALITY = 0xFFFFFFFF
# AF_UNIX, AF_INET and AF_INET6 stay (Java opens an AF_INET6 socket at start; there is no network to reach).
_AF_FIRST_ODD, _AF_INET6 = 3, 10


def build() -> bytes:
    """The filter as a BPF program (an array of `struct sock_filter`), for the agent to load before each exec."""
    rules = sc.SyscallFilter(sc.ALLOW)
    rules.set_attr(sc.Attr.ACT_BADARCH, sc.KILL_PROCESS)  # foreign ABIs: 32-bit and x32 calls
    # A search tree: the kernel tries every number when a filter is set, and each run sets it (docs/decisions/011).
    rules.set_attr(sc.Attr.CTL_OPTIMIZE, 2)
    for name in _KILLED:
        _add(rules, sc.KILL_PROCESS, name)
    rules.add_rule(sc.KILL_PROCESS, _OPEN_TREE_ATTR)
    refuse = sc.ERRNO(errno.EPERM)
    for name in _REFUSED:
        _add(rules, refuse, name)
    for name in _MISSING:
        _add(rules, sc.ERRNO(errno.ENOSYS), name)
    for flag in _NAMESPACES:
        _add(rules, refuse, "clone", sc.Arg(0, sc.MASKED_EQ, flag, flag))
    for call in ("socket", "socketpair"):
        unknown = sc.ERRNO(errno.EAFNOSUPPORT)
        for family in range(_AF_FIRST_ODD, _AF_INET6):
            _add(rules, unknown, call, sc.Arg(0, sc.EQ, family))
        _add(rules, unknown, call, sc.Arg(0, sc.GT, _AF_INET6))
    _add_files(rules)
    for request in (_TIOCSTI, _TIOCLINUX):
        _add(rules, refuse, "ioctl", sc.Arg(1, sc.MASKED_EQ, _LOW, request))
    _add(rules, refuse, "personality", sc.Arg(0, sc.NE, _QUERY_PERSONALITY))
    _add(rules, refuse, "prlimit64", sc.Arg(0, sc.NE, 0))
    return _export(rules)


def _add_files(rules: sc.SyscallFilter) -> None:
    """What can be left at, or learned from, a file that containers share (of /usr, or /dev/null).

    Locks are said to be taken, and are not (docs/decisions/006): they are messages to whoever tries the same one, and
    no filter can tell such a file from the program's own.
    """
    for command in (_F_SETLEASE, _F_NOTIFY):
        _add(rules, sc.ERRNO(errno.EPERM), "fcntl", sc.Arg(1, sc.MASKED_EQ, _LOW, command))
    for command in _HINTS:
        _add(rules, sc.ERRNO(errno.EINVAL), "fcntl", sc.Arg(1, sc.MASKED_EQ, _LOW, command))
    for call in ("preadv2", "pwritev2"):
        _add(rules, sc.ERRNO(errno.EOPNOTSUPP), call, sc.Arg(5, sc.MASKED_EQ, _RWF_NOWAIT, _RWF_NOWAIT))
    taken = sc.ERRNO(0)
    _add(rules, taken, "flock")
    for command in _SET_LOCK:
        _add(rules, taken, "fcntl", sc.Arg(1, sc.MASKED_EQ, _LOW, command))
    for command in _GET_LOCK:
        _add(rules, sc.ERRNO(errno.ENOLCK), "fcntl", sc.Arg(1, sc.MASKED_EQ, _LOW, command))


def _add(rules: sc.SyscallFilter, action: int, name: str, *args: sc.Arg) -> None:
    """One rule; a call that this architecture never had is skipped."""
    try:
        number = sc.resolve_syscall(sc.Arch.NATIVE, name)
    except (OSError, ValueError):
        number = -1
    if number < 0:
        number = _NUMBERS.get(name, -1)
    if number >= 0:
        rules.add_rule(action, number, *args)


def _export(rules: sc.SyscallFilter) -> bytes:
    fd = os.memfd_create("judge-seccomp", os.MFD_CLOEXEC)
    with os.fdopen(fd, "w+b", buffering=0) as file:
        rules.export_bpf(file)
        return os.pread(fd, os.fstat(fd).st_size, 0)
