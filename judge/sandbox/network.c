/*
 * The network namespace of a container's runs. agent.c calls this.
 *
 * No device of it is ever up, and the only sockets that runs can make in it are those of the family UNIX, which leave
 * nothing in a namespace once they are gone (docs/decisions/015). So it is used again while the kernel says that there
 * is none in it, and replaced otherwise: no run is ever in one with a socket of another.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"

/* See forget_sockets; the slot waits for 10 s. A tick is 10 ms at most, on a core that is free. */
enum { COLLECT_MS = 8500, STUCK_MS = 1000, TICKS_MS = 100 };

/* Descriptors: the namespace, and its count of sockets. */
static struct network {
    int entry, sockstat;
} current = {-1, -1};

static struct network make(void) {
    if (unshare(CLONE_NEWNET) < 0) die("network namespace");
    struct network made = {open_proc("self/ns/net", O_RDONLY), open_proc("self/net/sockstat", O_RDONLY)};
    if (made.entry < 0) die("network namespace");
    return made;
}

/* Process 1 and what it clones are in the first one; no socket of theirs belongs to it. */
void first_network(void) { current = make(); }

static void drop(struct network network) {
    close(network.entry);
    if (network.sockstat >= 0) close(network.sockstat);
}

static void pause_ms(long ms) {
    const struct timespec time = {0, ms * 1000000};
    nanosleep(&time, NULL);
}

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* How many sockets are in a namespace; -1 when nobody knows. */
static int sockets_in(int sockstat) {
    static const char words[] = "sockets: used ";
    char text[sizeof words + 12] = "";
    if (sockstat < 0) return -1;
    if (pread(sockstat, text, sizeof text - 1, 0) < 0) die("sockstat");
    return strncmp(text, words, sizeof words - 1) == 0 ? atoi(text + sizeof words - 1) : -1;
}

/*
 * Sockets that are under way in each other outlive their processes until the kernel's collector finds them, which looks
 * when any process closes a socket, and needs two ticks for each that lies in another. Until then they and what is in
 * their queues count for the user: the next run could send fewer descriptors, or none. Pipes in a queue go up to a tick
 * after the last of them. 0 when it is not known that all are gone.
 */
static int forget_sockets(int sockstat) {
    int count, least = INT_MAX, waited = 0;
    for (long begin = now_ms(), since = begin; (count = sockets_in(sockstat)) != 0; waited = 1) {
        long now = now_ms();
        if (count < least) {
            least = count;
            since = now;
        }
        if (count < 0 || now - since > STUCK_MS || now - begin > COLLECT_MS) return 0;
        int one = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (one < 0) die("socket");
        close(one);
        pause_ms(1);
    }
    if (waited) pause_ms(TICKS_MS);
    return 1;
}

void renew_network(void) {
    struct network old = current;
    if (forget_sockets(old.sockstat)) return;
    current = make(); /* while the old one lives, so that its number is another */
    drop(old);
}

int network(void) { return current.entry; }
