"""The system call filter of submitted programs: everything up to the newest call known here, but what follows.

Only compilers and runtimes of the host run here, under no privilege and in empty namespaces; the filter takes away
what namespaces and limits do not: covert channels, objects that the whole host has to share, the kernel's rarely used
corners, and clear attacks. docs/sandbox.md lists them by kernel object.
"""

from __future__ import annotations

import errno
import os
import struct

import pyseccomp as sc

from judge.common.files import in_memory

# Never asked for by a program that judges fairly: the process is killed and the verdict is "forbidden act".
_KILLED = """
    mount umount2 pivot_root chroot mount_setattr open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick
    setns ptrace bpf kexec_load kexec_file_load init_module finit_module delete_module create_module reboot swapon
    swapoff
""".split()  # noqa: SIM905 - a list of words reads best as words

# Tried harmlessly by runtimes and libraries, which go on without. sched_setattr sets the length of a process's turns
# (Linux 6.12): the slot would wait for the core.
_REFUSED = """
    keyctl add_key request_key unshare perf_event_open userfaultfd open_by_handle_at name_to_handle_at
    process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd lookup_dcookie acct
    quotactl quotactl_fd fanotify_init syslog vhangup uselib iopl ioperm modify_ldt sched_setaffinity memfd_secret
    settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname nfsservctl _sysctl migrate_pages
    move_pages ioprio_set sched_setattr
""".split()  # noqa: SIM905 - as above

# As if the kernel were older or built without: libraries fall back. Flags of clone3 and openat2 lie in memory, where no
# filter can read them. inotify would tell when others open files that all containers share, cachestat who has read
# them; contexts of asynchronous I/O are counted for the whole host; filters of a program's own take from its bound of
# compiled BPF; mbind makes every processor empty its page lists; mounts have numbers that count the whole host's;
# queues of POSIX count for their user until their namespace is taken apart, which is after the next run's start. statx
# shows numbers of mounts. Process 1 answers sysinfo, statfs and waits for a futex (calls.c).
_MISSING = """
    clone3 openat2 io_uring_setup io_uring_enter io_uring_register inotify_init inotify_init1 inotify_add_watch
    cachestat io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents seccomp landlock_create_ruleset
    landlock_add_rule landlock_restrict_self futex_waitv futex_wake futex_wait futex_requeue statmount listmount
    lsm_get_self_attr lsm_set_self_attr lsm_list_modules file_getattr file_setattr mbind set_mempolicy get_mempolicy
    set_mempolicy_home_node ustat sysfs mq_open
    statx
""".split()  # noqa: SIM905 - as above

# They succeed and do nothing. What a program can write lies in memory, so nothing waits to be written; what it can only
# read belongs to the host, whose disk and page cache are not its to command. A lock would be a message (decisions/006).
_IGNORED = "sync syncfs fsync fdatasync sync_file_range fadvise64 readahead flock".split()  # noqa: SIM905 - as above

# Calls newer than the oldest supported libseccomp, by number (the same on every architecture).
_NUMBERS = {
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "memfd_secret": 447,
    "process_mrelease": 448,
    "futex_waitv": 449,
    "set_mempolicy_home_node": 450,
    "cachestat": 451,
    "futex_wake": 454,
    "futex_wait": 455,
    "futex_requeue": 456,
    "statmount": 457,
    "listmount": 458,
    "lsm_get_self_attr": 459,
    "lsm_set_self_attr": 460,
    "lsm_list_modules": 461,
    "open_tree_attr": 467,
    "file_getattr": 468,
    "file_setattr": 469,
}
# The newest call that was looked at for this filter. Later ones do not exist, whatever the kernel has.
NEWEST = 469

