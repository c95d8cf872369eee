/*
 * The small static program inside every container: first the launcher, then process 1.
 *
 *   agent launch ...
 *       see launcher.c; it ends in the execution of bwrap, and that in:
 *   agent serve SOCKET FILTER UID BOX_OPTIONS TMP_OPTIONS BUILD_CGROUP RUN_CGROUP SHARED CPU
 *       process 1 of the container: answers the requests of its slot until the socket closes.
 *
 * Requests and answers are single packets (struct request, struct answer; judge/sandbox/agent.py is the other side).
 * A run is: clone, give up every privilege, filter system calls, exec. After it, every process of it is killed and
 * reaped before the answer is sent, and what it could have left behind (/scratch, /tmp, /dev/shm, System V and POSIX
 * queues) is replaced before the next run.
 *
 * Under cgroups version 1 entering a group takes the kernel some 10 ms (it waits for a grace period of RCU), so it is
 * done ahead: in each group waits a process (struct parent) that clones its runs into it, as children of process 1.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"

enum { PUT = 1, GET, RUN, KILL };                       /* requests */
enum { READY = 1, STORED, FETCHED, EXITED };            /* answers */
enum { WRITABLE = 1, INTO_CGROUP = 2, OUTPUT_FILE = 4, KEEP_SCRATCH = 8, FIXED_STACK = 16 }; /* flags of RUN */
enum { IN_SCRATCH = 01000 };                            /* flags of PUT, beside the mode */
enum { SAW_SIGSYS = 1 };                                /* flags of EXITED */
enum { PROCESS_1 = '1', LAST_HELPER = '9' };             /* pids: the helpers' are between, the runs' above */
enum { PIPE_BYTES = 1024 * 1024, PIPE_PAUSE = 1000000 }; /* ns between two looks at a pipe that is not full */
enum { MAX_PENDING = 1024, MAX_LOCKED = 64 * 1024 };    /* signals and timers; bytes that stay in memory */
enum { MAX_PACKET = 160 * 1024, MAX_STRINGS = 8192, MAX_FDS = 72, MAX_CGROUPS = 4, MAX_FILTER = 4096 };

struct request {
    uint32_t kind, flags, argc, envc, pipes, unused;
    uint64_t cpu, fsize, stack, nofile;
};

struct answer {
    uint32_t kind, flags;
    int32_t status, error;
    char stage[24];
    uint64_t wall_ns, maxrss, cpu_us; /* CPU of everything reaped, for hosts without cgroups */
    uint64_t box;                     /* bytes that a writable run left in /box */
};

/* Version 1: cgroup.procs of each controller. Version 2 has no members here, its directory comes with each run. */
struct cgroup {
    int procs[MAX_CGROUPS], count;
};

/* The page that slot, agent and, until it executes, the child share. */
struct shared {
    uint64_t began_ns; /* when the program was executed, CLOCK_MONOTONIC; the slot sets it to 0 before RUN */
    int32_t error;
    char stage[24];
    int32_t size, fds[MAX_FDS], pid; /* from and to a parent: its request (in `packet`) and the process that it made */
    int32_t network; /* the namespace that the child enters; the parents have memory of their own */
    int32_t executing; /* the child has come to its exec: the program may have done something */
};

/* A process in a version 1 cgroup, which shares the descriptors of process 1: eventfds for its orders. */
struct parent {
    int go, done, pidfd;
    pid_t pid;
};

struct call {
    const struct request *request;
    char *cwd, **argv, *env[MAX_STRINGS + 1];
    int stdio[3], cgroup, pipes[MAX_FDS];
    char *output; /* the file of /scratch that the slot wants, or NULL */
};

/* A program's stdout or stderr: a pipe, so that it is a stream by whatever name it is opened; `file` gets the bytes. */
struct stream {
    int pipe, file;
    off_t size;
    uint64_t look; /* not before that time, CLOCK_MONOTONIC in ns */
};

static char *packet; /* MAX_PACKET bytes that the parents see too */
static char *strings[MAX_STRINGS + 2];
static struct sock_filter filter[MAX_FILTER];
static struct sock_fprog program = {0, filter};
static struct cgroup build_cgroup, run_cgroup;
static struct parent build_parent, run_parent;
static struct call call;
static const char *const scratch[] = {"/scratch", "/tmp", "/dev/shm"};
static struct shared *shared;
static const char *tmp_options;
static off_t empty_size; /* of a directory of tmpfs, which grows with each name in it */
static uid_t run_uid;
static int channel, signals, box_writable = 1;
/* Of up to 8192 CPUs, which is as many as x86 kernels are built for; one cpu_set_t has 1024. */
static cpu_set_t made_on[8];

