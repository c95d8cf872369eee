/*
 * The network namespace of a run: a new one for each, made while the run before it goes on. agent.c calls this.
 *
 * No device of it is ever up, and the only sockets that runs can make in it are those of the family UNIX. Making one
 * takes the kernel 0.5 ms, so another process does it, on a core without a slot, where there is one. Now and then it
 * takes 10 ms, as the kernel tidies up after others; so some are made ahead, the more the more runs there are.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"

enum { AHEAD = 8 };
enum { COLLECT_MS = 1000, TICKS_MS = 100 }; /* see forget_sockets; a tick is 10 ms at most, on a core that is free */

/* Descriptors: the namespace, and its count of sockets. */
struct network {
    int entry, sockstat;
};

/* The process that makes the next ones, in memory of its own; its descriptors are those of process 1. */
static struct {
    struct network *made; /* AHEAD of them in a page that both see: those that were ordered, from `next` on, in a ring */
    int go, done, pidfd, ordered, next;
    pid_t pid;
} maker;
static struct network current = {-1, -1};

static struct network make(void) {
    if (unshare(CLONE_NEWNET) < 0) die("network namespace");
    struct network made = {open_proc("self/ns/net", O_RDONLY), open_proc("self/net/sockstat", O_RDONLY)};
    if (made.entry < 0) die("network namespace");
    return made;
}

/* Process 1 and what it clones are in the first one; no socket of theirs belongs to it. */
void first_network(void) { current = make(); }

void start_maker(const cpu_set_t *cpus, size_t size) {
    struct clone_args args = {.flags = CLONE_FILES | CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&maker.pidfd};
    if (!maker.made) maker.made = mmap(NULL, AHEAD * sizeof *maker.made, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    maker.go = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    maker.done = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    maker.next = 0;
    if (maker.made == MAP_FAILED || maker.go < 0 || maker.done < 0) die("maker");
    maker.pid = (pid_t)syscall(SYS_clone3, &args, sizeof args); /* no exit signal: a plain wait4 passes it over */
    if (maker.pid < 0) die("maker");
    if (maker.pid > 0) return;
    if (sched_setaffinity(0, size, cpus) < 0) die("sched_setaffinity");
    for (int i = 0;; i = (i + 1) % AHEAD) {
        wait_event(maker.go);
        maker.made[i] = make();
        signal_event(maker.done);
    }
}

int has_maker(void) { return maker.pid > 0; }

/* One for the run that took the last one, and one more. */
void order_network(void) {
    for (int i = 0; i < 2 && maker.pid > 0 && maker.ordered < AHEAD; i++) {
        signal_event(maker.go);
        maker.ordered++;
    }
}

/* The first that was ordered; NULL when none was. Once all are fetched the maker sits still, and may be killed. */
static const struct network *fetch(void) {
    struct pollfd sources[2] = {{maker.done, POLLIN, 0}, {maker.pidfd, POLLIN, 0}};
    const struct network *first = maker.made + maker.next;
    if (!maker.ordered) return NULL;
    while (poll(sources, 2, -1) < 0)
        if (errno != EINTR) die("poll");
    errno = ECHILD;
    if (sources[0].revents == 0) die("maker");
    wait_event(maker.done);
    maker.ordered--;
    maker.next = (maker.next + 1) % AHEAD;
    return first;
}

static void drop(struct network network) {
    close(network.entry);
    if (network.sockstat >= 0) close(network.sockstat);
}

void stop_maker(void) {
    if (maker.pid <= 0) return;
    for (const struct network *one; (one = fetch());) drop(*one);
    close(maker.go);
    close(maker.done);
    close(maker.pidfd);
    maker.pid = 0;
}

static void pause_ms(long ms) {
    const struct timespec time = {0, ms * 1000000};
    nanosleep(&time, NULL);
}

/*
 * Sockets that are under way in each other outlive their processes until the kernel's collector finds them, which looks
 * when a socket is closed, whoever's. Until then they count for the user: the next run could send fewer descriptors, or
 * none. What is in their queues, such as pipes, goes up to a tick after the last of them.
 */
static void forget_sockets(int sockstat) {
    static const char none[] = "sockets: used 0\n";
    for (int waited = 0; sockstat >= 0 && waited < COLLECT_MS; waited++) {
        char text[sizeof none] = "";
        if (pread(sockstat, text, sizeof none - 1, 0) < 0) die("sockstat");
        if (strcmp(text, none) == 0) {
            if (waited) pause_ms(TICKS_MS);
            return;
        }
        int one = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (one < 0) die("socket");
        close(one);
        pause_ms(1);
    }
}

void renew_network(void) {
    struct network old = current;
    forget_sockets(old.sockstat);
    const struct network *next = fetch();
    current = next ? *next : make(); /* while the old one lives, so that its number is another */
    drop(old);
}

int network(void) { return current.entry; }
