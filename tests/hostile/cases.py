"""The table of the hostile programs: what each tries, how it is run, which verdict it gets, and what protects.

The numbers are the topics in docs/hostile.md. Most programs try something that must fail, print `safe` when all of
it did fail, and are right (AC) then; those that hit a limit get that limit's verdict.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from judge.model.messages import Limits
from tests.support.sandbox import fork_cost, no_32_bit_calls

MIB = 1024**2
WORKERS = 4  # judge at once in the rounds
# Kernels without CONFIG_CHECKPOINT_RESTORE cannot set the counter of process ids back.
PIDS = b" pids" if Path("/proc/sys/kernel/ns_last_pid").exists() else b""
SAFE = b"safe\n"
LANGUAGES = {".c": "c", ".cpp": "cpp", ".py": "python3", ".java": "java", ".sh": None}

# The limits of compilations here: room for every honest compiler, and for bombs.
COMPILE = Limits(cpu=20, wall=60, memory=1024 * MIB, output=16 * MIB, processes=128, files=1024)
BOMB = Limits(cpu=0.5, wall=20, memory=128 * MIB, output=4 * MIB, processes=64, files=256)


def no_java() -> str:
    """Why Java's programs cannot be tried here; empty when they can."""
    return "" if Path("/usr/bin/javac").exists() else "no javac is installed"


@dataclass(frozen=True)
class Case:
    """One program on one set of tests. `verdicts` has one word, or two where the kernel decides which limit is first.

    `program` is a file of `programs/` (the run command when its suffix is .sh), or else the source itself in `source`.
    `tests` are (input, answer) in order. `says` is searched for in the reason and the compiler's output.
    `unless` tells why this machine cannot try it, or nothing.
    `gap`: what is not protected yet, so that another verdict is expected; not `steady`: the right one may come.
    """

    name: str
    tries: str
    verdicts: str
    guard: str
    program: str = ""
    source: str | None = None
    language: str | None = None
    filename: str | None = None
    compile: str | None = None
    limits: dict[str, Any] = field(default_factory=dict)
    build: Limits = field(default_factory=lambda: COMPILE)
    tests: Sequence[tuple[bytes, bytes]] = ((b"", SAFE),)
    flags: Sequence[str] = ()
    says: str = ""
    gap: str = ""
    steady: bool = True
    unless: Callable[[], str] = str

    @property
    def line(self) -> int:
        return int(self.name.split("_", 1)[0])

    @cached_property
    def run_limits(self) -> Limits:
        """Long limits: only what waits for one may pass it, however busy or slow this machine is."""
        cpu = max(1.0, 3000 * fork_cost())  # a page is dear where a process is: programs that fill memory end later
        values = {
            "cpu": cpu,
            # Four share the cores in the rounds, with compilers and whatever else this machine does.
            "wall": max(20.0, 2 * cpu * max(1.0, WORKERS / (os.cpu_count() or 1))),
            "memory": 64 * MIB,
            "output": 100_000,
            "processes": 32,
        }
        return Limits(**(values | self.limits))


def _program(file: str, tries: str, verdicts: str, guard: str, *, name: str = "", **extra: Any) -> Case:
    stem, _, suffix = file.partition(".")
    language = LANGUAGES["." + suffix]
    return Case(name or f"{stem}_{suffix}", tries, verdicts, guard, program=file, language=language, **extra)


def _inputs(file: str, verdicts: str, guard: str, variants: dict[str, tuple[str, Any]], **extra: Any) -> list[Case]:
    """One program with several inputs: name to (what it tries, input or list of tests)."""
    stem = file.partition(".")[0]
    rows = []
    for name, (tries, data) in variants.items():
        tests = data if isinstance(data, list) else [(data, SAFE)]
        rows.append(_program(file, tries, verdicts, guard, name=f"{stem}_{name}", tests=tests, **extra))
    return rows


BURN: dict[str, Any] = {"cpu": 0.3}
# Room for 32 interpreters, or for what the kernel has not yet freed of some thousands of children: CPU comes first.
BURN_MANY: dict[str, Any] = BURN | {"memory": 256 * MIB}
WAIT: dict[str, Any] = {"wall": 1.0}