/* ---- process 1: set-up ---- */

/* Not dumpable: nothing inside may look into /proc/1 or trace it. Dies with bwrap, and with the socket. */
static void protect(void) {
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) die("prctl");
}

/* Modified and read at 0: no clock, however coarse, can show a run of now as that. */
static void mark_unused(const char *path) {
    const struct timespec times[2] = {{0, 0}, {0, 0}};
    if (utimensat(AT_FDCWD, path, times, 0) < 0) die(path);
}

/* A directory that was kept gets the time of change that a new one would have. Files of the slot make it a used one. */
static void touch_unused(const char *path) {
    struct stat st;
    if (stat(path, &st) == 0 && st.st_mtim.tv_sec == 0 && st.st_mtim.tv_nsec == 0) mark_unused(path);
}

/* Without times of access: reading a directory would leave one. */
static void mount_scratch(const char *path) {
    if (mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOATIME, tmp_options) < 0) die(path);
    mark_unused(path);
    struct stat st;
    if (stat(path, &st) < 0) die(path);
    empty_size = st.st_size;
}

/*
 * A scratch directory in which nothing was ever made is as good as a new one, and much cheaper: the kernel takes 10 ms
 * to unmount. After a writable run, an empty one will do as well: its time stamps and its count of files tell the runs
 * nothing that the compiler could not have told them in /box. Files that never have a name would be counted and change
 * no directory: the filter refuses them. A directory whose file system somebody still holds is always replaced: another
 * one has another device number then, which would tell whether the run had used it. Else the number is free again, and
 * the new one gets it.
 */
static void renew_scratch(const char *path, int writable, int held) {
    struct stat st;
    if (!held && stat(path, &st) == 0 && st.st_size == empty_size && st.st_nlink == 2 && st.st_uid == 0) {
        if (st.st_mtim.tv_sec == 0 && st.st_mtim.tv_nsec == 0) return;
        if (writable) {
            mark_unused(path);
            return;
        }
    }
    if (umount2(path, MNT_DETACH) < 0) die("unmount");
    mount_scratch(path);
}

static void write_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0444);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) die(path);
    close(fd);
}

static void set_box_writable(int writable) {
    unsigned long flags = MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | (writable ? 0 : MS_RDONLY);
    if (box_writable == writable) return;
    if (mount(NULL, "/box", NULL, flags, NULL) < 0) die("remount /box");
    box_writable = writable;
}

static struct cgroup parse_cgroup(char *text) {
    struct cgroup group = {{0}, 0};
    if (strncmp(text, "procs:", 6) == 0)
        for (char *part = strtok(text + 6, ","); part && group.count < MAX_CGROUPS; part = strtok(NULL, ","))
            group.procs[group.count++] = number(part);
    return group;
}

static void read_filter(int fd) {
    ssize_t size = pread(fd, filter, sizeof filter, 0);
    if (size <= 0 || (size_t)size == sizeof filter || size % (ssize_t)sizeof filter[0]) die("system call filter");
    program.len = (unsigned short)(size / (ssize_t)sizeof filter[0]);
    close(fd);
}

/* ---- process 1: its place ---- */

/* Moves process 1 and the parents; what they start inherits the place. */
static void move_to(const cpu_set_t *cpus) {
    const pid_t all[] = {build_parent.pid, run_parent.pid, 0};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if ((all[i] > 0 || i == 2) && sched_setaffinity(all[i], sizeof made_on, cpus) < 0) die("sched_setaffinity");
}

/* The slot is gone, or done: to take a container apart is the work of its last process, not the slot's core's. */
static _Noreturn void leave(void) {
    move_to(made_on);
    exit(0);
}

/* ---- process 1: packets ---- */

static void reply(struct answer *answer, int fd) {
    struct iovec part = {answer, sizeof *answer};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = control.space;
        message.msg_controllen = sizeof control.space;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &fd, sizeof(int));
    }
    if (sendmsg(channel, &message, MSG_NOSIGNAL) < 0) leave();
}

