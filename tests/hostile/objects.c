/*
 * What a container could keep or read of a kernel object that containers share (tests/hostile/objects.py has the table).
 *   run see NAME    prints all that it learns
 *   run hold NAME   does what another container could learn of, says so on its input (a socket), waits for its end
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *const files[] = {"/usr/bin/env", "/usr/bin/env", "/usr/bin/perl"};
static int hold;

static void say(const char *what, long value) { printf("%s: %ld\n", what, value < 0 ? -(long)errno : value); }

/* A page of a file of /usr, in each way that it can be mapped to be read. */
static uint32_t *page(int way, int flags) {
    int fd = open(files[way % 3], O_RDONLY);
    uint32_t *at = mmap(NULL, 4096, PROT_READ, flags, fd, 4096);
    if (at == MAP_FAILED) exit(3);
    (void)*(volatile uint32_t *)at;
    return at;
}

static long futex(void *word, int op, uint32_t value, const struct timespec *time) {
    return syscall(SYS_futex, word, op, value, time, NULL, FUTEX_BITSET_MATCH_ANY);
}

struct waiter { int op, way, flags; };

static void *waits(void *argument) {
    struct waiter *waiter = argument;
    uint32_t *word = page(waiter->way, waiter->flags);
    const struct timespec hour = {3600, 0};
    struct { uint64_t value, address; uint32_t flags, unused; } wait = {*word, (uintptr_t)word, 2, 0};
    static uint32_t own;
    for (;;) {
        long done;
        if (waiter->op == 449) done = syscall(449, &wait, 1, 0, NULL, CLOCK_MONOTONIC);       /* futex_waitv */
        else if (waiter->op == 455) done = syscall(455, word, *word, ~0UL, 2, NULL, 0);       /* futex_wait */
        else if (waiter->op == FUTEX_WAIT_REQUEUE_PI) done = syscall(SYS_futex, word, waiter->op, *word, NULL, &own, 0);
        else done = futex(word, waiter->op, *word, waiter->op & FUTEX_CLOCK_REALTIME ? NULL : &hour);
        if (done < 0 && errno != EAGAIN && errno != EINTR) return NULL;
    }
}

static const struct waiter all_waiters[] = {
    {FUTEX_WAIT, 0, MAP_SHARED}, {FUTEX_WAIT, 1, MAP_PRIVATE}, {FUTEX_WAIT_BITSET, 2, MAP_SHARED},
    {FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 2, MAP_PRIVATE}, {FUTEX_WAIT_REQUEUE_PI, 0, MAP_SHARED},
    {FUTEX_LOCK_PI, 0, MAP_SHARED}, {FUTEX_LOCK_PI2, 0, MAP_SHARED}, {449, 0, MAP_SHARED}, {455, 0, MAP_SHARED},
};

static void futex_waiters(void) {
    if (hold) {
        static pthread_t threads[16];
        for (size_t i = 0; i < sizeof all_waiters / sizeof *all_waiters; i++)
            pthread_create(&threads[i], NULL, waits, (void *)&all_waiters[i]);
        usleep(300000);
        return;
    }
    for (int way = 0; way < 3; way++) {
        uint32_t *word = page(way, way & 1 ? MAP_PRIVATE : MAP_SHARED);
        say("woken", futex(word, FUTEX_WAKE, 1000, NULL));
        say("requeued", syscall(SYS_futex, word, FUTEX_CMP_REQUEUE, 0, 1000L, word + 1, *word));
        say("woken by operation", syscall(SYS_futex, word, FUTEX_WAKE_OP, 1000, 1000L, word + 1, 0));
        say("woken by futex_wake", syscall(454, word, ~0UL, 1000, 2));
    }
}

/* The kernel wakes for whoever ends: clear_child_tid, and the robust list's pending entry. */
static int ends(void *word) {
    struct { struct { void *next; } list; long offset; void *pending; } head = {{&head}, 0, word};
    syscall(SYS_set_robust_list, &head, sizeof head);
    syscall(SYS_exit, 0);
    return 0;
}

static void *wakes(void *argument) {
    (void)argument;
    uint32_t *word = page(0, MAP_SHARED);
    static char stack[65536];
    for (;;) {
        int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
        clone(ends, stack + sizeof stack, flags, word, NULL, NULL, word);
        futex(word, FUTEX_WAKE, 1000, NULL);
        usleep(2000);
    }
    return NULL;
}

