/*
 * System calls of runs that process 1 answers in the kernel's place, as the kernel's own answers would let containers
 * talk to each other (docs/decisions/006-files-that-sandboxes-share.md).
 *
 * - futex: FUTEX_WAIT without FUTEX_PRIVATE_FLAG. The kernel finds such a futex by inode and offset, and a file of /usr
 *   has one inode for all containers. glibc needs the call: pthread_join waits for the end of a thread with it, and
 *   semaphores and mutexes between processes do. Process 1 reads the word until it changes. The word of another
 *   container's file never changes, so nobody outside can end such a wait. Waking needs no rule: nobody is in the queue.
 * - sysinfo: the kernel counts processes, load and free memory of the whole host.
 * - statfs, fstatfs: /usr is on the host's disk, and each file system has an identifier, which shows whether it was
 *   replaced after the run before. All are described as an empty /tmp.
 *
 * agent.c calls this.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"

/*
 * Nanoseconds between two looks at a word: a quarter of the time that the call has waited, within bounds. With many
 * waits at once the least grows, so that looking takes a small part of the core. A wait ends after LONGEST without a
 * reason, as futexes may: so a wake-up without a change of the word is late and not lost. A program whose memory may not
 * be read (its user may execute its file and not read it) is sent back to its own loop after a NAP.
 */
enum { SHORTEST_LOOK = 30000, LONGEST_LOOK = 2000000, LOOK_FOR_EACH = 5000, LONGEST = 100000000, NAP = 1000000 };
enum { MAX_WAITS = 4096, AT_ONCE = 64, NOTIFICATION = 512, ENOUGH = 5000000 };

struct wait {
    uint64_t id, address, began, look, deadline; /* CLOCK_MONOTONIC in ns; the deadline is 0 for none */
    int64_t deadline_realtime;                   /* CLOCK_REALTIME, or 0 */
    uint32_t value;
    pid_t pid;
    int unreadable;
};

static struct wait waits[MAX_WAITS];
static int waiting, listener = -1;
static struct sysinfo host;
static struct statfs empty;
static uint64_t password;
static union {
    struct seccomp_notif of;
    char space[NOTIFICATION];
} notification;
static union {
    struct seccomp_notif_resp of;
    char space[NOTIFICATION];
} response;

static int64_t clock_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/*
 * The filter holds for process 1 as well, whose own statfs nobody would answer: it says a number that no run can know, in
 * an argument that the kernel does not look at. A filter for each run would take the kernel 0.4 ms.
 */
void answer_calls(void) {
    const unsigned nr = offsetof(struct seccomp_data, nr), op = offsetof(struct seccomp_data, args[1]);
    const unsigned word = offsetof(struct seccomp_data, args[2]);
    uint32_t words[2];
    if (sysinfo(&host) < 0 || statfs("/tmp", &empty) < 0) die("sysinfo");
    memset(&empty.f_fsid, 0, sizeof empty.f_fsid);
    if (getrandom(&password, sizeof password, 0) != sizeof password) die("getrandom");
    memcpy(words, &password, sizeof words);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, nr),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sysinfo, 11, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fstatfs, 10, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_statfs, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, word),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, words[0], 0, 7),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, word + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, words[1], 6, 5),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, op + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0)),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~(unsigned)FUTEX_CLOCK_REALTIME), /* FUTEX_PRIVATE_FLAG makes it another */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAIT, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAIT_BITSET, 0, 2),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAIT_REQUEUE_PI, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    struct seccomp_notif_sizes sizes;
    if (prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0) < 0) die("timer slack");
    if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0) die("system call notifications");
    if (sizes.seccomp_notif > sizeof notification || sizes.seccomp_notif_resp > sizeof response) {
        errno = E2BIG;
        die("system call notifications");
    }
    listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                            SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program);
    if (listener < 0) die("system call notifications");
}

int own_statfs(const char *path, struct statfs *into) { return (int)syscall(SYS_statfs, path, into, password); }

/* A caller that has ended meanwhile, or was interrupted by a signal, hears nothing: ENOENT. */
static void respond(uint64_t id, int error) {
    memset(&response, 0, sizeof response);
    response.of.id = id;
    response.of.error = -error;
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response) < 0 && errno != ENOENT) die("system call notification");
}

/* Copies from the memory of a run; 0 or an error number. EPERM: it is of a program that its user may not read. */
static int read_memory(pid_t pid, uint64_t address, void *into, size_t size) {
    struct iovec here = {into, size}, there = {(void *)(uintptr_t)address, size};
    ssize_t done = process_vm_readv(pid, &here, 1, &there, 1, 0);
    if (done < 0) return errno;
    return (size_t)done == size ? 0 : EFAULT;
}

static void forget(struct wait *wait) { *wait = waits[--waiting]; }

static void plan_look(struct wait *wait, uint64_t now) {
    uint64_t pause = (now - wait->began) / 4, least = SHORTEST_LOOK + (uint64_t)LOOK_FOR_EACH * (uint64_t)waiting;
    if (pause > LONGEST_LOOK) pause = LONGEST_LOOK;
    if (pause < least) pause = least;
    if (wait->unreadable) pause = NAP;
    wait->look = now + pause;
    if (wait->deadline && wait->deadline < wait->look) wait->look = wait->deadline;
}