/* One packet into `packet`; its descriptors into fds (the rest -1). Returns its size, 0 when the slot is gone. */
static ssize_t receive(int *fds) {
    struct iovec part = {packet, MAX_PACKET - 1};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(MAX_FDS * sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    for (int i = 0; i < MAX_FDS; i++) fds[i] = -1;
    ssize_t size = recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
    if (size <= 0) return 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header))
        if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
            memcpy(fds, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
    packet[size] = '\0';
    if ((size_t)size < sizeof(struct request) || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
        errno = EPROTO;
        die("request");
    }
    return size;
}

/* Points strings[] at the NUL-terminated strings after the header; returns how many there are. */
static int split_strings(ssize_t size) {
    int count = 0;
    for (char *at = packet + sizeof(struct request); at < packet + size; at += strlen(at) + 1) {
        if (count == MAX_STRINGS) {
            errno = E2BIG;
            die("request");
        }
        strings[count++] = at;
    }
    return count;
}

/* ---- process 1: files of /box and /scratch, never through a symbolic link ---- */

/* Opens the directory of a relative path below one of these; *name becomes its last part. */
static int open_parent(const char *below, char *path, int create, char **name) {
    int dir = open(below, O_PATH | O_DIRECTORY | O_CLOEXEC);
    char *part = path;
    for (char *slash; dir >= 0 && (slash = strchr(part, '/')); part = slash + 1) {
        int error = 0;
        *slash = '\0';
        if (create && mkdirat(dir, part, 0755) < 0) error = errno == EEXIST ? 0 : errno;
        else if (create && fchownat(dir, part, run_uid, run_uid, AT_SYMLINK_NOFOLLOW) < 0) die("chown");
        int next = error ? -1 : openat(dir, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (!error) error = errno;
        close(dir);
        errno = error;
        dir = next;
    }
    *name = part;
    return dir;
}

static void put_file(const struct request *request, char *path, int source) {
    struct answer answer = {.kind = STORED};
    struct stat st;
    char *name;
    int scratched = (request->flags & IN_SCRATCH) != 0;
    if (!scratched) set_box_writable(1);
    int dir = open_parent(scratched ? "/scratch" : "/box", path, 1, &name), target = -1;
    if (dir >= 0 && (unlinkat(dir, name, 0) == 0 || errno == ENOENT))
        target = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (target < 0 || fstat(source, &st) < 0) {
        answer.error = errno;
    } else {
        off_t offset = 0;
        while (offset < st.st_size && !answer.error) {
            ssize_t done = sendfile(target, source, &offset, (size_t)(st.st_size - offset));
            if (done < 0) answer.error = errno;
            if (done == 0) answer.error = EIO;
        }
        if (!answer.error && (fchown(target, run_uid, run_uid) < 0 || fchmod(target, request->flags & 0777) < 0))
            answer.error = errno;
        if (answer.error) unlinkat(dir, name, 0);
    }
    if (target >= 0) close(target);
    if (dir >= 0) close(dir);
    reply(&answer, -1);
}

/* The regular file below a directory, or -1 with errno. Pipes and devices are not waited for, and not handed out. */
static int open_regular(const char *below, char *path) {
    struct stat st;
    char *name;
    int dir = open_parent(below, path, 0, &name), fd = -1;
    if (dir >= 0) fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    int error = errno;
    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
        error = EINVAL;
        close(fd);
        fd = -1;
    }
    if (dir >= 0) close(dir);
    errno = error;
    return fd;
}

static void get_file(char *path) {
    struct answer answer = {.kind = FETCHED};
    int fd = open_regular("/box", path);
    if (fd < 0) answer.error = errno;
    reply(&answer, fd);
    if (fd >= 0) close(fd);
}

/* ---- process 1: runs ---- */

static _Noreturn void fail(const char *stage) {
    shared->error = errno;
    strncpy(shared->stage, stage, sizeof shared->stage - 1);
    _exit(127);
}

/* The program may raise its limit to `most`. */
static void limit_to(int resource, uint64_t value, uint64_t most, const char *stage) {
    struct rlimit old, new = {value, most};
    if (getrlimit((__rlimit_resource_t)resource, &old) < 0) fail(stage);
    if (new.rlim_max > old.rlim_max) new.rlim_max = old.rlim_max;
    if (new.rlim_cur > new.rlim_max) new.rlim_cur = new.rlim_max;
    if (setrlimit((__rlimit_resource_t)resource, &new) < 0) fail(stage);
}

static void limit(int resource, uint64_t value, const char *stage) { limit_to(resource, value, value, stage); }

