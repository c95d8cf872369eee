#include "hostile.h"
int main(void) {
    int signals[] = {SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGSTOP, SIGSEGV, SIGCHLD};
    for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++) {
        REFUSED(kill(getppid(), signals[i]));
        REFUSED(kill(1, signals[i]));
        kill(-1, signals[i]); /* says 0 too when there are others, and none that it may hit; the next test needs them alive */
        REFUSED(syscall(SYS_tgkill, 1, 1, signals[i]));
    }
    for (int pid = 2; pid < 2000; pid++)
        if (pid != getpid()) REFUSED(kill(pid, SIGKILL));
    REFUSED(syscall(SYS_pidfd_send_signal, syscall(SYS_pidfd_open, 1, 0), SIGKILL, NULL, 0));
    return finish();
}