/* Its timeout, if it has one: 0 or an error number. */
static int read_deadline(struct wait *wait, int command, int realtime, uint64_t pointer) {
    struct timespec time;
    if (pointer == 0) return 0;
    int error = read_memory(wait->pid, pointer, &time, sizeof time);
    if (error == EPERM) return 0;
    if (error) return error;
    if (time.tv_sec < 0 || time.tv_nsec < 0 || time.tv_nsec > 999999999) return EINVAL;
    int64_t most = INT64_MAX / 4, ns = time.tv_sec > most / 1000000000 ? most : time.tv_sec * 1000000000 + time.tv_nsec;
    if (command == FUTEX_WAIT) {
        wait->deadline = wait->began + (uint64_t)ns;
    } else if (realtime) {
        wait->deadline_realtime = ns > 0 ? ns : 1;
    } else {
        wait->deadline = ns > 0 ? (uint64_t)ns : 1;
    }
    return 0;
}

static int passed(const struct wait *wait, uint64_t now) {
    return (wait->deadline && now >= wait->deadline) ||
           (wait->deadline_realtime && clock_ns(CLOCK_REALTIME) >= wait->deadline_realtime);
}

static void begin_wait(void) {
    const struct seccomp_notif *call = &notification.of;
    int op = (int)call->data.args[1], command = op & FUTEX_CMD_MASK;
    struct wait *wait = &waits[waiting];
    uint32_t word;
    *wait = (struct wait){.id = call->id, .pid = (pid_t)call->pid, .address = call->data.args[0],
                          .value = (uint32_t)call->data.args[2], .began = (uint64_t)clock_ns(CLOCK_MONOTONIC)};
    int error = wait->address % sizeof word ? EINVAL : 0;
    if (command == FUTEX_WAIT_BITSET && (uint32_t)call->data.args[5] == 0) error = EINVAL;
    if (!error) error = read_deadline(wait, command, (op & FUTEX_CLOCK_REALTIME) != 0, call->data.args[3]);
    if (!error) error = read_memory(wait->pid, wait->address, &word, sizeof word);
    if (error == EPERM) {
        wait->unreadable = 1;
    } else if (error || word != wait->value) {
        respond(wait->id, error ? error : EAGAIN);
        return;
    } else if (passed(wait, wait->began)) {
        respond(wait->id, ETIMEDOUT);
        return;
    }
    waiting++;
    plan_look(wait, wait->began);
}

/* Writes what a call asks for, the same for all programs, into the memory of its caller. */
static void answer_with(uint64_t address, void *from, size_t size) {
    const struct seccomp_notif *call = &notification.of;
    struct iovec here = {from, size}, there = {(void *)(uintptr_t)address, size};
    ssize_t done = process_vm_writev((pid_t)call->pid, &here, 1, &there, 1, 0);
    respond(call->id, done == (ssize_t)size ? 0 : done < 0 ? errno : EFAULT);
}

static void answer_sysinfo(void) {
    struct sysinfo shown = {.totalram = host.totalram, .freeram = host.totalram, .mem_unit = host.mem_unit, .procs = 1};
    answer_with(notification.of.data.args[0], &shown, sizeof shown);
}

static void take_call(void) {
    memset(&notification, 0, sizeof notification);
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &notification) < 0) {
        if (errno != ENOENT && errno != EINTR) die("system call notification");
        return; /* the caller has ended */
    }
    if (notification.of.data.nr == SYS_sysinfo) {
        answer_sysinfo();
    } else if (notification.of.data.nr == SYS_statfs || notification.of.data.nr == SYS_fstatfs) {
        answer_with(notification.of.data.args[1], &empty, sizeof empty);
    } else {
        begin_wait();
    }
}

void forget_calls(void) { waiting = 0; }

void wait_for_calls(struct pollfd *entry) {
    entry->fd = waiting < MAX_WAITS ? listener : -1;
    entry->events = POLLIN;
    entry->revents = 0;
}

uint64_t next_look(void) {
    uint64_t next = UINT64_MAX;
    for (int i = 0; i < waiting; i++)
        if (waits[i].look < next) next = waits[i].look;
    return next;
}

/*
 * Each half ends early after ENOUGH: the run can keep its memory locked against each look for a tenth of a second and more, and
 * process 1 must hear the slot in between. Later calls go on where this one stopped.
 */
void serve_calls(const struct pollfd *entry) {
    static int next;
    uint64_t now = (uint64_t)clock_ns(CLOCK_MONOTONIC), began = now;
    for (int i = 0; i < AT_ONCE && waiting < MAX_WAITS && entry->revents && now - began < ENOUGH; i++) {
        struct pollfd again = {listener, POLLIN, 0};
        take_call();
        now = (uint64_t)clock_ns(CLOCK_MONOTONIC);
        if (poll(&again, 1, 0) <= 0) break;
    }
    began = now;
    for (int unseen = waiting; unseen > 0 && now - began < ENOUGH; unseen--) { /* downwards: forget() puts the last here */
        if (--next < 0 || next >= waiting) next = waiting - 1;
        struct wait *wait = &waits[next];
        uint32_t word = wait->value;
        if (wait->look > now) continue;
        int error = wait->unreadable ? 0 : read_memory(wait->pid, wait->address, &word, sizeof word);
        now = (uint64_t)clock_ns(CLOCK_MONOTONIC);
        if (error || word != wait->value || now - wait->began > LONGEST || wait->unreadable) {
            respond(wait->id, error);
            forget(wait);
        } else if (passed(wait, now)) {
            respond(wait->id, ETIMEDOUT);
            forget(wait);
        } else {
            plan_look(wait, now);
        }
    }
}
