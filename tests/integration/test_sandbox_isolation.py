"""What a submitted program cannot see, reach, change or leave behind, beside what the programs of tests/hostile try."""

import contextlib
import ctypes
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from judge.common.errors import UnfitError, UsageError
from judge.executor.slot.truncation import sealed
from judge.model.messages import Limits
from judge.sandbox import Command, Killed, Sandbox
from tests.support.sandbox import (
    MIB,
    helpers,
    kill_and_wait,
    need_sandbox,
    pool,
    program,
    run_c,
    shell,
    text,
)

pytestmark = pytest.mark.root
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    need_sandbox()
    with pool("isolation") as sandboxes, sandboxes.take() as box:
        yield box


def python(code: str, **options: bool) -> Command:
    return Command(["/usr/bin/python3", "-I", "-c", code], Limits(cpu=20), **options)


def test_no_identity_no_capability_no_way_up(sandbox):
    out = text(
        shell(sandbox, "id; echo $PPID; umask; exec grep -E '^(Cap|NoNewPrivs|Seccomp:|Groups)' /proc/self/status")
    )
    assert "uid=1000" in out and "gid=1000" in out
    for line in (*(f"{kind}:\t{'0' * 16}" for kind in ("CapEff", "CapPrm", "CapBnd")), "NoNewPrivs:\t1", "Seccomp:\t2"):
        assert line in out
    assert "\n1\n0022\n" in out


def inner_process(box: Sandbox) -> int:
    """Process 1 of a container, as the host numbers it."""
    outer = box._container.pid
    return int(Path(f"/proc/{outer}/task/{outer}/children").read_text().split()[0])


def uid_map(box: Sandbox) -> str:
    """The users of a container, as its process 1 has them."""
    return Path(f"/proc/{inner_process(box)}/uid_map").read_text()


def test_the_host_user_behind_it_is_nobody(sandbox):
    ids = uid_map(sandbox).split()
    outside = [int(ids[1]), int(ids[4])]
    assert ids[0] == "0" and ids[3] == "1000" and all(uid >= 65536 for uid in outside)


def test_host_files_are_invisible_or_unreadable(sandbox):
    out = text(
        shell(sandbox, "ls / /etc /box /scratch /tmp /home /root /var /run /sys /srv /opt /mnt 2>&1; cat /etc/shadow")
    )
    for name in ("shadow\n", "judge.yml", "hostname\n", "resolv.conf", "ssh"):
        assert f"\n{name}" not in out
    for path in ("/home", "/root", "/var", "/run", "/sys", "/srv", "/opt", "/mnt", "/etc/shadow"):
        assert f"{path}': No such file" in out or f"{path}: No such file" in out
    assert "judge:x:1000" in text(shell(sandbox, "cat /etc/passwd"))


def test_process_1_can_be_neither_seen_nor_touched(sandbox):
    script = """
    ls -d /proc/1; cat /proc/1/environ /proc/1/cmdline /proc/1/maps; ls /proc/1/fd /proc/1/root; kill -9 1; kill -TERM 1
    kill -INT 1; kill -STOP 1; prlimit --pid 1 --nofile=3
    """
    out = text(shell(sandbox, script))
    assert out.count("No such file") >= 5 and "Operation not permitted" in out
    assert text(shell(sandbox, "echo alive")) == "alive\n"


def test_scratch_is_fresh_for_every_run(sandbox):
    leave = "for d in /scratch /tmp /dev/shm; do echo x > $d/left; mkdir $d/dir; chmod 0 $d/dir; done; ls /scratch"
    assert "left" in text(shell(sandbox, leave))
    out = text(shell(sandbox, "ls -A /scratch /tmp /dev/shm; stat -c %a%u /scratch /tmp /dev/shm; pwd"))
    assert out == "/dev/shm:\n\n/scratch:\n\n/tmp:\n17770\n17770\n17770\n/scratch\n"


def test_a_removed_file_is_also_a_trace(sandbox):
    shell(sandbox, "touch /scratch/a /tmp/a; rm /scratch/a /tmp/a").close()
    first = text(shell(sandbox, "stat -c %z /scratch /tmp"))
    shell(sandbox, "touch /scratch/a /tmp/a; rm /scratch/a /tmp/a").close()
    assert text(shell(sandbox, "stat -c %z /scratch /tmp")) != first