static void futex_wakers(void) {
    const struct timespec moment = {0, 20000000};
    if (hold) {
        static pthread_t thread;
        pthread_create(&thread, NULL, wakes, NULL);
        usleep(100000);
        return;
    }
    uint32_t *word = page(0, MAP_SHARED);
    int early = 0;
    for (int i = 0; i < 20; i++) early += futex(word, FUTEX_WAIT, *word, &moment) == 0 || errno == EAGAIN;
    say("woken early", early);
}

static void print_file(const char *path, const char *key) {
    char line[4096];
    FILE *file = fopen(path, "r");
    if (!file) { printf("%s: %d\n", path, errno); return; }
    while (fgets(line, sizeof line, file))
        if (strstr(line, key)) printf("%s: %s", path, line);
    fclose(file);
}

/* Whether others have a page in use: pagemap's bit 56, smaps, numa_maps. */
static void mappings(void) {
    uint32_t *at = page(2, MAP_SHARED);
    uint64_t entry = 0;
    if (hold) return;
    int fd = open("/proc/self/pagemap", O_RDONLY);
    say("pagemap", fd);
    if (fd >= 0 && pread(fd, &entry, 8, (off_t)((uintptr_t)at >> 12) * 8) == 8) say("alone", (long)(entry >> 56 & 1));
    for (int i = 0; i < 5; i++) {
        const char *const names[] = {"smaps", "smaps_rollup", "numa_maps", "task/%d/smaps", "clear_refs"};
        char path[64] = "/proc/self/", name[32];
        snprintf(name, sizeof name, names[i], getpid());
        print_file(strcat(path, name), "");
    }
    print_file("/proc/thread-self/smaps", "");
}

/* Which pages of a file are in memory, by every call that tells without waiting. */
static void residency(void) {
    int fd = open("/usr/share/perl/5.36.0/perl5db.pl", O_RDONLY);
    if (fd < 0) fd = open("/usr/bin/git", O_RDONLY);
    if (fd < 0) fd = open("/usr/bin/perl", O_RDONLY);
    struct stat st;
    fstat(fd, &st);
    size_t pages = (size_t)(st.st_size + 4095) / 4096;
    if (hold) {
        static char buffer[1 << 16];
        for (off_t at = 0; pread(fd, buffer, sizeof buffer, at) > 0; at += sizeof buffer) { }
        return;
    }
    unsigned char *there = calloc(pages, 1);
    void *at = mmap(NULL, pages * 4096, PROT_READ, MAP_SHARED, fd, 0);
    long count = 0;
    say("mincore", mincore(at, pages * 4096, there));
    for (size_t i = 0; i < pages; i++) count += there[i] & 1;
    say("missing", (long)pages - count);
    struct { uint64_t offset, length; } range = {0, 0};
    uint64_t stat[5];
    say("cachestat", syscall(451, fd, &range, stat, 0));
    char byte;
    struct iovec { void *base; size_t size; } part = {&byte, 1};
    say("preadv2", syscall(SYS_preadv2, fd, &part, 1, 0, 0, 8));
}

static void locks(void) {
    static const char *const shared[] = {"/usr/bin/env", "/usr", "/dev/null", "/dev/zero", "/etc/ld.so.cache", "/proc"};
    for (int i = 0; i < 6; i++) {
        struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET}, seen = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int fd = open(shared[i], O_RDONLY);
        unsigned long hint = 4, read = 0;
        if (hold) {
            flock(fd, LOCK_EX | LOCK_NB);
            fcntl(fd, F_SETLK, &lock);
            fcntl(fd, F_OFD_SETLK, &lock);
            fcntl(fd, 1038, &hint);
            fcntl(fd, F_SETLEASE, F_RDLCK);
            fcntl(fd, F_NOTIFY, DN_ACCESS | DN_MULTISHOT);
            continue;
        }
        say("flock", flock(fd, LOCK_EX | LOCK_NB));
        lock.l_type = F_WRLCK;
        say("F_SETLK", fcntl(open(shared[i], O_RDWR), F_SETLK, &lock));
        say("F_OFD_SETLK", fcntl(fd, F_OFD_SETLK, &lock));
        say("F_OFD_GETLK", fcntl(fd, F_OFD_GETLK, &seen));
        say("hint", fcntl(fd, 1037, &read) < 0 ? -1 : (long)read);
        say("lease", fcntl(fd, F_SETLEASE, F_RDLCK));
        say("kind of lease", fcntl(fd, F_GETLEASE));
    }
}