static void drop_privileges(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0) fail("ambient set");
    if (setresgid(run_uid, run_uid, run_uid) < 0 || setresuid(run_uid, run_uid, run_uid) < 0) fail("setresuid");
    if (syscall(SYS_capset, &header, none) < 0) fail("capset");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) fail("no_new_privs");
}

static _Noreturn void execute(char **argv, char **env) {
    shared->executing = 1;
    char candidate[4096];
    const char *path = "/usr/local/bin:/usr/bin:/bin";
    if (strchr(argv[0], '/')) {
        execve(argv[0], argv, env);
        fail("exec");
    }
    for (char **entry = env; *entry; entry++)
        if (strncmp(*entry, "PATH=", 5) == 0) path = *entry + 5;
    for (const char *end; *path; path = *end ? end + 1 : end) {
        end = strchrnul(path, ':');
        snprintf(candidate, sizeof candidate, "%.*s/%s", (int)(end - path), path, argv[0]);
        execve(candidate, argv, env);
        if (errno != ENOENT && errno != ENOTDIR) fail("exec");
    }
    fail("exec");
}

/* Descriptors of named pipes become 3, 4 and so on; first out of the way of those that are still to be moved. */
static void pass_pipes(void) {
    int count = (int)call.request->pipes;
    for (int i = 0; i < count; i++)
        if ((call.pipes[i] = fcntl(call.pipes[i], F_DUPFD, 3 + MAX_FDS)) < 0) fail("dup");
    for (int i = 0; i < count; i++)
        if (dup2(call.pipes[i], 3 + i) < 0) fail("dup2");
}

/* In the child, until its exec. Everything here is undone by nothing: order is from harmless to final. */
static __attribute__((noinline)) _Noreturn void become(void) {
    const struct request *request = call.request;
    int oom = open_proc("self/oom_score_adj", O_WRONLY);
    if (oom >= 0 && write(oom, "1000", 4) < 0) fail("oom_score_adj");
    if (setns(shared->network, CLONE_NEWNET) < 0) fail("network namespace");
    setpriority(PRIO_PROCESS, 0, 0);
    if (setsid() < 0) fail("setsid");
    limit(RLIMIT_CORE, 0, "RLIMIT_CORE");
    limit_to(RLIMIT_CPU, request->cpu, RLIM_INFINITY, "RLIMIT_CPU"); /* the slot limits that */
    limit(RLIMIT_FSIZE, request->fsize, "RLIMIT_FSIZE");
    /* Programs for deep recursion ask for an unlimited stack. The cgroup limits its memory. */
    uint64_t most = request->flags & FIXED_STACK ? request->stack : RLIM_INFINITY;
    limit_to(RLIMIT_STACK, request->stack, most, "RLIMIT_STACK");
    limit(RLIMIT_SIGPENDING, MAX_PENDING, "RLIMIT_SIGPENDING");
    limit(RLIMIT_MEMLOCK, MAX_LOCKED, "RLIMIT_MEMLOCK");
    limit(RLIMIT_NICE, 0, "RLIMIT_NICE");
    limit(RLIMIT_RTPRIO, 0, "RLIMIT_RTPRIO");
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    umask(022);
    if (unshare(CLONE_NEWIPC) < 0) fail("ipc namespace");
    /* Opened for this run: flags and owner of an open file would be there for the next one. */
    if (call.stdio[0] < 0) call.stdio[0] = open("/dev/null", O_RDONLY);
    /* Before descriptors of process 1 are replaced by the run's. */
    if (restrict_reading(call.stdio[0], call.pipes, (int)request->pipes) < 0) fail("what can be read");
    /* Received descriptors are all above 2: 0, 1 and 2 of process 1 are never closed. */
    for (int i = 0; i < 3; i++)
        if (dup2(call.stdio[i], i) < 0) fail("dup2");
    pass_pipes();
    if (close_range(3 + request->pipes, ~0U, 0) < 0) fail("close_range");
    limit(RLIMIT_NOFILE, request->nofile, "RLIMIT_NOFILE"); /* now: process 1's descriptors may be more */
    drop_privileges();
    if (chdir(call.cwd) < 0) fail("chdir");
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) < 0) fail("seccomp");
    execute(call.argv, call.env);
}