_NAMESPACES = [0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000]
_LOW = 0xFFFFFFFF
_F_SETFL, _F_SETLEASE, _F_NOTIFY = 4, 1024, 1026
# F_SETLK and F_SETLKW, for a process and for an open file description; F_GETLK of both. 64-bit names are the same here.
_SET_LOCK, _GET_LOCK = (6, 7, 37, 38), (5, 36)
# F_GET_RW_HINT to F_SET_FILE_RW_HINT: a number that anybody may leave at a shared file (Linux before 6.9).
_HINTS = (1035, 1036, 1037, 1038)
# The newest request of fcntl that was looked at. F_GETDELEG and later ones do not exist.
_F_LAST = 1038
# O_TMPFILE without the O_DIRECTORY that is part of it.
_TMPFILE = 0x400000
_MS_SYNC = 4
# MADV_COLD and MADV_PAGEOUT; MADV_MERGEABLE (KSM is for the whole host) and MADV_COLLAPSE (changes files' page cache).
_MADV_NOTHING, _MADV_REFUSED = (20, 21), (12, 25)
# MADV_GUARD_INSTALL and MADV_GUARD_REMOVE: they write a page table entry for each page, and no signal ends them.
_MADV_GUARDS = (102, 103)
# Bytes that one call of mincore may ask about, 2 ms of work: no signal ends it, however long the range is.
_MINCORE_BYTES = 1 << 28
# Pages out of a pool that the whole host shares: MAP_HUGETLB, MFD_HUGETLB, SHM_HUGETLB.
_HUGE = (("mmap", 3, 0x40000), ("memfd_create", 1, 0x4), ("shmget", 2, 0o4000))
# Shared memory that is locked counts for its user as POSIX queues do. mlock is the process's own.
_SHM_LOCK = 11
# Terminals' and descriptors' own requests (FIONREAD, FIONBIO, TCGETS …), all that programs ask for here.
_IOCTL_FIRST, _IOCTL_LAST = 0x5400, 0x54FF
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_FIONBIO = 0x5421
# stdout and stderr.
_OUTPUTS = (1, 2)
_QUERY_PERSONALITY = 0xFFFFFFFF
# Filters are compiled into memory that is bounded for the whole host (bpf_jit_limit): SO_ATTACH_FILTER, SO_LOCK_FILTER,
# SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF, SO_ATTACH_REUSEPORT_EBPF.
_FILTERS = (26, 44, 50, 51, 52)
# SO_COOKIE, SO_NETNS_COOKIE: numbers that count the sockets and namespaces of the whole host.
_COOKIES = (57, 71)
_SOL_SOCKET = 1
# PR_SET_SECCOMP, PR_SET_MM, PR_SCHED_CORE (keeps others off the sibling thread), PR_SET_MEMORY_MERGE; newer ones are
# refused unseen.
_PRCTL_REFUSED, _PRCTL_LAST = (22, 35, 62, 67), 79
# Interrupts on other processors: MEMBARRIER_CMD_GLOBAL_EXPEDITED and the registration for it.
_BARRIERS = (2, 4)
# There is no network to reach, and what IP sockets hold is not all counted (decisions/015).
_AF_UNIX = 1
# The CPU clocks of processes 1 to 7, as (mask, value) of a clock's number, which is ~pid << 3 and a kind: the agent and
# its helpers have those pids, and their clocks go on from run to run. Everybody in a pid namespace may read them.
_AGENTS_CLOCKS = ((0xFFFFFFF8, 0xFFFFFFF0), (0xFFFFFFF0, 0xFFFFFFE0), (0xFFFFFFE0, 0xFFFFFFC0))

_RLIMIT_CORE = 4