COUNTED = """
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
static const char *places[] = {"/scratch", "/tmp", "/dev/shm"};
int main(int argc, char **argv) {
    for (int i = 0; i < 3; i++) {
        struct stat root, file;
        if (argc > 1) {
            for (int n = 0; n < 300; n++) {
                int fd = open(places[i], O_TMPFILE | O_RDWR, 0600);
                if (fd >= 0) puts("a file without a name");
                close(fd);
            }
            DIR *all = opendir(places[i]);
            while (readdir(all)) ;
            closedir(all);
            continue;
        }
        char name[64];
        stat(places[i], &root);
        sprintf(name, "%s/file", places[i]);
        fstat(open(name, O_CREAT | O_RDWR, 0600), &file);
        printf("%ld %ld %ld\\n", file.st_ino, root.st_atim.tv_sec, root.st_mtim.tv_sec);
    }
}
"""


@pytest.mark.parametrize("use", ["nothing", "files without a name, and reading"])
def test_scratch_counts_nothing_on_from_run_to_run(sandbox, use):
    if use != "nothing":
        assert text(run_c(sandbox, COUNTED, None, "use")) == ""
    first = text(run_c(sandbox, COUNTED))
    assert first.startswith("2 0 0\n")
    assert text(run_c(sandbox, COUNTED)) == first


def test_a_trace_shorter_than_a_tick_of_the_clock_is_a_trace(sandbox):
    """The file is made and removed just after the directory was; kernels before 6.13 give both the same time."""
    once = "open('/scratch/a', 'w').close(); os.unlink('/scratch/a')"
    see = "open('/scratch/b', 'w').close(); print(os.stat('/scratch/b').st_ino)"
    for script in (once, once, see, see):
        out = text(sandbox.run(Command(["/usr/bin/python3", "-SIc", f"import os; {script}"], Limits(cpu=20))))
    assert out == "2\n"


def test_what_a_run_leaves_at_its_empty_input_is_its_own(sandbox):
    """Flags, signal and owner belong to the open file, which every process with a copy of the descriptor shares."""
    source = """
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
    printf("%d %d %d\\n", fcntl(0, F_GETFL) & (O_NONBLOCK | O_APPEND), fcntl(0, F_GETSIG), fcntl(0, F_GETOWN));
    fcntl(0, F_SETFL, O_NONBLOCK | O_APPEND);
    fcntl(0, F_SETSIG, 33);
    fcntl(0, F_SETOWN, getpid());
}
"""
    assert [text(run_c(sandbox, source)) for _ in range(2)] == ["0 0 0\n"] * 2


# Every kind of socket that a run can make, each left in another state.
SOCKETS = """
import array, os, socket
keep = []
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
    for name in ("", "\\0name", "/scratch/path"):
        one = socket.socket(socket.AF_UNIX, kind)
        if name == "" :
            one.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # binds it to a name of the kernel's choice
        else:
            one.bind(name + str(int(kind)))
        keep.append(one)
        if kind != socket.SOCK_DGRAM and name:
            one.listen(8)
            pending = socket.socket(socket.AF_UNIX, kind)
            pending.connect(name + str(int(kind)))
            pending.send(b"never read")
            keep.append(pending)
    left, right = socket.socketpair(socket.AF_UNIX, kind)
    right.send(b"never read")
    left.setsockopt(socket.SOL_SOCKET, 29, 1)  # SO_TIMESTAMP
    left.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    keep += [left, right]
    if CYCLES:
        for _ in range(20):
            left, right = socket.socketpair(socket.AF_UNIX, kind)
            both = array.array("i", [left.fileno(), right.fileno()])
            left.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, both)])
            right.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, both)])
if os.fork() == 0:
    os.setsid()
    os.read(os.pipe()[0], 1)
"""
# All that a run can see of its network namespace.
NETWORK = """
import os, socket
print(os.readlink("/proc/self/ns/net"), "is the namespace")
for root, _, names in sorted(os.walk("/proc/self/net")):
    for name in sorted(names):
        try:
            print(root, name, open(root + "/" + name).read())
        except OSError as error:
            print(root, name, error)
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
    try:
        socket.socket(socket.AF_UNIX, kind).connect("\\0name" + str(int(kind)))
        print("a socket of another run is there")
    except OSError as error:
        print(error)
one = socket.socket(socket.AF_UNIX)
one.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
"""


