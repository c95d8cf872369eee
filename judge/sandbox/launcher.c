/*
 * The launcher: what has to happen outside of the container, before bwrap makes it.
 *
 *   agent launch [-j CGROUP_PROCS]... [-m FIRST -s PAIRS] [-n NICE] -- PROGRAM ARG...
 *       joins cgroups, makes a user namespace in which 0 and 1000 are two unprivileged users of the host that no
 *       other live container has (the pair FIRST + 2 * (pid % PAIRS)), executes PROGRAM (bwrap).
 *
 * So the whole container lives in its cgroups from its first instruction, and no process in it, not even its "root",
 * is a user that owns anything on the host.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"

void die(const char *what) {
    fprintf(stderr, "agent: %s: %s\n", what, strerror(errno));
    exit(70);
}

int number(const char *text) {
    char *end;
    long value = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || value < 0 || value > INT32_MAX) {
        errno = EINVAL;
        die(text);
    }
    return (int)value;
}

static void write_text(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) die(path);
    close(fd);
}

/* The maps of a user namespace can be written only from outside of it: by a helper that waits for the unshare. */
static void enter_user_namespace(int first) {
    int gate[2], status;
    char path[64], map[96];
    if (pipe2(gate, O_CLOEXEC) < 0) die("pipe");
    pid_t target = getpid(), helper = fork();
    if (helper < 0) die("fork");
    if (helper == 0) {
        char go;
        close(gate[1]);
        if (read(gate[0], &go, 1) != 1) _exit(1);
        snprintf(map, sizeof map, "0 %d 1\n1000 %d 1\n", first, first + 1);
        snprintf(path, sizeof path, "/proc/%d/uid_map", target);
        write_text(path, map);
        snprintf(path, sizeof path, "/proc/%d/gid_map", target);
        write_text(path, map);
        _exit(0);
    }
    if (unshare(CLONE_NEWUSER) < 0) die("unshare user namespace");
    if (write(gate[1], "g", 1) != 1) die("pipe");
    close(gate[0]);
    close(gate[1]);
    if (waitpid(helper, &status, 0) < 0 || status != 0) die("user namespace maps");
    if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0) die("setresuid");
}

/* What the cgroups limit, or the slot, programs may have without limit, as on any host. Where we may not, it stays. */
static void raise_limits(void) {
    const __rlimit_resource_t all[] = {RLIMIT_AS, RLIMIT_DATA, RLIMIT_RSS, RLIMIT_CPU, RLIMIT_STACK};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct rlimit limit;
        if (getrlimit(all[i], &limit) < 0) die("getrlimit");
        limit.rlim_max = RLIM_INFINITY;
        if (all[i] != RLIMIT_STACK) limit.rlim_cur = RLIM_INFINITY;
        setrlimit(all[i], &limit);
    }
}

int launch(int argc, char **argv) {
    int option, first = -1, pairs = 1;
    while ((option = getopt(argc, argv, "+j:m:s:n:")) != -1) {
        if (option == 'j') {
            write_text(optarg, "0");
        } else if (option == 'm') {
            first = number(optarg);
        } else if (option == 's') {
            pairs = number(optarg);
        } else if (option == 'n') {
            setpriority(PRIO_PROCESS, 0, -number(optarg)); /* a wish: the agent answers soon on a busy core */
        } else {
            return 64;
        }
    }
    raise_limits();
    if (first >= 0) enter_user_namespace(first + 2 * (getpid() % pairs));
    if (optind >= argc) return 64;
    execv(argv[optind], argv + optind);
    die(argv[optind]);
}