# Instructions before those of libseccomp, which has no rule for a range of numbers: a call after NEWEST gets ENOSYS.
# Numbers of x32 begin at 0x40000000; libseccomp's instructions kill those and other architectures.
_LOAD, _GREATER, _AT_LEAST, _RETURN, _ERRNO = 0x20, 0x25, 0x35, 0x06, 0x00050000
_HEAD = (
    (_LOAD, 0, 0, 0),
    (_AT_LEAST, 2, 0, 0x40000000),
    (_GREATER, 0, 1, NEWEST),
    (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
)


def build() -> bytes:
    """Build the filter as a BPF program (an array of `struct sock_filter`), which the agent loads before each exec."""
    rules = sc.SyscallFilter(sc.ALLOW)
    rules.set_attr(sc.Attr.ACT_BADARCH, sc.KILL_PROCESS)  # foreign ABIs: 32-bit and x32 calls
    # A search tree: the kernel tries every number when a filter is set, and each run sets it (docs/decisions/004).
    rules.set_attr(sc.Attr.CTL_OPTIMIZE, 2)
    refuse, missing, ignored = sc.ERRNO(errno.EPERM), sc.ERRNO(errno.ENOSYS), sc.ERRNO(0)
    for action, names in ((sc.KILL_PROCESS, _KILLED), (refuse, _REFUSED), (missing, _MISSING), (ignored, _IGNORED)):
        for name in names:
            _add(rules, action, name)
    for flag in _NAMESPACES:
        _add(rules, refuse, "clone", sc.Arg(0, sc.MASKED_EQ, flag, flag))
    _add(rules, refuse, "personality", sc.Arg(0, sc.NE, _QUERY_PERSONALITY))
    _add(rules, refuse, "prlimit64", sc.Arg(0, sc.NE, 0))
    # Programs may ask for core files, as on any host, and get none.
    _add(rules, ignored, "setrlimit", _low(0, _RLIMIT_CORE))
    _add(
        rules,
        ignored,
        "prlimit64",
        sc.Arg(0, sc.EQ, 0),
        _low(1, _RLIMIT_CORE),
        sc.Arg(2, sc.NE, 0),
        sc.Arg(3, sc.EQ, 0),
    )
    _add_files(rules)
    _add_memory(rules)
    _add_sockets(rules)
    invalid = sc.ERRNO(errno.EINVAL)
    for option in _PRCTL_REFUSED:
        _add(rules, invalid, "prctl", _low(0, option))
    _add(rules, invalid, "prctl", sc.Arg(0, sc.GT, _PRCTL_LAST))
    for command in _BARRIERS:
        _add(rules, invalid, "membarrier", _low(0, command))
    for call in ("clock_gettime", "clock_nanosleep", "timer_create"):
        for mask, value in _AGENTS_CLOCKS:
            _add(rules, invalid, call, sc.Arg(0, sc.MASKED_EQ, mask, value))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in _HEAD) + _export(rules)


