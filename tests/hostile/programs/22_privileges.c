#include "hostile.h"
int main(void) {
    cpu_set_t cpus;
    struct sched_param param = {.sched_priority = 1};
    CPU_ZERO(&cpus);
    for (int i = 0; i < 8; i++) CPU_SET(i, &cpus);
    REFUSED(sched_setaffinity(0, sizeof cpus, &cpus));
    REFUSED(sched_setaffinity(1, sizeof cpus, &cpus));
    REFUSED(setpriority(PRIO_PROCESS, 0, -5));
    REFUSED(setpriority(PRIO_PROCESS, 1, 19));
    errno = 0;
    REFUSED(nice(-1));
    REFUSED(sched_setscheduler(0, SCHED_FIFO, &param));
    REFUSED(sched_setscheduler(0, SCHED_RR, &param));
    uint64_t deadline[6] = {48 | (6ULL << 32), 0, 0, 1000000, 2000000, 2000000};
    REFUSED(syscall(SYS_sched_setattr, 0, deadline, 0));
    uint64_t slice[6] = {48, 0, 0, 100000000}; /* turns of 100 ms */
    REFUSED(syscall(SYS_sched_setattr, 0, slice, 0));
    for (int kind = 1; kind <= 3; kind++) REFUSED(syscall(SYS_ioprio_set, 1, 0, kind << 13));
    for (int resource = 0; resource < RLIM_NLIMITS; resource++) {
        struct rlimit old, more;
        getrlimit(resource, &old);
        /* An unlimited stack and CPU time end at the cgroup's limits; core files are said to be allowed and never made. */
        if (old.rlim_max == RLIM_INFINITY || resource == RLIMIT_CORE) continue;
        more.rlim_cur = more.rlim_max = old.rlim_max + 1;
        REFUSED(setrlimit(resource, &more));
        REFUSED(syscall(SYS_prlimit64, getpid(), resource, &more, NULL));
        REFUSED(syscall(SYS_prlimit64, 1, resource, &more, NULL));
    }
    return finish();
}
