#include "hostile.h"
/* What has a bound of its own. All sessions of one user have it together. */
int main(void) {
    int timers = 0, signals = 0;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    timer_t timer;
    signal(SIGRTMIN, SIG_IGN);
    while (timers < 100000 && timer_create(CLOCK_MONOTONIC, &event, &timer) == 0) {
        struct itimerspec soon = {{0, 1000}, {0, 1000}};
        timer_settime(timer, 0, &soon, NULL);
        timers++;
    }
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    while (signals < 100000 && sigqueue(getpid(), SIGRTMIN + 1, (union sigval){0}) == 0) signals++;
    if (timers > 1024 || signals > 1024) printf("%d timers, %d signals\n", timers, signals);
    for (int i = 0; i < 4; i++)
        if (fork() == 0) { /* no more for having children */
            int more = 0;
            while (more < 2000 && sigqueue(getpid(), SIGRTMIN + 1, (union sigval){0}) == 0) more++;
            _exit(more + signals > 1100);
        }
    for (int i = 0, status; i < 4 && wait(&status) > 0; i++)
        if (status) printf("a child has more\n"), fflush(stdout);
    size_t size = 4 << 20;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REFUSED(mlock(memory, size));
    REFUSED(mlockall(MCL_CURRENT | MCL_FUTURE));
    REFUSED(mmap(NULL, 2 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0));
    REFUSED(memfd_create("huge", MFD_HUGETLB));
    REFUSED(syscall(SYS_shmget, 1, 2 << 20, 04000 | 01600));
    REFUSED(madvise(memory, size, 12)); /* MADV_MERGEABLE: the host's KSM */
    REFUSED(open("/dev/ptmx", O_RDWR)); /* terminals' buffers are in no account */
    REFUSED(posix_openpt(O_RDWR));
    uint64_t context = 0;
    REFUSED(syscall(SYS_io_setup, 1, &context));
    return finish();
}