def _add_files(rules: sc.SyscallFilter) -> None:
    """Rules for what can be left at, or learned from, a file that containers share (of /usr, or /dev/null).

    Lock calls succeed without taking a lock (docs/decisions/006): a lock is a message to a process that tries it, and
    no filter can tell such a file from the program's own.
    """
    for command in (_F_SETLEASE, _F_NOTIFY):
        _add(rules, sc.ERRNO(errno.EPERM), "fcntl", _low(1, command))
    for command in _HINTS:
        _add(rules, sc.ERRNO(errno.EINVAL), "fcntl", _low(1, command))
    for command in _SET_LOCK:
        _add(rules, sc.ERRNO(0), "fcntl", _low(1, command))
    for command in _GET_LOCK:
        _add(rules, sc.ERRNO(errno.ENOLCK), "fcntl", _low(1, command))
    _add(rules, sc.ERRNO(errno.EINVAL), "fcntl", sc.Arg(1, sc.GT, _F_LAST))
    # Inodes that never have a name are counted by their file system and leave no trace in a directory: the next run
    # could tell how many there were. Libraries fall back to names.
    for call, position in (("open", 1), ("openat", 2)):
        _add(rules, sc.ERRNO(errno.EOPNOTSUPP), call, sc.Arg(position, sc.MASKED_EQ, _TMPFILE, _TMPFILE))
    for call in ("preadv2", "pwritev2"):  # such as "only from the page cache", "and drop it there"
        _add(rules, sc.ERRNO(errno.EOPNOTSUPP), call, sc.Arg(5, sc.NE, 0))
    # Outputs are pipes, and wait: runtimes make each pipe non-blocking (Node.js), and would lose at their end what does
    # not fit into it, or give up with EAGAIN.
    for output in _OUTPUTS:
        _add(rules, sc.ERRNO(0), "ioctl", _low(0, output), sc.Arg(1, sc.EQ, _FIONBIO))
        nonblocking = sc.Arg(2, sc.MASKED_EQ, os.O_NONBLOCK, os.O_NONBLOCK)
        _add(rules, sc.ERRNO(0), "fcntl", _low(0, output), _low(1, _F_SETFL), nonblocking)
    # Reads past the page cache would be the disk's time, and come in no account.
    direct = os.O_DIRECT
    _add(rules, sc.ERRNO(errno.EINVAL), "open", sc.Arg(1, sc.MASKED_EQ, direct, direct))
    _add(rules, sc.ERRNO(errno.EINVAL), "openat", sc.Arg(2, sc.MASKED_EQ, direct, direct))
    _add(rules, sc.ERRNO(errno.EINVAL), "fcntl", _low(1, _F_SETFL), sc.Arg(2, sc.MASKED_EQ, direct, direct))
    no_terminal = sc.ERRNO(errno.ENOTTY)
    _add(rules, no_terminal, "ioctl", sc.Arg(1, sc.LT, _IOCTL_FIRST))
    _add(rules, no_terminal, "ioctl", sc.Arg(1, sc.GT, _IOCTL_LAST))
    for request in (_TIOCSTI, _TIOCLINUX):
        _add(rules, sc.ERRNO(errno.EPERM), "ioctl", sc.Arg(1, sc.EQ, request))


def _add_memory(rules: sc.SyscallFilter) -> None:
    """Rules for what reaches memory that is not the program's alone: the page cache, the pool of huge pages, KSM."""
    for advice in _MADV_NOTHING:
        _add(rules, sc.ERRNO(0), "madvise", _low(2, advice))
    for advice in (*_MADV_REFUSED, *_MADV_GUARDS):
        _add(rules, sc.ERRNO(errno.EINVAL), "madvise", _low(2, advice))
    _add(rules, sc.ERRNO(errno.ENOMEM), "mincore", sc.Arg(1, sc.GT, _MINCORE_BYTES))
    _add(rules, sc.ERRNO(errno.EPERM), "shmctl", _low(1, _SHM_LOCK))
    _add(rules, sc.ERRNO(0), "msync", sc.Arg(2, sc.MASKED_EQ, _MS_SYNC, _MS_SYNC))
    for call, position, flag in _HUGE:
        _add(rules, sc.ERRNO(errno.EINVAL), call, sc.Arg(position, sc.MASKED_EQ, flag, flag))


def _add_sockets(rules: sc.SyscallFilter) -> None:
    for call in ("socket", "socketpair"):
        _add(rules, sc.ERRNO(errno.EAFNOSUPPORT), call, sc.Arg(0, sc.NE, _AF_UNIX))
    for call, options in (("setsockopt", _FILTERS), ("getsockopt", _COOKIES)):
        for option in options:
            _add(rules, sc.ERRNO(errno.ENOPROTOOPT), call, _low(1, _SOL_SOCKET), _low(2, option))


def _low(position: int, value: int) -> sc.Arg:
    """An argument that the kernel takes as 32 bits, whatever is above them."""
    return sc.Arg(position, sc.MASKED_EQ, _LOW, value)


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
    fd = in_memory("judge-seccomp")
    with os.fdopen(fd, "w+b", buffering=0) as file:
        rules.export_bpf(file)
        return os.pread(fd, os.fstat(fd).st_size, 0)