static void watches(void) {
    int fd = open("/usr/bin/env", O_RDONLY);
    if (hold) return;
    say("inotify_init1", syscall(SYS_inotify_init1, 0));
    say("fanotify_init", syscall(SYS_fanotify_init, 0, 0));
    say("F_NOTIFY", fcntl(fd, F_NOTIFY, DN_ACCESS));
    say("io_uring_setup", syscall(425, 8, NULL));
    say("userfaultfd", syscall(323, 0));
}

static void whole_host(void) {
    struct sysinfo info;
    struct statfs fs;
    if (hold) {
        for (int i = 0; i < 20; i++)
            if (fork() == 0) {
                memset(malloc(1 << 20), 1, 1 << 20);
                pause();
            }
        return;
    }
    sysinfo(&info);
    printf("%d %lu %lu %lu %lu %lu %ld\n", info.procs, info.loads[0], info.loads[1], info.freeram, info.sharedram, info.bufferram,
           info.uptime);
    static const char *const paths[] = {"/usr", "/tmp", "/scratch", "/dev/shm", "/box", "/proc", "/dev"};
    for (int i = 0; i < 7; i++) say(paths[i], statfs(paths[i], &fs));
    static const char *const names[] = {"loadavg", "stat", "meminfo", "vmstat", "locks", "interrupts", "uptime", "zoneinfo", "slabinfo",
                                        "buddyinfo", "sys/fs/file-nr", "sys/fs/inode-nr", "sys/kernel/random/entropy_avail", "key-users",
                                        "sys/kernel/pty/nr", "diskstats", "sysvipc/shm", "pressure/cpu", "softirqs", "swaps"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%s", names[i]);
        print_file(path, "");
    }
}

/* Counters of the host that files of /proc/self, and calls, show: mounts, sessions, sockets, descriptors. */
static void counters(void) {
    static const char *const names[] = {"mountinfo", "mounts", "mountstats", "fdinfo/0", "autogroup", "sched", "schedstat", "net/sockstat",
                                        "net/softnet_stat", "net/unix", "cgroup", "cpuset", "uid_map", "sessionid", "timers", "wchan", "io",
                                        "latency", "stack", "syscall"};
    unsigned char buffer[256];
    if (hold) {
        for (int i = 0; i < 20; i++)
            if (fork() == 0) {
                setsid();
                int pair[2];
                socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
                pause();
            }
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/%s", names[i]);
        print_file(path, "");
    }
    say("statx", syscall(SYS_statx, AT_FDCWD, "/tmp", 0, 0x1fff, buffer));
    say("statmount", syscall(457, NULL, buffer, sizeof buffer, 0));
    int mount, pair[2];
    struct { unsigned size; int type; unsigned char handle[128]; } handle = {128, 0, {0}};
    say("name_to_handle_at", syscall(SYS_name_to_handle_at, AT_FDCWD, "/usr", &handle, &mount, 0));
    uint64_t cookie;
    socklen_t size = sizeof cookie;
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    say("SO_COOKIE", getsockopt(pair[0], SOL_SOCKET, 57, &cookie, &size));
}

static void names(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "\0judge-object"};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    int create = hold ? IPC_CREAT | 0666 : 0;
    if (hold) {
        bind(fd, (struct sockaddr *)&address, sizeof address);
        listen(fd, 5);
        int file = open("/dev/shm/judge-object", O_CREAT | O_RDWR, 0666);
        if (file < 0) exit(4);
    } else {
        say("connect", connect(fd, (struct sockaddr *)&address, sizeof address));
        say("/dev/shm", open("/dev/shm/judge-object", O_RDONLY));
    }
    long made[] = {shmget(4711, 4096, create), semget(4711, 1, create), msgget(4711, create)};
    if (!hold) {
        for (int i = 0; i < 3; i++) printf("System V: %s\n", made[i] < 0 ? "none" : "there");
        struct shm_info shared;
        say("SHM_INFO", shmctl(0, SHM_INFO, (void *)&shared));
        printf("%d segments\n", shared.used_ids);
        say("mq_open", syscall(SYS_mq_open, "judge-object", O_RDONLY, 0, NULL));
        say("add_key", syscall(SYS_add_key, "user", "judge", "x", 1, -4));
        say("other namespaces", syscall(SYS_unshare, CLONE_NEWUSER));
    }
}