def sockets_in(box: Sandbox) -> str:
    """The kernel's count of the sockets in the namespace of a container's next run."""
    return Path(f"/proc/{inner_process(box)}/net/sockstat").read_text().splitlines()[0]


@pytest.mark.parametrize("cycles", [False, True], ids=["gone at once", "under way in each other"])
def test_no_run_meets_a_socket_of_another(cycles):
    with pool("network") as sandboxes, sandboxes.take() as box:
        before = text(box.run(python(NETWORK)))
        assert sockets_in(box) == "sockets: used 0"
        for writable in (False, True, False):
            assert box.run(python(f"CYCLES = {cycles}\n{SOCKETS}", writable=writable)).exit_code == 0
            assert text(box.run(python(NETWORK))) == before
            assert sockets_in(box) == "sockets: used 0"
        kill_and_wait(helpers(box))  # as the kernel does for want of memory; they are made again, all of them
        assert text(box.run(python(NETWORK))) == before
        assert text(box.run(python(NETWORK, writable=True))) == before
    assert "net:[" in before and str(Path("/proc/self/ns/net").readlink()) not in before


def test_sockets_deep_in_each_other_are_gone_before_the_next_run():
    """The kernel's collector needs two ticks for each: for as many as a run may have it takes seconds."""
    deep = """
import array, os, socket
def pass_on(through, what):
    through.sendmsg([bytes(50_000)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [what.fileno()]))])
left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
pass_on(left, right)  # the last one lies in its own queue
for _ in range(200):
    outer, outer_right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    pass_on(outer, right)
    left.close(); right.close()
    left, right = outer, outer_right
pass_on(left, right)
"""
    count = """
import array, socket
left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
one, sent = array.array("i", [left.fileno()]), 0
left.setblocking(False)
peers = []
try:
    while sent < 1000:
        peers.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) if sent % 5 == 0 else peers[-1])
        peers[-1][0].setblocking(False)
        peers[-1][0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, one)])
        sent += 1
except OSError as error:
    print(sent, error.errno)
"""

    with pool("network") as sandboxes, sandboxes.take() as box:
        before = text(box.run(python(count)))
        namespace = text(shell(box, "readlink /proc/self/ns/net"))
        assert box.run(python(deep)).exit_code == 0
        assert text(box.run(python(count))) == before
        assert text(shell(box, "readlink /proc/self/ns/net")) == namespace
    assert "109" in before, before  # ETOOMANYREFS


def test_a_namespace_with_a_socket_in_it_is_not_used_again():
    """One that somebody else holds, as the kernel's collector would if it were late: another one is there instead."""
    command = Command(["/usr/bin/readlink", "/proc/self/ns/net"], Limits(cpu=20))
    with pool("network") as sandboxes, sandboxes.take() as box:
        namespaces = [text(box.run(command)), text(box.run(command))]
        with _socket_in(inner_process(box)):
            box.run(command).close()
            namespaces += [text(box.run(command)), text(box.run(command))]
    assert namespaces[0] == namespaces[1] != namespaces[2] == namespaces[3], namespaces
    assert all(namespace.startswith("net:[") for namespace in namespaces)


@contextlib.contextmanager
def _socket_in(pid: int) -> Iterator[None]:
    """A socket of this process in the network namespace of another."""
    with ThreadPoolExecutor(1) as executor:  # a thread of its own enters, and ends there

        def enter() -> socket.socket:
            with Path(f"/proc/{pid}/ns/net").open() as entry:
                assert ctypes.CDLL(None, use_errno=True).setns(entry.fileno(), 0x40000000) == 0
            return socket.socket(socket.AF_UNIX)

        with executor.submit(enter).result():
            yield


