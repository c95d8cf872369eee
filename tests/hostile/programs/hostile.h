/* What the programs here share; the test puts it in place of its #include. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static int through;
/* A call that must fail. Whoever gets through says so, and has a wrong answer. */
#define REFUSED(call)                                            \
    do {                                                         \
        if ((long)(call) != -1) {                                \
            through = 1;                                         \
            dprintf(1, "got through: %s\n", #call);              \
        }                                                        \
    } while (0)
static inline int finish(void) {
    if (!through) dprintf(1, "safe\n");
    return 0;
}
static inline double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
static inline void burn(double seconds) {
    double end = cpu_seconds() + seconds;
    while (cpu_seconds() < end) {
    }
}
