#include "hostile.h"
/* Who tidies up after a run uses CPU time for it, and is there in the next run: whoever reads that clock knows. */
int main(void) {
    char what[16] = "", name[64];
    if (read(0, what, sizeof what - 1) < 1) return 1;
    for (int i = 0; what[0] == 'l' && what[1] == 'e' && i < 10000; i++) {
        snprintf(name, sizeof name, "/scratch/%d", i);
        close(open(name, O_CREAT | O_WRONLY, 0600));
    }
    for (int pid = 1; pid < getpid(); pid++)
        for (int kind = 0; kind < 8; kind++) {
            int number = (int)(~(unsigned)pid << 3 | (unsigned)kind);
            struct timespec seen = {0, 0};
            timer_t timer;
            if (syscall(SYS_clock_gettime, number, &seen) == 0)
                printf("clock %d of %d is at %ld.%09ld\n", kind, pid, (long)seen.tv_sec, seen.tv_nsec);
            if (syscall(SYS_clock_gettime, (long)(unsigned)number, &seen) == 0) printf("with no sign as well\n");
            if (syscall(SYS_timer_create, number, NULL, &timer) == 0) printf("a timer by clock %d of %d\n", kind, pid);
            if (syscall(SYS_clock_nanosleep, number, TIMER_ABSTIME, &seen, NULL) == 0) printf("slept by %d of %d\n", kind, pid);
        }
    struct timespec own;
    clockid_t clock;
    if (clock_getcpuclockid(0, &clock) || clock_gettime(clock, &own) < 0) printf("no clock of its own\n");
    puts(what[0] == 'l' && what[1] == 'e' ? "left" : "clean");
    return 0;
}