COMPILE_LIMIT = "CPU, memory and output limits of compilations"
NOT_VISIBLE = "the compiler runs in the same sandbox: the host's files and test data are not in it"
KILLED = "the run's cgroup is counted and ended as a whole; process 1 kills and reaps all"
NAMESPACE = "pid namespace; process 1 is of another user and not dumpable"
NO_PRIVILEGE = "a user of its own, no capabilities, no_new_privs, hard limits"
FILTER = "system call filter: the process is killed"
FILTER_REFUSES = "system call filter: refused with an error"
CPU = "CPU time of the cgroup, dead and unreaped children included"
WALL = "wall limit"
MEMORY = "memory limit of the cgroup: all processes, tmpfs, memfd and kernel buffers count; no swap"
OUTPUT = "file size limit and the slot's look at the output's size"
SCRATCH = "tmpfs of the container with bounds on bytes and inodes, renewed after each run"
READ_ONLY = "read-only mounts of /usr and little else; no host path is visible"
NETWORK = "no socket family but UNIX; network namespace without devices"
VALIDATOR = "the default validator is linear in time, bounded in memory and reads decimal numbers only"
OUTPUTS = "outputs are pipes into memory files that only process 1 has and the slot never interprets"

CASES: list[Case] = [
    # ---- while compiling ----
    _program("01_include_random.c", "includes /dev/random", "CE", COMPILE_LIMIT, build=BOMB, says="limit exceeded"),
    _program("01_include_urandom.cpp", "includes /dev/urandom", "CE", COMPILE_LIMIT, build=BOMB, says="limit exceeded"),
    _program("01_include_stdin.c", "includes the compiler's own input and terminal", "CE", "the input is empty"),
    _program("02_include_zero.c", "includes /dev/zero", "CE", COMPILE_LIMIT, build=BOMB, says="limit exceeded"),
    _program("03_self_include.c", "includes itself 2^26 times", "CE", COMPILE_LIMIT, build=BOMB, says="limit exceeded"),
    _program("04_template_recursion.cpp", "template recursion without end", "CE", "the compiler, and its limits"),
    _program("04_template_tree.cpp", "2^40 template instances", "CE", COMPILE_LIMIT, build=BOMB, says="limit exceeded"),
    _program("05_error_bomb.c", "a million undeclared names from ten macros", "CE", COMPILE_LIMIT, build=BOMB),
    _program("05_many_errors.c", "a thousand errors", "CE", "the log is cut to 24 KiB"),
    _program("06_warning_flood.c", "2^30 warnings", "CE", COMPILE_LIMIT, build=BOMB, says="limit exceeded"),
    _program("06_error_flood.cpp", "2^30 errors", "CE", COMPILE_LIMIT, build=BOMB, says="limit exceeded"),
    _program("07_constexpr.cpp", "computes for ever at compile time", "CE", COMPILE_LIMIT, build=BOMB,
             says="limit exceeded"),
    _program("07_macro_time.c", "macro expansion that takes hours", "CE", COMPILE_LIMIT, build=BOMB,
             says="limit exceeded"),
    _program("08_huge_executable.c", "a 250 MB executable", "CE", "output limit of compilations"),
    _program("08_big_executable.c", "a 5 MiB executable", "AC", "allowed"),
    Case("08_big_source", "4.9 MB of source", "AC", "judged; the gateway takes 128 KiB", language="c",
         source="// " + "x" * 4_900_000 + '\n#include <stdio.h>\nint main(void){puts("safe");return 0;}\n'),
    _program("09_include_answer.c", "includes the secret answer", "CE", NOT_VISIBLE, says="No such file"),
    _program("09_include_secret.c", "includes files of the host", "CE", NOT_VISIBLE, says="No such file"),
    _program("09_incbin.c", "has the assembler read the secret answer", "CE", NOT_VISIBLE),
    _program("09_has_include.c", "asks the compiler which files exist", "AC", NOT_VISIBLE),
    _program("09_compile_reads.sh", "reads the host's files in the compile command", "AC", NOT_VISIBLE,
             compile="grep -r CANARY- / --exclude-dir=usr --exclude-dir=proc 2>/dev/null >found;"
             " cat @ANSWER@ @SECRET@ /etc/shadow /proc/1/environ >>found; env | grep CANARY >>found; true"),
    Case("10_elf_as_c", "submits a binary as C", "CE", "it is text to a compiler", language="c",
         source="\x7fELF\x02\x01\x01" + "\0" * 9 + "\3\0>\0" + "\0" * 2000),
    Case("10_elf_as_python", "submits a binary as Python", "CE", "it is text to an interpreter", language="python3",
         source="\x7fELF\x02\x01\x01" + "\0" * 9 + "\3\0>\0" + "\0" * 2000),
    _program("10_run_source.sh", "executes its own source file", "RTE", "sources lack the execute permission",
             source="#!/bin/sh\necho safe\n"),
    _program("10_run_object.sh", "executes a file that is no program", "WA", "nothing runs outside of the sandbox",
             source="\x7fELF junk", compile="cp source object; chmod +x object"),
    Case("11_package_bin", "a Java package with a system directory's name", "AC", "names stay below /box",
         language="java", filename="bin.java", limits={"cpu": 10.0}, unless=no_java,
         source='package bin;\npublic class etc {'
         ' public static void main(String[] a) { System.out.println("safe"); } }'),
    *[
        Case(f"11_name_{key}", f"a file name {tries}", "AC", "language decides the name; commands keep the last part",
             language=language, filename=name, program=program)
        for key, tries, language, name, program in (
            ("odd", "with blanks, # and backslashes", "c", "a b#c\\d\n.c", "11_hello.c"),
            ("path", "that is an absolute path", "c", "/etc/passwd", "11_hello.c"),
            ("up", "that leads out", "c", "../../../../../etc/passwd", "11_hello.c"),
            ("none", "without extension", "python3", "program", "11_hello.py"),
            ("long", "of 255 two-byte letters", "python3", "ä" * 255, "11_hello.py"),
        )
    ],
    *[
        Case(f"11_command_{key}", f"a file name {tries}, with a command", "AC",
             "commands keep the last part of the name", filename=name, program="11_list.sh", source="x")
        for key, tries, name in (
            ("odd", "with blanks, # and backslashes", "a b#c\\d\n'\"$(touch x)"),
            ("up", "that leads out", "../../tmp/hostile-mark"),
            ("option", "that looks like an option", "-rf"),
        )
    ],
    Case("11_command_long", "a file name of 510 bytes, with a command", "AC", "commands keep the last part of the name",
         filename="ä" * 255, program="11_list.sh", source="x"),
    _program("13_link_to_secret.sh", "the compiler's output is a link to files of the host", "RTE",
             "links are followed inside only, where their targets do not exist",
             compile="ln -s @SECRET@ out; ln -s /etc/shadow link; mkdir dir; ln -s /root/.ssh/id_rsa dir/link"),
    _program("13_output_is_fifo.sh", "the compiler's output is a pipe", "RTE", "executed like any file: it fails",
             compile="mkfifo out"),
    _program("13_closed_box.sh", "takes every permission from its own directory", "RTE",
             "the run cannot start there, which is the program's own fault", compile="chmod 0 /box"),
    _program("13_link_at_source.sh", "puts a link in place of its source", "RTE",
             "the slot never opens the source again", source="x", compile="rm source; ln -s @SECRET@ source"),
    # ---- processes ----
    _program("14_fork_bomb.c", "forks without end", "TLE", "process limit; " + KILLED, limits=BURN_MANY),
    _program("14_fork_bomb.py", "forks without end", "TLE", "process limit; " + KILLED, limits=BURN_MANY),
    _program("14_fork_bomb.sh", "the shell's fork bomb", "TLE RTE", "process limit; " + KILLED, limits=BURN_MANY),
    _program("15_setsid.c", "daemons in sessions of their own, deaf to signals", "AC", KILLED),
    _program("16_orphans.c", "ends, and leaves children that burn and hold the output", "AC", KILLED),
    _program("16_children_burn.c", "children burn, the parent sleeps", "TLE", CPU, limits=BURN, says="CPU time"),
    _program("16_unreaped.c", "CPU time of children without a wait", "TLE", CPU, limits=BURN, says="CPU time"),
    _program("17_kill.c", "signals its parent, process 1 and every process", "AC", NAMESPACE, tests=[(b"", SAFE)] * 2),
    _program("18_stop_parent.c", "stops its parent and every process", "AC", NAMESPACE, tests=[(b"", SAFE)] * 2),
    _program("18_stop_self.c", "stops itself after the right answer", "TLE", WALL, limits=WAIT, says="wall time"),
    _program("19_ignore_signals.c", "ignores and blocks every signal", "TLE", KILLED, limits=BURN, says="CPU time"),
    _program("19_sigxcpu_handler.c", "handles SIGXCPU and SIGVTALRM by going on", "TLE", KILLED, limits=BURN,
             says="CPU time"),
    *_inputs("19_raise.c", "RTE", "a signal that no limit sends is the program's own", {
        "sigvtalrm": ("raises SIGVTALRM", b"26"), "sigalrm": ("raises SIGALRM", b"14"),
        "sigkill": ("raises SIGKILL, as the memory limit would", b"9"),
    }),
    _program("20_ptrace_self.c", "traces itself", "SV", FILTER),
    _program("20_ptrace_parent.c", "traces its parent", "SV", FILTER),
    _program("20_execve.c", "executes a shell", "AC", "allowed: it stays in the sandbox"),
    _program("20_execute_output.c", "executes copies of itself, and its own output", "AC",
             "allowed: it stays in the sandbox"),
    _program("21_threads.c", "thousands of threads", "AC", "the process limit counts threads"),
    _program("21_threads_burn.c", "threads that all burn", "TLE", CPU, limits=BURN, says="CPU time"),
    _program("22_privileges.c", "more cores, priority, limits", "AC", NO_PRIVILEGE),
    _program("23_reboot.c", "reboots", "SV", FILTER),
    _program("23_mount.c", "mounts", "SV", FILTER),
    _program("23_chroot.c", "chroot", "SV", FILTER),
    _program("23_setuid.c", "root's identity and capabilities", "AC", NO_PRIVILEGE),
    _program("24_open_all.c", "opens files until none is left", "AC", "limit of open files"),
    _program("24_close_all.c", "closes its inputs and outputs, answers elsewhere", "WA", OUTPUTS),
    _program("24_no_flush.c", "ends without flushing the answer", "WA", OUTPUTS),
    # ---- time ----
    _program("25_sleep_after_answer.py", "sleeps after the right answer", "TLE", WALL, limits=WAIT, says="wall time"),
    *_inputs("26_wait.c", "TLE", WALL, {
        "pause": ("waits in pause", b"p"), "select": ("waits in select", b"s"),
        "nanosleep": ("sleeps", b"n"), "self_pipe": ("reads from its own pipe", b"r"),
    }, limits={"wall": 0.7}, says="wall time"),
    _program("27_clock_loop.c", "looks at the clock until time has passed", "TLE", CPU, limits=BURN, says="CPU time"),
    _program("27_children_time.c", "computes in children that are each below the limit", "TLE", CPU, limits=BURN,
             says="CPU time"),
    _program("28_drip.c", "writes a byte now and then", "TLE", WALL, limits=WAIT, says="wall time"),
    _program("29_system_time.c", "burns inside the kernel", "TLE", CPU, limits=BURN, says="CPU time"),
    _program("29_unkillable.c", "a call that takes seconds and that no signal ends", "AC", FILTER_REFUSES,
             limits={"output": 16 * MIB}),
    _program("29_short_children.c", "children shorter than a tick", "TLE", CPU, limits=BURN_MANY, says="CPU time"),
    # ---- memory ----
    _program("30_bss.c", "a static array above the limit", "MLE", MEMORY),
    _program("30_bss_untouched.c", "a static array that is never touched", "AC", "only touched memory counts"),
    _program("31_heap.c", "allocates and fills without end", "MLE", MEMORY),
    _program("31_untouched.c", "allocates 4 GiB and touches nothing", "AC", "only touched memory counts"),
    _program("31_noreserve.c", "maps without reserve, touches slowly", "MLE", MEMORY),
    _program("32_recursion.c", "recursion without end", "MLE", "the stack may use all memory: it counts as memory"),
    _program("32_alloca.c", "a frame of 4 GiB", "RTE", "stack limit"),
    _program("33_children.c", "memory in children", "MLE", MEMORY),
    *_inputs("33_files.c", "MLE", MEMORY, {
        "tmp": ("memory as files in /tmp", b"/tmp"), "work": ("memory as files in /scratch", b"/scratch"),
        "shm": ("memory as files in /dev/shm", b"/dev/shm"), "memfd": ("memory as files without a name", b"memfd"),
    }, limits={"output": 8 * MIB}),
    _program("33_page_cache.c", "reads more of the host's files than its memory", "AC",
             "page cache is given back before the limit strikes", limits={"cpu": 20.0, "wall": 60.0}),
    _program("33_pipes.c", "memory in pipes", "MLE", MEMORY, limits={"memory": 16 * MIB}),
    _program("33_sockets.c", "memory in sockets", "MLE", MEMORY, limits={"memory": 8 * MIB}),
    *_inputs("33_objects.c", "MLE", MEMORY, {
        name: (f"30 processes: {tries}", key)
        for name, tries, key in (
            ("dgram", "unread datagrams", b"d"), ("seqpacket", "unread packets", b"q"),
            ("bound", "connections without an accept", b"b"),
            ("in_flight", "descriptors in messages, in cycles", b"f"),
            ("queues", "System V messages", b"m"), ("semaphores", "System V semaphores", b"a"),
            ("spliced", "pages given to pipes", b"p"), ("mappings", "60000 pieces of memory each", b"v"),
            ("polls", "descriptors that watch each other", b"e"),
        )
    }, limits={"memory": 16 * MIB, "files": 1024}),
    *_inputs("33_objects.c", "AC", "limit of open files; what they hold is the program's memory", {
        "files": ("descriptors of memory files, timers, signals", b"o"),
    }, limits={"memory": 64 * MIB, "files": 256}),
    _program("33_bounded.c", "timers, signals, locked and huge pages, KSM, terminals, asynchronous I/O", "AC",
             "hard limits of a process and of the container's user; system call filter"),
    _program("33_page_tables.c", "many processes that share much memory, and wait", "TLE", WALL, limits=WAIT),
    _program("34_bad_alloc.cpp", "catches bad_alloc and goes on", "MLE", MEMORY),
    _program("35_pageout.c", "asks for its memory to be swapped out", "MLE", MEMORY),
    # ---- output and files ----
    *_inputs("36_flood.c", "OLE", OUTPUT, {
        "stdout": ("output without end", b"o"), "stderr": ("error output without end", b"e"),
        "newlines": ("empty lines without end", b"n"),
    }),
    *_inputs("37_blanks.c", "AC", "blanks at the end do not matter", {
        "within": ("the right answer and blanks up to the limit", b"100000"),
    }),
    *_inputs("37_blanks.c", "OLE", OUTPUT, {"beyond": ("the right answer and blanks beyond the limit", b"100001")}),
    _program("38_sparse.c", "a file with a hole of 2 GB", "OLE", "file size limit"),
    _program("38_inodes.c", "files without number", "AC", SCRATCH),
    _program("38_deep.py", "deep directories, odd names, no permissions", "AC", SCRATCH),
    _program("39_write.py", "writes everywhere", "AC", READ_ONLY),
    _program("39_nosy.py", "reads everywhere", "AC", READ_ONLY, limits={"cpu": 5.0}),
    _program("40_input.py", "rewrites, cuts and deletes the input", "AC", "the input is a sealed memory file",
             tests=[(b"one\n", b"one safe\n"), (b"two\n", b"two safe\n")]),
    _program("41_special_files.c", "pipes, sockets, devices, links; replaces its output", "AC", OUTPUTS),
    _program("41_truncate_output.c", "makes its output a terabyte long", "RTE", OUTPUTS),
    _program("41_seek_output.c", "writes at the end of a terabyte", "AC", OUTPUTS),
    _program("41_reserve_output.c", "reserves memory behind the end of its output", "RTE", OUTPUTS),
    *_inputs("42_bytes.py", "WA", VALIDATOR, {"nul": ("a NUL inside the answer", b"nul")}),
    *_inputs("42_bytes.py", "AC", VALIDATOR, {
        "binary": ("every byte there is", [(b"binary", bytes(range(256)) * 3)]),
        "crlf": ("lines that end in CR LF", b"crlf"),
        "no_newline": ("no end of the last line", b"no-newline"),
        "long_line": ("a line of 3 MB", [(b"long-line", b"9" * 3_000_000 + b"\n")]),
        "many_tokens": ("a million tokens", [(b"many-tokens", b"9\n" * 1_000_000)]),
    }, limits={"output": 8 * MIB}),
    *_inputs("42_bytes.py", "WA", "output shown to people is escaped and cut", {
        "latin1": ("no UTF-8", b"latin1"), "bom": ("a byte order mark", b"bom"),
        "escapes": ("terminal escapes", b"escapes"),
    }),
    *_inputs("43_forged_log.c", "AC", OUTPUTS, {"right": ("lines as from a judge on stderr, right answer", b"")}),
    *_inputs("43_forged_log.c", "RTE", OUTPUTS, {"exit": ("lines as from a judge on stderr, exit code 1", b"1")}),
    _program("44_syslog.c", "floods the system's log", "AC", "no /dev/log, no kernel log"),
    _program("44_core.c", "leaves a core file", "RTE", "core limit 0; the directory is gone with the run"),
    _program("45_bad_paths.py", "paths that confuse tracers", "AC", "nothing here looks at the program's paths"),
    # ---- network and covert channels ----
    _program("46_network.py", "TCP, UDP, IPv6, DNS, abstract and named sockets", "AC", NETWORK),
    _program("46_compile_network.sh", "the network, while compiling", "WA", NETWORK,
             compile="/usr/bin/python3 -c \"import socket; s=socket.create_connection(('@HOST@', @PORT@), 2);"
             " s.send(b'x'); print('got through')\" >said 2>&1; true"),
    _program("47_families.c", "every other address family", "AC", FILTER_REFUSES),
    _program("48_keyring.c", "the kernel's keyrings", "AC", FILTER_REFUSES),
    _program("48_filters.c", "filters in the kernel's compiled memory", "AC", FILTER_REFUSES),
    _program("49_host_disk.c", "the host's disk and page cache: sync, advice, direct reads, asynchronous I/O", "AC",
             "system call filter: done without doing anything, or refused"),
    _program("49_leases.c", "leases and notices on a shared file", "AC", FILTER_REFUSES),
    _program("49_locks.c", "locks on shared files", "AC", "system call filter: no lock is ever taken"),
    _program("49_watches.c", "watches and hints on shared files, which parts others have read", "AC", FILTER_REFUSES),
    _program("50_io_uring.c", "io_uring", "AC", FILTER_REFUSES),
    _program("50_int80.c", "32-bit system calls", "SV", FILTER, unless=no_32_bit_calls),
    _program("50_newer.c", "calls, options and requests that are newer than the filter", "AC",
             "system call filter: they do not exist"),
    _program("50_x32.c", "x32 system calls", "SV", FILTER),
    _program("51_leftovers.c", "leaves files, IPC objects and a daemon for the next run", "AC",
             SCRATCH + "; a new IPC namespace", tests=[(b"leave", b"left\n"), (b"look", b"clean\n")]),
    _program("51_counters.c", "pids, sockets, names, counters and terminals for the next run to count", "AC",
             "no socket left in the network namespace; each run has the same pids, a new IPC namespace, no terminals",
             tests=[(b"leave" + PIDS, b"left\n"), (b"see" + PIDS, b"clean\n")] * 3),
    _program("51_clocks.c", "makes the clean-up slow, for the next run to read from the agent's CPU clock", "AC",
             "system call filter: the clocks of the agent's processes",
             tests=[(b"leave", b"left\n"), (b"look", b"clean\n")]),
    _program("51_user.c", "uses up what the kernel counts for each user, so that the next run has less", "AC",
             "what sockets in one another hold is freed first; system call filter for what is freed later",
             tests=[(b"leave", b"left\n"), (b"look", b"all\n")] * 3),
    *_inputs("51_memory.c", "AC", "what a run leaves is freed, and never counts for the next", {
        "files": ("50 of 64 MiB left in files, 50 needed by the next run", [(b"t", SAFE), (b"50", SAFE)] * 2),
        "ipc": ("50 of 64 MiB left in shared memory, 50 needed by the next run", [(b"s", SAFE), (b"50", SAFE)] * 2),
    }, limits={"output": 8 * MIB}),
    *_inputs("51_memory.c", "MLE", "what a run leaves is freed, and never raises the next one's limit", {
        "files_over": ("50 MiB left in files, so that the next run may use 100", [(b"t", SAFE), (b"100", SAFE)]),
    }, limits={"output": 8 * MIB}),
    *_inputs("51_memory.c", "MLE", "what a run leaves is freed, and never raises the next one's limit", {
        "ipc_over": ("50 MiB left in shared memory, so that the next run may use 100", [(b"s", SAFE), (b"100", SAFE)]),
    }),
    _program("52_proc.py", "other processes, /proc/sys, /sys, cgroups", "AC", NAMESPACE + "; /proc/sys is not its own"),
    _program("52_marks.c", "time stamps, modes and attributes on every inode in reach", "AC",
             "read-only mounts, those of the device nodes too"),
    _program("52_self.c", "everything in /proc that a process may change of itself; what shows the host", "AC",
             "a read-only /proc of processes only; oom_score_adj is set before"),
    _program("53_namespaces.c", "namespaces, perf, userfaultfd and the like", "AC", FILTER_REFUSES),
    *_inputs("53_attack.c", "SV", FILTER, {
        name: (f"the system call {name}", str(number).encode())
        for name, number in (("bpf", 321), ("kexec_load", 246), ("init_module", 175), ("pivot_root", 155),
                             ("fsopen", 430), ("open_tree", 428), ("setns", 308), ("swapon", 167))
    }),
    _program("54_descriptors.py", "descriptors of the executor", "AC", "all descriptors but 0, 1 and 2 are closed"),
    # ---- the validator ----
    *[
        _program("57_echo.py", f"'{output[:20]}' for {answer}", verdict, VALIDATOR, name=f"57_{name}",
                 tests=[(output.encode(), answer.encode())], flags=["float_tolerance", "1e-6"])
        for name, output, answer, verdict in (
            ("nan", "nan", "1.0", "WA"), ("inf", "inf", "1e300", "WA"), ("overflow", "1e999999", "1e300", "WA"),
            ("hexadecimal", "0x1p3", "8.0", "WA"), ("underscore", "1_0.0", "10.0", "WA"),
            ("other_digits", "\u0661.0", "1.0", "WA"), ("minus_zero", "-0.0", "0", "AC"),
            ("tiny", "1e-999999", "0.0", "AC"), ("many_zeros", "1." + "0" * 5000, "1.0", "AC"),
            ("just_within", "1.000000999", "1.0", "AC"), ("just_outside", "1.00000101", "1.0", "WA"),
            ("nothing", "", "1.0", "WA"), ("too_many", "1.0 1.0", "1.0", "WA"),
        )
    ],
    _program("57_digits.py", "a number of 4 million digits", "WA", VALIDATOR, limits={"output": 8 * MIB},
             tests=[(b"", b"3.25\n")], flags=["float_tolerance", "1e-6"]),
]  # fmt: skip

BY_NAME = {case.name: case for case in CASES}
assert len(BY_NAME) == len(CASES), "two programs have one name"


def rows() -> str:
    """The list that `python -m tests.hostile.cases` prints, by protection."""
    lines = []
    for guard in dict.fromkeys(case.guard for case in CASES):
        lines.append(f"- {guard}")
        for case in CASES:
            if case.guard == guard:
                gap = f". **Open**: {case.gap}" if case.gap else ""
                lines.append(f"  - `{case.name}` {case.verdicts.replace(' ', ' or ')}: {case.tries}{gap}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(rows(), end="")