/* Takes the request in `packet` apart, wherever it is to be carried out. */
static void read_call(ssize_t size, const int *fds) {
    int count = split_strings(size), passed = 0;
    const struct request *request = call.request = (const struct request *)packet;
    call.output = request->flags & OUTPUT_FILE && count > 0 ? strings[--count] : NULL;
    while (passed < MAX_FDS && fds[passed] >= 0) passed++;
    call.cgroup = request->flags & INTO_CGROUP && passed > 0 ? fds[--passed] : -1;
    int pipes = request->pipes > MAX_FDS ? MAX_FDS : (int)request->pipes;
    passed -= pipes;
    if (request->argc == 0 || request->argc > MAX_STRINGS || request->envc > MAX_STRINGS ||
        (int)(request->argc + request->envc) + 1 != count || passed < 2 || passed > 3) {
        errno = EPROTO;
        die("run request");
    }
    memcpy(call.pipes, fds + passed, (size_t)pipes * sizeof *fds);
    call.stdio[0] = passed == 3 ? fds[0] : -1; /* two descriptors: the outputs; the input is empty */
    call.stdio[1] = fds[passed - 2];
    call.stdio[2] = fds[passed - 1];
    call.cwd = strings[0];
    call.argv = strings + 1;
    memcpy(call.env, call.argv + request->argc, request->envc * sizeof *call.env);
    call.env[request->envc] = NULL;
    call.argv[request->argc] = NULL;
}

/* clone3, written out: with CLONE_VM both return on one stack, to what a function would have left. */
static inline __attribute__((always_inline)) long clone_here(struct clone_args *args) {
#ifdef __x86_64__
    long pid;
    __asm__ volatile("syscall" : "=a"(pid) : "a"(SYS_clone3), "D"(args), "S"(sizeof *args) : "rcx", "r11", "memory");
    return pid;
#else
    args->flags &= ~(uint64_t)CLONE_VM; /* memory of its own takes 0.1 ms more */
    long pid = syscall(SYS_clone3, args, sizeof *args);
    return pid < 0 ? -errno : pid;
#endif
}

/*
 * Like vfork: returns when the child of process 1 has executed, or failed to. With CLONE_VM the child has this memory
 * until then, of which it changes what lies below this frame (so become() is no part of it) and what the next
 * read_call() sets anew. No process of another run is alive that could look into it. Not where this process is the
 * child's parent: the kernel kills no such child for want of memory in its group, and so lets it wait for ever.
 */
static pid_t start(uint64_t flags, uint64_t exit_signal) {
    struct clone_args args = {.flags = flags | CLONE_VFORK, .exit_signal = exit_signal};
    if (call.cgroup >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)call.cgroup;
    }
    long pid = clone_here(&args);
    if (pid == 0) become();
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) die("prctl"); /* the child's change of user counted for this memory */
    if (pid < 0) errno = (int)-pid;
    return pid < 0 ? -1 : (pid_t)pid;
}

static void not_started(const char *stage, int error) {
    shared->error = error;
    strncpy(shared->stage, stage, sizeof shared->stage - 1);
}

static void signal_event(int fd) {
    uint64_t one = 1;
    if (write(fd, &one, sizeof one) != sizeof one) die("eventfd");
}

static void wait_event(int fd) {
    uint64_t count;
    if (read(fd, &count, sizeof count) != sizeof count) die("eventfd");
}

/* Until the container ends: the pid namespace takes this process with it. */
static void serve_parent(const struct cgroup *cgroup, const struct parent *self) {
    for (int i = 0; i < cgroup->count; i++)
        if (write(cgroup->procs[i], "0", 1) < 0) die("cgroup");
    for (;;) {
        signal_event(self->done);
        wait_event(self->go);
        read_call(shared->size, shared->fds);
        /* with CLONE_PARENT the signal is this process's own: none, until exec */
        shared->pid = start(CLONE_PARENT | CLONE_VM, 0);
        if (shared->pid < 0) not_started("clone", errno);
    }
}

/* Its exit signal is none, so that a plain wait4 in process 1 passes it over. It joins while process 1 goes on. */
static void make_parent(const struct cgroup *cgroup, struct parent *parent) {
    struct clone_args args = {.flags = CLONE_FILES | CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&parent->pidfd};
    if (cgroup->count == 0) return;
    parent->go = eventfd(0, EFD_CLOEXEC);
    parent->done = eventfd(0, EFD_CLOEXEC);
    pid_t pid = parent->pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid < 0 || parent->go < 0 || parent->done < 0) die("parent");
    if (pid == 0) serve_parent(cgroup, parent);
}