CALL = """
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
    long a[6] = {0};
    for (int i = 2; i < argc && i < 8; i++) a[i - 2] = strtol(argv[i], 0, 0);
    errno = 0;
    long r = syscall(atol(argv[1]), a[0], a[1], a[2], a[3], a[4], a[5]);
    printf("%ld %d", r, errno);
}
"""
REFUSED = {
    "keyctl": (250, [0, -3, 1], 1),
    "add_key": (248, [], 1),
    "request_key": (249, [], 1),
    "unshare user": (272, [0x10000000], 1),
    "clone newuser": (56, [0x10000011], 1),
    "clone newnet with a high bit": (56, [0x40000011], 1),
    "clone3": (435, [0, 0], 38),
    "io_uring_setup": (425, [1, 0], 38),
    "perf_event_open": (298, [0, 0, -1, -1, 0], 1),
    "userfaultfd": (323, [0], 1),
    "process_vm_readv": (310, [1], 1),
    "open_by_handle_at": (304, [0, 0, 0], 1),
    "name_to_handle_at": (303, [-100, 0, 0, 0, 0], 1),
    "kcmp": (312, [1, 1, 0, 0, 0], 1),
    "pidfd_getfd": (438, [0, 0, 0], 1),
    "sched_setaffinity": (203, [0, 8, 0], 1),
    "prlimit of another": (302, [1, 7, 0, 0], 1),
    "personality": (135, [0x0400000], 1),
    "lease": (72, [1, 1024, 0], 1),
    "notify": (72, [1, 1026, 0], 1),
    "tiocsti": (16, [0, 0x5412, 0], 1),
    "tiocsti with high bits": (16, [0, 0x100005412, 0], 25),
    "vsock": (41, [40, 1, 0], 97),
    "family with high bits": (41, [0x100000028, 1, 0], 97),
    "af_alg pair": (53, [38, 1, 0, 0], 97),
    "modify_ldt": (154, [0, 0, 0], 1),
    "syslog": (103, [3, 0, 0], 1),
    "setuid": (105, [0], 1),
    "sethostname": (170, [0, 0], 1),
    "clock_settime": (227, [0, 0], 1),
}
KILLED = {
    "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "setns": 308, "ptrace": 101, "bpf": 321,
    "reboot": 169, "kexec_load": 246, "init_module": 175, "finit_module": 313, "delete_module": 176, "swapon": 167,
    "fsopen": 430, "open_tree": 428, "move_mount": 429, "mount_setattr": 442, "open_tree_attr": 467,
    "x32 getpid": 0x40000000 + 39,
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_system_calls(sandbox, name):
    number, arguments, error = REFUSED[name]
    with run_c(sandbox, CALL, None, str(number), *map(str, arguments)) as outcome:
        assert outcome.read_stdout() == f"-1 {error}".encode() and not outcome.killed


@pytest.mark.parametrize("name", KILLED)
def test_attacks_are_forbidden(sandbox, name):
    with run_c(sandbox, CALL, None, str(KILLED[name])) as outcome:
        assert Killed.FORBIDDEN in outcome.killed and outcome.signal == 31


def test_an_orphan_that_attacks_gives_the_run_away(sandbox):
    source = """
#include <sys/mount.h>
#include <unistd.h>
int main() {
    if (!fork()) { if (!fork()) { usleep(30000); mount(0, 0, 0, 0, 0); } _exit(0); }
    usleep(200000);
}
"""
    with run_c(sandbox, source) as outcome:
        assert Killed.FORBIDDEN in outcome.killed


def test_pinned_to_one_core(sandbox):
    assert text(shell(sandbox, "nproc")) == "1\n"


def test_links_and_special_files_in_box_are_never_followed(sandbox):
    script = """
    cd /box; rm -rf *; ln -s /etc/passwd link; ln -s /box/link target; mkdir d; ln -s d ld; mkfifo pipe; echo x > plain
    """
    shell(sandbox, script, writable=True).close()
    for name in ("link", "target", "pipe", "d", "ld/x", "none", "plain/x"):
        assert sandbox.get(name) is None, name
    fd = sandbox.get("plain")
    assert fd is not None and os.pread(fd, 10, 0) == b"x\n"
    os.close(fd)
    sandbox.put("link", b"mine")
    assert text(shell(sandbox, "cat /box/link; head -1 /etc/passwd; ls -l /box/link | cut -c1")).startswith(
        "minejudge:x"
    )
    with pytest.raises(UnfitError, match="ld/x"):
        sandbox.put("ld/x", b"")
    with pytest.raises(UnfitError, match="could not be written"):
        sandbox.put("d", b"")
    sandbox.put("sub/dir/file.txt", b"deep", 0o600)
    assert text(shell(sandbox, "cat /box/sub/dir/file.txt; stat -c %a%u /box/sub/dir/file.txt")) == "deep6001000\n"


@pytest.mark.parametrize("seals", [True, False])
def test_an_input_is_open_for_reading_only_and_can_be_mapped(sandbox, seals):
    """Linux before 6.7 refuses to map a sealed file that is open for writing."""
    fd = sealed(b"12345\n") if seals else os.memfd_create("input")
    if not seals:
        os.write(fd, b"12345\n")
    os.lseek(fd, 2, os.SEEK_SET)
    script = """
import fcntl, mmap, os
assert fcntl.fcntl(0, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
print(mmap.mmap(0, 0, mmap.MAP_SHARED, mmap.PROT_READ)[:5].decode(), os.read(0, 9).decode(), end="")
for how in (os.O_WRONLY, os.O_RDWR):
    try:
        os.write(os.open("/dev/stdin", how), b"x")
        print("written")
    except OSError:
        pass
"""
    try:
        with sandbox.run(Command(["/usr/bin/python3", "-c", script], Limits(cpu=20), stdin=fd)) as outcome:
            assert (outcome.read_stdout(), outcome.read_stderr()) == (b"12345 345\n", b"")
        assert os.pread(fd, 9, 0) == b"12345\n"
    finally:
        os.close(fd)


@pytest.mark.parametrize("name", ["", "/etc/x", "../x", "a/../b", "a//b", ".", "a\0b"])
def test_bad_names_are_refused(sandbox, name):
    with pytest.raises(UsageError):
        sandbox.put(name, b"")
    with pytest.raises(UsageError):
        sandbox.get(name)


def test_a_big_file_can_be_put_and_one_too_big_says_so():
    need_sandbox()
    from judge.sandbox.container import Sizes

    with pool("sizes", sizes=Sizes(box_bytes=4 * MIB)) as sandboxes, sandboxes.take() as box:
        box.put("ok", os.urandom(3 * MIB))
        assert text(shell(box, "wc -c < /box/ok")) == f"{3 * MIB}\n"
        with pytest.raises(UnfitError, match="No space left"):
            box.put("big", bytes(5 * MIB))
        assert text(shell(box, "ls /box")) == "ok\n"


def test_read_only_runs_cannot_change_what_was_compiled(sandbox):
    sandbox.put("keep", b"v1", 0o666)
    out = text(
        shell(sandbox, "echo v2 > /box/keep; rm -f /box/keep; chmod 777 /box; mv /box/keep /box/k2; cat /box/keep")
    )
    assert out.count("Read-only file system") == 4 and out.startswith("v1")


def test_environment_is_what_was_given(sandbox):
    out = text(sandbox.run(Command(["/usr/bin/env"], Limits(cpu=20), env={"LANG": "C.UTF-8", "X": "ä=b"})))
    assert out == "LANG=C.UTF-8\nX=ä=b\n"


def test_input_cannot_be_changed(sandbox, work):
    path = work / "input"
    path.write_bytes(b"1 2\n")
    path.chmod(0o666)
    fd = os.open(path, os.O_RDONLY)
    try:
        out = text(
            shell(sandbox, "cat; echo evil > /proc/self/fd/0; echo evil >&0; truncate -s 0 /proc/self/fd/0", stdin=fd)
        )
    finally:
        os.close(fd)
    assert path.read_bytes() == b"1 2\n" and out.startswith("1 2\n")


def test_two_sandboxes_see_nothing_of_each_other():
    need_sandbox()
    with pool("two") as sandboxes, sandboxes.take() as first, sandboxes.take() as two:
        first.put("secret", b"secret")
        exit_codes = []

        def holds() -> None:
            with shell(first, "echo x > /tmp/x; echo x > /dev/shm/x; sleep 0.4", Limits(cpu=5, wall=20)) as outcome:
                exit_codes.append(outcome.exit_code)

        thread = threading.Thread(target=holds)
        thread.start()
        out = text(shell(two, "sleep 0.1; ls -A /box /tmp /dev/shm; ls /proc | grep -c '^[0-9]'"))
        thread.join()
        assert exit_codes == [0] and "secret" not in out and "x" not in out.split()
        assert uid_map(first) != uid_map(two)


SEAL = """
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    for (int fd = 0; fd < 3; fd++)
        for (int seal = 1; seal <= 0x20; seal *= 2)
            if (fcntl(fd, F_ADD_SEALS, seal) == 0) dprintf(2, "sealed %d with %d\\n", fd, seal);
    char text[4096];
    memset(text, 'x', sizeof text);
    for (;;) if (write(1, text, sizeof text) < 0) return 1;
}
"""
# A judge in a pid namespace of its own, in which the host is as strict as the first argument says.
STRICT = """
import os, sys
from pathlib import Path
from judge.executor.slot.truncation import sealed
from judge.model.messages import Limits
from judge.sandbox import Command
from tests.support.sandbox import pool
Path("/proc/sys/vm/memfd_noexec").write_text(sys.argv[1])
with pool("strict") as made, made.take() as box:
    box.put("run", Path(sys.argv[2]).read_bytes(), 0o755)
    with open(os.devnull) as null:
        for stdin in (sealed(b"input"), None, null.fileno()):
            with box.run(Command(["/box/run"], Limits(cpu=20, output=10_000), stdin=stdin)) as outcome:
                print(*outcome.killed, os.fstat(outcome.stdout).st_size, outcome.read_stderr())
"""


@pytest.mark.parametrize("strict", ["0", "1", "2"])
def test_nobody_seals_an_output_that_is_to_be_cut_on_a_host_that_restricts_memory_files(strict, work):
    """Where vm.memfd_noexec is 1, the kernel lets everybody seal a memory file of which nothing was said."""
    if not Path("/proc/sys/vm/memfd_noexec").exists():
        pytest.skip("this kernel has no vm.memfd_noexec (Linux 6.3)")
    file = work / "seal"
    file.write_bytes(program("#define _GNU_SOURCE\n" + SEAL))
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-c", STRICT, strict]
    result = subprocess.run([*command, str(file)], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False)
    assert (result.stdout.splitlines(), result.stderr) == (["output 10000 b''"] * 3, "")


SCRATCH = """
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
int main(void) {
    const char *places[] = {"/scratch", "/tmp", "/dev/shm"};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < 3; i++) {
        struct stat st;
        struct statfs fs;
        stat(places[i], &st);
        statfs(places[i], &fs);
        printf("%lx %ld %ld %ld %ld.%ld %ld.%ld %s %x %ld %ld\\n", (long)st.st_dev, (long)st.st_ino, (long)st.st_size,
               (long)st.st_nlink, st.st_mtim.tv_sec, st.st_mtim.tv_nsec, st.st_atim.tv_sec, st.st_atim.tv_nsec,
               now.tv_sec - st.st_ctim.tv_sec < 20 ? "new" : "old", fs.f_fsid.__val[0], (long)fs.f_bfree,
               (long)fs.f_ffree);
    }
}
"""


def test_no_run_sees_which_scratch_directories_the_one_before_used():
    need_sandbox()
    used = ("/scratch/x", "/tmp/x", "/dev/shm/x", "/scratch/x /tmp/x /dev/shm/x")
    with pool("scratch") as sandboxes, sandboxes.take() as box:
        box.put("look", program(SCRATCH), 0o755)

        def look() -> str:
            return text(box.run(Command(["/box/look"], Limits(cpu=20))))

        def unseen(files: str) -> bool:
            """Whether the look is the same after a run that uses these files."""
            before = look()
            assert "old" not in before
            shell(box, f"for file in {files}; do echo x > $file; done").close()
            unchanged = look() == before
            with shell(box, "true", keep_scratch=True) as outcome:
                assert outcome.scratch is not None
            return unchanged

        for files in used:
            # Others of this machine mount and unmount, too, and may take a device number, whatever the run used.
            assert any(unseen(files) for _ in range(20)), files
        out = text(shell(box, "cat /proc/self/mountinfo /proc/self/mounts /proc/self/mountstats; findmnt; stat /tmp"))
        assert "tmpfs" not in out and "Birth: -" in out


def test_a_run_is_the_first_to_die_when_the_host_has_no_memory():
    need_sandbox()
    scores = []
    with pool("oom") as sandboxes, sandboxes.take() as box:
        inside = inner_process(box)

        def look() -> None:
            deadline = time.monotonic() + 2
            while "1000\n" not in scores and time.monotonic() < deadline:
                children = Path(f"/proc/{inside}/task/{inside}/children").read_text().split()
                scores.extend(Path(f"/proc/{pid}/oom_score_adj").read_text() for pid in children)

        box.run(Command(["/bin/sleep", "6"], Limits(cpu=20)), meanwhile=look).close()
    assert "1000\n" in scores