/* What is counted for a user of the host: pages of pipes, descriptors in flight, signals, processes. */
static void user(void) {
    int pipes[2], count = 0, flying = 0, signals = 0, processes = 0, pair[2];
    for (; count < 100 && pipe(pipes) == 0; count++)
        if (hold) fcntl(pipes[1], F_SETPIPE_SZ, 1 << 20);
        else if (count == 0) say("pages of a pipe", fcntl(pipes[0], F_GETPIPE_SZ));
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    for (; flying < 8; flying++) {
        union { struct cmsghdr header; char space[CMSG_SPACE(sizeof(int))]; } control = {0};
        char byte = 0;
        struct iovec { void *base; size_t size; } part = {&byte, 1};
        struct msghdr message = {.msg_iov = (void *)&part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
        control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), &pair[0], sizeof(int));
        if (sendmsg(pair[0], &message, MSG_DONTWAIT) < 0) break;
    }
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    while (signals < 2000 && sigqueue(getpid(), SIGRTMIN, (union sigval){0}) == 0) signals++;
    pid_t pid;
    for (; processes < 20 && (pid = fork()) >= 0; processes++)
        if (pid == 0) { pause(); _exit(0); }
    /* Of the run before, in this container, the kernel may free a signal or two late. */
    if (!hold) printf("%d pipes, %d in flight, some %d signals, %d processes\n", count, flying, (signals + 8) / 16 * 16, processes);
}

static void marks(void) {
    static const char *const paths[] = {"/usr", "/usr/bin/env", "/usr/bin", "/dev/null", "/dev/zero", "/etc/ld.so.cache", "/etc", "/dev", "/"};
    for (int i = 0; i < 9; i++) {
        struct stat st;
        if (hold) {
            char buffer[4096];
            int fd = open(paths[i], O_RDONLY);
            if (fd >= 0 && read(fd, buffer, sizeof buffer) < 0) syscall(SYS_getdents64, fd, buffer, sizeof buffer);
            utimensat(AT_FDCWD, paths[i], NULL, 0);
            link(paths[i], "/scratch/link");
            chmod(paths[i], 0);
            continue;
        }
        stat(paths[i], &st);
        printf("%s %ld.%09ld %ld.%09ld %ld.%09ld %lu %o\n", paths[i], st.st_atim.tv_sec, st.st_atim.tv_nsec, st.st_mtim.tv_sec,
               st.st_mtim.tv_nsec, st.st_ctim.tv_sec, st.st_ctim.tv_nsec, (unsigned long)st.st_nlink, st.st_mode);
    }
}

static void processor(void) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    if (hold) {
        sched_setaffinity(0, sizeof cpus, &cpus);
        setpriority(PRIO_USER, 0, 10);
        syscall(SYS_ioprio_set, 3, 0, 4 << 13);
        return;
    }
    sched_getaffinity(0, sizeof cpus, &cpus);
    printf("%d cores, priority %d\n", CPU_COUNT(&cpus), getpriority(PRIO_PROCESS, 0));
    say("priority of the user", getpriority(PRIO_USER, 0));
    struct timespec time;
    for (int pid = 1; pid < 8; pid++) say("clock", syscall(SYS_clock_gettime, (~pid << 3) | 2, &time));
}

static const struct {
    const char *name;
    void (*act)(void);
} objects[] = {{"futex-waiters", futex_waiters}, {"futex-wakers", futex_wakers}, {"mappings", mappings}, {"residency", residency},
               {"locks", locks}, {"watches", watches}, {"host", whole_host}, {"counters", counters}, {"names", names}, {"user", user},
               {"marks", marks}, {"processor", processor}};

int main(int argc, char **argv) {
    char byte;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    hold = argc > 2 && strcmp(argv[1], "hold") == 0;
    for (size_t i = 0; argc > 2 && i < sizeof objects / sizeof *objects; i++) {
        if (strcmp(objects[i].name, argv[2])) continue;
        objects[i].act();
        fflush(stdout);
        if (hold) {
            write(0, "h", 1);
            read(0, &byte, 1);
        }
        return 0;
    }
    return 64;
}