/* Waits for a parent's word; 0 when it is dead. Nobody kills it but the kernel, for want of memory in the group. */
static int hear_parent(const struct parent *parent) {
    struct pollfd sources[2] = {{parent->done, POLLIN, 0}, {parent->pidfd, POLLIN, 0}};
    while (poll(sources, 2, -1) < 0)
        if (errno != EINTR) die("poll");
    if (sources[1].revents) return 0; /* whatever its last word was */
    wait_event(parent->done);
    return 1;
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000U + (uint64_t)time.tv_nsec;
}

/* Reaps what has ended (or, with WAIT, everything); notes the end of `main_pid` in the answer. Returns 1 once noted. */
static int reap(pid_t main_pid, struct answer *answer, int flags) {
    struct rusage usage;
    int status, ended = 0;
    pid_t pid;
    while ((pid = wait4(-1, &status, flags, &usage)) > 0 || (pid < 0 && errno == EINTR)) {
        if (pid < 0) continue;
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) answer->flags |= SAW_SIGSYS;
        if ((uint64_t)usage.ru_maxrss * 1024 > answer->maxrss) answer->maxrss = (uint64_t)usage.ru_maxrss * 1024;
        answer->cpu_us += (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000U;
        answer->cpu_us += (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
        if (pid != main_pid) continue;
        answer->status = status;
        ended = 1;
    }
    return ended;
}

/* Everything but process 1 and its helpers, at once: as the user of the runs, for whom those are not to be killed. */
static void kill_runs(void) {
    if (run_uid == 0) { /* then there are none */
        kill(-1, SIGKILL);
        return;
    }
    if (setresuid(run_uid, run_uid, 0) < 0) die("setresuid");
    kill(-1, SIGKILL);
    if (setresuid(0, 0, 0) < 0) die("setresuid");
    protect(); /* a change of user undoes it */
}

/* Kills a dead parent's child too, whatever user that is by now: so all helpers are made again. */
static void make_parents_again(void) {
    struct answer ignored = {.kind = EXITED};
    kill(-1, SIGKILL);
    reap(0, &ignored, __WALL);
    rewind_pids(PROCESS_1);
    struct parent *const both[] = {&build_parent, &run_parent};
    for (int i = 0; i < 2; i++) {
        close(both[i]->go);
        close(both[i]->done);
        close(both[i]->pidfd);
        make_parent(i ? &run_cgroup : &build_cgroup, both[i]);
    }
    rewind_pids(LAST_HELPER);
}

/*
 * Has the parent start the run; -1 when that failed. The kernel kills a parent for want of memory in the group, if what
 * the run before had was freed too late. The signal may be there before this run and the death come during it, so this
 * is tried again, unless the program may have done something. The slot sees in the group whether this run is to blame.
 */
static pid_t start_by(struct parent *parent, ssize_t size, const int *fds) {
    for (int tries = 0; tries < 3; tries++) {
        if (hear_parent(parent)) { /* its start, or its last word of the run before */
            shared->size = (int32_t)size;
            memcpy(shared->fds, fds, sizeof shared->fds);
            signal_event(parent->go);
            if (hear_parent(parent)) {
                signal_event(parent->done);
                return shared->pid;
            }
        }
        make_parents_again();
        if (shared->executing) {
            not_started("helper died in exec", ENOMEM);
            return -1;
        }
    }
    not_started("helper died thrice", ENOMEM);
    return -1;
}

/* Gives the run a pipe in place of each memory file that is to have its output. */
static void make_streams(struct stream *streams, int *fds) {
    for (int i = 0; i < 2; i++) {
        struct stat st;
        int ends[2];
        streams[i] = (struct stream){-1, call.stdio[1 + i], 0, 0};
        if (fstat(streams[i].file, &st) < 0) die("output");
        if (!S_ISREG(st.st_mode)) continue;
        /* The program may open it again by its name in /proc. */
        if (pipe2(ends, O_CLOEXEC) < 0 || fchmod(ends[1], 0666) < 0) die("pipe");
        fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES); /* a wish: fewer turns between the run and this process */
        streams[i].pipe = ends[0];
        for (int at = 0; at < MAX_FDS; at++)
            if (fds[at] == streams[i].file) fds[at] = ends[1];
        call.stdio[1 + i] = ends[1];
    }
}

/* The run has them, or never will: nobody but it keeps its pipes open. */
static void close_ends(const struct stream *streams, int *fds) {
    for (int i = 0; i < 2; i++) {
        if (streams[i].pipe < 0) continue;
        close(call.stdio[1 + i]);
        for (int at = 0; at < MAX_FDS; at++)
            if (fds[at] == call.stdio[1 + i]) fds[at] = streams[i].file;
    }
}

/*
 * Takes what is in a pipe, so that the output has `most` bytes at most; forgets the pipe at its end. Returns the number
 * of bytes, or 0. One look takes what fits into a pipe: the run can keep the pipe locked while a write of it waits for
 * memory, and fill it again and again, so many looks in a row could take longer than the run may last. Little output is
 * followed by a pause: each wake-up of this process takes the core from a program that prints in small pieces.
 */
static ssize_t drain(struct stream *stream, off_t most) {
    loff_t at = stream->size;
    if (stream->pipe < 0 || at >= most) return 0;
    ssize_t done = splice(stream->pipe, NULL, stream->file, &at, (size_t)(most - at), SPLICE_F_NONBLOCK);
    if (done < 0 && errno != EAGAIN && errno != EINTR) die("output");
    stream->size = at;
    if (done < PIPE_BYTES / 2) stream->look = now() + PIPE_PAUSE;
    if (done == 0) {
        close(stream->pipe);
        stream->pipe = -1;
    }
    return done < 0 ? 0 : done;
}

/* For ppoll: the pipe if it is time to look at it, else nothing; `until` becomes the time of the look if that is earlier. */
static struct pollfd watch(const struct stream *stream, uint64_t *until) {
    if (stream->pipe < 0 || stream->look <= now()) return (struct pollfd){stream->pipe, POLLIN, 0};
    if (stream->look < *until) *until = stream->look;
    return (struct pollfd){-1, 0, 0};
}

/*
 * Until the main process has ended, the slot says KILL, or an output has `most` bytes; then nothing but process 1 is left.
 */
static void supervise(pid_t main_pid, struct answer *answer, struct stream *streams, off_t most) {
    struct pollfd sources[5] = {{signals, POLLIN, 0}, {channel, POLLIN, 0}};
    struct signalfd_siginfo info;
    int fds[MAX_FDS], ended = 0, killed = 0;
    forget_calls();
    while (!ended && !killed) {
        uint64_t until = next_look(), from = 0;
        for (int i = 0; i < 2; i++) sources[3 + i] = watch(&streams[i], &until);
        wait_for_calls(&sources[2]);
        if (until != UINT64_MAX) from = now();
        const uint64_t ns = until > from ? until - from : 0;
        const struct timespec pause = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
        if (ppoll(sources, 5, until != UINT64_MAX ? &pause : NULL, NULL) < 0 && errno != EINTR) die("poll");
        serve_calls(&sources[2]);
        for (int i = 0; i < 2; i++) {
            if (sources[3 + i].revents) drain(&streams[i], most);
            if (streams[i].size >= most) killed = 1;
        }
        if (sources[0].revents) {
            if (read(signals, &info, sizeof info) < 0) die("signalfd");
            ended = reap(main_pid, answer, WNOHANG);
        }
        if (sources[1].revents && !ended) {
            if (receive(fds) == 0) leave();
            killed = killed || ((struct request *)packet)->kind == KILL;
        }
    }
    answer->wall_ns = now() - shared->began_ns;
    kill_runs();
    reap(main_pid, answer, 0);
    for (int i = 0; i < 2; i++)
        while (drain(&streams[i], most) > 0) continue; /* nobody is left to fill it again */
}

static void run(ssize_t size, int *fds) {
    struct stream streams[2];
    struct answer answer = {.kind = EXITED}, ready = {.kind = READY};
    read_call(size, fds);
    int writable = (call.request->flags & WRITABLE) != 0;
    off_t most = (off_t)call.request->fsize; /* the packet is another one later */
    pid_t pid;
    set_box_writable(writable);
    for (size_t i = 0; i < sizeof scratch / sizeof *scratch; i++) touch_unused(scratch[i]);
    rewind_pids(LAST_HELPER);
    shared->network = network();
    make_streams(streams, fds);
    shared->error = shared->executing = 0;
    memset(shared->stage, 0, sizeof shared->stage);
    if (run_cgroup.count > 0) {
        pid = start_by(writable ? &build_parent : &run_parent, size, fds);
    } else if ((pid = start(0, SIGCHLD)) < 0) {
        not_started("clone", errno);
    }
    shared->began_ns = now();
    close_ends(streams, fds);
    if (pid < 0) {
        answer.status = SIGKILL;
    } else if (shared->error != 0) {
        if (waitpid(pid, &answer.status, __WALL) < 0) die("waitpid"); /* not executed: it may signal nobody */
    } else {
        supervise(pid, &answer, streams, most);
    }
    for (int i = 0; i < 2; i++)
        if (streams[i].pipe >= 0) close(streams[i].pipe);
    struct statfs box;
    if (writable && own_statfs("/box", &box) == 0) answer.box = (box.f_blocks - box.f_bfree) * (uint64_t)box.f_bsize;
    answer.error = shared->error;
    memcpy(answer.stage, shared->stage, sizeof answer.stage);
    int output = -1; /* opened now, as nothing is alive any more */
    if (call.request->flags & KEEP_SCRATCH) {
        output = open("/scratch", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* outlives its mount, for as long as it is open */
    } else if (call.output) {
        output = open_regular("/scratch", call.output);
    }
    reply(&answer, output);
    int held = output >= 0 && !call.output;
    if (output >= 0) close(output);
    for (size_t i = 0; i < sizeof scratch / sizeof *scratch; i++) renew_scratch(scratch[i], writable, i == 0 && held);
    renew_network();
    reply(&ready, -1);
}

/* From where the container was made to the core on which it is used. "any": stay. */
static void settle(const char *cpu) {
    cpu_set_t one[sizeof made_on / sizeof *made_on];
    if (sched_getaffinity(0, sizeof made_on, made_on) < 0) die("sched_getaffinity");
    if (strcmp(cpu, "any") == 0) return;
    CPU_ZERO_S(sizeof one, one);
    CPU_SET_S((size_t)number(cpu), sizeof one, one);
    move_to(one);
}

static _Noreturn void serve(char **argv) {
    struct answer ready = {.kind = READY};
    int fds[MAX_FDS];
    sigset_t mask;
    channel = number(argv[0]);
    read_filter(number(argv[1]));
    run_uid = (uid_t)number(argv[2]);
    tmp_options = argv[4];
    build_cgroup = parse_cgroup(argv[5]);
    run_cgroup = parse_cgroup(argv[6]);
    protect();
    fcntl(channel, F_SETFD, FD_CLOEXEC);
    umask(0);
    packet = mmap(NULL, MAX_PACKET, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, number(argv[7]), 0);
    close(number(argv[7]));
    /* What every run inherits: no capability to gain, no signal ignored (the slot's Python ignores SIGPIPE). */
    for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) die("bounding set");
    for (int sig = 1; sig < NSIG; sig++) signal(sig, SIG_DFL);
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    signals = sigprocmask(SIG_BLOCK, &mask, NULL) < 0 ? -1 : signalfd(-1, &mask, SFD_CLOEXEC);
    if (shared == MAP_FAILED || packet == MAP_FAILED || signals < 0) die("set-up");
    write_file("/etc/passwd", "judge:x:1000:1000::/scratch:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n");
    write_file("/etc/group", "judge:x:1000:\nnogroup:x:65534:\n");
    write_file("/etc/hosts", "127.0.0.1 localhost box\n::1 localhost\n");
    write_file("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n");
    if (mount("tmpfs", "/box", "tmpfs", MS_NOSUID | MS_NODEV, argv[3]) < 0) die("/box");
    for (size_t i = 0; i < sizeof scratch / sizeof *scratch; i++) mount_scratch(scratch[i]);
    close_devices();
    if (mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0) die("remount /");
    cover_proc();
    choose_readable();
    first_network();
    answer_calls();
    make_parent(&build_cgroup, &build_parent);
    make_parent(&run_cgroup, &run_parent);
    settle(argv[8]);
    reply(&ready, -1);
    for (ssize_t size; (size = receive(fds)) > 0;) {
        struct request *request = (struct request *)packet;
        int count = split_strings(size);
        if (request->kind == PUT && count == 1 && fds[0] >= 0) {
            put_file(request, strings[0], fds[0]);
        } else if (request->kind == GET && count == 1) {
            get_file(strings[0]);
        } else if (request->kind == RUN && count > 1) {
            run(size, fds);
        } else if (request->kind != KILL) { /* a KILL that crossed the end of its run */
            errno = EPROTO;
            die("request");
        }
        for (int i = 0; i < MAX_FDS; i++)
            if (fds[i] >= 0) close(fds[i]);
    }
    leave();
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "launch") == 0) return launch(argc - 1, argv + 1);
    if (argc == 11 && strcmp(argv[1], "serve") == 0) serve(argv + 2);
    fprintf(stderr, "agent: expected 'launch' or 'serve' with its arguments; only judge.sandbox starts this program\n");
    return 64;
}
